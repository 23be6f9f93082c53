//! Settings of a section.

use super::section::Section;
use super::shared::SharedSection;
use super::sink::SectionSink;
use crate::builder::LINGER;
use crate::clock;
use crate::direct::DirectStore;
use crate::driver::{Driver, Troubles};
use crate::home::{Home, lives_elsewhere};
use crate::leases::Leases;
use crate::process::Process;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tenure_core::section::{self, SectionCommand, SectionMachine, SectionSetup};
use tenure_core::{Clock, Drift, InvalidInput, Rules, Ttl};
use tenure_store::{AnyStore, Store};
use tokio::sync::{mpsc, watch};

/// Settings of a [`Section`], each with a default.
#[derive(Clone)]
#[must_use = "nothing happens until it is started"]
pub struct SectionBuilder {
    store: AnyStore,
    name: String,
    clock: Option<Arc<dyn Clock>>,
    holder: Option<String>,
    rules: Rules,
    most_parts: usize,
    longest: Duration,
    grace: Option<Duration>,
    home: Option<Home>,
    linger: Duration,
}

impl Section {
    /// A section of `store`, with settings.
    pub fn builder(store: impl Store, name: impl AsRef<str>) -> SectionBuilder {
        SectionBuilder::new(AnyStore::new(store), name.as_ref())
    }

    /// A section of `store` as it is by default.
    ///
    /// # Errors
    /// As [`SectionBuilder::start`].
    pub fn new(store: impl Store, name: impl AsRef<str>) -> Result<Section, InvalidInput> {
        Section::builder(store, name).start()
    }
}

impl SectionBuilder {
    fn new(store: AnyStore, name: &str) -> SectionBuilder {
        SectionBuilder {
            store,
            name: name.to_owned(),
            clock: None,
            holder: None,
            rules: Rules::default(),
            most_parts: 1000,
            longest: Ttl::MAX.duration(),
            grace: None,
            home: None,
            linger: LINGER,
        }
    }

    /// The most ranges that are held in the section at a time, by all processes together; 1,000 by default.
    pub fn most_parts(mut self, most: usize) -> Self {
        self.most_parts = most;
        self
    }

    /// What longer durations are cut to; one day by default. A range that a dead process held is free again after its duration.
    pub fn longest(mut self, duration: Duration) -> Self {
        self.longest = duration;
        self
    }

    /// How long a body may take to end once it is told to: an eighth of the duration by default, and never more than half of it.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// This process's name as others see it, checked at the [start](Self::start). It must differ for each start, so the default, host name, process id
    /// and random bits, is a good choice.
    pub fn holder(mut self, holder: impl AsRef<str>) -> Self {
        self.holder = Some(holder.as_ref().to_owned());
        self
    }

    /// How far the clocks' rates may be off; 10 % by default.
    pub fn drift(mut self, drift: Drift) -> Self {
        self.rules.drift = drift;
        self
    }

    /// Whether a dead process's lease may be collected at first sight where two witnesses agree that its time is over. On by
    /// default.
    pub fn first_sight(mut self, on: bool) -> Self {
        self.rules.first_sight = on;
        self
    }

    /// The runtime that the section's requests go out from, as [`LeasesBuilder::runtime`](crate::LeasesBuilder::runtime) has it; by default, a
    /// thread of tenure's own.
    pub fn runtime(mut self, runtime: tokio::runtime::Handle) -> Self {
        self.home = Some(Home::On(runtime));
        self
    }

    /// How long dropping the last handle may block its thread until what is held is given up, as where `main` ends without [`Section::stop`]; half a
    /// second by default, and in a section from [`Leases::section`] as [`LeasesBuilder::linger`](crate::LeasesBuilder::linger) says there. It does not
    /// block where requests go out from a runtime of the caller's, nor on a runtime of one thread, or in a task of one with one worker, that the
    /// store may need to answer. What takes longer goes on as long as the process does, and [a warning](super#what-is-logged) tells of it.
    pub fn linger(mut self, longest: Duration) -> Self {
        self.linger = longest;
        self
    }

