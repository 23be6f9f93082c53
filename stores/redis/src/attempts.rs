//! Attempts to connect, of which the first that succeeds is taken.

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::time::Duration;
use tokio::time::sleep;

/// How long who is likely to answer is waited for alone. A server that is dead, or stopped, says nothing.
pub(crate) const HEAD_START: Duration = Duration::from_millis(250);

/// Whom to try at the same time, and how long to wait for them before others are tried besides.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rank<T> {
    pub(crate) members: Vec<T>,
    pub(crate) patience: Duration,
}

/// One after the other, each with a head start. The last one begins before half of `timeout` is over.
pub(crate) fn in_turn<T>(all: Vec<T>, timeout: Duration) -> impl Iterator<Item = Rank<T>> {
    let count = all.len();
    let patience = HEAD_START.min(timeout / 2 / u32::try_from(count).unwrap_or(u32::MAX).max(1));
    all.into_iter().enumerate().map(move |(place, one)| {
        let is_last = place + 1 == count;
        Rank { members: vec![one], patience: if is_last { Duration::MAX } else { patience } }
    })
}

/// The first success. Each rank is tried once those before it have failed, or have had their time. An error that `tells` is told rather than
/// others, and before whoever waits for as long as `timeout` has given up. None: there was nobody to try.
pub(crate) async fn first_by<T, C, E, F>(
    ranks: impl IntoIterator<Item = Rank<T>>,
    timeout: Duration,
    tells: fn(&E) -> bool,
    attempt: impl Fn(T) -> F,
) -> Result<C, Option<E>>
where
    F: Future<Output = Result<C, E>>,
{
    let mut attempts = FuturesUnordered::new();
    let mut failure: Option<E> = None;
    let mut late = std::pin::pin!(sleep(timeout * 3 / 4));
    for rank in ranks {
        attempts.extend(rank.members.into_iter().map(&attempt));
        let mut others = std::pin::pin!(sleep(rank.patience));
        loop {
            tokio::select! {
                done = attempts.next() => match done {
                    Some(Ok(made)) => return Ok(made),
                    Some(Err(error)) if !failure.as_ref().is_some_and(tells) || tells(&error) => {
                        failure = Some(error);
                    }
                    Some(Err(_)) => {}
                    None => break,
                },
                () = &mut others => break,
                () = &mut late, if failure.as_ref().is_some_and(tells) => break,
            }
        }
    }
    Err(failure)
}
