//! A fleet's snapshot, gathered from its records one by one: of a million units, no more is kept than is shown.

use super::snapshot::planning::BoardView;
use super::snapshot::{Snapshot, Stated, UnitOwner, UnitSnapshot, WorkerSnapshot, silence};
use crate::output::problem::RecordProblem;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure::fleet::{FleetKey, FleetName, Planning, Status, Uncovered, UnitSpec};
use tenure::store::{Attachment, Listed, Record, Stored};
use tenure::{HolderId, Key, Wall};

/// One fleet's records so far.
pub(crate) struct FleetGathering {
    snapshot: Snapshot,
    board: Option<Record>,
    /// Who has units by their records, and their place among the owners: nobody is the first one.
    owners: BTreeMap<(HolderId, Option<Attachment>), u32>,
    /// Sessions that can't be read, or are no worker's of this version: what is attached to them stays there.
    odd: BTreeMap<Key, Uncovered>,
    /// What the last unit states: most often the next one states the same.
    stated: Arc<Stated>,
}

impl FleetGathering {
    pub(crate) fn new(name: FleetName) -> FleetGathering {
        FleetGathering {
            snapshot: Snapshot::empty(name),
            board: None,
            owners: BTreeMap::new(),
            odd: BTreeMap::new(),
            stated: Arc::default(),
        }
    }

    /// Takes in one of the fleet's records.
    pub(crate) fn add(&mut self, listed: Listed, now: Wall) {
        let Listed { key, stored } = listed;
        self.snapshot.records += 1;
        self.snapshot.now = now;
        let part = FleetKey::of(&key).map(|(_, part)| part);
        let stored = match stored {
            Ok(stored) => stored,
            Err(error) => {
                if matches!(part, Some(FleetKey::Worker(_))) {
                    self.odd.insert(key.clone(), Uncovered::Damaged);
                }
                return self.snapshot.damaged.push((key, (&error).into()));
            }
        };
        match part {
            Some(FleetKey::Worker(_)) => self.add_worker(key, &stored, now),
            Some(FleetKey::Board) => self.board = Some(stored.record),
            Some(FleetKey::Unit(unit)) => self.add_unit(unit, &key, stored),
            _ => {}
        }
    }

    fn add_worker(&mut self, key: Key, stored: &Stored, now: Wall) {
        let Some(tenure) = &stored.record.tenure else { return };
        let is_alive = silence(stored, now) < tenure.ttl.duration();
        let worker = WorkerSnapshot::of(key.clone(), stored, now);
        if is_alive && !worker.as_ref().is_some_and(|worker| worker.is_of_this_layout) {
            self.odd.insert(key, Uncovered::Foreign);
        }
        self.snapshot.workers.extend(worker);
    }

    fn add_unit(&mut self, name: &str, key: &Key, stored: Stored) {
        let stated = match UnitSpec::parse(stored.record.metadata) {
            Ok((spec, _)) if spec.status == Status::Deleted => {
                self.snapshot.removed += 1;
                return;
            }
            Ok((spec, fields)) => Stated { spec, fields },
            Err(error) => {
                let problem = RecordProblem::from(&error);
                self.snapshot.unreadable.push((key.clone(), problem.clone()));
                return self.snapshot.damaged.push((key.clone(), problem));
            }
        };
        if *self.stated != stated {
            self.stated = Arc::new(stated);
        }
        let tenure = stored.record.tenure;
        let since = tenure.as_ref().map(|tenure| tenure.since);
        let owner = tenure.map_or(0, |tenure| {
            let next = u32::try_from(self.owners.len() + 1).unwrap_or(u32::MAX);
            *self.owners.entry((tenure.holder, tenure.attachment)).or_insert(next)
        });
        let (name, stated) = (name.into(), Arc::clone(&self.stated));
        let unit =
            UnitSnapshot { name, stated, fence: stored.record.fence, owner, since, target: None, why: None };
        self.snapshot.units.push(unit);
    }

    /// All of its records are there.
    pub(crate) fn end(self) -> Snapshot {
        let FleetGathering { mut snapshot, board, owners, odd, .. } = self;
        let sessions: BTreeMap<Key, usize> =
            snapshot.workers.iter().enumerate().map(|(at, worker)| (worker.session.clone(), at)).collect();
        let worker_of = |attachment: &Attachment| {
            let at = sessions.get(&attachment.session).copied()?;
            snapshot.workers.get(at).filter(|worker| worker.session_fence == attachment.fence).map(|_| at)
        };
        let is_alive = |at: &usize| snapshot.workers.get(*at).is_some_and(WorkerSnapshot::is_alive);
        let board = board.map(|board| {
            let planning = Planning::of(&board);
            let planner = planning.planner.as_ref().and_then(&worker_of).filter(is_alive);
            BoardView { planner, planning, changed: board.stamp }
        });
        let roster = snapshot.name.worker_prefix();
        let mut in_order: Vec<_> = owners.into_iter().collect();
        in_order.sort_unstable_by_key(|(_, place)| *place);
        let owner = |((holder, attachment), _): ((HolderId, Option<Attachment>), u32)| match attachment {
            None => UnitOwner::Outsider(holder),
            Some(attachment) if !attachment.session.as_str().starts_with(&roster) => {
                UnitOwner::Outsider(holder)
            }
            Some(attachment) => match odd.get(&attachment.session) {
                Some(why) => UnitOwner::Behind(holder, *why),
                None => worker_of(&attachment).map_or(UnitOwner::Dead(holder), UnitOwner::Worker),
            },
        };
        let owners = std::iter::once(UnitOwner::Nobody).chain(in_order.into_iter().map(owner)).collect();
        (snapshot.board, snapshot.owners) = (board, owners);
        snapshot.count_held();
        snapshot.plan();
        snapshot
    }
}

/// Fleets one after the other, as their records come in the order of keys.
pub(crate) struct Fleets {
    current: Option<(FleetName, FleetGathering)>,
}

impl Fleets {
    pub(crate) fn new() -> Fleets {
        Fleets { current: None }
    }

    /// Takes in a record, and returns the fleet before it if that is whole.
    pub(crate) fn add(&mut self, listed: Listed, now: Wall) -> Option<Snapshot> {
        let name = FleetKey::of(&listed.key).and_then(|(name, _)| FleetName::new(name).ok())?;
        if let Some((current, gathering)) = &mut self.current
            && *current == name
        {
            gathering.add(listed, now);
            return None;
        }
        let mut gathering = FleetGathering::new(name.clone());
        gathering.add(listed, now);
        self.current.replace((name, gathering)).map(|(_, whole)| whole.end())
    }

    /// The last one.
    pub(crate) fn end(self) -> Option<Snapshot> {
        self.current.map(|(_, gathering)| gathering.end())
    }
}
