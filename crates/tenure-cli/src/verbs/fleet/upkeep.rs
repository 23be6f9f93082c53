//! What `gc` has to know of fleets: an open unit is a record that nobody may hold, and is no rubbish.

use std::collections::{BTreeMap, BTreeSet};
use tenure::fleet::{FleetKey, FleetName, Status, UnitSpec};
use tenure::store::{Listed, Stored};
use tenure::{Fence, HolderId, Key};

/// All fleets of a store, as far as it matters here.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Fleets with a unit, whatever its status.
    with_units: BTreeSet<String>,
    /// Fleets with a worker that has not been given up.
    with_workers: BTreeSet<String>,
    /// The fences of the sessions that are somebody's.
    sessions: BTreeMap<Key, Fence>,
    /// Sessions that can't be read.
    unread: BTreeSet<Key>,
}

/// What may be done about a record that is old enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpkeepVerdict {
    /// It is no fleet's: what holds for all records holds.
    Elsewhere,
    Remove,
    /// It is in use, though nobody may hold it.
    Keep,
    /// It is a unit's, and can't be read.
    Damaged,
    /// It is a unit's, and a newer version can read it.
    Newer,
}

impl Upkeep {
    /// Takes in a page of a listing of all that begins as fleets' records do.
    pub(crate) fn see(&mut self, page: &[Listed]) {
        for Listed { key, stored } in page {
            let Some((name, part)) = FleetKey::of(key) else { continue };
            match (part, stored) {
                (FleetKey::Worker(_), Ok(stored)) if stored.record.tenure.is_some() => {
                    self.with_workers.insert(name.to_owned());
                    self.sessions.insert(key.clone(), stored.record.fence);
                }
                (FleetKey::Worker(_), Err(_)) => {
                    self.with_workers.insert(name.to_owned());
                    self.unread.insert(key.clone());
                }
                (FleetKey::Unit(_), _) => drop(self.with_units.insert(name.to_owned())),
                _ => {}
            }
        }
    }

    /// What may be done about a record that has been left alone for long enough. Sessions are judged elsewhere.
    pub(crate) fn judge(&self, key: &Key, stored: &Stored) -> UpkeepVerdict {
        let Some((name, part)) = FleetKey::of(key) else { return UpkeepVerdict::Elsewhere };
        match part {
            FleetKey::Worker(_) if stored.record.tenure.is_none() => UpkeepVerdict::Remove,
            FleetKey::Worker(_) => UpkeepVerdict::Elsewhere,
            FleetKey::Board if self.with_units.contains(name) || self.with_workers.contains(name) => {
                UpkeepVerdict::Keep
            }
            FleetKey::Board => UpkeepVerdict::Remove,
            // What was told to a worker is nobody's once that has gone. One that comes back is told anew.
            FleetKey::Plan(worker) if !self.has_worker(name, worker) => UpkeepVerdict::Remove,
            FleetKey::Unit(_) => match UnitSpec::parse(stored.record.metadata.clone()) {
                Ok((spec, _)) if spec.status == Status::Open || self.is_held(stored) => UpkeepVerdict::Keep,
                Ok(_) => UpkeepVerdict::Remove,
                Err(error) if error.is_newer() => UpkeepVerdict::Newer,
                Err(_) => UpkeepVerdict::Damaged,
            },
            // Part of a plan that a worker may act on, or what only a newer version knows.
            _ => UpkeepVerdict::Keep,
        }
    }

    /// Whether this worker's session is somebody's, as far as can be read.
    fn has_worker(&self, fleet: &str, worker: &str) -> bool {
        let session = FleetName::new(fleet).and_then(|fleet| fleet.worker(&HolderId::new(worker)?));
        session.is_ok_and(|session| self.sessions.contains_key(&session) || self.unread.contains(&session))
    }

