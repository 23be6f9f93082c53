//! The command line on two machines: `tenure elect` and `tenure work` by real processes in two namespaces, one of which is cut off
//! for a while.

use crate::check::{ContenderTenure, overlaps};
use crate::ledger::own_program;
use crate::process::OwnedProcess;
use crate::raw;
use crate::stage::{LONG, StoreLane};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

const TTL: &str = "2s";
/// Longer than the ttl, so that what the machine had is another's.
const CUT: Duration = Duration::from_secs(4);
const UNITS: usize = 60;
/// Commands that a worker runs at a time.
const PARALLEL: usize = 2;

/// An election, then a job; says what was seen.
pub(crate) fn play(lane: &mut StoreLane) -> Result<String, String> {
    let (leaders, gap) = elect(lane)?;
    work(lane, "calm", false)?;
    let again = work(lane, "cut", true)?;
    Ok(format!(
        "two machines: {leaders} terms, never two at a time, {:.1} s without a leader when its machine was cut off; {UNITS} units done \
         once each; {UNITS} more while a machine was cut off, {again} of them twice, as that machine could not tell that they were done; never two runs of one at a time",
        gap.as_secs_f64()
    ))
}

/// The command line, which was built beside this program.
fn tenure() -> Result<PathBuf, String> {
    let path = own_program()?.with_file_name("tenure");
    if path.exists() {
        Ok(path)
    } else {
        Err(format!("{} is not built: cargo xtask faults does", path.display()))
    }
}

fn start(lane: &StoreLane, machine: usize, words: &[String]) -> Result<OwnedProcess, String> {
    let mut env = lane.servers.environment();
    env.push(("TENURE_STORE", lane.servers.url(&lane.servers.addresses())));
    let mut command = lane.place(machine).command(&tenure()?, None, &env);
    command.args(words);
    OwnedProcess::logged(&mut command, &lane.folder.join(format!("tenure-{machine}.log")))
}

/// Cuts a machine off for that time; tells since when.
fn cut_off(lane: &StoreLane, machine: usize, span: Duration) -> Result<u64, String> {
    let start = raw::now();
    lane.machines[machine].rule("INPUT -j DROP")?;
    lane.machines[machine].rule("OUTPUT -j DROP")?;
    std::thread::sleep(span);
    match lane.machines[machine].open()? {
        0 => Err("nothing was lost while the machine was cut off".into()),
        _ => Ok(start),
    }
}

/// What `lead` wrote: who was at work when, by name and fence; and what was done, how often.
#[derive(Debug, Default)]
struct Log {
    spans: BTreeMap<String, Vec<ContenderTenure>>,
    done: BTreeMap<String, usize>,
}

fn read(file: &Path) -> Log {
    let mut log = Log::default();
    let text = std::fs::read_to_string(file).unwrap_or_default();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(name), Some(fence), Some(word)) = (words.next(), words.next(), words.next()) else {
            continue;
        };
        let Ok(fence) = fence.parse::<u64>() else { continue };
        let spans = log.spans.entry(name.to_owned()).or_default();
        match word.parse() {
            Err(_) => *log.done.entry(name.to_owned()).or_default() += 1,
            Ok(at) => match spans.iter_mut().find(|tenure| tenure.fence == fence) {
                Some(tenure) => tenure.end = at,
                None => spans.push(ContenderTenure {
                    who: name.to_owned(),
                    fence,
                    begin: at,
                    end: at,
                    long: false,
                }),
            },
        }
    }
    log
}

/// A leader on each machine; the one that leads is cut off, then the other one is ended. Terms, and the gap at the cut.
fn elect(lane: &StoreLane) -> Result<(usize, Duration), String> {
    let file = lane.folder.join("terms");
    let lead = own_program()?.display().to_string();
    let words = |name: &str| {
        let file = file.display().to_string();
        let words = ["elect", "two-machines", "--ttl", TTL, "--", &lead, "lead", &file, name, "0"];
        words.map(str::to_owned).to_vec()
    };
    let mut both = [start(lane, 0, &words("0"))?, start(lane, 1, &words("1"))?];
    let (first, before) = leads_after(&file, 0, |_| true)?;
    let cut = cut_off(lane, first, CUT)?;
    let (second, begin) = leads_after(&file, before, |who| who != first)?;
    let gap = Duration::from_nanos(begin.saturating_sub(cut));
    // The first one stands by again, and leads when the second ends.
    let end = raw::now();
    both[second].end(Signal::TERM, Duration::from_secs(20));
    let (_, _) = leads_after(&file, end, |who| who == first)?;
    both[first].end(Signal::TERM, Duration::from_secs(20));
    let terms: Vec<ContenderTenure> = read(&file).spans.into_values().flatten().collect();
    match overlaps(&terms).first() {
        None => Ok((terms.len(), gap)),
        Some(two) => Err(format!("two led at a time: {two:?}")),
    }
}

