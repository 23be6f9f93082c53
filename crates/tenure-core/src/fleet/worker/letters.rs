//! Letters to other workers, in their sessions' records, which they renew anyway. So a worker reads its letter within an interval, and no
//! other worker reads anything. A letter says that a unit was passed on to the worker, or that its part of the plan is new.

use super::env::FleetEnv;
use crate::bugs::Bug;
use crate::op::{Answer, Expect, Op, Outcome, Write};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::Key;
use crate::values::record::{Ask, Letter, Stored};
use crate::values::time::{Now, Tick};
use std::collections::BTreeMap;

/// With so many letters about units under way, it is cheaper to tell all.
const MOST: usize = 8;
/// A session that changes more often than this under our hands is not merely renewed.
const ATTEMPTS: u32 = 4;
/// A part of a plan is told by a letter or, to a worker that rests, not for many intervals. So a store that fails, or a full mailbox, is waited for.
const ATTEMPTS_ABOUT_A_PART: u32 = 16;

/// Letters that are being written: to which session, and about which unit or part.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Letters {
    under_way: BTreeMap<(Key, Key), Attempts>,
}

/// How it is going to write one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Attempts {
    /// The fence that the session is to show.
    fence: Fence,
    /// How often its record was seen.
    made: u32,
    /// There is more to tell since: this letter may be read before that is there.
    again: bool,
    /// When to try again; None while a request is under way.
    retry_at: Option<Tick>,
}

/// What is to be done about a letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum LetterStep {
    /// The session's record is to be read, or written with the letter in it.
    Send(Key, Key, Op),
    /// There is more to tell the worker with this session by now: another letter is to be written about that.
    Again(Key, Key),
    /// It can't be told by a letter of its unit: all are to look.
    TellAll,
}

impl Letters {
    /// Whether somebody is still to be told of something, and may be so at once.
    pub(super) fn are_owed(&self) -> bool {
        self.under_way.values().any(|attempts| attempts.retry_at.is_none())
    }

    pub(super) fn wake_at(&self) -> Option<Tick> {
        self.under_way.values().filter_map(|attempts| attempts.retry_at).min()
    }

    /// A unit was passed on to the worker with this session, which shows this fence if there is such a worker.
    pub(super) fn about_unit(
        &mut self,
        env: &FleetEnv,
        session: Key,
        unit: Key,
        fence: Option<Fence>,
    ) -> Option<LetterStep> {
        if env.has_bug(Bug::TransfereeUntold) {
            return None;
        }
        let units = self.under_way.keys().filter(|(_, about)| is_unit(env, about)).count();
        match fence.filter(|_| units < MOST) {
            Some(fence) => self.write(session, unit, fence),
            None => Some(LetterStep::TellAll),
        }
    }

    /// The worker with this session, which shows this fence, is to be told of a unit or a part.
    pub(super) fn write(&mut self, session: Key, about: Key, fence: Fence) -> Option<LetterStep> {
        let letter = (session.clone(), about);
        if let Some(attempts) = self.under_way.get_mut(&letter) {
            attempts.again = true;
            return None;
        }
        let attempts = Attempts { fence, made: 0, again: false, retry_at: None };
        self.under_way.insert(letter.clone(), attempts);
        Some(LetterStep::Send(letter.0, letter.1, Op::Read(session)))
    }

    /// A session was read or written for a letter, or was not.
    pub(super) fn answered(
        &mut self,
        now: Now,
        env: &mut FleetEnv,
        letter: (Key, Key),
        result: Result<Answer, StoreError>,
    ) -> Option<LetterStep> {
        let nonce = env.nonces.draw();
        let attempts = self.under_way.get_mut(&letter)?;
        attempts.made += 1;
        let found = match result {
            Ok(Answer::Write(Outcome::Won { .. })) => return self.written(letter),
            Ok(Answer::Read(current) | Answer::Write(Outcome::Lost(current))) => Some(current),
            Ok(Answer::Listed(_)) | Err(_) => None,
        };
        let Attempts { fence, made, .. } = *attempts;
        let is_unit = is_unit(env, &letter.1);
        let most = if is_unit { ATTEMPTS } else { ATTEMPTS_ABOUT_A_PART };
        let has_gone = found
            .as_ref()
            .is_some_and(|current| current.as_ref().is_none_or(|stored| stored.record.fence != fence));
        let current = found.flatten().filter(|_| !has_gone && made <= most);
        if current.as_ref().is_some_and(|stored| stands(&letter, stored)) {
            return self.written(letter);
        }
        if let Some(write) = current.and_then(|stored| with_letter(&letter, stored, nonce)) {
            return Some(LetterStep::Send(letter.0, letter.1, Op::Write(Box::new(write))));
        }
        if !is_unit && !has_gone && made < most {
            attempts.retry_at = Some(now.held.after(env.part(16)));
            return None;
        }
        // It has gone, or can't be told.
        self.under_way.remove(&letter);
        is_unit.then_some(LetterStep::TellAll)
    }

    /// Those whose time has come.
    pub(super) fn wake(&mut self, now: Now) -> Vec<LetterStep> {
        let due = self.under_way.iter_mut();
        let due = due.filter(|(_, attempts)| attempts.retry_at.is_some_and(|at| now.held >= at));
        let read = |((session, about), attempts): (&(Key, Key), &mut Attempts)| {
            attempts.retry_at = None;
            LetterStep::Send(session.clone(), about.clone(), Op::Read(session.clone()))
        };
        due.map(read).collect()
    }

    fn written(&mut self, letter: (Key, Key)) -> Option<LetterStep> {
        let again = self.under_way.remove(&letter).is_some_and(|attempts| attempts.again);
        again.then_some(LetterStep::Again(letter.0, letter.1))
    }
}

fn is_unit(env: &FleetEnv, about: &Key) -> bool {
    env.fleet().unit_of(about).is_some()
}

/// Whether the same letter is there already, and unread.
fn stands((_, about): &(Key, Key), stored: &Stored) -> bool {
    let tenure = stored.record.tenure.as_ref();
    tenure.is_some_and(|tenure| {
        tenure.mail.iter().any(|letter| letter.ask == Ask::Take && letter.key == *about)
    })
}

fn with_letter((session, about): &(Key, Key), mut stored: Stored, nonce: Nonce) -> Option<Write> {
    let letter = Letter::new(about.clone(), Ask::Take);
    if !stored.record.tenure.as_mut()?.post(letter) {
        return None;
    }
    stored.record.nonce = nonce;
    Some(Write { key: session.clone(), expect: Expect::Unchanged(stored.version), record: stored.record })
}

#[cfg(test)]
mod tests;
