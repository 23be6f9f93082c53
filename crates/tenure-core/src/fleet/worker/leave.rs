//! The end of a worker that leaves in good order.

use super::FleetWorker;
use super::own::{Own, Stage};
use crate::fleet::talk::Reason;
use crate::holder::command::Command;
use crate::values::time::{Now, Tick};

impl FleetWorker {
    /// Its session was withdrawn, and is not renewed any more: nobody would hear that it leaves. So all drains at once, and what has ended in time
    /// is given up while the session is still believed in.
    pub(super) fn leave_at_once(&mut self, now: Now) {
        self.leave(now);
        self.life.leave_from = Some(now.held);
        for lease in self.own.values().map(|own| own.lease).collect::<Vec<_>>() {
            self.asked(now, lease, Reason::Revoked);
        }
    }

    /// A worker that leaves stops when nothing is left.
    pub(super) fn wake_leaving(&mut self, now: Now) {
        if self.life.leaving && self.session_fence().is_none() {
            // All that it held is lost. What waits for a session is not wanted any more.
            let waits = |own: &&Own| own.stage == Stage::Acquiring;
            for lease in self.own.values().filter(waits).map(|own| own.lease).collect::<Vec<_>>() {
                self.going(lease);
                self.command_holder(now, Command::Release(lease, None));
            }
            if self.own.is_empty() {
                return self.stop(now);
            }
        }
        if self.has_left(now) && self.life.leave_from.is_none_or(|at| now.held >= at) {
            self.stop(now);
        }
    }

    /// Whether nothing is left of a worker that leaves, and the others were told.
    fn has_left(&self, now: Now) -> bool {
        // One refusal may have been for a moment.
        let in_vain = self.advance.waits_in_vain(now, self.env.part(4));
        let is_told = self.session_fence().is_none() || self.life.leave_from.is_some();
        let is_said = self.advance.is_idle() || self.board.is_blind() || in_vain;
        self.life.leaving && self.own.is_empty() && is_told && is_said && !self.letters.are_owed()
    }

    pub(super) fn leaving_wake_at(&self, now: Now) -> Option<Tick> {
        self.life.leave_from.filter(|_| self.has_left(now))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: nothing is done before a worker is told to join, and a session that can't be had is tried now and then; who leaves
    //! without a session is gone at once, whatever it was about to claim; who leaves says so whatever else it offers; who
    //! stops claims nothing more; who plans alone does not wait for others to notice that it leaves.
    use crate::fleet::worker::alone::*;
    use crate::fleet::{About, FleetCommand, FleetNotice};
    use crate::op::{Event, Machine, Op, Request, Step};
    use crate::values::error::StoreError;
    use std::time::Duration;

    #[test]
    fn nothing_is_done_before_it_is_told_to_join() {
        let mut worker = worker(0);
        let step = worker.step(at(1), Event::Wake);
        assert_eq!((step.requests.len(), step.wake_at), (0, None));
        assert!(!worker.step(at(1), Event::Command(FleetCommand::Join)).requests.is_empty());
    }

    #[test]
    fn a_session_that_cant_be_had_is_tried_again_after_an_eighth_of_a_ttl() {
        let (mut worker, mut now) = (worker(0), at(1));
        let key = worker.env.me.clone();
        let claim = |step: Step<FleetNotice>| {
            let claim = |request: &Request| matches!(&request.op, Op::Write(write) if write.key == key);
            step.requests.into_iter().find(claim).map(|request| request.id)
        };
        let mut asked = claim(worker.step(now, Event::Command(FleetCommand::Join)));
        for _ in 0..3 {
            let failed = Err(StoreError::foreign("damaged"));
            assert_eq!(claim(worker.step(now, Event::Answer(asked.unwrap(), failed))), None);
            now.held = now.held.after(Duration::from_millis(5999));
            assert_eq!(claim(worker.step(now, Event::Wake)), None);
            now.held = now.held.after(Duration::from_millis(1));
            asked = claim(worker.step(now, Event::Wake));
        }
    }

    #[test]
    fn who_leaves_without_a_session_is_gone_at_once_whatever_it_was_about_to_claim() {
        let mut worker = worker(0);
        worker.step(at(1), Event::Command(FleetCommand::Join));
        worker.try_unit(at(1), unit(0), None);
        assert!(!worker.own.is_empty());
        let told = worker.step(at(1), Event::Command(FleetCommand::Leave)).notices;
        assert!(worker.own.is_empty(), "{:?}", worker.own);
        assert!(worker.is_stopping());
        assert_eq!(told.last(), Some(&FleetNotice::Stopped));
    }

    #[test]
    fn who_leaves_says_so_whatever_else_it_offers() {
        let mut worker = worker(0);
        worker.step(at(1), Event::Command(FleetCommand::Leave));
        let offer = FleetCommand::Offer(About { units: 3, ..About::default() });
        worker.step(at(1), Event::Command(offer));
        assert_eq!(worker.env.options.about, About { units: 3, leaving: true, ..About::default() });
    }

    #[test]
    fn who_leaves_with_nothing_left_says_that_first() {
        let mut worker = up();
        worker.life.joined = true;
        worker.life.leaving = true;
        worker.life.leave_from = Some(at(2).held);
        worker.advance.want(at(30).held);
        worker.wake_leaving(at(3));
        assert!(!worker.is_stopping(), "the others are to be told yet");
        worker.advance.end();
        worker.life.leave_from = Some(at(4).held);
        worker.wake_leaving(at(3));
        assert!(!worker.is_stopping(), "and to hear of it");
        worker.wake_leaving(at(4));
        assert!(worker.is_stopping());
    }

    #[test]
    fn who_plans_and_knows_of_nobody_else_gives_nobody_time_to_notice() {
        for (others, plans, waits) in [(0, true, 0), (0, false, 3), (1, true, 3)] {
            let mut worker = led(others, plans);
            worker.life.leaving = true;
            worker.env.options.push = true;
            worker.announced(at(100));
            let from = at(100).held.after(Duration::from_secs(waits));
            assert_eq!(worker.life.leave_from, Some(from), "{others} {plans}");
        }
    }

    #[test]
    fn a_unit_that_was_lost_before_its_users_let_it_lapse_is_told_as_given_up() {
        use crate::holder::lease_id::LeaseId;
        let mut worker = worker(0);
        worker.step(at(1), Event::Command(FleetCommand::Join));
        let told = worker.step(at(1), Event::Command(FleetCommand::Lapse(LeaseId(7)))).notices;
        assert_eq!(told, [FleetNotice::Released(LeaseId(7), None, false)]);
    }

    #[test]
    fn who_stops_claims_nothing_more() {
        let mut worker = worker(0);
        worker.step(at(1), Event::Command(FleetCommand::Stop));
        worker.try_unit(at(1), unit(0), None);
        assert!(worker.own.is_empty());
    }
}
