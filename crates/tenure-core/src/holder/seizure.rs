//! Taking a lease from its holder by force, and giving the key away only when that holder can't believe any more.
//!
//! A letter tells the holder first, in the record that it renews: its own, or that of the session to which it is attached. After
//! reading it the holder believes no longer than its present deadline. The key is vacated once a full ttl has passed since the letter was
//! written, by the clock of the process that takes it. That holds whether the holder was told, is cut off, or is
//! dead. A holder that gives the key up by itself ends the wait.
//!
//! The process that takes a lease away may die half-way. The letter does the rest: its holder gives the key up.

use crate::backoff::MOMENT;
use crate::bugs::Bug;
use crate::holder::ctx::call_timeout;
use crate::holder::failure_detector::{FailureDetector, HolderVerdict};
use crate::op::{Answer, Event, Expect, Machine, Op, OpId, Outcome, Request, Step, Write};
use crate::rules::Rules;
use crate::values::error::{ErrorKind, StoreError};
use crate::values::fence::{Fence, Nonce, Nonces};
use crate::values::key::{HolderId, Key};
use crate::values::record::{Ask, Attachment, Letter, Record, Stored, Tenure};
use crate::values::time::{Now, Tick, Ttl};
use std::time::Duration;

/// What comes of taking a lease away.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Seized {
    /// The holder is told to stop, or was before. The key is free within this time, or sooner.
    Told {
        /// Who.
        holder: HolderId,
        /// Its ttl, as a rule.
        within: Duration,
    },
    /// Nobody holds the key under this fence any more.
    Free {
        /// The fence of the tenure that is over.
        fence: Fence,
        /// It was vacated here; else its holder gave it up, or another holds it now.
        vacated: bool,
    },
    /// Nobody held it; or not the one, or not under the fence, that was named.
    NotHeld,
    /// It can't be done.
    Failed(StoreError),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum SeizureState {
    /// Looking at the key, now or as soon as this time comes.
    Looking(Option<OpId>, Tick),
    /// Looking at the session that the key's record is attached to.
    Asking(OpId, Box<Stored>),
    /// Writing the letter.
    Telling(OpId, Option<Attachment>),
    Vacating(OpId),
    Over,
}

/// The machine that takes one lease away. It begins with its first event, whatever that is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Seizure {
    key: Key,
    at_once: bool,
    /// Only from this holder, if one is named.
    from: Option<HolderId>,
    /// Only the tenure under this fence, if one is named.
    only: Option<Fence>,
    rules: Rules,
    nonces: Nonces,
    detector: FailureDetector,
    state: SeizureState,
    last_op: u64,
    failures: u32,
    /// The tenure that is to end, once it was seen.
    meant: Option<(Fence, Ttl)>,
    began: Tick,
    /// Where a letter is known to have been since when, by the waiter's clock: in the session of this attachment, or in the key's own record.
    told: Option<(Option<Attachment>, Tick)>,
    announced: bool,
    out: Vec<Seized>,
    requests: Vec<Request>,
}

/// A holder that goes on for so many ttls after it was told does not read its mail.
const PATIENCE: u32 = 4;

impl Machine for Seizure {
    type Command = ();
    type Notice = Seized;

    fn step(&mut self, now: Now, event: Event<()>) -> Step<Seized> {
        self.detector.see_clocks(now);
        match event {
            Event::Answer(op, result) => self.answer(now, op, result),
            Event::Command(()) | Event::Changed(_) | Event::Wake => {}
        }
        if let SeizureState::Looking(None, at) = self.state
            && now.held >= at
        {
            if self.last_op == 0 {
                self.began = now.held;
            }
            let op = self.send(Op::Read(self.key.clone()));
            self.state = SeizureState::Looking(Some(op), at);
        }
        let wake_at = if let SeizureState::Looking(None, at) = self.state { Some(at) } else { None };
        Step { requests: std::mem::take(&mut self.requests), notices: std::mem::take(&mut self.out), wake_at }
    }

    fn listens(&self) -> bool {
        false
    }
}

impl Seizure {
    /// Takes away whatever lease stands on `key`. `at_once`: without telling its holder, nor waiting until that can't believe
    /// any more, so two may hold the key for a while. `instance`: 64 random bits.
    #[must_use]
    pub fn new(key: Key, at_once: bool, rules: Rules, instance: u64) -> Seizure {
        Seizure {
            key,
            at_once,
            from: None,
            only: None,
            rules,
            nonces: Nonces::new(instance),
            detector: FailureDetector::default(),
            state: SeizureState::Looking(None, Tick(0)),
            last_op: 0,
            failures: 0,
            meant: None,
            began: Tick(0),
            told: None,
            announced: false,
            out: Vec::new(),
            requests: Vec::new(),
        }
    }

