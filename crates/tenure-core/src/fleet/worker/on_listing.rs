//! What a worker does with what it lists: it follows the plan that is made of it, and tells the others of that if it plans for all.

use super::listed::{Owner, Peer, Unit};
use super::listing::{FailedPage, ListNeeds, ListedPage, Listing, Purpose, SessionSighting};
use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::fleet::plan::Uncovered;
use crate::fleet::sorted::Sorted;
use crate::fleet::talk::{FleetNotice, Summary};
use crate::fleet::unit::Status;
use crate::op::{Answer, Listed};
use crate::values::error::StoreError;
use crate::values::fence::Nonce;
use crate::values::key::Key;
use crate::values::time::{Now, Tick};
use std::collections::BTreeMap;

impl FleetWorker {
    fn list_needs(&self) -> ListNeeds {
        let plans = self.is_planner();
        let all = self.board.is_blind() || self.hearing.lists() || plans && self.is_behind();
        ListNeeds { plans, all, roster: self.wants_roster(), again_at: self.doubts.list_at }
    }

    pub(super) fn listing_wake_at(&self) -> Option<Tick> {
        self.session_fence()?;
        self.lister.wake_at(self.list_needs())
    }

    /// Whether the board shows another generation than that which was listed.
    pub(super) fn is_behind(&self) -> bool {
        self.lister.is_behind(&self.board)
    }

    pub(super) fn wake_listing(&mut self, now: Now) {
        if self.session_fence().is_none() {
            return self.lister.break_off();
        }
        if self.lister.begin(now, &self.env, self.generation(), self.list_needs()) {
            self.doubts.list_at = None;
            self.hearing.begin_listing();
        }
        if let Some((number, op)) = self.lister.ask(now, &self.env) {
            self.send(InFlight::List(number), op);
        }
    }

    pub(super) fn paged(&mut self, now: Now, number: u64, result: Result<Answer, StoreError>) {
        let Some(has_sessions) = self.lister.expects_sessions(number) else { return };
        let page = match result {
            Ok(Answer::Listed(page)) => page,
            Ok(_) => return,
            Err(error) => return self.page_failed(now, error),
        };
        self.planner.listed_page();
        let page: ListedPage = page
            .into_iter()
            .map(|listed| {
                let sighting = has_sessions.then(|| self.sighting(now, &listed)).flatten();
                (listed, sighting)
            })
            .collect();
        let (troubles, listing) = self.lister.page(now, &self.env, page);
        troubles.into_iter().for_each(|trouble| self.tell(FleetNotice::Trouble(trouble)));
        match listing {
            Some(listing) if listing.purpose == Purpose::Roster => self.listed_roster(now, *listing),
            Some(listing) => self.listed_all(now, *listing),
            None => {}
        }
    }

    fn sighting(&mut self, now: Now, listed: &Listed) -> Option<SessionSighting> {
        let stored = listed.stored.as_ref().ok()?;
        let tenure = stored.record.tenure.as_ref()?;
        let verdict = self.holder.judge(now, &listed.key, stored, tenure);
        Some(SessionSighting { verdict, attested: self.is_attested(now, stored, tenure) })
    }

    fn page_failed(&mut self, now: Now, error: StoreError) {
        let failed = self.lister.page_failed(now, &self.env, &error);
        self.tell(FleetNotice::Trouble(error));
        match failed {
            Some(FailedPage::Refused { all }) => self.refused_listing(now, all),
            Some(FailedPage::Again { plans: true }) if self.cannot_list(now) => self.lister.break_off(),
            Some(FailedPage::Again { .. }) | None => {}
        }
    }

    /// The store does not let this worker list, which does not plan.
    pub(super) fn refused_listing(&mut self, now: Now, was_told_to: bool) {
        self.lister.refuse(now, &self.env);
        self.hearing.give_up_listing();
        // What is done for these units has ended: they can't wait for what may last for ever.
        self.choose_from_roster(now);
        if was_told_to {
            // Its part says besides what it has.
            self.list_again(now.held);
        }
    }

