//! One worker, as a passive machine: commands, answers and the time go in; requests, notices and replies come out.
//!
//! It does no I/O, reads no clock and waits for nothing: whoever steps it performs its requests, feeds their answers back, passes on
//! what is told, and steps it again no later than after its pause. Early and repeated steps are harmless. At most one request is under
//! way for each lease.

mod answers;
mod talk;
#[cfg(test)]
mod tests;

pub(crate) use talk::{
    Answered, ChangePurpose, Reply, WorkerAnswer, WorkerCommand, WorkerNotice, WorkerOutput, WorkerRequest,
};

use super::agenda::Agenda;
use super::change::{Edit, RowChange};
use super::format::Format;
use super::held::TenureCell;
use super::options::Options;
use super::row::Row;
use super::settling::Settling;
use super::taker::{RowWatch, TakeReason};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use talk::Done;
use tenure_core::{Loss, Now, StoreError, Tick};

/// What is to be done with a lease besides renewing it.
enum LeaseWish {
    Update(Edit, Reply<Done<()>>),
    End { delete: bool, reply: Option<Reply<Done<()>>> },
}

/// A lease that is ours by the table.
struct HeldRow {
    /// Tells this tenure from others of the same lease.
    tenure: u64,
    cell: Arc<TenureCell>,
    row: Row,
    /// A request about it is under way.
    busy: bool,
    wishes: VecDeque<LeaseWish>,
    trouble: Option<StoreError>,
    /// Users know of it.
    told: bool,
    /// It is being given up, and not believed any more.
    ends: bool,
    /// Users know that its shard was read to the end.
    finished: bool,
    /// It is left to expire: nothing is done with it any more.
    lapsed: bool,
    /// Nobody else can believe in it.
    alone: bool,
}

/// What must happen before a lease is told from whose earlier owners it was stolen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unsettled {
    /// They must have noticed, by then on the waiter's time line.
    Until(Tick),
    /// It must still be ours, by the answer to a renewal.
    Unconfirmed,
}

/// A worker's state.
pub(crate) struct WorkerMachine {
    format: Format,
    options: Arc<Options>,
    holdings: BTreeMap<String, HeldRow>,
    tenures: u64,
    renewals: Agenda,
    deadlines: Agenda,
    /// Leases that are not told yet.
    unsettled: BTreeMap<String, Unsettled>,
    /// Leases with wishes and no request under way, in the order in which they came to be so.
    wishing: Agenda,
    watch: RowWatch,
    takes: VecDeque<(Row, TakeReason)>,
    /// Whether a take goes before the next wish.
    takes_first: bool,
    taking: BTreeSet<String>,
    /// When to look next, on the waiter's time line.
    look_at: Tick,
    looking: bool,
    /// When the last look was sent.
    looked_at: Tick,
    looks: u64,
    look_error: Option<StoreError>,
    /// Of a take that the last look has led to.
    take_error: Option<StoreError>,
    /// Rows whose takes were refused in words that don't pass, and until when they are left alone, on the waiter's time line.
    refused: BTreeMap<String, Tick>,
    asked: Vec<Reply<Result<(), StoreError>>>,
    served: Vec<Reply<Result<(), StoreError>>>,
    renewers: Vec<(BTreeSet<String>, Reply<()>)>,
    foreign: BTreeSet<StoreError>,
    skipped: usize,
    /// Workers some lease of whom was taken because it was silent.
    silent: BTreeSet<String>,
    takes_none: bool,
    stopping: Option<(Tick, Vec<Reply<()>>)>,
    outputs: Vec<WorkerOutput>,
    under_way: usize,
    /// The last reading of its clocks.
    last: Option<Now>,
    /// When it was noticed last that time had been hidden from this process.
    unhidden_at: Tick,
}

