//! `tenure work` against `xargs`: 20,000 units of `true` with two processes of four slots, on one SQLite file.
//! The goal is 0.8 × the time of `xargs -P 8` on the same list, in the same run.
//!
//! `TENURE_UNITS` sets how many units (20,000). Needs the release build of the command line, which it makes.
#![allow(missing_docs, reason = "a program")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tenure_bench::{cpu_time_of_children, percentile, stopwatch};

const ROUNDS: usize = 3;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let units: u32 =
        std::env::var("TENURE_UNITS").ok().and_then(|units| units.parse().ok()).unwrap_or(20_000);
    let tenure = build()?;
    let dir = tempfile::tempdir()?;
    let list = dir.path().join("units");
    std::fs::write(&list, (0..units).map(|n| format!("{n}\n")).collect::<String>())?;
    println!("{units} units of `true`, {ROUNDS} rounds in turn, median");
    let (mut ours, mut theirs) = (Taken::default(), Taken::default());
    for round in 0..ROUNDS {
        theirs.add(|| xargs(&list))?;
        ours.add(|| work(&tenure, &list, &dir.path().join(format!("{round}.db"))))?;
    }
    let (ours, theirs) = (ours.median(), theirs.median());
    println!("{:>34} {:>10} {:>10} {:>14} {:>10}", "", "seconds", "ratio", "CPU seconds", "ratio");
    for (what, taken) in [("xargs -P 8 -n 1 true", theirs), ("2 × tenure work --parallel 4", ours)] {
        let [(wall, of_wall), (cpu, of_cpu)] = [(taken.0, theirs.0), (taken.1, theirs.1)]
            .map(|(ours, theirs)| (ours.as_secs_f64(), ours.as_secs_f64() / theirs.as_secs_f64()));
        println!("{what:>34} {wall:>10.2} {of_wall:>10.2} {cpu:>14.2} {of_cpu:>10.2}");
    }
    Ok(())
}

/// Time by the clock, and the processor's, of which others on the machine take less away.
#[derive(Default)]
struct Taken {
    wall: Vec<Duration>,
    cpu: Vec<Duration>,
}

impl Taken {
    fn add(
        &mut self,
        round: impl FnOnce() -> Result<Duration, Box<dyn std::error::Error>>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let before = cpu_time_of_children();
        self.wall.push(round()?);
        self.cpu.push(cpu_time_of_children().saturating_sub(before));
        Ok(())
    }

    fn median(mut self) -> (Duration, Duration) {
        (percentile(&mut self.wall, 50), percentile(&mut self.cpu, 50))
    }
}

fn build() -> Result<PathBuf, Box<dyn std::error::Error>> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "-p", "tenure-cli", "--no-default-features"])
        .status()?;
    if !status.success() {
        return Err("the command line could not be built".into());
    }
    // This program is target/PROFILE/deps/work-…, and its profile another than that of the command line.
    let exe = std::env::current_exe()?;
    let target = exe.ancestors().nth(3).ok_or("no target directory")?;
    Ok(target.join("release").join("tenure"))
}

fn xargs(list: &Path) -> Result<Duration, Box<dyn std::error::Error>> {
    let elapsed = stopwatch();
    let status =
        Command::new("xargs").args(["-P", "8", "-n", "1", "true"]).stdin(File::open(list)?).status()?;
    if status.success() { Ok(elapsed()) } else { Err("xargs failed".into()) }
}

fn work(tenure: &Path, list: &Path, db: &Path) -> Result<Duration, Box<dyn std::error::Error>> {
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
