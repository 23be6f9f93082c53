//! The rules by which a lease is acquired, refreshed and released, without I/O, clock or randomness.
//!
//! Each operation is a machine. Whoever performs it sends what `request` says, and hands the answer to `on`, until that names the end. The
//! time and new tokens are arguments. The lease outlives the operation. Whatever a request may change is noted in the lease, or among the
//! orphaned claims of the process, before that request is sent. So an operation may be dropped at any moment.
//!
//! **A round** is one conditional write. A look at the item follows where the write's answer does not tell how the item is: the answer was
//! lost, or it is a refusal without the item. What the item says is judged (`judge.rs`), and may ask for another round. There are three
//! rounds at the most. An unknown outcome is told as one, though a later round fails for another reason that may pass.
//!
//! **A claim** is sent again to the byte: with the token, the expiry and the second of the first. Should several land, they are one
//! acquisition, and belief counts from before the first was sent. One that may land when nobody waits for it is noted as an orphan. A later
//! claim may find that in its way. Nobody believes in it, so it is taken up, by a refresh that changes its token. The new token is an
//! orphan's, too, until it is known what became of that.
//!
//! **A refresh** leaves the token as it is, until the answer to one is lost. That one is *open*: it may land at any time, and set back an
//! expiry that its holder believes in. So the next one changes the token, and what lands late finds another token than it asks for. Meanwhile
//! the lease is believed until the soonest of its old expiry and of all that is under way. Two sights settle what is open. The item may have
//! the new token. Or it shows the expiry that was asked for, and is known to have shown another before. The latter counts only where nothing
//! else was open.
//!
//! **A release** ends belief before anything is sent. It deletes the item of either token that the lease may have, expired or not. A refusal
//! that shows another's item, or none, is a success, as peers have it. One whose answer was lost is open, too. It could delete what its
//! caller refreshes after all, so that refresh changes the token.
//!
//! **The clock** of the holder says three things: the second that a condition compares with, the expiry that is written, and until when that
//! is believed. All three come from one reading, made before the request is sent. A request that is late only says less than was true.

mod acquisition;
mod refresh;
mod release;

pub(crate) use acquisition::LeaseAcquisition;
pub(crate) use refresh::LeaseRefresh;
pub(crate) use release::LeaseRelease;

use super::error::LeaseKey;
use super::item::ItemLease;
use super::lease::HeldLease;
use tenure_core::{ErrorKind, InvalidInput, Now, StoreError};

/// How often a request is repeated whose outcome is not known, before that is told.
const ROUNDS: usize = 3;

/// What is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ItemRequest {
    /// The item becomes this, where there is none, or over one that has ended by the second `now`.
    Claim { claim: ItemLease, now: i64 },
    /// The lease of `token` ends then, and has the token `next` if there is one: unless it has ended by the second `now`.
    Refresh { token: String, next: Option<String>, expires_at: i64, now: i64 },
    /// The item of `token` is deleted.
    Release { token: String },
    /// The item as it stands now.
    Look,
}

/// What the service said. An item that is no lease is an error of the kind `Foreign`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ItemAnswer {
    /// The write took effect.
    Done,
    /// Its condition did not hold for this item. None came along if there is none, or from an emulator.
    Refused(Option<ItemLease>),
    /// A look shows this.
    Seen(Option<ItemLease>),
}

/// How an operation ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum OperationEnd {
    Done,
    /// The lease is not to be had, or not any more. Until when another has it, if that is known.
    Gone(Option<i64>),
    Failed(StoreError),
}

/// An operation on a lease, from its first request to its end.
pub(crate) trait LeaseOperation {
    /// What is to be sent now. `draw` draws a new token.
    ///
    /// # Errors
    /// Those of `draw`. The operation is over then.
    fn request(
        &mut self,
        lease: &mut HeldLease,
        now: Now,
        draw: &dyn Fn() -> Result<String, InvalidInput>,
    ) -> Result<ItemRequest, InvalidInput>;

    /// What the answer to that means; none while there is more to send.
    fn on(&mut self, lease: &mut HeldLease, answer: Result<ItemAnswer, StoreError>) -> Option<OperationEnd>;
}

/// The rounds of an operation, and what they have told by now.
#[derive(Debug, Default)]
struct OperationRounds {
    begun: usize,
    /// The write of this round was answered, or lost, and a look is to tell the rest.
    is_looking: bool,
    /// The write of this round was refused.
    was_refused: bool,
    /// The outcome of a write that may still land, or has landed.
    unknown: Option<StoreError>,
}

/// What an answer says of a round.
#[derive(Debug)]
enum RoundAnswer {
    /// Its write took effect.
    Made,
    /// A look is to tell.
    Untold,
    /// Its write was refused, or its answer lost, and this is the item.
    Found(Option<ItemLease>),
    /// Its write has no effect, for that reason.
    Unmade(StoreError),
    /// The item can't be seen, or is no lease.
    Hidden(StoreError),
}

impl OperationRounds {
    fn begin(&mut self) {
        self.begun += 1;
        self.was_refused = false;
    }

    /// Whether no other round may follow.
    fn are_over(&self) -> bool {
        self.begun >= ROUNDS
    }

    /// Whether it is known of each write what became of it.
    fn are_known(&self) -> bool {
        self.unknown.is_none()
    }

    fn on(&mut self, answer: Result<ItemAnswer, StoreError>) -> RoundAnswer {
        let was_looking = std::mem::take(&mut self.is_looking);
        match answer {
            Ok(ItemAnswer::Done) => RoundAnswer::Made,
            Ok(ItemAnswer::Seen(item)) => RoundAnswer::Found(item),
            Ok(ItemAnswer::Refused(item)) => {
                self.was_refused = true;
                if item.is_some() {
                    return RoundAnswer::Found(item);
                }
                self.is_looking = true;
                RoundAnswer::Untold
            }
            Err(error) if was_looking || error.kind() == ErrorKind::Foreign => RoundAnswer::Hidden(error),
            Err(error) if error.kind() == ErrorKind::Unknown => {
                self.unknown = Some(error);
                self.is_looking = true;
                RoundAnswer::Untold
            }
            Err(error) => RoundAnswer::Unmade(error),
        }
    }

    /// What is told where this error is the end.
    fn told(&self, error: StoreError) -> StoreError {
        self.unknown.clone().unwrap_or(error)
    }

    /// The same, where one that does not pass is told in any case: to ask again is of no use.
    fn told_unless_final(&self, error: StoreError) -> StoreError {
        if error.is_passing() { self.told(error) } else { error }
    }

    /// The end, if this was the last round: each has found something else than the one before.
    fn end(&self, key: &LeaseKey) -> Option<OperationEnd> {
        let restless = || StoreError::unavailable(format!("the lease {key} changes too often; try again"));
        self.are_over().then(|| OperationEnd::Failed(self.told(restless())))
    }
}

#[cfg(test)]
mod tests;
