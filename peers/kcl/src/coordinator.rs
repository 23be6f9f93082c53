//! What users have in hand: a worker that takes leases and keeps them, in the background.

use super::change::Edit;
use super::driver::{self, CoordinatorUsers};
use super::error::LeaseError;
use super::event::Events;
use super::held::Held;
use super::options::Options;
use super::row::{Fields, Row};
use super::table::{RowListing, Table};
use super::worker::{WorkerCommand, WorkerMachine};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tenure_core::StoreError;
use tokio::sync::{mpsc, oneshot};

/// A worker on a lease table: it takes its even share of the leases, renews what it has, and gives it up at the end.
///
/// Clones are the same worker. When the last one is dropped, it stops as [`Self::stop`] does, in the background.
#[derive(Clone)]
pub struct Coordinator {
    table: Table,
    options: Arc<Options>,
    commands: mpsc::UnboundedSender<WorkerCommand>,
    held: Arc<Mutex<BTreeMap<String, Held>>>,
}

impl Coordinator {
    /// Starts the worker. It must be called within a tokio runtime.
    ///
    /// # Errors
    /// `Invalid`, when the options contradict themselves.
    pub fn start(table: &Table, options: Options) -> Result<(Coordinator, Events), StoreError> {
        options.check()?;
        let (commands, orders) = mpsc::unbounded_channel();
        let (events, told) = mpsc::unbounded_channel();
        let held = Arc::default();
        let coordinator = Coordinator {
            table: table.clone(),
            options: Arc::new(options),
            commands,
            held: Arc::clone(&held),
        };
        let worker = WorkerMachine::new(table.format(), Arc::clone(&coordinator.options));
        let holder = coordinator.options.worker.clone();
        let users = CoordinatorUsers { holder, clock: Arc::clone(table.clock()), events, shown: held };
        tokio::spawn(driver::run(table.clone(), worker, users, orders));
        Ok((coordinator, Events::new(told)))
    }