    /// Another clock than the machine's, for tests. The section works on the runtime around [`start`](Self::start), then, but for one from
    /// [`Leases::section`], which works where these leases do.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Starts the background task. Nothing is read or written yet.
    ///
    /// # Errors
    /// When a setting is out of range, the name can't be one, or the thread can't be started; with a clock of one's own, outside a tokio
    /// runtime; where a runtime that was named has no timers. There is no I/O.
    pub fn start(self) -> Result<Section, InvalidInput> {
        crate::meters::begin_ranges();
        let capabilities = self.store.capabilities();
        if self.most_parts == 0 {
            return Err(InvalidInput::new("a section of 0 parts could hold nothing; allow 1 at least"));
        }
        if self.longest < capabilities.least_ttl {
            let (longest, least) = (self.longest, capabilities.least_ttl);
            return Err(InvalidInput::new(format!(
                "a longest duration of {longest:?} is below this store's minimum of {least:?}"
            )));
        }
        let holder = clock::holder_of(self.holder.as_deref())?;
        let key = section::key(&self.name)?;
        let home = self.home.unwrap_or_else(|| Home::of(None, self.clock.is_some()));
        let clock = self.clock.unwrap_or_else(|| clock::system());
        let machine = SectionMachine::new(SectionSetup {
            key: key.clone(),
            holder: holder.clone(),
            // Its nonces must differ from those of every other machine, also of this process.
            instance: clock::instance(),
            rules: self.rules,
            most_parts: self.most_parts,
            most_bytes: capabilities.section_bytes(),
        });
        let (commands, receiver) = mpsc::unbounded_channel();
        let inner = Arc::new(SharedSection {
            direct: DirectStore::new(self.store.clone(), Arc::clone(&clock), home.clone()),
            process: Process::this(),
            clock: Arc::clone(&clock),
            key: key.clone(),
            holder: holder.clone(),
            commands,
            last_id: AtomicU64::new(0),
            users: std::sync::Mutex::default(),
            bodies: Arc::default(),
            least: capabilities.least_ttl,
            longest: self.longest.min(Ttl::MAX.duration()),
            grace: self.grace,
            home: home.clone(),
            linger: self.linger,
            is_elsewhere: lives_elsewhere(&self.store),
            driving: OnceLock::new(),
        });
        let sink = SectionSink { inner: Arc::downgrade(&inner) };
        // Nobody waits for ranges to become free, so hints of changes are of no use.
        let (_, listen) = watch::channel(false);
        let watches = key.as_str().to_owned();
        let troubles = Troubles::new(Arc::clone(&clock), holder);
        let driver =
            Driver { machine, store: self.store, clock, commands: receiver, listen, watches, troubles, sink };
        // Nobody else has it yet.
        let _ = inner.driving.set(home.run(driver.run(|| SectionCommand::Stop))?);
        Ok(Section::of(inner))
    }
}

impl Leases {
    /// A section of this name on the same store, with the same clock, holder, drift and first sight.
    pub fn section(&self, name: impl AsRef<str>) -> SectionBuilder {
        let holder = self.holder().clone();
        let mut section = SectionBuilder::new(self.store().clone(), name.as_ref())
            .holder(holder)
            .clock(Arc::clone(self.clock()));
        section.home = Some(self.inner.home.clone());
        section.linger = self.inner.linger;
        section.rules = self.rules();
        section
    }
}

impl fmt::Debug for SectionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SectionBuilder")
            .field("store", &self.store)
            .field("name", &self.name)
            .field("holder", &self.holder)
            .field("most_parts", &self.most_parts)
            .field("longest", &self.longest)
            .field("grace", &self.grace)
            .finish_non_exhaustive()
    }
}
