//! Following a part of a plan, once it and the units that it is about have been read. A task is out of date if its unit's record shows something else
//! by now; it is ignored.

use crate::bugs::Bug;
use crate::fleet::part::{Part, Shows, Task};
use crate::fleet::sorted::Sorted;
use crate::fleet::talk::{FleetNotice, Reason, Summary};
use crate::fleet::unit::{Status, UnitSpec};
use crate::fleet::worker::FleetWorker;
use crate::fleet::worker::claims::Claim;
use crate::fleet::worker::listed::{Owner, Unit};
use crate::fleet::worker::own::Stage;
use crate::holder::command::Command;
use crate::holder::lease_id::LeaseId;
use crate::values::error::StoreError;
use crate::values::key::{HolderId, Key};
use crate::values::record::Stored;
use crate::values::time::Now;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What comes of a part's tasks for units that are not this worker's yet.
#[derive(Default)]
struct Followed {
    /// What may be claimed.
    free: VecDeque<Claim>,
    /// What belongs to a session that is missing.
    missing: Sorted<Unit>,
    /// Leases of this worker whose records were seen to be another's when the part was made.
    doubtful: Vec<LeaseId>,
    /// What has become another's since the part was made.
    overtaken: BTreeSet<Key>,
}

impl FleetWorker {
    /// Sets to work on this worker's part of a plan. Whether a unit that it should have is another's by now.
    pub(super) fn follow_part(
        &mut self,
        now: Now,
        part: &Part,
        found: BTreeMap<Key, Result<Stored, StoreError>>,
        is_news: bool,
    ) -> bool {
        self.meet_peers(part);
        let mut tasks: BTreeMap<Key, (Shows, Task)> = BTreeMap::new();
        for (name, task) in &part.tasks {
            if let Ok(unit) = self.env.fleet().unit(name) {
                tasks.insert(unit, task.clone());
            }
        }
        let found: BTreeMap<Key, Stored> =
            found.into_iter().filter_map(|(key, stored)| Some((key, stored.ok()?))).collect();
        self.revise_resting(now, &found);
        self.revise_told(&tasks);
        let awaited = self.awaited.begin_plan();
        let mut followed = Followed::default();
        for (unit, (shows, task)) in &tasks {
            if let Some(own) = self.own.get(unit) {
                if task.takes() && matches!(own.stage, Stage::Held | Stage::Draining) {
                    // By its record it is another's.
                    followed.doubtful.push(own.lease);
                }
            } else if let Some(stored) = found.get(unit) {
                self.follow_task(unit, *shows, task, stored, is_news, &mut followed);
            }
        }
        let Followed { mut free, mut missing, doubtful, overtaken } = followed;
        for unit in awaited.iter().filter(|unit| !tasks.contains_key(*unit) && !self.own.contains_key(*unit))
        {
            // It came before this plan was made.
            if found.get(unit).is_some_and(|stored| self.is_attached_here(stored)) {
                free.push_back(Claim { key: unit.clone(), seen: None, target: Some(self.env.me.clone()) });
            }
        }
        if !self.env.has_bug(Bug::ForeignTenureIgnored) {
            doubtful.into_iter().for_each(|lease| self.command_holder(now, Command::Examine(lease)));
        }
        self.settle_missing(now, &mut missing);
        for (key, unit) in missing {
            if let Owner::LongMissing(stored) = unit.owner {
                free.push_back(Claim { key, seen: Some(stored), target: Some(self.env.me.clone()) });
            }
        }
        let planned =
            |unit: &Key| tasks.get(unit).is_some_and(|(_, task)| task.takes()) && !overtaken.contains(unit);
        // What is planned for others is known to who plans.
        self.doubt_hinted(planned);
        self.doubts.keep(planned, |_| true);
        self.doubts.keep_refused(planned);
        self.awaited.end_plan(now, &awaited);
        let incoming = self.awaited.len() + free.len();
        self.plan_claims(now, free);
        self.drain_what_goes(now);
        self.tell_summary(&part.planner.session, incoming);
        self.wake_claims(now);
        if !self.awaited.is_empty() {
            self.look.now(now);
        }
        !overtaken.is_empty()
    }

    /// What a part says of others, so that who they are is known without a listing.
    fn meet_peers(&mut self, part: &Part) {
        self.roster.meet(&self.env, part);
        if !self.is_watcher() {
            let workers =
                self.told_plan().map_or(0, |plan| usize::try_from(plan.counts.0).unwrap_or(usize::MAX));
            let near = self.own.values().filter_map(|own| own.transferee.clone());
            self.roster.forget_strangers(&self.env, part, workers, near);
        }
    }

