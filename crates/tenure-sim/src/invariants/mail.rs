//! Mail: a request to a live holder is written so that its next renewal shows it; the renewal that empties the mailbox comes
//! after the holder's users were told.
//!
//! Source: *Mail* in ARCHITECTURE.md.

use crate::kernel::clock::True;
use crate::leases::node::{LeaseStage, Node};
use tenure_core::{Ask, Key, Record};

/// A renewal of `node` took effect over the record of `at` that had mail. `written`: when the oldest of it was written.
pub(crate) fn told(
    node: &Node,
    keys: &[Key],
    at: &Key,
    before: &Record,
    written: True,
) -> Result<(), String> {
    let Some(tenure) = &before.tenure else { return Ok(()) };
    for letter in tenure.mail.iter().filter(|letter| letter.ask != Ask::Confirm) {
        let Some(key) = keys.iter().position(|key| *key == letter.key) else { continue };
        let held_then = |view: &&crate::leases::node::LeaseView| {
            // The letter is for the tenure that this record keeps alive, not for one that its holder lost unawares.
            let of_it = |fence| if letter.key == *at { fence == before.fence } else { view.is_attached };
            view.key == key
                && matches!(view.stage, LeaseStage::Held(belief)
                    if belief.since < written && of_it(belief.fence) && letter.concerns(belief.fence))
        };
        if node.own.views.iter().any(|view| held_then(&view))
            && !node
                .own
                .asked
                .iter()
                .any(|(asked, ask, at)| *asked == key && *ask == letter.ask && *at >= written)
        {
            return Err(format!("{} emptied its mailbox without telling of {letter:?}", node.who));
        }
    }
    Ok(())
}
