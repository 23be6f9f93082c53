//! The records of a fleet that is to be forgotten, by what becomes of them.

use super::FleetWatch;
use crate::exit::{self, Failure};
use crate::output;
use crate::output::problem::RecordProblem;
use crate::stores::pages::Pages;
use crate::stores::patiently;
use crate::text::{brief, count, escaped};
use std::collections::BTreeMap;
use tenure::fleet::{FleetKey, FleetName, Status, UnitSpec};
use tenure::store::{Attachment, Listed, Record, Stored, Version};
use tenure::{Fence, Key, Leases, StoreError, Ttl};

/// What has to be known of a record to remove it as it was seen. No more is kept of each, as there may be a million.
#[derive(Debug)]
pub(super) struct FleetRecordVersion {
    pub(super) key: Key,
    pub(super) version: Version,
    pub(super) fence: Fence,
}

/// A unit that somebody has, and by which session.
#[derive(Debug)]
pub(super) struct HeldFleetUnit {
    seen: FleetRecordVersion,
    attachment: Option<Attachment>,
    ttl: Ttl,
}

impl HeldFleetUnit {
    fn version(&self) -> (Key, Version) {
        (self.seen.key.clone(), self.seen.version)
    }
}

/// The records of a fleet, by what becomes of them.
#[derive(Debug, Default)]
pub(super) struct FleetRecords {
    /// How many there are.
    pub(super) all: usize,
    /// Units that nobody has who lives, as none of the fleet's workers does.
    pub(super) units: Vec<FleetRecordVersion>,
    /// Units of workers whose sessions are gone: whether these live is not known yet.
    pub(super) lost: Vec<HeldFleetUnit>,
    /// Units that somebody has from outside the fleet.
    pub(super) held: Vec<HeldFleetUnit>,
    /// How many units there are, without those that were removed.
    pub(super) told: usize,
    /// How many of them are not done.
    pub(super) open: usize,
    /// How many of them have a status that is not known here, or say nothing that makes sense of a unit.
    pub(super) unknown: usize,
    /// The board, and parts of plans.
    pub(super) rest: Vec<FleetRecordVersion>,
    pub(super) sessions: Vec<(Key, Stored)>,
    /// Sessions that can't be read: their workers may live.
    pub(super) unread: Vec<(Key, RecordProblem)>,
    /// Units that can't be read, and what only a newer version knows.
    pub(super) kept: usize,
    /// Of all that can't be read: what is damaged, or a newer version's.
    pub(super) damaged: usize,
    pub(super) newer: usize,
}

/// What stays for another reason than that it can't be read.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Stay {
    /// Units that somebody holds from outside.
    pub(super) outside: usize,
    /// Units of workers whose sessions are gone.
    pub(super) lost: usize,
    /// Records that somebody has changed meanwhile.
    pub(super) changed: usize,
    /// Records that the store does not remove, and what it says.
    pub(super) refused: usize,
    pub(super) refusal: String,
    /// The board, and what workers have left.
    pub(super) rest: usize,
}

impl Stay {
    pub(super) fn is_any_taken(&self) -> bool {
        self.outside + self.lost + self.changed + self.refused > 0
    }
}

impl FleetRecords {
    pub(super) async fn of(leases: &Leases, name: &FleetName) -> Result<FleetRecords, Failure> {
        let (store, prefix) = (leases.store(), name.prefix());
        let (mut pages, mut found) = (Pages::default(), FleetRecords::default());
        while let Some(page) = patiently(async || pages.next(store, &prefix).await).await? {
            for Listed { key, stored } in page {
                found.all += 1;
                match stored {
                    Ok(stored) => found.add(key, stored),
                    Err(error) => found.add_unread(key, &error),
                }
            }
        }
        found.judge_held(name);
        Ok(found)
    }

    /// What there is, once all who have worked on it are known to be dead. Fails as [`Self::check_over`].
    pub(super) async fn of_the_dead(
        leases: &Leases,
        name: &FleetName,
        watch: &mut FleetWatch,
    ) -> Result<FleetRecords, Failure> {
        loop {
            let mut found = FleetRecords::of(leases, name).await?;
            if watch.is_asked_later {
                watch.workers.ask_later(found.question(name));
            }
            found.check_over(leases, name, watch).await?;
            let unknown = found.lost.iter().filter(|unit| !watch.lost.contains(&unit.version()));
            let Some(longest) = unknown.map(|unit| unit.ttl.duration()).max() else {
                // A session that is missing is silent from when it is first missed.
                found.units.extend(std::mem::take(&mut found.lost).into_iter().map(|unit| unit.seen));
                return Ok(found);
            };
            watch.workers.check_asked()?;
            output::note(format!(
                "{} held by workers whose sessions are gone, who may live: watching for {}",
                count(found.lost.len(), "unit"),
                brief(longest)
            ));
            tokio::time::sleep(longest).await;
            watch.lost.extend(found.lost.iter().map(HeldFleetUnit::version));
        }
    }

