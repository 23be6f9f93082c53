//! What goes wrong with the candidates and their storage, and what leaders are asked to do.

use super::{CandidateOptions, EPOCH, LeadershipMachine, LessWorld, WalkEvent};

impl LessWorld {
    /// Whoever leads is asked to lead no more, from time to time.
    pub(super) fn resign(&mut self) {
        if !self.is_rough() || !self.faults.resigns {
            return;
        }
        if let [leader] = *self.believers() {
            self.ours[leader].machine.resign();
            // Where another has its row already, it need not wait for one.
            if self.row.as_ref().is_some_and(|(value, _)| *value == self.ours[leader].id) {
                self.checks.resigned(leader);
            }
            if self.ours[leader].frozen <= self.at {
                self.step(leader);
            }
        }
        let next = 1 + self.rng.below(30_000_000);
        self.push(next, WalkEvent::Resigns);
    }

    pub(super) fn stall(&mut self) {
        if !self.is_rough() {
            return;
        }
        if self.faults.stalls {
            let span = self.rng.below(25_000_000);
            let who = self.rng.below((self.ours.len() + self.theirs.len()) as u64) as usize;
            let until = self.at + span;
            match self.ours.get_mut(who) {
                Some(ours) => ours.frozen = until,
                None => self.theirs[who - self.ours.len()].frozen = until,
            }
        }
        let next = 1 + self.rng.below(10_000_000);
        self.push(next, WalkEvent::Stalls);
    }

    pub(super) fn jump(&mut self) {
        if !self.is_rough() || !self.faults.jumps {
            return;
        }
        // Forwards, far enough for any deadline to be past. A clock that went back would only make deadlines longer.
        self.jumped += i64::try_from(self.rng.below(60_000_000)).unwrap();
        let next = 10_000_000 + self.rng.below(40_000_000);
        self.push(next, WalkEvent::Jumps);
    }

    /// The storage refuses calls: mostly for a moment.
    pub(super) fn refuse(&mut self) {
        if !self.is_rough() || !self.faults.refuses {
            return;
        }
        let longest = if self.rng.one_in(3) { 4_000_000 } else { 300_000 };
        self.refuses_until = self.at + self.rng.below(longest);
        let next = 1 + self.rng.below(6_000_000);
        self.push(next, WalkEvent::Refuses);
    }

    /// Whoever leads lapses or stops. The handle of one that lapses is dropped at once, which stops it, too.
    pub(super) fn end(&mut self) {
        if !self.is_rough() || !self.faults.ends {
            return;
        }
        match *self.believers() {
            [leader] if self.ours[leader].frozen <= self.at => {
                let calls = self.ours[leader].call;
                if !self.rng.one_in(3) {
                    let deadline = self.row.as_ref().map_or(0, |(_, deadline)| *deadline);
                    self.checks.lapsed(deadline.saturating_sub(EPOCH));
                    self.ours[leader].machine.lapse();
                    self.step(leader);
                }
                // One that has ended already is another by now, with more calls behind it.
                if self.ours[leader].call == calls {
                    self.ours[leader].machine.stop();
                    self.step(leader);
                }
            }
            _ => {}
        }
        let next = 1 + self.rng.below(20_000_000);
        self.push(next, WalkEvent::Ends);
    }

    /// Its process begins anew, as a candidate of another id.
    pub(super) fn begin_anew(&mut self, n: usize) {
        let ours = &mut self.ours[n];
        // Answers to what it has sent before are for nobody.
        ours.call += 1;
        ours.wake += 1;
        ours.id = format!("ours-{n}-{}", ours.call);
        ours.machine = LeadershipMachine::new(CandidateOptions::new(), ours.id.clone());
        let wake = ours.wake;
        self.checks.begins_anew(n);
        let start = 1 + self.rng.below(3_000_000);
        self.push(start, WalkEvent::Wake(n, wake));
    }
}
