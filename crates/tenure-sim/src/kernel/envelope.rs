//! A request on its way between a node and the store.

use super::clock::True;
use tenure_core::op::{Op, OpId};
use tenure_core::{Key, Nonce, Now, Tick};

/// A request on its way.
#[derive(Debug, Clone)]
pub(crate) struct Envelope {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) id: OpId,
    pub(crate) op: Op,
    pub(crate) urgent: bool,
    pub(crate) sent: Now,
    /// The same in true time.
    pub(crate) posted: True,
    /// When the node's driver gives up waiting, in true time and by the node's clock.
    pub(super) gives_up: True,
    pub(super) patience: Tick,
    /// The store that it was sent to, where failovers put others in its place.
    pub(super) term: u32,
    /// A second copy, or one that was given up: its answer goes nowhere.
    pub(crate) stray: bool,
    /// Its answer is lost in the calm, where nothing else goes wrong. A fault that befalls a call in the chaos is none of these.
    pub(crate) stumbles: bool,
    /// It was sent for a token that came from elsewhere.
    pub(crate) token: bool,
    /// What the store's clock shows at the most, in milliseconds, as its client took it to be when it sent this.
    pub(super) dated: Option<u64>,
}

impl Envelope {
    /// The same, whose arrival is left to the scene: nobody waits for its answer any more.
    pub(crate) fn late(&self) -> Envelope {
        Envelope { gives_up: True::MAX, ..self.clone() }
    }

    /// The one key that it is about, if it is about one.
    pub(crate) fn key(&self) -> Option<&Key> {
        key_of(&self.op)
    }

    /// The tenure that it begins, if it is a claim.
    pub(crate) fn claim(&self) -> Option<Nonce> {
        let Op::Write(write) = &self.op else { return None };
        write.record.tenure.as_ref().map(|tenure| tenure.id).filter(|id| *id == write.record.nonce)
    }

    /// Its number, for people: those of a fleet's worker and of the holder in it are told apart by a star.
    pub(super) fn name(&self) -> String {
        let OpId(id) = self.id;
        format!("#{}{:x}", if id >> 63 == 1 { "*" } else { "" }, id & (u64::MAX >> 1))
    }

    /// Whether it is a claim that is attached to a session.
    pub(super) fn is_attached(&self) -> bool {
        let Op::Write(write) = &self.op else { return false };
        let attached = write.record.tenure.as_ref().is_some_and(|tenure| tenure.attachment.is_some());
        attached && self.claim().is_some()
    }
}

/// The one key that an operation is about, if it is about one.
pub(crate) fn key_of(op: &Op) -> Option<&Key> {
    match op {
        Op::Read(key) => Some(key),
        Op::ReadMany(..) | Op::List { .. } => None,
        Op::Write(write) => Some(&write.key),
    }
}
