//! The leases of this process: where they are asked for, and the sink of its machine's notices.

use crate::belief::{Belief, Cell};
use crate::clock;
use crate::driver::{Driver, Sink};
use crate::error::{AcquireError, LeaseError};
use crate::guard::Guard;
use crate::lock::Lock;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tenure_core::{
    Clock, Command, Drift, Holder, HolderId, Identity, InvalidInput, Key, LeaseId, Loss, Metadata, Nonce,
    Nonces, Notice, Rules, StoreError, Table, Tick, Token, Ttl,
};
use tenure_store::{AnyStore, Store};
use tokio::sync::{mpsc, oneshot, watch};

/// The leases of one process on one store. Cheap to clone; clones share the session.
///
/// When the last clone and the last [`Guard`] are dropped, what is still held is handed back in the background.
/// [`Leases::stop`] does so and waits for it.
#[derive(Clone)]
pub struct Leases {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) store: AnyStore,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) session_ttl: Ttl,
    pub(crate) session: Belief,
    pub(crate) listen: watch::Sender<bool>,
    holder: HolderId,
    session_key: Key,
    commands: mpsc::UnboundedSender<Command>,
    last_id: AtomicU64,
    /// Marks writes that no machine makes.
    nonces: Mutex<Nonces>,
    users: Mutex<Users>,
}

/// Who waits for what.
#[derive(Default)]
struct Users {
    cells: Table<Arc<Cell>>,
    replies: BTreeMap<LeaseId, (Asked, oneshot::Sender<Reply>)>,
    stopped: Vec<oneshot::Sender<()>>,
    over: bool,
}

/// What was asked of the machine about a lease. A later question takes the place of one whose asker has gone away, and
/// must not get the earlier one's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Acquire,
    Update,
    Release,
    Token,
}

impl Asked {
    fn of(command: &Command) -> Asked {
        match command {
            Command::Update(..) => Asked::Update,
            Command::Release(..) | Command::Lapse(_) | Command::Return(..) => Asked::Release,
            Command::Detach(..) | Command::Refresh(..) => Asked::Token,
            _ => Asked::Acquire,
        }
    }

    fn is_answered_by(self, reply: &Reply) -> bool {
        match reply {
            Reply::Acquired { .. } => self == Asked::Acquire,
            Reply::Updated => self == Asked::Update,
            Reply::Token(_) => self == Asked::Token,
            Reply::Released(_) => self == Asked::Release,
            Reply::Refused(_) => self != Asked::Release,
            Reply::Gone(_) => true,
        }
    }
}

/// The answer to a command.
#[derive(Debug)]
pub(crate) enum Reply {
    Acquired { fence: tenure_core::Fence, metadata: Metadata, cell: Arc<Cell> },
    Refused(AcquireError),
    Updated,
    Released(bool),
    Token(Box<Token>),
    Gone(LeaseError),
}

/// Settings of [`Leases`], each with a default.
#[derive(Clone)]
pub struct LeasesBuilder {
    store: AnyStore,
    clock: Option<Arc<dyn Clock>>,
    holder: Option<HolderId>,
    instance: Option<u64>,
    session_prefix: String,
    session_ttl: Duration,
    about: Metadata,
    rules: Rules,
}

impl LeasesBuilder {
    /// The session's ttl, which is also that of all leases that ride on it; 10 s by default. A dead process's leases can
    /// be taken over after this time; the process renews once in a third of it.
    #[must_use]
    pub fn session_ttl(mut self, ttl: Duration) -> Self {
        self.session_ttl = ttl;
        self
    }

    /// This process's name as others see it. It must differ for each start, so the default, host name, process id and
    /// random bits, is a good choice.
    #[must_use]
    pub fn holder(mut self, holder: HolderId) -> Self {
        self.holder = Some(holder);
        self
    }

