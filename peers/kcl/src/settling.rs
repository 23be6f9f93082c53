//! A change that is repeated until its outcome is known, without I/O.

use super::change::{ChangeTrace, RowChange};
use super::row::Row;
use std::time::Duration;
use tenure_core::{ErrorKind, StoreError, Tick};

/// What became of a change.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Settled {
    /// It was made, no earlier than that. The row as it is now; none if it is gone.
    Made(Tick, Option<Row>),
    /// It was not, and won't be. The row as it is now.
    Refused(Option<Row>),
}

impl Settled {
    /// The row as it is now, if there is one.
    pub(crate) fn standing(&self) -> Option<&Row> {
        let (Settled::Made(_, row) | Settled::Refused(row)) = self;
        row.as_ref()
    }
}

/// What one request brought.
#[derive(Debug)]
pub(crate) enum ChangeAnswer {
    Made(Option<Row>),
    Refused(Option<Row>),
}

/// A change under way: what is known of the requests that were sent for it.
#[derive(Debug)]
pub(crate) struct Settling {
    pub(crate) change: RowChange,
    /// When to give up.
    pub(crate) deadline: Tick,
    /// When the first request was sent that may have made the change; no later one can have made it before.
    may_be_made: Option<Tick>,
    /// Before the row was read that the change goes by, where a request from before may make the same change.
    read: Option<Tick>,
}

impl Settling {
    pub(crate) fn new(change: RowChange, deadline: Tick) -> Settling {
        Settling { change, deadline, may_be_made: None, read: None }
    }

    /// The same of a take. An earlier request of the same worker may still be on its way, which nobody waits for any more, and make the same row. It
    /// can only do so after this one was read, which was later than `read`.
    pub(crate) fn of_row_read_after(self, read: Tick) -> Settling {
        Settling { read: Some(read), ..self }
    }

    /// How long to wait for the answer to a request that is sent now. Some time is kept to find out what became of it.
    pub(crate) fn patience(&self, sent: Tick) -> Duration {
        const SHORTEST: Duration = Duration::from_millis(100);
        let left = self.deadline.since(sent);
        left.min((left / 2).max(SHORTEST))
    }

    /// What the answer to a request that was sent then means. An error that passes: the request is to be sent again.
    ///
    /// # Errors
    /// What is known by now, if that is all.
    pub(crate) fn on(
        &mut self,
        sent: Tick,
        answer: Result<ChangeAnswer, StoreError>,
    ) -> Result<Settled, StoreError> {
        let since = self.may_be_made.unwrap_or(sent);
        let error = match answer {
            Ok(ChangeAnswer::Made(row)) => return Ok(Settled::Made(since, row)),
            Ok(ChangeAnswer::Refused(standing)) => {
                match self.change.trace(standing.as_ref(), self.may_be_made.is_some()) {
                    ChangeTrace::Made => {
                        let since = self.read.map_or(since, |read| since.min(read));
                        return Ok(Settled::Made(since, standing));
                    }
                    ChangeTrace::Never => return Ok(Settled::Refused(standing)),
                    // Changed and changed back between the refusal and a read.
                    ChangeTrace::NotYet => StoreError::unavailable(format!(
                        "the row of lease {:?} changes too often",
                        self.change.before.key()
                    )),
                }
            }
            Err(error) => error,
        };
        if error.kind() == ErrorKind::Unknown {
            self.may_be_made.get_or_insert(sent);
        }
        Err(match self.may_be_made {
            Some(_) => StoreError::new(ErrorKind::Unknown, error.to_string()),
            None => error,
        })
    }
}
