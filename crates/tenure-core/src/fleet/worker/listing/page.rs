//! What a page adds to a listing.

use super::{Listing, ListingSection, Purpose};
use crate::bugs::{Bug, Bugs};
use crate::fleet::about::About;
use crate::fleet::digest::Digest;
use crate::fleet::layout::{is_of_this_layout, other_layout};
use crate::fleet::names::FleetKey;
use crate::fleet::part::Shows;
use crate::fleet::plan::{JOINING, Uncovered};
use crate::fleet::unit::UnitSpec;
use crate::fleet::worker::env::FleetEnv;
use crate::fleet::worker::listed::{Owner, Peer, Unit};
use crate::holder::failure_detector::HolderVerdict;
use crate::op::Listed;
use crate::values::error::StoreError;
use crate::values::key::{HolderId, Key};
use crate::values::record::Stored;
use crate::values::time::Now;

/// What a session's record says of its worker's life, by whoever watches that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fleet::worker) struct SessionSighting {
    pub(in crate::fleet::worker) verdict: HolderVerdict,
    /// It tells at first sight how long the worker has been silent.
    pub(in crate::fleet::worker) attested: bool,
}

/// The records of a page; those of sessions that have a tenure, with what that says.
pub(in crate::fleet::worker) type ListedPage = Vec<(Listed, Option<SessionSighting>)>;

impl ListingSection {
    /// What is listed after it.
    pub(super) fn next(self, purpose: Purpose) -> Option<ListingSection> {
        match (self, purpose) {
            (ListingSection::Workers, Purpose::Roster) | (ListingSection::Units, _) => None,
            (ListingSection::Workers, Purpose::Plan) => Some(ListingSection::Parts),
            (ListingSection::Workers, Purpose::Own) | (ListingSection::Parts, _) => {
                Some(ListingSection::Units)
            }
        }
    }
}

impl Listing {
    /// One record more. Some trouble about it, that users are told.
    pub(super) fn add(
        &mut self,
        now: Now,
        env: &FleetEnv,
        (Listed { key, stored }, sighting): (Listed, Option<SessionSighting>),
    ) -> Option<StoreError> {
        match (self.section, stored) {
            (ListingSection::Workers, Ok(stored)) => return self.add_peer(now, env, key, stored, sighting),
            (ListingSection::Parts, Ok(stored)) => self.add_part(env, key, stored),
            (ListingSection::Units, Ok(stored)) => self.add_unit(key, stored, env.bugs),
            (section, Err(error)) => {
                if section == ListingSection::Workers {
                    self.odd.insert(key.clone(), Uncovered::Damaged);
                }
                self.damaged.push((key, error));
            }
        }
        None
    }

    /// Keeps the part of the plan that was told to a worker. Sessions are listed first: what was told to who has gone is nobody's until it is collected.
    fn add_part(&mut self, env: &FleetEnv, key: Key, stored: Stored) {
        if whose_part(env, &key).is_some_and(|who| self.peers.contains_key(&who)) {
            self.parts.insert(key, stored);
        }
    }

    /// Counts a session as a worker if it says that it is one, and has not been silent for a ttl.
    fn add_peer(
        &mut self,
        now: Now,
        env: &FleetEnv,
        key: Key,
        stored: Stored,
        sighting: Option<SessionSighting>,
    ) -> Option<StoreError> {
        let (Some(tenure), Some(sighting)) = (&stored.record.tenure, sighting) else {
            self.ended.insert(key);
            return None;
        };
        if now.wall.since(tenure.since) < tenure.ttl.duration() * JOINING {
            self.young.insert(key.clone());
        }
        if key == env.me {
            return None;
        }
        if sighting.verdict == HolderVerdict::Suspected {
            // Whoever watched it may have died, or failed to fence it.
            self.ended.insert(key.clone());
            self.dead.push((key, stored));
            return None;
        }
        let Some(about) = About::parse(&stored.record.metadata) else {
            self.odd.insert(key, Uncovered::Foreign);
            return None;
        };
        if !is_of_this_layout(&stored.record.metadata) {
            // It goes by plans of its own. What it has stays there.
            self.odd.insert(key, Uncovered::Foreign);
            let trouble = other_layout(env.fleet(), &tenure.holder);
            return Some(trouble);
        }
        let (holder, fence, ttl) = (tenure.holder.clone(), stored.record.fence, tenure.ttl);
        let letters = About::hears_letters(&stored.record.metadata);
        let has = Digest::parse(&stored.record.metadata);
        let planned = has.map_or(0, |has| has.units);
        let attested = sighting.attested;
        let heartbeat = tenure.heartbeat;
        self.peers
            .insert(key, Peer { holder, fence, ttl, about, has, heartbeat, planned, letters, attested });
        None
    }

    fn add_unit(&mut self, key: Key, stored: Stored, bugs: Bugs) {
        let spec = match UnitSpec::parse(stored.record.metadata.clone()) {
            Ok((spec, _)) => spec,
            Err(error) => return self.damaged.push((key, error)),
        };
        let held = stored.record.tenure.as_ref().map(|tenure| (tenure.id, stored.record.fence).into());
        let shows = Shows::of(&stored.record);
        let owner = match &stored.record.tenure {
            None => Owner::Nobody(stored.into()),
            Some(tenure) => match &tenure.attachment {
                None => Owner::Outsider,
                Some(attachment) if !attachment.session.as_str().starts_with(&self.roster) => Owner::Outsider,
                Some(attachment) if self.odd.contains_key(&attachment.session) => {
                    self.odd.get(&attachment.session).map_or(Owner::Outsider, |why| Owner::Behind(*why))
                }
                Some(attachment) if bugs.has(Bug::DeadTransfereeTrusted) => {
                    Owner::Worker(attachment.session.clone())
                }
                Some(attachment) => match self.peers.get_key_value(&attachment.session) {
                    // One name for all that it has.
                    Some((session, peer)) if peer.fence == attachment.fence => Owner::Worker(session.clone()),
                    None if !self.ended.contains(&attachment.session) => Owner::Missing(stored.into()),
                    // Dead, or ourselves: that is told apart once all is listed.
                    _ => Owner::Nobody(stored.into()),
                },
            },
        };
        self.units.insert(key, Unit { spec: spec.into(), owner, held, shows });
    }
}

/// The session of the worker to whom a part of the plan was told.
fn whose_part(env: &FleetEnv, part: &Key) -> Option<Key> {
    let (_, FleetKey::Plan(worker)) = FleetKey::of(part)? else { return None };
    env.fleet().worker(&HolderId::new(worker).ok()?).ok()
}
