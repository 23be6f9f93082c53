//! A lease is given back.

use super::{ItemAnswer, ItemRequest, LeaseOperation, OperationEnd, OperationRounds, RoundAnswer};
use crate::lease::{Belief, HeldLease};
use tenure_core::{ErrorKind, InvalidInput, Now, StoreError};

#[derive(Debug)]
pub(crate) struct LeaseRelease {
    rounds: OperationRounds,
    /// Whether nothing was open before the last request.
    was_settled: bool,
}

impl LeaseRelease {
    /// It isn't held from now on, whatever comes of this.
    pub(crate) fn of(lease: &mut HeldLease) -> LeaseRelease {
        lease.end();
        LeaseRelease { rounds: OperationRounds::default(), was_settled: false }
    }
}

impl LeaseOperation for LeaseRelease {
    fn request(
        &mut self,
        lease: &mut HeldLease,
        _: Now,
        _: &dyn Fn() -> Result<String, InvalidInput>,
    ) -> Result<ItemRequest, InvalidInput> {
        if self.rounds.is_looking {
            return Ok(ItemRequest::Look);
        }
        self.rounds.begin();
        self.was_settled = lease.unsettle();
        Ok(ItemRequest::Release { token: lease.token.clone() })
    }

    fn on(&mut self, lease: &mut HeldLease, answer: Result<ItemAnswer, StoreError>) -> Option<OperationEnd> {
        let found = match self.rounds.on(answer) {
            RoundAnswer::Untold => return None,
            RoundAnswer::Made => return Some(OperationEnd::Done),
            RoundAnswer::Found(item) => item.map(|item| item.token),
            // What is no lease can't be ours.
            RoundAnswer::Hidden(error) if error.kind() == ErrorKind::Foreign => None,
            RoundAnswer::Unmade(error) => {
                lease.undo(Belief::NONE, self.was_settled);
                return Some(OperationEnd::Failed(self.rounds.told(error)));
            }
            RoundAnswer::Hidden(error) => return Some(OperationEnd::Failed(self.rounds.told(error))),
        };
        match found {
            Some(token) if token == lease.token => {}
            Some(token) if lease.next().is_some_and(|next| token == next.token) => {
                lease.settle(0, Belief::NONE);
            }
            Some(_) | None => return Some(OperationEnd::Gone(None)),
        }
        self.rounds.end(&lease.key)
    }
}
