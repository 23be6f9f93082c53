//! Leases by name, one at a time: for tools that know what they want, beside coordinators that take their share.

use super::change::{Edit, RowChange};
use super::error::LeaseError;
use super::held::{Held, TenureCell};
use super::options::Options;
use super::row::{Fields, Row};
use super::settling::{Settled, Settling};
use super::table::Table;
use super::taker::RowWatch;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tenure_core::{ErrorKind, Loss, StoreError};

/// Takes leases by name and renews them when it is told to: the coordinator's rules, without its background.
///
/// It never steals. A lease that another has, or that another was evicted from, is taken when this very claimant has seen it
/// unchanged for a failover time, so it must have tried before.
///
/// Renewals and a release of one lease may be under way at the same time, and their futures may be dropped. What they have asked for is remembered in the
/// [`Held`], so that a later one knows a row that they have made, until the deadline by what was answered. Later on the same worker may have taken the lease
/// again, so such a row is left to expire.
///
/// No two claimants, nor a claimant and a coordinator, may have one worker id at the same time.
pub struct Claimant {
    table: Table,
    options: Options,
    watch: Mutex<RowWatch>,
    /// The names of the leases that are being taken.
    taking: Mutex<BTreeSet<String>>,
}

/// While there is one, nobody else takes a lease of that name from this claimant.
struct TakeUnderWay<'c> {
    claimant: &'c Claimant,
    key: &'c str,
}

impl Drop for TakeUnderWay<'_> {
    fn drop(&mut self) {
        self.claimant.taking().remove(self.key);
    }
}

impl Claimant {
    /// A claimant on that table. Of the options it goes by the worker's id, the failover time and the drift.
    ///
    /// # Errors
    /// `Invalid`, when the options contradict themselves.
    pub fn new(table: Table, options: Options) -> Result<Claimant, StoreError> {
        options.check()?;
        Ok(Claimant { table, options, watch: Mutex::default(), taking: Mutex::default() })
    }

    fn watch(&self) -> MutexGuard<'_, RowWatch> {
        // No code that can panic runs under the lock.
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taking(&self) -> MutexGuard<'_, BTreeSet<String>> {
        // No code that can panic runs under the lock.
        self.taking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// None: the lease is being taken already.
    fn begin_take<'c>(&'c self, key: &'c str) -> Option<TakeUnderWay<'c>> {
        self.taking().insert(key.to_owned()).then(|| TakeUnderWay { claimant: self, key })
    }

    /// Takes the lease, if nobody has it or whoever has it was silent for a failover time; its row is created if there is none.
    /// None: another has it, or another call of this claimant's is taking it at this moment.
    ///
    /// # Errors
    /// A store error: the lease may have been taken, if its kind is `Unknown`; it expires then.
    ///
    /// # Cancel safety
    /// The lease may have been taken, or not; it expires then. Other calls may take it from now on.
    pub async fn try_take(&self, key: &str) -> Result<Option<Held>, LeaseError> {
        // Two takes of one worker by one row ask for the same: after a lost answer, the row would tell both that they have it.
        let Some(_under_way) = self.begin_take(key) else { return Ok(None) };
        let begun = self.table.clock().held();
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
        let settling = Settling::new(change, deadline).of_row_read_after(begun);
        match self.table.settle(settling).await? {
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
    /// It may have been renewed, or not, and is held for as long as it was. Until its deadline the next renewal finds out, and so does a release.
    pub async fn renew(&self, lease: &Held, edit: &Edit) -> Result<(), LeaseError> {
        edit.check(self.table.format())?;
        loop {
            let until = lease.cell.until();
            if lease.clock.held() >= until {
                return Err(LeaseError::NotHeld(lease.key().to_owned()));
            }
            let (row, counter) = lease.cell.begin();
            let mut change = RowChange::renew(self.table.format(), &row, edit);
            change.count_to(counter);
            let after = change.after.clone();
            match self.table.settle(Settling::new(change, until)).await {
                Ok(Settled::Made(sent, found)) => {
                    let row = found.unwrap_or(after);
                    lease.cell.renewed(&row, self.options.believed_until(sent));
                    return Ok(());
                }
                Ok(Settled::Refused(standing)) => {
                    // First of all, as that row may show this very renewal: it landed, and the KCL's leader began a handoff before that was known.
                    let goes_on = self.goes_on(lease, &row, standing.as_ref());
                    lease.cell.unmade(counter);
                    if !goes_on {
                        lease.cell.refused(standing.as_ref(), lease.clock.now());
                        return Err(LeaseError::NotHeld(lease.key().to_owned()));
                    }
                }
                Err(error) => {
                    if error.kind() == ErrorKind::Foreign {
                        // Nobody knows whose it is.
                        lease.cell.lose(Loss::Unreachable(error.clone()));
                    }
                    if error.kind() != ErrorKind::Unknown {
                        lease.cell.unmade(counter);
                    }
                    return Err(error.into());
                }
            }
        }
    }

    /// Gives the lease back, whose work must have ended. That it is over, or another's by now, is no error. A row that was made by a renewal whose answer is
    /// open at the lease's deadline is left to expire after it, which is no error either.
    ///
    /// # Errors
    /// A store error: it is not believed any more. The same may be tried again; else the lease expires.
    ///
    /// # Cancel safety
    /// It may have been given back, or not; it is not believed any more. The same may be tried again.
    pub async fn release(&self, lease: &Held) -> Result<(), LeaseError> {
        if !lease.cell.gives_back() {
            return Ok(());
        }
        let format = self.table.format();
        let deadline = self.table.clock().held().after(self.options.failover);
        loop {
            let row = lease.row();
            // Where the KCL's leader hands it over, it may have been another's in between, who may not know yet that it is no more.
            let is_handed_over = row.handing_over().is_some();
            let change = if is_handed_over {
                RowChange::evict(format, &row)
            } else {
                RowChange::give_back(format, &row)
            };
            let settled = self.table.settle(Settling::new(change, deadline)).await?;
            if !self.goes_on(lease, &row, settled.standing()) {
                lease.cell.gone();
                return Ok(());
            }
        }
    }

    /// Whether a lease goes on by a row that was found, by now, in place of this one.
    fn goes_on(&self, lease: &Held, row: &Row, standing: Option<&Row>) -> bool {
        lease.cell.goes_on(row, standing, self.options.worker(), lease.clock.held())
    }
}

impl fmt::Debug for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimant").field("table", &self.table).finish_non_exhaustive()
    }
}
