//! One cell: episodes of one fault on one store, and what was seen in them.

use crate::check::{gone_back, old_accepted, overlaps};
use crate::ledger::keep;
use crate::matrix::{InjectedFault, Promise};
use crate::raw;
use crate::stage::{Broken, CellStage, LONG, NAMES, StoreLane};
use std::path::PathBuf;
use std::time::Duration;

/// Besides what promise L1 gives: what requests and new connections take on a host that has time for them.
const REQUESTS: Duration = Duration::from_millis(500);
/// How often in a takeover somebody has to be woken, one after the other: each may be as late as the worst of that time.
const WAKES: u32 = 12;
/// So many ttls after a fault nobody believes by a claim from before its end: a clock whose rate is 50 % off makes 1.64 of them of a belief.
const SETTLED: u32 = 2;

/// How much of it.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    pub(crate) episodes: u32,
    /// Tenures before each fault, at least.
    pub(crate) tenures: usize,
    pub(crate) ttl: Duration,
}

/// What a cell has shown.
#[derive(Debug, Default)]
pub(crate) struct CellResult {
    pub(crate) episodes: u32,
    pub(crate) tenures: usize,
    pub(crate) released: usize,
    pub(crate) double_holds: usize,
    pub(crate) old_accepted: usize,
    pub(crate) refused: usize,
    /// When each fault was over.
    pub(crate) healed: Vec<u64>,
    /// Fences after a fault that are not above all before its end.
    pub(crate) gone_back: usize,
    pub(crate) lost_releases: usize,
    /// Episodes in which the store refused a write while its servers had the fault.
    pub(crate) unserved: Option<u32>,
    /// From the fault where it deposes the holder, otherwise from its end; and what was the bound of that one.
    pub(crate) slowest: (Duration, Duration),
    /// What must not be.
    pub(crate) wrong: Vec<String>,
    /// Takeovers beyond their bounds; and, where the store forgets, a key that is not vacant at the end.
    pub(crate) late: Vec<String>,
    /// The same of when it was played before.
    pub(crate) late_before: Vec<String>,
    /// Where all tenures are written down, if something is wrong.
    pub(crate) kept: Option<PathBuf>,
}

impl CellResult {
    pub(crate) fn is_right(&self) -> bool {
        self.wrong.is_empty() && self.late.is_empty()
    }

    /// Nothing was broken that is promised on a host without time, too.
    pub(crate) fn is_only_late(&self) -> bool {
        self.wrong.is_empty() && !self.late.is_empty()
    }
}

/// Plays a cell.
pub(crate) fn play(
    lane: &mut StoreLane,
    fault: InjectedFault,
    promise: Promise,
    extent: &Extent,
    broken: Option<Broken>,
) -> Result<CellResult, String> {
    let ttl = match fault {
        // There must be time for another one beside the holder.
        InjectedFault::ServerForgets
        | InjectedFault::Failover
        | InjectedFault::SentinelFailover
        | InjectedFault::RatesBeyond => extent.ttl.max(Duration::from_secs(2)),
        _ => extent.ttl,
    };
    let file = lane.folder.join(format!("{}.tenures", fault.name().replace([' ', '\''], "-")));
    let mut stage = CellStage::set(lane, fault, ttl, broken)?;
    let mut seen = CellResult::default();
    for n in 0..extent.episodes {
        let played = episode(&mut stage, fault, n, extent.tenures, &mut seen);
        played.map_err(|error| format!("episode {}: {error}", n + 1))?;
        seen.episodes += 1;
    }
    finish(&mut stage, promise, &mut seen)?;
    if broken.is_none() {
        judge(promise, &mut seen);
    }
    if !seen.is_right() {
        keep(&stage.ledger, &file)?;
        seen.kept = Some(file);
    }
    Ok(seen)
}

