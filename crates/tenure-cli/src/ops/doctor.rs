//! `doctor`: checks the store and its records, and says what can't be promised.

use super::findings::{Findings, Grade, OPEN, UNBOUND};
use super::seize::nonces;
use crate::args;
use crate::exit::Failure;
use crate::fleet;
use crate::stores::{Missing, Url};
use crate::text::{brief, count, date};
use crate::view::{Sessions, State, View};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tenure::clock::boottime;
use tenure::{
    Clock, Expect, Expiry, Fence, Key, Leases, Listed, Metadata, Outcome, Record, Store, StoreError,
    StoreExt, Wall, Write,
};

/// Of a SQLite file.
const HELD_UP: &str = "A process that is stopped (SIGSTOP) while it writes to a SQLite file holds up all others on that file; Ctrl-Z stops \
     tenure between two writes.";

/// What no check can make better.
const LIMITS: [&str; 5] = [
    "One holder at a time holds only while clock rates stay within 10 % and no time is hidden from a process, as a paused or \
     cloned virtual machine hides it. Fences hold always: let the protected resource refuse lower ones.",
    UNBOUND,
    OPEN,
    HELD_UP,
    "`tenure release` waits until the old holder can't be at work any more; with `--now`, or where a record is deleted or an older copy \
     restored by hand, two may be at work: until the old one's next renewal, or, if its lease rides on a session with n others, for \
     n/8 + 1 thirds of a ttl.",
];

pub(crate) async fn doctor(url: &Url, typed: &args::Doctor) -> Result<u8, Failure> {
    #[cfg(feature = "dynamodb")]
    if let Some(examined) = super::tables::examined(url, typed.create_table).await? {
        return examined.findings.report(url, &examined.limits, typed.json);
    }
    #[cfg(feature = "less")]
    if let Some(place) = url.of_less()? {
        let findings = super::less::examined(&place, typed.create_table).await?;
        return findings.report(url, &super::less::LIMITS, typed.json);
    }
    let mut findings = Findings::default();
    if let Some(path) = url.path() {
        check_file(path, &mut findings);
    }
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let missing = if typed.create_table { Missing::CreateTable } else { Missing::Look };
    let store = url.open(missing, Arc::clone(&clock)).await?;
    let leases = Leases::builder(store).clock(clock).start()?;
    findings.add_commands();
    check_clock(&leases, &mut findings);
    check_capabilities(&leases, &mut findings);
    #[cfg(feature = "redis")]
    super::redis::check(url, &mut findings).await?;
    if url.is_read_only() {
        findings.add(
            Grade::Warn,
            "write",
            "the file or its directory is read-only for this process: it can hold no lease here",
        );
    } else {
        check_writes(&leases, &mut findings).await;
    }
    check_records(&leases, &mut findings).await?;
    findings.report(url, &LIMITS, typed.json)
}

/// What the file system says about a store's file.
fn check_file(path: &Path, findings: &mut Findings) {
    let Ok(file) = std::fs::metadata(path) else { return };
    let (size, mode) = (file.len(), file.mode() & 0o777);
    findings.add(Grade::Ok, "file", format!("{size} bytes, mode {mode:03o}, owner {}", file.uid()));
    if mode & 0o002 != 0 {
        findings.add(
            Grade::Warn,
            "permissions",
            "everyone on this host can write to the file, and so take any lease: chmod o-w",
        );
    }
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if let Ok(parent) = std::fs::metadata(directory)
        && parent.mode() & 0o1002 == 0o0002
    {
        findings.add(
            Grade::Warn,
            "permissions",
            "everyone on this host can replace the file, its directory being open to all",
        );
    }
    match nix::sys::statvfs::statvfs(directory) {
        Ok(fs) => {
            let free = fs.blocks_available() * fs.fragment_size();
            let grade = if free < 16 << 20 { Grade::Warn } else { Grade::Ok };
            findings.add(grade, "space", format!("{} MiB free", free >> 20));
        }
        Err(error) => findings.add(Grade::Warn, "space", error.to_string()),
    }
    check_filesystem(directory, findings);
    // Bytes 18 and 19 of the header are 2 in WAL mode (https://www.sqlite.org/fileformat.html, 1.3.3).
    let header = std::fs::File::open(path).and_then(|mut file| {
        let mut header = [0; 20];
        std::io::Read::read_exact(&mut file, &mut header).map(|()| header)
    });
    match header {
        Ok([.., 2, 2]) => findings.add(Grade::Ok, "journal", "write-ahead log"),
        Ok(_) => findings.add(Grade::Warn, "journal", "not in write-ahead mode; it is put in it when opened"),
        Err(error) => findings.add(Grade::Warn, "journal", format!("its header can't be read: {error}")),
    }
}

