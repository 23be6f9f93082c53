//! What a semaphore's record says, as people and programs are shown it.

use crate::text::date;
use serde_json::json;
use std::collections::BTreeSet;
use tenure::permits::{Mode, SemaphoreLedger, Ticket};
use tenure::store::Stored;
use tenure::{StoreError, Wall};

/// The holders of a semaphore, and those who wait.
#[derive(Debug)]
pub(crate) struct PermitsView(SemaphoreLedger);

impl PermitsView {
    /// None if the record is not a semaphore's.
    pub(crate) fn of(stored: &Stored) -> Option<Result<PermitsView, StoreError>> {
        tenure::permits::is_semaphore(&stored.record)
            .then(|| SemaphoreLedger::of(&stored.record).map(PermitsView))
    }

    /// Whether nobody holds or wants anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many permits are out, of how many, and how many wait.
    pub(crate) fn status(&self) -> String {
        let SemaphoreLedger { permits, holders, queue, .. } = &self.0;
        let out = match holders.first().map(|grant| grant.ticket.mode) {
            None => "none out".to_owned(),
            Some(Mode::Exclusive) => "exclusively".to_owned(),
            Some(Mode::Shared) if *permits == SemaphoreLedger::MOST_PERMITS => {
                format!("shared by {}", holders.len())
            }
            Some(_) => format!("{} of {permits}", self.0.out()),
        };
        if queue.is_empty() { out } else { format!("{out}; {} waiting", queue.len()) }
    }

    /// The holder, or how many there are.
    pub(crate) fn holders(&self) -> Option<String> {
        let holders: BTreeSet<&str> =
            self.0.holders.iter().map(|grant| grant.ticket.holder.as_str()).collect();
        match holders.len() {
            0 | 1 => holders.first().map(|holder| (*holder).to_owned()),
            n => Some(format!("{n} holders")),
        }
    }

    /// Since when the first has it.
    pub(crate) fn since(&self) -> Option<Wall> {
        self.0.holders.first().map(|grant| grant.ticket.since)
    }

    /// One line for each holder, and then for each who waits.
    pub(crate) fn lines(&self) -> impl Iterator<Item = String> {
        let held = self.0.holders.iter().map(|grant| {
            format!(
                "{}  {}  fence {}, asked {}",
                what(&grant.ticket),
                grant.ticket.holder,
                grant.fence,
                date(grant.ticket.since)
            )
        });
        let waits = self.0.queue.iter();
        held.chain(
            waits.map(|ticket| {
                format!("{}  {}  waits since {}", what(ticket), ticket.holder, date(ticket.since))
            }),
        )
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let ticket = |ticket: &Ticket, fence: Option<u64>| {
            json!({
                "holder": ticket.holder.as_str(),
                "session": {"key": ticket.attachment.session.as_str(), "fence": ticket.attachment.fence.0},
                "mode": if ticket.mode == Mode::Exclusive { "exclusive" } else { "shared" },
                "permits": ticket.permits,
                "fence": fence,
                "since": date(ticket.since),
            })
        };
        let permits = (self.0.permits != SemaphoreLedger::MOST_PERMITS).then_some(self.0.permits);
        let holders = self.0.holders.iter().map(|grant| ticket(&grant.ticket, Some(grant.fence.0)));
        let queue = self.0.queue.iter().map(|waits| ticket(waits, None));
        json!({
            "permits": permits,
            "holders": holders.collect::<serde_json::Value>(),
            "queue": queue.collect::<serde_json::Value>(),
        })
    }
}

fn what(ticket: &Ticket) -> String {
    match ticket.mode {
        Mode::Exclusive => ticket.mode.to_string(),
        mode => format!("{} {mode}", ticket.permits),
    }
}
