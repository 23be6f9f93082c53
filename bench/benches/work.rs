//! `tenure work` against `xargs` and GNU parallel: 20,000 units of `true` with two processes of four slots, on one SQLite file.
//! The goal is 0.8 × the time of `xargs -P 8` on the same list, in the same run.
//!
//! And how soon the first unit of a list runs that has not ended yet: whoever writes it writes one line, and waits for that unit.
//!
//! `TENURE_UNITS` sets how many units (20,000). Needs the release build of the command line, which it makes.
#![allow(missing_docs, reason = "a program")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tenure_bench::{Trouble, cpu_time_of_children, percentile, stopwatch};

const ROUNDS: usize = 3;
const SINGLE: usize = 20;

fn main() -> Result<(), Trouble> {
    let units: u32 =
        std::env::var("TENURE_UNITS").ok().and_then(|units| units.parse().ok()).unwrap_or(20_000);
    let tenure = tenure_bench::command_line::build()?;
    let dir = tempfile::tempdir()?;
    let list = dir.path().join("units");
    std::fs::write(&list, (0..units).map(|n| format!("{n}\n")).collect::<String>())?;
    println!("{units} units of `true`, {ROUNDS} rounds in turn, median");
    let (mut ours, mut theirs, mut parallel) = (Taken::default(), Taken::default(), Taken::default());
    for round in 0..ROUNDS {
        theirs.add(|| xargs(&list))?;
        parallel.add(|| gnu_parallel(&list, dir.path()))?;
        ours.add(|| work(&tenure, &list, &dir.path().join(format!("{round}.db"))))?;
    }
    let (ours, theirs, parallel) = (ours.median(), theirs.median(), parallel.median());
    println!("{:>34} {:>10} {:>10} {:>14} {:>10}", "", "seconds", "ratio", "CPU seconds", "ratio");
    for (what, taken) in [
        ("xargs -P 8 -n 1 true", theirs),
        ("parallel -j 8 true", parallel),
        ("2 × tenure work --parallel 4", ours),
    ] {
        let [(wall, of_wall), (cpu, of_cpu)] = [(taken.0, theirs.0), (taken.1, theirs.1)]
            .map(|(ours, theirs)| (ours.as_secs_f64(), ours.as_secs_f64() / theirs.as_secs_f64()));
        println!("{what:>34} {wall:>10.2} {of_wall:>10.2} {cpu:>14.2} {of_cpu:>10.2}");
    }
    let mut soon: Vec<Duration> = (0..SINGLE)
        .map(|n| first_unit(&tenure, &dir.path().join(format!("s{n}.db"))))
        .collect::<Result<_, _>>()?;
    let (p50, p99) = (percentile(&mut soon, 50), percentile(&mut soon, 99));
    println!("start to first unit of a list that goes on, {SINGLE} times: p50 {p50:.1?}, p99 {p99:.1?}");
    Ok(())
}

/// Time by the clock, and the processor's, of which others on the machine take less away.
#[derive(Default)]
struct Taken {
    wall: Vec<Duration>,
    cpu: Vec<Duration>,
}

impl Taken {
    fn add(&mut self, round: impl FnOnce() -> Result<Duration, Trouble>) -> Result<(), Trouble> {
        let before = cpu_time_of_children();
        self.wall.push(round()?);
        self.cpu.push(cpu_time_of_children().saturating_sub(before));
        Ok(())
    }

    fn median(mut self) -> (Duration, Duration) {
        (percentile(&mut self.wall, 50), percentile(&mut self.cpu, 50))
    }
}

fn xargs(list: &Path) -> Result<Duration, Trouble> {
    let elapsed = stopwatch();
    let status =
        Command::new("xargs").args(["-P", "8", "-n", "1", "true"]).stdin(File::open(list)?).status()?;
    if status.success() { Ok(elapsed()) } else { Err("xargs failed".into()) }
}

fn gnu_parallel(list: &Path, home: &Path) -> Result<Duration, Trouble> {
    let elapsed = stopwatch();
    // Without its notice on how to cite it.
    let mut parallel = Command::new("parallel");
    parallel.args(["--will-cite", "-j", "8", "true"]).env("HOME", home).stdin(File::open(list)?);
    let status =
        parallel.status().map_err(|error| format!("parallel: {error} (apt-get install parallel)"))?;
    if status.success() { Ok(elapsed()) } else { Err("parallel failed".into()) }
}

/// From the start of tenure until the unit of the first line has run.
fn first_unit(tenure: &Path, db: &Path) -> Result<Duration, Trouble> {
    let elapsed = stopwatch();
    let mut child = Command::new(tenure)
        .arg("--store")
        .arg(format!("sqlite:{}", db.display()))
        .args(["work", "--name", "bench", "--quiet", "--ungroup", "--", "echo", "{}"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut list), Some(out)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("there are no pipes".into());
    };
    list.write_all(b"first\n")?;
    let mut line = String::new();
    BufReader::new(out).read_line(&mut line)?;
    let took = elapsed();
    drop(list);
    if child.wait()?.success() && line == "first\n" { Ok(took) } else { Err("tenure work failed".into()) }
}

fn work(tenure: &Path, list: &Path, db: &Path) -> Result<Duration, Trouble> {
    let start = || -> std::io::Result<Child> {
        Command::new(tenure)
            .arg("--store")
            .arg(format!("sqlite:{}", db.display()))
            .args(["work", "--name", "bench", "--parallel", "4", "--from"])
            .arg(list)
            .args(["--", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
    };
    let elapsed = stopwatch();
    let (mut one, mut two) = (start()?, start()?);
    let done = one.wait()?.success() & two.wait()?.success();
    if done { Ok(elapsed()) } else { Err("tenure work failed".into()) }
}