    /// What is to be done for one unit that is not this worker's yet, by what its record shows now.
    fn follow_task(
        &mut self,
        unit: &Key,
        shows: Shows,
        task: &Task,
        stored: &Stored,
        is_news: bool,
        followed: &mut Followed,
    ) {
        let Ok((spec, _)) = UnitSpec::parse(stored.record.metadata.clone()) else { return };
        let is_here = self.is_attached_here(stored);
        // What is closed, and was claimed here and forgotten, is to be had so that it can be given up.
        if spec.status != Status::Open && !is_here && !self.env.has_bug(Bug::DeletedTaken) {
            return;
        }
        let claim = |seen| Claim { key: unit.clone(), seen, target: Some(self.env.me.clone()) };
        let is_due = Shows::of(&stored.record) == shows || self.env.has_bug(Bug::StateIgnored);
        let is_vacant = stored.record.tenure.is_none();
        // Somebody has written it since it was planned, as whoever keeps its weight does: the claim is conditional on what it shows now.
        let is_open = is_news && is_vacant && self.may_have(unit, &spec);
        let seen = stored.clone().into();
        match task {
            // To be had even if only to be passed on.
            Task::Pass(who) if is_here => {
                followed.free.push_back(Claim { target: self.env.fleet().worker(who).ok(), ..claim(None) });
            }
            _ if is_here => followed.free.push_back(claim(None)),
            Task::Await(_) if is_vacant => followed.free.push_back(claim(Some(seen))),
            Task::Await(_) if is_due && !self.env.has_bug(Bug::AwaitedForgotten) => {
                self.awaited.insert(unit.clone());
            }
            Task::Take if is_due || is_open => followed.free.push_back(claim(Some(seen))),
            Task::TakeMissing if is_due => {
                let owner = Owner::Missing(seen);
                followed.missing.insert(unit.clone(), Unit { spec: spec.into(), owner, held: None, shows });
            }
            _ if !is_due && task.takes() => {
                followed.overtaken.insert(unit.clone());
            }
            _ => {}
        }
    }

    /// Whether this worker wants a unit, has all that it needs and room for its weight, and it is pinned to nobody else.
    fn may_have(&self, unit: &Key, spec: &UnitSpec) -> bool {
        let (me, about) = (&self.env.id, &self.env.options.about);
        let wants = self.env.fleet().unit_of(unit).is_none_or(|name| !about.declines.contains(name));
        let has = self.own.values().map(|own| own.spec.weight.max(1)).fold(0, u64::saturating_add);
        let has_room = has.saturating_add(spec.weight.max(1)) <= about.weight;
        let may = spec.pin.as_ref().is_none_or(|pin| pin == me) && spec.needs.is_subset(&about.labels);
        wants && has_room && may
    }

    fn is_attached_here(&self, stored: &Stored) -> bool {
        let attachment = stored.record.tenure.as_ref().and_then(|tenure| tenure.attachment.as_ref());
        attachment.is_some_and(|attachment| {
            attachment.session == self.env.me && Some(attachment.fence) == self.session_fence()
        })
    }

    /// Notes who is to have each of the own units, and which of them have to go.
    fn revise_told(&mut self, tasks: &BTreeMap<Key, (Shows, Task)>) {
        let any = self.env.has_bug(Bug::StateIgnored);
        for (unit, own) in self.own.iter_mut() {
            if matches!(own.goes, Some(Reason::Asked | Reason::Revoked)) {
                continue;
            }
            let shows = own.tenure.map(Shows::of_tenure);
            let task = tasks.get(unit).filter(|(planned_for, _)| any || shows == Some(*planned_for));
            let task = task.map(|(_, task)| task);
            let session = |who: &HolderId| self.env.fleet().worker(who).ok();
            (own.transferee, own.goes) = match task {
                Some(Task::Pass(who)) if self.life.leaving => (session(who), Some(Reason::Leaving)),
                Some(Task::Pass(who)) => (session(who), Some(Reason::Moved(who.clone()))),
                Some(Task::Close(status)) => (None, Some(Reason::Closed(*status))),
                Some(Task::Drop(_)) if self.life.leaving => (None, Some(Reason::Leaving)),
                Some(Task::Drop(why)) => (None, Some(Reason::Uncovered(*why))),
                Some(Task::Take | Task::TakeMissing | Task::Await(_)) | None => {
                    (Some(self.env.me.clone()), None)
                }
            };
        }
    }

    /// How units that rest here failed last may have been changed by somebody.
    fn revise_resting(&mut self, now: Now, found: &BTreeMap<Key, Stored>) {
        let planned_from = self.own.planned_from();
        for unit in self.retries.resting().cloned().collect::<Vec<_>>() {
            let (Some(own), Some(stored)) = (self.own.get_mut(&unit), found.get(&unit)) else { continue };
            if own.since < planned_from
                && let Ok((spec, _)) = UnitSpec::parse(stored.record.metadata.clone())
            {
                own.spec = spec;
            }
        }
        self.revise_retry(now);
    }

    /// What the last plan came to for this worker.
    pub(super) fn tell_summary(&mut self, planner: &Key, incoming: usize) {
        let (workers, units) = self.told_plan().map(|plan| plan.counts).unwrap_or_default();
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let held = self.own.values().filter(|own| own.stage != Stage::Going);
        let outgoing = self.own.values().filter(|own| own.stage == Stage::Held && own.goes.is_some()).count();
        let incoming = incoming.max(self.awaited.len());
        let summary = Summary {
            generation: self.generation(),
            planner: Some(planner.clone()),
            workers: count(workers),
            units: count(units),
            planned: (held.count() + incoming).saturating_sub(outgoing),
            outgoing,
            incoming,
            ..Summary::default()
        };
        self.tell(FleetNotice::Planned(Box::new(summary)));
    }
}
