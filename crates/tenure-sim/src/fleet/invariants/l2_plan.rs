//! L2 of the plan itself, judged by what it promises and not by how it is made: nothing goes where it may not, what can be covered
//! is, no single move would even it out more, and no more is moved than that takes.
//!
//! Source: the promise L2: balanced by weight and capacity, with as few moves as that takes.

use tenure_core::fleet::plan::{Balance, Load, Plan, Room};

pub(crate) fn is_fair(loads: &[Load], rooms: &[Room], balance: Balance, plan: &Plan) -> Result<(), String> {
    let weighs = |load: &Load| load.weight.max(1);
    let had = |at: usize| loads.iter().zip(plan).filter(move |(_, to)| **to == Ok(at)).map(|(load, _)| load);
    let units: Vec<u64> = (0..rooms.len()).map(|at| had(at).count() as u64).collect();
    let weights: Vec<u64> = (0..rooms.len()).map(|at| had(at).map(weighs).sum()).collect();
    // What fails does not count for evenness, wherever it is.
    let fails = |at: usize| had(at).filter(|load| load.stays);
    let counted: Vec<u64> = (0..rooms.len()).map(|at| units[at] - fails(at).count() as u64).collect();
    let weighed: Vec<u64> =
        (0..rooms.len()).map(|at| weights[at] - fails(at).map(weighs).sum::<u64>()).collect();
    for (at, room) in rooms.iter().enumerate() {
        let may_not = had(at).any(|load| room.leaving || !load.needs.is_subset(&room.labels));
        if may_not || units[at] > room.units || room.weight != u64::MAX && weights[at] > room.weight {
            return Err(format!(
                "worker {at} is planned to have what it may not: {} units of {}",
                units[at], weights[at]
            ));
        }
    }
    let is_full = |at: usize, load: &Load| {
        units[at] >= rooms[at].units
            || rooms[at].weight != u64::MAX && weights[at] + weighs(load) > rooms[at].weight
    };
    for (number, (load, to)) in loads.iter().zip(plan).enumerate() {
        let able = |at: &usize| !rooms[*at].leaving && load.needs.is_subset(&rooms[*at].labels);
        let pinned = load.pin.filter(|pin| *pin < rooms.len() && able(pin));
        let open = (0..rooms.len()).filter(able).filter(|at| !is_full(*at, load));
        match *to {
            Err(why) => {
                if let Some(at) = open.into_iter().next() {
                    return Err(format!(
                        "unit {number} is planned for nobody ({why:?}), and worker {at} has room"
                    ));
                }
            }
            Ok(from) if pinned == Some(from) => {}
            Ok(_) if load.stays && pinned.is_none() => {}
            Ok(from) => {
                if let Some(pin) = pinned.filter(|pin| !is_full(*pin, load)) {
                    return Err(format!("unit {number} is pinned to worker {pin} and planned for {from}"));
                }
                let (has, cost): (&[u64], u64) = match balance {
                    Balance::Count => (&counted, 1),
                    _ => (&weighed, weighs(load)),
                };
                if let Some(other) =
                    open.into_iter().find(|other| has[from].saturating_sub(has[*other]) > cost)
                {
                    return Err(format!(
                        "unit {number} would be better with worker {other} than {from}: {has:?}"
                    ));
                }
            }
        }
    }
    failing_is_spread(loads, rooms, plan)?;
    few_moves(loads, rooms, balance, plan)
}

/// Where all workers may have all that fails: what of it comes to a worker comes to one that has least of it.
fn failing_is_spread(loads: &[Load], rooms: &[Room], plan: &Plan) -> Result<(), String> {
    let unlimited = |room: &Room| room.units == u64::MAX && room.weight == u64::MAX;
    let failing = || loads.iter().zip(plan).filter(|(load, _)| load.stays);
    let anywhere = |load: &Load| load.needs.is_empty() && load.pin.is_none() && load.declined_by.is_empty();
    if !rooms.iter().all(unlimited) || !failing().all(|(load, _)| anywhere(load)) {
        return Ok(());
    }
    let has = |at: usize| failing().filter(|(_, to)| **to == Ok(at)).count();
    let has: Vec<usize> = (0..rooms.len()).map(has).collect();
    for (_, to) in failing().filter(|(load, to)| load.owner != to.ok()) {
        let least = (0..rooms.len()).filter(|at| !rooms[*at].leaving).map(|at| has[at]).min();
        if to.is_ok_and(|to| least.is_some_and(|least| has[to] > least + 1)) {
            return Err(format!("what fails comes to one worker of many: {has:?}"));
        }
    }
    Ok(())
}

/// Where all workers may have all units, each keeps its share, rounded up for as many as there are units over.
fn few_moves(loads: &[Load], rooms: &[Room], balance: Balance, plan: &Plan) -> Result<(), String> {
    let alike = |room: &Room| !room.leaving && room.units == u64::MAX && room.weight == u64::MAX;
    let plain = |load: &Load| load.needs.is_empty() && load.pin.is_none() && !load.stays;
    if balance != Balance::Count || rooms.is_empty() || !rooms.iter().all(alike) || !loads.iter().all(plain) {
        return Ok(());
    }
    let (share, over) = (loads.len() / rooms.len(), loads.len() % rooms.len());
    let had: Vec<usize> =
        (0..rooms.len()).map(|at| loads.iter().filter(|load| load.owner == Some(at)).count()).collect();
    let above = had.iter().filter(|had| **had > share).count();
    let keeps = had.iter().map(|had| *had.min(&share)).sum::<usize>() + above.min(over);
    let kept =
        loads.iter().zip(plan).filter(|(load, to)| load.owner.is_some() && to.ok() == load.owner).count();
    if kept == keeps {
        return Ok(());
    }
    Err(format!("{kept} units stay where they are, and {keeps} could"))
}
