//! A store that is away when a verb begins: it is opened again and again until it answers, for as long as the user has said. What begins on many hosts at
//! one time, such as a nightly job, is not to be over on all of them because a server was failing over just then.

use crate::exit::{Failure, UNAVAILABLE};
use crate::nonces::digest;
use crate::output::{self, RepeatedNote};
use crate::text::brief;
use std::time::Duration;
use tenure::HolderId;
use tenure::clock::{boottime, holder_name};

/// What `open` makes, once the store is not away any more. What else is wrong is told at once.
pub(crate) async fn opened<T>(
    limit: Duration,
    mut open: impl AsyncFnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let first = match open().await {
        Err(failure) if failure.code == UNAVAILABLE && !limit.is_zero() => failure,
        result => return result,
    };
    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(4);
    let begun = boottime();
    // Who began at the same time does not ask at the same times.
    let share = HolderId::new(holder_name()).map_or(0, |holder| digest("away", &holder) % 500);
    let (mut pause, mut trouble, mut failure) = (FIRST, RepeatedNote::default(), first);
    loop {
        trouble.say(format!("{failure}; waiting for it for up to {}", brief(limit)));
        let left = limit.saturating_sub(boottime().saturating_sub(begun));
        let own = pause.mul_f64(1.0 - 0.001 * share as f64);
        tokio::time::sleep(own.min(left)).await;
        pause = (pause * 2).min(LONGEST);
        failure = match open().await {
            Err(failure) if failure.code == UNAVAILABLE => failure,
            result => {
                if result.is_ok() {
                    output::tell("the store answers now");
                }
                return result;
            }
        };
        if boottime().saturating_sub(begun) >= limit {
            let text = format!("{failure} (for {} now, as --await-store says)", brief(limit));
            return Err(Failure::new(UNAVAILABLE, text));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: in simulated time. What is away is asked again until it answers or says something else; at the end of the time the last failure is told, and
    //! without such a time at once.
    use super::*;
    use crate::exit::USAGE;

    fn away<T>() -> Result<T, Failure> {
        Err(Failure::new(UNAVAILABLE, "nobody listens"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_is_away_is_asked_again_until_it_answers() {
        for last in [Ok(7), Err(Failure::new(USAGE, "no such user"))] {
            let expected = last.as_ref().map_or_else(|failure| Err(failure.code), |answer| Ok(*answer));
            let (mut asked, mut last) = (0, Some(last));
            let answer = opened(Duration::from_secs(3600), async || {
                asked += 1;
                if asked < 20 { away() } else { last.take().unwrap() }
            });
            assert_eq!(answer.await.map_err(|failure| failure.code), expected);
            assert_eq!(asked, 20);
        }
    }

    #[tokio::test]
    async fn at_the_end_of_the_time_the_last_failure_is_told() {
        for (limit, most, says) in [(0, 1, "nobody listens"), (20, 2, "nobody listens (for 20ms now")] {
            let mut asked = 0;
            let answer = opened(Duration::from_millis(limit), async || {
                asked += 1;
                away::<()>()
            });
            let failure = answer.await.unwrap_err();
            assert!(asked == most && failure.code == UNAVAILABLE, "{asked}: {failure}");
            assert!(failure.text.contains(says), "{failure}");
        }
    }
}