impl WorkerMachine {
    pub(crate) fn new(format: Format, options: Arc<Options>) -> WorkerMachine {
        WorkerMachine {
            format,
            options,
            holdings: BTreeMap::new(),
            tenures: 0,
            renewals: Agenda::default(),
            deadlines: Agenda::default(),
            unsettled: BTreeMap::new(),
            wishing: Agenda::default(),
            watch: RowWatch::default(),
            takes: VecDeque::new(),
            takes_first: false,
            taking: BTreeSet::new(),
            look_at: Tick(0),
            looking: false,
            looked_at: Tick(0),
            looks: 0,
            look_error: None,
            take_error: None,
            refused: BTreeMap::new(),
            asked: Vec::new(),
            served: Vec::new(),
            renewers: Vec::new(),
            foreign: BTreeSet::new(),
            skipped: 0,
            silent: BTreeSet::new(),
            takes_none: false,
            stopping: None,
            outputs: Vec::new(),
            under_way: 0,
            last: None,
            unhidden_at: Tick(0),
        }
    }

    /// Whether rows may be shards of a stream.
    fn has_shards(&self) -> bool {
        self.options.shards.unwrap_or_else(|| self.format.is_kcl())
    }

    pub(crate) fn look_patience(&self) -> Duration {
        self.options.look_patience()
    }

    /// Whether it has seen that somebody has the row.
    #[cfg(test)]
    pub(crate) fn has_seen_held(&self, key: &str) -> bool {
        self.watch.has_seen_held(key)
    }

    /// Does what is due. What has come of commands and answers since the last step is in front.
    pub(crate) fn step(&mut self, now: Now) -> Vec<WorkerOutput> {
        self.mind_hidden_time(now);
        self.expire(now);
        self.settle(now);
        self.launch(now);
        self.answer_lookers();
        std::mem::take(&mut self.outputs)
    }

    fn send(&mut self, request: WorkerRequest) {
        self.under_way += 1;
        self.outputs.push(WorkerOutput::Request(request));
    }

    fn tell(&mut self, notice: WorkerNotice) {
        self.outputs.push(WorkerOutput::Notice(notice));
    }

    fn reply(&mut self, answered: Answered) {
        self.outputs.push(WorkerOutput::Reply(answered));
    }

    /// It has stopped: those who asked for that.
    pub(crate) fn end(self) -> Vec<Reply<()>> {
        self.stopping.map(|(_, replies)| replies).unwrap_or_default()
    }

    pub(crate) fn on_command(&mut self, now: Now, command: WorkerCommand) {
        match command {
            WorkerCommand::Update { key, tenure, edit, reply } => {
                self.wish_of(now, key, tenure.as_ref(), LeaseWish::Update(edit, reply));
            }
            WorkerCommand::End { key, tenure, delete, reply } => {
                self.wish_of(now, key, tenure.as_ref(), LeaseWish::End { delete, reply: Some(reply) });
            }
            WorkerCommand::Look { reply } => {
                self.asked.push(reply);
                self.look_at = Tick(0);
            }
            WorkerCommand::Renew { reply } => {
                let kept = self.holdings.iter().filter(|(_, holding)| !holding.lapsed);
                let keys: BTreeSet<String> = kept.map(|(key, _)| key.clone()).collect();
                for key in keys.iter().filter(|key| self.holdings.get(*key).is_some_and(|held| !held.busy)) {
                    self.renewals.set(key, now.held);
                }
                if keys.is_empty() {
                    self.reply(Answered::Renewed(reply));
                } else {
                    self.renewers.push((keys, reply));
                }
            }
            WorkerCommand::Lapse { tenure } => {
                if self.is_tenure(tenure.key(), &tenure) {
                    self.lapse(tenure.key());
                }
            }
            WorkerCommand::StopTaking => {
                self.takes_none = true;
                self.takes.clear();
            }
            WorkerCommand::Stop { reply } => self.stop(now, Some(reply)),
        }
    }

    /// Whether what is held is that very tenure. Its counter doesn't tell: a row that was deleted and made anew begins anew.
    fn is_tenure(&self, key: &str, tenure: &Arc<TenureCell>) -> bool {
        self.holdings.get(key).is_some_and(|holding| Arc::ptr_eq(&holding.cell, tenure))
    }

    /// Leaves a lease to expire. What is wished of it would write to its row, from which others would count anew.
    fn lapse(&mut self, key: &str) {
        let Some(holding) = self.holdings.get_mut(key) else { return };
        holding.lapsed = true;
        holding.ends = true;
        holding.cell.lose(Loss::Expired);
        let wishes = std::mem::take(&mut holding.wishes);
        self.renewals.remove(key);
        self.wishing.remove(key);
        self.hide(key);
        self.dismiss(key, wishes);
        self.renewed_or_lost(key);
    }