    /// Gives back what a process that is known to be dead held on `key`. That is done at once, since nobody is left who could believe.
    /// A lease of anybody else's is left as it is. `holder` must have been the name of that one process.
    #[must_use]
    pub fn of_dead(key: Key, holder: HolderId, rules: Rules, instance: u64) -> Seizure {
        Seizure { from: Some(holder), ..Seizure::new(key, true, rules, instance) }
    }

    /// The same, but only of the tenure under this fence: if another stands there, or none, nothing is done.
    #[must_use]
    pub fn of_tenure(self, fence: Fence) -> Seizure {
        Seizure { only: Some(fence), ..self }
    }

    fn send(&mut self, op: Op) -> OpId {
        self.last_op += 1;
        let id = OpId(self.last_op);
        let timeout = self.meant.map_or(MOMENT, |(_, ttl)| call_timeout(ttl));
        self.requests.push(Request { id, op, timeout, urgent: false });
        id
    }

    fn end(&mut self, end: Seized) {
        self.state = SeizureState::Over;
        self.out.push(end);
    }

    fn look_at(&mut self, at: Tick) {
        self.state = SeizureState::Looking(None, at);
    }

    fn answer(&mut self, now: Now, op: OpId, result: Result<Answer, StoreError>) {
        let is_ours = match &self.state {
            SeizureState::Looking(asked, _) => *asked == Some(op),
            SeizureState::Asking(asked, _)
            | SeizureState::Telling(asked, _)
            | SeizureState::Vacating(asked) => *asked == op,
            SeizureState::Over => false,
        };
        if !is_ours {
            return;
        }
        match (std::mem::replace(&mut self.state, SeizureState::Over), result) {
            (state, Err(error)) => self.failed(now, &state, error),
            (SeizureState::Looking(..), Ok(Answer::Read(current))) => self.assess(now, current),
            (SeizureState::Asking(_, seen), Ok(Answer::Read(session))) => {
                self.judge_session(now, *seen, session)
            }
            (SeizureState::Telling(_, attachment), Ok(Answer::Write(Outcome::Won { .. }))) => {
                self.told = Some((attachment, now.waited));
                self.look_at(now.held);
            }
            (SeizureState::Vacating(_), Ok(Answer::Write(Outcome::Won { fence, .. }))) => {
                self.end(Seized::Free { fence, vacated: true });
            }
            (SeizureState::Vacating(_), Ok(Answer::Write(Outcome::Lost(current)))) => {
                self.assess(now, current)
            }
            // The record changed under the letter: a renewal, or other mail.
            (_, Ok(_)) => self.look_at(now.held),
        }
        if !matches!(self.state, SeizureState::Over) {
            self.mind_patience(now);
        }
    }

    fn failed(&mut self, now: Now, state: &SeizureState, error: StoreError) {
        // The store is asked again, as long as that may help; what became of a write shows in the record.
        self.failures += 1;
        let ttl = self.meant.map_or(Duration::from_secs(1), |(_, ttl)| ttl.duration());
        let is_foreign = error.kind() == ErrorKind::Foreign && matches!(state, SeizureState::Asking(..));
        if (error.is_passing() || is_foreign) && now.held.since(self.began) < ttl * PATIENCE {
            return self.look_at(now.held.after(ttl / (64 >> self.failures.min(4))));
        }
        self.end(Seized::Failed(error));
    }

    fn mind_patience(&mut self, now: Now) {
        let Some((_, ttl)) = self.meant else { return };
        if now.held.since(self.began) >= ttl.duration() * PATIENCE {
            let text = format!("the holder of {} goes on though it was told to stop", self.key);
            self.end(Seized::Failed(StoreError::unavailable(text)));
        }
    }

    fn assess(&mut self, now: Now, current: Option<Stored>) {
        self.failures = 0;
        let tenure = current.as_ref().and_then(|stored| stored.record.tenure.clone());
        let shown = current.as_ref().map(|stored| stored.record.fence);
        let is_meant = |tenure: &Tenure| {
            self.from.as_ref().is_none_or(|from| *from == tenure.holder)
                && (self.only.is_none() || self.only == shown)
        };
        let (Some(seen), Some(tenure)) = (current, tenure.filter(is_meant)) else {
            return match self.meant {
                Some((fence, _)) => self.end(Seized::Free { fence, vacated: false }),
                None => self.end(Seized::NotHeld),
            };
        };
        let (fence, _) = *self.meant.get_or_insert((seen.record.fence, tenure.ttl));
        if seen.record.fence != fence {
            return self.end(Seized::Free { fence, vacated: false });
        }
        if self.at_once {
            return self.vacate(now, seen);
        }
        match tenure.attachment.clone() {
            None => self.judge_own(now, seen, &tenure),
            Some(attachment) => match &self.told {
                Some((told, since)) if told.as_ref() == Some(&attachment) => {
                    let waited = now.waited.since(*since);
                    if waited >= tenure.ttl.duration() || self.rules.bugs.has(Bug::SeizedEarly) {
                        return self.vacate(now, seen);
                    }
                    let left = tenure.ttl.duration() - waited;
                    self.wait(now, &tenure, left);
                }
                _ => {
                    let op = self.send(Op::Read(attachment.session));
                    self.state = SeizureState::Asking(op, Box::new(seen));
                }
            },
        }
    }

