//! The leases that clients have, each until the last deadline that its client was told.

mod ends;
mod state;
#[cfg(test)]
mod tests;
mod ticks;

use crate::config::Limits;
use crate::events::{self, Event, EventReason};
use crate::history::{Ownership, TenureHistory};
use crate::holding::{End, Holding};
use crate::listing::RecordRow;
use crate::peer::ClientIdentity;
use crate::problem::Problem;
use crate::wire::{LeaseReply, OnExit, millis};
use ends::give_back;
use state::{EXITED, LAPSED, LeaseTableEntry, OUTLASTS, RELEASED, STOPPED, TableState, id_of};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure::clock::{boottime, boottime_line};
use tenure::fleet::Unit;
use tenure::{Clock, Drift, HolderId, Key, Leases, Request};
use tenure_store::parts::quietly;
use tenure_store::tell;
use tokio::sync::{Notify, broadcast, watch};
use uuid::Uuid;

/// What a client asks for with a lease, whatever kind it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseTerms {
    /// The longest that a deadline is ahead when it is told.
    pub(crate) longest: Duration,
    /// The longest that it is held.
    pub(crate) at_most: Option<Duration>,
    pub(crate) on_exit: OnExit,
    /// It is a leadership.
    pub(crate) is_election: bool,
}

pub(crate) struct LeaseTable {
    drift: Drift,
    clock: Arc<dyn Clock>,
    /// Whose name the records of most leases show.
    holder: HolderId,
    history: Arc<TenureHistory>,
    boot: Option<String>,
    most: usize,
    /// Whoever beats so often keeps its connection, which is closed after a rest.
    longest_rest: Duration,
    state: Mutex<TableState>,
    /// A deadline is earlier than all others, or the table is empty.
    changed: Notify,
    stopping: watch::Sender<bool>,
    /// Each lease has a receiver, until it is given back and its client is answered.
    under_way: watch::Sender<()>,
    events: broadcast::Sender<Event>,
}

impl LeaseTable {
    pub(crate) fn new(leases: &Leases, history: Arc<TenureHistory>, limits: &Limits) -> Arc<LeaseTable> {
        let (events, _) = broadcast::channel(events::UNREAD);
        let table = LeaseTable {
            drift: leases.drift(),
            clock: Arc::clone(leases.clock()),
            holder: leases.holder().clone(),
            history,
            boot: boottime_line(),
            most: limits.leases,
            longest_rest: limits.patience * 2 / 3,
            state: Mutex::default(),
            changed: Notify::new(),
            stopping: watch::Sender::new(false),
            under_way: watch::Sender::new(()),
            events,
        };
        Arc::new(table)
    }

    fn state(&self) -> MutexGuard<'_, TableState> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None: so many listen already.
    pub(crate) fn listen(&self, most: usize) -> Option<broadcast::Receiver<Event>> {
        let _one_at_a_time = self.state();
        (self.events.receiver_count() < most).then(|| self.events.subscribe())
    }

    pub(crate) fn count(&self) -> usize {
        self.state().entries.len()
    }

    /// Tells which of these records clients have, and which of them they lead by.
    pub(crate) fn mark_held(&self, rows: &mut [RecordRow]) {
        let state = self.state();
        for row in rows {
            let ids = row.fences().filter_map(|fence| state.by_fence.get(&(row.key.clone(), fence)));
            let held = ids.filter_map(|id| state.entries.get(id)).last();
            (row.is_here, row.is_election) = (held.is_some(), held.is_some_and(|held| held.is_election));
        }
    }

    /// Room for one more lease, until it is dropped.
    pub(crate) fn room(self: &Arc<Self>) -> Result<ReservedSlot, Problem> {
        let mut state = self.state();
        if state.is_stopping {
            return Err(Problem::stopping());
        }
        if state.entries.len() + state.waiting >= self.most {
            return Err(Problem::too_many(self.most));
        }
        state.waiting += 1;
        Ok(ReservedSlot { table: Arc::clone(self) })
    }

