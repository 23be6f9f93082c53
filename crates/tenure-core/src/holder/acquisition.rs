//! Getting a key: asking for it, waiting for it, taking it over from a dead holder.
//!
//! An acquisition awaits one operation at most. After each answer it *assesses* the key's record (`assess`) and does the next thing:
//! claim it, look at the session that it is attached to, fence that session, or wait. Who waits for long asks a session beside that,
//! and awaits no answer (`challenge`).
//!
//! | state | what is under way | what follows |
//! |---|---|---|
//! | `Behind` | nothing: others of this process come first | its turn: `Looking`, or `Waiting` if this process has the key. Patience is over: the end with `Held` |
//! | `Waiting` | nothing | at its time: `Looking`. The key has changed: see below. Patience is over: the end with `Held`, or with `Failed` and the last error |
//! | `Looking` | a read of the key | the record is assessed |
//! | `Claiming` | the write of a tenure of ours | won: the end with `Won`, or `Claiming` anew (below). Refused: the record in the refusal is assessed |
//! | `Asking` | a read of the session that the key's record is attached to | that session is judged |
//! | `Fencing` | the write that raises a silent session's fence | done: `Claiming`. Refused: the session in the refusal is judged |
//! | `Challenging` | the write of a question to a live session | done: `Marking`, which says so in the key's record. Refused: `Looking`. Failed: `Waiting` |
//! | `Marking` | a record is written again, with a mark or another stamp (`mark`) | if that tells anything: `Looking`. If it does not, or failed: `Waiting` |
//! | `Looking`, `Claiming`, `Asking`, `Fencing` | a call that fails | `Waiting` (`pause`). Patience is over, or the error lasts: the end with `Failed` |
//!
//! - A failed `Challenging` or `Marking` is no failure of the acquisition. Where `Looking` or `Waiting` would follow, a `Try` ends with `Held`.
//! - A claim of unknown outcome is *unresolved* from then on. Beyond patience, another one is sent for half a ttl only. Then a free key is
//!   looked at until no claim can land any more (`only_resolves`): the end with `Failed`.
//! - What was won is claimed anew where nobody may believe in it (`won`). So it is if the key was withdrawn meanwhile; and, unless it is
//!   attached, if it was won too late or is misdated.
//! - A change of the key leads to `Looking`, or to `Claiming` if it is mostly an end (`race`). One that is no news is passed over. Where others
//!   are to have the key first (`leaves_until`), it is looked at when their time is over.
//! - Another lease of this process may hand the key on to an acquisition that is `Waiting`, `Looking` or `Asking` (`turns`). It ends with `Won`,
//!   and passes over what is told of the key until then (`awaits`).
//!
//! | assessed or judged | what follows |
//! |---|---|
//! | no record | as with a vacant one. `MetadataPolicy::Keep` ends with `Absent` |
//! | a vacant record, or one of a dead holder | `Claiming`, or `Waiting` where others are to have the key first (`stands_aside`) |
//! | an unresolved claim of this acquisition | as if that claim had just been won |
//! | what this process's session has claimed, to that session itself | `Claiming`: it does not believe in that any more, or never did |
//! | a claim that is not attached | its holder is live or dead by how that record is renewed (`failure_detector`) |
//! | a claim that is attached to this process's session | of another lease here, on the session as it is: its holder is live. Any other: dead |
//! | a claim that is attached to another process's session | `Asking`. The winner of a race is left alone for a moment: `Waiting` (`lost_race`) |
//! | that session is vacant, or has another fence | the holder is dead |
//! | that session is missing | the holder is dead after a full ttl of watching, or if a mark tells of as long a time. It is live until then |
//! | that session is silent | `Fencing` |
//! | a live holder | `Waiting`. Patience is over: the end with `Held`. Who won't be there for long may begin `Challenging` or `Marking` before |
//!
//! In each of these states an acquisition may be *abandoned*: nobody wants it any more, and it sends no more claims. It goes on until it
//! knows what became of those that it has sent, or can't know. What it won is given up at once. Each other end is told as a release.

mod assess;
mod challenge;
mod claim;
mod follow;
mod goal;
mod mark;
mod race;

use crate::bugs::Bug;
use crate::holder::ctx::{Attempt, Ctx};
use crate::op::{Answer, OpId, Outcome};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::Key;
use crate::values::metadata::Metadata;
use crate::values::record::{Occupant, Stored};
use crate::values::time::{Now, Tick, Wall};
use follow::FollowState;
pub(crate) use goal::Goal;
pub use goal::{MetadataPolicy, WaitPolicy};

