//! The time line of a host, which outlives its processes: the second witness where the store tells no ages.
//!
//! A process that will end before silence is certain leaves a [`Mark`] in the record that it finds. The mark has the readings of this
//! host's clocks. A renewal writes a record without marks. So a later process *of that host* that finds the mark knows that nothing
//! was renewed since. It knows for how long by the host's own line, which no wall clock can move, and by the wall clocks. Both must say that
//! it is more than the ttl. They must agree, within the clock rates and a quarter of the ttl.
//!
//! The name of a boot tells hosts apart. Marks of another host say nothing, since time lines of two boots can't be compared. The
//! remaining lies make a takeover later, and not earlier:
//! - containers of one kernel with boot names of their own: only processes of the same container believe a mark;
//! - machines of one name, such as clones: their lines differ by their pauses, and the wall clocks show that;
//! - a wall clock that jumps: the host's line shows that.

use super::{Drift, Now, Tick, Ttl, Wall};
use crate::bugs::{Bug, Bugs};
use std::time::Duration;

/// The host of a process: what names its present boot, and what its time lines showed when the process's own began. They must be those
/// that all processes of the same name share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Host {
    /// Names the boot. Two time lines of one name are taken for one.
    pub boot: u64,
    /// The line that counts all time, at [`Tick`] 0 of [`Now::held`].
    pub held: Tick,
    /// The line that stands still while the machine is suspended, at [`Tick`] 0 of [`Now::waited`].
    pub waited: Tick,
}

/// What a host's clocks showed before a record was written that nobody has renewed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    /// Names the host's boot.
    pub boot: u64,
    /// Its line that counts all time.
    pub held: Tick,
    /// Its line that stands still while it is suspended.
    pub waited: Tick,
    /// The wall clock of whoever left it.
    pub wall: Wall,
}

/// The most marks that one record carries: one for each host, if that is all that happens.
pub const MARKS: usize = 16;

impl Host {
    /// The present.
    #[must_use]
    pub fn mark(&self, now: Now) -> Mark {
        Mark {
            boot: self.boot,
            held: self.held.after(now.held.since(Tick(0))),
            waited: self.waited.after(now.waited.since(Tick(0))),
            wall: now.wall,
        }
    }

    /// For how long, at least, nothing was renewed, as one of this host's marks tells by two witnesses that agree; none if none does.
    pub(crate) fn since_marked(
        &self,
        now: Now,
        marks: &[Mark],
        ttl: Ttl,
        drift: Drift,
        bugs: Bugs,
    ) -> Option<Duration> {
        let present = self.mark(now);
        let foreign = bugs.has(Bug::ForeignMarkBelieved);
        let ours = marks.iter().filter(|mark| mark.boot == self.boot || foreign);
        ours.filter_map(|mark| present.agreed_since(mark, ttl, drift, bugs)).max()
    }
}

impl Mark {
    fn agreed_since(&self, earlier: &Mark, ttl: Ttl, drift: Drift, bugs: Bugs) -> Option<Duration> {
        let (held, waited) = (self.held.since(earlier.held), self.waited.since(earlier.waited));
        if bugs.has(Bug::MarkWithoutWall) {
            return Some(waited);
        }
        let by_wall = self.wall.since(earlier.wall);
        let most = |span| drift.most(span) + ttl.part(4);
        let agree = by_wall <= most(held) && waited <= most(by_wall);
        (agree || bugs.has(Bug::ForeignMarkBelieved)).then(|| waited.min(by_wall))
    }
}

/// Puts a mark beside those of other hosts. Where there is no room it takes the place of any one: `chance` says of which.
pub(crate) fn leave(marks: &mut Vec<Mark>, mark: Mark, chance: u64) {
    if marks.len() < MARKS {
        return marks.push(mark);
    }
    let at = (chance % MARKS as u64) as usize;
    if let Some(place) = marks.get_mut(at) {
        *place = mark;
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the two witnesses must agree and both are needed, suspends and clock rates are no disagreement, other boots say nothing; a full
    //! record takes a new mark in the place of one.
    use super::*;

    const TTL: Duration = Duration::from_secs(10);

    fn host(boot: u64) -> Host {
        Host { boot, held: Tick(70_000_000_000), waited: Tick(60_000_000_000) }
    }

    /// So many seconds later by each clock.
    fn at(held: u64, waited: u64, wall: i64) -> Now {
        let ticks = |secs| Tick(secs * 1_000_000_000);
        let wall = Wall(1_000_000_000u64.saturating_add_signed(wall * 1000));
        Now { held: ticks(held), waited: ticks(waited), wall }
    }

    fn since(marks: &[Mark], later: &Host, now: Now) -> Option<u64> {
        let ttl = Ttl::clamped(TTL.as_millis() as u64);
        let since = later.since_marked(now, marks, ttl, Drift::default(), Bugs::default());
        since.map(|since| since.as_secs())
    }

    #[test]
    fn s1_a_mark_tells_what_both_witnesses_say() {
        let mark = [host(1).mark(at(0, 0, 0))];
        let tells = |held, waited, wall| since(&mark, &host(1), at(held, waited, wall));
        assert_eq!((tells(0, 0, 0), tells(11, 11, 11)), (Some(0), Some(11)));
        assert_eq!((tells(11, 11, 9), tells(11, 11, 15)), (Some(9), Some(11)), "the lower of the two");
        assert_eq!(tells(3600, 11, 3600), Some(11), "it was suspended");
        assert_eq!(tells(3600, 3600, 2949), Some(2949), "rates that differ as they may");
        assert_eq!((tells(11, 11, 3611), tells(11, 11, -3600)), (None, None), "the wall clock has jumped");
        assert_eq!(
            (tells(3600, 3600, 11), tells(3600, 3600, 2900)),
            (None, None),
            "as on another machine of that name"
        );
    }

    #[test]
    fn s1_a_mark_of_another_boot_says_nothing() {
        let mark = [host(1).mark(at(0, 0, 0))];
        assert_eq!(since(&mark, &host(2), at(11, 11, 11)), None);
    }

    #[test]
    fn a_process_that_began_later_on_the_same_line_counts_on() {
        let later = Host { boot: 1, held: Tick(90_000_000_000), waited: Tick(80_000_000_000) };
        let mark = [host(1).mark(at(5, 5, 0))];
        assert_eq!(since(&mark, &later, at(2, 2, 17)), Some(17));
    }

    #[test]
    fn one_mark_of_several_is_enough_and_a_full_record_takes_one_more() {
        let mut marks = Vec::new();
        for secs in 0..MARKS as u64 {
            leave(&mut marks, host(2).mark(at(secs, secs, 0)), 7);
        }
        leave(&mut marks, host(1).mark(at(20, 20, 0)), 7 + MARKS as u64);
        assert_eq!((marks.len(), marks[7].boot), (MARKS, 1));
        assert_eq!(since(&marks, &host(1), at(31, 31, 11)), Some(11));
    }
}
