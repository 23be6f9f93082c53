//! A lease is prolonged, or made to end sooner.

use super::{ItemAnswer, ItemRequest, LeaseOperation, OperationEnd, OperationRounds, RoundAnswer};
use crate::item::ItemLease;
use crate::judge::{self, Still};
use crate::lease::{Belief, HeldLease};
use std::time::Duration;
use tenure_core::{ErrorKind, InvalidInput, Now, StoreError};

#[derive(Debug)]
pub(crate) struct LeaseRefresh {
    duration: Duration,
    skew: Duration,
    pub(super) rounds: OperationRounds,
    round: Option<RefreshRound>,
}

/// What one request asks for, and how the lease was before.
#[derive(Debug, Clone, Copy)]
struct RefreshRound {
    sent: Now,
    expires_at: i64,
    /// What the lease is believed to be if this request took effect.
    meant: Belief,
    before: Belief,
    was_settled: bool,
}

impl LeaseRefresh {
    pub(crate) fn new(duration: Duration, skew: Duration) -> LeaseRefresh {
        LeaseRefresh { duration, skew, rounds: OperationRounds::default(), round: None }
    }

    fn found(
        &self,
        lease: &mut HeldLease,
        round: RefreshRound,
        item: Option<&ItemLease>,
    ) -> Option<OperationEnd> {
        let RefreshRound { sent, expires_at, meant, before, was_settled } = round;
        let next = lease.next();
        let (next_token, all_meant) = next.map(|next| (&*next.token, next.meant)).unzip();
        match judge::still(item, &lease.token, next_token, judge::seconds(sent.wall)) {
            Still::Gone => {
                lease.end();
                return Some(OperationEnd::Gone(None));
            }
            Still::Moved(until) => {
                // By which of all that asked for it is not known, nor what the wall clock was then.
                let belief = Belief::of(sent, until, self.skew);
                lease.settle(until, all_meant.map_or(belief, |all| all.and(belief)));
            }
            Still::Ours(_) if self.rounds.was_refused => lease.undo(before, was_settled),
            // It shows what was asked for, and is known to have shown another expiry before.
            Still::Ours(until)
                if was_settled && until == expires_at && ![0, until].contains(&lease.expires_at) =>
            {
                lease.settle(until, meant);
                return Some(OperationEnd::Done);
            }
            Still::Ours(_) => {}
        }
        self.rounds.end(&lease.key)
    }
}

impl LeaseOperation for LeaseRefresh {
    fn request(
        &mut self,
        lease: &mut HeldLease,
        now: Now,
        draw: &dyn Fn() -> Result<String, InvalidInput>,
    ) -> Result<ItemRequest, InvalidInput> {
        if self.rounds.is_looking {
            return Ok(ItemRequest::Look);
        }
        let expires_at = judge::expiry(now.wall, self.duration);
        let meant = Belief::of(now, expires_at, self.skew);
        let (before, was_settled) = (lease.belief, lease.is_settled());
        let next = lease.open(meant, draw)?;
        self.round = Some(RefreshRound { sent: now, expires_at, meant, before, was_settled });
        self.rounds.begin();
        let now = judge::seconds(now.wall);
        Ok(ItemRequest::Refresh { token: lease.token.clone(), next, expires_at, now })
    }

    fn on(&mut self, lease: &mut HeldLease, answer: Result<ItemAnswer, StoreError>) -> Option<OperationEnd> {
        let round = self.round?;
        match self.rounds.on(answer) {
            RoundAnswer::Untold => None,
            RoundAnswer::Made => {
                lease.settle(round.expires_at, round.meant);
                Some(OperationEnd::Done)
            }
            RoundAnswer::Found(item) => self.found(lease, round, item.as_ref()),
            RoundAnswer::Unmade(error) => {
                lease.undo(round.before, round.was_settled);
                Some(OperationEnd::Failed(self.rounds.told(error)))
            }
            RoundAnswer::Hidden(error) => {
                if error.kind() == ErrorKind::Foreign {
                    lease.end();
                }
                Some(OperationEnd::Failed(self.rounds.told_unless_final(error)))
            }
        }
    }
}
