//! L2, balance is fast and calm: after a worker joins, leaves or dies, every unit is at its planned owner within 3 renewal
//! intervals plus the drain time; with nothing changing, nothing moves.
//!
//! Source: the promise L2. The world says by when all must be settled (`World::disturb`); from then on the plan, made
//! from who really works on what, must leave everything where it is.

use super::l2_plan;
use crate::fleet::Node;
use crate::fleet::World;
use crate::fleet::process::LABEL;
use tenure_core::fleet::plan::{Balance, Load, Room, plan};
use tenure_core::fleet::{Status, UnitSpec};
use tenure_core::{Key, Tick};

/// A unit with work to do, who works on it, and who should; by the places of nodes.
pub(crate) struct DueUnit<'a> {
    pub(crate) unit: &'a Key,
    pub(crate) owner: Option<usize>,
    pub(crate) target: Option<usize>,
}

pub(crate) fn as_planned(due: &[DueUnit<'_>]) -> Result<(), String> {
    for DueUnit { unit, owner, target } in due {
        if owner != target {
            let who = |at: &Option<usize>| at.map_or("nobody".to_owned(), |at| format!("w{at}"));
            return Err(format!("{unit} is at {}, and planned for {}", who(owner), who(target)));
        }
    }
    Ok(())
}

/// A worker that leaves has stopped at this time of its own clock: whatever it gave up, the others were told to look. One whose session was over
/// before it could tell them is as dead to them as one that was killed.
pub(crate) fn last_word(node: &Node, now: Tick, is_calm: bool) -> Result<(), String> {
    match &node.own.unsaid {
        Some(unit) if is_calm && node.own.leaving && !node.stopping && now < node.own.deadline => {
            Err(format!("{} has left, and told nobody that it gave {unit} up", node.who))
        }
        _ => Ok(()),
    }
}

/// The plan for what there really is, and whether it is a fair one.
pub(crate) fn due<'a>(world: &'a World, live: &[usize]) -> (Vec<DueUnit<'a>>, Result<(), String>) {
    let mut live = live.to_vec();
    live.sort_by_key(|index| &world.nodes[*index].session);
    let rooms: Vec<Room> = live
        .iter()
        .map(|index| {
            let about = world.about(*index);
            Room { units: about.units, weight: about.weight, labels: about.labels, leaving: false }
        })
        .collect();
    // What can't be read is planned for nobody.
    let open = world
        .scene
        .units
        .iter()
        .filter(|(key, truth)| truth.status == Status::Open && !world.store.is_forbidden(key));
    let open: Vec<_> = open.collect();
    let loads: Vec<Load> = open
        .iter()
        .map(|(key, truth)| {
            let needs = if truth.needs_label { [LABEL.to_owned()].into() } else { Default::default() };
            let spec = world.store.get(key).and_then(|record| UnitSpec::parse(record.metadata.clone()).ok());
            let spec = spec.map(|(spec, _)| spec).unwrap_or_default();
            // One that fails is with whoever has it, though it may be left alone for now.
            let (stays, settled) = (spec.fails(), spec.retry.is_some());
            let attachment =
                world.store.get(key).and_then(|record| record.tenure.as_ref()?.attachment.as_ref());
            let session = attachment.and_then(|attachment| world.store.get(&attachment.session));
            let is_live = session
                .is_some_and(|session| Some(session.fence) == attachment.map(|attachment| attachment.fence));
            // What nobody can write is with whom its record names, whoever works on it.
            let stays_so = stays || world.store.is_sealed(key);
            let has = |index: &usize| match attachment {
                None if world.store.is_sealed(key) => false,
                Some(attachment) if stays_so => is_live && attachment.session == world.nodes[*index].session,
                _ => world.nodes[*index].works_on(key).is_some(),
            };
            let owner = live.iter().position(has);
            let pin = spec.pin.and_then(|pin| live.iter().position(|at| world.nodes[*at].who == pin));
            Load { weight: spec.weight, needs, owner, pin, stays, settled, declined_by: Default::default() }
        })
        .collect();
    let balance = if world.scenario.weighs { Balance::Weight } else { Balance::Count };
    let targets = plan(&loads, &rooms, balance);
    let is_fair = l2_plan::is_fair(&loads, &rooms, balance, &targets);
    let place = |at: usize| live[at];
    let due = open
        .into_iter()
        .zip(loads.into_iter().zip(targets))
        // What nobody can write stays where it is.
        .filter(|((unit, _), _)| !world.store.is_sealed(unit))
        .map(|((unit, _), (load, target))| DueUnit {
            unit,
            owner: load.owner.map(place),
            target: target.ok().map(place),
        })
        .collect();
    (due, is_fair)
}
