//! Whom a process waits for that has nothing to run: units that others have are told of, as other verbs tell by whom a key is held.

use super::{Event, Scheduler};
use crate::output;
use crate::verbs::waiting::current_holder;
use crate::work::job::board::Board;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{Key, Leases};

/// Others are done a moment later at the end of most jobs, which needs no words.
const SOON: Duration = Duration::from_secs(2);
/// Between two looks after that: one record is read, and whoever has taken over a unit of a dead process is told.
const AGAIN: Duration = Duration::from_secs(10);
/// Between two lines about different units, of which others may do many; and between two looks at most, where nobody is found.
const SELDOM: Duration = Duration::from_secs(60);
/// So many units are looked at, where the first of them have come to their ends meanwhile.
const FEW: usize = 8;

/// The wait for units that others have.
#[derive(Default)]
pub(super) struct OthersUnits {
    /// When to look who has them; none while something is done here.
    next_look: Option<Duration>,
    /// How long it is waited after a look that has found nobody; it grows with each. Zero where the last one has found somebody.
    pause: Duration,
    /// The last unit of the present look, and the last one of the looks before that have found nobody.
    looked_at: Option<Key>,
    in_vain: Option<Key>,
    /// The unit, and who has it, as that was told last.
    told: Option<(String, String)>,
    /// Not before this is another unit told of.
    next_unit: Duration,
    /// How many units others had at the last look.
    elsewhere: usize,
}

impl OthersUnits {
    /// Whether it is time to look. `is_idle`: nothing is done here.
    fn is_due(&mut self, is_idle: bool, now: Duration) -> bool {
        if !is_idle {
            *self = OthersUnits { told: self.told.take(), ..OthersUnits::default() };
            return false;
        }
        now >= *self.next_look.get_or_insert(now + SOON)
    }

    /// How many units others have, as far as that was looked for; none while something is done here.
    pub(super) fn elsewhere(&self) -> usize {
        self.elsewhere
    }

    /// The units that are looked at now, of all that others have: those behind the ones that were looked at in vain, and the first ones after these.
    fn choose(&mut self, board: &Board) -> Vec<Key> {
        let last = self.in_vain.as_ref();
        let behind = board.others().filter(|key| Some(*key) > last);
        let again = board.others().filter(|key| Some(*key) <= last);
        let units: Vec<Key> = behind.chain(again).take(FEW).cloned().collect();
        self.looked_at = units.last().cloned();
        units
    }

    /// What is to be told of this unit, if that is new, and somebody waits still. `more`: how many others are waited for.
    fn found(&mut self, unit: String, whom: String, more: usize, now: Duration) -> Option<String> {
        self.pause = Duration::ZERO;
        let next = self.next_look?;
        self.next_look = Some(next.min(now + AGAIN));
        let is_due = match &self.told {
            Some((told, holder)) if *told == unit => *holder != whom,
            _ => now >= self.next_unit,
        };
        if !is_due {
            return None;
        }
        self.next_unit = now + SELDOM;
        let (unit, whom) = self.told.insert((unit, whom));
        let more = if more == 0 { String::new() } else { format!(", and for {more} more") };
        Some(format!("waiting for {unit}, held by {whom}{more}"))
    }

    /// Nobody has those that were looked at any more. Which ones others have is soon known better here; where it is not, looks are ever rarer.
    fn found_nobody(&mut self, now: Duration) {
        let Some(next) = self.next_look else { return };
        self.pause = (self.pause * 2).clamp(SOON, SELDOM);
        self.next_look = Some(next.min(now + self.pause));
        self.in_vain = self.looked_at.take();
    }
}

/// The first of these units that somebody has: how many come before it, what it is called, and who has it.
async fn first_held(leases: &Leases, units: Vec<(Key, String)>) -> Option<(usize, String, String)> {
    for (before, (key, unit)) in units.into_iter().enumerate() {
        if let Some(holder) = current_holder(leases, &key).await {
            return Some((before, unit, holder.whom));
        }
    }
    None
}

impl Scheduler {
    /// Looks who has what this process waits for, if it does.
    pub(super) fn look_for_others(&mut self, now: Duration) {
        let under_way = self.slots.tasks() + self.pending.count() + self.outputs.unwritten();
        let is_idle = self.stop.is_none() && under_way == 0 && !self.incoming.is_open();
        if !self.others.is_due(is_idle, now) {
            return;
        }
        let chosen = self.others.choose(&self.board).into_iter();
        let units: Vec<(Key, String)> = chosen.map(|key| (key.clone(), self.name_of(&key))).collect();
        let count = self.board.others().count();
        self.others.elsewhere = count;
        self.others.next_look = Some(now + if count > 0 { SELDOM } else { SOON });
        if count == 0 {
            return;
        }
        let (leases, sender) = (self.leases.clone(), self.sender.clone());
        tokio::spawn(async move {
            let found = first_held(&leases, units).await;
            let before = found.as_ref().map_or(0, |(before, ..)| *before);
            let found = found.map(|(_, unit, whom)| (unit, whom));
            let _over = sender.send(Event::Others { found, more: count - before - 1 });
        });
    }