    /// `seen` renews itself: it must fall silent.
    fn judge_own(&mut self, now: Now, seen: Stored, tenure: &Tenure) {
        match self.detector.judge(now, &self.key, &seen, tenure, &self.rules) {
            HolderVerdict::Suspected => self.vacate(now, seen),
            HolderVerdict::Live { .. } if self.rules.bugs.has(Bug::SeizedEarly) => self.vacate(now, seen),
            HolderVerdict::Live { until } if self.has_letter(tenure, seen.record.fence) => {
                self.wait(now, tenure, until.since(now.held));
            }
            HolderVerdict::Live { until } => {
                let (key, within) = (self.key.clone(), until.since(now.held));
                let letter = self.letter(seen.record.fence);
                self.tell(now, key, seen, None, within, (tenure.holder.clone(), letter));
            }
        }
    }

    /// `seen` is attached to `session`.
    fn judge_session(&mut self, now: Now, seen: Stored, session: Option<Stored>) {
        let Some(tenure) = seen.record.tenure.clone() else { return self.look_at(now.held) };
        let Some(attachment) = tenure.attachment.clone() else { return self.look_at(now.held) };
        let Some(session) = session else {
            // Deleted by hand: its process may believe until it next renews it.
            return match self.detector.judge_missing(now, &attachment, tenure.ttl, &self.rules) {
                HolderVerdict::Suspected => self.vacate(now, seen),
                HolderVerdict::Live { until } => self.wait(now, &tenure, until.since(now.held)),
            };
        };
        let renewing = match &session.record.tenure {
            Some(renewing) if session.record.fence == attachment.fence => renewing.clone(),
            // It is over, and so is what is attached to it.
            _ => return self.vacate(now, seen),
        };
        match self.detector.judge(now, &attachment.session, &session, &renewing, &self.rules) {
            HolderVerdict::Suspected => self.vacate(now, seen),
            HolderVerdict::Live { .. }
                if self.has_letter(&renewing, seen.record.fence)
                    || self.rules.bugs.has(Bug::SeizedUntold) =>
            {
                self.told = Some((Some(attachment), now.waited));
                self.wait(now, &tenure, tenure.ttl.duration());
            }
            HolderVerdict::Live { .. } => {
                let within = tenure.ttl.duration();
                let to = (tenure.holder, self.letter(seen.record.fence));
                self.tell(now, attachment.session.clone(), session, Some(attachment), within, to);
            }
        }
    }

    fn tell(
        &mut self,
        now: Now,
        at: Key,
        mut stored: Stored,
        attachment: Option<Attachment>,
        within: Duration,
        (holder, letter): (HolderId, Letter),
    ) {
        let Some(tenure) = &mut stored.record.tenure else { return self.look_at(now.held) };
        if !tenure.post(letter) {
            let soon = now.held.after(tenure.ttl.part(16));
            return self.look_at(soon);
        }
        stored.record.nonce = self.draw();
        let write = Write { key: at, expect: Expect::Unchanged(stored.version), record: stored.record };
        let op = self.send(Op::Write(Box::new(write)));
        self.state = SeizureState::Telling(op, attachment);
        self.announce(&holder, within);
    }

    /// What is written to the holder of the tenure under this fence.
    fn letter(&self, fence: Fence) -> Letter {
        Letter::new(self.key.clone(), Ask::Revoke).of(fence)
    }

    /// Whether that holder has been written to.
    fn has_letter(&self, tenure: &Tenure, fence: Fence) -> bool {
        tenure.mail.iter().any(|letter| letter.is(Ask::Revoke, &self.key) && letter.concerns(fence))
    }

    fn announce(&mut self, holder: &HolderId, within: Duration) {
        if !std::mem::replace(&mut self.announced, true) {
            self.out.push(Seized::Told { holder: holder.clone(), within });
        }
    }

    /// Until it is time, or the holder gives it up.
    fn wait(&mut self, now: Now, tenure: &Tenure, left: Duration) {
        self.announce(&tenure.holder, left);
        let shortest = Duration::from_millis(1);
        self.look_at(now.held.after(left.min(tenure.ttl.part(16)).max(shortest)));
    }

    fn vacate(&mut self, now: Now, seen: Stored) {
        let record = Record { nonce: self.draw(), stamp: now.wall, tenure: None, ..seen.record };
        let write = Write { key: self.key.clone(), expect: Expect::Unchanged(seen.version), record };
        let op = self.send(Op::Write(Box::new(write)));
        self.state = SeizureState::Vacating(op);
    }

    fn draw(&mut self) -> Nonce {
        self.nonces.draw()
    }
}