/// Why an acquisition is woken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wakeup {
    /// Time has passed.
    Time,
    /// The key is said to have changed: to this version, if that is told.
    Changed(Option<Version>),
}

/// A tenure that an acquisition won.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Won {
    pub(crate) id: Nonce,
    pub(crate) fence: Fence,
    pub(crate) version: Version,
    /// When the write that won was sent, or before.
    pub(crate) sent: Tick,
    /// The wall clock at that time.
    pub(crate) wall: Wall,
    /// What the record says about when the tenure began.
    pub(crate) since: Wall,
    pub(crate) metadata: Metadata,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum AcquisitionEnd {
    Won(Won),
    /// The wait is over and someone holds it.
    Held(Option<Occupant>),
    /// [`MetadataPolicy::Keep`] found no record.
    Absent,
    Failed(StoreError),
    /// Abandoned, and nothing of it stands in the store as far as is known.
    Dropped,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum AcquisitionState {
    Claiming {
        op: OpId,
        attempt: Attempt,
        since: Wall,
        metadata: Metadata,
    },
    /// Reading the key.
    Looking {
        op: OpId,
    },
    /// Reading the session that `seen` is attached to.
    Asking {
        op: OpId,
        seen: Box<Stored>,
    },
    /// Raising the fence of the dead session that `seen` is attached to, so that it can never renew.
    Fencing {
        op: OpId,
        seen: Box<Stored>,
    },
    /// Asking the session that `seen` is attached to whether it knows of that.
    Challenging {
        op: OpId,
        seen: Box<Stored>,
    },
    /// Leaving a mark for those who come later: see `failure_detector` and `challenge`.
    Marking {
        op: OpId,
        /// What is written may tell something at once.
        tells: bool,
    },
    /// Someone holds it, or the store was in trouble: look again then.
    Waiting {
        until: Tick,
    },
    /// Others of this process wait for the key and came before: they ask, and this one waits for its turn.
    Behind,
}

/// One attempt to get one key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Acquisition {
    goal: Goal,
    state: AcquisitionState,
    /// Claims that were sent and may have landed, or may yet.
    unresolved: Vec<Attempt>,
    /// What the last one of those met.
    unanswered: Option<StoreError>,
    failures: u32,
    occupant: Option<Occupant>,
    last_error: Option<StoreError>,
    /// Nobody wants it any more. From then on it is `Claiming`, or has unresolved claims: else it has ended.
    abandoned: bool,
    /// The key is said to have changed while an operation was under way, which may have seen it before that.
    hinted: Option<Option<Version>>,
    /// The version of the record that was seen last, and whether it was attached to another's session.
    seen: Option<(Version, bool)>,
    /// The key was claimed at once when it was said to have changed to this: whoever loses that race has not looked at the winner yet.
    raced: Option<Version>,
    /// Another lease of this process is handing the key on to it: what is told of the key meanwhile is just that.
    awaits: bool,
    /// Others are to have the key until then.
    leaves_until: Tick,
    /// The key was withdrawn from this process then: no claim that was sent before is believed in, should it turn out to have won; if a fence
    /// is named, under that one.
    withdrawn: Option<(Tick, Option<Fence>)>,
    /// Until then, and beyond the user's patience, it is worth finding out what became of unresolved claims.
    resolve_by: Tick,
    /// Of an acquisition that follows.
    sight: Option<Box<FollowState>>,
}

impl Acquisition {
    /// Sends the first operation: a claim, in the uncontended case the only one.
    pub(crate) fn start(goal: Goal, ctx: &mut Ctx<'_>) -> (Acquisition, Option<AcquisitionEnd>) {
        let mut acquisition = Acquisition::new(goal, AcquisitionState::Waiting { until: ctx.now.held });
        if acquisition.looks_first() {
            let end = acquisition.look(ctx);
            return (acquisition, end);
        }
        let end = match &mut acquisition.goal.metadata_policy {
            MetadataPolicy::Replace(_) => acquisition.claim_vacant(ctx),
            MetadataPolicy::Keep(seen) => match seen.take() {
                Some(seen) => acquisition.assess(ctx, Some(*seen)),
                None => acquisition.look(ctx),
            },
        };
        (acquisition, end)
    }

