//! The settings of a worker, and its start.

use super::catalogue::Fleet;
use super::entry;
use super::meters::FleetMeters;
use super::presence::AtStop;
use super::shared_worker::SharedWorker;
use super::sink::WorkerSink;
use super::worker::Worker;
use crate::clock;
use crate::driver::{Driver, Troubles};
use crate::home::Home;
use crate::ttl::{check_drift, checked_ttl};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::fleet::{About, Balance, FleetCommand, FleetWorker, Options};
use tenure_core::{Drift, HolderId, Identity, InvalidInput, Key, Metadata, Rules, Ttl};
use tenure_store::Store;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tracing::Instrument as _;

/// Settings of a [`Worker`], each with a default.
#[derive(Clone)]
#[must_use = "nothing happens until it is started"]
pub struct WorkerBuilder {
    fleet: Fleet,
    holder: Option<String>,
    instance: Option<u64>,
    ttl: Duration,
    drain: Duration,
    about: About,
    metadata: Metadata,
    rules: Rules,
    at_stop: AtStop,
    runtime: Option<Handle>,
}

impl Fleet {
    /// A worker of this fleet: set it up, then start it.
    pub fn join(&self) -> WorkerBuilder {
        WorkerBuilder::new(self.clone())
    }
}

impl WorkerBuilder {
    fn new(fleet: Fleet) -> WorkerBuilder {
        WorkerBuilder {
            fleet,
            holder: None,
            instance: None,
            ttl: Duration::from_secs(10),
            drain: Duration::from_secs(30),
            about: About::default(),
            metadata: Metadata::new(),
            rules: Rules::default(),
            at_stop: AtStop::default(),
            runtime: None,
        }
    }

    /// How long this worker may be silent before it counts as dead; 10 s by default. It renews, and looks, once in a third of
    /// it.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long what is done for a unit may take to end when the unit is to go to another worker; 30 s by default.
    pub fn drain_time(mut self, drain: Duration) -> Self {
        self.drain = drain;
        self
    }

    /// The most units that this worker takes; any number by default.
    pub fn most_units(mut self, units: u64) -> Self {
        self.about.units = units;
        self
    }

    /// The most weight that this worker takes; any by default.
    pub fn most_weight(mut self, weight: u64) -> Self {
        self.about.weight = weight;
        self
    }

