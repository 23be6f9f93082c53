//! Settings of a candidate, checked together before anything is done.

use super::candidate::{Candidate, Observer};
use super::runner::{self, CandidatePlan};
use crate::clock;
use crate::home::check_timers;
use crate::leases::Leases;
use crate::ttl::checked_ttl;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tenure_core::election::Terms;
use tenure_core::{Clock, InvalidInput, Key, Metadata};
use tenure_store::{AnyStore, Store};
use tokio::runtime::Handle;

/// Settings of a [`Candidate`], each with a default.
#[derive(Clone)]
#[must_use = "nothing happens until it is started"]
pub struct CandidateBuilder {
    base: Base,
    key: String,
    holder: Option<String>,
    ttl: Option<Duration>,
    follow: Option<Duration>,
    hold: Option<Duration>,
    errors: Option<u32>,
    cooldown: Option<Duration>,
    rank: u32,
    metadata: Metadata,
    grace: Option<Duration>,
    clock: Option<Arc<dyn Clock>>,
}

/// What a candidate keeps its leadership on.
#[derive(Clone)]
enum Base {
    /// A store: it has leases of its own, and renews itself.
    Store(AnyStore),
    /// Leases, to whose session it is attached.
    Leases(Leases),
}

/// The key that is led unless another is named.
const KEY: &str = "default";
/// The ttl of a candidate that renews itself.
const TTL: Duration = Duration::from_secs(10);

impl CandidateBuilder {
    fn on_store(store: AnyStore) -> CandidateBuilder {
        CandidateBuilder::new(Base::Store(store))
    }

    fn on_leases(leases: Leases) -> CandidateBuilder {
        CandidateBuilder::new(Base::Leases(leases))
    }

    fn new(base: Base) -> CandidateBuilder {
        CandidateBuilder {
            base,
            key: KEY.to_owned(),
            holder: None,
            ttl: None,
            follow: None,
            hold: None,
            errors: None,
            cooldown: None,
            rank: 0,
            metadata: Metadata::new(),
            grace: None,
            clock: None,
        }
    }