/// Waits until one of those leads after `start`; who, and since when. Its term may have begun before: a machine without time for it may have
/// lost the lead by itself.
fn leads_after(file: &Path, start: u64, who: impl Fn(usize) -> bool) -> Result<(usize, u64), String> {
    let waited = raw::now();
    while raw::since(waited) < LONG {
        let log = read(file);
        let mut terms = log.spans.values().flatten().filter(|term| term.end > start);
        let found =
            terms.find_map(|term| Some((term.who.parse().ok()?, term.begin)).filter(|(n, _)| who(*n)));
        if let Some(found) = found {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!("nobody leads after {} s", LONG.as_secs()))
}

/// One job by a worker on each machine; how many units were done twice.
fn work(lane: &StoreLane, name: &str, cuts: bool) -> Result<usize, String> {
    let list = lane.folder.join(format!("list-{name}"));
    let units: Vec<String> = (0..UNITS).map(|n| format!("u{n}")).collect();
    std::fs::write(&list, units.join("\n")).map_err(|error| format!("{}: {error}", list.display()))?;
    let files = [0, 1].map(|machine| lane.folder.join(format!("units-{name}-{machine}")));
    let done = || files.iter().map(|file| read(file).done.len()).sum::<usize>();
    let (program, list, parallel) =
        (own_program()?.display().to_string(), list.display().to_string(), PARALLEL.to_string());
    let words = |machine: usize| -> Vec<String> {
        let file = files[machine].display().to_string();
        let span = if cuts { "250" } else { "20" };
        let job = ["work", "--name", name, "--from", &list, "--ttl", TTL, "--parallel", &parallel, "--"];
        job.into_iter().chain([program.as_str(), "lead", &file, "{}", span]).map(str::to_owned).collect()
    };
    let mut both = [start(lane, 0, &words(0))?, start(lane, 1, &words(1))?];
    let begun = raw::now();
    let mut cut = 0;
    if cuts {
        while done() < UNITS / 6 {
            if raw::since(begun) > LONG {
                return Err("no unit was done before the cut".into());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        cut = cut_off(lane, 0, CUT)?;
    }
    while !both.iter_mut().all(OwnedProcess::has_ended) {
        if raw::since(begun) > LONG {
            return Err(format!("the job {name} is not over: {} of {UNITS} units", done()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    judge(&units, files.map(|file| read(&file)), cut).map_err(|error| format!("the job {name}: {error}"))
}

/// Each unit was done, no two runs of it overlap, and of those that were done twice the first run was on the machine that was cut off
/// from `cut` on: it ended too late for its worker to tell. How many those are.
fn judge(units: &[String], logs: [Log; 2], cut: u64) -> Result<usize, String> {
    /// What was done just before may not have been written down either.
    const JUST_BEFORE: Duration = Duration::from_secs(1);
    let mut again = 0;
    for unit in units {
        let spans = logs.iter().flat_map(|log| log.spans.get(unit).into_iter().flatten());
        if let Some(two) = overlaps(&spans.cloned().collect::<Vec<_>>()).first() {
            return Err(format!("two ran one unit at a time: {two:?}"));
        }
        let done: usize = logs.iter().filter_map(|log| log.done.get(unit)).sum();
        // By fence, the first of its runs is the one that was over when another one began.
        let first = |log: &Log| {
            log.spans.get(unit).and_then(|spans| spans.iter().map(|span| (span.fence, span.end)).min())
        };
        let [here, there] = logs.each_ref().map(first);
        match done {
            1 => {}
            2 => {
                let end =
                    here.filter(|here| there.is_none_or(|there| *here < there)).map_or(0, |(_, end)| end);
                if cut == 0 || end + (JUST_BEFORE.as_nanos() as u64) < cut {
                    return Err(format!("{unit} was done twice, and no fault explains that"));
                }
                again += 1;
            }
            other => return Err(format!("{unit} was done {other} times")),
        }
    }
    Ok(again)
}

#[cfg(test)]
mod tests {
    //! Plan: a unit is done once; twice only when a cut explains it; never, or at the same time, is wrong.
    use super::*;

    fn log(runs: &[(u64, u64, u64)], done: usize) -> Log {
        let tenure =
            |&(fence, begin, end)| ContenderTenure { who: "u".into(), fence, begin, end, long: false };
        let mut log = Log::default();
        log.spans.insert("u".into(), runs.iter().map(tenure).collect());
        log.done.insert("u".into(), done);
        log
    }

    fn judged(first: Log, second: Log, cut: u64) -> Result<usize, String> {
        judge(&["u".to_owned()], [first, second], cut)
    }

    #[test]
    fn units_are_done_once_or_a_cut_explains_it() {
        let second = Duration::from_secs(1).as_nanos() as u64;
        assert_eq!(judged(log(&[(1, 10, 20)], 1), Log::default(), 0), Ok(0));
        assert_eq!(judged(log(&[(1, 10, 20)], 0), log(&[(2, 30, 40)], 1), 0), Ok(0));
        let twice = |cut| judged(log(&[(1, 10, 20)], 1), log(&[(2, 30, 40)], 1), cut);
        assert_eq!(twice(15), Ok(1));
        assert!(twice(0).is_err() && twice(3 * second).is_err());
        assert!(judged(log(&[(1, 10, 20)], 0), Log::default(), 15).is_err(), "never");
        assert!(judged(log(&[(1, 10, 35)], 0), log(&[(2, 30, 40)], 1), 15).is_err(), "at a time");
    }
}
