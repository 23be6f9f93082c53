//! `fleet adopt`: moves a running fleet from a lease table of the KCL's or a8m's layout into one of tenure's own.

use crate::args::fleet as args;
use crate::config::fleet as config;
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::{Missing, Url};
use crate::text::{brief, count, escaped};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tenure::dynamodb::Dialect;
use tenure::fleet::{Fleet, FleetName};
use tenure::{AcquireError, Clock, Guard, Leases, StoreError};
use tenure_kcl::adopt::{Adopted, AdoptedAll, Adopter, AdoptionFindings, AdoptionProgress, AdoptionStep};
use tenure_kcl::{Options, Peers, Place, Table};

pub(super) async fn adopt(url: &Url, typed: &args::FleetAdoptArgs) -> Result<u8, Failure> {
    let name = config::name(&typed.fleet)?;
    let only =
        typed.only.iter().map(|unit| config::unit(&name, unit)).collect::<Result<BTreeSet<String>, _>>()?;
    let from = Url::parse(&typed.from)?;
    let Some(rest) = from.of_dialect(Dialect::Kcl)? else {
        return Err(Failure::usage(
            "--from names no lease table; write dynamodb://TABLE?region=REGION&dialect=kcl",
        ));
    };
    let place = Place::from_url(rest)?;
    let (host, pid) = (tenure::clock::host_name(), std::process::id());
    let worker = format!("{host}-{pid}-{}", tenure::clock::uuid());
    let mut options = Options::new(worker).failover(typed.failover);
    if let Some(are_shards) = place.shards() {
        options = options.shards(are_shards);
    }
    options.check()?;
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let of_kcl = place.format().peers() == Peers::Kcl;
    let table = Table::at(place, Arc::clone(&clock)).await?;
    // A look makes nothing.
    let is_missing = url.path().is_some_and(|path| !path.exists());
    let there = if typed.dry_run && is_missing { &Url::Memory } else { url };
    let store = there.open(Missing::Create, clock).await?;
    let adopter = Adopter::new(table, Fleet::new(store.clone(), name.as_str())?, options)?;
    let found = adopter.find().await?;
    say_what_stays(&found, &only, &name);
    let chosen = chosen(&found, &only)?;
    // Those that are made again are told and dealt with by themselves.
    let damaged = found.damaged.len() - found.remade.len();
    let is_whole = found.resharding.is_empty() && found.doubtful.is_subset(&only) && damaged == 0;
    if typed.dry_run {
        let lines: String = chosen.iter().map(|unit| format!("{}\n", shown(&found, unit))).collect();
        output::print(&lines)?;
        let is_doubtful = !found.remade.is_empty()
            || !is_whole
            || chosen.iter().any(|unit| found.beside.contains_key(unit));
        return if is_doubtful { Err(Failure::silent(exit::SOME_FAILED)) } else { Ok(exit::OK) };
    }
    if chosen.is_empty() && found.remade.is_empty() {
        output::note("there is nothing to move");
        return if is_whole { Ok(exit::OK) } else { Err(Failure::silent(exit::SOME_FAILED)) };
    }
    let (n, to) = (count(chosen.len(), "unit"), url.shown());
    output::confirm(
        typed.yes,
        &format!(
            "Move {n} to fleet {name} in {to}? Each is taken from whoever works on it, and its row is deleted."
        ),
    )?;
    let rows_stay = rows_stay(&found, &chosen);
    let watch = typed.watch.unwrap_or_else(|| usual_watch(of_kcl, rows_stay, typed.failover));
    let leases = Leases::builder(store).session_ttl(TURN).start()?;
    let turn = turn(&leases, &name).await?;
    if let Some(rival) = adopter.rival().await? {
        return Err(adopts_already(&rival));
    }
    let (named, chosen): (Vec<String>, Vec<String>) =
        chosen.into_iter().partition(|unit| found.doubtful.contains(unit));
    let opened = open_all(&adopter, &named).await;
    let known = found.remade.into_iter().chain(named).collect();
    let all = match opened {
        Ok(()) => {
            let leader = of_kcl.then_some(LeaderWarning { rows_stay });
            move_all(&adopter, chosen, known, watch, leader).await
        }
        Err(error) => Err(error),
    };
    turn.release().await;
    leases.stop().await;
    let all = all?;
    output::note(format!("{} moved", count(all.moved, "unit")));
    for unit in &all.doubtful {
        output::note(doubtful(unit, &name));
    }
    let is_done = is_whole
        && all.doubtful.is_empty()
        && all.resharding.is_empty()
        && all.failed.is_empty()
        && !all.remade.is_doubtful();
    if is_done { Ok(exit::OK) } else { Err(Failure::silent(exit::SOME_FAILED)) }
}

