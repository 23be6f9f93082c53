//! Asking a live session that stays ahead whether it knows its claim: see [`Ask::Confirm`]. One holder is asked after the other.

use crate::holder::ctx::Ctx;
use crate::op::{Expect, Listed, Write};
use crate::semaphore::ledger::SemaphoreLedger;
use crate::values::fence::Nonce;
use crate::values::key::Key;
use crate::values::record::{Ask, Attachment, Letter, Stored};
use crate::values::time::Tick;

/// Which holder is asked next, and when.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct HolderChallenge {
    /// Which claim is in the way, and since when.
    doubt: Option<(Nonce, Tick)>,
    /// How many were asked about.
    asked: usize,
}

impl HolderChallenge {
    /// The question to whoever is in the way for two ttls, if there is one, by its session among these records.
    pub(super) fn question(
        &mut self,
        ctx: &mut Ctx<'_>,
        key: &Key,
        ledger: &SemaphoreLedger,
        records: &[Listed],
    ) -> Option<Write> {
        let others = ledger.holders.iter().map(|grant| &grant.ticket);
        let others: Vec<_> =
            others.filter(|ticket| Some(&ticket.attachment) != ctx.session.as_ref()).collect();
        let Some(ticket) = others.get(self.asked.checked_rem(others.len()).unwrap_or(0)) else {
            self.doubt = None;
            return None;
        };
        let since = match self.doubt {
            Some((id, since)) if id == ticket.id => since,
            _ => {
                self.doubt = Some((ticket.id, ctx.now.held));
                return None;
            }
        };
        if ctx.now.held.since(since) < ticket.ttl.duration() * 2 {
            return None;
        }
        let session = records.iter().find(|listed| listed.key == ticket.attachment.session)?;
        let Ok(session) = &session.stored else { return None };
        (self.doubt, self.asked) = (None, self.asked.wrapping_add(1));
        letter(ctx, key, &ticket.attachment, session)
    }
}

/// The question to a live session about this key, unless it is there already or there is no room.
fn letter(ctx: &mut Ctx<'_>, about: &Key, attachment: &Attachment, session: &Stored) -> Option<Write> {
    let mut record = session.record.clone();
    let renewing = record.tenure.as_mut()?;
    let letter = Letter::new(about.clone(), Ask::Confirm);
    if renewing.mail.iter().any(|other| other.key == letter.key) || !renewing.post(letter) {
        return None;
    }
    record.nonce = ctx.nonces.draw();
    Some(Write { key: attachment.session.clone(), expect: Expect::Unchanged(session.version), record })
}
