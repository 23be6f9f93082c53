//! Numbers for the workers of this process, so that what is told of them has few names however many come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tenure_core::fleet::FleetName;

/// The workers that there are in this process, and the names that there have been: nobody takes back what was measured under one.
struct Seats {
    /// The numbers that are taken, by the name of a fleet.
    taken: BTreeMap<String, BTreeSet<u64>>,
    /// A fleet and a number.
    known: BTreeSet<(String, u64)>,
}

impl Seats {
    /// Workers beyond so many names are told of as those of one fleet.
    const MOST: usize = 512;
    /// That fleet.
    const OTHER: &str = "other";

    const fn new() -> Seats {
        Seats { taken: BTreeMap::new(), known: BTreeSet::new() }
    }

    fn take(&mut self, fleet: &str) -> (String, u64) {
        let own = (fleet.to_owned(), self.least_free(fleet));
        let seat = if self.known.contains(&own) || self.known.len() < Self::MOST {
            self.known.insert(own.clone());
            own
        } else {
            (Self::OTHER.to_owned(), self.least_free(Self::OTHER))
        };
        self.taken.entry(seat.0.clone()).or_default().insert(seat.1);
        seat
    }

    fn least_free(&self, fleet: &str) -> u64 {
        let Some(numbers) = self.taken.get(fleet) else { return 0 };
        (0..).find(|number| !numbers.contains(number)).unwrap_or(u64::MAX)
    }

    fn leave(&mut self, (fleet, number): &(String, u64)) {
        let Some(numbers) = self.taken.get_mut(fleet) else { return };
        numbers.remove(number);
        if numbers.is_empty() {
            self.taken.remove(fleet);
        }
    }
}

static SEATS: Mutex<Seats> = Mutex::new(Seats::new());

fn seats() -> MutexGuard<'static, Seats> {
    // No code that can panic runs under the lock.
    SEATS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The least number that no other worker of this process has in its fleet, until it is dropped.
#[derive(Debug)]
pub(super) struct WorkerSeat((String, u64));

impl WorkerSeat {
    pub(super) fn take(fleet: &FleetName) -> WorkerSeat {
        WorkerSeat(seats().take(fleet.as_str()))
    }

    /// The fleet's name as it is told, which is another where there have been too many.
    pub(super) fn fleet(&self) -> &str {
        &self.0.0
    }

    pub(super) fn number(&self) -> u64 {
        self.0.1
    }
}

impl Drop for WorkerSeat {
    fn drop(&mut self) {
        seats().leave(&self.0);
    }
}

#[cfg(test)]
mod tests {
    //! Plan: numbers of one fleet are its own, and those that are free are given again; however many fleets and workers come and go, names are few, and no
    //! two workers share one.
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
        let third = WorkerSeat::take(&fleet);
        assert_eq!((third.fleet(), third.number()), ("seats", 0));
        drop((second, third));
        assert!(!seats().taken.contains_key("seats"), "nothing is kept of those that are gone");
    }

    #[test]
    fn names_are_few_however_many_fleets_and_workers_come_and_go() {
        let mut seats = Seats::new();
        let mut all = BTreeSet::new();
        for n in 0..5000 {
            let fleet = format!("batch-{n}");
            let here: Vec<_> = (0..3).map(|_| seats.take(&fleet)).collect();
            assert_eq!(here.iter().collect::<BTreeSet<_>>().len(), 3, "two have one name: {here:?}");
            here.iter().for_each(|seat| seats.leave(seat));
            all.extend(here);
        }
        assert_eq!(all.len(), Seats::MOST + 3);
        assert_eq!(seats.take("batch-0"), ("batch-0".to_owned(), 0), "who was there before is told of still");
        let known = Seats::MOST + 1;
        assert!(
            seats.known.len() < known && seats.taken.len() == 1,
            "nothing is kept of those that are gone"
        );
    }
}