/// Tells of what is not moved, and why.
fn say_what_stays(found: &AdoptionFindings, only: &BTreeSet<String>, fleet: &FleetName) {
    for error in &found.damaged {
        output::note(format!("{error}; it is not moved"));
    }
    if found.skipped > 0 {
        output::note(crate::work::fleet::skipped(found.skipped));
    }
    for (child, parent) in &found.resharding {
        output::note(format!(
            "{}: waits for {}, its parent, which is being read still; neither is moved now, as a fleet knows no order of shards: run \
             this again once the parent was read to its end",
            escaped(child),
            escaped(parent)
        ));
    }
    if !found.finished.is_empty() {
        let shards = count(found.finished.len(), "shard");
        output::note(format!(
            "{shards} read to the end already (SHARD_END): not moved, as there is no work left"
        ));
    }
    for unit in found.doubtful.difference(only) {
        output::note(doubtful(unit, fleet));
    }
}

/// Whether the table has leases once all that was chosen is moved, in the order of names.
fn rows_stay(found: &AdoptionFindings, chosen: &[String]) -> bool {
    let is_moved = |row: &String| chosen.binary_search(row).is_ok();
    !found.finished.is_empty() || !found.resharding.is_empty() || !found.rows.keys().all(is_moved)
}

/// How long rows are watched unless said otherwise.
fn usual_watch(of_kcl: bool, rows_stay: bool, failover: Duration) -> Duration {
    /// The KCL's leader looks each two minutes.
    const LOOKS: Duration = Duration::from_secs(120);
    /// For what it does then.
    const SPARE: Duration = Duration::from_secs(60);
    let usual = failover.saturating_mul(2);
    // It fills an empty table at its next look. What is missing beside other leases it makes at the third that misses it.
    let looks = if rows_stay { 3 } else { 1 };
    if of_kcl { usual.max(LOOKS * looks + SPARE) } else { usual }
}

/// How long an adopter's turn lasts that has died.
const TURN: Duration = Duration::from_secs(5);

/// Waits for this process's turn, for as long as a dead one's may last.
async fn turn(leases: &Leases, name: &FleetName) -> Result<Guard, Failure> {
    let key = format!("adopt/{name}");
    match leases.try_acquire(&key).await {
        Ok(guard) => return Ok(guard),
        Err(AcquireError::Held(_)) => {
            output::note("another adoption is under way, or has died; waiting a little")
        }
        Err(error) => return Err(error.into()),
    }
    match leases.acquire_within(&key, TURN + Duration::from_secs(3)).await {
        Ok(guard) => Ok(guard),
        Err(AcquireError::Held(Some(occupant))) => Err(adopts_already(occupant.holder.as_str())),
        Err(error) => Err(error.into()),
    }
}

fn adopts_already(who: &str) -> Failure {
    let text = format!("{} adopts already; wait for its end, or end it and try again", escaped(who));
    Failure::new(exit::HELD, text)
}

/// What is to be moved: all that there is, or what was named.
fn chosen(found: &AdoptionFindings, only: &BTreeSet<String>) -> Result<Vec<String>, Failure> {
    let mut there: BTreeSet<String> = found.rows.keys().chain(&found.half_way).cloned().collect();
    if only.is_empty() {
        return Ok(there.into_iter().collect());
    }
    there.extend(found.doubtful.iter().cloned());
    let missing: Vec<String> = only.difference(&there).map(|unit| escaped(unit)).collect();
    if missing.is_empty() {
        return Ok(only.iter().cloned().collect());
    }
    let is_kept = |unit: &String| {
        let of_family = found.resharding.iter().any(|(child, parent)| child == unit || parent == unit);
        of_family || found.finished.contains(unit)
    };
    if let Some(kept) = only.difference(&there).find(|unit| is_kept(unit)) {
        let text = format!("{} is not moved now, for the order of shards, as said above", escaped(kept));
        return Err(Failure::new(exit::SOME_FAILED, text));
    }
    let text = format!("there is no lease {}; see --dry-run for those that there are", missing.join(", "));
    Err(Failure::new(exit::ABSENT, text))
}