    fn new(goal: Goal, state: AcquisitionState) -> Acquisition {
        let sight = FollowState::of(goal.wait_policy);
        Acquisition {
            goal,
            state,
            unresolved: Vec::new(),
            unanswered: None,
            failures: 0,
            occupant: None,
            last_error: None,
            abandoned: false,
            hinted: None,
            seen: None,
            raced: None,
            awaits: false,
            leaves_until: Tick(0),
            withdrawn: None,
            resolve_by: Tick(0),
            sight,
        }
    }

    pub(crate) fn key(&self) -> &Key {
        &self.goal.key
    }

    pub(crate) fn goal(&self) -> &Goal {
        &self.goal
    }

    /// When to come back if nothing happens.
    pub(crate) fn wake_at(&self) -> Option<Tick> {
        match self.state {
            AcquisitionState::Behind => self.goal.wait_policy.deadline(),
            // What may stand in the store has to be found out first, however long that takes.
            AcquisitionState::Waiting { until } if self.may_be_orphaned() => Some(until),
            AcquisitionState::Waiting { until } => {
                Some(self.goal.wait_policy.deadline().map_or(until, |end| until.min(end)))
            }
            _ => None,
        }
    }

    /// Whether nobody wants it any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    /// Nobody wants it any more. It goes on only to find out whether something must be undone.
    pub(crate) fn abandon(&mut self) -> Option<AcquisitionEnd> {
        self.abandoned = true;
        let claiming = matches!(self.state, AcquisitionState::Claiming { .. });
        if claiming || self.may_be_orphaned() { None } else { Some(AcquisitionEnd::Dropped) }
    }

    /// The key is withdrawn from this process, and so are claims of which it doesn't know yet whether they have won. Nobody believes
    /// in those, so a new one may follow at once. With a fence, only the claim that has won under that one is meant.
    pub(crate) fn withdraw(&mut self, now: Tick, fence: Option<Fence>) {
        // Of several letters that name different ones, none is forgotten.
        let fence = fence.filter(|fence| self.withdrawn.is_none_or(|(_, before)| before == Some(*fence)));
        self.withdrawn = Some((now, fence));
    }

    /// Whether a claim was sent of which nothing is known: it may still land, long after this acquisition.
    pub(crate) fn may_be_orphaned(&self) -> bool {
        !self.unresolved.is_empty()
    }

    /// Whether the tenure is one that this acquisition may be about to win.
    pub(crate) fn may_win(&self, id: Nonce) -> bool {
        let claiming =
            matches!(&self.state, AcquisitionState::Claiming { attempt, .. } if attempt.nonce == id);
        claiming || self.unresolved.iter().any(|attempt| attempt.nonce == id)
    }

    /// Time has passed, or the key is said to have changed.
    pub(crate) fn wake(&mut self, ctx: &mut Ctx<'_>, why: Wakeup) -> Option<AcquisitionEnd> {
        let until = match self.state {
            AcquisitionState::Waiting { until } => until,
            AcquisitionState::Behind => return self.patience_is_over(ctx).then(|| self.give_up()),
            _ => {
                if let Wakeup::Changed(version) = why
                    && !ctx.rules.bugs.has(Bug::HintWhileLooking)
                {
                    // One that names no version may stand for any number of changes.
                    self.hinted = if self.hinted == Some(None) { self.hinted } else { Some(version) };
                }
                return None;
            }
        };
        if self.patience_is_over(ctx) && !self.may_be_orphaned() {
            return Some(self.give_up());
        }
        match why {
            _ if ctx.now.held >= until => self.look(ctx),
            Wakeup::Changed(_) if self.awaits => None,
            Wakeup::Changed(_) if ctx.now.held < self.leaves_until => {
                self.state = AcquisitionState::Waiting { until: until.min(self.leaves_until) };
                None
            }
            Wakeup::Changed(version) if self.is_news(version) => self.changed(ctx, version),
            Wakeup::Changed(_) | Wakeup::Time => None,
        }
    }

    /// Whether it goes on while somebody else has the key.
    fn is_patient(&self, now: Now) -> bool {
        now.held < self.goal.wait_policy.patience_ends()
    }

    fn patience_is_over(&self, ctx: &Ctx<'_>) -> bool {
        let end = self.goal.wait_policy.patience_ends();
        ctx.now.held >= if self.may_be_orphaned() { end.max(self.resolve_by) } else { end }
    }

