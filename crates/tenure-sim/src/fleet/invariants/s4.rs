//! S4 for fleets: no update is lost and none comes back from the dead. A checkpoint that was told as written was written;
//! what outsiders wrote into the reserved field stays through every write of an owner; a finished or deleted unit stays that,
//! is given to nobody, and is never created anew by a worker. And belief is built only on writes that took effect.
//!
//! Source: the promise S4.

use crate::fleet::Node;
use crate::fleet::bodies::POINT;
use crate::fleet::world::Truth;
use tenure_core::fleet::{Status, UnitSpec};
use tenure_core::{Drift, Fence, Key, Record, Tick, Ttl, Value};

fn split(record: &Record) -> Option<(UnitSpec, Option<i64>)> {
    let (spec, fields) = UnitSpec::parse(record.metadata.clone()).ok()?;
    Some((spec, fields.get(POINT).and_then(Value::as_i64)))
}

/// A worker's write to a unit took effect.
pub(crate) fn kept(
    key: &Key,
    truth: &mut Truth,
    before: Option<&Record>,
    after: &Record,
    is_new: bool,
) -> Result<(), String> {
    let Some(before) = before else { return Err(format!("{key} was deleted, and a worker created it anew")) };
    let (Some((old, was)), Some((new, is))) = (split(before), split(after)) else {
        return Err(format!("a worker damaged {key}"));
    };
    if old.status != Status::Open && new.status != old.status {
        return Err(format!("{key} was {:?}, and a worker made it {:?}", old.status, new.status));
    }
    if new.status != old.status {
        if new.status != Status::Done || after.tenure.is_some() {
            return Err(format!("a worker made {key} {:?}", new.status));
        }
        truth.status = Status::Done;
        truth.idle = None;
    }
    if (new.weight, &new.needs) != (old.weight, &old.needs) {
        return Err(format!("a worker's write undoes what was written into {key}: {old:?} became {new:?}"));
    }
    if is_new {
        if is != was {
            return Err(format!("a claim of {key} changes its fields from {was:?} to {is:?}"));
        }
        if truth.claims.len() >= 16 {
            truth.claims.remove(0);
        }
        truth.claims.push((after.fence, old.status == Status::Open));
    }
    if let Some(is) = is.filter(|_| is != was) {
        if truth.points.len() >= 32 {
            truth.points.remove(0);
        }
        truth.points.push(is);
    }
    Ok(())
}

pub(crate) fn written(key: &Key, truth: &Truth, point: i64) -> Result<(), String> {
    if truth.points.contains(&point) {
        return Ok(());
    }
    Err(format!("checkpoint {point} of {key} was told as written, and was not: {:?}", truth.points))
}

/// What a new owner is given is what was written last.
pub(crate) fn carried(key: &Key, truth: &Truth, point: Option<i64>) -> Result<(), String> {
    match point {
        Some(point) if truth.points.contains(&point) => Ok(()),
        point => Err(format!("{key} is assigned with {point:?}, and what was written is {:?}", truth.points)),
    }
}

pub(crate) fn open_when_claimed(key: &Key, truth: &Truth, fence: Fence) -> Result<(), String> {
    match truth.claims.iter().rev().find(|(claimed, _)| *claimed == fence) {
        Some((_, true)) => Ok(()),
        Some((_, false)) => {
            Err(format!("{key} is assigned under {fence}, and was closed when it was claimed"))
        }
        None => Err(format!("{key} is assigned under {fence}, and no such claim took effect")),
    }
}

/// A unit was told as given up and finished.
pub(crate) fn finished(key: &Key, standing: Option<&Record>) -> Result<(), String> {
    match standing.and_then(split) {
        Some((spec, _)) if spec.status == Status::Open => {
            Err(format!("{key} was told as finished, and its record says that it is open"))
        }
        _ => Ok(()),
    }
}

pub(crate) fn assigned_while_believed(node: &Node, now: Tick) -> Result<(), String> {
    // While the belief is suspended it may be told; it counts once the session is believed in again.
    if now < node.own.deadline {
        return Ok(());
    }
    Err(format!("{} is assigned a unit after the end of its session", node.who))
}

/// Users were told to believe until `until`.
pub(crate) fn founded(node: &Node, until: Tick, ttl: Ttl) -> Result<(), String> {
    let last = node.own.heartbeats.iter().max().map(|sent| sent.after(Drift::default().belief(ttl)));
    match last {
        Some(allowed) if until <= allowed => Ok(()),
        allowed => Err(format!(
            "{} believes until {}, and its last write that took effect allows {allowed:?}",
            node.who, until.0
        )),
    }
}
