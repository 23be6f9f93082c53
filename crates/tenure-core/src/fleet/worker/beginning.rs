//! The beginning and the end of this worker's session.

use super::FleetWorker;
use crate::fleet::talk::FleetNotice;
use crate::values::error::{ErrorKind, StoreError};
use crate::values::time::Now;
use std::collections::VecDeque;

/// For so many ttls another process may have this worker's holder id without a word. It may have died, and this worker takes its place.
const SUCCEEDS: u32 = 2;

impl FleetWorker {
    /// A session that has begun, or ended, changes the roster.
    pub(super) fn follow_session(&mut self, now: Now) {
        let session = self.holder.session_fence();
        if session == self.life.session || self.life.stopping {
            return;
        }
        self.life.session = session;
        self.life.refused_from = None;
        self.tell_planning();
        if session.is_some() {
            self.forget_refusals();
            self.hearing.expect(now.held.after(self.env.part(1)));
            // The session before this one may have ended before it could say that this worker leaves; this one says so from
            // the beginning.
            self.announced(now);
        } else {
            self.awaited.clear();
            self.claims.plan(VecDeque::new());
            self.planner.end();
            self.life.restart_at = now.held;
        }
    }

    /// What was refused to this worker's last session may not be to its new one.
    pub(super) fn forget_refusals(&mut self) {
        self.burials.forget_refusals();
        self.advance.forget_refusal();
    }

    /// Its session can't be begun now, and is tried again. Nothing else would tell users why this worker takes no part.
    pub(super) fn not_begun(&mut self, now: Now, error: StoreError) {
        let since = *self.life.refused_from.get_or_insert(now.held);
        let lasts = now.held.since(since) >= self.env.ttl.duration() * SUCCEEDS;
        if lasts || error.kind() != ErrorKind::Invalid {
            self.tell(FleetNotice::Trouble(error));
        }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a worker whose holder id a live process has says so, once a dead one with that id would be forgotten; one that the store refuses
    //! its session says so at once.
    use super::*;
    use crate::fleet::FleetCommand;
    use crate::fleet::worker::alone::*;
    use crate::op::{Answer, Event, Machine, Op, OpId, Outcome, Step};
    use std::time::Duration;

    fn claim(step: &Step<FleetNotice>) -> Option<OpId> {
        let claim = |op: &Op| matches!(op, Op::Write(write) if write.key == session(0));
        step.requests.iter().find(|request| claim(&request.op)).map(|request| request.id)
    }

    fn troubles(step: Step<FleetNotice>) -> Vec<StoreError> {
        let trouble = |told| if let FleetNotice::Trouble(error) = told { Some(error) } else { None };
        step.notices.into_iter().filter_map(trouble).collect()
    }

    #[test]
    fn a_second_worker_of_one_id_says_so_after_two_ttls() {
        let (mut worker, mut now) = (worker(0), at(1));
        let mut asked = claim(&worker.step(now, Event::Command(FleetCommand::Join)));
        for n in 0..24 {
            let other = session_record(0, 7, 100 + n);
            let lost = Ok(Answer::Write(Outcome::Lost(Some(other))));
            let told = troubles(worker.step(now, Event::Answer(asked.unwrap(), lost)));
            let is_told = n >= 16;
            assert_eq!(told.len(), usize::from(is_told), "{n}: {told:?}");
            for error in told {
                let text = error.to_string();
                assert!(
                    text.contains("fleet/f/worker/w0 is held by w0") && text.contains("its own holder id"),
                    "{text}"
                );
            }
            now.held = now.held.after(Duration::from_secs(6));
            now.wall.0 += 6_000;
            asked = claim(&worker.step(now, Event::Wake));
        }
    }

    #[test]
    fn a_worker_whose_session_the_store_refuses_says_so_at_once() {
        let mut worker = worker(0);
        let asked = claim(&worker.step(at(1), Event::Command(FleetCommand::Join)));
        let denied = StoreError::unsupported("denied");
        let told = worker.step(at(1), Event::Answer(asked.unwrap(), Err(denied.clone())));
        assert_eq!(troubles(told), [denied]);
    }
}
