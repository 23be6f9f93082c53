//! Single commands of the command line beside the system's own: `run --try` beside `flock`, with an optimum that is the bare command; and `ls` of a
//! million records: how long it takes, and how much memory. How long it takes from the end of a command to that of whoever ran it is measured by
//! `cat`, which ends when its input does.
//!
//! The goal is 3 × the time of `flock -n FILE true`. `TENURE_RECORDS` sets how many records (1,000,000). Needs the release build of the
//! command line, which it makes.
#![allow(missing_docs, reason = "a program")]

use std::io::{Read, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure_bench::{Trouble, command_line, percentile, stopwatch};
use tenure_core::op::{Expect, Write};
use tenure_core::{Fence, Key, Metadata, Nonces, Record, Wall};
use tenure_store::Store;

const TIMES: usize = 200;

fn main() -> Result<(), Trouble> {
    let records: u64 =
        std::env::var("TENURE_RECORDS").ok().and_then(|records| records.parse().ok()).unwrap_or(1_000_000);
    let tenure = command_line::build()?;
    let dir = tempfile::tempdir()?;
    let store = format!("sqlite:{}", dir.path().join("leases.db").display());
    one_command(&tenure, &store, &dir.path().join("lock"))?;
    listings(&tenure, dir.path(), records)
}

type Measure = fn(&mut Command) -> Result<Duration, Trouble>;

/// In turn, so that whatever else the machine does meets all of them.
fn one_command(tenure: &Path, store: &str, lock: &Path) -> Result<(), Trouble> {
    println!("{TIMES} times in turn");
    let measures: [(_, _, Measure); 2] =
        [("", "true", once), ("from the end of its input", "cat", from_its_end)];
    for (heading, program, measure) in measures {
        let mut run = Command::new(tenure);
        run.args(["--store", store, "run", "--try", "k", "--", program]);
        let mut flock = Command::new("flock");
        flock.arg("-n").arg(lock).arg(program);
        let mut bare = Command::new(program);
        let mut taken = [Vec::new(), Vec::new(), Vec::new()];
        for _ in 0..TIMES {
            for (command, taken) in [&mut bare, &mut flock, &mut run].into_iter().zip(&mut taken) {
                taken.push(measure(command)?);
            }
        }
        let rows =
            [program.to_owned(), format!("flock -n FILE {program}"), format!("run --try k -- {program}")];
        table(heading, &rows, taken);
    }
    Ok(())
}

/// The second is what they are measured by.
fn table(heading: &str, what: &[String; 3], mut taken: [Vec<Duration>; 3]) {
    println!("{heading:>28} {:>10} {:>10} {:>10}", "p50", "p99", "ratio");
    let [_, flocks, _] = &mut taken;
    let of = percentile(flocks, 50).as_secs_f64();
    for (what, taken) in what.iter().zip(&mut taken) {
        let (p50, p99) = (percentile(taken, 50), percentile(taken, 99));
        println!("{what:>28} {p50:>10.1?} {p99:>10.1?} {:>10.2}", p50.as_secs_f64() / of);
    }
}

/// From the end of the input of what runs by now, until all is over.
fn from_its_end(command: &mut Command) -> Result<Duration, Trouble> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut input), Some(mut output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("there are no pipes".into());
    };
    input.write_all(b"x")?;
    output.read_exact(&mut [0])?;
    let elapsed = stopwatch();
    drop(input);
    let status = child.wait()?;
    if status.success() { Ok(elapsed()) } else { Err(format!("{command:?}: {status}").into()) }
}

fn once(command: &mut Command) -> Result<Duration, Trouble> {
    let elapsed = stopwatch();
    let status = command.stdin(Stdio::null()).status()?;
    if status.success() { Ok(elapsed()) } else { Err(format!("{command:?}: {status}").into()) }
}

/// A tenth of them, and all: what grows with their number shows.
fn listings(tenure: &Path, dir: &Path, records: u64) -> Result<(), Trouble> {
    println!("{:>12} {:>14} {:>12} {:>14}", "records", "verb", "seconds", "memory, MiB");
    for records in [records / 10, records] {
        let file = dir.join(format!("{records}.db"));
        fill(&file, records)?;
        let store = format!("sqlite:{}", file.display());
        for verb in [&["ls", "--all"][..], &["ls", "--all", "--json"], &["gc", "--dry-run", "--json"]] {
            let elapsed = stopwatch();
            let peak = command_line::peak_of(Command::new(tenure).args(["--store", &store]).args(verb))?;
            let (seconds, mebibytes) = (elapsed().as_secs_f64(), peak as f64 / f64::from(1 << 20));
            println!(
                "{records:>12} {:>14} {seconds:>12.2} {mebibytes:>14.1}",
                verb.join(" ").replace("--", "")
            );
        }
    }
    Ok(())
}

/// A file with so many records that nobody holds.
fn fill(file: &Path, records: u64) -> Result<(), Trouble> {
    const BATCH: usize = 1000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let store = SqliteStore::open(SqliteConfig::new(file))?;
        let mut nonces = Nonces::new(1);
        let keys: Vec<Key> =
            (0..records).map(|n| Key::new(format!("some/prefix/{n:010}"))).collect::<Result<_, _>>()?;
        for keys in keys.chunks(BATCH) {
            let write = |key: &Key| {
                let (fence, nonce, metadata) = (Fence(1), nonces.draw(), Metadata::new());
                let record = Record { fence, nonce, stamp: Wall(0), tenure: None, metadata };
                Write { key: key.clone(), expect: Expect::Absent, record }
            };
            store.write_many(keys.iter().map(write).collect()).await?;
        }
        Ok(())
    })
}
