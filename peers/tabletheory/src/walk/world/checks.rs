//! What must hold at every moment, of every write, and at the end of every operation.

use super::super::SKEW;
use super::super::caller::{CallerOperation, RunningOperation, is_of};
use super::ManagersWorld;
use crate::item::ItemLease;
use crate::machine::{ItemAnswer, ItemRequest, OperationEnd};
use tenure_core::{ErrorKind, Now, StoreError, Tick, Wall};

/// What becomes of a token that was drawn to acquire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenFate {
    /// An operation is under way with it.
    Open,
    /// Nobody waits for it, and it may land or have landed.
    Orphaned,
    /// It is known what became of it.
    Known,
}

impl ManagersWorld {
    /// No two hold at once, and the item of whoever holds is its own for as long as that is believed.
    pub(super) fn check(&mut self) {
        let standing = self.standing();
        let mut holders = Vec::new();
        for n in 0..self.callers.len() {
            self.notes_what_is_gone(n, standing.as_ref());
            let Some(lease) = &self.callers[n].lease else { continue };
            let left = lease.remaining(self.now_of(n));
            let tokens = [Some(&lease.token), lease.next().map(|next| &next.token)];
            let is_undone = tokens.into_iter().flatten().any(|token| self.undone.contains(token));
            if left.is_zero() || is_undone {
                continue;
            }
            let excess = u128::from(self.excess());
            match standing.as_ref().filter(|item| is_of(item, lease)) {
                Some(item) => {
                    let end = Wall(u64::try_from(item.expires_at).unwrap() * 1000 - SKEW);
                    let at_its_end = Now { held: Tick(0), waited: Tick(0), wall: end };
                    let beyond = lease.remaining(at_its_end);
                    assert!(
                        beyond.is_zero(),
                        "{}: {n} believes for {beyond:?} longer than {item:?}",
                        self.when()
                    );
                }
                None => assert!(
                    left.as_millis() <= excess,
                    "{}: {n} believes for {left:?} in {lease:?}; the item is {standing:?}",
                    self.when()
                ),
            }
            if left.as_millis() > excess {
                holders.push(n);
            }
        }
        assert!(holders.len() <= 1, "{}: {holders:?} hold it", self.when());
    }

    fn when(&self) -> String {
        format!("seed {}, step {}, {} ms", self.seed, self.counts.steps, self.at - super::EPOCH)
    }

    fn notes_what_is_gone(&mut self, n: usize, standing: Option<&ItemLease>) {
        let caller = &self.callers[n];
        let (Some(lease), Some(running)) = (caller.subject(), &caller.running) else { return };
        let is_expiring = matches!(running.operation, CallerOperation::Refresh(_));
        let is_there = standing
            .is_some_and(|item| is_of(item, lease) && (!is_expiring || item.expires_at > running.second));
        if let Some(running) = &mut self.callers[n].running {
            running.was_gone |= !is_there;
        }
    }

    /// A request is about to be sent.
    pub(super) fn asked(&mut self, n: usize, request: &ItemRequest) {
        let caller = &mut self.callers[n];
        let process = caller.process;
        let Some(lease) = caller.subject() else { return };
        let tokens = [Some(&lease.token), lease.next().map(|next| &next.token)];
        let tokens: Vec<String> = tokens.into_iter().flatten().cloned().collect();
        let Some(running) = &mut caller.running else { return };
        if let ItemRequest::Claim { now, .. } | ItemRequest::Refresh { now, .. } = request {
            running.second = running.second.max(*now);
        }
        let acquires = matches!(running.operation, CallerOperation::Acquire(..));
        let starts = self.processes[process].starts;
        for token in tokens {
            self.owners.insert(token.clone(), process);
            if acquires {
                self.fates.insert(token.clone(), (process, starts, TokenFate::Open));
                if !running.tokens.contains(&token) {
                    running.tokens.push(token);
                }
            }
        }
    }