    fn add(&mut self, key: Key, stored: Stored) {
        let seen = |key| FleetRecordVersion { key, version: stored.version, fence: stored.record.fence };
        match FleetKey::of(&key).map(|(_, part)| part) {
            Some(FleetKey::Worker(_)) => self.sessions.push((key, stored)),
            Some(FleetKey::Board | FleetKey::Plan(_)) => self.rest.push(seen(key)),
            Some(FleetKey::Unit(_)) => {
                let seen = seen(key);
                let Record { tenure, metadata, .. } = stored.record;
                let status = UnitSpec::parse(metadata).map(|(spec, _)| spec.status);
                self.told += usize::from(!matches!(status, Ok(Status::Deleted)));
                self.open += usize::from(matches!(status, Ok(Status::Open)));
                self.unknown += usize::from(status.is_err());
                match tenure {
                    None => self.units.push(seen),
                    Some(tenure) => {
                        let (attachment, ttl) = (tenure.attachment, tenure.ttl);
                        self.held.push(HeldFleetUnit { seen, attachment, ttl });
                    }
                }
            }
            _ => {
                self.kept += 1;
                self.newer += 1;
            }
        }
    }

    fn add_unread(&mut self, key: Key, error: &StoreError) {
        let count = if error.is_newer() { &mut self.newer } else { &mut self.damaged };
        *count += 1;
        match FleetKey::of(&key).map(|(_, part)| part) {
            Some(FleetKey::Worker(_)) => {
                let problem = RecordProblem::of(&key, error);
                self.unread.push((key, problem));
            }
            Some(FleetKey::Board | FleetKey::Plan(_)) => {}
            _ => self.kept += 1,
        }
    }

    /// What a worker of the fleet has goes with its session, as none of them lives. Of all others it is not known here.
    fn judge_held(&mut self, name: &FleetName) {
        let sessions: BTreeMap<&Key, Fence> =
            self.sessions.iter().map(|(key, stored)| (key, stored.record.fence)).collect();
        let prefix = name.worker_prefix();
        for unit in std::mem::take(&mut self.held) {
            let own = unit.attachment.as_ref().filter(|on| on.session.as_str().starts_with(&prefix));
            let has_session = own.map(|on| sessions.get(&on.session).is_some_and(|fence| *fence >= on.fence));
            match has_session {
                Some(true) => self.units.push(unit.seen),
                Some(false) => self.lost.push(unit),
                None => self.held.push(unit),
            }
        }
    }

    /// Fails if there is no such fleet, or a worker of it lives, or may live.
    pub(super) async fn check_over(
        &self,
        leases: &Leases,
        name: &FleetName,
        watch: &mut FleetWatch,
    ) -> Result<(), Failure> {
        if self.all == 0 {
            return Err(Failure::new(exit::ABSENT, format!("there is no fleet {name}")));
        }
        if let Some((key, problem)) = self.unread.first() {
            let told = escaped(&problem.to_string());
            let remedy = match problem.is_newer() {
                true => "use the newer tenure that has written it".to_owned(),
                false => format!("once its worker has ended: `tenure rm --damaged {key}`"),
            };
            let text = format!(
                "whether a worker of fleet {name} lives is not known, since {key} can't be read: {told}; {remedy}"
            );
            return Err(Failure::new(exit::DAMAGED, text));
        }
        match watch.workers.living(leases, &name.worker_prefix(), |_| true).await? {
            Some(process) => Err(at_work(name, &process.session.key)),
            None => Ok(()),
        }
    }

    /// Whether no unit stays, so that nothing else is needed any more.
    pub(super) fn is_whole(&self) -> bool {
        self.held.is_empty() && self.lost.is_empty() && self.kept == 0
    }

    /// The highest fence of what goes. A session goes with the next one.
    pub(super) fn highest(&self) -> Option<Fence> {
        let sessions = self.sessions.iter().map(|(_, stored)| {
            let Record { fence, tenure, .. } = &stored.record;
            Fence(fence.0.saturating_add(u64::from(tenure.is_some())))
        });
        self.units.iter().chain(&self.rest).map(|seen| seen.fence).chain(sessions).max()
    }

    /// The keys of what goes, or would.
    pub(super) fn names(&self) -> Vec<String> {
        let rest = self.rest.iter().map(|seen| &seen.key).chain(self.sessions.iter().map(|(key, _)| key));
        let rest = rest.filter(|_| self.is_whole());
        self.units.iter().map(|seen| &seen.key).chain(rest).map(|key| key.as_str().to_owned()).collect()
    }

    /// What stays, if nobody changes anything.
    pub(super) fn stay(&self) -> Stay {
        let rest = if self.is_whole() { 0 } else { self.rest.len() + self.sessions.len() };
        Stay { outside: self.held.len(), lost: self.lost.len(), rest, ..Stay::default() }
    }

    /// What is asked before the fleet goes.
    pub(super) fn question(&self, name: &FleetName) -> String {
        let parts: Vec<String> =
            [(self.open, "of them not done"), (self.unknown, "of a status that this version does not know")]
                .into_iter()
                .filter(|(n, _)| *n > 0)
                .map(|(n, what)| format!("{n} {what}"))
                .collect();
        let parts = if parts.is_empty() { String::new() } else { format!(", {}", parts.join(" and ")) };
        let units = count(self.told, "unit");
        format!(
            "Remove fleet {name} with {units}{parts}? Given again, all are new, and what they carry is gone."
        )
    }
}

pub(super) fn at_work(name: &FleetName, session: &Key) -> Failure {
    let worker = worker_of(name, session);
    let text = format!(
        "fleet {name} has a worker that lives, {worker}: stop it (`tenure fleet drain`); if it has died, wait for its ttl"
    );
    Failure::new(exit::HELD, text)
}

/// The name of a worker by its session, as it may be shown.
pub(super) fn worker_of(name: &FleetName, session: &Key) -> String {
    escaped(session.as_str().strip_prefix(&name.worker_prefix()).unwrap_or(session.as_str()))
}
