//! Conditions to wait for, and times that are measured.

use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine.
pub const LONG: Duration = Duration::from_secs(180);

/// Polls until there is something.
#[track_caller]
pub fn wait_for<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONG;
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(Instant::now() < end, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(what, || condition().then_some(()));
}

/// Measures until it took at most so many milliseconds, but not for ever: a machine that stands still for a second is no fault
/// of what is measured, and does not do so each time.
#[track_caller]
pub fn takes_at_most(limit: i64, mut measure: impl FnMut() -> i64) {
    let mut all = Vec::new();
    while all.len() < 5 {
        let took = measure();
        if took <= limit {
            return;
        }
        all.push(took);
    }
    panic!("{all:?} ms, always more than {limit} ms");
}

/// Now, in Unix milliseconds, as commands write it with `date +%s%3N`.
pub fn now_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    i64::try_from(now.as_millis()).unwrap()
}