    /// An answer is about to be heard.
    pub(super) fn heard(&mut self, n: usize, answer: &Result<ItemAnswer, StoreError>) {
        let Some(running) = &mut self.callers[n].running else { return };
        match answer {
            Err(error) if error.kind() == ErrorKind::Unknown => match running.asked {
                Some(ItemRequest::Claim { .. }) => running.claim_unknown = true,
                _ => running.other_unknown = true,
            },
            Ok(ItemAnswer::Refused(Some(item)) | ItemAnswer::Seen(Some(item))) => {
                running.sight = Some(item.clone());
            }
            Ok(ItemAnswer::Refused(None)) => running.was_refused_bare = true,
            _ => {}
        }
    }

    /// A request of ours takes effect. No row that is another's is written over or deleted.
    pub(super) fn takes_effect(&self, n: usize, request: &ItemRequest) {
        let (standing, when) = (self.standing(), self.when());
        let is_foreign = self.table.0.is_some() && standing.is_none();
        assert!(!is_foreign, "{when}: {request:?} of {n} is performed on {:?}", self.table.0);
        match (request, standing) {
            (ItemRequest::Claim { .. }, Some(item)) => {
                let over = u64::try_from(item.expires_at).unwrap() * 1000;
                let is_over = over <= self.at + self.faults.apart;
                assert!(is_over, "{when}: {request:?} of {n} is written over {item:?}");
            }
            (ItemRequest::Claim { .. } | ItemRequest::Look, _) => {}
            (ItemRequest::Refresh { .. } | ItemRequest::Release { .. }, item) => {
                if let (ItemRequest::Refresh { now, .. }, Some(item)) = (request, &item) {
                    assert!(
                        item.expires_at > *now,
                        "{when}: {request:?} of {n} prolongs {item:?}, which is over"
                    );
                }
                let owner = item.as_ref().and_then(|item| self.owners.get(&item.token));
                let process = self.callers[n].process;
                assert_eq!(owner, Some(&process), "{when}: {request:?} of {n} changes {item:?}");
            }
        }
    }

    /// It has taken effect.
    pub(super) fn took_effect(&mut self, operation: u64) {
        assert!(!self.never.contains(&operation), "{}: {operation} was told to have no effect", self.when());
        let standing = self.standing();
        self.landed.entry(operation).or_default().extend(standing);
    }

