//! `fleet adopt`: moves a running fleet from a lease table of the KCL's or a8m's layout into one of tenure's own.

use super::args;
use super::meant;
use crate::exit::{self, Failure};
use crate::say;
use crate::stores::{Missing, Url};
use crate::text::{count, escaped};
use std::collections::BTreeSet;
use std::sync::Arc;
use tenure::dynamodb::Dialect;
use tenure::dynamodb::kcl::{Options, Place, Table};
use tenure::fleet::{Adopted, Adopter, Found, Step};
use tenure::{Clock, StoreError};
use tokio::task::JoinSet;

pub(super) async fn adopt(url: &Url, typed: &args::Adopt) -> Result<u8, Failure> {
    let name = meant::name(&typed.fleet)?;
    let only =
        typed.only.iter().map(|unit| meant::unit(&name, unit)).collect::<Result<BTreeSet<String>, _>>()?;
    let from = Url::parse(&typed.from)?;
    let Some(rest) = from.of_dialect(Dialect::Kcl)? else {
        return Err(Failure::usage(
            "--from names no lease table; write dynamodb://TABLE?region=REGION&dialect=kcl",
        ));
    };
    let place = Place::from_url(rest)?;
    let (host, pid) = (tenure::clock::host_name(), std::process::id());
    let worker = format!("tenure-adopt-{host}-{pid}-{}", tenure::clock::uuid());
    let options = Options::new(worker).failover(typed.failover);
    options.check()?;
    let fleet = super::open(url, &name, Missing::Create).await?;
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let table = Table::at(place, clock).await?;
    let adopter = Arc::new(Adopter::new(table, fleet, options)?);
    let found = adopter.find().await?;
    for error in &found.damaged {
        say::note(format!("{error}; it is not moved"));
    }
    let chosen = chosen(&found, &only)?;
    if typed.dry_run {
        let lines: String = chosen.iter().map(|unit| format!("{}\n", shown(&found, unit))).collect();
        say::print(&lines)?;
        return Ok(exit::OK);
    }
    if chosen.is_empty() {
        say::note("there is nothing to move");
        return Ok(exit::OK);
    }
    let n = count(chosen.len(), "unit");
    say::confirm(
        typed.yes,
        &format!("Move {n} to fleet {name}? Each is taken from whoever works on it, and its row is deleted."),
    )?;
    let failed = move_all(&adopter, chosen, found.side_by_side).await;
    let rest = if found.damaged.is_empty() { 0 } else { found.damaged.len() };
    if failed + rest == 0 { Ok(exit::OK) } else { Err(Failure::silent(exit::SOME_FAILED)) }
}

/// What is to be moved: all that there is, or what was named.
fn chosen(found: &Found, only: &BTreeSet<String>) -> Result<Vec<String>, Failure> {
    let there: BTreeSet<String> = found.rows.keys().chain(&found.half_way).cloned().collect();
    if only.is_empty() {
        return Ok(there.into_iter().collect());
    }
    let missing: Vec<String> = only.difference(&there).map(|unit| escaped(unit)).collect();
    if missing.is_empty() {
        return Ok(only.iter().cloned().collect());
    }
    let text = format!("there is no lease {}; see --dry-run for those that there are", missing.join(", "));
    Err(Failure::new(exit::ABSENT, text))
}

fn shown(found: &Found, unit: &str) -> String {
    let name = escaped(unit);
    match found.rows.get(unit) {
        None => format!("{name}: moved already, but not open yet"),
        Some(None) => format!("{name}: nobody works on it"),
        Some(Some(worker)) => format!("{name}: {} works on it", escaped(worker)),
    }
}

/// Moves units side by side, as many at a time as peers leave to one worker. Returns how many could not be moved.
async fn move_all(adopter: &Arc<Adopter>, units: Vec<String>, at_once: usize) -> usize {
    let (mut waiting, mut moving) = (units.into_iter(), JoinSet::new());
    let (mut moved, mut failed) = (0, 0);
    loop {
        while moving.len() < at_once {
            let Some(unit) = waiting.next() else { break };
            let adopter = Arc::clone(adopter);
            moving.spawn(async move {
                let quiet = |step| {
                    if step == Step::Taken {
                        say::note(format!(
                            "{}: taken; its last owner is given time to notice",
                            escaped(&unit)
                        ));
                    }
                    true
                };
                (unit.clone(), adopter.adopt(&unit, quiet).await)
            });
        }
        let Some(done) = moving.join_next().await else { break };
        let Ok((unit, adopted)) = done else {
            failed += 1;
            continue;
        };
        moved += usize::from(matches!(adopted, Ok(Adopted::Moved | Adopted::Opened)));
        failed += usize::from(adopted.is_err());
        say::note(format!("{}: {}", escaped(&unit), outcome(&adopted)));
    }
    let rest = if failed == 0 { String::new() } else { format!(", {failed} not; run this again") };
    say::note(format!("{} moved{rest}", count(moved, "unit")));
    failed
}

fn outcome(adopted: &Result<Adopted, StoreError>) -> String {
    match adopted {
        Ok(Adopted::Moved) => "moved".to_owned(),
        Ok(Adopted::Opened) => "opened; all else was done".to_owned(),
        Ok(Adopted::Gone) => "its row was deleted meanwhile".to_owned(),
        Ok(_) => "not moved".to_owned(),
        Err(error) => format!("{error}; not moved"),
    }
}
