//! Whether a process is at work on a job, and is to be seen by those who look after it.
//!
//! Where the store tells no ages, a session is as old as two wall clocks say. A process whose clock is behind looks dead by that. So a session
//! that is over by wall clocks alone is watched for its ttl: its process writes it meanwhile, if it lives.

use crate::exit::Failure;
use crate::keys::JobName;
use crate::output;
use crate::output::view::{Sessions, State, View};
use crate::stores::pages::Pages;
use crate::stores::patiently;
use crate::text::{brief, count};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure::store::reserved::SESSION;
use tenure::store::{Freshness, Listed, Version};
use tenure::{AnyStore, Key, Leases, Store, Ttl, Value};

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
pub(crate) async fn living(
    leases: &Leases,
    is_asked_for: impl Fn(&Listed) -> bool,
) -> Result<Option<LivingProcess>, Failure> {
    living_below(leases, SESSION, is_asked_for).await
}

/// The same of sessions whose keys begin so, as those of a fleet's workers do.
pub(crate) async fn living_below(
    leases: &Leases,
    prefix: &str,
    is_asked_for: impl Fn(&Listed) -> bool,
) -> Result<Option<LivingProcess>, Failure> {
    let (store, mut known) = (leases.store(), BTreeSet::new());
    loop {
        let (mut pages, mut silent) = (Pages::default(), Vec::new());
        while let Some(page) = patiently(async || pages.next(store, prefix).await).await? {
            for session in page.into_iter().filter(|listed| is_asked_for(listed)) {
                let now = leases.clock().now().wall;
                let view = View::of(store, &mut Sessions::default(), session.clone(), now).await;
                match (view.state, view.left) {
                    (State::Held, Some(left)) => return Ok(Some(LivingProcess { session, left })),
                    (State::Expired, _) => silent.extend(SilentProcess::of(&session)),
                    _ => {}
                }
            }
        }
        silent.retain(|process| known.insert((process.session.clone(), process.version)));
        // Whoever has come while the others were watched is found the next time.
        match watched(store, silent).await? {
            WatchedProcess::Nobody => return Ok(None),
            WatchedProcess::Dead => {}
            WatchedProcess::Alive(process) => return Ok(Some(process)),
        }
    }
}

/// What came of watching.
#[derive(Debug)]
enum WatchedProcess {
    /// There was nobody to be watched.
    Nobody,
    Dead,
    Alive(LivingProcess),
}

/// A process that has been silent for longer than its ttl, by wall clocks alone.
#[derive(Debug)]
struct SilentProcess {
    session: Key,
    version: Version,
    ttl: Ttl,
}

impl SilentProcess {
    /// None if the store itself has told the age.
    fn of(session: &Listed) -> Option<SilentProcess> {
        let stored = session.stored.as_ref().ok().filter(|stored| stored.age().is_none())?;
        let ttl = stored.record.tenure.as_ref()?.ttl;
        Some(SilentProcess { session: session.key.clone(), version: stored.version, ttl })
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
        "{} that worked here may be dead, but its clock may be behind as well: watching for {}",
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
    //! Plan: whoever is silent for its ttl is dead, whoever writes is not, whatever its clock says; a session that ends is none.
    use super::*;

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
        assert!(SilentProcess::of(&session).is_none());
        let found = living(&there, |listed| listed.key == session.key).await.unwrap();
        assert_eq!(found.unwrap().session.key, session.key);
        assert!(living(&there, |_| false).await.unwrap().is_none());
    }
}