    /// What the session's key begins with; `session/` by default. The holder's id follows.
    #[must_use]
    pub fn session_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.session_prefix = prefix.into();
        self
    }

    /// Metadata of the session's record, for people: where this process runs and what it is.
    #[must_use]
    pub fn about(mut self, metadata: Metadata) -> Self {
        self.about = metadata;
        self
    }

    /// How far the clocks' rates may be off; 10 % by default.
    #[must_use]
    pub fn drift(mut self, drift: Drift) -> Self {
        self.rules.drift = drift;
        self
    }

    /// Whether a dead holder's lease may be taken at first sight where two witnesses, the store's clock and the wall
    /// clocks, agree that its time is over. On by default.
    #[must_use]
    pub fn first_sight(mut self, on: bool) -> Self {
        self.rules.first_sight = on;
        self
    }

    /// The longest time between two looks at a key that is waited for; 1 s by default.
    #[must_use]
    pub fn poll(mut self, longest: Duration) -> Self {
        self.rules.poll = longest;
        self
    }

    /// Another clock than the machine's, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Other random bits than the machine's, for tests. Two processes must never have the same.
    #[must_use]
    pub fn instance(mut self, instance: u64) -> Self {
        self.instance = Some(instance);
        self
    }

    /// Starts the background task. Nothing is written yet: the session begins with the first lease that rides on it.
    ///
    /// # Errors
    /// When a setting is out of range for this store. There is no I/O.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn start(self) -> Result<Leases, InvalidInput> {
        let session_ttl = checked_ttl(&self.store, self.session_ttl)?;
        if self.rules.poll < Duration::from_millis(1) {
            return Err(InvalidInput::new(
                "a poll interval under 1 ms would only burn time; choose a longer one",
            ));
        }
        let holder = match self.holder {
            Some(holder) => holder,
            None => HolderId::new(clock::holder_name())?,
        };
        let session_key = Key::new(format!("{}{}", self.session_prefix, holder.as_str()))?;
        let clock = self.clock.unwrap_or_else(|| clock::system());
        let instance = self.instance.unwrap_or_else(clock::instance);
        let identity = Identity {
            holder: holder.clone(),
            session: session_key.clone(),
            ttl: session_ttl,
            about: self.about,
            instance,
        };
        let (commands, receiver) = mpsc::unbounded_channel();
        let (listen, listening) = watch::channel(false);
        let inner = Arc::new(Inner {
            store: self.store.clone(),
            clock: Arc::clone(&clock),
            session_ttl,
            session: Belief::default(),
            listen,
            holder,
            session_key,
            commands,
            last_id: AtomicU64::new(0),
            nonces: Mutex::new(Nonces::new(instance ^ OUTSIDE_MACHINE)),
            users: Mutex::default(),
        });
        // The driver must not keep itself alive: it ends when all who could ask something of it are gone.
        let sink = Notices { inner: Arc::downgrade(&inner) };
        let machine = Holder::new(identity, self.rules);
        let driver =
            Driver { machine, store: self.store, clock, commands: receiver, listen: listening, sink };
        tokio::spawn(driver.run(|| Command::Stop));
        Ok(Leases { inner })
    }
}

/// Tells this handle's own nonces from its machine's.
const OUTSIDE_MACHINE: u64 = 0x6d61_696c_6d61_696c;

pub(crate) fn checked_ttl(store: &AnyStore, ttl: Duration) -> Result<Ttl, InvalidInput> {
    let least = store.capabilities().least_ttl;
    if ttl < least {
        return Err(InvalidInput::new(format!(
            "a ttl of {ttl:?} is below this store's minimum of {least:?}"
        )));
    }
    Ttl::new(ttl)
}

impl Leases {
    /// Leases on `store`, with settings.
    #[must_use]
    pub fn builder(store: AnyStore) -> LeasesBuilder {
        LeasesBuilder {
            store,
            clock: None,
            holder: None,
            instance: None,
            session_prefix: "session/".to_owned(),
            session_ttl: Duration::from_secs(10),
            about: Metadata::new(),
            rules: Rules::default(),
        }
    }

