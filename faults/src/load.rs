//! How busy the host is: by how much it wakes a thread late that does nothing but sleep. What tenure promises is bounds of time on a host
//! that has time for it; with this, a bound needs no room for the worst host.

use crate::raw;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);
/// What is remembered: longer than any episode of a fault and what follows.
const REMEMBERED: usize = 60_000;

/// Looks for as long as this value lives.
#[derive(Debug, Default)]
pub(crate) struct HostLoad {
    /// When it woke, and how late.
    wakes: Mutex<VecDeque<(u64, Duration)>>,
}

impl HostLoad {
    pub(crate) fn watch() -> Arc<HostLoad> {
        let load = Arc::new(HostLoad::default());
        let weak = Arc::downgrade(&load);
        std::thread::spawn(move || watch(&weak));
        load
    }

    fn woke(&self, at: u64, late: Duration) {
        let mut wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        wakes.push_back((at, late));
        if wakes.len() > REMEMBERED {
            wakes.pop_front();
        }
    }

    /// The latest that a thread was woken between then and then.
    pub(crate) fn worst(&self, from: u64, to: u64) -> Duration {
        let wakes = self.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        let between = wakes.iter().rev().skip_while(|(at, _)| *at > to + PAUSE.as_nanos() as u64);
        between.take_while(|(at, _)| *at >= from).map(|(_, late)| *late).max().unwrap_or_default()
    }
}

fn watch(load: &Weak<HostLoad>) {
    let mut asleep = raw::now();
    while let Some(load) = load.upgrade() {
        std::thread::sleep(PAUSE);
        let awake = raw::now();
        load.woke(awake, Duration::from_nanos(awake - asleep).saturating_sub(PAUSE));
        asleep = awake;
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what was late counts for the time in which it was, and for no other.
    use super::*;

    #[test]
    fn what_was_late_counts_for_its_time() {
        let load = HostLoad::default();
        let ms = |n: u64| Duration::from_millis(n);
        for (at, late) in [(1, 0), (7, 2), (90, 77), (96, 1)] {
            load.woke(at * 1_000_000, ms(late));
        }
        assert_eq!(load.worst(0, 50_000_000), ms(2));
        assert_eq!(load.worst(50_000_000, 100_000_000), ms(77));
        assert_eq!(load.worst(92_000_000, 200_000_000), ms(1));
        assert_eq!(load.worst(200_000_000, 300_000_000), ms(0));
    }
}