    fn give_up(&mut self) -> AcquisitionEnd {
        match self.last_error.take() {
            Some(error) => AcquisitionEnd::Failed(error),
            None => AcquisitionEnd::Held(self.occupant.take()),
        }
    }

    /// An operation's answer.
    pub(crate) fn answer(
        &mut self,
        ctx: &mut Ctx<'_>,
        id: OpId,
        result: Result<Answer, StoreError>,
    ) -> Option<AcquisitionEnd> {
        let wait = AcquisitionState::Waiting { until: ctx.now.held };
        match (std::mem::replace(&mut self.state, wait), result) {
            (
                AcquisitionState::Claiming { op, attempt, since, metadata },
                Ok(Answer::Write(Outcome::Won { version, fence })),
            ) if op == id => {
                let sent = if ctx.rules.bugs.has(Bug::ValidFromAnswer) { ctx.now.held } else { attempt.sent };
                self.won(
                    ctx,
                    Won { id: attempt.nonce, fence, version, sent, wall: attempt.wall, since, metadata },
                )
            }
            (AcquisitionState::Claiming { op, .. }, Ok(Answer::Write(Outcome::Lost(current))))
                if op == id =>
            {
                self.settled();
                match current {
                    Some(current) if ctx.rules.bugs.has(Bug::TakeWithoutCondition) => self.take(ctx, current),
                    current => self.assess(ctx, current),
                }
            }
            (AcquisitionState::Claiming { op, attempt, metadata, .. }, Err(error)) if op == id => {
                self.claim_failed(ctx, attempt, metadata, error)
            }
            (AcquisitionState::Looking { op }, Ok(Answer::Read(current))) if op == id => {
                self.settled();
                self.assess(ctx, current)
            }
            (AcquisitionState::Asking { op, seen }, Ok(Answer::Read(session))) if op == id => {
                self.settled();
                self.judge_session(ctx, *seen, session)
            }
            (AcquisitionState::Fencing { op, seen }, Ok(Answer::Write(Outcome::Won { .. }))) if op == id => {
                self.take(ctx, *seen)
            }
            (AcquisitionState::Fencing { op, seen }, Ok(Answer::Write(Outcome::Lost(session))))
                if op == id =>
            {
                self.judge_session(ctx, *seen, session)
            }
            (AcquisitionState::Challenging { op, seen }, Ok(Answer::Write(Outcome::Won { .. })))
                if op == id =>
            {
                self.has_asked(ctx, *seen)
            }
            (AcquisitionState::Challenging { op, .. }, result) if op == id => {
                self.has_marked(ctx, result.is_ok())
            }
            (AcquisitionState::Marking { op, tells }, result) if op == id => {
                self.has_marked(ctx, result.is_ok() && tells)
            }
            (
                AcquisitionState::Looking { op }
                | AcquisitionState::Asking { op, .. }
                | AcquisitionState::Fencing { op, .. },
                Err(error),
            ) if op == id => self.pause(ctx, error),
            (state, _) => {
                self.state = state;
                None
            }
        }
    }

    fn settled(&mut self) {
        self.failures = 0;
        self.last_error = None;
    }

    /// The store is in trouble: look again a little later, or tell the user if that can't help.
    fn pause(&mut self, ctx: &mut Ctx<'_>, error: StoreError) -> Option<AcquisitionEnd> {
        self.failures += 1;
        if self.abandoned {
            let expired =
                self.unresolved.iter().all(|a| ctx.now.held >= a.sent.after(self.goal.ttl.duration()));
            // Who may not look has an answer all the same: what is attached is looked after as an orphaned claim from then on.
            if self.goal.attachment.is_none() && expired || !self.may_be_orphaned() || !error.is_passing() {
                return Some(AcquisitionEnd::Dropped);
            }
        } else {
            if self.patience_is_over(ctx) || !error.is_passing() {
                return Some(AcquisitionEnd::Failed(error));
            }
        }
        self.last_error = Some(error);
        self.state = AcquisitionState::Waiting { until: ctx.retry_at(self.goal.ttl, self.failures) };
        None
    }

    fn look(&mut self, ctx: &mut Ctx<'_>) -> Option<AcquisitionEnd> {
        (self.hinted, self.raced) = (None, None);
        self.state = AcquisitionState::Looking { op: ctx.read(&self.goal.key, self.goal.ttl) };
        None
    }
}
