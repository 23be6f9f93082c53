//! Letters to other workers, in their sessions' records, which they renew anyway. So a worker reads its letter within an interval, and no
//! other worker reads anything. A letter says that a unit was passed on to the worker, or that its part of the plan is new.

use super::{FleetWorker, InFlight};
use crate::bugs::Bug;
use crate::op::{Answer, Expect, Op, Outcome, Write};
use crate::values::error::StoreError;
use crate::values::fence::{Fence, Nonce};
use crate::values::key::{HolderId, Key};
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

impl Letters {
    /// Whether somebody is still to be told of something, and may be so at once.
    pub(super) fn are_owed(&self) -> bool {
        self.under_way.values().any(|attempts| attempts.retry_at.is_none())
    }

    pub(super) fn wake_at(&self) -> Option<Tick> {
        self.under_way.values().filter_map(|attempts| attempts.retry_at).min()
    }
}

impl FleetWorker {
    /// Tells the worker with this session that a unit was passed on to it.
    pub(super) fn tell_of_unit(&mut self, now: Now, unit: Key, session: Key) {
        if self.env.has_bug(Bug::TransfereeUntold) {
            return;
        }
        let units = self.letters.under_way.keys().filter(|(_, about)| self.is_unit(about)).count();
        if units >= MOST || !self.write_letter(session, unit) {
            self.want_advance(now.held);
        }
    }

    /// Tells a worker that its part of the plan is a new one. If it can't be told, it hears of it when it next looks at the board.
    pub(super) fn tell_of_part(&mut self, who: &HolderId) {
        if let (Ok(session), Ok(part)) = (self.env.fleet().worker(who), self.env.fleet().part(who)) {
            self.write_letter(session, part);
        }
    }

    /// False if there is no such worker as far as this one knows.
    fn write_letter(&mut self, session: Key, about: Key) -> bool {
        let Some(fence) = self.peers.get(&session).map(|peer| peer.fence) else { return false };
        let letter = (session.clone(), about);
        if let Some(attempts) = self.letters.under_way.get_mut(&letter) {
            attempts.again = true;
            return true;
        }
        self.letters
            .under_way
            .insert(letter.clone(), Attempts { fence, made: 0, again: false, retry_at: None });
        self.send(InFlight::Letter(letter.0, letter.1), Op::Read(session));
        true
    }

    pub(super) fn lettered(
        &mut self,
        now: Now,
        session: Key,
        about: Key,
        result: Result<Answer, StoreError>,
    ) {
        let nonce = self.env.nonces.draw();
        let letter = (session, about);
        let Some(attempts) = self.letters.under_way.get_mut(&letter) else { return };
        attempts.made += 1;
        let found = match result {
            Ok(Answer::Write(Outcome::Won { .. })) => return self.letter_written(letter),
            Ok(Answer::Read(current) | Answer::Write(Outcome::Lost(current))) => Some(current),
            Ok(Answer::Listed(_)) | Err(_) => None,
        };
        let Attempts { fence, made, .. } = *attempts;
        let is_unit = self.is_unit(&letter.1);
        let most = if is_unit { ATTEMPTS } else { ATTEMPTS_ABOUT_A_PART };
        let has_gone = found
            .as_ref()
            .is_some_and(|current| current.as_ref().is_none_or(|stored| stored.record.fence != fence));
        let current = found.flatten().filter(|_| !has_gone && made <= most);
        if current.as_ref().is_some_and(|stored| stands(&letter, stored)) {
            return self.letter_written(letter);
        }
        if let Some(write) = current.and_then(|stored| with_letter(&letter, stored, nonce)) {
            return self.send(InFlight::Letter(letter.0, letter.1), Op::Write(Box::new(write)));
        }
        if !is_unit && !has_gone && made < most {
            let retry_at = Some(now.held.after(self.env.part(16)));
            self.letters.under_way.entry(letter).and_modify(|attempts| attempts.retry_at = retry_at);
            return;
        }
        // It has gone, or can't be told.
        self.letters.under_way.remove(&letter);
        if is_unit {
            self.want_advance(now.held);
        }
    }

    pub(super) fn wake_letters(&mut self, now: Now) {
        let due = self.letters.under_way.iter_mut();
        let due = due.filter(|(_, attempts)| attempts.retry_at.is_some_and(|at| now.held >= at));
        let due: Vec<(Key, Key)> = due
            .map(|(letter, attempts)| {
                attempts.retry_at = None;
                letter.clone()
            })
            .collect();
        for (session, about) in due {
            self.send(InFlight::Letter(session.clone(), about), Op::Read(session));
        }
    }

    fn letter_written(&mut self, letter: (Key, Key)) {
        if self.letters.under_way.remove(&letter).is_some_and(|attempts| attempts.again) {
            self.write_letter(letter.0, letter.1);
        }
    }

    fn is_unit(&self, key: &Key) -> bool {
        self.env.fleet().unit_of(key).is_some()
    }

    /// A letter has come.
    pub(super) fn got_letter(&mut self, now: Now, about: Key) {
        if self.session_fence().is_none() {
            return;
        }
        if self.is_unit(&about) {
            self.given(now, about);
        } else if self.env.fleet().part(&self.env.id).as_ref() == Ok(&about) {
            self.look_now(now);
        }
    }
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