    /// The table that it works on.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Who it is and how it works.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// What is held now, without I/O.
    #[must_use]
    pub fn held(&self) -> Vec<Held> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.values().filter(|lease| lease.is_held()).cloned().collect()
    }

    /// Creates a lease that nobody has; some worker takes it soon.
    ///
    /// # Errors
    /// [`LeaseError::Exists`]: there is a row of that name, which stays as it is.
    ///
    /// # Cancel safety
    /// The row may have been created, or not.
    pub async fn create(&self, key: &str, fields: Fields) -> Result<Row, LeaseError> {
        self.table.create(key, fields).await
    }

    /// All leases, whoever has them.
    ///
    /// # Errors
    /// As [`Table::list`].
    ///
    /// # Cancel safety
    /// Nothing is changed.
    pub async fn list(&self) -> Result<RowListing, StoreError> {
        self.table.list().await
    }

    /// Changes the fields of a lease that is held here, on condition that it still is; this renews it, too. It is any tenure of that
    /// lease: work that was begun under an earlier one, and hung, writes into a later one. [`Self::update_of`] is bound to one.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`]: nothing was changed. A store error of kind `Unknown`: it may have been.
    ///
    /// # Cancel safety
    /// The change is made all the same.
    pub async fn update(&self, key: &str, edit: Edit) -> Result<(), LeaseError> {
        edit.check(self.table.format())?;
        let key = key.to_owned();
        self.ask(|reply| WorkerCommand::Update { key, tenure: None, edit, reply }).await?
    }

    /// As [`Self::update`], of this very tenure: once that is over, nothing is changed, also if this worker has the lease again. So
    /// checkpoints of work that was late don't go back behind those of the work that has taken its place.
    ///
    /// # Errors
    /// As [`Self::update`].
    ///
    /// # Cancel safety
    /// The change is made all the same.
    pub async fn update_of(&self, lease: &Held, edit: Edit) -> Result<(), LeaseError> {
        edit.check(self.table.format())?;
        let (key, tenure) = (lease.key().to_owned(), Some(Arc::clone(&lease.cell)));
        self.ask(|reply| WorkerCommand::Update { key, tenure, edit, reply }).await?
    }

    /// As [`Table::force_update`].
    ///
    /// # Errors
    /// As [`Table::force_update`].
    ///
    /// # Cancel safety
    /// The change may have been made, or not.
    pub async fn force_update(&self, key: &str, edit: &Edit) -> Result<(), LeaseError> {
        self.table.force_update(key, edit).await
    }

    /// Gives up a lease that is held here; its work must have ended. It is not believed from here on, and nobody's as soon as the
    /// table says so; or the next one's, if it was wanted.
    ///
    /// # Errors
    /// [`LeaseError::NotHeld`]. A store error: it is left to expire.
    ///
    /// # Cancel safety
    /// It is given up all the same.
    pub async fn release(&self, key: &str) -> Result<(), LeaseError> {
        let key = key.to_owned();
        self.ask(|reply| WorkerCommand::End { key, tenure: None, delete: false, reply }).await?
    }

    /// As [`Self::release`], of this very tenure: another one of the same lease is left alone.
    ///
    /// # Errors
    /// As [`Self::release`].
    ///
    /// # Cancel safety
    /// It is given up all the same.
    pub async fn give_back(&self, lease: &Held) -> Result<(), LeaseError> {
        let (key, tenure) = (lease.key().to_owned(), Some(Arc::clone(&lease.cell)));
        self.ask(|reply| WorkerCommand::End { key, tenure, delete: false, reply }).await?
    }

    /// Deletes a lease: one that is held here, whose work must have ended, or one that nobody has. One that another has is left
    /// to that one.
    ///
    /// # Errors
    /// [`LeaseError::Changed`]: another has it, or has changed it meanwhile. [`LeaseError::Missing`].
    ///
    /// # Cancel safety
    /// The row may have been deleted, or not.
    pub async fn delete(&self, key: &str) -> Result<(), LeaseError> {
        let name = key.to_owned();
        match self.ask(|reply| WorkerCommand::End { key: name, tenure: None, delete: true, reply }).await? {
            Err(LeaseError::NotHeld(_)) => {}
            done => return done,
        }
        let row = self.table.read(key).await?.ok_or_else(|| LeaseError::Missing(key.to_owned()))?;
        if row.holder().is_some() {
            return Err(LeaseError::Changed(key.to_owned()));
        }
        self.table.delete(&row).await
    }

    /// Takes a lease away from whoever has it, this worker or another: see [`Table::evict`].
    ///
    /// # Errors
    /// [`LeaseError::Missing`]; [`LeaseError::Changed`] when it changes faster than it can be read.
    ///
    /// # Cancel safety
    /// The lease may have been evicted, or not.
    pub async fn evict(&self, key: &str) -> Result<(), LeaseError> {
        /// Owners renew seldom, so twice in a row is bad luck.
        const ATTEMPTS: usize = 5;
        match self.release(key).await {
            Err(LeaseError::NotHeld(_)) => {}
            done => return done,
        }
        for _ in 0..ATTEMPTS {
            let row = self.table.read(key).await?.ok_or_else(|| LeaseError::Missing(key.to_owned()))?;
            if row.holder().is_none() {
                return Ok(());
            }
            match self.table.evict(&row).await {
                Err(LeaseError::Changed(_)) => {}
                done => return done,
            }
        }
        Err(LeaseError::Changed(key.to_owned()))
    }

    /// Reads the table now, and takes what is to be taken.
    ///
    /// # Errors
    /// When the table can't be read.
    ///
    /// # Cancel safety
    /// It is done all the same.
    pub async fn take_now(&self) -> Result<(), LeaseError> {
        Ok(self.ask(|reply| WorkerCommand::Look { reply }).await??)
    }

    /// Renews all that is held now. What was lost is told as ever.
    ///
    /// # Errors
    /// [`LeaseError::Stopped`].
    ///
    /// # Cancel safety
    /// It is done all the same.
    pub async fn renew_now(&self) -> Result<(), LeaseError> {
        self.ask(|reply| WorkerCommand::Renew { reply }).await
    }

    /// Takes no more leases. What is held is kept.
    pub fn stop_taking(&self) {
        let _ended = self.commands.send(WorkerCommand::StopTaking);
    }

    /// A lease whose work can't be ended is not renewed any more, and left to expire.
    pub fn lapse(&self, lease: &Held) {
        let _ended = self.commands.send(WorkerCommand::Lapse { tenure: Arc::clone(&lease.cell) });
    }

    /// Stops. All work must have ended: nothing is believed from here on, and all that is held is released. What can't be
    /// released within a failover time is left to expire.
    ///
    /// # Cancel safety
    /// It stops all the same.
    pub async fn stop(&self) {
        let _stopped_already = self.ask(|reply| WorkerCommand::Stop { reply }).await;
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> WorkerCommand,
    ) -> Result<T, LeaseError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).map_err(|_| LeaseError::Stopped)?;
        tokio::select! {
            biased;
            answer = answer => answer.map_err(|_| LeaseError::Stopped),
            // A command that is sent as the worker ends stays in the channel, whose receiver does not find it any more.
            () = self.commands.closed() => Err(LeaseError::Stopped),
        }
    }
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("table", &self.table)
            .field("worker", &self.options.worker)
            .finish_non_exhaustive()
    }
}
