//! What goes wrong for our workers: they die, stop, stand still, and lose rows that they have.

use super::Micros;
use super::{FAILOVER, Happens, KclWorld, OurProcess};
use crate::change::{Edit, RowChange};
use crate::row::{Fields, Row};
use crate::worker::{ChangePurpose, WorkerCommand};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tenure_core::Clock;
use tokio::sync::oneshot;

/// More than there are while anybody stands still.
const MANY_RENEWALS: u64 = 10;

impl KclWorld {
    /// Somebody deletes a row that one of ours has, and makes it anew, as one that nobody ever had. All others have seen that it was
    /// had: who has not can't tell.
    fn remake(&mut self) {
        let is_known = |key: &&String| {
            let held = self.ours.values().any(|ours| ours.believes_in(key));
            let known = |ours: &OurProcess| ours.machine.has_seen_held(key) && !is_about_to_take(ours, key);
            held && self.ours.values().all(|ours| ours.believes_in(key) || known(ours))
        };
        // Its counter begins anew. Who stands still until it is where it was, takes that for silence: that takes many renewals.
        let old = self.rows.iter().filter(|(_, row)| row.counter() > MANY_RENEWALS).map(|(key, _)| key);
        let Some(key) = { old }.find(is_known).cloned() else { return };
        let Ok(row) = Row::new(self.terms.format, &key, Fields::new()) else { return };
        self.rows.insert(key.clone(), row);
        self.fences.remove(&key);
        self.closed_until = self.now + FAILOVER * 2;
        self.remade += 1;
    }

    /// Something happens to one of ours.
    pub(super) fn fault(&mut self) -> Result<(), String> {
        if !self.is_faulty() {
            return Ok(());
        }
        self.at(self.now + self.now % 7 + FAILOVER / 8, 0, Happens::Fault);
        let place = usize::try_from(self.rng.below(self.ours.len() as u64)).unwrap();
        let Some(who) = self.ours.keys().nth(place).copied() else { return Ok(()) };
        let (what, span) = (self.rng.below(11), self.rng.below(FAILOVER));
        if what == 10 {
            self.remake();
            return Ok(());
        }
        if what < 2 && self.now < self.closed_until {
            return Ok(());
        }
        let Some(ours) = self.ours.get_mut(&who).filter(|ours| ours.stalled_until <= self.now) else {
            return Ok(());
        };
        ours.clock.now.fetch_max(self.now, Ordering::SeqCst);
        let most = ours.most;
        if self.terms.lapses && self.rng.one_in(2) {
            self.lapse(who);
            return self.step(who);
        }
        let (reply, _) = oneshot::channel();
        match what {
            0 => {
                self.ours.remove(&who);
                self.start(most);
                return Ok(());
            }
            1 => {
                // Its work has ended: nothing is believed from here on.
                ours.machine.on_command(ours.clock.now(), WorkerCommand::Stop { reply });
                self.start(most);
            }
            2..=4 => {
                ours.stalled_until = self.now + span;
                return Ok(());
            }
            5..=7 => {
                let Some(held) = ours.believes.first() else { return Ok(()) };
                let (key, tenure) = (held.key().to_owned(), Some(Arc::clone(&held.cell)));
                ours.believes.remove(0);
                let (reply, _) = oneshot::channel();
                ours.machine
                    .on_command(ours.clock.now(), WorkerCommand::End { key, tenure, delete: false, reply });
            }
            _ => {
                let (reply, _) = oneshot::channel();
                ours.machine.on_command(ours.clock.now(), WorkerCommand::Renew { reply });
            }
        }
        self.step(who)
    }

    /// A lease is updated twice, so that one update waits, perhaps renewed at once with all others, and left to expire.
    fn lapse(&mut self, who: u64) {
        let now = self.now;
        let Some(ours) = self.ours.get_mut(&who) else { return };
        ours.clock.now.fetch_max(now, Ordering::SeqCst);
        let Some(held) = ours.believes.pop() else { return };
        let (key, at) = (held.key().to_owned(), ours.clock.now());
        for _ in 0..2 {
            let ((reply, _), tenure) = (oneshot::channel(), Some(Arc::clone(&held.cell)));
            let update = WorkerCommand::Update { key: key.clone(), tenure, edit: Edit::new(), reply };
            ours.machine.on_command(at, update);
        }
        ours.lapsed.insert(key, held.cell.until());
        ours.machine.on_command(at, WorkerCommand::Lapse { tenure: held.cell });
        self.lapses += 1;
    }

    /// Nothing is done with what was left to expire.
    pub(super) fn check_lapsed(
        &mut self,
        who: u64,
        now: Micros,
        change: &RowChange,
        purpose: &ChangePurpose,
    ) -> Result<(), String> {
        let Some(ours) = self.ours.get_mut(&who) else { return Ok(()) };
        let held = ours.clock.held();
        ours.lapsed.retain(|_, until| held < *until);
        match purpose {
            ChangePurpose::Keep { key, .. } | ChangePurpose::End { key, .. }
                if ours.lapsed.contains_key(key) =>
            {
                Err(format!("at {now}, {who} works on {key}, which was left to expire: {:?}", change.after))
            }
            _ => Ok(()),
        }
    }
}

/// Whether it has sent for a row, by what it saw of it before.
fn is_about_to_take(ours: &OurProcess, key: &str) -> bool {
    let mut takes = ours.under_way.values().map(|(settling, ..)| settling.change.before.key());
    takes.any(|taken| taken == key)
}
