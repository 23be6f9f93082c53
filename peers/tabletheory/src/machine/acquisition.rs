//! A lease is acquired, or a claim of this process taken up that nobody waits for.

use super::{
    ItemAnswer, ItemRequest, LeaseOperation, LeaseRefresh, OperationEnd, OperationRounds, RoundAnswer,
};
use crate::item::ItemLease;
use crate::judge::{self, Availability};
use crate::lease::{Belief, HeldLease};
use crate::orphans::{OrphanedClaims, UnansweredClaim};
use std::sync::Arc;
use std::time::Duration;
use tenure_core::{InvalidInput, Now, StoreError};

/// The lease that it is given has a token that was drawn for it. It is believed only once this is done.
#[derive(Debug)]
pub(crate) struct LeaseAcquisition {
    duration: Duration,
    skew: Duration,
    orphans: Arc<OrphanedClaims>,
    rounds: OperationRounds,
    /// When the first request was sent, which all later ones repeat.
    sent: Option<Now>,
    claim: Option<UnansweredClaim>,
    take_up: Option<TakeUp>,
}

/// An orphan stands in the way, and is taken up.
#[derive(Debug)]
struct TakeUp {
    /// When it ends.
    until: i64,
    refresh: LeaseRefresh,
    /// Should it not be known what becomes of this, the next acquisition finds the orphan, or whatever its token was changed to.
    claims: Vec<UnansweredClaim>,
}

impl TakeUp {
    fn request(
        &mut self,
        lease: &mut HeldLease,
        now: Now,
        draw: &dyn Fn() -> Result<String, InvalidInput>,
        orphans: &Arc<OrphanedClaims>,
    ) -> Result<ItemRequest, InvalidInput> {
        let request = self.refresh.request(lease, now, draw)?;
        if let ItemRequest::Refresh { next: Some(next), expires_at, .. } = &request
            && !self.claims.iter().any(|claim| claim.is_by(next))
        {
            self.claims.push(orphans.claim(&lease.key, next, *expires_at));
        }
        Ok(request)
    }

    fn on(&mut self, lease: &mut HeldLease, answer: Result<ItemAnswer, StoreError>) -> Option<OperationEnd> {
        let end = self.refresh.on(lease, answer)?;
        let is_known = match end {
            OperationEnd::Done => true,
            OperationEnd::Gone(_) => self.refresh.rounds.are_known(),
            OperationEnd::Failed(_) => false,
        };
        if is_known {
            self.claims.drain(..).for_each(UnansweredClaim::close);
        }
        Some(if let OperationEnd::Gone(_) = end { OperationEnd::Gone(Some(self.until)) } else { end })
    }
}

impl LeaseAcquisition {
    pub(crate) fn new(duration: Duration, skew: Duration, orphans: Arc<OrphanedClaims>) -> LeaseAcquisition {
        let rounds = OperationRounds::default();
        LeaseAcquisition { duration, skew, orphans, rounds, sent: None, claim: None, take_up: None }
    }

    /// It won't land any more, unless something is still unknown.
    fn close_if_known(&mut self) {
        if self.rounds.are_known()
            && let Some(claim) = self.claim.take()
        {
            claim.close();
        }
    }

    fn won(&mut self, lease: &mut HeldLease, expires_at: i64, sent: Now) -> OperationEnd {
        if let Some(claim) = self.claim.take() {
            claim.close();
        }
        // Should a hand have changed what was written, that counts.
        lease.expires_at = lease.expires_at.min(expires_at);
        lease.belief = Belief::of(sent, lease.expires_at, self.skew);
        OperationEnd::Done
    }

    /// Another has it, unless that is an orphan.
    fn held(&mut self, lease: &mut HeldLease, by: String, until: i64) -> Option<OperationEnd> {
        self.close_if_known();
        if !self.orphans.take(&lease.key, &by) {
            return Some(OperationEnd::Gone(Some(until)));
        }
        let claims = vec![self.orphans.claim(&lease.key, &by, until)];
        let refresh = LeaseRefresh::new(self.duration, self.skew);
        self.take_up = Some(TakeUp { until, refresh, claims });
        *lease = HeldLease::known_by(&lease.key.pk, &lease.key.sk, by);
        // An earlier attempt to take it up may still be on its way, so the token is changed.
        lease.unsettle();
        None
    }
}

impl LeaseOperation for LeaseAcquisition {
    fn request(
        &mut self,
        lease: &mut HeldLease,
        now: Now,
        draw: &dyn Fn() -> Result<String, InvalidInput>,
    ) -> Result<ItemRequest, InvalidInput> {
        if let Some(take_up) = &mut self.take_up {
            return take_up.request(lease, now, draw, &self.orphans);
        }
        if self.rounds.is_looking {
            return Ok(ItemRequest::Look);
        }
        self.rounds.begin();
        let sent = *self.sent.get_or_insert(now);
        lease.expires_at = judge::expiry(sent.wall, self.duration);
        let claim = ItemLease { token: lease.token.clone(), expires_at: lease.expires_at };
        self.claim.get_or_insert_with(|| self.orphans.claim(&lease.key, &claim.token, claim.expires_at));
        Ok(ItemRequest::Claim { claim, now: judge::seconds(sent.wall) })
    }

    fn on(&mut self, lease: &mut HeldLease, answer: Result<ItemAnswer, StoreError>) -> Option<OperationEnd> {
        if let Some(take_up) = &mut self.take_up {
            return take_up.on(lease, answer);
        }
        let sent = self.sent?;
        let found = match self.rounds.on(answer) {
            RoundAnswer::Untold => return None,
            RoundAnswer::Made => return Some(self.won(lease, lease.expires_at, sent)),
            RoundAnswer::Found(found) => found,
            RoundAnswer::Unmade(error) | RoundAnswer::Hidden(error) => {
                self.close_if_known();
                return Some(OperationEnd::Failed(self.rounds.told_unless_final(error)));
            }
        };
        match (judge::wanted(found.as_ref(), &lease.token, judge::seconds(sent.wall)), found) {
            (Availability::Mine, Some(found)) => Some(self.won(lease, found.expires_at, sent)),
            (Availability::Held(until), Some(found)) => self.held(lease, found.token, until),
            // It was given up a moment ago; or the request has not arrived, and is repeated.
            (_, _) if !self.rounds.are_over() => None,
            (_, _) => {
                self.close_if_known();
                Some(self.rounds.unknown.clone().map_or(OperationEnd::Gone(None), OperationEnd::Failed))
            }
        }
    }
}
