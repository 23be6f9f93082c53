//! What a table of leases knows of each, and of those that are over.

use crate::holding::{End, Holding};
use crate::peer::ClientIdentity;
use crate::problem::Problem;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{Loss, StoreError};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

#[derive(Default)]
pub(super) struct TableState {
    /// By their ids, which are numbers and not texts: each beat looks for one.
    pub(super) entries: BTreeMap<Uuid, LeaseTableEntry>,
    /// By key and fence, as records show them.
    pub(super) by_fence: BTreeMap<(String, u64), Uuid>,
    /// One for each entry, no later than its deadline. A beat leaves it as it is.
    pub(super) due: BTreeSet<(Duration, Uuid)>,
    pub(super) ended: EndedLeases,
    /// The clients' processes that are watched, by their numbers. However many connections one makes, its end is seen by one descriptor.
    pub(super) processes: BTreeMap<i32, Weak<ClientIdentity>>,
    /// Requests that wait for a lease.
    pub(super) waiting: usize,
    /// Requests for ticks, of which it is not known yet whether they have begun.
    pub(super) beginning: usize,
    pub(super) is_stopping: bool,
}

pub(super) struct LeaseTableEntry {
    pub(super) holding: Arc<Holding>,
    /// The latest deadline that was told, by CLOCK_BOOTTIME.
    pub(super) told: Duration,
    /// Under which it stands among what is due: no later than what was told.
    pub(super) due: Duration,
    pub(super) longest: Duration,
    /// No deadline is later.
    pub(super) over_at: Option<Duration>,
    pub(super) is_election: bool,
    /// Who has it, as far as that decides anything.
    pub(super) peer: Option<Arc<ClientIdentity>>,
    pub(super) watch: JoinHandle<()>,
    /// Dropped once it is given back, and its client is answered: a stop waits for that.
    pub(super) under_way: watch::Receiver<()>,
}

/// Why leases of late are over, for clients that ask after them.
#[derive(Default)]
pub(super) struct EndedLeases {
    pub(super) reasons: BTreeMap<Uuid, String>,
    order: VecDeque<Uuid>,
}

impl EndedLeases {
    const MOST: usize = 10_000;

    fn insert(&mut self, id: Uuid, reason: String) {
        self.reasons.insert(id, reason);
        self.order.push_back(id);
        if self.order.len() > Self::MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.reasons.remove(&oldest);
        }
    }
}

pub(super) const LAPSED: &str = "no beat came before its deadline";
pub(super) const STOPPED: &str =
    "its deadline is over, and its agent, which is being stopped, prolongs nothing";
pub(super) const UNDELIVERED: &str = "the answer that tells of it could not be delivered";
pub(super) const EXITED: &str = "its client's process has ended";
pub(super) const RELEASED: &str = "it was released";
/// An end may outlast the begin of a stop by so long: far longer than a store takes that is well, and short for whoever stops an agent.
pub(super) const LONGEST_END: Duration = Duration::from_secs(5);
pub(super) const OUTLASTS: &str = "it is held until its time is over, as this agent is being stopped";

impl TableState {
    pub(super) fn insert(&mut self, id: Uuid, entry: LeaseTableEntry) {
        self.by_fence.insert(entry.as_shown(), id);
        self.entries.insert(id, entry);
    }

    pub(super) fn take(&mut self, id: Uuid, why: &str) -> Option<LeaseTableEntry> {
        let entry = self.entries.remove(&id)?;
        self.by_fence.remove(&entry.as_shown());
        // What is left of ranges may be a day, and nothing else limits how many are given back by then.
        self.due.remove(&(entry.due, id));
        self.ended.insert(id, why.to_owned());
        Some(entry)
    }

    /// The process of this peer, as it was first seen. None if its end can't be seen.
    pub(super) fn watched(&mut self, peer: &Arc<ClientIdentity>) -> Option<Arc<ClientIdentity>> {
        let id = peer.process_id()?;
        let first = self.processes.get(&id).and_then(Weak::upgrade);
        if let Some(first) = first.filter(|first| first.is_same(peer)) {
            return Some(first);
        }
        self.processes.retain(|_, known| known.strong_count() > 0);
        self.processes.insert(id, Arc::downgrade(peer));
        Some(Arc::clone(peer))
    }

    /// Takes out what is held whether this agent lives or not.
    pub(super) fn outlasting(&mut self) -> Vec<LeaseTableEntry> {
        let outlasts = self.entries.iter().filter(|(_, entry)| entry.holding.outlasts());
        let ids: Vec<Uuid> = outlasts.map(|(id, _)| *id).collect();
        ids.into_iter().filter_map(|id| self.take(id, OUTLASTS)).collect()
    }

    pub(super) fn gone(&self, id: Uuid) -> Problem {
        self.ended.reasons.get(&id).map_or_else(unknown, |reason| Problem::over(reason))
    }

    /// Why a lease is over that no beat has prolonged.
    pub(super) fn silence(&self) -> &'static str {
        if self.is_stopping { STOPPED } else { LAPSED }
    }

    /// What is over by now, and when to look again.
    pub(super) fn lapsed(&mut self, now: Duration) -> (Vec<(Uuid, LeaseTableEntry)>, Option<Duration>) {
        let mut lapsed = Vec::new();
        while let Some((at, _)) = self.due.first() {
            if *at > now {
                return (lapsed, Some(*at));
            }
            let Some((_, id)) = self.due.pop_first() else { break };
            match self.entries.get_mut(&id) {
                None => {}
                Some(entry) if entry.told > now => {
                    entry.due = entry.told;
                    self.due.insert((entry.due, id));
                }
                Some(entry) => {
                    let loss = entry.loss().map(|loss| loss.to_string());
                    let entry = self.take(id, loss.as_deref().unwrap_or(self.silence()));
                    lapsed.extend(entry.map(|entry| (id, entry)));
                }
            }
        }
        (lapsed, None)
    }
}

fn unknown() -> Problem {
    Problem::not_found("this agent has no lease of that id; it may have been started anew since")
}

/// What a client calls its lease.
pub(super) fn id_of(text: &str) -> Result<Uuid, Problem> {
    Uuid::try_parse(text).map_err(|_| unknown())
}

impl LeaseTableEntry {
    /// The key and the fence in its record.
    fn as_shown(&self) -> (String, u64) {
        (self.holding.key().as_str().to_owned(), self.holding.fence().0)
    }

    /// Why no beat could prolong it, if none could.
    pub(super) fn loss(&self) -> Option<Loss> {
        if self.holding.is_revoked() {
            Some(Loss::Revoked)
        } else if self.over_at.is_some_and(|at| at <= boottime()) {
            Some(Loss::Overran)
        } else if self.holding.is_held() {
            None
        } else {
            Some(Loss::Expired)
        }
    }

    pub(super) async fn leave(self) {
        self.watch.abort();
        // Until it has let go of what is held.
        let _ = self.watch.await;
        if let Some(holding) = Arc::into_inner(self.holding) {
            holding.leave().await;
        }
    }

    /// False: it was lost before.
    pub(super) async fn give_back(self, end: End) -> Result<bool, StoreError> {
        self.watch.abort();
        // Until it has let go of the guard.
        let _ = self.watch.await;
        match Arc::into_inner(self.holding) {
            Some(holding) => holding.give_back(end).await,
            None => Ok(false),
        }
    }
}
