//! The task of one worker: it performs what the pure parts decide, and waits for nothing but the next thing to happen.
//!
//! Requests run beside it, at most one for each lease, so that a deadline is never late because of one.

mod answers;

pub(crate) use answers::loss_by;

use super::agenda::Agenda;
use super::change::{Change, Edit};
use super::coordinator::Event;
use super::error::LeaseError;
use super::held::{Cell, Held};
use super::options::Options;
use super::row::Row;
use super::table::{Listing, Settled, Table};
use super::taker::{Watch, Why};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tenure_core::{Clock, Loss, StoreError, Tick};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

pub(crate) type Reply<T> = oneshot::Sender<T>;
type Done<T> = Result<T, LeaseError>;

/// What users ask of the task.
pub(crate) enum Command {
    Update { key: String, edit: Edit, reply: Reply<Done<()>> },
    End { key: String, taken: Option<u64>, delete: bool, reply: Reply<Done<()>> },
    Look { reply: Reply<Result<(), StoreError>> },
    Renew { reply: Reply<()> },
    Lapse { key: String, taken: u64 },
    StopTaking,
    Stop { reply: Reply<()> },
}

/// What is to be done with a lease besides renewing it.
enum Wish {
    Update(Edit, Reply<Done<()>>),
    End { delete: bool, reply: Option<Reply<Done<()>>> },
}

/// A lease that is ours by the table.
struct Holding {
    /// Tells this tenure from others of the same lease.
    tenure: u64,
    cell: Arc<Cell>,
    row: Row,
    /// A request about it is under way.
    busy: bool,
    wishes: VecDeque<Wish>,
    trouble: Option<StoreError>,
    /// Users know of it.
    told: bool,
    /// It is being given up, and not believed any more.
    ends: bool,
    /// It is left to expire: nothing is done with it any more.
    lapsed: bool,
}

impl Holding {
    /// Whether it can be renewed now.
    fn is_idle(&self) -> bool {
        !self.busy && !self.lapsed && self.wishes.is_empty()
    }
}

/// What a request brought.
enum Answer {
    Looked(Result<Listing, StoreError>),
    Took {
        row: Row,
        why: Why,
        settled: Result<Settled, StoreError>,
    },
    Kept {
        key: String,
        tenure: u64,
        settled: Result<Settled, StoreError>,
        update: Option<(Edit, Reply<Done<()>>)>,
    },
    Ended {
        key: String,
        tenure: u64,
        delete: bool,
        settled: Result<Settled, StoreError>,
        reply: Option<Reply<Done<()>>>,
    },
}

/// The task's state.
pub(crate) struct Driver {
    table: Table,
    options: Arc<Options>,
    clock: Arc<dyn Clock>,
    events: mpsc::UnboundedSender<Event>,
    /// What users may see.
    shown: Arc<Mutex<BTreeMap<String, Held>>>,
    holdings: BTreeMap<String, Holding>,
    tenures: u64,
    renewals: Agenda,
    deadlines: Agenda,
    /// Stolen leases, and when they may be told, on the waiter's time line.
    unsettled: BTreeMap<String, Tick>,
    /// Leases with wishes.
    wishing: BTreeSet<String>,
    watch: Watch,
    takes: VecDeque<(Row, Why)>,
    taking: BTreeSet<String>,
    /// When to look next, on the waiter's time line.
    look_at: Tick,
    looking: bool,
    looks: u64,
    look_error: Option<StoreError>,
    asked: Vec<Reply<Result<(), StoreError>>>,
    served: Vec<Reply<Result<(), StoreError>>>,
    renewers: Vec<(BTreeSet<String>, Reply<()>)>,
    foreign: BTreeSet<StoreError>,
    takes_none: bool,
    stopping: Option<(Tick, Vec<Reply<()>>)>,
    jobs: JoinSet<Answer>,
}

impl Driver {
    pub(crate) fn new(
        table: Table,
        options: Arc<Options>,
        events: mpsc::UnboundedSender<Event>,
        shown: Arc<Mutex<BTreeMap<String, Held>>>,
    ) -> Driver {
        let clock = Arc::clone(table.clock());
        Driver {
            table,
            options,
            clock,
            events,
            shown,
            holdings: BTreeMap::new(),
            tenures: 0,
            renewals: Agenda::default(),
            deadlines: Agenda::default(),
            unsettled: BTreeMap::new(),
            wishing: BTreeSet::new(),
            watch: Watch::default(),
            takes: VecDeque::new(),
            taking: BTreeSet::new(),
            look_at: Tick(0),
            looking: false,
            looks: 0,
            look_error: None,
            asked: Vec::new(),
            served: Vec::new(),
            renewers: Vec::new(),
            foreign: BTreeSet::new(),
            takes_none: false,
            stopping: None,
            jobs: JoinSet::new(),
        }
    }

