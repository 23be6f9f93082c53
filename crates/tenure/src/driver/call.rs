//! What a machine asks of the store, as events and metrics name it.

use tenure_core::op::{Op, Write};

/// The kind of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CallKind {
    Read,
    List,
    Write,
    /// What it keeps is lost when it fails for long.
    Renew,
}

impl CallKind {
    pub(super) fn of(op: &Op) -> CallKind {
        match op {
            Op::Read(_) | Op::ReadMany(..) => CallKind::Read,
            Op::List { .. } => CallKind::List,
            Op::Write(write) if renews(write) => CallKind::Renew,
            Op::Write(_) => CallKind::Write,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            CallKind::Read => "read",
            CallKind::List => "list",
            CallKind::Write => "write",
            CallKind::Renew => "renew",
        }
    }

    /// What goes well where this does. What can be written can be read, too.
    pub(super) fn answers(self) -> &'static [CallKind] {
        match self {
            CallKind::Read | CallKind::List => &[CallKind::Read, CallKind::List],
            CallKind::Write | CallKind::Renew => {
                &[CallKind::Read, CallKind::List, CallKind::Write, CallKind::Renew]
            }
        }
    }
}

/// Whether this goes on with a tenure that keeps itself: it is its holder's own write, and not the first. Letters are others' writes.
fn renews(write: &Write) -> bool {
    let Some(tenure) = &write.record.tenure else { return false };
    let nonce = write.record.nonce;
    tenure.attachment.is_none() && tenure.heartbeat == nonce && tenure.id != nonce
}

#[cfg(test)]
mod tests {
    //! Plan: of all writes only those are renewals that go on with a tenure of their holder's own.
    use super::*;
    use tenure_core::op::Expect;
    use tenure_core::{Attachment, Fence, HolderId, Key, Metadata, Nonce, Record, Tenure, Ttl, Wall};

    #[test]
    fn renewals_are_told_from_claims_letters_and_releases() {
        let (began, next) = (Nonce(1), Nonce(2));
        let call = |nonce: Nonce, change: &dyn Fn(Tenure) -> Option<Tenure>| {
            let tenure = Tenure::new(began, HolderId::new("a").unwrap(), Ttl::MIN, Wall(0));
            let (fence, stamp, metadata) = (Fence(1), Wall(0), Metadata::new());
            let record = Record { fence, nonce, stamp, tenure: change(tenure), metadata };
            let key = Key::new("k").unwrap();
            CallKind::of(&Op::Write(Box::new(Write { key, expect: Expect::Vacant, record }))).name()
        };
        assert_eq!(call(next, &|tenure| Some(Tenure { heartbeat: next, ..tenure })), "renew");
        assert_eq!(call(began, &Some), "write", "a claim");
        assert_eq!(call(next, &Some), "write", "a letter");
        assert_eq!(call(next, &|_| None), "write", "a release");
        let session = Attachment { session: Key::new("session/a").unwrap(), fence: Fence(1) };
        let attached = |tenure| Some(Tenure { heartbeat: next, attachment: Some(session.clone()), ..tenure });
        assert_eq!(call(next, &attached), "write", "what is attached is not renewed");
    }
}
