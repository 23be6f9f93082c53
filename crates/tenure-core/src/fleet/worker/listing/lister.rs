//! When a worker lists, and the listing that is under way.
//!
//! A lister is *idle* until something is to be seen that only a listing shows. The planner lists all when the board shows a new generation, and once in a
//! long while without that. Other workers list all for themselves only if their parts of the plan can't be told. A worker that has to choose another one
//! lists the workers alone. The listing *asks* for a page, *waits* for it, and asks for the next one, until the last one ends it. Between two listings
//! there is a pause. A worker that the store does not let list is *refused*, and tries ever more seldom.

use super::page::ListedPage;
use super::{Listing, ListingSection, Purpose};
use crate::backoff::refusal::LastingRefusal;
use crate::bugs::Bug;
use crate::fleet::worker::env::FleetEnv;
use crate::fleet::worker::known_board::KnownBoard;
use crate::op::Op;
use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::time::{Now, Tick};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::fleet::worker) struct Lister {
    under_way: Option<Box<Listing>>,
    /// How many listings there were.
    count: u64,
    /// The next one begins no sooner.
    soonest: Tick,
    /// The planner lists all by then, whatever happens.
    relist_at: Tick,
    /// The generation of which all was listed last, and that of which the roster was listed by a worker that stands by.
    listed: Option<Fence>,
    roster_of: Option<Fence>,
    /// The store does not let this worker list for itself.
    refused: Option<LastingRefusal>,
}

/// What a worker needs a listing for.
#[derive(Debug, Clone, Copy)]
pub(in crate::fleet::worker) struct ListNeeds {
    /// It plans for all.
    pub(in crate::fleet::worker) plans: bool,
    /// There is something that only a listing shows it.
    pub(in crate::fleet::worker) all: bool,
    pub(in crate::fleet::worker) roster: bool,
    /// By then all is to be listed again, if this worker plans.
    pub(in crate::fleet::worker) again_at: Option<Tick>,
}

/// What follows a page that could not be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fleet::worker) enum FailedPage {
    /// The store does not let this worker list, which does not plan. It was told to list all, or had to choose another worker.
    Refused { all: bool },
    /// The page is asked for again, for a plan or for something else.
    Again { plans: bool },
}

impl Default for Lister {
    fn default() -> Lister {
        let (soonest, relist_at) = (Tick(0), Tick::NEVER);
        Lister { under_way: None, count: 0, soonest, relist_at, listed: None, roster_of: None, refused: None }
    }
}

