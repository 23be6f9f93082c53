//! `reclaim`: freeing the ranges of a section that dead processes have left.

use super::look::view;
use crate::args;
use crate::config::section_name;
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::Url;
use crate::stores::rewrite::take_out;
use crate::text::{brief, count};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure::Key;
use tenure::range::{PREFIX, Section, SectionLedger};
use tenure::store::Nonce;

/// How often the section is looked at.
const EVERY: Duration = Duration::from_millis(500);

pub(crate) async fn reclaim(url: &Url, typed: &args::ReclaimArgs) -> Result<u8, Failure> {
    let name = section_name(&typed.section);
    let key = Key::new(format!("{PREFIX}{name}"))?;
    let leases = super::open(url).await?;
    let stored = view(&leases, &key).await?.sound()?.clone();
    let ledger = SectionLedger::of(&stored.record)?;
    let freed = if typed.now {
        let stand = ledger.entries.len();
        let question = format!(
            "{key} has {}. Whoever holds them may still be at work, and doesn't find out. Take all of their ranges away now?",
            count(stand, "lease")
        );
        if stand > 0 {
            output::confirm(typed.yes, &question)?;
        }
        let gone: BTreeSet<Nonce> = ledger.entries.iter().map(|entry| entry.id).collect();
        take_out(&leases, &key, stored, |entry| gone.contains(&entry.id)).await?;
        stand
    } else {
        let section = Section::builder(leases.store().clone(), name).clock(leases.clock().clone()).start()?;
        wait(&section, &ledger).await?
    };
    if typed.json {
        output::json(&json!({"section": key.as_str(), "freed": freed}))?;
    } else {
        output::note(format!("{key}: {} over, and what was leased is free", count(freed, "lease")));
    }
    Ok(exit::OK)
}

/// Waits until every lease that stood there at first is given up or over. One process that looks for as long as a lease lasts
/// knows its end, whatever ages the store tells, and however often others write.
async fn wait(section: &Section, ledger: &SectionLedger) -> Result<usize, Failure> {
    let ids: BTreeSet<Nonce> = ledger.entries.iter().map(|entry| entry.id).collect();
    let Some(longest) = ledger.entries.iter().map(|entry| entry.duration.duration()).max() else {
        return Ok(0);
    };
    output::note(format!("{}: waits for {} at the most", section.key(), brief(longest)));
    loop {
        section.reclaim().await?;
        if section.list().await?.iter().all(|entry| !ids.contains(&entry.id)) {
            return Ok(ids.len());
        }
        tokio::time::sleep(EVERY).await;
    }
}
