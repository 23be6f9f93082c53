//! Sleep until a deadline, on a machine that may be suspended meanwhile. The runtime's timers stop then, and clocks that count for leases go on: so long sleeps are cut into naps.

use std::time::Duration;

/// How long to sleep now where so much is `left`, and being `late` by so long does no harm: 30 s at the most, however long that is.
#[must_use]
pub fn nap(left: Duration, late: Duration) -> Duration {
    left.min(late.clamp(Duration::from_millis(1), Duration::from_secs(30)))
}

/// Sleeps until nothing is `left`, which may become more or less meanwhile. Late by no more than [`nap`] says.
///
/// # Cancel safety
/// May be dropped and called again.
pub async fn sleep_while(left: impl Fn() -> Duration, late: Duration) {
    loop {
        let left = left();
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(nap(left, late)).await;
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a nap is no longer than what is left, and neither endless nor nothing; an end that no timer knows of is noticed after one, and what is prolonged is slept through.
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::time::timeout;

    const HOUR: Duration = Duration::from_secs(3600);
    const HALF_A_MINUTE: Duration = Duration::from_secs(30);

    #[test]
    fn a_nap_is_neither_endless_nor_nothing() {
        let second = Duration::from_secs(1);
        assert_eq!(nap(HOUR, HOUR), HALF_A_MINUTE);
        assert_eq!(nap(HOUR, second), second);
        assert_eq!(nap(second, HOUR), second);
        assert_eq!(nap(HOUR, Duration::ZERO), Duration::from_millis(1));
        assert_eq!(nap(Duration::ZERO, HOUR), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn s5_an_end_that_no_timer_knows_of_is_noticed_after_a_nap() {
        let left = AtomicU32::new(24);
        let mut sleep = std::pin::pin!(sleep_while(|| HOUR * left.load(Ordering::SeqCst), HOUR));
        assert!(timeout(HOUR * 48, &mut sleep).await.is_err(), "something is left");
        left.store(0, Ordering::SeqCst);
        assert!(timeout(HALF_A_MINUTE * 2, sleep).await.is_ok());
    }
}