/// Everybody competes; one keeps the lease, where that matters; the fault; its end; and all go on.
fn episode(
    stage: &mut CellStage<'_>,
    fault: InjectedFault,
    n: u32,
    tenures: usize,
    seen: &mut CellResult,
) -> Result<(), String> {
    stage.lane.servers.revive()?;
    stage.tell_all("flow")?;
    let enough = stage.ledger.read(|told| told.tenures.len()) + tenures;
    stage.await_told("tenures before the fault", |told| (told.tenures.len() >= enough).then_some(()))?;
    stage.prepare(fault, n)?;
    let mut held = None;
    // By turns, what does not concern the holder meets one that keeps the lease, and many that come and go.
    if fault.wants_holder() || n.is_multiple_of(2) {
        let asked = raw::now();
        stage.contenders[0].tell("hold")?;
        let of_a = |told: &crate::ledger::LedgerState| {
            told.kept(NAMES[0]).filter(|kept| kept.begin > asked).cloned()
        };
        held = Some(stage.await_told("a lease to keep", of_a)?);
    }
    let mark = format!("released/{}/{n}", stage.key());
    let released = marked(stage, &mark)?;

    let span = fault.span(n, stage.ttl);
    let inflicted = stage.inflict(fault, n, span)?;
    let start = inflicted.since;
    if fault.is_of_servers() {
        *seen.unserved.get_or_insert(0) += u32::from(inflicted.refused);
    }
    if stage.heal(&inflicted)? == 0 {
        return Err("the fault was not felt by anything that passed".into());
    }
    let healed = raw::now();
    seen.healed.push(healed);

    let bound = fault.takeover(stage.lane.servers.kind, stage.ttl) + REQUESTS;
    let deposed = fault.deposes() && (span > stage.ttl * 7 / 5 || held.is_none() || is_sudden(fault));
    let (from, limit) = if deposed { (start, bound.max(span)) } else { (healed, bound) };
    if held.is_some() && !deposed {
        stage.contenders[0].tell("flow")?;
    }
    let next = stage.ledger.until(limit + LONG, |told| {
        told.since(from, |who| !deposed || who != NAMES[0]).map(|tenure| (tenure.begin, tenure.fence))
    });
    match next {
        None => return Err("nobody had the key again".into()),
        Some((begin, fence)) => {
            let took = Duration::from_nanos(begin - from);
            let late = stage.lane.load.worst(from, begin);
            let bound = bound + late * WAKES;
            seen.slowest = seen.slowest.max((took, bound));
            if took > bound {
                seen.late.push(format!(
                    "a takeover took {} ms, and {} ms are the bound, when a thread woke {} ms late",
                    took.as_millis(),
                    bound.as_millis(),
                    late.as_millis()
                ));
            }
            if held.as_ref().is_some_and(|held| deposed && held.fence >= fence) {
                seen.wrong
                    .push(format!("the fence {fence} came after {}", held.map_or(0, |held| held.fence)));
            }
        }
    }
    stage.tell_all("flow")?;
    // Whose turn it is, nobody promises; that a process goes on is.
    for name in NAMES {
        let back = stage.ledger.until(LONG, |told| told.since(healed, |who| who == name).map(|_| ()));
        if back.is_none() {
            seen.wrong.push(format!("{name} had no tenure any more, {} s after the fault", LONG.as_secs()));
        }
    }
    let (state, fence) = looked(stage, &mark)?;
    seen.lost_releases += usize::from(state != "vacant" || fence < released);
    Ok(())
}

/// The holder's record is not there any more, or its process, whatever the ttl is.
fn is_sudden(fault: InjectedFault) -> bool {
    matches!(
        fault,
        InjectedFault::HolderKilled
            | InjectedFault::ServerForgets
            | InjectedFault::Failover
            | InjectedFault::SentinelFailover
    )
}

/// A tenure of another key whose release was confirmed just before the fault.
fn marked(stage: &mut CellStage<'_>, key: &str) -> Result<u64, String> {
    repeated(stage, &format!("mark {key}")).map(|(_, fence)| fence)
}

