//! What a page adds to a listing, and what follows it.

use super::{Listing, ListingSection, Purpose};
use crate::bugs::{Bug, Bugs};
use crate::fleet::about::About;
use crate::fleet::digest::Digest;
use crate::fleet::layout::{is_of_this_layout, other_layout};
use crate::fleet::names::FleetKey;
use crate::fleet::part::Shows;
use crate::fleet::plan::{JOINING, Uncovered};
use crate::fleet::talk::FleetNotice;
use crate::fleet::unit::UnitSpec;
use crate::fleet::worker::FleetWorker;
use crate::fleet::worker::listed::{Owner, Peer, Unit};
use crate::holder::failure_detector::HolderVerdict;
use crate::op::{Answer, Listed};
use crate::values::error::StoreError;
use crate::values::key::{HolderId, Key};
use crate::values::record::Stored;
use crate::values::time::Now;

impl FleetWorker {
    pub(in crate::fleet::worker) fn paged(
        &mut self,
        now: Now,
        number: u64,
        result: Result<Answer, StoreError>,
    ) {
        let Some(listing) = self.listing.take_if(|listing| listing.number == number) else { return };
        match result {
            Ok(Answer::Listed(page)) => self.add_page(now, listing, page),
            Ok(_) => self.listing = Some(listing),
            Err(error) => self.page_failed(now, listing, error),
        }
    }

    fn add_page(&mut self, now: Now, mut listing: Box<Listing>, page: Vec<Listed>) {
        let is_last = page.len() < self.env.options.page.max(1) || self.env.has_bug(Bug::OnePageListed);
        self.planner.listed_page();
        listing.ask_at = Some(now.held);
        listing.after = page.last().map(|listed| listed.key.clone()).filter(|_| !is_last);
        for listed in page {
            self.add_listed(now, &mut listing, listed);
        }
        if is_last {
            match listing.section.next(listing.purpose) {
                Some(section) => listing.section = section,
                None if listing.purpose == Purpose::Roster => return self.listed_roster(now, *listing),
                None => return self.listed_all(now, *listing),
            }
        }
        self.listing = Some(listing);
    }

    fn add_listed(&mut self, now: Now, listing: &mut Listing, Listed { key, stored }: Listed) {
        match (listing.section, stored) {
            (ListingSection::Workers, Ok(stored)) => self.add_peer(now, listing, key, stored),
            (ListingSection::Parts, Ok(stored)) => self.add_part(listing, key, stored),
            (ListingSection::Units, Ok(stored)) => listing.add_unit(key, stored, self.env.bugs),
            (section, Err(error)) => {
                if section == ListingSection::Workers {
                    listing.odd.insert(key.clone(), Uncovered::Damaged);
                }
                listing.damaged.push((key, error));
            }
        }
    }

    /// A page could not be had: it is asked for again, unless the store does not let this worker list.
    fn page_failed(&mut self, now: Now, mut listing: Box<Listing>, error: StoreError) {
        let (lasts, plans) = (!error.is_passing(), listing.purpose == Purpose::Plan);
        let pause = if lasts { self.env.interval() } else { self.env.pause(16, &error) };
        self.tell(FleetNotice::Trouble(error));
        if lasts && !plans {
            return self.refused_listing(now, listing.purpose == Purpose::Own);
        }
        if plans && self.cannot_list(now) {
            return;
        }
        listing.ask_at = Some(now.held.after(pause));
        self.listing = Some(listing);
    }

    /// Keeps the part of the plan that was told to a worker. Sessions are listed first: what was told to who has gone is nobody's until it is collected.
    fn add_part(&self, listing: &mut Listing, key: Key, stored: Stored) {
        if self.whose_part(&key).is_some_and(|who| listing.peers.contains_key(&who)) {
            listing.parts.insert(key, stored);
        }
    }

    /// The session of the worker to whom a part of the plan was told.
    fn whose_part(&self, part: &Key) -> Option<Key> {
        let (_, FleetKey::Plan(worker)) = FleetKey::of(part)? else { return None };
        self.env.fleet().worker(&HolderId::new(worker).ok()?).ok()
    }

    /// Counts a session as a worker if it says that it is one, and has not been silent for a ttl.
    fn add_peer(&mut self, now: Now, listing: &mut Listing, key: Key, stored: Stored) {
        let Some(tenure) = &stored.record.tenure else {
            listing.ended.insert(key);
            return;
        };
        let verdict = self.holder.judge(now, &key, &stored, tenure);
        if now.wall.since(tenure.since) < tenure.ttl.duration() * JOINING {
            listing.young.insert(key.clone());
        }
        if key == self.env.me {
            return;
        }
        if verdict == HolderVerdict::Suspected {
            // Whoever watched it may have died, or failed to fence it.
            listing.ended.insert(key.clone());
            return listing.dead.push((key, stored));
        }
        let Some(about) = About::parse(&stored.record.metadata) else {
            listing.odd.insert(key, Uncovered::Foreign);
            return;
        };
        if !is_of_this_layout(&stored.record.metadata) {
            // It goes by plans of its own. What it has stays there.
            listing.odd.insert(key, Uncovered::Foreign);
            let trouble = other_layout(self.env.fleet(), &tenure.holder);
            return self.tell(FleetNotice::Trouble(trouble));
        }
        let (holder, fence, ttl) = (tenure.holder.clone(), stored.record.fence, tenure.ttl);
        let letters = About::hears_letters(&stored.record.metadata);
        let has = Digest::parse(&stored.record.metadata);
        let planned = has.map_or(0, |has| has.units);
        let attested = self.is_attested(now, &stored, tenure);
        let heartbeat = tenure.heartbeat;
        listing
            .peers
            .insert(key, Peer { holder, fence, ttl, about, has, heartbeat, planned, letters, attested });
    }
}

impl ListingSection {
    /// What is listed after it.
    fn next(self, purpose: Purpose) -> Option<ListingSection> {
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
