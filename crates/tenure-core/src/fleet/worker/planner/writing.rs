//! The parts of a plan that are being written. Where the store has too much to do, those that it refuses are written after the others, with pauses between
//! them; who else writes there is written over.

use crate::fleet::part::Part;
use crate::fleet::worker::congestion::CongestionWindow;
use crate::fleet::worker::env::FleetEnv;
use crate::op::{Answer, Expect, Outcome, Write};
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::{Fence, Nonce};
use crate::values::key::Key;
use crate::values::record::{Record, Stored};
use crate::values::time::{Now, Tick};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A part that can't be written so often in a row is left alone until the next plan. Where the store is too busy for it, it is tried for a ttl.
const ATTEMPTS: u32 = 4;

/// A part that is being written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct PartWrite {
    write: Write,
    /// How often that was tried.
    attempts: u32,
    /// Since when the store is too busy for it.
    refused_since: Option<Tick>,
}

/// What became of an attempt to write a part.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PartOutcome {
    /// That was a part of an earlier plan.
    Superseded,
    /// It is written again when its turn comes.
    PutOff,
    /// It is written again at once.
    Retried,
    /// It stands there.
    Written,
    /// It is left alone: somebody else writes there all the time.
    Contended,
    /// It is left alone: the store does not take it.
    Refused,
    /// It is left alone: what stands there can't be written over, or it can't be written at all.
    Unwritable,
}

/// How long to go on where the store is busy.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// The first pause after a refusal.
    pub(super) pause: Duration,
    /// A part that is refused for so long may be refused for longer, and the others are to know of theirs.
    pub(super) longest: Duration,
}

/// Parts that are being written, and how fast.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct PartWrites {
    writes: BTreeMap<Key, PartWrite>,
    /// Those of them that are still to be sent.
    unsent: VecDeque<Key>,
    window: CongestionWindow,
    /// How many have no answer yet, of whichever plan.
    under_way: usize,
}

impl PartWrites {
    /// Whether all parts are written, or left alone.
    pub(super) fn is_done(&self) -> bool {
        self.writes.is_empty()
    }

    /// When the next part is sent, unless one has to be answered before.
    pub(super) fn wake_at(&self) -> Option<Tick> {
        self.window.wake_at(self.under_way).filter(|_| !self.unsent.is_empty())
    }

    /// No part is wanted any more; those that were, and since when the store is too busy for each.
    pub(super) fn take(&mut self) -> BTreeMap<Key, Option<Tick>> {
        self.unsent.clear();
        let writes = std::mem::take(&mut self.writes);
        writes.into_iter().map(|(key, part)| (key, part.refused_since)).collect()
    }

    /// A part of the plan that is told next.
    pub(super) fn add(&mut self, write: Write, refused_since: Option<Tick>) {
        self.unsent.push_back(write.key.clone());
        self.writes.insert(write.key.clone(), PartWrite { write, attempts: 0, refused_since });
    }

    /// The next part to send.
    pub(super) fn next(&mut self, now: Now) -> Option<Write> {
        if !self.window.is_open(now, self.under_way) {
            return None;
        }
        let key = self.unsent.pop_front()?;
        let write = self.writes.get(&key)?.write.clone();
        self.under_way += 1;
        Some(write)
    }

    /// A part was written, or was not. `busy`: the store has too much to do for it.
    pub(super) fn answered(
        &mut self,
        now: Now,
        (key, nonce): (&Key, Nonce),
        result: Result<Answer, StoreError>,
        may_repeat: bool,
        busy: Option<Patience>,
    ) -> PartOutcome {
        self.under_way = self.under_way.saturating_sub(1);
        match (&result, busy) {
            (Err(_), Some(Patience { pause, .. })) => self.window.refused(now, pause),
            // How much a store has to do that has not answered, or denies it, is unknown.
            (Err(_), None) => {}
            (Ok(_), _) => self.window.answered(),
        }
        // One of an earlier plan may be answered after that of this one was sent.
        let sent = self.writes.get_mut(key).filter(|part| part.write.record.nonce == nonce);
        let Some(PartWrite { write, attempts, refused_since }) = sent else { return PartOutcome::Superseded };
        if let Some(Patience { longest, .. }) = busy.filter(|_| may_repeat) {
            if now.held.since(*refused_since.get_or_insert(now.held)) < longest {
                self.unsent.push_back(key.clone());
                return PartOutcome::PutOff;
            }
        } else {
            *refused_since = None;
        }
        *attempts += 1;
        let (end, again) = match result {
            Ok(Answer::Write(Outcome::Lost(current)))
                if current.as_ref().is_none_or(|current| current.record.nonce != write.record.nonce) =>
            {
                write.expect =
                    current.as_ref().map_or(Expect::Absent, |current| Expect::Unchanged(current.version));
                let standing = current.map_or(Fence(0), |current| current.record.fence);
                write.record.fence = write.record.fence.max(standing);
                (PartOutcome::Contended, true)
            }
            Ok(_) => (PartOutcome::Written, false),
            Err(error) => match error.kind() {
                // A record that nobody can write is its worker's trouble.
                ErrorKind::Foreign | ErrorKind::Invalid => (PartOutcome::Unwritable, false),
                _ => (PartOutcome::Refused, error.is_passing() && busy.is_none()),
            },
        };
        if again && may_repeat && *attempts < ATTEMPTS {
            self.unsent.push_front(key.clone());
            return PartOutcome::Retried;
        }
        self.writes.remove(key);
        end
    }
}

/// The write of a worker's part over what stands there.
pub(super) fn part_write(
    now: Now,
    env: &mut FleetEnv,
    key: Key,
    stands: Option<&Stored>,
    part: &Part,
) -> Write {
    let fence = stands.map_or(Fence(0), |stands| stands.record.fence).max(Fence::floor(now.wall));
    let (nonce, metadata) = (env.nonces.draw(), part.compose());
    let record = Record { fence, nonce, stamp: now.wall, tenure: None, metadata };
    let expect = stands.map_or(Expect::Absent, |stands| Expect::Unchanged(stands.version));
    Write { key, expect, record }
}
