//! What follows from what has happened.

use super::{
    Answered, ChangePurpose, HeldRow, LeaseWish, Unsettled, WorkerAnswer, WorkerMachine, WorkerNotice,
};
use crate::change::Edit;
use crate::error::LeaseError;
use crate::held::{TenureCell, loss_by};
use crate::row::Row;
use crate::settling::Settled;
use crate::shards::is_at_end;
use crate::table::RowListing;
use crate::taker::{TakeReason, TakerView};
use fnv::FnvHasher;
use std::collections::{BTreeSet, VecDeque};
use std::hash::Hasher as _;
use std::sync::Arc;
use tenure_core::{Loss, Now, StoreError, Tick};

/// How many different rows are told as foreign.
const FOREIGN: usize = 100;

/// How many workers are remembered whose leases were silent.
const MOST_SILENT: usize = 1000;

impl WorkerMachine {
    pub(crate) fn on_answer(&mut self, now: Now, answer: WorkerAnswer) {
        self.mind_hidden_time(now);
        // Whoever waits for the end of a lease by its deadline may have been told.
        self.expire(now);
        let (purpose, settled) = match answer {
            WorkerAnswer::Looked(listing) => return self.looked(now, listing),
            WorkerAnswer::Settled(purpose, settled) => (purpose, *settled),
        };
        self.under_way = self.under_way.saturating_sub(1);
        match purpose {
            ChangePurpose::Take { row, why, victim } => {
                self.taking.remove(row.key());
                match settled {
                    Ok(Settled::Made(sent, found)) => self.took(now, found.unwrap_or(row), why, sent),
                    Ok(Settled::Refused(standing)) => self.steal_again(now, victim, standing),
                    Err(error) => self.not_taken(now, row.key(), error),
                }
            }
            ChangePurpose::Keep { key, tenure, update } => {
                let is_same = self.holdings.get(&key).is_some_and(|holding| holding.tenure == tenure);
                match (is_same, update) {
                    (true, update) => self.kept(now, &key, settled, update),
                    (false, Some((_, reply))) => {
                        let told = match settled {
                            Ok(Settled::Made(..)) => Ok(()),
                            Ok(Settled::Refused(_)) => Err(LeaseError::NotHeld(key.clone())),
                            Err(error) => Err(error.into()),
                        };
                        self.reply(Answered::Done(reply, told));
                    }
                    (false, None) => {}
                }
                self.renewed_or_lost(&key);
            }
            ChangePurpose::End { key, tenure, delete, reply } => {
                let name = key.clone();
                if self.holdings.get(&key).is_some_and(|holding| holding.tenure == tenure) {
                    let standing = settled.as_ref().ok().and_then(Settled::standing);
                    let ours = standing.filter(|row| !delete && row.holder() == Some(&*self.options.worker));
                    if let Some(row) = ours {
                        return self.give_up_again(now, &key, row.clone(), reply);
                    }
                    self.forget(&key);
                }
                let told = match settled {
                    Ok(Settled::Made(..)) => Ok(()),
                    // It was taken meanwhile, so it is not ours to give any more.
                    Ok(Settled::Refused(_)) if !delete => Ok(()),
                    Ok(Settled::Refused(_)) => Err(LeaseError::Changed(key)),
                    Err(error) => Err(error.into()),
                };
                if let Some(reply) = reply {
                    self.reply(Answered::Done(reply, told));
                }
                self.renewed_or_lost(&name);
            }
        }
    }

