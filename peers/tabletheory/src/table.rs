//! The table itself: made on request only; and how far the clock that leases end by is off on this host.

use super::manager::Manager;
use super::options::TableTheoryOptions;
use std::time::Duration;
use tenure_core::{StoreError, Wall};
use tenure_dynamodb::service::Service;

/// How far a host's wall clock is off the service's, at the least. One of both is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockGap {
    /// The host's clock shows so much more: it takes others' leases before they end.
    pub ahead: Duration,
    /// The host's clock shows so much less: others take its leases before they end.
    pub behind: Duration,
}

impl ClockGap {
    /// How much of a gap [`Manager::clock_gap`] may not see, beside the time that a request takes.
    pub const RESOLUTION: Duration = SPACING;

    /// Whichever of both is not zero.
    #[must_use]
    pub fn off(&self) -> Duration {
        self.ahead.max(self.behind)
    }
}

/// Between samples: the service tells whole seconds, so samples this far apart show to about this much when a second begins.
const SPACING: Duration = Duration::from_millis(125);
/// Enough to span a second.
const SAMPLES: usize = 9;

/// Between which bounds the host's clock is ahead of the service's, in ms, by all samples together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Offsets {
    least: i128,
    most: i128,
}

impl Offsets {
    /// The service showed `date`, cut to seconds, between these two looks at the host's clock.
    fn of(before: Wall, after: Wall, date: Wall) -> Offsets {
        let [before, after, date] = [before, after, date].map(|wall| i128::from(wall.0));
        Offsets { least: before - date - 1000, most: after - date }
    }

    /// What both say; or the later one alone, where a clock was set in between.
    fn and(self, later: Offsets) -> Offsets {
        let both = Offsets { least: self.least.max(later.least), most: self.most.min(later.most) };
        if both.least <= both.most { both } else { later }
    }

    fn gap(self) -> ClockGap {
        let span = |ms: i128| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        ClockGap { ahead: span(self.least), behind: span(-self.most) }
    }
}

impl Manager {
    /// Makes a table with the keys that the options name, billed on demand, and waits until it can be used. False if there was
    /// one of that name already, which is left as it is ([`Manager::deletes_by`] tells whether its time to live is on). Items of dead holders are deleted a while after their leases: the new
    /// table's time to live is switched on, by the attribute that the options name, unless they leave it out.
    ///
    /// # Errors
    /// As [`Manager::open`].
    ///
    /// # Cancel safety
    /// The table may have been made, or not.
    pub async fn create_table(options: &TableTheoryOptions) -> Result<bool, StoreError> {
        options.check()?;
        let service = Service::connect(&options.place, options.layout()).await?;
        let is_new = service.create().await?;
        if let Some(attribute) = options.ttl_attribute().filter(|_| is_new) {
            // Another call would find the table, and leave it as it is.
            service.delete_by(attribute).await.map_err(|error| {
                error.about(format_args!(
                    "the table is made, but its time to live is off; switch it on by the attribute {attribute:?}"
                ))
            })?;
        }
        Ok(is_new)
    }

    /// The attribute by which the service deletes items of dead holders (`DescribeTimeToLive`); none while the table's time to live is off.
    ///
    /// # Errors
    /// Those of the service.
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn deletes_by(&self) -> Result<Option<String>, StoreError> {
        self.calls().service.deleted_by().await
    }

    /// Asks the service for its time (`DescribeTable`) again and again for a second, and compares the wall clock with that. A gap
    /// of more than [`ClockGap::RESOLUTION`] and the time of a request is seen.
    ///
    /// # Errors
    /// As [`Manager::open`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn clock_gap(&self) -> Result<ClockGap, StoreError> {
        let mut offsets = self.offsets().await?;
        for _ in 1..SAMPLES {
            tokio::time::sleep(SPACING).await;
            offsets = offsets.and(self.offsets().await?);
        }
        Ok(offsets.gap())
    }

    /// As [`Self::clock_gap`], by one answer: only what is over a second, and the time of a request, is seen.
    ///
    /// # Errors
    /// As [`Manager::open`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn coarse_clock_gap(&self) -> Result<ClockGap, StoreError> {
        Ok(self.offsets().await?.gap())
    }

    async fn offsets(&self) -> Result<Offsets, StoreError> {
        let clock = self.clock();
        let before = clock.now().wall;
        let date = self.calls().service.date(clock).await?;
        Ok(Offsets::of(before, clock.now().wall, date))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what a cut date and the time of a request may explain is no gap; what is beyond that is one, to either side; samples
    //! over a second show a gap to the time between them; a clock that was set meanwhile is judged by what came after.
    use super::*;

    #[test]
    fn only_what_no_cut_and_no_wait_explains_is_a_gap() {
        let gap = |before, after, date| Offsets::of(Wall(before), Wall(after), Wall(date)).gap();
        assert_eq!(gap(5_000, 5_050, 5_000), ClockGap::default());
        assert_eq!(gap(5_999, 6_050, 5_000), ClockGap::default());
        assert_eq!(
            gap(8_990, 9_000, 5_000),
            ClockGap { ahead: Duration::from_millis(2_990), ..Default::default() }
        );
        assert_eq!(
            gap(4_000, 4_400, 5_000),
            ClockGap { behind: Duration::from_millis(600), ..Default::default() }
        );
    }

    #[test]
    fn samples_over_a_second_bound_a_gap_to_the_time_between_them() {
        let spacing = u64::try_from(SPACING.as_millis()).unwrap();
        for phase in (0..1000).step_by(37) {
            for gap in [-900_i64, -400, 0, 300, 900] {
                let sample = |n: u64| {
                    let service = 1_700_000_000_000 + phase + n * (spacing + 5);
                    let host = service.checked_add_signed(gap).unwrap();
                    Offsets::of(Wall(host - 2), Wall(host + 3), Wall(service / 1000 * 1000))
                };
                let all =
                    (1..u64::try_from(SAMPLES).unwrap()).fold(sample(0), |all, n| all.and(sample(n))).gap();
                let (ahead, behind) = (all.ahead.as_millis(), all.behind.as_millis());
                let is_close = |seen: u128, truth: i64| {
                    let truth = u128::try_from(truth).unwrap_or(0);
                    seen <= truth && truth - seen <= u128::from(spacing) + 10
                };
                assert!(is_close(ahead, gap) && is_close(behind, -gap), "phase {phase}, gap {gap}: {all:?}");
            }
        }
        let set = Offsets::of(Wall(9_000), Wall(9_001), Wall(5_000)).and(Offsets::of(
            Wall(5_500),
            Wall(5_501),
            Wall(5_000),
        ));
        assert_eq!(set.gap(), ClockGap::default());
    }
}
