//! Numbers for the workers of this process, so that what is told of them has few names however many come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenure_core::fleet::FleetName;

/// The numbers that are taken, by fleet.
static TAKEN: Mutex<BTreeMap<FleetName, BTreeSet<u64>>> = Mutex::new(BTreeMap::new());

fn taken() -> MutexGuard<'static, BTreeMap<FleetName, BTreeSet<u64>>> {
    // No code that can panic runs under the lock.
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The least number that no other worker of this process has in its fleet, until it is dropped.
#[derive(Debug)]
pub(super) struct WorkerSeat {
    fleet: FleetName,
    number: u64,
}

impl WorkerSeat {
    pub(super) fn take(fleet: &FleetName) -> WorkerSeat {
        let mut taken = taken();
        let numbers = taken.entry(fleet.clone()).or_default();
        let number = (0..).find(|number| !numbers.contains(number)).unwrap_or(u64::MAX);
        numbers.insert(number);
        WorkerSeat { fleet: fleet.clone(), number }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for WorkerSeat {
    fn drop(&mut self) {
        let mut taken = taken();
        let Some(numbers) = taken.get_mut(&self.fleet) else { return };
        numbers.remove(&self.number);
        if numbers.is_empty() {
            taken.remove(&self.fleet);
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: numbers of one fleet are its own, and those that are free are given again.
    use super::*;

    #[test]
    fn a_number_is_one_workers_and_is_given_again_once_that_one_is_gone() {
        let [fleet, other] = ["seats", "other seats"].map(|name| FleetName::new(name).unwrap());
        let (first, second) = (WorkerSeat::take(&fleet), WorkerSeat::take(&fleet));
        assert_eq!((first.number(), second.number(), WorkerSeat::take(&other).number()), (0, 1, 0));
        for _ in 0..100 {
            assert_eq!(WorkerSeat::take(&fleet).number(), 2);
        }
        drop(first);
        assert_eq!(WorkerSeat::take(&fleet).number(), 0);
        drop(second);
        assert!(!taken().contains_key(&fleet), "nothing is kept of those that are gone");
    }
}
