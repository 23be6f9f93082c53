//! What became of a write that a full cluster refused.
//!
//! etcd refuses writes once it has no space left. In the same words it answers the write by which it became full, which is done, and
//! those that were on their way with it. What stands there afterwards tells which of them a write was: the answer came, so nothing is
//! under way any more.

use crate::client::EtcdClient;
use crate::error::{Call, unclear};
use crate::memo::MemoEntry;
use crate::wire::{KeyValue, RangeResponse, path, range};
use tenure_core::StoreError;

/// A change in a transaction that was refused.
pub(crate) struct RefusedChange<'a> {
    pub(crate) name: &'a [u8],
    /// What it was compared with; none: nothing stood there.
    pub(crate) before: Option<&'a MemoEntry>,
    /// What it writes; none: it removes.
    pub(crate) after: Option<&'a MemoEntry>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeFate {
    /// By the write of this revision.
    Done(i64),
    /// What it was compared with still stands there, so its condition held: had the transaction been done, this were, too.
    Undone,
    /// Nothing stands there, as before. Something may have come and gone meanwhile.
    Absent,
    /// Somebody else has written since.
    Unclear,
}

impl ChangeFate {
    fn revision(&self) -> Option<i64> {
        if let ChangeFate::Done(revision) = self { Some(*revision) } else { None }
    }
}

impl RefusedChange<'_> {
    fn fate(&self, found: Option<&KeyValue>) -> ChangeFate {
        match (self.before, self.after, found) {
            (_, Some(after), Some(found)) if after.was_written(found) => ChangeFate::Done(found.mod_revision),
            (Some(before), _, Some(found)) if before.is_still(found) => ChangeFate::Undone,
            (_, None, None) => ChangeFate::Done(0),
            (None, _, None) => ChangeFate::Absent,
            _ => ChangeFate::Unclear,
        }
    }
}

/// The revisions at which the changes of one transaction were done, if it was.
///
/// # Errors
/// `error`, if nothing of it was done; `Unknown` where that can't be told.
pub(crate) async fn revisions(
    inner: &EtcdClient,
    refused: &[RefusedChange<'_>],
    error: StoreError,
) -> Result<Vec<i64>, StoreError> {
    let mut fates = Vec::with_capacity(refused.len());
    for one in refused {
        // It is answered by a state that is no older than the refusal.
        let question = range(one.name, false);
        let looked: Result<RangeResponse, _> = inner.channels.ask(Call::Read, path::RANGE, question).await;
        let Ok(found) = looked else { return Err(unclear(&error)) };
        match one.fate(found.kvs.first()) {
            ChangeFate::Undone => return Err(error),
            fate => fates.push(fate),
        }
    }
    let done: Vec<i64> = fates.iter().filter_map(ChangeFate::revision).collect();
    if done.len() == fates.len() {
        return Ok(done);
    }
    let is_undone = fates.iter().all(|fate| *fate == ChangeFate::Absent);
    Err(if is_undone { error } else { unclear(&error) })
}

#[cfg(test)]
mod tests {
    //! Plan: what stands there, beside what was compared and written.
    use super::*;
    use tenure_core::{Fence, Version};

    fn pair(revision: i64, value: &[u8]) -> KeyValue {
        KeyValue { mod_revision: revision, value: value.to_vec(), ..KeyValue::default() }
    }

    #[test]
    fn what_stands_there_tells_what_became_of_a_change() {
        let seen =
            |revision, value: &[u8]| Some(MemoEntry::written(Version(1), Some(Fence(1)), revision, value));
        let (old, new) = (b"h-old-one-", b"h-new-one-");
        for (before, after, found, expected) in [
            (seen(4, old), seen(0, new), Some(pair(7, new)), ChangeFate::Done(7)),
            (None, seen(0, new), Some(pair(7, new)), ChangeFate::Done(7)),
            (seen(4, old), seen(0, new), Some(pair(4, old)), ChangeFate::Undone),
            (seen(4, old), seen(0, new), Some(pair(5, old)), ChangeFate::Unclear),
            (seen(4, old), seen(0, new), Some(pair(4, b"h-other-one-")), ChangeFate::Unclear),
            (seen(4, old), seen(0, new), None, ChangeFate::Unclear),
            (None, seen(0, new), None, ChangeFate::Absent),
            (None, seen(0, new), Some(pair(5, old)), ChangeFate::Unclear),
            (seen(4, old), None, None, ChangeFate::Done(0)),
            (seen(4, old), None, Some(pair(4, old)), ChangeFate::Undone),
            (seen(4, old), None, Some(pair(5, old)), ChangeFate::Unclear),
        ] {
            let text = format!("{before:?} {after:?} {found:?}");
            let refused = RefusedChange { name: b"k", before: before.as_ref(), after: after.as_ref() };
            assert_eq!(refused.fate(found.as_ref()), expected, "{text}");
        }
    }
}
