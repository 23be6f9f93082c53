//! `tenure elect` on less's table: the same watchdog and the same end in time, and no fence.

use super::hook::{Hook, LeaderInfo};
use crate::config::{self, WaitLimit};
use crate::exit::{self, Failure};
use crate::output::{self, Lost};
use crate::stores::away::opened;
use crate::stores::less::{LessLocation, leader};
use crate::supervise::lease::{ExclusiveLease, Lease, ReleaseEnd};
use crate::supervise::signals::Signals;
use crate::text::{cut, escaped};
use crate::verbs::waiting::{CurrentHolder, told_by};
use std::sync::Arc;
use std::time::Duration;
use tenure::Key;
use tenure_less::{Candidate, CandidateStatus, LeadershipTerm};

/// Columns of the one who leads in a message: that is any text.
const MOST_SHOWN: usize = 200;

/// One term of a candidate.
struct Elected {
    /// What it is taken from when the command can't be ended.
    candidate: Arc<Candidate>,
    term: LeadershipTerm,
    key: String,
}

impl Lease for Elected {
    fn key(&self) -> &str {
        &self.key
    }

    fn remaining(&self) -> Duration {
        self.term.remaining()
    }
}

impl ExclusiveLease for Elected {
    fn lease(&self) -> &impl Lease {
        self
    }

    async fn loss(&self) -> Option<Lost> {
        if self.term.is_held() {
            return None;
        }
        let cause = self.term.ended().await;
        let why = cause.map_or_else(|| "the term is over".to_owned(), |cause| cause.to_string());
        let why = match self.term.trouble() {
            Some(error) => format!("{why}: {error}"),
            None => why,
        };
        Some(Lost { why, remedy: Some(Self::REMEDY) })
    }

    fn trouble(&self) -> Option<String> {
        self.term.trouble().map(|error| error.to_string())
    }

    /// Whether the row was still its own is not told.
    async fn release(self) -> ReleaseEnd {
        self.candidate.resign();
        ReleaseEnd::Given
    }

    async fn lapse(self) {
        self.candidate.lapse();
    }
}

pub(super) async fn elect(place: &LessLocation, mut plan: config::ElectConfig) -> Result<u8, Failure> {
    let on_change = plan.on_change.take();
    let term = &plan.term;
    if term.about.has_note() {
        return Err(Failure::usage("less's table has no room for a note; leave --note out"));
    }
    if plan.cooldown > term.ttl / 5 * 2 {
        return Err(Failure::usage(
            "on less's table a candidate stands back for two fifths of the ttl at the most; leave --cooldown out, or shorten it",
        ));
    }
    let options = place.options(&term.key, term.ttl);
    options.check()?;
    let mut signals = Signals::listen()?;
    let clock = tenure::clock::system();
    let storage = opened(term.await_store, async || place.open(clock.clone()).await);
    let storage = signals.unless(storage).await??;
    let candidate = Arc::new(Candidate::start(Arc::clone(&storage), options, clock, tenure::clock::uuid)?);
    let following = match on_change {
        Some(command) => {
            let hook = Hook::start(command, term.key.clone(), candidate.id().to_owned())?;
            let leader =
                |status: &CandidateStatus| Some(LeaderInfo { id: status.leader.clone()?, fence: None });
            Some(hook.follow(candidate.changes(), leader))
        }
        None => None,
    };
    let elected = async || {
        let look = async |key: &Key| {
            // A storage that fails is told of by whoever stands by.
            let (id, until) = leader(storage.look(key.as_str()).await.ok()?)?;
            (id != candidate.id()).then(|| CurrentHolder {
                // Whatever stands in the row: it is told in one line.
                whom: cut(&escaped(&id), MOST_SHOWN),
                until: Some(until),
                is_around_us: false,
            })
        };
        let next = told_by(look, &[&term.key], WaitLimit::Forever, stand_by(&candidate)).await?;
        Ok(Elected { candidate: Arc::clone(&candidate), term: next, key: term.key.as_str().to_owned() })
    };
    let result = super::terms(elected, candidate.id(), || None, &plan, &mut signals).await;
    if let Some(following) = following {
        following.end().await;
    }
    let mut changes = candidate.changes();
    // Its handle gone, the candidate gives its row back, which takes a moment.
    drop(candidate);
    let over = async { while changes.changed().await.is_ok() {} };
    signals.farewell(&result, term.ttl, over).await;
    result
}

/// Waits to be elected, through any trouble that may pass, which is told when it begins and when it is over. A refusal is final only where the
/// storage has never let this candidate in: a password that is changed must not end all who stand by.
async fn stand_by(candidate: &Candidate) -> Result<LeadershipTerm, Failure> {
    let mut changes = candidate.changes();
    let mut is_failing = false;
    loop {
        let CandidateStatus { trouble, has_been_let_in, .. } = changes.borrow_and_update().clone();
        match trouble {
            Some(error) if !error.is_passing() && !has_been_let_in => return Err(error.into()),
            Some(error) if !is_failing => output::note(format!("the store fails: {error}; trying on")),
            None if is_failing => output::note("the store answers again"),
            _ => {}
        }
        is_failing = changes.borrow().trouble.is_some();
        tokio::select! {
            elected = candidate.elected() => {
                return elected.map_err(|stopped| Failure::new(exit::INTERNAL, stopped.to_string()));
            }
            _ = changes.changed() => {}
        }
        // A storage that fails at once must not keep this busy.
        if is_failing {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
