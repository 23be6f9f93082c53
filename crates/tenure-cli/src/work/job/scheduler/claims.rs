//! Claims: when they are made, and what the record of a unit that was had says of whoever had it before.

use super::{Event, Scheduler};
use crate::output::view::{Sessions, State, View};
use crate::work::job::board::{Candidate, Local};
use crate::work::job::unit::Unit;
use tenure::clock::boottime;
use tenure::store::{Attachment, Listed};
use tenure::{AcquireError, Guard, LeaseError, Leases, Metadata, Store};

/// Results under way that hold up further claims.
const MOST_RECORDING: usize = 1024;

/// Whom a unit was taken from.
#[derive(Debug, Clone)]
pub(super) struct From {
    /// The session that it was attached to.
    pub(super) attachment: Option<Attachment>,
    /// Who has lost a lease and lives has not died.
    pub(super) has_died: bool,
}

/// What a unit's record lets us expect of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trust {
    Good,
    /// Its workers have died as often as is allowed: it is run alone, once more.
    Suspect,
    /// They have died more often than that.
    Spent,
}

impl Trust {
    /// `died`: it was taken from a process that has died, which is not counted there yet.
    fn in_unit(metadata: &Metadata, died: bool, most: u32) -> Trust {
        let takeovers = Unit::of(metadata).map_or(0, |unit| unit.takeovers);
        match died {
            true if takeovers >= most => Trust::Spent,
            true if takeovers + 1 == most => Trust::Suspect,
            // It was handed back before it was run alone to its end.
            false if takeovers > 0 && takeovers >= most => Trust::Suspect,
            _ => Trust::Good,
        }
    }
}

impl Scheduler {
    /// Starts whatever can be started.
    pub(super) fn pump(&mut self) {
        if self.stop.is_some() {
            return;
        }
        self.start_alone();
        let soon = self.slots.soon(self.prefetch.claiming());
        if soon == 0 && self.slots.tasks() + self.prefetch.claiming() == 0 {
            let counts = self.board.counts();
            return match counts.open + counts.ours {
                0 => self.next_round(),
                // Others may do the rest meanwhile.
                _ => self.list_now_and_then(),
            };
        }
        let is_enough = self.room() >= self.batch().min(soon);
        loop {
            // The next page is fetched before the last candidate is gone.
            let few = self.board.candidates.len() < 2 * self.plan.slots.min(64);
            if !self.rounds.is_fetching()
                && few
                && (self.room() > 0 || self.ahead() > 0)
                && let Some((after, limit)) = self.board.next_page()
            {
                self.fetch(after, limit);
            }
            if self.room() == 0 || !is_enough {
                return;
            }
            let page_is_due = self.rounds.is_fetching() || !self.board.is_round_over();
            match self.board.candidates.pop_front() {
                Some(candidate) => self.claim(candidate),
                None if page_is_due => return,
                None => match self.board.next_probe() {
                    Some(candidate) => self.claim(candidate),
                    None => break,
                },
            }
        }
        self.next_round();
    }

    /// How many more units may be claimed.
    fn room(&mut self) -> usize {
        if self.stop.is_some()
            || self.suspects.hold_up_others()
            || self.pending.count() >= MOST_RECORDING
            || self.outputs.is_behind(self.plan.slots)
        {
            return 0;
        }
        let claiming = self.prefetch.claiming();
        let free = (self.plan.slots + self.ahead()).saturating_sub(claiming + self.slots.tasks());
        free.min(self.slots.soon(claiming))
    }

    pub(super) fn claim(&mut self, candidate: Candidate) {
        let Candidate { key, seen, probe } = candidate;
        self.prefetch.begin();
        self.board.set(&key, Local::Ours);
        // A probe is no part of any order, and may take longer.
        let turn = (!probe).then(|| self.slots.claiming());
        let tenure = seen.record.tenure.as_ref().filter(|_| probe);
        let from = tenure.map(|tenure| From {
            attachment: tenure.attachment.clone(),
            has_died: tenure.holder != *self.leases.holder(),
        });
        let (leases, sender, most) = (self.leases.clone(), self.sender.clone(), self.plan.takeovers);
        tokio::spawn(async move {
            let began = boottime();
            let result = leases.lock(key.as_str()).keep_metadata(Some((*seen).clone())).try_acquire().await;
            let took = boottime().saturating_sub(began);
            let (from, trust, result) = match result {
                Ok(guard) => judged(&leases, guard, &seen.record.metadata, from, most).await,
                refused => (from, Trust::Good, refused),
            };
            let _over = sender.send(Event::Claimed { key, from, turn, took, trust, result });
        });
    }
}

