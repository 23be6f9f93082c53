//! L6, no overtaking: nobody is granted permits before an earlier ticket of its mode, unless it barges; nor before one of the other
//! mode, so writers don't starve. And those who wait keep their order.
//!
//! Source: the promise L6; the bakery algorithm (Lamport 1974). It is checked at each write.

use tenure_core::semaphore::{SemaphoreLedger, Ticket};

/// A write has made `after` of `before`.
pub(crate) fn nobody_is_overtaken(before: &SemaphoreLedger, after: &SemaphoreLedger) -> Result<(), String> {
    let still: Vec<&Ticket> = before.queue.iter().filter(|ticket| after.place(ticket.id).is_some()).collect();
    let new =
        after.holders.iter().map(|grant| &grant.ticket).filter(|ticket| before.grant(ticket.id).is_none());
    for ticket in new.filter(|ticket| !ticket.barges) {
        let place = before.place(ticket.id).unwrap_or(usize::MAX);
        let earlier = still.iter().find(|other| before.place(other.id).is_some_and(|other| other < place));
        if let Some(earlier) = earlier {
            return Err(format!(
                "{} is granted permits before {}, which came earlier",
                ticket.holder, earlier.holder
            ));
        }
    }
    let kept: Vec<&Ticket> = after.queue.iter().filter(|ticket| before.place(ticket.id).is_some()).collect();
    let stays_first = after.queue.iter().take(kept.len()).eq(kept.iter().copied());
    if kept != still || !stays_first {
        return Err("those who wait have changed their order".to_owned());
    }
    Ok(())
}