    /// This was found of who has the units that are waited for.
    pub(super) fn on_others(&mut self, found: Option<(String, String)>, more: usize) {
        match found {
            Some((unit, whom)) => {
                self.others.found(unit, whom, more, boottime()).into_iter().for_each(output::tell);
            }
            None => self.others.found_nobody(boottime()),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: nothing is looked for while something is done here, nor soon after that; each holder is told once, another one of a unit
    //! soon, other units seldom, and nobody once the wait is over; units
    //! that have come to their ends hide no other, and where there is no other it is looked again soon, then ever more seldom, and at other units.
    use super::*;
    use crate::work::job::board::Local;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn who_has_nothing_to_do_looks_for_others_after_a_while() {
        let mut others = OthersUnits::default();
        let mut due = |is_idle, at: u32| others.is_due(is_idle, SECOND * at);
        assert_eq!([due(true, 10), due(true, 11), due(true, 12)], [false, false, true]);
        assert_eq!(
            [due(false, 13), due(true, 14), due(true, 15), due(true, 16)],
            [false, false, false, true]
        );
    }

    #[test]
    fn each_holder_is_told_once_and_nobody_who_is_waited_for_no_more() {
        let mut others = OthersUnits::default();
        let mut found = |is_idle, whom: &str, more| {
            others.is_due(is_idle, SECOND);
            others.found("u".to_owned(), whom.to_owned(), more, SECOND)
        };
        assert_eq!(found(false, "a", 0), None);
        assert_eq!(found(true, "a", 0).as_deref(), Some("waiting for u, held by a"));
        assert_eq!(found(true, "a", 1), None);
        assert_eq!(found(true, "b", 2).as_deref(), Some("waiting for u, held by b, and for 2 more"));
    }

    #[test]
    fn who_has_taken_a_unit_over_is_told_soon_and_other_units_seldom() {
        let mut others = OthersUnits::default();
        let mut found = |at: u32, unit: &str, whom: &str| {
            let now = SECOND * at;
            others.next_look = Some(now + SELDOM);
            let told = others.found(unit.to_owned(), whom.to_owned(), 0, now).is_some();
            (told, others.next_look.unwrap() - now)
        };
        assert_eq!(found(2, "u", "dead"), (true, AGAIN));
        assert_eq!(found(12, "u", "b"), (true, AGAIN), "it has another holder");
        assert_eq!(found(22, "u", "b"), (false, AGAIN));
        let others = [found(32, "v", "b"), found(71, "w", "b"), found(72, "x", "b")];
        assert_eq!(others.map(|(told, _)| told), [false, false, true]);
    }

    #[tokio::test]
    async fn a_unit_that_has_come_to_its_end_hides_no_other() {
        let store = tenure::memory();
        let (there, here) = (Leases::new(store.clone()).unwrap(), Leases::new(store).unwrap());
        let units = ["a", "b", "c"].map(|unit| (Key::new(unit).unwrap(), unit.to_owned())).to_vec();
        assert_eq!(first_held(&here, units.clone()).await, None);
        let guard = there.acquire("b").await.unwrap();
        let (before, unit, whom) = first_held(&here, units).await.unwrap();
        assert_eq!((before, unit.as_str()), (1, "b"));
        assert!(whom.starts_with(there.holder().as_str()), "{whom}");
        guard.release().await;
    }

    #[test]
    fn where_nobody_was_found_it_is_looked_again_soon() {
        let mut others = OthersUnits { next_look: Some(SECOND * 64), ..OthersUnits::default() };
        others.found_nobody(SECOND * 4);
        assert_eq!([5, 6].map(|at| others.is_due(true, SECOND * at)), [false, true]);
        others.is_due(false, SECOND * 7);
        others.found_nobody(SECOND * 8);
        assert_eq!(others.next_look, None, "somebody is at work here");
    }

    #[test]
    fn where_nobody_is_found_again_and_again_it_is_looked_ever_more_seldom() {
        let mut others = OthersUnits::default();
        let mut pause = || {
            others.next_look = Some(SECOND + SELDOM);
            others.found_nobody(SECOND);
            others.next_look.unwrap() - SECOND
        };
        assert_eq!([(); 7].map(|()| pause().as_secs()), [2, 4, 8, 16, 32, 60, 60]);
        others.found("u".to_owned(), "a".to_owned(), 0, SECOND);
        others.found_nobody(SECOND);
        assert_eq!(others.next_look, Some(SECOND * 3), "somebody was found in between");
    }

    #[test]
    fn those_that_were_looked_at_in_vain_hide_no_other() {
        let keys: Vec<Key> = (0..20).map(|n| Key::new(format!("work/j/{n:02}")).unwrap()).collect();
        let mut board = Board::default();
        keys.iter().for_each(|key| board.note_new(key.clone(), Local::Open));
        board.merge();
        keys.iter().for_each(|key| board.leave_to_others(key));
        let mut others = OthersUnits { next_look: Some(SECOND), ..OthersUnits::default() };
        assert_eq!(others.choose(&board), keys[..8]);
        others.found_nobody(SECOND);
        assert_eq!(others.choose(&board), keys[8..16]);
        // Somebody who was found is looked for there again.
        others.found("u".to_owned(), "a".to_owned(), 0, SECOND);
        assert_eq!(others.choose(&board), keys[8..16]);
        others.found_nobody(SECOND);
        assert_eq!(others.choose(&board), [&keys[16..], &keys[..4]].concat());
        others.is_due(false, SECOND);
        assert_eq!(others.choose(&board), keys[..8], "this process was at work in between");
    }
}
