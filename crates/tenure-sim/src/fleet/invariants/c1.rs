//! C1, cost: in steady state one small read a worker and interval beside its renewal, whatever the number of units, nothing
//! is listed but for the slow audit, and the board is left alone (`World::count_settled`): also while a unit fails always, which
//! is tried ever more seldom, whoever has it.
//!
//! Source: the promise C1.

use crate::fleet::FleetScene;
use crate::fleet::Node;
use crate::kernel::clock::MILLI;
use tenure_core::Ttl;

/// At the end of a calm: what was asked for while everything was settled.
/// `roster` and `audit` are how many pages it takes to list all workers, and all there is; `twice` says that what looks show is often old, and then it is looked again.
pub(crate) fn little(
    nodes: &[Node],
    checks: &FleetScene,
    (roster, audit): (u64, u64),
    ttl: Ttl,
    rate: u64,
    twice: bool,
) -> Result<(), String> {
    let ttls = checks.settled_time / (ttl.millis() * MILLI);
    // Three looks a ttl by the fastest clock; each time that it settles may cost one more.
    let looks = ttls * 3 * (1_000_000 + rate) / 1_000_000 + ttls / 2 + 12;
    // A board that is raised may bear an alarm: then all look 32 times a ttl, for two ttls.
    let looks = looks + 2 * 32 * (1_000_000 + rate) / 1_000_000 * checks.settled_raises;
    let looks = if twice { looks * 2 } else { looks };
    for node in nodes {
        let (reads, watches) = (node.own.settled_reads, node.own.settled_watches);
        // Of the many whom a planner watches, and those who stand by, one or the other may look overdue by what is old; then it is looked
        // again.
        if reads > looks || watches > looks * (2 + roster) {
            let who = &node.who;
            let text = format!(
                "{who} read {reads} times, and {watches} to watch all, in {ttls} ttls that were settled"
            );
            return Err(text);
        }
    }
    // There is one audit in 7.5 ttls at the most by a fast clock.
    let pages = audit * (ttls / 5 + 2 + nodes.len() as u64);
    // All list when they are told of what the store refuses, and whoever is refused does so ever more seldom.
    let alone = if checks.settled_refusals == [0, 0] { 0 } else { ttls / 32 + 10 };
    let pages = pages + audit * nodes.len() as u64 * (checks.settled_raises + alone);
    if checks.settled_lists > pages {
        return Err(format!("{} pages were listed in {ttls} ttls that were settled", checks.settled_lists));
    }
    Ok(())
}

/// How often a unit that fails always may be tried in a calm of so many ttls, whoever has it: by each worker once at first, then
/// twice after each rest, of which each is twice as long as the one before, up to 32 ttls. `owners`: how often it came to another
/// worker by other ways.
pub(crate) fn tried(tries: u64, workers: u64, owners: u64, ttls: u64) -> Result<(), String> {
    let rests = (0..)
        .scan(0, |sum, n| {
            *sum += 1_u64 << u32::min(n, 5);
            (*sum <= ttls).then_some(())
        })
        .count() as u64;
    let most = workers + 2 * (rests + 1) + owners;
    if tries > most {
        return Err(format!(
            "what fails always was tried {tries} times in {ttls} ttls, and {most} are enough"
        ));
    }
    Ok(())
}

/// What units may cost that the store refuses, in a calm of so many ttls. The board is raised because of them for each worker, and then again
/// after pauses that double. A claim or a release is refused ever more seldom, up to once in 32 ttls, whatever else makes workers list.
pub(crate) fn refused(checks: &FleetScene, workers: u64, ttls: u64) -> Result<(), String> {
    let audits = ttls / (7 * workers.max(1)) + 1;
    let raises = workers * (4 + u64::from(audits.ilog2()) + audits / 32);
    let asks = ttls / 8 + 16 * workers;
    // A process that gave up what it can't read any more looks for it twice a ttl, as that may be mended at any time.
    let damaged = workers * (ttls * 5 / 2 + 16);
    let [forbidden_asks, damaged_asks] = checks.settled_refusals;
    for (what, times, most) in [
        ("the board was raised", checks.settled_raises, raises),
        ("the store was asked", forbidden_asks, asks),
        ("the store was asked", damaged_asks, damaged),
    ] {
        if times > most {
            return Err(format!(
                "{what} {times} times in {ttls} ttls for what nobody can have; {most} are enough"
            ));
        }
    }
    Ok(())
}
