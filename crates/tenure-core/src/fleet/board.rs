//! The board: one small record that tells all workers of a fleet when to look again, which worker plans, and which workers the last
//! plan concerns.
//!
//! Its fence is the *generation*. It grows when a worker comes, goes or dies, and when units are added, changed or finished. The
//! *planner* is the worker that lists and plans after that. If there is none, or it is dead, a worker that sees this writes itself there. After
//! the planner has told its plan, it *marks* the board with the plan's number and the names of the workers concerned. Without a push from the
//! store, a worker that suspects another one sets the *alarm*. All workers then look more often until the case is decided.
//!
//! Workers of several versions write the same board. Each write takes away only what it ends. What only a newer version knows stays, up to a limit, so
//! that nothing that somebody else writes there keeps this version from writing its own.

use crate::op::{Expect, Write};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::{HolderId, Key};
use crate::values::metadata::{Metadata, Value};
use crate::values::record::{Attachment, Record, Stored};
use crate::values::time::{Ttl, Wall};
use std::collections::BTreeSet;
use std::time::Duration;

const ALARM: &str = "alarm";
const PLANNER: &str = "planner";
const PLAN: &str = "plan";
const STANDBYS: &str = "standbys";
const REST: &str = "rest";
/// When the plan was told. Nothing is decided by it.
const AT: &str = "at";
/// A worker rests for so many intervals at the most, as a mean. So nobody waits for longer than that, whatever a board says.
pub(crate) const LONGEST_REST: u32 = 64;
/// With more than so many bytes of names, a plan concerns everybody as far as the board tells.
const NAMES: usize = 512;
/// What a record has room for is 8,192 bytes. This version's own names can have so many each, the plan more than others. What is longer is nobody's who
/// means well.
const MOST_KNOWN: usize = 700;
const MOST_PLAN: usize = 2600;
/// What only a newer version knows stays where it has no more bytes than this.
const MOST_NEWER: usize = 2048;

/// What a board says of the last plan that was told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ToldPlan {
    /// Which of its planner's plans it is.
    pub(crate) number: u64,
    /// Whom it concerns; none if those are too many.
    pub(crate) told: Option<BTreeSet<HolderId>>,
    /// How many live workers there are, and units with work to do.
    pub(crate) counts: (u64, u64),
    /// The shortest and the longest ttl among the workers.
    pub(crate) ttls: (Ttl, Ttl),
    /// In how many intervals a worker that rests looks at the board once: whom a plan concerns is told by a letter, too.
    pub(crate) rest: u32,
}

/// A board as a worker has seen it last. What it says of the last plan is read once: a worker asks for that at each of its steps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct SeenBoard {
    pub(crate) stored: Stored,
    pub(crate) plan: Option<ToldPlan>,
    pub(crate) standbys: BTreeSet<HolderId>,
}

impl SeenBoard {
    pub(crate) fn of(stored: Stored) -> SeenBoard {
        let (plan, standbys) = (marked(&stored.record), standbys(&stored.record));
        SeenBoard { stored, plan, standbys }
    }
}

/// The generation that a board shows.
#[must_use]
pub fn generation(board: Option<&Stored>) -> Fence {
    board.map_or(Fence(0), |board| board.record.fence)
}

/// The session of the worker that plans, if the board names one.
#[must_use]
pub fn planner(board: &Record) -> Option<Attachment> {
    let Some(Value::Map(named)) = board.metadata.get(PLANNER) else { return None };
    let session = Key::new(named.get("session")?.as_text()?).ok()?;
    let fence = Fence(u64::try_from(named.get("fence")?.as_i64()?).ok()?);
    Some(Attachment { session, fence })
}

/// The number of the last plan that this planner told, if it told any.
#[must_use]
pub fn told_plan(board: &Record) -> Option<u64> {
    marked(board).map(|mark| mark.number)
}