    /// A label that this worker offers to units with needs. May be called more than once.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.about.labels.insert(label.into());
        self
    }

    /// What is evened out between workers: counts, by default, or weights. Give all workers of a fleet the same.
    pub fn balance(mut self, balance: Balance) -> Self {
        self.about.balance = balance;
        self
    }

    /// What becomes of its units when all handles and assignments are dropped; they are passed on by default.
    pub fn at_stop(mut self, at_stop: AtStop) -> Self {
        self.at_stop = at_stop;
        self
    }

    /// What the worker's record says of it, for people: where it runs and what it is. Others see it in [`Member::metadata`](super::Member::metadata).
    #[doc(alias("fields", "about"))]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// This worker's name as others see it, checked at the [start](WorkerBuilder::start). It must differ for each start, so the default, host name, process id
    /// and random bits, is a good choice.
    pub fn holder(mut self, holder: impl AsRef<str>) -> Self {
        self.holder = Some(holder.as_ref().to_owned());
        self
    }

    /// How far the clocks' rates may be off; 10 % by default, and 20 % at most.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.rules.drift = drift;
        self
    }

    /// Whether dead workers may be recognised at first sight. As
    /// [`LeasesBuilder::first_sight`](crate::LeasesBuilder::first_sight).
    pub fn first_sight(mut self, on: bool) -> Self {
        self.rules.first_sight = on;
        self
    }

    /// Other random bits than the machine's, for tests that repeat a run. Two processes must never have the same, nor two starts of one, as a pod's
    /// ordinal would be: each would take the other's writes for its own, and both would believe that they hold a key.
    #[cfg(feature = "test-util")]
    pub fn instance(mut self, instance: u64) -> Self {
        self.instance = Some(instance);
        self
    }

    /// The runtime that this worker renews on, as [`LeasesBuilder::runtime`](crate::LeasesBuilder::runtime) has it; by default, a thread of
    /// tenure's own. What is done for units runs on the caller's in any case.
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// Whether [`WorkerBuilder::start`] would take these settings: for whoever has something else to do before it.
    ///
    /// # Errors
    /// When a setting is out of range for this store, the name can't be one, or the metadata is too large or has a field named `tenure`. There is no I/O.
    pub fn check(&self) -> Result<(), InvalidInput> {
        self.checked_ttl().map(|_| ())
    }

    /// The ttl, and that all is in range.
    fn checked_ttl(&self) -> Result<Ttl, InvalidInput> {
        let ttl = checked_ttl(self.fleet.store(), self.ttl)?;
        check_drift(self.rules.drift, ttl, ttl.part(3))?;
        self.holder.as_deref().map_or(Ok(()), |holder| HolderId::new(holder).map(drop))?;
        if self.metadata.contains_key(tenure_core::RESERVED) {
            return Err(InvalidInput::new("the field \"tenure\" is kept for tenure; choose another name"));
        }
        tenure_store::codec::check_metadata(&self.about.at_most().compose(self.metadata.clone()))?;
        Ok(ttl)
    }

    /// Joins the fleet, in the background. Units come as [`Event`](super::Event)s.
    ///
    /// Before it writes anything it asks the store which version the fleet's workers are of, as [`Fleet::check_layout`] does. If they divide
    /// units in another way, it stops at once: [`Worker::joined`] and [`Worker::trouble`] say so, and so does the event `fleet.refused`.
    ///
    /// # Errors
    /// When a setting is out of range for this store, the name can't be one, the metadata is too large or has a field named `tenure`, or the thread can't be started;
    /// with a clock of one's own, outside a tokio runtime; where a runtime that was named has no timers. There is no I/O.
    pub fn start(self) -> Result<Worker, InvalidInput> {
        let store = self.fleet.store().clone();
        let ttl = self.checked_ttl()?;
        let holder = clock::holder_of(self.holder.as_deref())?;
        let identity = Identity {
            holder: holder.clone(),
            session: Key::new(holder.as_str())?,
            ttl,
            about: self.metadata,
            instance: self.instance.unwrap_or_else(clock::instance),
        };
        let capabilities = store.capabilities();
        let push = capabilities.watch;
        let age_error =
            (capabilities.expiry == tenure_store::Expiry::AttestedAge).then_some(capabilities.age_error);
        let name = self.fleet.name().clone();
        let options = Options {
            fleet: name.clone(),
            about: self.about,
            drain: self.drain,
            push,
            age_error,
            page: Options::PAGE,
            lookers: Options::LOOKERS,
        };
        let belief = self.rules.drift.belief(ttl);
        let machine = FleetWorker::new(identity, self.rules, options)?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let (listen, listening) = watch::channel(false);
        let home = Home::of(self.runtime, self.fleet.has_own_clock());
        let clock = Arc::clone(self.fleet.clock());
        crate::meters::begin_calls();
        let meters = FleetMeters::new(&name);
        let span = tracing::info_span!(target: "tenure::fleet", "worker", fleet = %name, %holder);
        let troubles = Troubles::new(Arc::clone(&clock), holder.clone());
        let joins = commands.clone();
        let inner = Arc::new(SharedWorker::new(self.fleet, ttl, holder, commands));
        // The driver must not keep itself alive: it ends when all who could ask something of it are gone.
        let sink = WorkerSink::new(&inner, meters, belief);
        let watches = name.prefix();
        let driver =
            Driver { machine, store, clock, commands: receiver, listen: listening, watches, troubles, sink };
        let enter = entry::enter(&inner, joins).instrument(span.clone());
        let driving = home.run(driver.run(|| FleetCommand::Leave).instrument(span))?;
        driving.spawn(enter);
        // A store without hints is polled.
        let _ = listen.send(push);
        Ok(Worker::new(inner, self.at_stop))
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerBuilder")
            .field("fleet", &self.fleet)
            .field("holder", &self.holder)
            .field("ttl", &self.ttl)
            .field("drain_time", &self.drain)
            .field("offers", &self.about)
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}
