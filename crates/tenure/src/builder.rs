//! The settings of [`Leases`], and their start.

use crate::belief::AtomicBelief;
use crate::clock;
use crate::direct::DirectStore;
use crate::driver::{Driver, Troubles};
use crate::home::{Home, lives_elsewhere};
use crate::leases::Leases;
use crate::meters;
use crate::prefixes::Prefixes;
use crate::process::Process;
use crate::shared::SharedLeases;
use crate::sink::LeaseSink;
use crate::ttl::{check_drift, checked_ttl};
use crate::users::LeaseUsers;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tenure_core::{
    Clock, Command, Drift, Holder, Identity, InvalidInput, Key, Metadata, Nonces, Rules, reserved,
};
use tenure_store::{AnyStore, Store};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};

/// How long dropping the last handle may block, unless told otherwise: two writes to a store on another continent.
pub(crate) const LINGER: Duration = Duration::from_millis(500);

/// Settings of [`Leases`], each with a default.
#[derive(Clone)]
#[must_use = "nothing happens until it is started"]
pub struct LeasesBuilder {
    store: AnyStore,
    clock: Option<Arc<dyn Clock>>,
    holder: Option<String>,
    instance: Option<u64>,
    session_prefix: String,
    session_ttl: Duration,
    metadata: Metadata,
    rules: Rules,
    store_patience: Option<Duration>,
    runtime: Option<Handle>,
    linger: Duration,
    prefixes: Vec<String>,
}

impl Leases {
    /// Leases on `store`, of whatever kind, with settings.
    pub fn builder(store: impl Store) -> LeasesBuilder {
        LeasesBuilder::new(AnyStore::new(store))
    }

    /// Leases on `store`, of whatever kind, as they are by default. [`open`](crate::open) has one from a URL.
    ///
    /// # Errors
    /// As [`LeasesBuilder::start`].
    pub fn new(store: impl Store) -> Result<Leases, InvalidInput> {
        Leases::builder(store).start()
    }
}

impl LeasesBuilder {
    pub(crate) fn new(store: AnyStore) -> LeasesBuilder {
        LeasesBuilder {
            store,
            clock: None,
            holder: None,
            instance: None,
            session_prefix: reserved::SESSION.to_owned(),
            session_ttl: Duration::from_secs(10),
            metadata: Metadata::new(),
            rules: Rules::default(),
            store_patience: None,
            runtime: None,
            linger: LINGER,
            prefixes: Vec::new(),
        }
    }

    /// The session's ttl, which is also that of all leases that are attached to it; 10 s by default. A dead process's leases can
    /// be taken over after this time; the process renews once in a third of it.
    #[doc(alias = "ttl")]
    pub fn session_ttl(mut self, ttl: Duration) -> Self {
        self.session_ttl = ttl;
        self
    }

    /// This process's name as others see it, checked at the [start](Self::start). It must differ for each start, so the default, host name, process id
    /// and random bits, is a good choice.
    #[doc(alias = "id")]
    pub fn holder(mut self, holder: impl AsRef<str>) -> Self {
        self.holder = Some(holder.as_ref().to_owned());
        self
    }