/// When that was, by the planner's wall clock, if the board says so.
pub(crate) fn told_at(board: &Record) -> Option<Wall> {
    let Some(Value::Map(plan)) = board.metadata.get(PLAN) else { return None };
    plan.get(AT)?.as_i64().and_then(|at| u64::try_from(at).ok()).map(Wall)
}

/// The workers that are to take the planner's place, if the board names any.
#[must_use]
pub fn standbys(board: &Record) -> BTreeSet<HolderId> {
    board.metadata.get(STANDBYS).and_then(names).unwrap_or_default()
}

/// The write that raises the generation over the one that was seen. Who plans stays as it is.
///
/// Whoever loses it twice in a row need not repeat it: between the two, somebody else has raised it.
///
/// # Errors
/// `Foreign` when a hostile board leaves no higher generation.
pub fn advance(board: Key, seen: Option<&Stored>, nonce: Nonce, wall: Wall) -> Result<Write, StoreError> {
    let fence = generation(seen).next(Fence::floor(wall))?;
    let metadata = seen.map(|seen| without(seen, &[ALARM])).unwrap_or_default();
    Ok(write(board, seen, fence, nonce, wall, metadata))
}

/// The same, by a worker that plans from now on.
///
/// # Errors
/// As those of [`advance`].
pub(crate) fn claim(
    board: Key,
    seen: Option<&Stored>,
    me: &Attachment,
    nonce: Nonce,
    wall: Wall,
) -> Result<Write, StoreError> {
    let mut write = advance(board, seen, nonce, wall)?;
    let named = [("session", Value::from(me.session.as_str())), ("fence", number(me.fence.0))];
    let named = named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    // The plan was another's. Those who stood by the planner before know the others, and those who rest are still to be told by letters.
    write.record.metadata.remove(PLAN);
    write.record.metadata.insert(PLANNER.to_owned(), Value::Map(named));
    Ok(write)
}

/// The write by which a worker plans no more, though it lives: whoever sees that takes its place.
pub(crate) fn resign(board: Key, seen: &Stored, nonce: Nonce, wall: Wall) -> Write {
    write(board, Some(seen), seen.record.fence, nonce, wall, without(seen, &[PLANNER, PLAN]))
}

/// The write that sets the alarm.
pub(crate) fn alarm(board: Key, seen: &Stored, nonce: Nonce, wall: Wall) -> Write {
    let mut metadata = seen.record.metadata.clone();
    metadata.insert(ALARM.to_owned(), Value::Bool(true));
    write(board, Some(seen), seen.record.fence, nonce, wall, metadata)
}

/// The write that says which plan was told, and to whom, and who watches all others beside the planner, and is to take its place.
pub(crate) fn mark(
    board: Key,
    seen: &Stored,
    plan: &ToldPlan,
    standbys: &BTreeSet<HolderId>,
    nonce: Nonce,
    wall: Wall,
) -> Write {
    let mut metadata = seen.record.metadata.clone();
    metadata.insert(PLAN.to_owned(), plan.compose(wall));
    metadata.insert(STANDBYS.to_owned(), list(standbys));
    metadata.insert(REST.to_owned(), number(plan.rest.into()));
    write(board, Some(seen), seen.record.fence, nonce, wall, metadata)
}

/// The last plan that was told by who plans now.
pub(crate) fn marked(board: &Record) -> Option<ToldPlan> {
    let mark = board.metadata.get(PLAN).and_then(ToldPlan::parse)?;
    Some(ToldPlan { rest: rest(board), ..mark })
}

/// In how many intervals a worker that rests looks at the board once, by the last plan that was told by whomever.
pub(crate) fn rest(board: &Record) -> u32 {
    let rest = board.metadata.get(REST).and_then(Value::as_i64).unwrap_or(1);
    u32::try_from(rest.clamp(1, LONGEST_REST.into())).unwrap_or(1)
}

/// Whether the alarm is set.
pub(crate) fn is_alarmed(board: Option<&Stored>) -> bool {
    board.is_some_and(|board| board.record.metadata.get(ALARM) == Some(&Value::Bool(true)))
}

