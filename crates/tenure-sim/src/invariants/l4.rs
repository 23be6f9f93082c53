//! L4, kept: while the store answers within ttl/8 and fewer than two renewals in a row fail, a holder never loses its lease
//! by itself. A renewal that loses to mail is answered, but costs a round trip, so here at most one of three in a row fails.
//!
//! Source: the promise L4; KCL issue 1729 (renewals lost in a handover).

use tenure_core::Loss;

/// A loss was told although nothing had gone wrong for long enough.
pub(crate) fn not_lost(node: usize, key: usize, loss: &Loss) -> Result<(), String> {
    match loss {
        // Somebody asked for these. A reason that is new is none of them.
        Loss::Revoked | Loss::Released | Loss::Overran => Ok(()),
        _ => Err(format!("n{node} lost k{key} though its store answered: {loss:?}")),
    }
}
