//! S10 for fleets: what is done to a unit's record by hand reaches its worker. The record was deleted, or put back to an older
//! state: once it is told to list, a worker looks at those of its own units whose records show another tenure, or none, and loses them.

use crate::fleet::Node;
use crate::fleet::world::Truth;
use crate::kernel::clock::True;
use crate::kernel::registers::Registers;
use std::collections::BTreeMap;
use tenure_core::Key;

/// Asked when all have listed since the board was `raised`: who works on a unit without standing in its record, since before that?
pub(crate) fn found_out(
    node: &Node,
    units: &BTreeMap<Key, Truth>,
    store: &Registers,
    raised: True,
) -> Result<(), String> {
    for work in node.own.works.values().filter(|work| work.runs()) {
        let stands = store.get(&work.unit).is_some_and(|record| record.fence == work.fence);
        let behind = units.get(&work.unit).map(|truth| truth.behind.as_slice()).unwrap_or_default();
        let since = behind.iter().find(|(fence, _)| *fence == work.fence).map(|(_, at)| *at);
        if !stands && since.is_some_and(|at| at < raised) {
            return Err(format!(
                "{} works on {} under fence {}, which its record does not show any more",
                node.who, work.unit, work.fence
            ));
        }
    }
    Ok(())
}