/// What a unit that was claimed is to be taken for, and from whom it was taken. `seen`: what its record said when it was chosen.
async fn judged(
    leases: &Leases,
    guard: Guard,
    seen: &Metadata,
    from: Option<From>,
    most: u32,
) -> (Option<From>, Trust, Result<Guard, AcquireError>) {
    // Whoever has recorded a result since has given it up, and has not died of it.
    let mut from = from.filter(|_| !Unit::is_changed(seen, guard.metadata()));
    if let Some(From { attachment: Some(attachment), has_died }) = &mut from {
        *has_died = *has_died && !is_back(leases, attachment).await;
    }
    let has_died = from.as_ref().is_some_and(|from| from.has_died);
    let trust = Trust::in_unit(guard.metadata(), has_died, most);
    let result = if has_died && trust == Trust::Good { counted(guard).await } else { Ok(guard) };
    (from, trust, result)
}

/// Whether the process of a session that was lost has another now: it lives.
async fn is_back(leases: &Leases, lost: &Attachment) -> bool {
    let Ok(Some(stored)) = leases.store().read(&lost.session).await else { return false };
    let is_later = stored.record.fence > lost.fence;
    let (listed, now) = (Listed { key: lost.session.clone(), stored: Ok(stored) }, leases.clock().now().wall);
    let view = View::of(leases.store(), &mut Sessions::default(), listed, now).await;
    is_later && view.state == State::Held
}

/// A unit that was taken over is told apart from one that was never run, before it is run: its worker may die of it.
pub(super) async fn counted(mut guard: Guard) -> Result<Guard, AcquireError> {
    let metadata = Unit::taken_over(guard.metadata().clone());
    match guard.update(metadata).await {
        Ok(()) => Ok(guard),
        Err(LeaseError::Store(error)) => Err(AcquireError::Store(error)),
        Err(_) => Err(AcquireError::Held(None)),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a session that was lost tells a process that lives from one that has died; a unit that has a result since it was chosen is not
    //! run by what was seen of it, and whoever recorded that has not died of it.
    use super::*;
    use crate::work::job::board::ClaimTerms;
    use crate::work::job::presence::await_session;
    use crate::work::job::unit::{Ran, Status};
    use crate::work::job::writes::vacant;
    use tenure::store::{Expect, Write};
    use tenure::{Fence, Key};
    use tenure_core::Nonces;

    #[tokio::test]
    async fn who_has_lost_a_session_and_has_another_lives() {
        let store = tenure::memory();
        let (here, there) = (Leases::new(store.clone()).unwrap(), Leases::new(store).unwrap());
        there.begin_session();
        await_session(&there).await.unwrap();
        let session = there.session_key().clone();
        let fence = here.store().read(&session).await.unwrap().unwrap().record.fence;
        let lost = |fence| Attachment { session: session.clone(), fence };
        assert!(is_back(&here, &lost(Fence(fence.0 - 1))).await);
        assert!(!is_back(&here, &lost(fence)).await, "it is the one that was lost");
        there.stop().await;
        assert!(!is_back(&here, &lost(Fence(fence.0 - 1))).await, "it is over");
    }

    #[tokio::test]
    async fn what_came_of_a_unit_since_it_was_chosen_counts() {
        let store = tenure::memory();
        let here = Leases::new(store.clone()).unwrap();
        let now = here.clock().now().wall.0;
        let ran = |finished| Ran { exit: 1, host: "h", worker: "w", started: 1, finished, output: None };
        let early = (Status::Pending, Some(now + 300_000));
        for (name, (status, not_before), is_now) in [
            ("early", early, Local::Open),
            ("due", (Status::Pending, Some(now - 1)), Local::Ours),
            ("done", (Status::Done, None), Local::Done),
            ("failed", (Status::Failed, None), Local::Failed),
        ] {
            let key = Key::new(format!("work/j/{name}")).unwrap();
            let record = vacant(&here, &mut Nonces::new(7), Fence(1), Unit::fresh());
            let write = Write { key: key.clone(), expect: Expect::Absent, record };
            here.store().write(write).await.unwrap();
            let there = Leases::new(store.clone()).unwrap();
            let guard = there.lock(key.as_str()).keep_metadata(None).try_acquire().await.unwrap();
            let seen = here.store().read(&key).await.unwrap().unwrap();
            assert!(
                guard
                    .release_with(Unit::record(Unit::fresh(), status, 1, not_before, &ran(now)))
                    .await
                    .unwrap()
            );
            there.stop().await;
            // It is chosen by what was seen while that one had it.
            let tenure = seen.record.tenure.clone().unwrap();
            let from = From { attachment: tenure.attachment, has_died: true };
            let guard =
                here.lock(key.as_str()).keep_metadata(Some(seen.clone())).try_acquire().await.unwrap();
            let (from, trust, result) = judged(&here, guard, &seen.record.metadata, Some(from), 1).await;
            let metadata = result.unwrap().metadata().clone();
            assert!(from.is_none() && trust == Trust::Good, "{name}");
            assert_eq!(Unit::of(&metadata).unwrap().takeovers, 0, "{name}");
            assert_eq!(ClaimTerms { now, worker: "me" }.claimed(&key, &metadata), is_now, "{name}");
        }
    }
}
