//! Operations that wait for their turn, since a busy store is asked for so much at a time and no more.
//!
//! Releases go first: somebody waits for each, and they are few. All else goes in the order of its coming. A claim of a lease with a ttl of
//! its own counts its time from when it was asked for (S1). One that has waited for long would win a lease that is over, so it is given up unsent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use tenure_core::Tick;
use tenure_core::op::{Op, Request, Write};

#[derive(Debug)]
struct Queued {
    request: Request,
    since: Tick,
}

#[derive(Debug, Default)]
pub(super) struct OpQueue {
    releases: VecDeque<Queued>,
    /// Claims of leases with a ttl of their own, by their numbers.
    claims: BTreeMap<u64, Queued>,
    /// When each of these is late: the shorter its ttl, the sooner.
    late: BTreeSet<(Tick, u64)>,
    others: VecDeque<Queued>,
    /// How many claims have come so far.
    count: u64,
}

impl OpQueue {
    pub(super) fn push(&mut self, request: Request, now: Tick) {
        let queue = match &request.op {
            Op::Write(write) if write.record.tenure.is_none() => &mut self.releases,
            Op::Write(write) if begins_with_own_ttl(write) => {
                self.count += 1;
                self.late.insert((now.after(request.timeout), self.count));
                self.claims.insert(self.count, Queued { request, since: now });
                return;
            }
            _ => &mut self.others,
        };
        queue.push_back(Queued { request, since: now });
    }

    /// Whose turn it is.
    pub(super) fn pop(&mut self) -> Option<Request> {
        if let Some(release) = self.releases.pop_front() {
            return Some(release.request);
        }
        let claim = self.claims.first_key_value().map(|(_, first)| first.since);
        let other = self.others.front().map(|first| first.since);
        let first = match claim {
            Some(claim) if other.is_none_or(|other| claim < other) => {
                let (number, first) = self.claims.pop_first()?;
                self.late.remove(&(first.since.after(first.request.timeout), number));
                Some(first)
            }
            _ => self.others.pop_front(),
        };
        first.map(|first| first.request)
    }

    /// A claim that has waited for as long as its answer might take, and since when.
    pub(super) fn pop_late(&mut self, now: Tick) -> Option<(Request, Tick)> {
        let (_, number) = *self.late.first().filter(|(late, _)| *late <= now)?;
        self.late.pop_first();
        self.claims.remove(&number).map(|late| (late.request, late.since))
    }
}

fn begins_with_own_ttl(write: &Write) -> bool {
    let tenure = write.record.tenure.as_ref();
    tenure.is_some_and(|tenure| tenure.attachment.is_none() && tenure.id == write.record.nonce)
}

#[cfg(test)]
mod tests {
    //! Plan: releases first, then all else in its order; of what waits for too long only claims with a ttl of their own are given up.
    use super::*;
    use std::time::Duration;
    use tenure_core::op::{Expect, OpId};
    use tenure_core::{Attachment, Fence, HolderId, Key, Metadata, Nonce, Record, Tenure, Ttl, Wall};

    const TIMEOUT: Duration = Duration::from_secs(2);

    fn write(id: u64, is_release: bool, is_attached: bool) -> Request {
        let nonce = Nonce(id.into());
        let mut tenure = Tenure::new(nonce, HolderId::new("a").unwrap(), Ttl::MIN, Wall(0));
        if is_attached {
            tenure.attachment = Some(Attachment { session: Key::new("session/a").unwrap(), fence: Fence(1) });
        }
        let tenure = (!is_release).then_some(tenure);
        let record = Record { fence: Fence(1), nonce, stamp: Wall(0), tenure, metadata: Metadata::new() };
        let write = Write { key: Key::new("k").unwrap(), expect: Expect::Vacant, record };
        Request { id: OpId(id), op: Op::Write(Box::new(write)), timeout: TIMEOUT, urgent: false }
    }

    #[test]
    fn releases_go_first_and_all_else_in_its_order() {
        let mut queue = OpQueue::default();
        for (id, is_release, is_attached) in
            [(1, false, false), (2, false, true), (3, true, false), (4, false, false), (5, true, false)]
        {
            queue.push(write(id, is_release, is_attached), Tick(id));
        }
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|request| request.id.0).collect();
        assert_eq!(order, [3, 5, 1, 2, 4]);
    }

    #[test]
    fn s1_a_claim_that_has_waited_for_long_is_given_up_and_nothing_else_is() {
        let mut queue = OpQueue::default();
        let begun = Tick(0).after(Duration::from_secs(1));
        for (id, is_release, is_attached) in [(1, false, true), (2, true, false), (3, false, false)] {
            queue.push(write(id, is_release, is_attached), begun);
        }
        let at = |waited: Duration| begun.after(waited);
        assert!(queue.pop_late(at(TIMEOUT - Duration::from_millis(1))).is_none());
        let (late, since) = queue.pop_late(at(TIMEOUT)).unwrap();
        assert_eq!((late.id, since), (OpId(3), begun));
        assert!(queue.pop_late(at(TIMEOUT * 100)).is_none());
        assert_eq!(std::iter::from_fn(|| queue.pop()).count(), 2);
        // One that came later, and may wait for less long.
        let mut short = write(5, false, false);
        short.timeout = TIMEOUT / 4;
        queue.push(write(4, false, false), begun);
        queue.push(short, at(TIMEOUT / 4));
        assert_eq!(queue.pop_late(at(TIMEOUT / 2)).unwrap().0.id, OpId(5));
        assert_eq!(queue.pop().unwrap().id, OpId(4));
        assert!(queue.late.is_empty() && queue.claims.is_empty());
    }

    #[test]
    fn a_claim_that_may_wait_for_less_long_holds_up_none_that_came_before_it() {
        let mut queue = OpQueue::default();
        queue.push(write(1, false, false), Tick(1));
        queue.push(write(2, false, true), Tick(2));
        let mut short = write(3, false, false);
        short.timeout = TIMEOUT / 8;
        queue.push(short, Tick(3));
        let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|request| request.id.0).collect();
        assert_eq!(order, [1, 2, 3]);
    }
}
