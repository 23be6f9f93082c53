//! Leases by name, one at a time: for tools that know what they want, beside coordinators that take their share.

use super::change::{Edit, RowChange};
use super::error::LeaseError;
use super::held::{Held, TenureCell};
use super::options::Options;
use super::row::{Fields, Row};
use super::settling::{Settled, Settling};
use super::table::Table;
use super::taker::RowWatch;
use super::worker::loss_by;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_core::{ErrorKind, Loss, StoreError};

/// Takes leases by name and renews them when it is told to: the coordinator's rules, without its background.
///
/// It never steals. A lease that another has, or that another was evicted from, is taken when this very claimant has seen it
/// unchanged for a failover time, so it must have tried before.
pub struct Claimant {
    table: Table,
    options: Options,
    watch: Mutex<RowWatch>,
}

impl Claimant {
    /// A claimant on that table. Of the options it goes by the worker's id, the failover time and the drift.
    ///
    /// # Errors
    /// `Invalid`, when the options contradict themselves.
    pub fn new(table: Table, options: Options) -> Result<Claimant, StoreError> {
        options.check()?;
        Ok(Claimant { table, options, watch: Mutex::default() })
    }

    fn watch(&self) -> MutexGuard<'_, RowWatch> {
        // No code that can panic runs under the lock.
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the lease, if nobody has it or whoever has it was silent for a failover time; its row is created if there is none.
    /// None: another has it.
    ///
    /// # Errors
    /// A store error: the lease may have been taken, if its kind is `Unknown`; it expires then.
    ///
    /// # Cancel safety
    /// The lease may have been taken, or not; it expires then.
    pub async fn try_take(&self, key: &str) -> Result<Option<Held>, LeaseError> {
        let row = match self.table.read(key).await? {
            Some(row) => row,
            None => match self.table.create(key, Fields::new()).await {
                Ok(row) => row,
                Err(LeaseError::Exists(_)) => match self.table.read(key).await? {
                    Some(row) => row,
                    None => return Ok(None),
                },
                Err(error) => return Err(error),
            },
        };
        if !self.may_take(&row) {
            return Ok(None);
        }
        let change = RowChange::take(self.table.format(), &row, self.options.worker());
        let deadline = self.options.believed_until(self.table.clock().held());
        let after = change.after.clone();
        match self.table.settle(Settling::new(change, deadline)).await? {
            Settled::Refused(_) => Ok(None),
            Settled::Made(sent, found) => {
                let row = found.unwrap_or(after);
                let cell = Arc::new(TenureCell::new(&row, self.options.believed_until(sent)));
                Ok(Some(Held { cell, clock: Arc::clone(self.table.clock()) }))
            }
        }
    }

    fn may_take(&self, row: &Row) -> bool {
        let now = self.table.clock().now().waited;
        let mut watch = self.watch();
        watch.see(now, row);
        watch.is_surely_free(now, row, self.options.failover)
            || watch.silent_at(row, self.options.failover).is_some_and(|at| now >= at)
    }

    /// Renews the lease, and changes its users' fields.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`]: it is over, and nothing was changed. A store error: it is held for as long as it was.
    ///
    /// # Cancel safety
    /// It may have been renewed, or not.
    pub async fn renew(&self, lease: &Held, edit: &Edit) -> Result<(), LeaseError> {
        edit.check(self.table.format())?;
        if !lease.is_held() {
            return Err(LeaseError::NotHeld(lease.key().to_owned()));
        }
        let mut row = lease.row();
        loop {
            let change = RowChange::renew(self.table.format(), &row, edit);
            let after = change.after.clone();
            match self.table.settle(Settling::new(change, lease.cell.until())).await {
                Ok(Settled::Made(sent, found)) => {
                    let row = found.unwrap_or(after);
                    lease.cell.renewed(&row, self.options.believed_until(sent));
                    return Ok(());
                }
                // The KCL's leader has begun to hand it over, and waits for us.
                Ok(Settled::Refused(Some(standing))) if self.is_handed_over(&standing, &row) => {
                    row = standing
                }
                Ok(Settled::Refused(standing)) => {
                    lease.cell.lose(loss_by(standing.as_ref(), self.table.clock().now().wall));
                    return Err(LeaseError::NotHeld(lease.key().to_owned()));
                }
                Err(error) => {
                    if error.kind() == ErrorKind::Foreign {
                        // Nobody knows whose it is.
                        lease.cell.lose(Loss::Unreachable(error.clone()));
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Gives the lease back, whose work must have ended. That it is over, or another's by now, is no error.
    ///
    /// # Errors
    /// A store error: it is not believed any more, and expires.
    ///
    /// # Cancel safety
    /// It may have been given back, or not; it is not believed any more.
    pub async fn release(&self, lease: &Held) -> Result<(), LeaseError> {
        if lease.loss().is_some() {
            return Ok(());
        }
        lease.cell.lose(Loss::Released);
        let mut row = lease.row();
        let mut change = RowChange::give_back(self.table.format(), &row);
        let deadline = self.table.clock().held().after(self.options.failover);
        loop {
            let settled = self.table.settle(Settling::new(change, deadline)).await?;
            let handed_over = settled.standing().filter(|standing| self.is_handed_over(standing, &row));
            let Some(standing) = handed_over else { return Ok(()) };
            // The KCL's leader has begun that. It may have been another's in between, who may not know yet that it is no more.
            change = RowChange::evict(self.table.format(), standing);
            row = standing.clone();
        }
    }

    /// Whether a row is what the KCL's leader has made of this one, which is ours: a handoff does not count. A newer lease of this claimant has counted.
    fn is_handed_over(&self, standing: &Row, row: &Row) -> bool {
        standing.handing_over() == Some(self.options.worker()) && standing.counter() == row.counter()
    }
}

impl fmt::Debug for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimant").field("table", &self.table).finish_non_exhaustive()
    }
}