    /// Leases on `store` as they are by default.
    ///
    /// # Errors
    /// As [`LeasesBuilder::start`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(store: AnyStore) -> Result<Leases, InvalidInput> {
        Leases::builder(store).start()
    }

    /// A request for the lease on `key`: say how, then acquire it.
    ///
    /// The key is checked when it is acquired.
    pub fn lock(&self, key: impl AsRef<str>) -> Lock {
        Lock::new(self.clone(), key.as_ref())
    }

    /// The lease on `key`, if nobody has it. Short for `lock(key).try_acquire()`.
    ///
    /// # Errors
    /// As [`Lock::try_acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::try_acquire`].
    pub async fn try_acquire(&self, key: impl AsRef<str>) -> Result<Guard, AcquireError> {
        self.lock(key).try_acquire().await
    }

    /// The lease on `key`, waiting for it. Short for `lock(key).acquire()`.
    ///
    /// # Errors
    /// As [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire(&self, key: impl AsRef<str>) -> Result<Guard, AcquireError> {
        self.lock(key).acquire().await
    }

    /// The lease on `key`, waiting for it no longer than `patience`. Short for `lock(key).acquire_within(patience)`.
    ///
    /// # Errors
    /// As [`Lock::acquire_within`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire_within`].
    pub async fn acquire_within(
        &self,
        key: impl AsRef<str>,
        patience: Duration,
    ) -> Result<Guard, AcquireError> {
        self.lock(key).acquire_within(patience).await
    }

    /// The store underneath.
    #[must_use]
    pub fn store(&self) -> &AnyStore {
        &self.inner.store
    }

    /// The clock that these leases go by.
    #[must_use]
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.inner.clock
    }

    /// This process's name as others see it.
    #[must_use]
    pub fn holder(&self) -> &HolderId {
        &self.inner.holder
    }

    /// The key of this process's session.
    #[must_use]
    pub fn session_key(&self) -> &Key {
        &self.inner.session_key
    }

    /// How long the session, and what rides on it, is valid if nothing is renewed from now on; zero without a session.
    #[must_use]
    pub fn session_remaining(&self) -> Duration {
        self.inner.session.until().since(self.inner.clock.held())
    }

    /// Begins the session now, so that the first lease that rides on it takes one round trip only.
    pub fn begin_session(&self) {
        self.inner.send(Command::Start);
    }

    /// Gives everything back, the session last, and waits until that is done or has become pointless because it has all
    /// expired. Guards that are still around are lost.
    ///
    /// # Cancel safety
    /// Dropping the future does not stop the stopping.
    pub async fn stop(&self) {
        let (sender, stopped) = oneshot::channel();
        {
            let mut users = self.inner.users();
            if users.over {
                return;
            }
            users.stopped.push(sender);
            for cell in users.cells.values() {
                cell.lost(Loss::Released);
            }
        }
        self.inner.send(Command::Stop);
        // An error means that the driver is gone, which is as good.
        let _ = stopped.await;
    }
}

impl std::fmt::Debug for Leases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leases")
            .field("holder", &self.inner.holder)
            .field("store", &self.inner.store)
            .finish()
    }
}

impl Inner {
    fn users(&self) -> MutexGuard<'_, Users> {
        // No code that can panic runs under the lock, so what it guards is whole.
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn next_id(&self) -> LeaseId {
        LeaseId(self.last_id.fetch_add(1, Ordering::Relaxed) + 1)
    }

    pub(crate) fn nonce(&self) -> Nonce {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner).draw()
    }

    pub(crate) fn send(&self, command: Command) {
        // The driver outlives every sender but after a stop, and then there is nothing left to do.
        let _ = self.commands.send(command);
    }

    /// Sends a command about `id` whose answer will come through the returned channel.
    pub(crate) fn ask(&self, id: LeaseId, command: Command) -> oneshot::Receiver<Reply> {
        let (sender, reply) = oneshot::channel();
        {
            let mut users = self.users();
            // After a stop nobody would answer: the sender is dropped, and with it the wait ends.
            if !users.over {
                users.replies.insert(id, (Asked::of(&command), sender));
            }
        }
        self.send(command);
        reply
    }

    pub(crate) fn forget(&self, id: LeaseId) {
        self.users().cells.remove(&id);
    }
}

