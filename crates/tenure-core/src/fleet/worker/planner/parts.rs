//! What each worker has to do by a plan.

use crate::fleet::digest::Digest;
use crate::fleet::part::{self, Part, Shows, Task};
use crate::fleet::plan::Uncovered;
use crate::fleet::sorted::Sorted;
use crate::fleet::unit::Status;
use crate::fleet::worker::env::FleetEnv;
use crate::fleet::worker::listed::{Owner, Peer, Unit};
use crate::fleet::worker::listing::Listing;
use crate::values::key::Key;
use crate::values::record::Attachment;
use std::collections::BTreeMap;

/// For which worker each unit is planned, by its session.
pub(in crate::fleet::worker) type Targets = Sorted<Result<Key, Uncovered>>;

/// What each of the others has to do, and a digest of that, however much it is.
pub(super) fn parts(
    env: &FleetEnv,
    planner: &Attachment,
    listing: &Listing,
    targets: &Targets,
) -> (BTreeMap<Key, Part>, BTreeMap<Key, Digest>) {
    let others = listing.peers.iter().filter(|(session, _)| **session != env.me);
    let mut parts: BTreeMap<Key, Part> =
        others.map(|(session, peer)| (session.clone(), Part::new(planner.clone(), peer.fence))).collect();
    let mut sizes: BTreeMap<Key, usize> = BTreeMap::new();
    let mut sums: BTreeMap<Key, Digest> = BTreeMap::new();
    let mut tell = |session: &Key, (key, name, unit): (&Key, &str, &Unit), task: Task, peer: Option<&Key>| {
        let Some(part) = parts.get_mut(session) else { return };
        let sum = sums.entry(session.clone()).or_default();
        *sum = sum.with(task.share(key, unit.shows, peer));
        let size = sizes.entry(session.clone()).or_default();
        if *size > part::MAX_BYTES {
            // It does not fit into a record, so nothing of it will be told.
            return;
        }
        *size += task.size(name);
        let peer = peer.and_then(|session| listing.peers.get(session));
        part.peers.extend(peer.map(|peer| (peer.holder.clone(), (peer.fence, peer.ttl))));
        part.tasks.insert(name.to_owned(), (unit.shows, task));
    };
    let holder = |session: &Key| listing.peers.get(session).map(|peer: &Peer| peer.holder.clone());
    for (key, unit) in listing.units.iter() {
        let Some(name) = env.fleet().unit_of(key) else { continue };
        let unit = (key, name, unit);
        match (targets.get(key), &unit.2.owner) {
            (Some(Ok(target)), Owner::Nobody(_)) => tell(target, unit, Task::Take, None),
            // Each waits for itself until that has lasted for a ttl.
            (Some(Ok(target)), Owner::Missing(_) | Owner::LongMissing(_)) => {
                tell(target, unit, Task::TakeMissing, None);
            }
            (Some(Ok(target)), Owner::Worker(owner)) if target != owner => {
                if let Some(who) = holder(owner) {
                    tell(target, unit, Task::Await(who), Some(owner));
                }
                if let Some(who) = holder(target) {
                    tell(owner, unit, Task::Pass(who), Some(target));
                }
            }
            (Some(Err(why)), Owner::Worker(owner)) => tell(owner, unit, Task::Drop(*why), None),
            (None, Owner::Worker(owner)) if unit.2.spec.status != Status::Open => {
                tell(owner, unit, Task::Close(unit.2.spec.status), None);
            }
            _ => {}
        }
    }
    (parts, sums)
}

/// The units that a worker has by their records.
pub(super) fn listed_of(env: &FleetEnv, listing: &Listing, session: &Key) -> Vec<(String, Shows)> {
    let is_own = |unit: &Unit| matches!(&unit.owner, Owner::Worker(owner) if owner == session);
    let own = listing.units.iter().filter(|(_, unit)| is_own(unit));
    own.filter_map(|(key, unit)| Some((env.fleet().unit_of(key)?.to_owned(), unit.shows))).collect()
}
