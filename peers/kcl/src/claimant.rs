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
use tenure_core::{ErrorKind, Loss, Now, StoreError, Tick};

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
    /// A store error: the lease may have been taken, if its kind is `Unknown`; it expires then. `Unavailable` also where the answer came when the lease was
    /// over already, or time was hidden from this process meanwhile: it was given back.
    ///
    /// # Cancel safety
    /// The lease may have been taken, or not; it expires then. Other calls may take it from now on.
    pub async fn try_take(&self, key: &str) -> Result<Option<Held>, LeaseError> {
        // Two takes of one worker by one row ask for the same: after a lost answer, the row would tell both that they have it.
        let Some(_under_way) = self.begin_take(key) else { return Ok(None) };
        let begun = self.table.clock().now();
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
        // What is found may be believed no longer than from before the row was read, and what is believed no more need not be asked for.
        let deadline = self.options.believed_until(begun.held);
        if self.table.clock().held() >= deadline {
            return Err(StoreError::unavailable(format!(
                "to read the row of lease {key:?} took longer than it would be believed; choose a longer failover time"
            ))
            .into());
        }
        let change = RowChange::take(self.table.format(), &row, self.options.worker());
        let after = change.after.clone();
        let settling = Settling::new(change, deadline).of_row_read_after(begun.held);
        match self.table.settle(settling).await? {
            Settled::Refused(_) => Ok(None),
            Settled::Made(sent, found) => {
                let row = found.unwrap_or(after);
                let cell = Arc::new(TenureCell::new(&row, self.options.believed_until(sent)));
                let lease = Held { cell, clock: Arc::clone(self.table.clock()) };
                let now = mind_hidden_time(&lease, begun);
                if lease.cell.is_over(now) { self.too_late(&lease).await } else { Ok(Some(lease)) }
            }
        }
    }

    /// The lease was taken too late to be believed in, so it is given back.
    async fn too_late(&self, lease: &Held) -> Result<Option<Held>, LeaseError> {
        self.release(lease).await.map_err(|error| match error {
            LeaseError::Store(error) => LeaseError::Store(error.of_kind(ErrorKind::Unknown)),
            other => other,
        })?;
        let key = lease.key();
        Err(StoreError::unavailable(format!(
            "the answer to the take of lease {key:?} came too late to believe in it, and it was given back; try again"
        ))
        .into())
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
    /// [`LeaseError::NotHeld`]: it is over, and nothing was changed, unless it ended while the answer was on its way: then its row is for a release to give
    /// back. A store error: it is held for as long as it was.
    ///
    /// # Cancel safety
    /// It may have been renewed, or not, and is held for as long as it was. Until its deadline the next renewal finds out, and so does a release.
    pub async fn renew(&self, lease: &Held, edit: &Edit) -> Result<(), LeaseError> {
        edit.check(self.table.format())?;
        loop {
            let (until, begun) = (lease.cell.until(), lease.clock.now());
            if lease.cell.is_over(begun.held) {
                return Err(LeaseError::NotHeld(lease.key().to_owned()));
            }
            let (row, counter) = lease.cell.begin();
            let mut change = RowChange::renew(self.table.format(), &row, edit);
            change.count_to(counter);
            let after = change.after.clone();
            let settled = self.table.settle(Settling::new(change, until)).await;
            let now = mind_hidden_time(lease, begun);
            match settled {
                Ok(Settled::Made(sent, found)) => {
                    let row = found.unwrap_or(after);
                    // Whoever waits for its end may have been told. A release goes by that row all the same.
                    let is_held = lease.cell.renewed(&row, self.options.believed_until(sent), now);
                    return if is_held { Ok(()) } else { Err(LeaseError::NotHeld(lease.key().to_owned())) };
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
                        lease.cell.lose(error.clone().into());
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

/// Where time was hidden since a request was begun, as the wall clock shows, nobody knows how long ago it was sent: the lease is believed no more. The
/// present time.
fn mind_hidden_time(lease: &Held, begun: Now) -> Tick {
    let now = lease.clock.now();
    if now.has_gap(begun.held, begun.wall) {
        lease.cell.lose(Loss::Expired);
    }
    now.held
}

impl fmt::Debug for Claimant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claimant").field("table", &self.table).finish_non_exhaustive()
    }
}
