//! What a semaphore's record says, as people and programs are shown it.

use crate::output::about::{SessionAbouts, about};
use crate::output::holders::holders_shown;
use crate::output::json::fields;
use crate::text::date;
use serde_json::json;
use tenure::permits::{Mode, SemaphoreLedger, Ticket};
use tenure::store::{Attachment, Stored};
use tenure::{StoreError, Wall};

/// The holders of a semaphore, and those who wait.
#[derive(Debug)]
pub(crate) struct PermitsView(pub(crate) SemaphoreLedger);

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

    /// The holder, or how many there are: for people.
    pub(crate) fn holders_shown(&self) -> Option<String> {
        holders_shown(self.0.holders.iter().map(|grant| grant.ticket.holder.as_str()))
    }

    /// What the holders' claims, and then those of who waits, are attached to.
    pub(crate) fn attachments(&self) -> impl Iterator<Item = &Attachment> {
        let holders = self.0.holders.iter().map(|grant| &grant.ticket);
        holders.chain(&self.0.queue).map(|ticket| &ticket.attachment)
    }

    /// What is told of the holder, if there is one alone.
    pub(crate) fn about_holder(&self, abouts: &SessionAbouts) -> Option<String> {
        let first = &self.0.holders.first()?.ticket;
        let is_alone = self.0.holders.iter().all(|grant| grant.ticket.holder == first.holder);
        is_alone.then(|| abouts.get(&first.attachment).and_then(about)).flatten()
    }

    /// Since when the first has it.
    pub(crate) fn since(&self) -> Option<Wall> {
        self.0.holders.first().map(|grant| grant.ticket.since)
    }

    /// One line for each holder, and then for each who waits.
    pub(crate) fn lines(&self, abouts: &SessionAbouts) -> impl Iterator<Item = String> {
        let told = |ticket: &Ticket| {
            let about = abouts.get(&ticket.attachment).and_then(about);
            about.map_or_else(String::new, |about| format!(" ({about})"))
        };
        let held = self.0.holders.iter().map(move |grant| {
            let ticket = &grant.ticket;
            format!(
                "{}  {}{}  fence {}, asked {}",
                what(ticket),
                ticket.holder,
                told(ticket),
                grant.fence,
                date(ticket.since)
            )
        });
        let waits = self.0.queue.iter();
        held.chain(waits.map(move |ticket| {
            let (what, since) = (what(ticket), date(ticket.since));
            format!("{what}  {}{}  waits since {since}", ticket.holder, told(ticket))
        }))
    }

    pub(crate) fn json(&self, abouts: &SessionAbouts) -> serde_json::Value {
        let ticket = |ticket: &Ticket, fence: Option<u64>| {
            json!({
                "holder": ticket.holder.as_str(),
                "session": session(&ticket.attachment, abouts),
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

/// A session that something is attached to, with what it says of its process where that was looked up.
pub(crate) fn session(attachment: &Attachment, abouts: &SessionAbouts) -> serde_json::Value {
    let mut session = json!({"key": attachment.session.as_str(), "fence": attachment.fence.0});
    if let Some(about) = abouts.get(attachment) {
        session["about"] = fields(about);
    }
    session
}

fn what(ticket: &Ticket) -> String {
    match ticket.mode {
        Mode::Exclusive => ticket.mode.to_string(),
        mode => format!("{} {mode}", ticket.permits),
    }
}
