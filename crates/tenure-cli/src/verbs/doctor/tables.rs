//! `doctor` on a table in the layout of other programs: whether it is fit for its leases, and who has them.

use super::findings::{Findings, Grade, OPEN, UNBOUND};
use crate::exit::Failure;
use crate::stores::Url;
use crate::text::{brief, count, date, escaped};
use crate::work::fleet::is_of_tenure;
use std::collections::BTreeMap;
use std::sync::Arc;
use tenure::clock::{boottime, system, uuid};
use tenure::dynamodb::Dialect;
use tenure::{Clock, StoreError};
use tenure_kcl as kcl;
use tenure_tabletheory as tabletheory;

/// Looks at the table, if the URL names a dialect; makes it before, if that is wanted. Returns what no check can make better.
pub(super) async fn examine(
    url: &Url,
    create: bool,
    findings: &mut Findings,
) -> Result<Option<Vec<&'static str>>, Failure> {
    if let Some(rest) = url.of_dialect(Dialect::Kcl)? {
        return lease_table(rest, create, findings).await.map(Some);
    }
    if let Some(rest) = url.of_dialect(Dialect::TableTheory)? {
        return locks(rest, create, findings).await.map(Some);
    }
    Ok(None)
}

fn add_table(findings: &mut Findings, is_new: bool) {
    let text = if is_new { "it was made, billed on demand" } else { "it is there, with the right keys" };
    findings.add(Grade::Ok, "table", text);
}

async fn lease_table(
    rest: &str,
    create: bool,
    findings: &mut Findings,
) -> Result<Vec<&'static str>, Failure> {
    const SHOWN: usize = 20;
    let place = kcl::Place::from_url(rest)?;
    let is_new = create && kcl::Table::create_at(&place).await?;
    let peers = place.format().peers();
    let are_shards = place.shards().unwrap_or(peers == kcl::Peers::Kcl);
    let began = boottime();
    let table = kcl::Table::at(place, system()).await?;
    let listing = table.list().await?;
    let took = boottime().saturating_sub(began);
    findings.add_commands();
    add_table(findings, is_new);
    findings.add(Grade::Ok, "round trip", format!("the table was opened and read in {}", brief(took)));
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    for owner in listing.rows.iter().filter_map(kcl::Row::owner) {
        *shares.entry(owner).or_default() += 1;
    }
    let free = listing.rows.len() - shares.values().sum::<usize>();
    let rows = count(listing.rows.len(), "lease");
    findings.add(Grade::Ok, "leases", format!("{rows}, {free} of them with no owner"));
    let unowned = listing.unowned(are_shards);
    if unowned > 0 && !shares.is_empty() {
        let (unowned, workers) = (count(unowned, "lease"), count(shares.len(), "worker"));
        let text = format!(
            "{unowned} with no owner beside {workers}: if that stays so for five failover times, they are dead, or have their most \
             (--parallel, maxLeasesForWorker); start another worker, or let one take more"
        );
        findings.add(Grade::Warn, "unowned", text);
    }
    for (owner, share) in shares.iter().take(SHOWN) {
        findings.add(Grade::Ok, "owner", format!("{} has {}", escaped(owner), count(*share, "lease")));
    }
    if shares.len() > SHOWN {
        findings.add(Grade::Ok, "owner", format!("and {} more", count(shares.len() - SHOWN, "worker")));
    }
    if peers == kcl::Peers::Kcl && are_shards {
        match table.kcl_version().await {
            Some(version) if is_of_leaders_that_assign(&version) => add_assigning_leader(&version, findings),
            _ => add_leader(listing.kcl_leader(), &shares, findings),
        }
    }
    match (listing.made_by(), peers) {
        (Some(kcl::Peers::A8m), kcl::Peers::Kcl) => findings.add(
            Grade::Warn,
            "layout",
            "the leases look like a8m/lease's: add &peers=a8m to the URL, everywhere",
        ),
        (Some(kcl::Peers::Kcl), kcl::Peers::A8m) => findings.add(
            Grade::Warn,
            "layout",
            "the leases look like the KCL's: leave &peers=a8m out of the URL, everywhere",
        ),
        (Some(kcl::Peers::Kcl), _) => findings.add(Grade::Ok, "layout", "the KCL's"),
        (Some(kcl::Peers::A8m), _) => findings.add(Grade::Ok, "layout", "a8m/lease's"),
        (None, _) => {}
    }
    if listing.skipped > 0 {
        findings.add(Grade::Warn, "skipped", crate::work::fleet::skipped(listing.skipped));
    }
    findings.damaged(&listing.foreign.iter().map(ToString::to_string).collect::<Vec<_>>());
    Ok(vec![
        "Leases have no fence here: a peer that was cut off works on until it hears that it has lost. `tenure fleet adopt` moves \
         them to records that have fences.",
        "Whether an owner lives can't be told from one look: its leases' counters grow while it does.",
        UNBOUND,
        OPEN,
    ])
}

/// Who looks for missing leases, by the KCL's rule of 2.x, if any of these owners is a process of the KCL's.
fn add_leader(leader: Option<&str>, owners: &BTreeMap<&str, usize>, findings: &mut Findings) {
    let Some(leader) = leader.filter(|_| !owners.keys().all(|owner| is_of_tenure(owner))) else { return };
    let name = escaped(leader);
    if is_of_tenure(leader) {
        let text = format!(
            "by the KCL's rule of 2.x it is {name}, a worker of tenure: so no process of the KCL's makes missing leases or notices changed streams, and no \
             error says so; start or stop a worker, or give that one another --name"
        );
        return findings.add(Grade::Warn, "leader", text);
    }
    findings.add(Grade::Ok, "leader", format!("by the KCL's rule of 2.x it is {name}"));
}

