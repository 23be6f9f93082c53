//! `doctor`: checks the store and its records, and says what can't be promised.

mod capability;
mod file;
mod findings;
#[cfg(feature = "less")]
mod less;
mod partition;
mod probe;
mod races;
mod records;
mod server;
#[cfg(feature = "dynamodb")]
mod tables;
mod trial;

use crate::args;
use crate::exit::{self, Failure};
use crate::stores::{Missing, Url};
use crate::text::{brief, date};
use findings::{Findings, Grade, OPEN, UNBOUND};
use std::sync::Arc;
use tenure::clock::boottime;
use tenure::{AnyStore, Clock, Leases, Store};

/// Of a SQLite file.
const HELD_UP: &str = "A process that is stopped (SIGSTOP) while it writes to a SQLite file holds up all others on that file; Ctrl-Z stops \
     tenure between two writes.";

/// What no check can make better.
const LIMITS: [&str; 4] = [
    "One holder at a time holds only while clock rates stay within 10 % and no time is hidden from a process, as a paused or \
     cloned virtual machine hides it. Fences hold always: let the protected resource refuse lower ones.",
    UNBOUND,
    OPEN,
    "`tenure release` waits until the old holder can't be at work any more; with `--now`, or where a record is deleted or an older copy \
     restored by hand, two may be at work: until the old one's next renewal, or, if its lease is attached to a session with n others, for \
     n/8 + 1 thirds of a ttl.",
];

pub(crate) async fn doctor(url: &Url, typed: &args::DoctorArgs) -> Result<u8, Failure> {
    let mut findings = Findings::default();
    match examine(url, typed, &mut findings).await {
        Ok(limits) => findings.report(url, &limits, typed.json),
        Err(failure) if typed.json => {
            findings.add(Grade::Fail, "reach", &failure.text);
            findings.report(url, &[], typed.json)?;
            Err(Failure::silent(failure.code))
        }
        Err(failure) => Err(failure),
    }
}

/// Checks all that there is. Returns what no check can make better; fails if the store can't be opened or read.
async fn examine(
    url: &Url,
    typed: &args::DoctorArgs,
    findings: &mut Findings,
) -> Result<Vec<&'static str>, Failure> {
    #[cfg(feature = "dynamodb")]
    if let Some(limits) = tables::examine(url, typed.create_table, findings).await? {
        return Ok(limits);
    }
    #[cfg(feature = "less")]
    if let Some(place) = url.of_less()? {
        less::examine(&place, typed.create_table, findings).await?;
        return Ok(less::LIMITS.to_vec());
    }
    if let Some(path) = url.path() {
        file::check(path, findings);
    }
    let clock: Arc<dyn Clock> = tenure::clock::system();
    #[cfg(feature = "redis")]
    if !typed.create_table && server::unused(url, &*clock, findings).await? {
        findings.add_commands();
        check_clock(&*clock, findings);
        return Ok(LIMITS.to_vec());
    }
    let (url, store) = open(url, typed, &clock, findings).await?;
    let leases = Leases::builder(store).clock(clock).start()?;
    findings.add_commands();
    check_clock(&**leases.clock(), findings);
    server::check(&url, &leases, findings).await;
    capability::check(&leases.store().capabilities(), findings);
    if url.is_read_only() {
        findings.add(
            Grade::Warn,
            "write",
            "the file or its directory is read-only for this process: it can hold no lease here",
        );
    }
    if url.is_short_of_space() {
        findings.add(
            Grade::Fail,
            "write",
            "its disk is full: leases are refused here, or soon will be; free some space",
        );
    }
    if url.is_read_only() || url.is_short_of_space() || typed.read_only {
        trial::look(&leases, findings).await;
    } else {
        trial::write(&url, &leases, findings).await;
    }
    records::check(&url, &leases, findings).await?;
    let of_files = url.path().map(|_| HELD_UP);
    Ok(LIMITS.into_iter().chain(of_files).collect())
}

/// Opens the store. A user of Redis who may not subscribe can do everything else: it is opened without push then.
async fn open(
    url: &Url,
    typed: &args::DoctorArgs,
    clock: &Arc<dyn Clock>,
    findings: &mut Findings,
) -> Result<(Url, AnyStore), Failure> {
    let missing = if typed.create_table { Missing::CreateTable } else { Missing::Look };
    let began = boottime();
    let opened = url.open(missing, Arc::clone(clock)).await;
    let (url, store) = match (opened, url.without_push()) {
        (Ok(store), _) => (url.clone(), store),
        (Err(failure), Some(quiet)) if failure.code == exit::USAGE => {
            let Ok(store) = quiet.open(missing, Arc::clone(clock)).await else { return Err(failure) };
            let text = format!("with push=off only: {failure}");
            findings.add(Grade::Warn, "wake-ups", text);
            (quiet, store)
        }
        (Err(failure), _) => return Err(failure),
    };
    let took = boottime().saturating_sub(began);
    findings.add(Grade::Ok, "reach", format!("it was reached and opened in {}", brief(took)));
    Ok((url, store))
}

fn check_clock(clock: &dyn Clock, findings: &mut Findings) {
    /// The first days of 2024 and of 2100.
    const SANE: std::ops::Range<u64> = 1_704_067_200_000..4_102_444_800_000;
    let now = clock.now().wall;
    if SANE.contains(&now.0) {
        findings.add(Grade::Ok, "clock", date(now));
    } else {
        let text =
            format!("it is hardly {}: fences of deleted records could be repeated; set the clock", date(now));
        findings.add(Grade::Fail, "clock", text);
    }
}
