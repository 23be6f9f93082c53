//! What a key's record keeps of its ticks: the last run in full, those before it in brief.
//!
//! Hosts of several versions run the ticks of one key. What only a newer version keeps beside the last run stays, whoever runs the next
//! tick. So does an earlier run that only a newer version understands, as nothing is decided by it.

use crate::values::error::StoreError;
use crate::values::fence::Fence;
use crate::values::key::HolderId;
use crate::values::metadata::{Metadata, Value};
use crate::values::time::Wall;
use std::fmt;

/// The field of a record's metadata.
const FIELD: &str = "once";
const TICK: &str = "tick";
const STATE: &str = "state";
const BEGAN: &str = "began";
const ENDED: &str = "ended";
const BY: &str = "by";
const FENCE: &str = "fence";
const SAYS: &str = "says";
const KEEP: &str = "keep";
const EARLIER: &str = "earlier";
/// All names in it that this version writes, and may take away.
const KNOWN: [&str; 9] = [TICK, STATE, BEGAN, ENDED, BY, FENCE, SAYS, KEEP, EARLIER];
/// How many runs before the last are kept, unless a newer version has kept more.
const MOST_EARLIER: usize = 4;
/// The most bytes of what is said of a run.
const MOST_SAYS: usize = 200;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum RunState {
    /// It has begun. If nobody holds the key, whoever ran it is gone.
    Begun,
    /// It has ended well.
    Done,
    /// It has ended, and not well.
    Failed,
}

impl RunState {
    /// Its name in records and for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            RunState::Begun => "begun",
            RunState::Done => "done",
            RunState::Failed => "failed",
        }
    }

    fn of(name: &str) -> Option<RunState> {
        [RunState::Begun, RunState::Done, RunState::Failed].into_iter().find(|state| state.name() == name)
    }
}

/// Its name.
impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One run of a tick.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Run {
    /// The time that it was scheduled for.
    pub tick: Wall,
    /// How far it is.
    pub state: RunState,
    /// Who ran it; of earlier runs it is not kept.
    pub by: Option<HolderId>,
    /// Under which fence; 0 for earlier runs.
    pub fence: Fence,
    /// When it began, by the clock of who ran it.
    pub began: Option<Wall>,
    /// When it ended, by the same clock.
    pub ended: Option<Wall>,
    /// What was said of its end.
    pub says: String,
}

impl Run {
    pub(super) fn begun(tick: Wall, by: HolderId, fence: Fence, now: Wall) -> Run {
        let (by, began) = (Some(by), Some(now));
        Run { tick, state: RunState::Begun, by, fence, began, ended: None, says: String::new() }
    }
}

/// For people: which tick, and what became of it.
impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tick = self.tick;
        match self.state {
            RunState::Begun => write!(f, "the tick of {tick} has begun, and may be running"),
            RunState::Done => write!(f, "the tick of {tick} has run"),
            RunState::Failed => write!(f, "the tick of {tick} has run, and failed: {}", self.says),
        }
    }
}

/// What ran when, as a record tells it.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct History {
    last: Option<Run>,
    /// The latest first: those of `kept` that this version understands.
    earlier: Vec<Run>,
    /// All earlier runs as the record has them.
    kept: Vec<Value>,
    kept_until: Wall,
    /// What only a newer version keeps beside the last run.
    newer: Metadata,
    /// Other fields of the record, which are left as they are.
    others: Metadata,
}

impl History {
    /// What a record's metadata tells.
    ///
    /// # Errors
    /// `Foreign` when the last run is not understood: a newer version's, or changed by hand.
    pub fn of(metadata: &Metadata) -> Result<History, StoreError> {
        let mut others = metadata.clone();
        let Some(field) = others.remove(FIELD) else { return Ok(History { others, ..History::default() }) };
        read(&field, others).ok_or_else(|| {
            StoreError::foreign(format!("the field {FIELD:?}, which says what ran when, can't be understood"))
        })
    }

    /// The last run, if there was any.
    #[must_use]
    pub fn last(&self) -> Option<&Run> {
        self.last.as_ref()
    }

    /// Those before it, the latest first, without who ran them.
    #[must_use]
    pub fn earlier(&self) -> &[Run] {
        &self.earlier
    }

