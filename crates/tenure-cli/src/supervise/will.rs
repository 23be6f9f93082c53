//! What the watchdogs do for tenure once it is dead and nothing of its commands is alive: they give back what it held, so that
//! nobody has to wait until that expires.
//!
//! A tenure that merely stands still is not dead. A record that is another's by now is left as it is, so both watchdogs may do it.

use super::table::ProcessEntry;
use crate::exit::{Failure, UNAVAILABLE};
use crate::stores::rewrite::{rewrite, take_out};
use crate::stores::{Missing, Url};
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::fleet::FleetName;
use tenure::permits;
use tenure::range::{self, Section};
use tenure::{HolderId, Key, LeaseError, Leases, Store};

/// What is to be given back, and where.
pub(crate) struct Will {
    /// It may hold a password: it is told through a pipe, and shown nowhere.
    store: String,
    /// Where tenure works, for what is named relative to that.
    directory: PathBuf,
    holder: HolderId,
    /// The session's among them.
    keys: Vec<String>,
    /// Tenure, by number and time of start.
    process: (i32, u64),
}

impl fmt::Debug for Will {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Will").field("holder", &self.holder).field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl Will {
    /// That all of `leases` is given back: what is attached to its session, and these keys, semaphores' among them.
    ///
    /// None where that can't be done: the store is this process's own or of another layout, or has a name that is no text.
    pub(crate) fn of<'k>(url: &Url, leases: &'k Leases, keys: impl Iterator<Item = &'k str>) -> Option<Will> {
        let keys = keys.chain([leases.session_key().as_str()]).map(str::to_owned).collect();
        Will::of_keys(url, leases.holder().clone(), keys)
    }

    /// That all units of this worker are given back: they are attached to its session.
    pub(crate) fn of_worker(url: &Url, fleet: &FleetName, worker: &str) -> Option<Will> {
        let holder = HolderId::new(worker).ok()?;
        let session = fleet.worker(&holder).ok()?;
        Will::of_keys(url, holder, vec![session.as_str().to_owned()])
    }

    /// That all ranges of this holder are given back.
    pub(crate) fn of_section(url: &Url, section: &Section) -> Option<Will> {
        Will::of_keys(url, section.holder().clone(), vec![section.key().as_str().to_owned()])
    }

    fn of_keys(url: &Url, holder: HolderId, keys: Vec<String>) -> Option<Will> {
        let store = url.told().filter(|_| !url.has_dialect())?;
        let own = ProcessEntry::of(std::process::id().cast_signed())?;
        let directory = std::env::current_dir().ok()?;
        Some(Will { store, directory, holder, keys, process: (own.pid, own.start) })
    }

    /// In one line. None where it is too long to be taken in within a moment, or the working directory has a name that is no text.
    pub(super) fn line(&self) -> Option<String> {
        /// A pipe takes that in with all that is told besides, whoever reads it when: who tells it may have leases to renew. Some ninety of
        /// the longest keys.
        const LONGEST: usize = 48 << 10;
        let directory = self.directory.to_str()?;
        let (pid, start) = self.process;
        let will = json!({
            "store": self.store, "directory": directory, "holder": self.holder.as_str(), "keys": self.keys, "pid": pid, "start": start,
        });
        Some(format!("will {will}\n")).filter(|line| line.len() <= LONGEST)
    }

    /// As it was told.
    pub(super) fn read(line: &str) -> Option<Will> {
        let will: Value = serde_json::from_str(line).ok()?;
        let text = |name: &str| will.get(name)?.as_str();
        let pid = will.get("pid")?.as_i64()?;
        let keys = will.get("keys")?.as_array()?.iter();
        Some(Will {
            store: text("store")?.to_owned(),
            directory: text("directory")?.into(),
            holder: HolderId::new(text("holder")?).ok()?,
            keys: keys.map(|key| key.as_str().map(str::to_owned)).collect::<Option<_>>()?,
            process: (i32::try_from(pid).ok()?, will.get("start")?.as_u64()?),
        })
    }

    /// Whether tenure has died.
    pub(super) fn is_due(&self) -> bool {
        let (pid, start) = self.process;
        !ProcessEntry::of(pid).is_some_and(|entry| entry.start == start && entry.is_alive())
    }

    /// Gives everything back, if the store lets it until `end`. Nothing is said: tenure is dead, and what is not given back expires.
    pub(super) fn execute(&self, end: Duration) {
        const AGAIN: Duration = Duration::from_millis(100);
        const SELDOM: Duration = Duration::from_secs(5);
        /// A store that is away for longer is not waited for.
        const LONG: Duration = Duration::from_secs(60);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (Ok(runtime), Ok(())) = (runtime, std::env::set_current_dir(&self.directory)) else { return };
        let all = async {
            let mut pause = AGAIN;
            // What else fails would fail again: a password, a file that is not there.
            while self.give_back().await.is_err_and(|failure| failure.code == UNAVAILABLE) {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(SELDOM);
            }
        };
        let left = end.saturating_sub(boottime()).min(LONG);
        let _expires = runtime.block_on(async { tokio::time::timeout(left, all).await });
        runtime.shutdown_background();
    }

    async fn give_back(&self) -> Result<(), Failure> {
        let clock = tenure::clock::system();
        let store = Url::parse(&self.store)?.open(Missing::Refuse, clock.clone()).await?;
        let leases = Leases::builder(store).clock(clock).start()?;
        for key in &self.keys {
            if key.starts_with(range::PREFIX) {
                self.give_ranges_back(&leases, key).await?;
                continue;
            }
            if key.starts_with(permits::PREFIX) {
                self.give_permits_back(&leases, key).await?;
                continue;
            }
            match leases.release_for_dead(key, &self.holder).await {
                Err(LeaseError::Store(error)) if error.is_passing() => return Err(error.into()),
                // Given back, or another's, or not to be given back at all.
                _ => {}
            }
        }
        Ok(())
    }

    async fn give_ranges_back(&self, leases: &Leases, section: &str) -> Result<(), Failure> {
        let key = Key::new(section)?;
        let Some(stored) = leases.store().read(&key).await? else { return Ok(()) };
        take_out(leases, &key, stored, |entry| entry.holder == self.holder).await
    }

    /// Those who wait for permits are woken by a change of the semaphore's record. At the sessions of others they look a few times in
    /// a ttl only.
    async fn give_permits_back(&self, leases: &Leases, semaphore: &str) -> Result<(), Failure> {
        let key = Key::new(semaphore)?;
        let Some(stored) = leases.store().read(&key).await? else { return Ok(()) };
        rewrite(leases, &key, stored, |standing| {
            let mut ledger = permits::SemaphoreLedger::of(&standing.record)?;
            let before = ledger.tickets().count();
            ledger.holders.retain(|grant| grant.ticket.holder != self.holder);
            ledger.queue.retain(|ticket| ticket.holder != self.holder);
            Ok((ledger.tickets().count() < before).then(|| ledger.to_metadata().0))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_will_is_told_in_a_line_and_its_store_is_not_shown() {
        let will = Will {
            store: "postgres://u:hidden@h/d".to_owned(),
            directory: "/a b".into(),
            holder: HolderId::new("h-1").unwrap(),
            keys: vec!["k\n".to_owned(), "session/h-1".to_owned()],
            process: (7, 99),
        };
        let line = will.line().unwrap();
        assert_eq!(line.matches('\n').count(), 1);
        let read = Will::read(line.strip_prefix("will ").unwrap()).unwrap();
        assert_eq!((&read.store, &read.directory, &read.keys), (&will.store, &will.directory, &will.keys));
        assert_eq!((read.holder, read.process), (HolderId::new("h-1").unwrap(), (7, 99)));
        assert!(!format!("{will:?}").contains("hidden"));
        assert!(Will::read("{}").is_none());
    }

    #[test]
    fn nothing_is_due_while_tenure_lives_and_its_number_may_be_anothers_later() {
        let own = ProcessEntry::of(std::process::id().cast_signed()).unwrap();
        let will = |process| Will {
            store: "memory:".to_owned(),
            directory: "/".into(),
            holder: HolderId::new("h").unwrap(),
            keys: Vec::new(),
            process,
        };
        assert!(!will((own.pid, own.start)).is_due());
        assert!(will((own.pid, own.start + 1)).is_due());
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        let start = ProcessEntry::of(dead.id().cast_signed()).unwrap().start;
        while !will((dead.id().cast_signed(), start)).is_due() {
            std::thread::yield_now();
        }
        dead.wait().unwrap();
    }
}