    /// Takes in a lease that was acquired for a client, and tells of it.
    pub(crate) fn enter(
        self: &Arc<Self>,
        holding: Holding,
        terms: LeaseTerms,
        peer: &Arc<ClientIdentity>,
    ) -> Result<LeaseReply, Problem> {
        let id = id_of(&tenure::clock::uuid())?;
        let (key, fence) = (holding.key().clone(), holding.fence().0);
        let since = Some(self.clock.now().wall);
        let claim = self.claim(&holding).map(|claim| Ownership { since, ..claim });
        let told = {
            let mut state = self.state();
            // It is written down that a tick has begun: its client has what is left of its time, or it would have run nowhere.
            if state.is_stopping && !matches!(holding, Holding::Tick(..)) {
                return Err(Problem::stopping());
            }
            let table = Arc::downgrade(self);
            peer.delivery().gives(move || {
                if let Some(table) = table.upgrade() {
                    table.undelivered(id);
                }
            });
            let peer = if terms.on_exit == OnExit::Release { state.watched(peer) } else { None };
            let holding = Arc::new(holding);
            let watch = tokio::spawn(Arc::clone(self).watch(id, Arc::clone(&holding), peer.clone()));
            let over_at = terms.at_most.map(|most| boottime().saturating_add(most));
            let LeaseTerms { longest, is_election, .. } = terms;
            let mut entry = LeaseTableEntry {
                holding,
                told: Duration::ZERO,
                due: Duration::ZERO,
                longest,
                over_at,
                is_election,
                peer,
                watch,
                under_way: self.under_way.subscribe(),
            };
            let told = self.tell(id, &mut entry);
            entry.due = entry.told;
            state.due.insert((entry.due, id));
            state.insert(id, entry);
            // No code but this crate's runs here, and no end of this can be told before its begin.
            if let Some(claim) = &claim {
                self.history.began(&key, claim);
            }
            self.publish("acquired", id, &key, fence, None);
            told
        };
        // A subscriber may ask the agent what it has.
        log("acquired", &key, fence, None);
        self.gauge();
        self.changed.notify_waiters();
        Ok(told)
    }

    /// What a client is told now: it is held until then, whatever comes.
    fn tell(&self, id: Uuid, entry: &mut LeaseTableEntry) -> LeaseReply {
        let now = boottime();
        let left = entry.holding.remaining().min(entry.longest);
        let left = entry.over_at.map_or(left, |at| left.min(at.saturating_sub(now)));
        // A unit that is to go is not kept for longer by who doesn't hear of that.
        let left = entry.holding.draining().map_or(left, |within| left.min(within));
        // What was told is not taken back.
        entry.told = entry.told.max(now + left);
        // Where nothing is put off, as of a unit that is to go, it is asked for again while there is time, ever sooner.
        let rest = self.drift.least(entry.told.saturating_sub(now));
        LeaseReply {
            id: id.to_string(),
            key: entry.holding.key().as_str().to_owned(),
            fence: entry.holding.fence().0,
            deadline_boottime_ms: millis(now + left),
            boot: self.boot.clone(),
            good_for_ms: millis(self.drift.least(left)),
            beat_in_ms: millis((rest / 3).min(self.longest_rest)),
            is_revoked: entry.holding.is_revoked(),
            on_exit: if entry.peer.is_some() { OnExit::Release } else { OnExit::Lapse },
            drain_in_ms: entry.holding.draining().map(millis),
        }
    }

    /// A client wants its lease still: it is told of a later deadline, if there is one.
    pub(crate) fn beat(&self, id: &str, peer: &ClientIdentity) -> Result<LeaseReply, Problem> {
        let id = id_of(id)?;
        let mut state = self.state();
        let is_stopping = state.is_stopping;
        let Some(entry) = state.entries.get_mut(&id) else {
            let outlasts = state.ended.reasons.get(&id).is_some_and(|reason| reason == OUTLASTS);
            return Err(if outlasts { Problem::stopping() } else { state.gone(id) });
        };
        // Its client has counted it as lost since.
        if entry.told <= boottime() {
            let why = entry.loss().map_or_else(|| LAPSED.to_owned(), |loss| loss.to_string());
            return Err(Problem::over(&why));
        }
        if is_stopping {
            return Err(Problem::stopping());
        }
        // Whoever else has it now may outlive the one that took it.
        if entry.peer.as_ref().is_some_and(|first| !first.is_same(peer)) {
            entry.peer = None;
        }
        Ok(self.tell(id, entry))
    }

    /// Whether what has this id is no leadership of that key. What is over is told where it is ended.
    pub(crate) fn check_leads(&self, id: &str, key: &str) -> Result<(), Problem> {
        let id = id_of(id)?;
        let state = self.state();
        let leads = |entry: &LeaseTableEntry| entry.is_election && entry.holding.key().as_str() == key;
        if state.entries.get(&id).is_some_and(|entry| !leads(entry)) {
            return Err(Problem::bad_request(format!("what has this id is no leadership of {key}")));
        }
        Ok(())
    }

    /// The unit that a client has.
    pub(crate) fn unit(&self, id: &str) -> Result<Unit, Problem> {
        let id = id_of(id)?;
        let state = self.state();
        let Some(entry) = state.entries.get(&id) else { return Err(state.gone(id)) };
        match &*entry.holding {
            Holding::Unit(unit, _) => Ok(unit.unit().clone()),
            _ => Err(Problem::bad_request("what has this id is no unit of a fleet; see /openapi.json")),
        }
    }