    pub(super) fn begun(&mut self, run: Run, kept_until: Wall) {
        if let Some(last) = self.last.replace(run)
            && self.last.as_ref().is_none_or(|now| now.tick != last.tick)
        {
            let most = self.kept.len().max(MOST_EARLIER);
            self.kept.insert(0, Value::Map(brief(&last)));
            self.kept.truncate(most);
            self.earlier = understood(&self.kept);
        }
        self.kept_until = self.kept_until.max(kept_until);
    }

    pub(super) fn ended(&mut self, now: Wall, is_well: bool, says: &str) {
        if let Some(run) = &mut self.last {
            run.state = if is_well { RunState::Done } else { RunState::Failed };
            run.ended = Some(now);
            let mut most = says.len().min(MOST_SAYS);
            while !says.is_char_boundary(most) {
                most -= 1;
            }
            run.says = says.get(..most).unwrap_or_default().to_owned();
        }
    }

    /// The metadata that tells it.
    pub(super) fn fields(&self) -> Metadata {
        let mut fields = self.others.clone();
        let Some(last) = &self.last else { return fields };
        let mut map = self.newer.clone();
        map.append(&mut brief(last));
        map.insert(KEEP.to_owned(), time(self.kept_until));
        map.insert(FENCE.to_owned(), number(last.fence.0));
        if let Some(by) = &last.by {
            map.insert(BY.to_owned(), by.as_str().into());
        }
        if let Some(began) = last.began {
            map.insert(BEGAN.to_owned(), time(began));
        }
        if !last.says.is_empty() {
            map.insert(SAYS.to_owned(), last.says.as_str().into());
        }
        if !self.kept.is_empty() {
            map.insert(EARLIER.to_owned(), Value::List(self.kept.clone()));
        }
        fields.insert(FIELD.to_owned(), Value::Map(map));
        fields
    }
}

/// Until when a record must not be removed, as some host may still come with the tick that it shows; none if it tells of no ticks.
#[must_use]
pub fn kept_until(metadata: &Metadata) -> Option<Wall> {
    let Some(Value::Map(field)) = metadata.get(FIELD) else { return None };
    // What can't be understood is kept.
    Some(field.get(KEEP).and_then(wall).unwrap_or(Wall(u64::MAX)))
}

fn brief(run: &Run) -> Metadata {
    let mut map = Metadata::from([
        (TICK.to_owned(), time(run.tick)),
        (STATE.to_owned(), Value::from(run.state.name())),
    ]);
    if let Some(ended) = run.ended {
        map.insert(ENDED.to_owned(), time(ended));
    }
    map
}

fn number(number: u64) -> Value {
    Value::from(i64::try_from(number).unwrap_or(i64::MAX))
}

fn time(wall: Wall) -> Value {
    number(wall.0)
}

fn wall(value: &Value) -> Option<Wall> {
    value.as_i64().and_then(|number| u64::try_from(number).ok()).map(Wall)
}

fn read(field: &Value, others: Metadata) -> Option<History> {
    let Value::Map(field) = field else { return None };
    let mut last = run(field)?;
    last.by = match field.get(BY) {
        Some(by) => Some(HolderId::new(by.as_text()?).ok()?),
        None => None,
    };
    last.fence = Fence(u64::try_from(field.get(FENCE)?.as_i64()?).ok()?);
    last.began = Some(wall(field.get(BEGAN)?)?);
    last.says = field.get(SAYS).map_or(Some(""), Value::as_text)?.to_owned();
    let kept_until = wall(field.get(KEEP)?)?;
    let kept = match field.get(EARLIER) {
        None => Vec::new(),
        Some(Value::List(runs)) => runs.clone(),
        Some(_) => return None,
    };
    let mut newer = field.clone();
    newer.retain(|name, _| !KNOWN.contains(&name.as_str()));
    Some(History { last: Some(last), earlier: understood(&kept), kept, kept_until, newer, others })
}

/// Those of the earlier runs that this version understands.
fn understood(kept: &[Value]) -> Vec<Run> {
    kept.iter().filter_map(|earlier| if let Value::Map(map) = earlier { run(map) } else { None }).collect()
}

/// What is told of each run.
fn run(map: &Metadata) -> Option<Run> {
    let (tick, state) = (wall(map.get(TICK)?)?, RunState::of(map.get(STATE)?.as_text()?)?);
    let ended = match map.get(ENDED) {
        Some(ended) => Some(wall(ended)?),
        None => None,
    };
    Some(Run { tick, state, by: None, fence: Fence(0), began: None, ended, says: String::new() })
}