    /// Whether a unit's claim may still be good: that of a worker whose session was given up, or fenced, is not.
    fn is_held(&self, stored: &Stored) -> bool {
        match &stored.record.tenure {
            None => false,
            Some(tenure) => match &tenure.attachment {
                None => true,
                Some(attachment) => self.sessions.get(&attachment.session) == Some(&attachment.fence),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure::fleet::UnitSpec;
    use tenure::store::{Attachment, Record, Tenure};
    use tenure::{HolderId, Metadata, Ttl, Wall};
    use tenure_core::Nonces;

    fn stored(status: Status, on: Option<(&str, u64)>) -> Stored {
        let metadata = UnitSpec::default().status(status).compose(Metadata::new()).unwrap();
        let nonce = Nonces::new(1).draw();
        let tenure = on.map(|(session, fence)| Tenure {
            attachment: Some(Attachment { session: Key::new(session).unwrap(), fence: Fence(fence) }),
            ..Tenure::new(nonce, HolderId::new("w").unwrap(), Ttl::clamped(1000), Wall(0))
        });
        let record = Record { fence: Fence(7), nonce, stamp: Wall(0), tenure, metadata };
        Stored::new(record)
    }

    fn upkeep(records: &[(&str, Stored)]) -> Upkeep {
        let listing: Vec<Listed> = records
            .iter()
            .map(|(key, stored)| Listed { key: Key::new(key).unwrap(), stored: Ok(stored.clone()) })
            .collect();
        let mut upkeep = Upkeep::default();
        upkeep.see(&listing);
        upkeep
    }

    #[track_caller]
    fn judged(upkeep: &Upkeep, key: &str, stored: &Stored, verdict: UpkeepVerdict) {
        assert_eq!(upkeep.judge(&Key::new(key).unwrap(), stored), verdict, "{key}");
    }

    #[test]
    fn a_unit_goes_once_it_is_closed_and_no_worker_can_have_it() {
        let mut session = stored(Status::Open, None);
        session.record.tenure = stored(Status::Open, Some(("s", 1))).record.tenure;
        let upkeep = upkeep(&[("fleet/f/worker/w", session)]);
        let on = |fence| Some(("fleet/f/worker/w", fence));
        for (status, holder, verdict) in [
            (Status::Open, None, UpkeepVerdict::Keep),
            (Status::Done, None, UpkeepVerdict::Remove),
            (Status::Deleted, None, UpkeepVerdict::Remove),
            (Status::Deleted, on(7), UpkeepVerdict::Keep),
            (Status::Deleted, on(6), UpkeepVerdict::Remove),
            (Status::Done, Some(("fleet/f/worker/gone", 7)), UpkeepVerdict::Remove),
        ] {
            judged(&upkeep, "fleet/f/unit/u", &stored(status, holder), verdict);
        }
        judged(&upkeep, "other/f/unit/u", &stored(Status::Done, None), UpkeepVerdict::Elsewhere);
    }

    #[test]
    fn a_board_goes_when_the_fleet_is_empty() {
        let (board, vacant) = ("fleet/f/board", stored(Status::Open, None));
        judged(&upkeep(&[]), board, &vacant, UpkeepVerdict::Remove);
        judged(&upkeep(&[("fleet/f/worker/w", vacant.clone())]), board, &vacant, UpkeepVerdict::Remove);
        let done = stored(Status::Done, None);
        judged(&upkeep(&[("fleet/f/unit/u", done)]), board, &vacant, UpkeepVerdict::Keep);
        let worker = stored(Status::Open, Some(("s", 1)));
        judged(&upkeep(&[("fleet/f/worker/w", worker)]), board, &vacant, UpkeepVerdict::Keep);
        judged(&upkeep(&[("fleet/other/unit/u", vacant.clone())]), board, &vacant, UpkeepVerdict::Remove);
        judged(&upkeep(&[]), "fleet/f/worker/w", &vacant, UpkeepVerdict::Remove);
    }

    #[test]
    fn a_part_of_a_plan_goes_once_its_worker_has_gone() {
        let (vacant, session) = (stored(Status::Open, None), stored(Status::Open, Some(("s", 1))));
        let mut upkeep = upkeep(&[("fleet/f/worker/w", session), ("fleet/f/worker/left", vacant.clone())]);
        let unread = Err(tenure::StoreError::foreign("damaged"));
        upkeep.see(&[Listed { key: Key::new("fleet/f/worker/odd").unwrap(), stored: unread }]);
        for (worker, verdict) in [
            ("w", UpkeepVerdict::Keep),
            ("odd", UpkeepVerdict::Keep),
            ("left", UpkeepVerdict::Remove),
            ("gone", UpkeepVerdict::Remove),
        ] {
            judged(&upkeep, &format!("fleet/f/plan/{worker}"), &vacant, verdict);
        }
        judged(&upkeep, "fleet/other/plan/w", &vacant, UpkeepVerdict::Remove);
        judged(&upkeep, "fleet/f/newer/w", &vacant, UpkeepVerdict::Keep);
    }
}