/// Whether processes of the KCL's that have agreed on this version have a leader that assigns leases.
fn is_of_leaders_that_assign(version: &str) -> bool {
    version.starts_with("CLIENT_VERSION_3X")
}

fn add_assigning_leader(version: &str, findings: &mut Findings) {
    let text = format!(
        "the KCL's processes have agreed on {}: their leader assigns all leases by the workers' metrics, and workers of tenure have none. End these, or \
         go back to 2.x by AWS's migration tool",
        escaped(version)
    );
    findings.add(Grade::Warn, "leader", text);
}

async fn locks(rest: &str, create: bool, findings: &mut Findings) -> Result<Vec<&'static str>, Failure> {
    let options = tabletheory::TableTheoryOptions::from_url(rest)?;
    let margin = options.margin();
    let clock: Arc<dyn Clock> = system();
    let is_new = create && tabletheory::Manager::create_table(&options).await?;
    let attribute = options.ttl_attribute().map(str::to_owned);
    let manager = tabletheory::Manager::open(options, Arc::clone(&clock), uuid).await?;
    findings.add_commands();
    add_table(findings, is_new);
    if let Some(attribute) = attribute {
        add_time_to_live(&attribute, manager.deletes_by().await, findings);
    }
    let began = boottime();
    let gap = manager.clock_gap().await?;
    let took = boottime().saturating_sub(began);
    findings.add(Grade::Ok, "round trip", format!("its clock was read in {}", brief(took)));
    let now = date(clock.now().wall);
    let off = gap.ahead.max(gap.behind);
    let side = if gap.ahead > gap.behind { "ahead of" } else { "behind" };
    if off > margin {
        let (off, margin) = (brief(off), brief(margin));
        let text = format!(
            "{now}, {off} {side} the service's or more, where {margin} are allowed (skew_ms): two could hold a lease; set the clock"
        );
        findings.add(Grade::Fail, "clock", text);
    } else {
        findings.add(
            Grade::Ok,
            "clock",
            format!(
                "{now}, as the service's to within {}",
                brief(margin.max(tabletheory::ClockGap::RESOLUTION))
            ),
        );
    }
    Ok(vec![
        "One holder at a time holds only while the wall clocks of all who use the table differ by less than the skew margin \
         (skew_ms).",
        "Leases have no fence here: a resource can't refuse whoever has lost one. tenure's own records have them.",
        UNBOUND,
        OPEN,
    ])
}

/// Whether the service deletes items by this attribute: only whoever makes a table switches that on.
fn add_time_to_live(attribute: &str, found: Result<Option<String>, StoreError>, findings: &mut Findings) {
    let (grade, text) = match found {
        Ok(Some(found)) if found == attribute => {
            (Grade::Ok, format!("items of dead holders are deleted, by the attribute {attribute:?}"))
        }
        Ok(found) => {
            let state =
                found.map_or_else(|| "off".to_owned(), |found| format!("on by another attribute, {found:?}"));
            let remedy = format!("items of dead holders stay; switch it on by the attribute {attribute:?}");
            (Grade::Note, format!("it is {state}, so that {remedy}"))
        }
        Err(error) => (Grade::Note, format!("can't be told: {error}")),
    };
    findings.add(grade, "time to live", text);
}

#[cfg(test)]
mod tests {
    //! Plan: the KCL's leader is named, with a warning if it is a worker of tenure beside others; ids are told apart; a table that keeps
    //! items of dead holders is told.
    use super::*;

    const OURS: &str = "consumer/host-1-4711-0c9f3c3e-8f0e-4a53-9d6b-6f5b0f6f0a11";

    #[test]
    fn a_leader_that_can_t_lead_is_told() {
        let graded = |leader: &str, others: &[&str]| {
            let owners = others.iter().chain([&leader]).map(|owner| (*owner, 1)).collect();
            let mut findings = Findings::default();
            add_leader(Some(leader), &owners, &mut findings);
            findings.told().into_iter().map(|(grade, _)| grade).collect::<Vec<_>>()
        };
        assert_eq!(graded(OURS, &["kcl-a"]), [Grade::Warn]);
        assert_eq!(graded("kcl-a", &[OURS]), [Grade::Ok]);
        assert_eq!(graded(OURS, &[]), [], "there is no KCL");
    }

    #[test]
    fn workers_of_tenure_are_known_by_their_ids() {
        assert!(is_of_tenure(OURS));
        let uuid = OURS.split_once("4711-").unwrap().1;
        for other in ["", "kcl-a", uuid, &format!("10.0.0.7:{uuid}"), &OURS.replace("4711", "x"), &OURS[..50]]
        {
            assert!(!is_of_tenure(other), "{other}");
        }
    }

    #[test]
    fn a_table_that_keeps_items_of_dead_holders_is_told() {
        let told = |found| {
            let mut findings = Findings::default();
            add_time_to_live("ttl", found, &mut findings);
            let [(grade, text)] = &findings.told()[..] else { panic!("one finding") };
            (*grade, text.to_string())
        };
        assert_eq!(told(Ok(Some("ttl".into()))).0, Grade::Ok);
        for (found, says) in [
            (Ok(None), "it is off"),
            (Ok(Some("expires".into())), "another attribute, \"expires\""),
            (Err(StoreError::invalid("access denied")), "access denied"),
        ] {
            let (grade, text) = told(found);
            assert!(grade == Grade::Note && text.contains(says), "{text}");
        }
    }
}