struct Notices {
    inner: std::sync::Weak<Inner>,
}

impl Sink<Holder> for Notices {
    fn tell(&mut self, notice: Notice, commands: &mut Vec<Command>) -> ControlFlow<()> {
        let Some(inner) = self.inner.upgrade() else {
            return if notice == Notice::Stopped {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            };
        };
        inner.take(notice, commands)
    }
}

impl Inner {
    fn take(&self, notice: Notice, commands: &mut Vec<Command>) -> ControlFlow<()> {
        let mut users = self.users();
        match notice {
            Notice::Acquired { lease, fence, until, metadata } => {
                let cell = Arc::<Cell>::default();
                cell.belief.set(until);
                users.cells.insert(lease, Arc::clone(&cell));
                let reply = Reply::Acquired { fence, metadata, cell };
                if !users.answer(lease, reply) {
                    // Whoever asked has gone away.
                    users.cells.remove(&lease);
                    commands.push(Command::Release(lease, None));
                }
            }
            Notice::Held(lease, by) => {
                users.answer(lease, Reply::Refused(AcquireError::Held(by)));
            }
            Notice::Absent(lease) => {
                users.answer(lease, Reply::Refused(AcquireError::Absent));
            }
            Notice::Failed(lease, error) => {
                users.answer(lease, Reply::Refused(AcquireError::Store(error)));
            }
            Notice::Valid(lease, until) => {
                if let Some(cell) = users.cells.get(&lease) {
                    cell.belief.set(until);
                }
            }
            Notice::SessionValid(until) => self.session.set(until),
            Notice::Asked(lease, ask) => {
                if let Some(cell) = users.cells.get(&lease) {
                    cell.asked(ask);
                }
            }
            Notice::Lost(lease, loss) => {
                tracing::warn!(lease = lease.0, reason = %crate::error::describe(&loss), "lease lost");
                if let Some(cell) = users.cells.remove(&lease) {
                    cell.lost(loss.clone());
                }
                users.answer(lease, Reply::Gone(LeaseError::Lost(loss)));
            }
            Notice::Updated(lease) => {
                users.answer(lease, Reply::Updated);
            }
            Notice::Released(lease, ours) => {
                users.cells.remove(&lease);
                users.answer(lease, Reply::Released(ours));
            }
            Notice::Detached(lease, token) => {
                users.cells.remove(&lease);
                users.answer(lease, Reply::Token(token));
            }
            Notice::NotOurs(lease, by) => {
                users.answer(lease, Reply::Gone(LeaseError::NotOurs(by)));
            }
            Notice::Stopped => {
                users.over = true;
                users.replies.clear();
                for cell in std::mem::take(&mut users.cells).values() {
                    cell.lost(Loss::Released);
                }
                for stopped in std::mem::take(&mut users.stopped) {
                    let _ = stopped.send(());
                }
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }
}

impl Users {
    fn answer(&mut self, lease: LeaseId, reply: Reply) -> bool {
        let fits = self.replies.get(&lease).is_some_and(|(asked, _)| asked.is_answered_by(&reply));
        fits && self.replies.remove(&lease).is_some_and(|(_, sender)| sender.send(reply).is_ok())
    }
}

/// A reply that makes no sense to what was asked, or none because the driver is gone.
pub(crate) fn unexpected(reply: Option<Reply>) -> LeaseError {
    match reply {
        None => LeaseError::Stopped,
        Some(Reply::Gone(error)) => error,
        Some(Reply::Refused(AcquireError::Store(error))) => LeaseError::Store(error),
        Some(other) => {
            LeaseError::Store(StoreError::invalid(format!("two things were asked at a time: {other:?}")))
        }
    }
}

/// The end of time as a tick, or that of `patience` from now.
pub(crate) fn end_of(clock: &dyn Clock, patience: Duration) -> Tick {
    clock.held().after(patience)
}
