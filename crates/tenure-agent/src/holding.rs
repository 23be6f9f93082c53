//! What a client can hold by the agent: a lease, a tick that runs once, a unit of a fleet, or ranges.

use crate::wire::metadata;
use std::collections::BTreeMap;
use std::time::Duration;
use tenure::fleet::Assignment;
use tenure::once::TickGuard;
use tenure::range::RangeGuard;
use tenure::{Cancelled, Fence, Guard, HolderId, Key, Loss, Request, StoreError};
use tenure_store::tell;

/// What a client has.
pub(crate) enum Holding {
    /// A lease, permits or a leadership.
    Lease(Guard),
    /// A tick that has begun, and that another may run again if its end is not told.
    Tick(TickGuard, Again),
    /// A unit that a worker of this agent's was given, which has a name of its own.
    Unit(Assignment, HolderId),
    /// Ranges of a section, for a time that nothing prolongs: the section's key, and their fence.
    Ranges(RangeGuard, Key, Fence),
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
    /// Its client has not said that it has ended what it does, for this reason: it was silent until its deadline, or its process has ended in the midst
    /// of something.
    Silent(&'static str),
    /// A tick ran well, with this to be said of it.
    Ran(String),
    /// A unit is done; with these fields in place of all others, if given.
    Done(Option<BTreeMap<String, String>>),
    /// What was done has failed, for this reason.
    Failed(String),
}

impl Holding {
    fn guard(&self) -> Option<&Guard> {
        match self {
            Holding::Lease(guard) => Some(guard),
            Holding::Tick(tick, _) => Some(tick.lease()),
            Holding::Unit(..) | Holding::Ranges(..) => None,
        }
    }

    pub(crate) fn key(&self) -> &Key {
        match self {
            Holding::Lease(guard) => guard.key(),
            Holding::Tick(tick, _) => tick.lease().key(),
            Holding::Unit(unit, _) => unit.key(),
            Holding::Ranges(_, key, _) => key,
        }
    }

    pub(crate) fn fence(&self) -> Fence {
        match self {
            Holding::Lease(guard) => guard.fence(),
            Holding::Tick(tick, _) => tick.lease().fence(),
            Holding::Unit(unit, _) => unit.fence(),
            Holding::Ranges(_, _, fence) => *fence,
        }
    }

    pub(crate) fn remaining(&self) -> Duration {
        match self {
            Holding::Lease(guard) => guard.remaining(),
            Holding::Tick(tick, _) => tick.lease().remaining(),
            Holding::Unit(unit, _) => unit.remaining(),
            Holding::Ranges(guard, ..) => guard.remaining(),
        }
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// It was withdrawn: no beat prolongs it.
    pub(crate) fn is_revoked(&self) -> bool {
        match self {
            Holding::Unit(unit, _) => unit.loss() == Some(Loss::Revoked),
            _ => self.guard().is_some_and(Guard::is_revoked),
        }
    }

    /// It is a unit that is to go, and how long what is done for it may still take.
    pub(crate) fn draining(&self) -> Option<Duration> {
        let Holding::Unit(unit, _) = self else { return None };
        unit.draining().map(|(_, within)| within)
    }

    /// Whether its client may say this of its end.
    pub(crate) fn takes(&self, end: &End) -> bool {
        match end {
            End::GivenBack | End::Gone(_) | End::Silent(_) => true,
            End::Ran(_) => matches!(self, Holding::Tick(..)),
            End::Done(_) => matches!(self, Holding::Unit(..)),
            End::Failed(_) => matches!(self, Holding::Tick(..) | Holding::Unit(..)),
        }
    }

    /// Told when it is lost, or its client is to end what it does.
    pub(crate) fn cancelled(&self) -> Cancelled {
        match self {
            Holding::Lease(guard) => guard.cancelled(),
            Holding::Tick(tick, _) => tick.lease().cancelled(),
            Holding::Unit(unit, _) => unit.cancelled(),
            Holding::Ranges(guard, ..) => guard.cancelled(),
        }
    }

    pub(crate) async fn asked(&self) -> Request {
        match self.guard() {
            Some(guard) => guard.asked().await,
            // That a unit is to go is told by `cancelled`, and nothing is asked of ranges.
            None => std::future::pending().await,
        }
    }

    pub(crate) async fn lost(&self) -> Loss {
        match self {
            Holding::Lease(guard) => guard.lost().await,
            Holding::Tick(tick, _) => tick.lease().lost().await,
            Holding::Unit(unit, _) => unit.lost().await,
            Holding::Ranges(guard, ..) => guard.lost().await,
        }
    }

    /// It outlasts this agent: ranges, which are held until their time is over whoever lives.
    pub(crate) fn outlasts(&self) -> bool {
        matches!(self, Holding::Ranges(..))
    }

    /// Left to itself, until its time is over.
    pub(crate) async fn leave(self) {
        if let Holding::Ranges(guard, ..) = self {
            guard.lapse().await;
        }
    }

    /// Nobody acts on it any more. False: it was lost before.
    pub(crate) async fn give_back(self, end: End) -> Result<bool, StoreError> {
        match self {
            Holding::Lease(guard) => Ok(guard.release().await),
            Holding::Ranges(guard, ..) => Ok(guard.release().await),
            Holding::Tick(tick, again) => {
                let (is_well, says) = match end {
                    End::Ran(says) => (true, says),
                    End::Failed(says) => (false, says),
                    End::Gone(why) | End::Silent(why) if again == Again::No => (false, why.to_owned()),
                    _ => return Ok(tick.release().await),
                };
                // What is said of it is short enough for any record.
                Ok(tick.end(is_well, says).await.unwrap_or(false))
            }
            Holding::Unit(unit, _) => match end {
                End::Done(fields) => unit.finish(fields.map(metadata)).await,
                // A request of its may still be on its way.
                End::Silent(_) => Ok(unit.abandon().await),
                // It goes where it is planned to be: what is given back has not failed, nor has what was to end.
                End::GivenBack | End::Gone(_) if end == End::GivenBack || unit.draining().is_some() => {
                    let is_ours = unit.is_held();
                    unit.drained();
                    Ok(is_ours)
                }
                End::Failed(says) => {
                    let (key, fence) = (unit.key(), unit.fence());
                    tell!(warn, name: "agent.unit", target: "tenure::agent", %key, %fence, says, "what a client did for this unit has failed");
                    Ok(unit.release().await)
                }
                _ => Ok(unit.release().await),
            },
        }
    }
}