/// What is to be said of a unit that stays closed.
fn doubtful(unit: &str, fleet: &FleetName) -> String {
    let unit = escaped(unit);
    format!(
        "{unit}: not opened: an adoption was killed as it was about to delete its row, which is gone. If a worker has had it since and done its \
         work, remove the unit (tenure fleet rm {fleet} {unit}); else open it by --only {unit}"
    )
}

fn shown(found: &AdoptionFindings, unit: &str) -> String {
    let name = escaped(unit);
    let who = |worker: &Option<String>| match worker {
        Some(worker) => format!("{} works on it", escaped(worker)),
        None => "nobody works on it".to_owned(),
    };
    if let Some(worker) = found.beside.get(unit) {
        let who = who(worker);
        return format!(
            "{name}: {who}, beside the fleet, which has a unit of that name open: two may work on it; end whoever makes that row, and delete \
             one of the two"
        );
    }
    match found.rows.get(unit) {
        None if found.doubtful.contains(unit) => {
            format!("{name}: its row is gone, perhaps since its work is done; it is opened, as it is named")
        }
        None => format!("{name}: moved already, but not open yet"),
        Some(worker) => format!("{name}: {}", who(worker)),
    }
}

/// Opens units that are named though nobody knows who has deleted their rows.
async fn open_all(adopter: &Adopter, units: &[String]) -> Result<(), Failure> {
    for unit in units {
        adopter.open_doubtful(unit).await?;
        output::note(format!("{}: opened", escaped(unit)));
    }
    Ok(())
}

/// What is to be said of the KCL's leader as the watch begins: it makes missing leases again.
#[derive(Debug, Clone, Copy)]
struct LeaderWarning {
    /// Whether the table has leases still, which the KCL's processes work on.
    rows_stay: bool,
}

impl LeaderWarning {
    fn note_of(&mut self, adopted: &Result<Adopted, StoreError>) {
        self.rows_stay |= matches!(adopted, Err(_) | Ok(Adopted::Resharding));
    }

    fn text(self) -> &'static str {
        if self.rows_stay {
            "leases stay in the table, for the KCL's processes: their leader makes those again that were moved, at the initial position, unless \
             leasesRecoveryAuditorExecutionFrequencyMillis was raised in all of them before (it is 2 minutes); --dry-run names such leases later on"
        } else {
            "end the KCL's processes now, within that time: their leader makes missing leases again, at the initial position \
             (leasesRecoveryAuditorExecutionFrequencyMillis, each 2 minutes), and the shards would be worked on twice"
        }
    }
}

