//! L2, balance is fast and calm: after a worker joins, leaves or dies, every unit is at its planned owner within 3 renewal
//! intervals plus the drain time; with nothing changing, nothing moves.
//!
//! Source: DESIGN.md section 2. The world says by when all must be settled (`World::disturb`); from then on the plan, made
//! from who really works on what, must leave everything where it is.

use super::super::process::LABEL;
use super::super::world::World;
use tenure_core::fleet::plan::{Balance, Load, Room, plan};
use tenure_core::fleet::{Status, UnitSpec};

pub(crate) fn as_planned(world: &World, live: &[usize]) -> Result<(), String> {
    let mut live = live.to_vec();
    live.sort_by_key(|index| &world.posts[*index].session);
    let rooms: Vec<Room> = live
        .iter()
        .map(|index| {
            let about = world.about(*index);
            Room { units: about.units, weight: about.weight, labels: about.labels, leaving: false }
        })
        .collect();
    let open: Vec<_> = world.units.iter().filter(|(_, truth)| truth.status == Status::Open).collect();
    let loads: Vec<Load> = open
        .iter()
        .map(|(key, truth)| {
            let owner = live.iter().position(|index| world.posts[*index].works_on(key).is_some());
            let needs = if truth.needs_label { [LABEL.to_owned()].into() } else { Default::default() };
            let spec = world.store.get(key).and_then(|record| UnitSpec::parse(record.metadata.clone()).ok());
            Load { weight: spec.map_or(1, |(spec, _)| spec.weight), needs, owner, pin: None }
        })
        .collect();
    let targets = plan(&loads, &rooms, Balance::Count);
    for ((key, _), (load, target)) in open.iter().zip(loads.iter().zip(targets)) {
        if load.owner != target.ok() {
            let who = |at: Option<usize>| at.map_or("nobody".to_owned(), |at| format!("w{}", live[at]));
            return Err(format!("{key} is at {}, and planned for {}", who(load.owner), who(target.ok())));
        }
    }
    Ok(())
}