#[cfg(target_os = "linux")]
fn check_filesystem(directory: &Path, findings: &mut Findings) {
    use nix::sys::statfs;
    let Ok(fs) = statfs::statfs(directory) else { return };
    match fs.filesystem_type() {
        statfs::TMPFS_MAGIC => {
            findings.add(
                Grade::Warn,
                "file system",
                "tmpfs: the store is gone after a reboot, and its fences start over by the clock",
            );
        }
        statfs::NFS_SUPER_MAGIC
        | statfs::SMB_SUPER_MAGIC
        | statfs::FUSE_SUPER_MAGIC
        | statfs::CODA_SUPER_MAGIC => {
            findings.add(
                Grade::Fail,
                "file system",
                "a network or user-space file system: SQLite's locks don't work between hosts there",
            );
        }
        kind => findings.add(Grade::Ok, "file system", format!("local (type {:x})", kind.0)),
    }
}

#[cfg(not(target_os = "linux"))]
fn check_filesystem(_directory: &Path, findings: &mut Findings) {
    findings.add(Grade::Warn, "file system", "its kind can't be told on this system: it must be a local one");
}

fn check_clock(leases: &Leases, findings: &mut Findings) {
    /// The first days of 2024 and of 2100.
    const SANE: std::ops::Range<u64> = 1_704_067_200_000..4_102_444_800_000;
    let now = leases.clock().now().wall;
    if SANE.contains(&now.0) {
        findings.add(Grade::Ok, "clock", date(now));
    } else {
        let text =
            format!("it is hardly {}: fences of deleted records could be repeated; set the clock", date(now));
        findings.add(Grade::Fail, "clock", text);
    }
}

fn check_capabilities(leases: &Leases, findings: &mut Findings) {
    let can = leases.store().capabilities();
    match can.expiry {
        Expiry::AttestedAge => {
            findings.add(Grade::Ok, "takeover", "at first sight: the store tells the age of records");
            // Where any ttl is long enough, there is nothing to choose.
            if let Some(least) = can.least_ttl_of_small_looks().filter(|least| *least > can.least_ttl) {
                let text = format!(
                    "a ttl of {} or more keeps looks small: with a shorter one a worker's look at rest may read nine records \
                     instead of two, as ages fall short by up to {}",
                    brief(least),
                    brief(can.age_error)
                );
                findings.add(Grade::Ok, "fleets' ttl", text);
            }
        }
        Expiry::ObservedSilence => {
            findings.add(
                Grade::Warn,
                "takeover",
                "slower: the store can't tell the age of records here, so silence is observed for a full ttl",
            );
        }
        other => findings.add(Grade::Warn, "takeover", format!("{other:?}")),
    }
    if can.watch {
        findings.add(Grade::Ok, "wake-ups", "waiters are woken when a lease is released");
    } else {
        findings.add(Grade::Warn, "wake-ups", "none: waiters look once in a while");
    }
    findings.add(Grade::Ok, "least ttl", brief(can.least_ttl));
}

