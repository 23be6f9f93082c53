//! The table itself: made on request only; and how far the clock that leases end by is off on this host.

use super::calls::Calls;
use super::manager::Manager;
use super::options::Options;
use crate::connect::{connect, harnessed, once};
use crate::dates::Dates;
use crate::{store, table};
use aws_sdk_dynamodb::Client;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{StoreError, Wall};

/// How far a host's wall clock is off the service's, at the least: the service tells whole seconds, and a request takes its
/// time, so that nothing is seen of less than a second. One of both is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockGap {
    /// The host's clock shows so much more: it takes others' leases before they end.
    pub ahead: Duration,
    /// The host's clock shows so much less: others take its leases before they end.
    pub behind: Duration,
}

impl ClockGap {
    /// The service showed `date`, cut to seconds, between these two looks at the host's clock.
    fn between(before: Wall, after: Wall, date: Wall) -> ClockGap {
        let cut = Wall(date.0.saturating_add(1000));
        ClockGap { ahead: before.since(cut), behind: date.since(after) }
    }
}

impl Manager {
    /// Makes a table with the keys that the options name, billed on demand, and waits until it can be used. False if there was
    /// one of that name already, which is left as it is. Where items are to be deleted after their leases (`ttl`), switch that on
    /// yourself.
    ///
    /// # Errors
    /// As [`Manager::open`].
    ///
    /// # Cancel safety
    /// The table may have been made, or not.
    pub async fn create_table(options: &Options) -> Result<bool, StoreError> {
        options.check()?;
        let client = connect(&options.place).await?;
        let client = Client::from_conf(once(&client, options.place.timeout).build());
        let place = store::place(&client, &options.place, options.layout());
        table::create(&client, &place).await
    }

    /// Asks the service for its time (`DescribeTable`), and compares the wall clock with that.
    ///
    /// # Errors
    /// As [`Manager::open`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn clock_gap(&self) -> Result<ClockGap, StoreError> {
        let Calls { client, place, options } = self.calls();
        let clock = self.clock();
        let dates = Dates::new(Arc::clone(clock), options.place.drift);
        let client = harnessed(client, options.place.timeout, dates.clone());
        let before = clock.now().wall;
        table::examine(&client, place, options.place.one_region.as_deref()).await?;
        let after = clock.now().wall;
        let date = dates.at_least().ok_or_else(|| {
            StoreError::unavailable(format!(
                "{place}: its answer has no date; ask the service itself, not a proxy"
            ))
        })?;
        Ok(ClockGap::between(before, after, Wall(date)))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what a cut date and the time of a request may explain is no gap; what is beyond that is one, to either side.
    use super::*;

    #[test]
    fn only_what_no_cut_and_no_wait_explains_is_a_gap() {
        let gap = |before: u64, after: u64| {
            let ClockGap { ahead, behind } = ClockGap::between(Wall(before), Wall(after), Wall(50_000));
            (ahead.as_millis(), behind.as_millis())
        };
        assert_eq!(gap(50_000, 50_000), (0, 0));
        assert_eq!(gap(51_000, 51_200), (0, 0), "the service may have shown 50,999");
        assert_eq!(gap(51_001, 51_200), (1, 0));
        assert_eq!(gap(53_500, 60_000), (2_500, 0));
        assert_eq!(gap(40_000, 50_000), (0, 0), "it may have come right before the answer");
        assert_eq!(gap(40_000, 49_999), (0, 1));
        assert_eq!(gap(40_000, 46_000), (0, 4_000));
    }
}