    /// What to lead; `default` by default. Keys that begin with `session/`, `section/`, `semaphore/`, `fleet/`, `work/` and `once/` are kept for
    /// tenure's own records.
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = key.into();
        self
    }

    /// This candidate's name as others see it, checked at the [start](Self::start); host name, process id and random bits by default. It must differ for
    /// each start, so that the log of one is not taken for that of another: [a warning](crate::election#what-is-logged) tells of a leader that has it, too.
    #[doc(alias = "id")]
    pub fn holder(mut self, holder: impl AsRef<str>) -> Self {
        self.holder = Some(holder.as_ref().to_owned());
        self
    }

    /// How long a leader that has died still counts as one; 10 s by default. All other times are in proportion to it unless
    /// they are set.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// How often to look at who leads, at least: a fifth of the ttl, 2 s, by default; somewhat more often at random. A
    /// store that pushes changes is heard at once.
    pub fn follow_every(mut self, interval: Duration) -> Self {
        self.follow = Some(interval);
        self
    }

    /// How often a leader renews: a fifth of the ttl, 2 s, by default; somewhat more often at random.
    pub fn hold_every(mut self, interval: Duration) -> Self {
        self.hold = Some(interval);
        self
    }

    /// When so many renewals in a row, one each [`CandidateBuilder::hold_every`], have failed, the leader steps down. What was
    /// meant to be tried once more is tried sooner, so short trouble is no reason. At the deadline, 0.82 × ttl after the last
    /// renewal, its leadership is over in any case.
    ///
    /// By default nothing is counted: a leader leads until its deadline, and only while bodies run under it does it step down
    /// before that, by the [`CandidateBuilder::grace`] that they have to end.
    #[doc(alias = "errors")]
    pub fn step_down_after(mut self, errors: u32) -> Self {
        self.errors = Some(errors);
        self
    }

    /// How long to stand back after stepping down, so that others get their turn; twice the time between two [looks](Self::follow_every) by default.
    pub fn cooldown(mut self, cooldown: Duration) -> Self {
        self.cooldown = Some(cooldown);
        self
    }

    /// The place in the order of preference, 0 (the default) to 8: each place waits a quarter of the time between two
    /// [looks](Self::follow_every) longer before it takes a key that is free, so that of those who wait the most preferred leads. A leader is not
    /// deposed by a more preferred candidate that comes later.
    #[doc(alias = "preference")]
    pub fn rank(mut self, rank: u32) -> Self {
        self.rank = rank;
        self
    }

    /// What others see of the leader: where to reach it, for example.
    #[doc(alias("labels", "about"))]
    pub fn metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// How long a body that [`Candidate::run_while_leader`] runs may take to end once it is told to: an eighth of the ttl by
    /// default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = Some(grace);
        self
    }

    /// Another clock than the machine's, for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Starts to follow the key in the background, and to lead it when that is possible.
    ///
    /// # Errors
    /// When settings are out of range or don't fit together: the text says which, why, and what to choose. There is no
    /// I/O. So it is outside a tokio runtime, in which the candidate runs, and in one without timers.
    pub fn start(self) -> Result<Candidate, InvalidInput> {
        let plan = self.plan()?;
        // Who only looks may look at anything.
        plan.leases.inner.check_free(&plan.terms.key)?;
        Ok(Candidate::started(runner::start(plan, false)))
    }

    /// Starts to look at who leads, and never leads.
    ///
    /// # Errors
    /// As [`CandidateBuilder::start`].
    pub fn observe(self) -> Result<Observer, InvalidInput> {
        let plan = self.plan()?;
        Ok(Observer::started(runner::start(plan, true)))
    }

    fn plan(self) -> Result<CandidatePlan, InvalidInput> {
        let here = Handle::try_current().map_err(|_| {
            InvalidInput::new(
                "a candidate runs in the background, in the tokio runtime around it: start it inside one",
            )
        })?;
        check_timers(&here)?;
        let key = Key::new(&self.key)?;
        let mut terms = match &self.base {
            Base::Store(store) => Terms::of(key, checked_ttl(store, self.ttl.unwrap_or(TTL))?),
            Base::Leases(leases) => {
                self.refuse_what_the_session_decides()?;
                let ttl = leases.inner.session_ttl;
                let (hold, drift) = (leases.inner.renew_every, leases.inner.drift);
                Terms { is_attached: true, hold, drift, ..Terms::of(key, ttl) }
            }
        };
        terms.follow = self.follow.unwrap_or(terms.follow);
        terms.hold = self.hold.unwrap_or(terms.hold);
        terms.errors = self.errors;
        terms.cooldown = self.cooldown.unwrap_or_else(|| terms.follow.saturating_mul(2));
        terms.rank = self.rank;
        terms.labels = self.metadata;
        terms.check()?;
        tenure_store::codec::check_metadata(&terms.labels)?;
        let grace = checked_grace(self.grace, &terms)?;
        terms.reserve = grace;
        let (leases, owned) = match self.base {
            Base::Leases(leases) => (leases, false),
            Base::Store(store) => {
                let leases = Leases::builder(store)
                    .holder(clock::holder_of(self.holder.as_deref())?)
                    .session_ttl(terms.ttl.duration())
                    .renew_every(terms.hold)
                    .poll(terms.follow);
                let leases = match self.clock {
                    Some(clock) => leases.clock(clock),
                    None => leases,
                };
                (leases.start()?, true)
            }
        };
        Ok(CandidatePlan { leases, owned, terms, grace })
    }

    fn refuse_what_the_session_decides(&self) -> Result<(), InvalidInput> {
        let set = [
            ("a ttl", self.ttl.is_some(), "session_ttl"),
            ("a hold interval", self.hold.is_some(), "renew_every"),
            ("a name", self.holder.is_some(), "holder"),
            ("a clock", self.clock.is_some(), "clock"),
        ];
        match set.iter().find(|(_, is_set, _)| *is_set) {
            None => Ok(()),
            Some((what, _, setting)) => Err(InvalidInput::new(format!(
                "{what} of its own for a candidate that is attached to a session: set LeasesBuilder::{setting} of its leases, \
                 or make the candidate by Candidate::builder"
            ))),
        }
    }
}

fn checked_grace(grace: Option<Duration>, terms: &Terms) -> Result<Duration, InvalidInput> {
    // A body may begin while that, and a fiftieth of the ttl, is left: right after a renewal, at the least.
    let most = terms.belief().saturating_sub((terms.hold * 2).max(terms.ttl.part(50) + terms.hold));
    let grace = grace.unwrap_or_else(|| terms.ttl.part(8).min(most));
    if grace > most {
        return Err(InvalidInput::new(format!(
            "a grace period of {grace:?} with a ttl of {:?} and a hold interval of {:?}: one failed renewal would end every \
             body; choose {most:?} or less, or a longer ttl",
            terms.ttl.duration(),
            terms.hold
        )));
    }
    Ok(grace)
}

impl Candidate {
    /// A candidate on `store`, by itself, with settings: it has one record and renews it. See [`Leases::candidate`](crate::Leases::candidate) for many.
    pub fn builder(store: impl Store) -> CandidateBuilder {
        CandidateBuilder::on_store(AnyStore::new(store))
    }
}

impl Leases {
    /// A candidate that is attached to the session of these leases, with settings: any number of them cost no more to hold than one.
    pub fn candidate(&self) -> CandidateBuilder {
        CandidateBuilder::on_leases(self.clone())
    }
}

impl fmt::Debug for CandidateBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CandidateBuilder")
            .field("key", &self.key)
            .field("holder", &self.holder)
            .field("ttl", &self.ttl)
            .field("rank", &self.rank)
            .field("metadata", &self.metadata)
            .finish_non_exhaustive()
    }
}
