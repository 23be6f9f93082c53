//! S6, the body ends before the lease: nothing vacates or passes on a unit whose body runs, and what could not be ended is
//! left to expire, and with it the session, for a full ttl.
//!
//! Source: the promise S6; client-go issue 728 (released while the body runs).

use crate::fleet::Node;
use crate::fleet::node::{AssignedWork, Body};
use tenure_core::op::Op;
use tenure_core::{Tick, Ttl};

/// A process sends something.
pub(crate) fn sent(node: &Node, now: Tick, op: &Op) -> Result<(), String> {
    let Op::Write(write) = op else { return Ok(()) };
    let record = &write.record;
    let passes = record.tenure.as_ref().is_some_and(|tenure| tenure.holder != node.who);
    let vacates = record.tenure.is_none();
    if !passes && !vacates {
        return Ok(());
    }
    if let Some((_, work)) = node.works_on(&write.key)
        && (passes || work.fence == record.fence)
    {
        return Err(format!("{} gives up {} while it is worked on", node.who, write.key));
    }
    for lapse in node.own.lapses.iter().filter(|lapse| now < lapse.until) {
        let itself = write.key == lapse.unit && record.fence == lapse.fence;
        let session = lapse.session == Some(record.fence) && write.key == node.session;
        if itself || session {
            return Err(format!(
                "{} vacates {} although {} was left to expire",
                node.who, write.key, lapse.unit
            ));
        }
    }
    Ok(())
}

/// A user is told to end what is done for a unit until then: the time that the worker was given for that, from now on.
pub(crate) fn drain_is_due(node: usize, now: Tick, until: Tick, ttl: Ttl) -> Result<(), String> {
    if until == now.after(ttl.part(2)) {
        return Ok(());
    }
    Err(format!("w{node} is to drain a unit until {}, and it is {}", until.0, now.0))
}

/// A unit was told as given up.
pub(crate) fn ended(node: usize, work: &AssignedWork) -> Result<(), String> {
    match work.body {
        Body::Ended { .. } | Body::Lapsed => Ok(()),
        body => Err(format!("w{node} is told that {} is given up, and its body {body:?}", work.unit)),
    }
}