    fn looked(&mut self, now: Now, listing: Result<RowListing, StoreError>) {
        self.looking = false;
        self.looks += 1;
        let listing = match listing {
            Ok(listing) => listing,
            Err(error) => {
                self.look_at = now.waited.after(self.options.period().min(self.options.failover / 10));
                self.tell(WorkerNotice::LookFailed(error.clone()));
                self.look_error = Some(error);
                return;
            }
        };
        (self.look_error, self.take_error) = (None, None);
        self.refused.retain(|_, again| now.waited < *again);
        for error in listing.foreign {
            if self.foreign.len() < FOREIGN && self.foreign.insert(error.clone()) {
                self.tell(WorkerNotice::Foreign(error));
            }
        }
        if listing.skipped > self.skipped {
            self.tell(WorkerNotice::Skipped(listing.skipped));
        }
        self.skipped = self.skipped.max(listing.skipped);
        for worker in self.watch.look(now.waited, &listing.rows) {
            if self.silent.remove(&worker) {
                self.tell(WorkerNotice::Revived(worker));
            }
        }
        self.watch.forget(now.waited, self.options.failover);
        let held: BTreeSet<String> = self.holdings.keys().cloned().collect();
        let view = TakerView {
            me: &self.options.worker,
            held: &held,
            rows: &listing.rows,
            unreadable: &listing.unreadable,
            refused: &self.refused,
            watch: &self.watch,
            now: now.waited,
            failover: self.options.failover,
            most: self.options.most,
            steal: self.options.steal,
            shards: self.has_shards(),
        };
        let lots = self.options.lots ^ hash(&self.options.worker) ^ self.looks.rotate_left(32) ^ now.wall.0;
        if !self.takes_none {
            self.takes = view.choose(lots).into();
            let silent = self.takes.iter().filter(|(_, why)| *why == TakeReason::Expired);
            let silent = silent.filter_map(|(row, _)| row.holder().filter(|by| *by != self.options.worker));
            self.silent.extend(silent.map(str::to_owned).take(MOST_SILENT.saturating_sub(self.silent.len())));
        }
        let next = now.waited.after(self.options.period());
        let silence = self.watch.next_silence(now.waited, self.options.failover, &held);
        // Who asked for a look meanwhile, may know of more than this one has shown.
        let asked = (!self.asked.is_empty()).then_some(now.waited);
        self.look_at = silence.into_iter().chain(asked).fold(next, Tick::min);
    }

    /// A theft was refused. Where reading the table takes longer than a renewal, each row is older than its owner's last renewal, so nothing
    /// would ever be stolen: it is tried once more.
    fn steal_again(&mut self, now: Now, victim: Option<String>, standing: Option<Row>) {
        let (Some(victim), Some(row), false) = (victim, standing, self.takes_none) else { return };
        let is_over = self.has_shards() && is_at_end(&row);
        if row.owner() == Some(&*victim) && row.handing_over().is_none() && !is_over {
            self.take(now, &row, TakeReason::Stolen, None);
        }
    }

    /// A take has failed: not since somebody else was sooner, but since the table did not do it.
    fn not_taken(&mut self, now: Now, key: &str, error: StoreError) {
        /// Failover times until it is tried again, where that can hardly help.
        const REST: u32 = 3;
        if !error.is_passing() {
            let again = now.waited.after(self.options.failover.saturating_mul(REST));
            self.refused.insert(key.to_owned(), again);
        }
        self.tell(WorkerNotice::TakeFailed(key.to_owned(), error.clone()));
        self.take_error = Some(error);
    }

    fn took(&mut self, now: Now, row: Row, why: TakeReason, sent: Tick) {
        let until = self.options.believed_until(sent);
        let key = row.key().to_owned();
        if self.holdings.contains_key(&key) {
            return;
        }
        // Too late to believe in, and nobody else has it: it is given back.
        let is_late = now.held >= until || sent < self.unhidden_at;
        self.tenures += 1;
        let holding = HeldRow {
            tenure: self.tenures,
            cell: Arc::new(TenureCell::new(&row, until)),
            row,
            busy: false,
            wishes: VecDeque::new(),
            trouble: None,
            told: false,
            ends: false,
            finished: false,
            lapsed: false,
            alone: !why.may_be_believed(),
        };
        self.holdings.insert(key.clone(), holding);
        self.renewals.set(&key, self.options.renewed_at(sent));
        self.deadlines.set(&key, until);
        if self.stopping.is_some() || is_late {
            self.give_up(now, &key);
        } else if why.may_be_believed() && self.options.settle_steals {
            self.unsettled.insert(key, Unsettled::Until(now.waited.after(self.options.failover)));
        } else {
            self.taken(&key);
        }
    }