    pub(crate) async fn run(mut self, mut orders: mpsc::UnboundedReceiver<Command>) {
        let mut is_open = true;
        loop {
            self.expire();
            self.settle();
            self.launch();
            self.answer_lookers();
            if self.is_over() {
                break;
            }
            let pause = self.pause();
            tokio::select! {
                biased;
                order = orders.recv(), if is_open => match order {
                    Some(order) => self.on_command(order),
                    None => {
                        is_open = false;
                        self.stop(None);
                    }
                },
                Some(answer) = self.jobs.join_next(), if !self.jobs.is_empty() => {
                    // A request that panicked leaves its lease busy: it is not renewed, and told as lost in time.
                    if let Ok(answer) = answer {
                        self.on_answer(answer);
                    }
                }
                () = tokio::time::sleep(pause) => {}
            }
        }
        self.jobs.abort_all();
        for reply in self.stopping.take().into_iter().flat_map(|(_, replies)| replies) {
            let _gone = reply.send(());
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Update { key, edit, reply } => self.wish(key, Wish::Update(edit, reply)),
            Command::End { key, taken, delete, reply } => {
                if taken.is_some_and(|taken| !self.is_tenure(&key, taken)) {
                    let _gone = reply.send(Err(LeaseError::NotHeld(key)));
                } else {
                    self.wish(key, Wish::End { delete, reply: Some(reply) });
                }
            }
            Command::Look { reply } => {
                self.asked.push(reply);
                self.look_at = Tick(0);
            }
            Command::Renew { reply } => {
                let now = self.clock.held();
                let keys: BTreeSet<String> = self.holdings.keys().cloned().collect();
                for key in keys.iter().filter(|key| self.holdings.get(*key).is_some_and(|held| !held.busy)) {
                    self.renewals.set(key, now);
                }
                if keys.is_empty() {
                    let _gone = reply.send(());
                } else {
                    self.renewers.push((keys, reply));
                }
            }
            Command::Lapse { key, taken } => {
                if !self.is_tenure(&key, taken) {
                    return;
                }
                self.renewals.remove(&key);
                if let Some(holding) = self.holdings.get_mut(&key) {
                    holding.lapsed = true;
                    holding.ends = true;
                    holding.cell.lose(Loss::Expired);
                    self.hide(&key);
                }
            }
            Command::StopTaking => {
                self.takes_none = true;
                self.takes.clear();
            }
            Command::Stop { reply } => self.stop(Some(reply)),
        }
    }

    /// Whether what is held is what was taken at that counter.
    fn is_tenure(&self, key: &str, taken: u64) -> bool {
        self.holdings.get(key).is_some_and(|holding| holding.cell.counter_at_take() == taken)
    }

    fn wish(&mut self, key: String, wish: Wish) {
        let holding = self.holdings.get_mut(&key).filter(|holding| holding.told && !holding.ends);
        let Some(holding) = holding.filter(|holding| self.clock.held() < holding.cell.until()) else {
            let reply = match wish {
                Wish::Update(_, reply) => Some(reply),
                Wish::End { reply, .. } => reply,
            };
            if let Some(reply) = reply {
                let _gone = reply.send(Err(LeaseError::NotHeld(key)));
            }
            return;
        };
        if let Wish::End { .. } = wish {
            // It was given up: whatever the table says in the end, it is not believed any more.
            holding.ends = true;
            holding.cell.lose(Loss::Released);
        }
        holding.wishes.push_back(wish);
        self.wishing.insert(key.clone());
        if self.holdings.get(&key).is_some_and(|holding| holding.ends) {
            self.hide(&key);
        }
    }

