//! Others' code that panics: subscribers of `tracing`, recorders of metrics, and stores.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Tells or measures something. Whoever is told may panic: that costs this event, of which the panic's hook has told, and no lease.
pub fn quietly(tell: impl FnOnce()) {
    quietly_or(tell, || ());
}

/// The same of what makes something, which is made otherwise then.
pub fn quietly_or<T>(make: impl FnOnce() -> T, otherwise: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|_| otherwise())
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
}
