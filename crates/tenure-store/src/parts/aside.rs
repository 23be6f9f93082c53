//! Work that may block, beside whoever must not.

use std::time::Duration;
use tenure_core::StoreError;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

/// How many threads may be stuck at a time, where files are on a network that hangs and stores are opened again and again.
const MOST: usize = 16;
static PLACES: Semaphore = Semaphore::const_new(MOST);
/// How long one is waited for. Whatever takes longer hangs, and the next one would, too.
const PLACE_WAIT: Duration = Duration::from_secs(2);

/// Does what may block, as reading a file does, on a thread of its own. The work is within the runtime of whoever asks, which needs timers.
///
/// # Errors
/// Those of the work. `Unavailable`, which names `what` is done: it takes longer than `limit`, no thread can be had, or too many hang in earlier work.
///
/// # Cancel safety
/// The work goes on, and what comes of it is dropped.
pub async fn aside<T, F>(what: &str, limit: Duration, work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    aside_at(&PLACES, what, limit, work).await
}

async fn aside_at<T, F>(
    places: &'static Semaphore,
    what: &str,
    limit: Duration,
    work: F,
) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    let failed = |why: &dyn std::fmt::Display| StoreError::unavailable(format!("{what}: no thread ({why})"));
    let working = async {
        let place = tokio::time::timeout(PLACE_WAIT, places.acquire()).await;
        let place = place.map_err(|_| stuck(what))?.map_err(|error| failed(&error))?;
        let (reply, answer) = oneshot::channel();
        let runtime = Handle::current();
        // Not one of a runtime's own: such a one would keep it from ending.
        let work = move || {
            let _within = runtime.enter();
            // Whoever asked may have gone.
            let _ = reply.send(work());
            drop(place);
        };
        std::thread::Builder::new()
            .name("tenure-aside".into())
            .spawn(work)
            .map_err(|error| failed(&error))?;
        answer.await.unwrap_or_else(|error| Err(failed(&error)))
    };
    let late = || {
        StoreError::unavailable(format!("{what} takes longer than {limit:?}; is it on a network that hangs?"))
    };
    tokio::time::timeout(limit, working).await.unwrap_or_else(|_| Err(late()))
}

/// What hangs is not this.
fn stuck(what: &str) -> StoreError {
    StoreError::unavailable(format!(
        "{what} was not begun, as {MOST} files hang that were to be read before; are they on a network that is away? All goes on once it is back, or in a new process"
    ))
}

#[cfg(test)]
mod tests {
    //! Plan: what comes of the work; a runtime around it; what hangs holds up no task, and is told by its name; what
    //! comes where too much hangs is told so, soon.
    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    #[tokio::test]
    async fn work_is_done_within_the_runtime_on_another_thread() {
        let here = std::thread::current().id();
        let work = move || Ok((std::thread::current().id() != here, Handle::try_current().is_ok()));
        assert_eq!(aside("reading", LONG, work).await, Ok((true, true)));
        let refusal = StoreError::invalid("no");
        let refused = refusal.clone();
        assert_eq!(aside("reading", LONG, move || Err::<(), _>(refused)).await, Err(refusal));
    }

    #[tokio::test]
    async fn what_hangs_holds_up_nobody_and_is_told() {
        let (_ends, ended) = std::sync::mpsc::channel::<()>();
        let hanging = aside("reading", Duration::from_millis(20), move || Ok(ended.recv().is_ok()));
        let text = hanging.await.unwrap_err().to_string();
        assert!(text.contains("reading takes longer than 20ms"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn what_comes_where_too_much_hangs_is_told_so_soon() {
        static ONE: Semaphore = Semaphore::const_new(1);
        let (ends, ended) = std::sync::mpsc::channel::<()>();
        assert!(aside_at(&ONE, "reading", LONG, move || Ok(ended.recv().is_ok())).await.is_err());
        let next = tokio::time::timeout(LONG / 2, aside_at(&ONE, "reading b", LONG, || Ok(())));
        let text = next.await.expect("it waits as if it hung itself").unwrap_err().to_string();
        assert!(text.contains("reading b was not begun") && text.contains("network"), "{text}");
        drop(ends);
        // What hung is over, and makes room.
        while ONE.available_permits() == 0 {
            std::thread::yield_now();
        }
    }
}
