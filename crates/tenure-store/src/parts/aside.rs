//! Work that may block, beside whoever must not.

use std::time::Duration;
use tenure_core::StoreError;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};

/// How many threads may be stuck at a time, where files are on a network that hangs and stores are opened again and again.
static PLACES: Semaphore = Semaphore::const_new(16);

/// Does what may block, as reading a file does, on a thread of its own. The work is within the runtime of whoever asks, which needs timers.
///
/// # Errors
/// Those of the work. `Unavailable`, which names `what` is done: it takes longer than `limit`, or no thread can be had.
///
/// # Cancel safety
/// The work goes on, and what comes of it is dropped.
pub async fn aside<T, F>(what: &str, limit: Duration, work: F) -> Result<T, StoreError>
where
    T: Send + 'static,
    F: FnOnce() -> Result<T, StoreError> + Send + 'static,
{
    let failed = |why: &dyn std::fmt::Display| StoreError::unavailable(format!("{what}: no thread ({why})"));
    let working = async {
        let place = PLACES.acquire().await.map_err(|error| failed(&error))?;
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

#[cfg(test)]
mod tests {
    //! Plan: what comes of the work; a runtime around it; what hangs holds up no task, and is told by its name.
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
}
