//! What a client can hold by the agent: a lease, a tick that runs once, or a unit of a fleet.

use std::collections::BTreeMap;
use std::time::Duration;
use tenure::fleet::Assignment;
use tenure::once::TickGuard;
use tenure::{Ask, Cancelled, Fence, Guard, Key, Loss, StoreError};

use crate::wire::metadata;

/// What a client has.
pub(crate) enum Holding {
    /// A lease, permits or a leadership.
    Lease(Guard),
    /// A tick that has begun, and that another may run again if its end is not told.
    Tick(TickGuard, Again),
    /// A unit that a worker of this agent's was given.
    Unit(Assignment),
}

/// Whether a tick that nobody told the end of may run again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    Yes,
    No,
}

/// How it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Its client gives it back, and says nothing else.
    GivenBack,
    /// Its client is gone, for this reason.
    Gone(&'static str),
    /// A tick ran well, with this to be said of it.
    Ran(String),
    /// A unit is done; with these fields in place of all others, if given.
    Done(Option<BTreeMap<String, String>>),
    /// What was done has failed, for this reason.
    Failed(String),
}

impl Holding {
    fn guard(&self) -> Result<&Guard, &Assignment> {
        match self {
            Holding::Lease(guard) => Ok(guard),
            Holding::Tick(tick, _) => Ok(tick.lease()),
            Holding::Unit(unit) => Err(unit),
        }
    }

    pub(crate) fn key(&self) -> &Key {
        self.guard().map_or_else(|unit| unit.key(), Guard::key)
    }

    pub(crate) fn fence(&self) -> Fence {
        self.guard().map_or_else(|unit| unit.fence(), Guard::fence)
    }

    pub(crate) fn remaining(&self) -> Duration {
        self.guard().map_or_else(|unit| unit.remaining(), Guard::remaining)
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// It was withdrawn: no beat prolongs it.
    pub(crate) fn is_revoked(&self) -> bool {
        self.guard().map_or_else(|unit| unit.loss() == Some(Loss::Revoked), Guard::is_revoked)
    }

    /// It is a unit that is to go, and how long what is done for it may still take.
    pub(crate) fn draining(&self) -> Option<Duration> {
        self.guard().err()?.draining().map(|(_, within)| within)
    }

    /// Whether its client may say this of its end.
    pub(crate) fn takes(&self, end: &End) -> bool {
        match end {
            End::GivenBack | End::Gone(_) => true,
            End::Ran(_) => matches!(self, Holding::Tick(..)),
            End::Done(_) => matches!(self, Holding::Unit(_)),
            End::Failed(_) => !matches!(self, Holding::Lease(_)),
        }
    }

    /// Told when it is lost, or its client is to end what it does.
    pub(crate) fn cancelled(&self) -> Cancelled {
        self.guard().map_or_else(|unit| unit.cancelled(), Guard::cancelled)
    }

    pub(crate) async fn asked(&self) -> Ask {
        match self.guard() {
            Ok(guard) => guard.asked().await,
            // That a unit is to go is told by `cancelled`.
            Err(_) => std::future::pending().await,
        }
    }

    pub(crate) async fn lost(&self) -> Loss {
        match self.guard() {
            Ok(guard) => guard.lost().await,
            Err(unit) => unit.lost().await,
        }
    }

    /// Nobody acts on it any more. False: it was lost before.
    pub(crate) async fn give_back(self, end: End) -> Result<bool, StoreError> {
        match self {
            Holding::Lease(guard) => Ok(guard.release().await),
            Holding::Tick(tick, again) => {
                let (is_well, says) = match end {
                    End::Ran(says) => (true, says),
                    End::Failed(says) => (false, says),
                    End::Gone(why) if again == Again::No => (false, why.to_owned()),
                    _ => return Ok(tick.release().await),
                };
                // What is said of it is short enough for any record.
                Ok(tick.end(is_well, says).await.unwrap_or(false))
            }
            Holding::Unit(unit) => match end {
                End::Done(fields) => unit.finish(fields.map(metadata)).await,
                // Its end was asked for: it goes where it is planned to be.
                End::GivenBack | End::Gone(_) if unit.draining().is_some() => {
                    let is_ours = unit.is_held();
                    unit.drained();
                    Ok(is_ours)
                }
                End::Failed(says) => {
                    let (key, fence) = (unit.key(), unit.fence());
                    tracing::warn!(name: "agent.unit", target: "tenure::agent", %key, %fence, says, "what a client did for this unit has failed");
                    Ok(unit.release().await)
                }
                _ => Ok(unit.release().await),
            },
        }
    }
}