    fn hide(&self, key: &str) {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner).remove(key);
    }

    /// Gives up everything.
    fn stop(&mut self, reply: Option<Reply<()>>) {
        let by = self.clock.held().after(self.options.failover);
        let (_, replies) = self.stopping.get_or_insert_with(|| (by, Vec::new()));
        replies.extend(reply);
        self.takes_none = true;
        self.takes.clear();
        let keys: Vec<String> = self.holdings.keys().cloned().collect();
        for key in keys {
            self.give_up(&key);
        }
    }

    /// Gives up one lease because all are.
    fn give_up(&mut self, key: &str) {
        let Some(holding) = self.holdings.get_mut(key).filter(|holding| !holding.ends) else { return };
        holding.ends = true;
        holding.cell.lose(Loss::Released);
        holding.wishes.push_back(Wish::End { delete: false, reply: None });
        if holding.told {
            let lease = Held { cell: Arc::clone(&holding.cell), clock: Arc::clone(&self.clock) };
            let _nobody_listens = self.events.send(Event::Lost { lease, loss: Loss::Released });
        }
        self.wishing.insert(key.to_owned());
        self.unsettled.remove(key);
        self.hide(key);
    }

    fn is_over(&self) -> bool {
        let Some((by, _)) = &self.stopping else { return false };
        let is_done = self.holdings.values().all(|holding| holding.lapsed) && self.taking.is_empty();
        is_done || self.clock.held() >= *by
    }

    /// Starts the requests that are due, within the bound.
    fn launch(&mut self) {
        let now = self.clock.now();
        if !self.takes_none
            && !self.looking
            && self.takes.is_empty()
            && self.taking.is_empty()
            && now.waited >= self.look_at
        {
            self.looking = true;
            self.served.append(&mut self.asked);
            let table = self.table.clone();
            self.jobs.spawn(async move { Answer::Looked(table.list().await) });
        }
        while self.jobs.len() < self.options.at_once {
            if !self.launch_one(now.held) {
                return;
            }
        }
    }

    /// Starts the most pressing request. False if there is none.
    fn launch_one(&mut self, now: Tick) -> bool {
        let next = self.wishing.iter().find(|key| self.holdings.get(*key).is_some_and(|held| !held.busy));
        if let Some(key) = next.cloned() {
            return self.grant(&key);
        }
        while let Some(key) = self.renewals.pop(now) {
            if self.holdings.get(&key).is_some_and(Holding::is_idle) {
                self.keep(&key, Edit::new(), None);
                return true;
            }
        }
        if let Some((row, why)) = self.takes.pop_front() {
            let change = Change::take(self.table.format(), &row, &self.options.worker);
            let deadline = self.options.believed_until(now);
            self.taking.insert(row.key().to_owned());
            let table = self.table.clone();
            self.jobs.spawn(async move {
                let settled = table.settle(&change, deadline).await;
                Answer::Took { row: change.after, why, settled }
            });
            return true;
        }
        false
    }

    /// Does what is wished of a lease.
    fn grant(&mut self, key: &str) -> bool {
        let Some(holding) = self.holdings.get_mut(key) else { return false };
        let wish = holding.wishes.pop_front();
        if holding.wishes.is_empty() {
            self.wishing.remove(key);
        }
        match wish {
            None => return true,
            Some(Wish::Update(edit, reply)) => self.keep(key, edit, Some(reply)),
            Some(Wish::End { delete, reply }) => {
                holding.busy = true;
                self.renewals.remove(key);
                let format = self.table.format();
                let change = if delete {
                    Change::delete(format, &holding.row)
                } else {
                    Change::evict(format, &holding.row)
                };
                let (key, tenure) = (key.to_owned(), holding.tenure);
                let deadline = self.clock.held().after(self.options.failover);
                let table = self.table.clone();
                self.jobs.spawn(async move {
                    let settled = table.settle(&change, deadline).await;
                    Answer::Ended { key, tenure, delete, settled, reply }
                });
            }
        }
        true
    }

    /// Renews a lease, with a change of its fields or without.
    fn keep(&mut self, key: &str, edit: Edit, reply: Option<Reply<Done<()>>>) {
        let Some(holding) = self.holdings.get_mut(key) else { return };
        holding.busy = true;
        let change = Change::renew(self.table.format(), &holding.row, &edit);
        let update = reply.map(|reply| (edit, reply));
        let (key, tenure, deadline) = (key.to_owned(), holding.tenure, holding.cell.until());
        let table = self.table.clone();
        self.jobs.spawn(async move {
            let settled = table.settle(&change, deadline).await;
            Answer::Kept { key, tenure, settled, update }
        });
    }

    /// How long nothing needs to be done if nothing happens.
    fn pause(&self) -> Duration {
        let now = self.clock.now();
        // The time line of timers is not that of the clock, which suspend moves on.
        let most = self.options.failover / 10;
        let has_room = self.jobs.len() < self.options.at_once;
        let looks = (!self.takes_none && !self.looking && self.takes.is_empty() && self.taking.is_empty())
            .then(|| now.expect(self.look_at));
        let settles = self.unsettled.values().min().map(|at| now.expect(*at));
        let stops = self.stopping.as_ref().map(|(by, _)| *by);
        let next = [self.deadlines.next(), self.renewals.next().filter(|_| has_room), looks, settles, stops];
        let next = next.into_iter().flatten().map(|at| at.since(now.held)).min();
        // A little late rather than early again and again.
        next.map_or(most, |pause| (pause + Duration::from_millis(1)).min(most))
    }
}