/// What a board says, but for these names.
fn without(seen: &Stored, ended: &[&str]) -> Metadata {
    let mut metadata = seen.record.metadata.clone();
    for name in ended {
        metadata.remove(*name);
    }
    metadata
}

/// How many bytes a value has in a record at the most.
fn bytes(value: &Value) -> usize {
    3 + match value {
        Value::Null | Value::Bool(_) => 0,
        Value::Number(number) => 5 + number.as_str().len(),
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        Value::List(values) => values.iter().map(bytes).sum(),
        Value::Map(fields) => fields.iter().map(|(name, value)| 3 + name.len() + bytes(value)).sum(),
        Value::TextSet(texts) => 3 + texts.iter().map(|text| 3 + text.len()).sum::<usize>(),
        Value::NumberSet(numbers) => {
            3 + numbers.iter().map(|number| 8 + number.as_str().len()).sum::<usize>()
        }
        Value::BytesSet(all) => 3 + all.iter().map(|bytes| 3 + bytes.len()).sum::<usize>(),
    }
}

fn number(n: u64) -> Value {
    Value::from(i64::try_from(n).unwrap_or(i64::MAX))
}

fn list(names: &BTreeSet<HolderId>) -> Value {
    Value::List(names.iter().map(|who| Value::from(who.as_str())).collect())
}

fn names(list: &Value) -> Option<BTreeSet<HolderId>> {
    let Value::List(names) = list else { return None };
    names.iter().map(|name| HolderId::new(name.as_text()?).ok()).collect()
}

impl ToldPlan {
    fn compose(&self, at: Wall) -> Value {
        let millis = |ttl: Ttl| number(ttl.millis());
        let fields = [
            ("number", number(self.number)),
            ("workers", number(self.counts.0)),
            ("units", number(self.counts.1)),
            ("least", millis(self.ttls.0)),
            ("most", millis(self.ttls.1)),
            (AT, number(at.0)),
        ];
        let mut fields: Metadata = fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let names = self
            .told
            .as_ref()
            .filter(|told| told.iter().map(|who| who.as_str().len()).sum::<usize>() <= NAMES);
        if let Some(names) = names {
            fields.insert("told".to_owned(), list(names));
        }
        Value::Map(fields)
    }

    fn parse(value: &Value) -> Option<ToldPlan> {
        let Value::Map(fields) = value else { return None };
        let number = |name: &str| fields.get(name)?.as_i64().and_then(|n| u64::try_from(n).ok());
        let ttl = |name: &str| Ttl::new(Duration::from_millis(number(name)?)).ok();
        let told = fields.get("told").and_then(names);
        let (counts, ttls) = ((number("workers")?, number("units")?), (ttl("least")?, ttl("most")?));
        Some(ToldPlan { number: number("number")?, told, counts, ttls, rest: 1 })
    }
}

fn write(
    key: Key,
    seen: Option<&Stored>,
    fence: Fence,
    nonce: Nonce,
    wall: Wall,
    mut metadata: Metadata,
) -> Write {
    let most = |name: &str| match name {
        PLAN => Some(MOST_PLAN),
        ALARM | PLANNER | STANDBYS | REST => Some(MOST_KNOWN),
        _ => None,
    };
    let newer = metadata.iter().filter(|(name, _)| most(name).is_none());
    let fits = newer.map(|(name, value)| 3 + name.len() + bytes(value)).sum::<usize>() <= MOST_NEWER;
    metadata.retain(|name, value| most(name).map_or(fits, |most| bytes(value) <= most));
    let expect = seen.map_or(Expect::Absent, |seen| Expect::Unchanged(seen.version));
    Write { key, expect, record: Record { fence, nonce, stamp: wall, tenure: None, metadata } }
}

#[cfg(test)]
mod tests {
    //! Plan: a generation ends the alarm, and keeps who plans and what was marked; who plans anew, or no more, ends the mark; what was marked is
    //! read as it was written, but for too many names; what is of another type is nothing; each write keeps what only a newer version knows, up to a limit.
    use super::*;
    use crate::values::fence::Version;