/// Moves units, says what happens, and names what is doubtful in the end.
async fn move_all(
    adopter: &Adopter,
    units: Vec<String>,
    known: BTreeSet<String>,
    watch: Duration,
    mut leader: Option<LeaderWarning>,
) -> Result<AdoptedAll, Failure> {
    let all = adopter.adopt_all(units, known, watch, move |progress| match progress {
        AdoptionProgress::Step(unit, AdoptionStep::Taken) => {
            output::note(format!("{}: taken; its last owner is given time to notice", escaped(unit)));
        }
        AdoptionProgress::Done(unit, adopted) => {
            output::note(format!("{}: {}", escaped(unit), outcome(adopted)));
            if let Some(leader) = &mut leader {
                leader.note_of(adopted);
            }
        }
        AdoptionProgress::Watching(span) => {
            output::note(format!("watching for {} whether other programs make rows again", brief(span)));
            if let Some(leader) = leader {
                output::note(leader.text());
            }
        }
        AdoptionProgress::Remade(remade) => {
            for unit in &remade.deleted {
                output::note(format!(
                    "{}: its row was made again by another program, and is deleted again",
                    escaped(unit)
                ));
            }
        }
        AdoptionProgress::LookFailed(error) => output::note(error.to_string()),
        _ => {}
    });
    let all = all.await?;
    for (unit, worker) in &all.remade.taken {
        let who = worker.as_deref().map_or_else(|| "nobody".to_owned(), escaped);
        output::note(format!(
            "{}: its row was made again, and {who} has it, beside the fleet: two may work on this unit; stop whoever writes to \
             the table, and delete that row",
            escaped(unit)
        ));
    }
    for unit in &all.remade.restless {
        output::note(format!(
            "{}: its row is made again and again, by the KCL's leader or by a program that writes without a condition; stop that program, and then \
             delete the row, which is beside the fleet's",
            escaped(unit)
        ));
    }
    let passing = all.failed.values().filter(|error| error.is_passing()).count();
    let lasting = all.failed.len() - passing;
    if passing > 0 {
        output::note(format!("{} not moved for reasons that pass; run this again", count(passing, "unit")));
    }
    if lasting > 0 {
        output::note(format!(
            "{} not moved for the reasons above, which have to be mended first",
            count(lasting, "unit")
        ));
    }
    Ok(all)
}

fn outcome(adopted: &Result<Adopted, StoreError>) -> String {
    match adopted {
        Ok(Adopted::Moved) => "moved".to_owned(),
        Ok(Adopted::Opened) => "opened; all else was done".to_owned(),
        Ok(Adopted::Gone) => "its row was deleted meanwhile".to_owned(),
        Ok(Adopted::Doubtful) => "its row is gone".to_owned(),
        Ok(Adopted::Resharding) => {
            "not moved: meanwhile its shard was read to its end, or got children; run this again later"
                .to_owned()
        }
        Ok(_) => "not moved".to_owned(),
        Err(error) => format!("{error}; not moved"),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: the watch lasts for as long as the KCL's leader may take, by what stays in the table; elsewhere by the failover time. Who is to end the KCL's
    //! processes is told so only where nothing is left for them.
    use super::*;

    #[test]
    fn the_watch_outlasts_the_look_at_which_the_kcl_s_leader_makes_leases_again() {
        let usual = |of_kcl, rows_stay, failover| {
            usual_watch(of_kcl, rows_stay, Duration::from_secs(failover)).as_secs()
        };
        assert_eq!((usual(true, false, 10), usual(true, true, 10)), (180, 420));
        assert_eq!((usual(true, false, 600), usual(true, true, 600)), (1200, 1200));
        assert_eq!((usual(false, false, 10), usual(false, true, 10)), (20, 20));
    }

    #[test]
    fn the_kcl_s_processes_are_to_end_only_where_no_lease_is_left_for_them() {
        let is_to_end = |rows_stay, adopted: Result<Adopted, StoreError>| {
            let mut leader = LeaderWarning { rows_stay };
            leader.note_of(&adopted);
            leader.text().starts_with("end the KCL's processes now")
        };
        assert!(is_to_end(false, Ok(Adopted::Moved)) && !is_to_end(true, Ok(Adopted::Moved)));
        assert!(!is_to_end(false, Ok(Adopted::Resharding)));
        assert!(!is_to_end(false, Err(StoreError::unavailable("no answer"))));
    }

    #[test]
    fn rows_stay_that_are_not_chosen_or_must_not_move() {
        let found = || {
            let rows = ["a", "b"].map(|unit| (unit.to_owned(), None));
            let mut found = AdoptionFindings::default();
            found.rows.extend(rows);
            found
        };
        let (all, one) = (["a", "b"].map(str::to_owned), ["a".to_owned()]);
        assert!(!rows_stay(&found(), &all) && rows_stay(&found(), &one));
        let (mut finished, mut resharding) = (found(), found());
        finished.finished.insert("old".to_owned());
        resharding.resharding.insert("child".to_owned(), "parent".to_owned());
        assert!(rows_stay(&finished, &all) && rows_stay(&resharding, &all));
    }
}