    /// What the session's key begins with; `session/` by default. The holder's id follows.
    pub fn session_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.session_prefix = prefix.into();
        self
    }

    /// Metadata of the session's record, for people: where this process runs and what it is.
    #[doc(alias("about", "labels"))]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// How far the clocks' rates may be off; 10 % by default. Up to 20 % goes with the usual interval of renewals, more with
    /// [a shorter one](Self::renew_every). A store that reckons with a clock of its own, as DynamoDB's does, has a setting of this
    /// name, too.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.rules.drift = drift;
        self
    }

    /// Whether a dead holder's lease may be taken at first sight where two witnesses, the store's clock and the wall
    /// clocks, agree that its time is over. On by default.
    pub fn first_sight(mut self, on: bool) -> Self {
        self.rules.first_sight = on;
        self
    }

    /// The longest time between two looks at a key that is waited for; 1 s by default.
    pub fn poll(mut self, longest: Duration) -> Self {
        self.rules.poll = longest;
        self
    }

    /// How often the session, and each lease that renews itself, is renewed: at most, and by default, once in a
    /// third of the ttl. Somewhat more often at random, if this is set, so that not all processes renew at once.
    pub fn renew_every(mut self, interval: Duration) -> Self {
        self.rules.renew = Some(interval);
        self
    }

    /// How long [`Lock::acquire`](crate::Lock::acquire) waits while the store can't be asked: as long as no call about the key, or
    /// about the session that the lease is to be attached to, is answered. A minute by default, or six ttls if that is longer.
    /// [`Duration::MAX`] is for ever.
    pub fn store_patience(mut self, longest: Duration) -> Self {
        self.store_patience = Some(longest);
        self
    }

    /// The runtime that leases are renewed on. By default they are renewed on a thread of tenure's own, whatever the caller's runtime is
    /// busy with.
    ///
    /// The store's connections are where it was opened: on that thread, too, if [`open`](crate::open) did it, and on the runtime around its
    /// own `open` otherwise. A runtime that is busy delays what is asked of its connections, renewals among it.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// How long dropping the last handle may block its thread until what is held is given back, as where `main` ends without
    /// [`Leases::stop`]; half a second by default. It does not block where leases are renewed on a runtime of the caller's, nor on a
    /// runtime of one thread, or in a task of one with one worker, that the store may need to answer. What takes longer goes on as long as the
    /// process does, and [a warning](crate#what-is-logged) tells of it. What `spawn_blocking` runs counts as such a task.
    pub fn linger(mut self, longest: Duration) -> Self {
        self.linger = longest;
        self
    }

    /// Prefixes of keys, 32 at the most, as in `["orders/", "cron/"]`. The [metrics](crate#what-is-measured) of leases have the label `prefix`, then:
    /// the longest one that a lease's key begins with, or `other`. The key itself, as [`Guard::key`](crate::Guard::key) has it, is no label, as there is no end to
    /// keys. Without prefixes, and by default, there is no such label.
    pub fn metrics_by_prefix(mut self, prefixes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.prefixes = prefixes.into_iter().map(Into::into).collect();
        self
    }

    /// Another clock than the machine's, for [tests](crate#testing). Leases are renewed on the runtime around [`start`](Self::start), then, so that
    /// paused timers go with it. The store has a clock of its own: give [`MemoryStore::new`](crate::MemoryStore::new) the same.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Other random bits than the machine's, for tests that repeat a run. Two processes must never have the same, nor two starts of one, as a pod's
    /// ordinal would be: each would take the other's writes for its own, and both would believe that they hold a key.
    #[cfg(feature = "test-util")]
    pub fn instance(mut self, instance: u64) -> Self {
        self.instance = Some(instance);
        self
    }

    /// Starts renewing, in the background. Nothing is written yet: the session begins with the first lease that is attached to it.
    ///
    /// # Errors
    /// When a setting is out of range for this store, or the thread can't be started; with a clock of one's own, outside a tokio runtime; where
    /// the runtime that leases are to be renewed on has no timers. There is no I/O. Tokio tells that it has none by a panic, which a panic hook sees.
    pub fn start(self) -> Result<Leases, InvalidInput> {
        let prefixes = Arc::new(Prefixes::new(&self.prefixes)?);
        meters::begin(prefixes.all());
        let session_ttl = checked_ttl(&self.store, self.session_ttl)?;
        if self.rules.poll < Duration::from_millis(1) {
            return Err(InvalidInput::new(
                "a poll interval under 1 ms would only burn time; choose a longer one",
            ));
        }
        let renew_every = self.rules.renew.unwrap_or(session_ttl.part(3));
        if renew_every < Duration::from_millis(1) || renew_every > session_ttl.part(3) {
            return Err(InvalidInput::new(format!(
                "a renewal every {renew_every:?} is outside 1 ms to a third of the session's ttl, {:?}; choose one within",
                session_ttl.part(3)
            )));
        }
        check_drift(self.rules.drift, session_ttl, renew_every)?;
        tenure_store::codec::check_metadata(&self.metadata)?;
        let holder = clock::holder_of(self.holder.as_deref())?;
        let session_key = Key::new(format!("{}{}", self.session_prefix, holder.as_str()))?;
        if !session_key.as_str().starts_with(reserved::SESSION) {
            reserved::check(&session_key)?;
        }
        let home = Home::of(self.runtime, self.clock.is_some());
        let clock = self.clock.unwrap_or_else(|| clock::system());
        let instance = self.instance.unwrap_or_else(clock::instance);
        let identity = Identity {
            holder: holder.clone(),
            session: session_key.clone(),
            ttl: session_ttl,
            about: self.metadata,
            instance,
        };
        let (commands, receiver) = mpsc::unbounded_channel();
        // The machine listens while anything waits; nobody wants hints for good.
        let (_, listen) = watch::channel(false);
        let troubles = Troubles::new(Arc::clone(&clock), holder.clone());
        let inner = Arc::new(SharedLeases {
            home: home.clone(),
            driving: OnceLock::new(),
            linger: self.linger,
            is_elsewhere: lives_elsewhere(&self.store),
            troubles: Arc::clone(&troubles),
            store_patience: self.store_patience,
            kept: Mutex::default(),
            bodies: Arc::default(),
            store: self.store.clone(),
            direct: DirectStore::new(self.store.clone(), Arc::clone(&clock), home.clone()),
            process: Process::this(),
            clock: Arc::clone(&clock),
            session_ttl,
            renew_every,
            drift: self.rules.drift,
            first_sight: self.rules.first_sight,
            session: AtomicBelief::default(),
            holder,
            session_key,
            session_prefix: self.session_prefix,
            commands,
            prefixes,
            nonces: Mutex::new(Nonces::new(instance ^ OUTSIDE_MACHINE)),
            users: Mutex::new(LeaseUsers::new()),
        });
        // The driver must not keep itself alive: it ends when all who could ask something of it are gone.
        let sink = LeaseSink { inner: Arc::downgrade(&inner) };
        let semaphore_bytes = self.store.capabilities().section_bytes();
        let rules = Rules { host: clock.host(), semaphore_bytes, ..self.rules };
        let machine = Holder::new(identity, rules);
        let driver = Driver {
            machine,
            store: self.store,
            clock,
            commands: receiver,
            listen,
            watches: String::new(),
            troubles,
            sink,
        };
        // Nobody else has it yet.
        let _ = inner.driving.set(home.run(driver.run(|| Command::Stop))?);
        Ok(Leases::of(inner))
    }
}

/// Tells this handle's own nonces from its machine's.
const OUTSIDE_MACHINE: u64 = 0x6d61_696c_6d61_696c;

impl fmt::Debug for LeasesBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LeasesBuilder")
            .field("store", &self.store)
            .field("holder", &self.holder)
            .field("session_ttl", &self.session_ttl)
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}