    /// Tells users that a lease is theirs to work on.
    fn taken(&mut self, key: &str) {
        let Some(holding) = self.holdings.get_mut(key).filter(|holding| !holding.told && !holding.ends)
        else {
            return;
        };
        holding.told = true;
        let cell = Arc::clone(&holding.cell);
        self.tell(WorkerNotice::Taken(cell));
    }

    /// Asks for the leases whose earlier owners must have noticed: each may have been stolen in turn, which only a renewal shows.
    pub(super) fn settle(&mut self, now: Now) {
        for (key, unsettled) in &mut self.unsettled {
            if matches!(unsettled, Unsettled::Until(at) if *at <= now.waited) {
                *unsettled = Unsettled::Unconfirmed;
                self.renewals.set(key, now.held);
            }
        }
    }

    /// A lease is ours still, as a renewal has shown.
    fn confirmed(&mut self, key: &str) {
        if self.unsettled.get(key) == Some(&Unsettled::Unconfirmed) {
            self.unsettled.remove(key);
            if let Some(holding) = self.holdings.get_mut(key) {
                holding.alone = true;
            }
            self.taken(key);
        }
    }

    fn kept(
        &mut self,
        now: Now,
        key: &str,
        settled: Result<Settled, StoreError>,
        update: Option<(Edit, super::Reply<Result<(), LeaseError>>)>,
    ) {
        let Some(holding) = self.holdings.get_mut(key) else { return };
        holding.busy = false;
        let told = match settled {
            Ok(Settled::Made(sent, row)) => {
                let until = self.options.believed_until(sent);
                holding.trouble = None;
                holding.row = row.unwrap_or_else(|| holding.row.clone());
                if holding.ends || holding.cell.renewed(&holding.row, until, now.held) {
                    if !holding.ends {
                        self.deadlines.set(key, until);
                    }
                    self.renewals.set(key, self.options.renewed_at(sent));
                    self.confirmed(key);
                    self.tell_end(key);
                } else {
                    // Its users have seen its end sooner than this worker.
                    self.lose(key, Loss::Expired);
                }
                Ok(())
            }
            Ok(Settled::Refused(_)) if holding.lapsed => Err(LeaseError::NotHeld(key.to_owned())),
            Ok(Settled::Refused(Some(row))) if row.handing_over() == Some(&*self.options.worker) => {
                self.wanted(now, key, row);
                if let (Some((edit, reply)), Some(holding)) = (update, self.holdings.get_mut(key)) {
                    holding.wishes.push_front(LeaseWish::Update(edit, reply));
                }
                self.line_up(now, key);
                return;
            }
            Ok(Settled::Refused(standing)) => {
                self.lose(key, loss_by(standing.as_ref(), now.wall));
                Err(LeaseError::NotHeld(key.to_owned()))
            }
            Err(error) => {
                self.renewals.set(key, now.held.after(self.options.failover / 20));
                holding.trouble = Some(error.clone());
                Err(error.into())
            }
        };
        self.line_up(now, key);
        if let Some((_, reply)) = update {
            self.reply(Answered::Done(reply, told));
        }
    }

    /// Tells users once that a shard which they have was read to its end, by whoever wrote that.
    fn tell_end(&mut self, key: &str) {
        let has_shards = self.has_shards();
        let Some(holding) = self.holdings.get_mut(key).filter(|holding| holding.told && !holding.ends) else {
            return;
        };
        if has_shards && is_at_end(&holding.row) && !std::mem::replace(&mut holding.finished, true) {
            let cell = Arc::clone(&holding.cell);
            self.tell(WorkerNotice::Finished(cell));
        }
    }

    /// The row says that we work on it still: the KCL's leader has begun to hand it over, or an older write of ours came late.
    fn give_up_again(
        &mut self,
        now: Now,
        key: &str,
        row: Row,
        reply: Option<super::Reply<Result<(), LeaseError>>>,
    ) {
        let Some(holding) = self.holdings.get_mut(key) else { return };
        // It may have been another's in between, who may not know yet that it is no more.
        holding.alone = false;
        holding.row = row;
        holding.busy = false;
        if holding.lapsed {
            return self.dismiss(key, [LeaseWish::End { delete: false, reply }].into());
        }
        holding.wishes.push_front(LeaseWish::End { delete: false, reply });
        self.line_up(now, key);
    }