    /// Wishes something of a lease that is held; of that tenure of it, if one is named.
    fn wish_of(&mut self, now: Now, key: String, tenure: Option<&Arc<TenureCell>>, wish: LeaseWish) {
        let is_meant = tenure.is_none_or(|tenure| self.is_tenure(&key, tenure));
        let holding = self.holdings.get_mut(&key).filter(|holding| is_meant && holding.told && !holding.ends);
        let Some(holding) = holding.filter(|holding| now.held < holding.cell.until()) else {
            return self.dismiss(&key, [wish].into());
        };
        if let LeaseWish::End { .. } = wish {
            // It was given up: whatever the table says in the end, it is not believed any more.
            holding.ends = true;
            holding.cell.lose(Loss::Released);
        }
        holding.wishes.push_back(wish);
        self.line_up(now, &key);
        if self.holdings.get(&key).is_some_and(|holding| holding.ends) {
            self.hide(&key);
        }
    }

    fn hide(&mut self, key: &str) {
        self.outputs.push(WorkerOutput::Hide(key.to_owned()));
    }

    /// Gives up everything.
    pub(crate) fn stop(&mut self, now: Now, reply: Option<Reply<()>>) {
        let by = now.held.after(self.options.failover);
        let (_, replies) = self.stopping.get_or_insert_with(|| (by, Vec::new()));
        replies.extend(reply);
        self.takes_none = true;
        self.takes.clear();
        let keys: Vec<String> = self.holdings.keys().cloned().collect();
        for key in keys {
            self.give_up(now, &key);
        }
    }

    /// Gives up one lease because all are.
    fn give_up(&mut self, now: Now, key: &str) {
        let Some(holding) = self.holdings.get_mut(key).filter(|holding| !holding.ends) else { return };
        holding.ends = true;
        holding.cell.lose(Loss::Released);
        holding.wishes.push_back(LeaseWish::End { delete: false, reply: None });
        let told = holding.told.then(|| Arc::clone(&holding.cell));
        if let Some(cell) = told {
            self.tell(WorkerNotice::Lost(cell, Loss::Released));
        }
        self.line_up(now, key);
        self.unsettled.remove(key);
        self.hide(key);
    }

    pub(crate) fn is_over(&self, now: Now) -> bool {
        let Some((by, _)) = &self.stopping else { return false };
        let is_done = self.holdings.values().all(|holding| holding.lapsed) && self.taking.is_empty();
        is_done || now.held >= *by
    }

    /// Whether the table is read when it is time: not before what the last look brought has been dealt with.
    fn may_look(&self) -> bool {
        !self.takes_none && self.is_dealt_with()
    }

    fn is_dealt_with(&self) -> bool {
        !self.looking && self.takes.is_empty() && self.taking.is_empty()
    }

    /// Starts the requests that are due, within the bound.
    fn launch(&mut self, now: Now) {
        if self.may_look() && now.waited >= self.look_at {
            (self.looking, self.looked_at) = (true, now.held);
            self.served.append(&mut self.asked);
            // Beside the bound: renewals don't wait for a large table.
            self.outputs.push(WorkerOutput::Request(WorkerRequest::Look));
        }
        while self.under_way < self.options.at_once {
            if !self.launch_one(now) {
                return;
            }
        }
    }

    /// Starts the most pressing request: a renewal that is due, and else a wish or a take in turn. Users who wish without end keep neither
    /// renewals nor takes waiting, nor each other. False if there is nothing to do.
    fn launch_one(&mut self, now: Now) -> bool {
        if let Some(key) = self.next_renewal(now) {
            self.serve(now, &key);
            return true;
        }
        let wish = if self.takes_first && !self.takes.is_empty() { None } else { self.wishing.pop(now.held) };
        self.takes_first = wish.is_some();
        if let Some(key) = wish {
            self.serve(now, &key);
            return true;
        }
        let Some((row, why)) = self.takes.pop_front() else { return false };
        let victim = row.owner().filter(|_| why == TakeReason::Stolen).map(str::to_owned);
        self.take(now, &row, why, victim);
        true
    }