impl Lister {
    pub(in crate::fleet::worker) fn is_listing(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether the board shows another generation than that which was listed.
    pub(in crate::fleet::worker) fn is_behind(&self, board: &KnownBoard) -> bool {
        // Somebody may have deleted it, and with it a generation that this worker has not seen.
        (board.seen().is_some() || self.listed.is_some()) && self.listed != Some(board.generation())
    }

    /// Whether the roster of this generation was listed, and nothing else since.
    pub(in crate::fleet::worker) fn has_roster_of(&self, generation: Fence) -> bool {
        self.roster_of == Some(generation)
    }

    /// Whether this worker may list for itself.
    pub(in crate::fleet::worker) fn may_list(&self, now: Now) -> bool {
        !self.refused.is_some_and(|refusal| refusal.waits(now))
    }

    pub(in crate::fleet::worker) fn wake_at(&self, needs: ListNeeds) -> Option<Tick> {
        if let Some(listing) = &self.under_way {
            return listing.ask_at;
        }
        let soon = (needs.all || needs.roster).then_some(self.soonest);
        let again = needs.again_at.filter(|_| needs.plans).map(|at| at.max(self.soonest));
        soon.into_iter().chain(again).chain(needs.plans.then_some(self.relist_at)).min()
    }

    /// Begins a listing if it is time for one. True if all is to be listed.
    pub(in crate::fleet::worker) fn begin(
        &mut self,
        now: Now,
        env: &FleetEnv,
        generation: Fence,
        needs: ListNeeds,
    ) -> bool {
        if self.is_listing() {
            return false;
        }
        let again = needs.plans && needs.again_at.is_some_and(|at| now.held >= at);
        let is_relist = needs.plans && now.held >= self.relist_at;
        let is_whole = (needs.all || again) && now.held >= self.soonest || is_relist;
        let purpose = match () {
            () if is_whole && needs.plans => Purpose::Plan,
            () if is_whole => Purpose::Own,
            () if needs.roster && now.held >= self.soonest => Purpose::Roster,
            () => return false,
        };
        self.count += 1;
        let mut listing =
            Listing::new(self.count, env.fleet().worker_prefix(), generation, now.held, purpose);
        listing.ended.insert(env.me.clone());
        self.under_way = Some(Box::new(listing));
        is_whole
    }

    /// The page to ask for now, if there is one, and the listing's number.
    pub(in crate::fleet::worker) fn ask(&mut self, now: Now, env: &FleetEnv) -> Option<(u64, Op)> {
        let listing = self.under_way.as_mut()?;
        if listing.ask_at.is_none_or(|at| now.held < at) {
            return None;
        }
        listing.ask_at = None;
        let prefix = match listing.section {
            ListingSection::Workers => env.fleet().worker_prefix(),
            ListingSection::Parts => env.fleet().plan_prefix(),
            ListingSection::Units => env.fleet().unit_prefix(),
        };
        let op = Op::List { prefix, after: listing.after.clone(), limit: env.options.page.max(1) };
        Some((self.count, op))
    }

    /// Whether a page of this listing is of workers' sessions; none if it is not wanted any more.
    pub(in crate::fleet::worker) fn expects_sessions(&self, number: u64) -> Option<bool> {
        let listing = self.under_way.as_ref().filter(|listing| listing.number == number)?;
        Some(listing.section == ListingSection::Workers)
    }

    /// A page has come, with what troubles there are about its records. Gives the listing back if that was the last one.
    pub(in crate::fleet::worker) fn page(
        &mut self,
        now: Now,
        env: &FleetEnv,
        page: ListedPage,
    ) -> (Vec<StoreError>, Option<Box<Listing>>) {
        let Some(mut listing) = self.under_way.take() else { return (Vec::new(), None) };
        let is_last = page.len() < env.options.page.max(1) || env.has_bug(Bug::OnePageListed);
        listing.ask_at = Some(now.held);
        listing.after = page.last().map(|(listed, _)| listed.key.clone()).filter(|_| !is_last);
        let troubles = page.into_iter().filter_map(|listed| listing.add(now, env, listed)).collect();
        if is_last {
            match listing.section.next(listing.purpose) {
                Some(section) => listing.section = section,
                None => return (troubles, Some(listing)),
            }
        }
        self.under_way = Some(listing);
        (troubles, None)
    }

    /// A page could not be had: it is asked for again, unless the store does not let this worker list.
    pub(in crate::fleet::worker) fn page_failed(
        &mut self,
        now: Now,
        env: &FleetEnv,
        error: &StoreError,
    ) -> Option<FailedPage> {
        let mut listing = self.under_way.take()?;
        let (lasts, plans) = (!error.is_passing(), listing.purpose == Purpose::Plan);
        let pause = if lasts { env.interval() } else { env.pause(16, error) };
        if lasts && !plans {
            return Some(FailedPage::Refused { all: listing.purpose == Purpose::Own });
        }
        listing.ask_at = Some(now.held.after(pause));
        self.under_way = Some(listing);
        Some(FailedPage::Again { plans })
    }

    /// What is being listed is not wanted any more.
    pub(in crate::fleet::worker) fn break_off(&mut self) {
        self.under_way = None;
    }

    /// The worker begins to plan, or plans no more. What it has listed was for the other role, and may be what the store refuses to that one.
    pub(in crate::fleet::worker) fn begin_role(&mut self, now: Now) {
        (self.under_way, self.listed) = (None, None);
        (self.soonest, self.relist_at) = (now.held, Tick::NEVER);
    }

    /// Something is to be listed that nobody can be told of by the board.
    pub(in crate::fleet::worker) fn hasten(&mut self, at: Tick) {
        self.soonest = self.soonest.min(at);
    }

    /// The store does not let this worker list, for now or for good.
    pub(in crate::fleet::worker) fn refuse(&mut self, now: Now, env: &FleetEnv) {
        let refusal = LastingRefusal::next(self.refused, now, env.part(1), false);
        let refusal = refusal.at_the_soonest(now.held.after(env.interval()));
        self.refused = Some(refusal);
        self.soonest = refusal.again_at;
    }

    /// A listing has come to its end.
    pub(in crate::fleet::worker) fn end(
        &mut self,
        now: Now,
        env: &FleetEnv,
        listing: &Listing,
        is_blind: bool,
    ) {
        self.refused = None;
        // However much is to be listed: not all the time. Only one plans, for whom all wait.
        let share = if listing.purpose == Purpose::Plan { 1 } else { 3 };
        let took = now.held.since(listing.began).saturating_mul(share).min(env.part(1));
        let is_blind = is_blind && listing.purpose != Purpose::Roster;
        self.soonest = now.held.after(if is_blind { env.interval() } else { took.max(env.least_pause()) });
        match listing.purpose {
            Purpose::Roster => self.roster_of = Some(listing.generation),
            Purpose::Own => {}
            Purpose::Plan => {
                self.listed = Some(listing.generation);
                self.relist_at = next_relist(now, env);
            }
        }
    }
}

/// When to list all again, if nothing happens before: after about ten ttls. That finds units which were orphaned without any notice.
fn next_relist(now: Now, env: &FleetEnv) -> Tick {
    if env.has_bug(Bug::AuditForgotten) {
        return Tick::NEVER;
    }
    let turn = env.part(1).max(Duration::from_secs(3)) * 10;
    let jitter = turn / 512 * u32::from(env.nonces.jitter());
    now.held.after(turn - turn / 4 + jitter)
}

#[cfg(test)]
impl Lister {
    /// One that has listed this generation, and rests.
    pub(in crate::fleet::worker) fn rested(listed: Fence, soonest: Tick, relist_at: Tick) -> Lister {
        Lister { listed: Some(listed), soonest, relist_at, ..Lister::default() }
    }

    /// The number of the last listing.
    pub(in crate::fleet::worker) fn count(&self) -> u64 {
        self.count
    }

    pub(in crate::fleet::worker) fn under_way(&self) -> Option<&Listing> {
        self.under_way.as_deref()
    }

    /// When the next listing may begin, and when the planner lists without cause.
    pub(in crate::fleet::worker) fn rests_until(&self) -> (Tick, Tick) {
        (self.soonest, self.relist_at)
    }
}