    /// The KCL's leader hands the lease over to another, and waits for us to end.
    fn wanted(&mut self, now: Now, key: &str, row: Row) {
        let by = row.owner().unwrap_or_default().to_owned();
        let Some(holding) = self.holdings.get_mut(key) else { return };
        holding.row = row;
        self.renewals.set(key, now.held);
        if !holding.told {
            // Nothing was begun yet.
            self.give_up(now, key);
            return;
        }
        let cell = Arc::clone(&holding.cell);
        self.tell(WorkerNotice::Wanted(cell, by));
    }

    /// Where the wall clock shows that time was hidden from this process, nobody knows how long ago the last renewals were sent: no lease is
    /// believed in that rests on what was sent before.
    pub(super) fn mind_hidden_time(&mut self, now: Now) {
        if self.last.replace(now).is_some_and(|last| now.has_gap(last.held, last.wall)) {
            self.unhidden_at = now.held;
            let keys: Vec<String> = self.holdings.keys().cloned().collect();
            for key in keys {
                self.lose(&key, Loss::Expired);
            }
        }
    }

    /// Tells of the leases whose time has run out.
    pub(super) fn expire(&mut self, now: Now) {
        while let Some(key) = self.deadlines.pop(now.held) {
            let trouble = self.holdings.get_mut(&key).and_then(|holding| holding.trouble.take());
            self.lose(&key, trouble.map_or(Loss::Expired, Loss::from));
        }
    }

    fn lose(&mut self, key: &str, loss: Loss) {
        if self.holdings.get(key).is_some_and(|holding| holding.ends && !holding.lapsed) {
            // Users know; what is under way to give it up goes on.
            return;
        }
        let Some(holding) = self.forget(key) else { return };
        // One that was left to expire has been told already.
        let is_news = !holding.lapsed;
        if is_news {
            holding.cell.lose(loss.clone());
        }
        self.dismiss(key, holding.wishes);
        if holding.told && is_news {
            self.tell(WorkerNotice::Lost(holding.cell, loss));
        }
        self.renewed_or_lost(key);
    }

    /// Nothing comes of what was wished of a lease.
    pub(super) fn dismiss(&mut self, key: &str, wishes: VecDeque<LeaseWish>) {
        for wish in wishes {
            if let LeaseWish::Update(_, reply) | LeaseWish::End { reply: Some(reply), .. } = wish {
                self.reply(Answered::Done(reply, Err(LeaseError::NotHeld(key.to_owned()))));
            }
        }
    }

    fn forget(&mut self, key: &str) -> Option<HeldRow> {
        self.renewals.remove(key);
        self.deadlines.remove(key);
        self.unsettled.remove(key);
        self.wishing.remove(key);
        self.hide(key);
        self.holdings.remove(key)
    }

    /// One more of those that were to be renewed now is done.
    pub(super) fn renewed_or_lost(&mut self, key: &str) {
        for (keys, _) in &mut self.renewers {
            keys.remove(key);
        }
        let (done, waiting) =
            std::mem::take(&mut self.renewers).into_iter().partition(|(keys, _)| keys.is_empty());
        self.renewers = waiting;
        let done: Vec<(BTreeSet<String>, super::Reply<()>)> = done;
        for (_, reply) in done {
            self.reply(Answered::Renewed(reply));
        }
    }

    /// Answers those who asked for a look, when what it found has been dealt with.
    pub(super) fn answer_lookers(&mut self) {
        if !self.is_dealt_with() {
            return;
        }
        let error = self.look_error.as_ref().or(self.take_error.as_ref());
        let result = error.cloned().map_or(Ok(()), Err);
        for reply in std::mem::take(&mut self.served) {
            self.reply(Answered::Looked(reply, result.clone()));
        }
        if self.takes_none {
            for reply in std::mem::take(&mut self.asked) {
                self.reply(Answered::Looked(reply, Ok(())));
            }
        }
    }
}

/// FNV-1a: spreads workers whose seeds are the same.
fn hash(text: &str) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(text.as_bytes());
    hasher.finish()
}