    fn listed_roster(&mut self, now: Now, mut listing: Listing) {
        // Looks would not show them any more.
        let dead = std::mem::take(&mut listing.dead);
        self.bury(now, dead, self.is_standby());
        self.lister.end(now, &self.env, &listing, self.board.is_blind());
        self.roster.listed(&self.env, listing.peers);
        self.choose_from_roster(now);
    }

    /// A bug on purpose.
    fn keep_stale_roster(&self, listing: &mut Listing) {
        if self.roster.len() > 1 {
            listing.peers.retain(|key, _| *key == self.env.me);
            listing.peers.extend(BTreeMap::clone(&self.roster));
        }
    }

    pub(super) fn listed_all(&mut self, now: Now, mut listing: Listing) {
        let Some(fence) = self.session_fence() else { return };
        let plans = listing.purpose == Purpose::Plan;
        self.lister.end(now, &self.env, &listing, self.board.is_blind());
        self.own.plan_from(listing.began);
        let mut me = Peer {
            holder: self.env.id.clone(),
            fence,
            ttl: self.env.ttl,
            about: self.env.options.about.clone(),
            has: None,
            heartbeat: Nonce(0),
            planned: 0,
            letters: true,
            attested: false,
        };
        if self.env.has_bug(Bug::LeaverTakes) {
            me.about.leaving = false;
        }
        listing.peers.insert(self.env.me.clone(), me);
        let dead = std::mem::take(&mut listing.dead);
        if self.env.has_bug(Bug::PlansFromStaleRoster) {
            self.keep_stale_roster(&mut listing);
        }
        listing.find_own();
        self.settle_missing(now, &mut listing.units);
        self.env.pace.meet(listing.peers.values().map(|peer| peer.ttl));
        if self.env.has_bug(Bug::DeletedTaken) {
            let open = |unit: &Unit| (*unit.spec).clone().status(Status::Open).into();
            listing.units.values_mut().for_each(|unit| unit.spec = open(unit));
        }
        let (plan, names, workers, moves) = listing.plan(self.env.fleet(), self.env.bugs);
        listing.peers.values_mut().for_each(|peer| peer.planned = 0);
        for owner in plan.iter().filter_map(|owner| owner.as_ref().ok()) {
            if let Some(peer) = listing.peers.get_mut(&workers[*owner]) {
                peer.planned += 1;
            }
        }
        let mut summary = Summary {
            generation: listing.generation,
            planner: Some(self.env.me.clone()),
            workers: workers.len(),
            units: names.len(),
            damaged: std::mem::take(&mut listing.damaged),
            moves: if plans { moves } else { BTreeMap::new() },
            ..Summary::default()
        };
        let targets: Sorted<Result<Key, _>> = names
            .into_iter()
            .zip(plan)
            .filter_map(|(at, target)| {
                Some((listing.units.at(at)?.0.clone(), target.map(|at| workers[at].clone())))
            })
            .collect();
        summary.uncovered = targets
            .iter()
            .filter_map(|(unit, target)| Some((unit.clone(), *target.as_ref().err()?)))
            .chain(listing.units.iter().filter_map(|(unit, found)| match found.owner {
                Owner::Behind(why) if found.spec.status == Status::Open => Some((unit.clone(), why)),
                Owner::Worker(_) if found.spec.rests(now.wall) => Some((unit.clone(), Uncovered::Declined)),
                _ => None,
            }))
            .collect();
        summary.planned = targets.values().filter(|target| target.as_ref() == Ok(&self.env.me)).count();
        self.bury(now, dead, plans);
        if plans {
            self.tell_plan(now, &listing, &targets, (summary.workers, summary.units));
        }
        self.roster.listed(&self.env, listing.peers);
        self.choose_from_roster(now);
        self.follow_plan(now, listing.units, targets, summary);
    }
}

#[cfg(test)]
mod refused;
#[cfg(test)]
mod tests;