    fn stands(write: Write) -> Stored {
        let version = Version(u128::from(write.record.fence.0));
        Stored::new(write.record).versioned(version)
    }

    fn plan(names: usize) -> ToldPlan {
        let names = (0..names).map(|n| HolderId::new(format!("w{n:06}")).unwrap());
        let ttl = |secs| Ttl::new(Duration::from_secs(secs)).unwrap();
        ToldPlan { number: 3, told: Some(names.collect()), counts: (5, 7), ttls: (ttl(2), ttl(8)), rest: 4 }
    }

    #[test]
    fn what_a_board_shows_and_until_when() {
        let (key, nonce, wall) = (Key::new("board").unwrap(), Nonce(1), Wall(0));
        let me = Attachment { session: Key::new("worker").unwrap(), fence: Fence(9) };
        let shows = |board: &Stored| (is_alarmed(Some(board)), planner(&board.record), marked(&board.record));
        let first = advance(key.clone(), None, nonce, wall).unwrap();
        assert_eq!(first.expect, Expect::Absent);
        let first = stands(first);
        assert_eq!(shows(&first), (false, None, None));
        let led = stands(claim(key.clone(), Some(&first), &me, nonce, wall).unwrap());
        assert_eq!(shows(&led), (false, Some(me.clone()), None));
        assert!(
            generation(Some(&led)) > generation(Some(&first)) && generation(None) < generation(Some(&first))
        );
        let by = BTreeSet::from([HolderId::new("s").unwrap()]);
        let marked = mark(key.clone(), &led, &plan(2), &by, nonce, Wall(44));
        assert_eq!(marked.expect, Expect::Unchanged(led.version));
        let marked = stands(marked);
        assert_eq!(shows(&marked), (false, Some(me.clone()), Some(plan(2))));
        assert_eq!((standbys(&led.record), standbys(&marked.record)), (BTreeSet::new(), by.clone()));
        assert_eq!((told_at(&led.record), told_at(&marked.record)), (None, Some(Wall(44))));
        let alarmed = stands(alarm(key.clone(), &marked, nonce, wall));
        assert_eq!(shows(&alarmed), (true, Some(me.clone()), Some(plan(2))));
        assert_eq!(generation(Some(&alarmed)), generation(Some(&led)));
        let next = stands(advance(key.clone(), Some(&alarmed), nonce, wall).unwrap());
        assert_eq!(shows(&next), (false, Some(me.clone()), Some(plan(2))));
        assert!(generation(Some(&next)) > generation(Some(&alarmed)));
        let left = stands(resign(key.clone(), &alarmed, nonce, wall));
        assert_eq!((shows(&left), standbys(&left.record)), ((true, None, None), by.clone()));
        assert_eq!(generation(Some(&left)), generation(Some(&alarmed)), "nothing has changed");
        let anew = stands(claim(key, Some(&next), &me, nonce, wall).unwrap());
        assert_eq!((shows(&anew), standbys(&anew.record)), ((false, Some(me), None), by));
        assert!(!is_alarmed(None));
    }

    #[test]
    fn what_only_a_newer_version_knows_survives_each_write_of_this_one() {
        let (key, nonce, wall) = (Key::new("board").unwrap(), Nonce(1), Wall(0));
        let me = Attachment { session: Key::new("worker").unwrap(), fence: Fence(9) };
        let by = BTreeSet::from([HolderId::new("s").unwrap()]);
        let led = stands(claim(key.clone(), None, &me, nonce, wall).unwrap());
        let mut board = stands(mark(key.clone(), &led, &plan(2), &by, nonce, wall));
        let newer = Metadata::from([("colour".to_owned(), Value::from("red"))]);
        board.record.metadata.insert("zones".to_owned(), Value::Map(newer));
        let board = stands(alarm(key.clone(), &board, nonce, wall));
        for (write, ends) in [
            (advance(key.clone(), Some(&board), nonce, wall).unwrap(), vec![ALARM]),
            (claim(key.clone(), Some(&board), &me, nonce, wall).unwrap(), vec![ALARM, PLAN]),
            (resign(key.clone(), &board, nonce, wall), vec![PLANNER, PLAN]),
            (alarm(key.clone(), &board, nonce, wall), vec![]),
            (mark(key, &board, &plan(2), &by, nonce, wall), vec![]),
        ] {
            let mut stays = board.record.metadata.clone();
            stays.retain(|name, _| !ends.contains(&name.as_str()));
            assert_eq!(write.record.metadata, stays, "{ends:?}");
        }
    }

