//! Whether a process is at work on a job, and is to be seen by those who look after it.
//!
//! Where the store tells no ages, a session is as old as two wall clocks say. A process whose clock is behind looks dead by that, and one whose
//! clock was ahead looks alive. So a session that is over by wall clocks alone, or from the future, is watched for its ttl: its process writes it
//! meanwhile, if it lives.

use crate::exit::Failure;
use crate::keys::JobName;
use crate::nonces::nonces;
use crate::output;
use crate::output::view::{Sessions, State, View};
use crate::stores::pages::Pages;
use crate::stores::patiently;
use crate::text::{brief, count};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure::store::reserved::SESSION;
use tenure::store::{Expect, Freshness, Listed, Outcome, Record, Stored, Version, Write};
use tenure::{AnyStore, Fence, Key, Leases, Store, StoreError, Ttl, Value, Wall};
use tenure_core::Nonces;

/// Waits until our own session is to be seen by those who look after us.
///
/// # Errors
/// The store can't be written.
pub(super) async fn await_session(leases: &Leases) -> Result<(), Failure> {
    /// About as long as it is tried to register units.
    const PATIENCE: Duration = Duration::from_secs(10);
    let mut told = String::new();
    while leases.session_remaining().is_zero() {
        if let Some(trouble) = leases.trouble() {
            if trouble.lasts > PATIENCE || !trouble.error.is_passing() {
                return Err(trouble.error.into());
            }
            let text = trouble.error.to_string();
            if told != text {
                output::note(format!("{text}; trying on"));
                told = text;
            }
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

/// The job that the process of a session works on.
pub(crate) fn job_of(session: &Listed) -> Option<&str> {
    session.stored.as_ref().ok()?.record.metadata.get("work").and_then(Value::as_text)
}

/// Where a session tells what its process runs for each unit, by a digest.
pub(super) const COMMAND: &str = "command";

/// A process at work on the job that tells of another command than this digest, if there is any: its host and its pid.
pub(super) async fn other_command(
    leases: &Leases,
    name: &JobName,
    digest: &str,
) -> Result<Option<(String, i64)>, Failure> {
    // It is for a note alone, so only so many pages are asked for, and each once.
    const PAGES: usize = 2;
    let (store, mut pages) = (leases.store(), Pages::default());
    for _ in 0..PAGES {
        let Some(page) = pages.next(store, SESSION).await? else { break };
        for session in page.into_iter().filter(|listed| job_of(listed) == Some(name.as_str())) {
            let Some(about) = session.stored.as_ref().ok().map(|stored| stored.record.metadata.clone())
            else {
                continue;
            };
            let text = |field: &str| about.get(field).and_then(Value::as_text);
            if text(COMMAND).is_none_or(|other| other == digest) {
                continue;
            }
            let now = leases.clock().now().wall;
            if View::of(store, &mut Sessions::default(), session, now).await.state == State::Held {
                let pid = about.get("pid").and_then(Value::as_i64).unwrap_or_default();
                return Ok(Some((text("host").unwrap_or("?").to_owned(), pid)));
            }
        }
    }
    Ok(None)
}

/// A process that lives, by its session.
#[derive(Debug)]
pub(crate) struct LivingProcess {
    pub(crate) session: Listed,
    /// When it may be told as dead, if it writes no more.
    pub(crate) left: Duration,
}

/// One of those processes that live and whose session is asked for, if there is any.
pub(super) async fn living(
    leases: &Leases,
    is_asked_for: impl Fn(&Listed) -> bool,
) -> Result<Option<LivingProcess>, Failure> {
    ProcessWatch::default().living(leases, SESSION, is_asked_for).await
}

/// What is known of processes that seem dead, so that none is watched twice.
#[derive(Debug, Default)]
pub(crate) struct ProcessWatch {
    /// What is asked after that. Whoever can't answer is told so before anybody is watched.
    question: Option<String>,
    /// Sessions that nobody has written while they were watched.
    known: BTreeSet<(Key, Version)>,
    /// The sessions of those that were found dead the last time, as they were then.
    dead: Vec<(Key, Stored)>,
}

impl ProcessWatch {
    /// This is asked once nobody is found to live.
    pub(crate) fn ask_later(&mut self, question: String) {
        self.question = Some(question);
    }

    /// Fails if nobody is there who can be asked later.
    pub(crate) fn check_asked(&self) -> Result<(), Failure> {
        self.question.as_deref().map_or(Ok(()), output::check_asked)
    }

    /// As [`living`], of sessions whose keys begin so.
    pub(crate) async fn living(
        &mut self,
        leases: &Leases,
        prefix: &str,
        is_asked_for: impl Fn(&Listed) -> bool,
    ) -> Result<Option<LivingProcess>, Failure> {
        let store = leases.store();
        loop {
            let mut pages = Pages::default();
            self.dead.clear();
            while let Some(page) = patiently(async || pages.next(store, prefix).await).await? {
                for session in page.into_iter().filter(|listed| is_asked_for(listed)) {
                    let now = leases.clock().now().wall;
                    let view = View::of(store, &mut Sessions::default(), session.clone(), now).await;
                    match (view.state, view.left) {
                        (State::Held, Some(left)) if !is_ahead(&session, now) && !self.knows(&session) => {
                            return Ok(Some(LivingProcess { session, left }));
                        }
                        (State::Held | State::Expired, _) => {
                            self.dead.extend(session.stored.ok().map(|stored| (session.key, stored)));
                        }
                        _ => {}
                    }
                }
            }
            let silent = self.dead.iter().filter_map(|(key, stored)| SilentProcess::of(key, stored));
            let silent: Vec<SilentProcess> =
                silent.filter(|process| !self.known.contains(&process.version())).collect();
            if !silent.is_empty() {
                self.check_asked()?;
            }
            let versions: Vec<(Key, Version)> = silent.iter().map(SilentProcess::version).collect();
            // Whoever has come while the others were watched is found the next time.
            match watched(store, silent).await? {
                WatchedProcess::Nobody => return Ok(None),
                WatchedProcess::Dead => self.known.extend(versions),
                WatchedProcess::Alive(process) => return Ok(Some(process)),
            }
        }
    }

    /// Whether it was silent while it was watched, whatever clocks show by now.
    fn knows(&self, session: &Listed) -> bool {
        let version = |stored: &Stored| (session.key.clone(), stored.version);
        session.stored.as_ref().is_ok_and(|stored| self.known.contains(&version(stored)))
    }

    /// Whether a process was found dead whose name is shown so.
    pub(crate) fn is_dead(&self, holder: &str) -> bool {
        let mut tenures = self.dead.iter().filter_map(|(_, stored)| stored.record.tenure.as_ref());
        tenures.any(|tenure| tenure.holder.to_string() == holder)
    }

    /// Ends the sessions of those that were found dead, until one of them lives after all: its key.
    pub(crate) async fn end_dead(&mut self, leases: &Leases) -> Result<Option<Key>, Failure> {
        let mut nonces = nonces(leases);
        for (key, seen) in &mut self.dead {
            if !end_session(leases, &mut nonces, key, seen).await? {
                return Ok(Some(key.clone()));
            }
        }
        Ok(None)
    }
}

/// Whether a process's clock is ahead of ours, where the store tells no ages. Its session would look young for as long as that, however long it is dead.
fn is_ahead(session: &Listed, now: Wall) -> bool {
    session.stored.as_ref().is_ok_and(|stored| stored.age().is_none() && stored.record.stamp > now)
}

/// Ends the session of a dead process with a higher fence, as a contender does it: a renewal that lands late has nobody believe on. False: it lives.
///
/// The fence is the very next one, whatever clocks show. A session that begins anew has one beyond its clock by itself; and a store may keep a record
/// whose fence is ahead of the store's own clock.
pub(crate) async fn end_session(
    leases: &Leases,
    nonces: &mut Nonces,
    key: &Key,
    seen: &mut Stored,
) -> Result<bool, StoreError> {
    let (stamp, nonce) = (leases.clock().now().wall, nonces.draw());
    let fence = seen.record.fence.next(Fence(0))?;
    let record = Record { fence, nonce, stamp, tenure: None, metadata: seen.record.metadata.clone() };
    let write = Write { key: key.clone(), expect: Expect::Unchanged(seen.version), record };
    match patiently(async || leases.store().write(write.clone()).await).await? {
        Outcome::Won { version, .. } => seen.version = version,
        Outcome::Lost(Some(standing)) if standing.record.tenure.is_some() => return Ok(false),
        // By somebody else, or by an earlier try whose answer was lost.
        Outcome::Lost(Some(standing)) => *seen = standing,
        Outcome::Lost(None) => {}
    }
    Ok(true)
}

/// What came of watching.
#[derive(Debug)]
enum WatchedProcess {
    /// There was nobody to be watched.
    Nobody,
    Dead,
    Alive(LivingProcess),
}

/// A process that has been silent for longer than its ttl by wall clocks alone, or of which these tell nothing.
#[derive(Debug)]
struct SilentProcess {
    session: Key,
    version: Version,
    ttl: Ttl,
}

impl SilentProcess {
    /// None if the store itself has told the age.
    fn of(session: &Key, stored: &Stored) -> Option<SilentProcess> {
        let ttl = stored.record.tenure.as_ref().filter(|_| stored.age().is_none())?.ttl;
        Some(SilentProcess { session: session.clone(), version: stored.version, ttl })
    }

    fn version(&self) -> (Key, Version) {
        (self.session.clone(), self.version)
    }
}

/// The first of them that writes its session within the longest of their ttls.
async fn watched(store: &AnyStore, silent: Vec<SilentProcess>) -> Result<WatchedProcess, Failure> {
    /// In how many parts the time is waited for.
    const LOOKS: u32 = 12;
    let Some(longest) = silent.iter().map(|silent| silent.ttl.duration()).max() else {
        return Ok(WatchedProcess::Nobody);
    };
    output::note(format!(
        "{} that worked here may be dead or not, as clocks may be off: watching for {}",
        count(silent.len(), "process"),
        brief(longest)
    ));
    let known: BTreeMap<&Key, &SilentProcess> =
        silent.iter().map(|silent| (&silent.session, silent)).collect();
    let keys: Vec<Key> = known.keys().map(|key| (*key).clone()).collect();
    for _ in 0..LOOKS {
        tokio::time::sleep(longest / LOOKS).await;
        for session in patiently(async || store.read_many(&keys, Freshness::Latest).await).await? {
            let (Ok(stored), Some(silent)) = (&session.stored, known.get(&session.key)) else { continue };
            if stored.version != silent.version && stored.record.tenure.is_some() {
                return Ok(WatchedProcess::Alive(LivingProcess { left: silent.ttl.duration(), session }));
            }
        }
    }
    Ok(WatchedProcess::Dead)
}

#[cfg(test)]
mod tests {
    //! Plan: whoever is silent for its ttl is dead, whoever writes is not, whatever its clock says; a session that ends is none. Nobody is watched
    //! twice. Who is dead is ended, and who has renewed its session since is not.
    use super::*;
    use crate::stepped_clock::SteppedClock;
    use std::sync::Arc;
    use tenure::store::Tenure;
    use tenure::{Clock, HolderId, MemoryStore, Metadata};

    /// Tells no ages, as etcd.
    struct Untimed(MemoryStore);

    fn untimed(mut all: Vec<Listed>) -> Vec<Listed> {
        for listed in &mut all {
            listed.stored = listed.stored.clone().map(|stored| stored.timed(None));
        }
        all
    }

    impl Store for Untimed {
        tenure_store::pass_on!(0: capabilities, id, write, write_many, remove, image, mend, changed);

        async fn read(&self, key: &Key) -> Result<Option<Stored>, StoreError> {
            Ok(self.0.read(key).await?.map(|stored| stored.timed(None)))
        }
        async fn read_many(&self, keys: &[Key], freshness: Freshness) -> Result<Vec<Listed>, StoreError> {
            Ok(untimed(self.0.read_many(keys, freshness).await?))
        }
        async fn list(
            &self,
            prefix: &str,
            after: Option<&Key>,
            limit: usize,
        ) -> Result<Vec<Listed>, StoreError> {
            Ok(untimed(self.0.list(prefix, after, limit).await?))
        }
    }

    const TTL: Duration = Duration::from_secs(10);

    /// A session of a process whose clock is ahead.
    struct AheadSession {
        clock: Arc<SteppedClock>,
        leases: Leases,
        key: Key,
        nonces: Nonces,
    }

    impl AheadSession {
        fn new() -> AheadSession {
            let clock = SteppedClock::start();
            let store = Untimed(MemoryStore::new("m", clock.clone()));
            let leases = Leases::builder(store).clock(clock.clone()).start().unwrap();
            AheadSession { clock, leases, key: Key::new("session/w").unwrap(), nonces: Nonces::new(1) }
        }

        async fn renew(&mut self, expect: Expect, ahead_ms: u64) -> Version {
            let (nonce, now) = (self.nonces.draw(), self.clock.now().wall);
            let stamp = Wall(now.0 + ahead_ms);
            let tenure = Tenure::new(nonce, HolderId::new("w").unwrap(), Ttl::new(TTL).unwrap(), stamp);
            let (fence, metadata) = (Fence(7), Metadata::new());
            let record = Record { fence, nonce, stamp, tenure: Some(tenure), metadata };
            match self.leases.store().write(Write { key: self.key.clone(), expect, record }).await.unwrap() {
                Outcome::Won { version, .. } => version,
                lost => panic!("{lost:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_dead_is_not_alive_for_as_long_as_its_clock_was_ahead() {
        let mut session = AheadSession::new();
        // When it was watched, its stamp is younger than its ttl.
        let version = session.renew(Expect::Absent, 5_000).await;
        let (leases, clock) = (session.leases.clone(), session.clock.clone());
        let mut watch = ProcessWatch::default();
        let began = clock.held();
        assert!(watch.living(&leases, SESSION, |_| true).await.unwrap().is_none());
        assert!(clock.held().since(began) > TTL / 2);
        assert!(watch.is_dead("w") && !watch.is_dead("x"));
        // It is known by now.
        let began = clock.held();
        assert!(watch.living(&leases, SESSION, |_| true).await.unwrap().is_none());
        assert!(clock.held().since(began) < TTL / 2);

        // One that lives shows it by its next renewal, and is not ended.
        let version = session.renew(Expect::Unchanged(version), 3_600_000).await;
        let renewal = async {
            tokio::time::sleep(TTL / 3).await;
            session.renew(Expect::Unchanged(version), 3_600_000).await
        };
        let mut another = ProcessWatch::default();
        let (found, renewed) = tokio::join!(another.living(&leases, SESSION, |_| true), renewal);
        assert_eq!(found.unwrap().unwrap().session.key.as_str(), "session/w");
        assert_eq!(watch.end_dead(&leases).await.unwrap().unwrap().as_str(), "session/w");
        assert_eq!(leases.store().read(&session.key).await.unwrap().unwrap().version, renewed);
    }

    #[tokio::test(start_paused = true)]
    async fn the_dead_are_ended_by_the_very_next_fence() {
        let mut session = AheadSession::new();
        session.renew(Expect::Absent, 5_000).await;
        let mut watch = ProcessWatch::default();
        assert!(watch.living(&session.leases, SESSION, |_| true).await.unwrap().is_none());
        assert!(watch.end_dead(&session.leases).await.unwrap().is_none());
        let ended = session.leases.store().read(&session.key).await.unwrap().unwrap().record;
        assert_eq!((ended.fence, ended.tenure), (Fence(8), None));
    }

    async fn session_of(leases: &Leases) -> Listed {
        leases.begin_session();
        await_session(leases).await.unwrap();
        let stored = leases.store().read(leases.session_key()).await.map(Option::unwrap);
        Listed { key: leases.session_key().clone(), stored }
    }

    fn silent(session: &Listed) -> Vec<SilentProcess> {
        let stored = session.stored.as_ref().unwrap();
        let ttl = stored.record.tenure.as_ref().unwrap().ttl;
        vec![SilentProcess { session: session.key.clone(), version: stored.version, ttl }]
    }

    fn brief() -> Ttl {
        Ttl::new(Duration::from_millis(60)).unwrap()
    }

    #[tokio::test]
    async fn who_writes_its_session_lives_whatever_the_clocks_say() {
        let store = tenure::memory();
        let here = Leases::new(store.clone()).unwrap();
        let there = Leases::builder(store).session_ttl(Duration::from_millis(1500)).start().unwrap();
        let session = session_of(&there).await;
        let found = watched(here.store(), silent(&session)).await.unwrap();
        assert!(matches!(found, WatchedProcess::Alive(process) if process.session.key == session.key));
        there.stop().await;
        let brief = silent(&session).into_iter().map(|process| SilentProcess { ttl: brief(), ..process });
        let found = watched(here.store(), brief.collect()).await.unwrap();
        assert!(matches!(found, WatchedProcess::Dead), "it has ended");
    }

    #[tokio::test]
    async fn who_is_silent_for_its_ttl_is_dead() {
        let store = tenure::memory();
        let here = Leases::new(store.clone()).unwrap();
        let there = Leases::new(store).unwrap();
        let session = session_of(&there).await;
        let brief = SilentProcess { ttl: brief(), ..silent(&session).remove(0) };
        assert!(matches!(watched(here.store(), vec![brief]).await.unwrap(), WatchedProcess::Dead));
        assert!(matches!(watched(here.store(), Vec::new()).await.unwrap(), WatchedProcess::Nobody));
    }

    #[tokio::test]
    async fn the_clock_is_not_asked_where_the_store_tells_ages() {
        let store = tenure::memory();
        let there = Leases::new(store).unwrap();
        let session = session_of(&there).await;
        assert!(SilentProcess::of(&session.key, session.stored.as_ref().unwrap()).is_none());
        let found = living(&there, |listed| listed.key == session.key).await.unwrap();
        assert_eq!(found.unwrap().session.key, session.key);
        assert!(living(&there, |_| false).await.unwrap().is_none());
    }
}
