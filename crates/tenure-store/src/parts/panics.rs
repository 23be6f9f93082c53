//! Others' code that panics: subscribers of `tracing`, recorders of metrics, and stores.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll};
use tenure_core::{ErrorKind, StoreError};

/// Tells or measures something. Whoever is told may panic: that costs this event, of which the panic's hook has told, and no lease.
pub fn quietly(tell: impl FnOnce()) {
    quietly_or(tell, || ());
}

/// The same of what makes something, which is made otherwise then.
pub fn quietly_or<T>(make: impl FnOnce() -> T, otherwise: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|_| otherwise())
}

/// What a panic of a store's code says to whoever asked for a call. Whether a write took effect is not known.
pub fn crashed(kind: ErrorKind, panic: &(dyn Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("it panicked");
    StoreError::new(kind, format!("the store's code failed: {text}"))
}

/// A call, of which a panic is an error of that kind. The task that made the call must not end by it: whoever waits for that task would wait for ever.
///
/// # Errors
/// Those of the call, and [`crashed`].
///
/// # Cancel safety
/// That of the call.
pub async fn caught<T>(
    kind: ErrorKind,
    call: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let mut call = pin!(call);
    let polled = |cx: &mut Context<'_>| {
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx)));
        polled.unwrap_or_else(|panic| Poll::Ready(Err(crashed(kind, &*panic))))
    };
    poll_fn(polled).await
}

/// Tells an event of `tracing`, [quietly](crate::parts::quietly): a subscriber that panics must not end the task that renews a lease. First comes the level, and then
/// what `tracing`'s macro of that level takes.
///
/// ```text
/// tell!(warn, name: "lease.lost", target: "tenure::lease", %key, reason = %loss, "lease lost");
/// ```
///
/// Whoever uses it depends on `tracing`, too.
#[macro_export]
macro_rules! tell {
    ($level:ident, $($event:tt)+) => {
        $crate::parts::quietly(|| {
            ::tracing::$level!($($event)+);
        })
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_whoever_is_told_ends_there() {
        let mut told = 0;
        quietly(|| told += 1);
        quietly(|| panic!("on purpose"));
        assert_eq!(told, 1);
        assert_eq!((quietly_or(|| 1, || 2), quietly_or(|| panic!("on purpose"), || 2)), (1, 2));
    }

    #[tokio::test]
    async fn a_call_that_panics_has_failed_with_what_the_panic_says() {
        assert_eq!(caught(ErrorKind::Unknown, async { Ok(1) }).await, Ok(1));
        let fails = async |text: Option<u32>| -> Result<(), StoreError> {
            match text {
                None => panic!("on purpose"),
                Some(number) => panic!("on purpose, the {number}th time"),
            }
        };
        for (text, says) in [(None, "on purpose"), (Some(7), "on purpose, the 7th time")] {
            let error = caught(ErrorKind::Unavailable, fails(text)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.to_string().ends_with(&format!("the store's code failed: {says}")), "{error}");
        }
    }
}