    /// An operation has ended: what it was told is true. None: nobody waits for it any more.
    pub(super) fn ended(&mut self, n: usize, running: &RunningOperation, end: Option<&OperationEnd>) {
        let when = self.when();
        let landed = self.landed.get(&running.id).cloned().unwrap_or_default();
        match (&running.operation, end) {
            (CallerOperation::Acquire(_, lease), end) => {
                let has_taken_up = running.tokens.first() != Some(&lease.token);
                if let Some(OperationEnd::Done) = end {
                    let is_so =
                        |item: &ItemLease| item.token == lease.token && item.expires_at == lease.expires_at;
                    assert!(landed.iter().any(is_so), "{when}: {n} acquired {lease:?}; written: {landed:?}");
                    self.counts.acquired += 1;
                    self.counts.taken_up += usize::from(has_taken_up);
                    self.counts.found_out += usize::from(running.claim_unknown);
                }
                self.ends_acquiring(n, running, end, has_taken_up);
            }
            (CallerOperation::Refresh(_), Some(OperationEnd::Done)) => {
                let Some(lease) = &self.callers[n].lease else { return };
                let is_so =
                    |item: &ItemLease| item.token == lease.token && item.expires_at == lease.expires_at;
                assert!(landed.iter().any(is_so), "{when}: {n} refreshed {lease:?}; written: {landed:?}");
                let has_moved = running.before.as_ref().is_some_and(|before| before.token != lease.token);
                self.counts.refreshed += 1;
                self.counts.moved += usize::from(has_moved);
                self.counts.found_out += usize::from(running.other_unknown);
                self.callers[n].gives_back = false;
            }
            (CallerOperation::Refresh(_), Some(OperationEnd::Gone(_))) => {
                let lease = &self.callers[n].lease;
                assert!(
                    running.was_gone,
                    "{when}: {n} was told that {lease:?} is gone; {:?}",
                    running.before
                );
                let is_held = lease.as_ref().is_some_and(|lease| lease.is_held(self.now_of(n)));
                assert!(!is_held, "{when}: {n} believes in what is gone");
                self.counts.undone +=
                    usize::from(lease.as_ref().is_some_and(|it| self.undone.contains(&it.token)));
            }
            (CallerOperation::Refresh(_), Some(OperationEnd::Failed(error))) => {
                // What is known to have had no effect has changed nothing.
                let is_known = !running.other_unknown && error.is_passing() && !running.was_refused_bare;
                let (before, after) = (running.before.as_ref(), self.callers[n].lease.as_ref());
                let was_open =
                    before.is_some_and(|before| before.refreshes != crate::lease::Refreshes::Settled);
                assert!(
                    !is_known || was_open || before == after,
                    "{when}: {n} has {after:?}, and had {before:?}"
                );
            }
            (CallerOperation::Release(_), Some(OperationEnd::Done | OperationEnd::Gone(_))) => {
                assert!(running.was_gone, "{when}: {n} gave back {:?}, which is there", running.before);
                self.counts.released += 1;
            }
            (_, _) => {}
        }
        if let CallerOperation::Release(_) = running.operation {
            let is_held = self.callers[n].lease.as_ref().is_some_and(|lease| lease.is_held(self.now_of(n)));
            assert!(!is_held, "{when}: {n} believes in what it gives back");
        }
    }

    fn ends_acquiring(
        &mut self,
        n: usize,
        running: &RunningOperation,
        end: Option<&OperationEnd>,
        has_taken_up: bool,
    ) {
        let (when, process) = (self.when(), self.callers[n].process);
        let starts = self.processes[process].starts;
        let is_known = !running.claim_unknown && !running.other_unknown;
        match end {
            Some(OperationEnd::Gone(Some(until))) if !has_taken_up => {
                let sight = running.sight.as_ref();
                let is_so = sight.is_some_and(|item| {
                    item.expires_at == *until
                        && *until > running.second
                        && !running.tokens.contains(&item.token)
                });
                assert!(is_so, "{when}: {n} was told that another has it until {until}, and saw {sight:?}");
                let fate = sight.and_then(|item| self.fates.get(&item.token));
                let orphaned = (process, starts, TokenFate::Orphaned);
                assert_ne!(
                    fate,
                    Some(&orphaned),
                    "{when}: nobody waits for {sight:?}, and {n} does not take it up"
                );
            }
            Some(OperationEnd::Failed(error)) if error.kind() == ErrorKind::Unavailable && !has_taken_up => {
                assert!(is_known, "{when}: {n} was told {error}, and something may land");
            }
            _ => {}
        }
        let failed = match end {
            Some(OperationEnd::Done) => false,
            Some(OperationEnd::Gone(_)) => running.other_unknown,
            Some(OperationEnd::Failed(_)) | None => true,
        };
        for (nth, token) in running.tokens.iter().enumerate() {
            let is_orphaned = match (nth, end) {
                (0, Some(OperationEnd::Done)) if !has_taken_up => false,
                (0, None) => true,
                (0, _) => running.claim_unknown,
                (_, _) => failed,
            };
            let fate = if is_orphaned { TokenFate::Orphaned } else { TokenFate::Known };
            self.fates.insert(token.clone(), (process, starts, fate));
        }
        if is_known && !has_taken_up && !matches!(end, None | Some(OperationEnd::Done)) {
            self.never.insert(running.id);
        }
    }
}
