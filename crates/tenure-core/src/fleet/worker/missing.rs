//! Units behind sessions that are missing altogether: deleted by hand, or collected long after their end. Each tenure of such a
//! session is asked after once, however many units are attached to it. Once it has been missing for a ttl, everything is listed again.
//!
//! A record that told the other workers that its time is over would be unsafe. Its process may have begun the session anew
//! meanwhile, and that record may have been deleted, too. So each worker waits for itself.

use super::listed::{Owner, Unit};
use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::fleet::sorted::Sorted;
use crate::fleet::talk::FleetNotice;
use crate::fleet::unit::Status;
use crate::holder::failure_detector::HolderVerdict;
use crate::op::{Answer, Op};
use crate::values::error::StoreError;
use crate::values::record::Attachment;
use crate::values::time::{Now, Tick, Ttl};
use std::collections::BTreeMap;

impl FleetWorker {
    /// What was listed as missing may have begun after the roster was listed, so that proves nothing yet: a read does.
    pub(super) fn settle_missing(&mut self, now: Now, units: &mut Sorted<Unit>) {
        let holder = &self.holder;
        let mut verdicts: BTreeMap<(Attachment, Ttl), Option<HolderVerdict>> = BTreeMap::new();
        for unit in units.values_mut().filter(|unit| unit.spec.status == Status::Open) {
            let Owner::Missing(seen) = &unit.owner else { continue };
            let Some(tenure) = seen.tenure() else { continue };
            let Some(attachment) = &tenure.attachment else { continue };
            let known = || holder.known_missing(now, attachment, tenure.ttl);
            if *verdicts.entry((attachment.clone(), tenure.ttl)).or_insert_with(known)
                == Some(HolderVerdict::Suspected)
            {
                unit.owner = Owner::LongMissing(seen.clone());
            }
        }
        for ((attachment, ttl), verdict) in verdicts {
            match verdict {
                Some(HolderVerdict::Suspected) => {}
                Some(HolderVerdict::Live { until }) => self.list_again(until),
                None => self.ask_after(&attachment, ttl),
            }
        }
    }

    fn ask_after(&mut self, attachment: &Attachment, ttl: Ttl) {
        let is_asked =
            |flight: &InFlight| matches!(flight, InFlight::Missing(other, _) if other == attachment);
        if !self.io.in_flight.values().any(is_asked) && !self.env.has_bug(Bug::MissingForgotten) {
            self.send(InFlight::Missing(attachment.clone(), ttl), Op::Read(attachment.session.clone()));
        }
    }

    pub(super) fn asked_after(
        &mut self,
        now: Now,
        attachment: &Attachment,
        ttl: Ttl,
        result: Result<Answer, StoreError>,
    ) {
        match result {
            Ok(Answer::Read(None)) => match self.holder.judge_missing(now, attachment, ttl) {
                HolderVerdict::Suspected => self.list_again(now.held),
                HolderVerdict::Live { until } => self.list_again(until),
            },
            Ok(_) => {
                // It began, or ended, while all was listed.
                self.holder.session_is_there(attachment);
                self.list_again(now.held.after(self.env.interval()));
            }
            Err(error) => {
                self.list_again(now.held.after(self.env.pause(16, &error)));
                self.tell(FleetNotice::Trouble(error));
            }
        }
    }

    /// At `at`, or before that if that is wanted already.
    pub(super) fn list_again(&mut self, at: Tick) {
        self.doubts.list_at = Some(self.doubts.list_at.map_or(at, |planned| planned.min(at)));
    }
}

#[cfg(test)]
mod tests {
    //! Plan: each tenure of a missing session is asked after once, if something that is open is attached to it; what is attached to it can be
    //! had after a ttl, unless the session is there again; and all is listed again when that is known.
    use super::*;
    use crate::fleet::UnitSpec;
    use crate::fleet::part::Shows;
    use crate::fleet::worker::alone::*;
    use crate::values::fence::Fence;

    fn attachment(n: usize) -> Attachment {
        Attachment { session: session(n), fence: Fence(7) }
    }

    /// Two that are open behind one missing session, and one that is done behind another.
    fn units() -> Sorted<Unit> {
        let behind = |n: usize, status| {
            let spec = UnitSpec { status, ..UnitSpec::default() };
            let stored = record(Some(Some(attachment(n))), &spec);
            let shows = Shows::of(&stored.record);
            Unit { spec: spec.into(), owner: Owner::Missing(stored.into()), held: None, shows }
        };
        let units = [behind(1, Status::Open), behind(1, Status::Open), behind(2, Status::Done)];
        (0..).map(unit).zip(units).collect()
    }

    /// How many sessions are asked after then, and how many units can be had.
    fn settles(worker: &mut FleetWorker, secs: u64) -> (usize, usize) {
        let mut units = units();
        worker.settle_missing(at(secs), &mut units);
        let free = units.values().filter(|unit| matches!(unit.owner, Owner::LongMissing(_))).count();
        (asked(worker).len(), free)
    }

    #[test]
    fn what_is_attached_to_a_missing_session_can_be_had_after_a_ttl() {
        let mut worker = worker(0);
        assert_eq!(settles(&mut worker, 100), (1, 0));
        assert_eq!(settles(&mut worker, 101), (0, 0), "it was asked after already");
        worker.io.in_flight.clear();
        worker.asked_after(at(102), &attachment(1), ttl(), Ok(Answer::Read(None)));
        assert_eq!(worker.doubts.list_at.take(), Some(at(150).held));
        assert_eq!(settles(&mut worker, 149), (0, 0));
        assert_eq!(worker.doubts.list_at.take(), Some(at(150).held));
        assert_eq!(settles(&mut worker, 150), (0, 2));
        worker.asked_after(at(151), &attachment(1), ttl(), Ok(Answer::Read(None)));
        assert_eq!(worker.doubts.list_at.take(), Some(at(151).held));
        worker.asked_after(at(152), &attachment(1), ttl(), Ok(Answer::Read(Some(session_record(1, 7, 1)))));
        assert_eq!(worker.doubts.list_at.take(), Some(at(168).held));
        assert_eq!(settles(&mut worker, 160), (1, 0), "its time begins anew");
        worker.asked_after(at(170), &attachment(1), ttl(), Err(StoreError::unavailable("away")));
        worker.list_again(at(999).held);
        assert_eq!(worker.doubts.list_at, Some(at(173).held));
        assert_eq!(told(&mut worker), [FleetNotice::Trouble(StoreError::unavailable("away"))]);
    }
}