    /// Looks after one lease until it is over.
    async fn watch(self: Arc<Self>, id: Uuid, holding: Arc<Holding>, peer: Option<Arc<ClientIdentity>>) {
        let cancelled = holding.cancelled();
        tokio::pin!(cancelled);
        let exited = ClientIdentity::any_ended(peer.as_deref());
        tokio::pin!(exited);
        let mut is_anothers = false;
        loop {
            tokio::select! {
                biased;
                () = &mut cancelled => break,
                () = &mut exited, if !is_anothers => {
                    if self.exited(id) {
                        return;
                    }
                    // Another process has it by now, and is told of it.
                    is_anothers = true;
                }
                request = holding.asked() => self.asked(id, &holding, request),
            }
        }
        if holding.is_revoked() && holding.is_held() {
            self.asked(id, &holding, Request::Revoke);
        } else if holding.draining().is_some() {
            self.asked(id, &holding, Request::HandOver);
        }
        tokio::select! {
            biased;
            () = &mut exited, if !is_anothers => {
                if !self.exited(id) {
                    let loss = holding.lost().await;
                    self.lost(id, &holding, &loss);
                }
            }
            loss = holding.lost() => self.lost(id, &holding, &loss),
        }
    }

    fn asked(&self, id: Uuid, holding: &Holding, request: Request) {
        self.say("asked", id, holding, Some(request.to_string().into()));
    }

    /// Gives back what no beat came for. Runs for as long as the agent does.
    pub(crate) async fn sweep(&self) {
        /// A clock that counts suspends runs ahead of the timer's.
        const LONGEST: Duration = Duration::from_secs(1);
        loop {
            let changed = self.changed.notified();
            let (lapsed, next, silence) = {
                let mut state = self.state();
                let (lapsed, next) = state.lapsed(boottime());
                (lapsed, next, state.silence())
            };
            for (id, entry) in lapsed {
                let loss = entry.loss();
                let event = match (&loss, silence) {
                    (Some(_), _) => "lost",
                    // Its client may have beaten in time, in vain.
                    (None, STOPPED) => "stopped",
                    (None, _) => "lapsed",
                };
                self.left(event, id, &entry.holding, loss.as_ref().map(EventReason::from));
                tokio::spawn(give_back(entry, End::Silent(silence), silence));
            }
            let wait = next.map(|at| at.saturating_sub(boottime()).min(LONGEST));
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep(wait.unwrap_or(LONGEST)) => {}
            }
        }
    }

    fn say(&self, event: &'static str, id: Uuid, holding: &Holding, reason: Option<EventReason>) {
        let (key, fence) = (holding.key(), holding.fence().0);
        log(event, key, fence, reason.as_ref().map(|reason| &*reason.text));
        self.publish(event, id, key, fence, reason);
    }

    /// Tells whoever listens to events.
    fn publish(&self, event: &'static str, id: Uuid, key: &Key, fence: u64, reason: Option<EventReason>) {
        let (id, key) = (id.to_string(), key.as_str().to_owned());
        let loss = reason.as_ref().and_then(|reason| reason.loss).map(str::to_owned);
        let reason = reason.map(|reason| reason.text);
        // Nobody may be listening.
        let _ = self.events.send(Event { event, id, key, fence: Some(fence), reason, loss, count: None });
    }

    /// Whose name its record shows, and under which fence. None of ranges: their section has a name of its own.
    fn claim(&self, holding: &Holding) -> Option<Ownership> {
        let holder = match holding {
            Holding::Lease(_) | Holding::Tick(..) => &self.holder,
            Holding::Unit(_, worker) => worker,
            Holding::Ranges(..) => return None,
        };
        Some(Ownership { fence: holding.fence(), holder: holder.clone(), since: None })
    }

    /// A lease has left the table.
    fn left(&self, event: &'static str, id: Uuid, holding: &Holding, reason: Option<EventReason>) {
        // A recorder that panics must not end the sweep: nobody else gives back what no beat comes for.
        quietly(|| metrics::counter!("tenure_agent_leases_ended_total", "how" => event).increment(1));
        if let Some(claim) = self.claim(holding) {
            let how = match event {
                "released" => RELEASED,
                "exited" => EXITED,
                "stopped" => STOPPED,
                _ => LAPSED,
            };
            self.history.ended(holding.key(), &claim, reason.as_ref().map_or(how, |reason| &*reason.text));
        }
        self.say(event, id, holding, reason);
        self.gauge();
        self.changed.notify_waiters();
    }

    fn gauge(&self) {
        #[allow(clippy::cast_precision_loss, reason = "nobody has so many leases")]
        quietly(|| metrics::gauge!("tenure_agent_leases").set(self.count() as f64));
    }
}

fn log(event: &'static str, key: &Key, fence: u64, reason: Option<&str>) {
    let key = key.as_str();
    tell!(debug, name: "agent.lease", target: "tenure::agent", event, key, fence, reason, "client's lease");
}

/// A place for a lease that is waited for.
pub(crate) struct ReservedSlot {
    table: Arc<LeaseTable>,
}

impl Drop for ReservedSlot {
    fn drop(&mut self) {
        let mut state = self.table.state();
        state.waiting = state.waiting.saturating_sub(1);
    }
}
