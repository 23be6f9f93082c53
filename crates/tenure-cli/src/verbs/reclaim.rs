//! `reclaim`: freeing the ranges of a section that dead processes have left.

use super::look::view;
use super::seize::nonces;
use crate::args;
use crate::exit::{self, Failure};
use crate::output;
use crate::stores::Url;
use crate::text::{brief, count};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;
use tenure::range::{Entry, PREFIX, Section, SectionLedger};
use tenure::{Expect, Key, Leases, Metadata, Nonce, Outcome, Record, Store, StoreError, Stored, Write};

/// How often the section is looked at.
const EVERY: Duration = Duration::from_millis(500);

pub(crate) async fn reclaim(url: &Url, typed: &args::ReclaimArgs) -> Result<u8, Failure> {
    let name = typed.section.strip_prefix(PREFIX).unwrap_or(&typed.section);
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
        output::confirm(typed.yes, &question)?;
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

/// Takes the leases out that are to go, on condition that nothing else was written.
pub(crate) async fn take_out(
    leases: &Leases,
    key: &Key,
    seen: Stored,
    is_to_go: impl Fn(&Entry) -> bool,
) -> Result<(), Failure> {
    rewrite(leases, key, seen, |standing| {
        let mut left = SectionLedger::seen_in(standing)?;
        let before = left.entries.len();
        left.entries.retain(|entry| !is_to_go(entry));
        Ok((left.entries.len() < before).then(|| left.into_metadata()))
    })
    .await
}

/// Writes what `change` makes of a record's metadata, on condition that nothing else was written; and again on what was. None: it is
/// to stay as it is.
pub(crate) async fn rewrite(
    leases: &Leases,
    key: &Key,
    seen: Stored,
    change: impl Fn(&Stored) -> Result<Option<Metadata>, StoreError>,
) -> Result<(), Failure> {
    let (mut nonces, mut standing) = (nonces(leases), seen);
    loop {
        let Some(metadata) = change(&standing)? else { return Ok(()) };
        let stamp = leases.clock().now().wall;
        let record = Record { nonce: nonces.draw(), stamp, metadata, ..standing.record };
        let write = Write { key: key.clone(), expect: Expect::Unchanged(standing.version), record };
        match leases.store().write(write).await? {
            Outcome::Won { .. } | Outcome::Lost(None) => return Ok(()),
            Outcome::Lost(Some(now)) => standing = now,
        }
    }
}
