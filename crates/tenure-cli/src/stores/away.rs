//! A store that is away when a verb begins: it is asked again until it answers, for as long as the user has said. What begins on many hosts at
//! one time, such as a nightly job, is not to be over on all of them because a server was failing over just then.

use super::{Missing, Url};
use crate::exit::{Failure, UNAVAILABLE};
use crate::nonces::digest;
use crate::output::{self, RepeatedNote};
use crate::supervise::signals::Signals;
use crate::text::brief;
use std::time::Duration;
use tenure::HolderId;
use tenure::clock::{boottime, holder_name, system};

/// Waits until the store answers, whatever it says: that is for the verb to tell. A file is there or is made; nobody waits for one.
pub(crate) async fn wait_for(url: &Url, limit: Duration) -> Result<(), Failure> {
    if limit.is_zero() || !matches!(url, Url::Service(_)) {
        return Ok(());
    }
    let mut signals = Signals::listen()?;
    signals.unless(until_reached(limit, async || ask(url).await)).await?
}

async fn ask(url: &Url) -> Result<(), Failure> {
    #[cfg(feature = "less")]
    if let Some(place) = url.of_less()? {
        return place.open(system()).await.map(drop);
    }
    // Where nothing is made, and nothing is said.
    url.open(Missing::Refuse, system()).await.map(drop)
}

async fn until_reached(
    limit: Duration,
    mut ask: impl AsyncFnMut() -> Result<(), Failure>,
) -> Result<(), Failure> {
    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(4);
    let begun = boottime();
    // Who began at the same time does not ask at the same times.
    let share = HolderId::new(holder_name()).map_or(0, |holder| digest("away", &holder) % 500);
    let (mut pause, mut trouble, mut was_away) = (FIRST, RepeatedNote::default(), false);
    loop {
        match ask().await {
            Err(failure) if failure.code == UNAVAILABLE => {
                let waited = boottime().saturating_sub(begun);
                if waited >= limit {
                    let text = format!("{failure} (for {} now, as --await-store says)", brief(limit));
                    return Err(Failure::new(UNAVAILABLE, text));
                }
                was_away = true;
                trouble.say(format!("{failure}; waiting for it for up to {}", brief(limit)));
                let own = pause.mul_f64(1.0 - 0.001 * share as f64);
                tokio::time::sleep(own.min(limit.saturating_sub(waited))).await;
                pause = (pause * 2).min(LONGEST);
            }
            _ => break,
        }
    }
    if was_away {
        output::tell("the store answers now");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    //! Plan: in simulated time. What is away is asked again until it answers or says something else; at the end of the time the last failure is told.
    use super::*;
    use crate::exit::USAGE;

    fn away() -> Result<(), Failure> {
        Err(Failure::new(UNAVAILABLE, "nobody listens"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_away_is_asked_again_until_it_answers() {
        for last in [Ok(()), Err(Failure::new(USAGE, "no such user"))] {
            let (mut asked, mut last) = (0, Some(last));
            let reached = until_reached(Duration::from_secs(3600), async || {
                asked += 1;
                if asked < 20 { away() } else { last.take().unwrap() }
            });
            reached.await.unwrap();
            assert_eq!(asked, 20);
        }
    }

    #[tokio::test]
    async fn at_the_end_of_the_time_the_last_failure_is_told() {
        let mut asked = 0;
        let reached = until_reached(Duration::from_millis(20), async || {
            asked += 1;
            away()
        });
        let failure = reached.await.unwrap_err();
        assert!(asked == 2 && failure.code == UNAVAILABLE, "{asked}: {failure}");
        assert!(failure.text.contains("nobody listens (for 20ms now"), "{failure}");
    }
}