    /// Takes a lease, on condition that its row is as it was read. `victim` may renew it meanwhile: see [`ChangePurpose::Take`].
    fn take(&mut self, now: Now, row: &Row, why: TakeReason, victim: Option<String>) {
        let change = RowChange::take(self.format, row, &self.options.worker);
        let deadline = self.options.believed_until(now.held);
        self.taking.insert(row.key().to_owned());
        let row = change.after.clone();
        let settling = Settling::new(change, deadline).of_row_read_after(self.looked_at);
        self.send(WorkerRequest::Settle(Box::new(settling), ChangePurpose::Take { row, why, victim }));
    }

    /// The next lease whose renewal is due, and that has no request under way.
    fn next_renewal(&mut self, now: Now) -> Option<String> {
        while let Some(key) = self.renewals.pop(now.held) {
            if self.holdings.get(&key).is_some_and(|holding| !holding.busy && !holding.lapsed) {
                return Some(key);
            }
        }
        None
    }

    /// Has a lease wait for what is wished of it. One with a request under way waits for the answer first.
    fn line_up(&mut self, now: Now, key: &str) {
        let waits = |holding: &HeldRow| !holding.busy && !holding.wishes.is_empty();
        if self.holdings.get(key).is_some_and(waits) && !self.wishing.contains(key) {
            self.wishing.set(key, now.held);
        }
    }

    /// Does what is wished of a lease next, which renews it, too; or renews it.
    fn serve(&mut self, now: Now, key: &str) {
        self.wishing.remove(key);
        let Some(holding) = self.holdings.get_mut(key) else { return };
        match holding.wishes.pop_front() {
            None => self.keep(now, key, Edit::new(), None),
            Some(LeaseWish::Update(edit, reply)) => self.keep(now, key, edit, Some(reply)),
            Some(LeaseWish::End { delete, reply }) => {
                holding.busy = true;
                self.renewals.remove(key);
                let change = match (delete, holding.alone) {
                    (true, _) => RowChange::delete(self.format, &holding.row),
                    (false, true) => RowChange::give_back(self.format, &holding.row),
                    (false, false) => RowChange::evict(self.format, &holding.row),
                };
                let purpose =
                    ChangePurpose::End { key: key.to_owned(), tenure: holding.tenure, delete, reply };
                let deadline = now.held.after(self.options.failover);
                self.send(WorkerRequest::Settle(Box::new(Settling::new(change, deadline)), purpose));
            }
        }
    }

    /// Renews a lease, with a change of its fields or without.
    fn keep(&mut self, now: Now, key: &str, edit: Edit, reply: Option<Reply<Done<()>>>) {
        let Some(holding) = self.holdings.get_mut(key) else { return };
        holding.busy = true;
        let change = RowChange::renew(self.format, &holding.row, &edit);
        let update = reply.map(|reply| (edit, reply));
        // One that is being given up is believed no more, but an update that was asked for before is made all the same.
        let deadline =
            if holding.ends { now.held.after(self.options.failover) } else { holding.cell.until() };
        let tenure = holding.tenure;
        let purpose = ChangePurpose::Keep { key: key.to_owned(), tenure, update };
        self.send(WorkerRequest::Settle(Box::new(Settling::new(change, deadline)), purpose));
    }

    /// How long nothing needs to be done if nothing happens.
    pub(crate) fn pause(&self, now: Now) -> Duration {
        // The time line of timers is not that of the clock, which suspend moves on.
        let most = self.options.failover / 10;
        let has_room = self.under_way < self.options.at_once;
        let looks = self.may_look().then(|| now.expect(self.look_at));
        let settles = self.unsettled.values().filter_map(|unsettled| match unsettled {
            Unsettled::Until(at) => Some(now.expect(*at)),
            Unsettled::Unconfirmed => None,
        });
        let stops = self.stopping.as_ref().map(|(by, _)| *by);
        let next =
            [self.deadlines.next(), self.renewals.next().filter(|_| has_room), looks, settles.min(), stops];
        let next = next.into_iter().flatten().map(|at| at.since(now.held)).min();
        // A little late rather than early again and again.
        next.map_or(most, |pause| (pause + Duration::from_millis(1)).min(most))
    }
}