    #[test]
    fn no_board_is_filled_so_that_this_version_can_not_write_its_own() {
        let (key, nonce, wall) = (Key::new("board").unwrap(), Nonce(1), Wall(0));
        let mut board = stands(advance(key.clone(), None, nonce, wall).unwrap());
        for (name, size) in [("zones", 800), ("notes", 1_226)] {
            board.record.metadata.insert(name.to_owned(), Value::from("x".repeat(size).as_str()));
        }
        let kept = mark(key.clone(), &board, &plan(2), &BTreeSet::new(), nonce, wall).record.metadata;
        assert!(["zones", "notes", PLAN, REST].iter().all(|name| kept.contains_key(*name)), "{kept:?}");
        board.record.metadata.insert("more".to_owned(), Value::List(vec![number(1); 10]));
        // Nor by what stands under a name that this version knows.
        board.record.metadata.insert(ALARM.to_owned(), Value::List(vec![number(1); 100]));
        let left = mark(key, &board, &plan(2), &BTreeSet::new(), nonce, wall).record.metadata;
        assert_eq!(left.keys().collect::<Vec<_>>(), [PLAN, REST, STANDBYS]);
    }

    #[test]
    fn the_longest_that_this_version_writes_is_kept() {
        let (key, nonce, wall) = (Key::new("board").unwrap(), Nonce(1), Wall(u64::MAX));
        let told = (0..NAMES).map(|n| {
            HolderId::new(char::from_u32(0x4e00 + u32::try_from(n).unwrap()).unwrap().to_string()).unwrap()
        });
        let told: BTreeSet<HolderId> = told.take(NAMES / 3).collect();
        let longest = Ttl::new(Duration::from_secs(3600)).unwrap();
        let most = u64::try_from(i64::MAX).unwrap();
        let plan = ToldPlan {
            number: most,
            told: Some(told),
            counts: (most, most),
            ttls: (longest, longest),
            rest: LONGEST_REST,
        };
        let by = ["a", "b"].map(|name| HolderId::new(name.repeat(HolderId::MAX_BYTES)).unwrap()).into();
        let me = Attachment { session: Key::new("s".repeat(Key::MAX_BYTES)).unwrap(), fence: Fence(most) };
        let led = stands(claim(key.clone(), None, &me, nonce, Wall(0)).unwrap());
        let board = mark(key, &led, &plan, &by, nonce, wall).record;
        assert_eq!(marked(&board), Some(plan));
        assert_eq!((standbys(&board), planner(&board)), (by, Some(me)));
    }

    #[test]
    fn more_names_than_fit_are_everybody() {
        let wall = Wall(1_795_000_000_000);
        for (names, fits) in [(73, true), (74, false)] {
            let read = ToldPlan::parse(&plan(names).compose(wall));
            assert_eq!(read.map(|plan| plan.told.is_some()), Some(fits), "{names}");
        }
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
        for value in [Value::Bool(true), Value::Text(String::new()), Value::Map(Metadata::new())] {
            assert_eq!(planner(&record(PLANNER, value.clone())), None);
            assert_eq!(told_at(&record(PLAN, value.clone())), None);
            assert_eq!(marked(&record(PLAN, value)), None);
        }
        for value in [Value::Bool(false), Value::Text("true".to_owned())] {
            let board = Stored::new(record(ALARM, value)).versioned(Version(1));
            assert!(!is_alarmed(Some(&board)));
        }
    }
}
