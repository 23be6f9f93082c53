//! The board: one small record that tells all workers of a fleet when to look into it again.
//!
//! Its fence is the *generation*: it grows when a worker comes, goes or dies, and when units are added, changed or finished.
//! Without a push from the store, a worker that suspects another of being dead sets the *alarm*, which keeps the generation but
//! makes all look more often until it has been decided. And whoever has listed all though nothing had changed says so there.

use crate::op::{Expect, Write};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::Key;
use crate::values::metadata::{Metadata, Value};
use crate::values::record::{Record, Stored};
use crate::values::time::Wall;

const ALARM: &str = "alarm";
const AUDITOR: &str = "auditor";

/// The generation that a board shows.
#[must_use]
pub fn generation(board: Option<&Stored>) -> Fence {
    board.map_or(Fence(0), |board| board.record.fence)
}

/// The write that raises the generation over the one that was seen.
///
/// Whoever loses it twice in a row need not repeat it: between the two, somebody else has raised it.
///
/// # Errors
/// `Foreign` when a hostile board leaves no higher generation.
pub fn bump(board: Key, seen: Option<&Stored>, nonce: Nonce, wall: Wall) -> Result<Write, StoreError> {
    let fence = generation(seen).next(Fence::floor(wall))?;
    Ok(write(board, seen, fence, nonce, wall, Metadata::new()))
}

/// The write that sets the alarm.
pub(crate) fn alarm(board: Key, seen: &Stored, nonce: Nonce, wall: Wall) -> Write {
    let alarm = Metadata::from([(ALARM.to_owned(), Value::Bool(true))]);
    write(board, Some(seen), seen.record.fence, nonce, wall, alarm)
}

/// The write that says who has audited.
pub(crate) fn mark(board: Key, seen: &Stored, auditor: &Key, nonce: Nonce, wall: Wall) -> Write {
    let auditor = Metadata::from([(AUDITOR.to_owned(), Value::Text(auditor.as_str().to_owned()))]);
    write(board, Some(seen), seen.record.fence, nonce, wall, auditor)
}

/// The session of the worker that has audited, if it did so after all else that the board shows.
#[must_use]
pub fn auditor(board: &Record) -> Option<Key> {
    match board.metadata.get(AUDITOR) {
        Some(Value::Text(session)) => Key::new(session.as_str()).ok(),
        _ => None,
    }
}

/// Whether the alarm is set.
pub(crate) fn is_alarmed(board: Option<&Stored>) -> bool {
    board.is_some_and(|board| board.record.metadata.get(ALARM) == Some(&Value::Bool(true)))
}

fn write(
    key: Key,
    seen: Option<&Stored>,
    fence: Fence,
    nonce: Nonce,
    wall: Wall,
    metadata: Metadata,
) -> Write {
    let expect = seen.map_or(Expect::Absent, |seen| Expect::Unchanged(seen.version));
    Write { key, expect, record: Record { fence, nonce, stamp: wall, tenure: None, metadata } }
}

#[cfg(test)]
mod tests {
    //! Plan: a generation ends the alarm and the mark; the alarm and the mark keep the generation, and each other out; what is
    //! of another type is neither.
    use super::*;
    use crate::values::fence::Version;

    fn stands(write: Write) -> Stored {
        let version = Version(u128::from(write.record.fence.0));
        Stored::new(write.record).versioned(version)
    }

    #[test]
    fn a_board_shows_one_thing_at_a_time() {
        let (key, worker) = (Key::new("board").unwrap(), Key::new("worker").unwrap());
        let (nonce, wall) = (Nonce(1), Wall(0));
        let shows = |board: &Stored| (is_alarmed(Some(board)), auditor(&board.record));
        let first = bump(key.clone(), None, nonce, wall).unwrap();
        assert_eq!(first.expect, Expect::Absent);
        let first = stands(first);
        assert_eq!(shows(&first), (false, None));
        let alarmed = alarm(key.clone(), &first, nonce, wall);
        assert_eq!(alarmed.expect, Expect::Unchanged(first.version));
        let alarmed = stands(alarmed);
        assert_eq!(shows(&alarmed), (true, None));
        assert_eq!(generation(Some(&alarmed)), generation(Some(&first)));
        let marked = stands(mark(key.clone(), &alarmed, &worker, nonce, wall));
        assert_eq!(shows(&marked), (false, Some(worker)));
        assert_eq!(generation(Some(&marked)), generation(Some(&first)));
        let next = stands(bump(key, Some(&marked), nonce, wall).unwrap());
        assert_eq!(shows(&next), (false, None));
        assert!(
            generation(Some(&next)) > generation(Some(&first)) && generation(None) < generation(Some(&first))
        );
        assert!(!is_alarmed(None));
    }

    #[test]
    fn what_is_of_another_type_is_nothing() {
        let record = |name: &str, value: Value| Record {
            fence: Fence(1),
            nonce: Nonce(1),
            stamp: Wall(0),
            tenure: None,
            metadata: Metadata::from([(name.to_owned(), value)]),
        };
        for value in [Value::Bool(true), Value::Text(String::new())] {
            assert_eq!(auditor(&record(AUDITOR, value)), None);
        }
        for value in [Value::Bool(false), Value::Text("true".to_owned())] {
            let board = Stored::new(record(ALARM, value)).versioned(Version(1));
            assert!(!is_alarmed(Some(&board)));
        }
    }
}