fn looked(stage: &mut CellStage<'_>, key: &str) -> Result<(String, u64), String> {
    repeated(stage, &format!("look {key}"))
}

/// Asks the onlooker until there is an answer: a busy store takes its time.
fn repeated(stage: &mut CellStage<'_>, line: &str) -> Result<(String, u64), String> {
    let start = raw::now();
    loop {
        match stage.lane.probe.number(line) {
            Ok(answer) => return Ok(answer),
            Err(error) if raw::since(start) > LONG => return Err(format!("{line}: {error}")),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// All give up what they have. What the store shows then is what was promised to them.
fn finish(stage: &mut CellStage<'_>, promise: Promise, seen: &mut CellResult) -> Result<(), String> {
    stage.tell_all("rest")?;
    stage.await_told("rest", |told| told.ready.values().all(|rests| *rests).then_some(()))?;
    let key = stage.key().to_owned();
    let start = raw::now();
    // A claim that was under way when its process was told to rest is given back a moment later.
    let (mut state, mut fence) = loop {
        let (state, fence) = looked(stage, &key)?;
        if state == "vacant" || raw::since(start) > stage.ttl * 2 {
            break (state, fence);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    // One that a slow network has delivered long after that stands until somebody wants the key, who is to have it in time: it is not renewed, or
    // its process is asked for it.
    let start = raw::now();
    while state != "vacant" && raw::since(start) < stage.ttl * 4 {
        match stage.lane.probe.number(&format!("mark {key}")) {
            Ok((_, taken)) => (state, fence) = ("vacant".to_owned(), taken),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
    stage.ledger.read(|told| {
        let highest = told.tenures.iter().map(|tenure| tenure.fence).max().unwrap_or(0);
        if state != "vacant" || (promise == Promise::S && fence < highest) {
            seen.lost_releases += 1;
            seen.wrong.push(format!("at the end the record is {state} with fence {fence}, after {highest}"));
        }
        let found = overlaps(&told.tenures);
        seen.double_holds = found.len();
        if promise == Promise::S {
            seen.wrong.extend(found.iter().take(3).map(|both| {
                let (lower, higher) = (&both.lower, &both.higher);
                let over = (lower.end.saturating_sub(higher.begin)) / 1000;
                format!(
                    "{} with fence {} and {} with {} overlap by {over} µs",
                    lower.who, lower.fence, higher.who, higher.fence
                )
            }));
        }
        let settled = u64::try_from((stage.ttl * SETTLED).as_nanos()).unwrap_or(u64::MAX);
        let back = gone_back(&told.tenures, &seen.healed, settled);
        seen.gone_back = back.len();
        seen.wrong.extend(back.iter().take(3).map(|both| {
            let (lower, higher) = (&both.lower, &both.higher);
            let (after, before) = (lower.fence, higher.fence);
            format!("{} had the fence {after} after a fault, and {} {before} before", lower.who, higher.who)
        }));
        (seen.tenures, seen.released) = (told.tenures.len(), told.released);
    });
    let asked = stage.resource.asked();
    seen.old_accepted = old_accepted(&asked);
    seen.refused = asked.iter().filter(|write| !write.accepted).count();
    Ok(())
}

/// What is promised, and that what may happen was seen to.
fn judge(promise: Promise, seen: &mut CellResult) {
    if seen.old_accepted > 0 {
        seen.wrong.push(format!("{} old fences were accepted", seen.old_accepted));
    }
    match promise {
        Promise::S if seen.lost_releases > 0 => {
            seen.wrong.push(format!("{} releases were forgotten", seen.lost_releases));
        }
        Promise::F | Promise::A if seen.double_holds == 0 => {
            seen.wrong.push("no two held at once, though the cell is to show that they may".into());
        }
        _ => {}
    }
}