/// Writes, reads and removes a record of our own, some times.
async fn check_writes(leases: &Leases, findings: &mut Findings) {
    const TIMES: usize = 5;
    let mut spans = Vec::new();
    for n in 0..TIMES {
        let key = Key::new(format!("doctor/{}/{n}", leases.holder().as_str()));
        let key = match key {
            Ok(key) => key,
            Err(error) => return findings.add(Grade::Fail, "write", error.to_string()),
        };
        let began = boottime();
        let probed = probe(leases, &key).await;
        match probed {
            Ok(write) => spans.push(write),
            Err(error) => return findings.add(Grade::Fail, "write", error.to_string()),
        }
        if boottime().saturating_sub(began) > Duration::from_secs(2) {
            break;
        }
    }
    spans.sort();
    let median = spans.get(spans.len() / 2).copied().unwrap_or_default();
    let grade = if median > Duration::from_millis(250) { Grade::Warn } else { Grade::Ok };
    let text = format!("written, read back and removed; a write takes {:.1} ms", median.as_secs_f64() * 1e3);
    findings.add(grade, "write", text);
}

async fn probe(leases: &Leases, key: &Key) -> Result<Duration, StoreError> {
    let store = leases.store();
    let stamp = leases.clock().now().wall;
    let record = Record {
        fence: Fence::floor(stamp),
        nonce: nonces(leases).draw(),
        stamp,
        tenure: None,
        metadata: Metadata::new(),
    };
    let began = boottime();
    let write = Write { key: key.clone(), expect: Expect::Absent, record: record.clone() };
    let Outcome::Won { version, .. } = store.write(write).await? else {
        return Err(StoreError::foreign(format!("{key}, a name made up for this, is taken")));
    };
    let took = boottime().saturating_sub(began);
    let read = store.read(key).await?;
    let elapsed = boottime().saturating_sub(began);
    if !store.remove(key, version).await? {
        return Err(StoreError::foreign(format!("{key} has changed under our hands")));
    }
    match read {
        Some(stored) if stored.record == record && stored.age().is_none_or(|age| age <= elapsed) => Ok(took),
        Some(_) => Err(StoreError::foreign("what was read back is not what was written")),
        None => Err(StoreError::foreign("what was written was not there")),
    }
}

async fn check_records(leases: &Leases, findings: &mut Findings) -> Result<(), Failure> {
    /// More than any clock that is kept by NTP is off.
    const AHEAD: Duration = Duration::from_secs(60);
    let store = leases.store();
    let listing = store.list_all("").await?;
    let now = leases.clock().now().wall;
    let newest = listing
        .iter()
        .filter_map(|listed| listed.stored.as_ref().ok())
        .map(|stored| stored.record.stamp)
        .max();
    if let Some(stamp) = newest.filter(|stamp| Wall(stamp.0).since(now) > AHEAD) {
        let by = brief(stamp.since(now));
        findings.add(
            Grade::Warn,
            "clocks",
            format!("a record was written by a clock that is {by} ahead of this one"),
        );
    }
    check_fleets(&listing, now, findings);
    let mut sessions = Sessions::of(&listing, now);
    let (mut states, mut sections, mut ranges, mut damaged) = ([0; 4], 0, 0, Vec::new());
    for listed in listing {
        let view = View::of(store, &mut sessions, listed, now).await;
        if let Some(n) = states.get_mut(view.state as usize) {
            *n += 1;
        }
        if let Some(held) = view.ranges() {
            sections += 1;
            ranges += held;
        }
        if let (State::Damaged, Err(problem)) = (view.state, &view.stored) {
            damaged.push(format!("{}: {problem}", view.key));
        }
    }
    let [held, vacant, expired, bad] = states;
    findings.add(
        Grade::Ok,
        "records",
        format!("{held} held, {vacant} vacant, {expired} expired, {bad} damaged"),
    );
    if sections > 0 {
        let text = format!("{} held in {}", count(ranges, "range"), count(sections, "section"));
        findings.add(Grade::Ok, "ranges", text);
    }
    findings.damaged(&damaged);
    Ok(())
}

fn check_fleets(listing: &[Listed], now: Wall, findings: &mut Findings) {
    for picture in fleet::fleets(listing.to_vec(), now) {
        let health = fleet::health(&picture);
        let grade = if health.problems.is_empty() { Grade::Ok } else { Grade::Warn };
        findings.add(grade, "fleet", [vec![health.counts], health.problems].concat().join("; "));
        for (key, problem) in health.unreadable {
            findings.add(Grade::Fail, "damaged", format!("{key}: {problem}"));
        }
    }
}
