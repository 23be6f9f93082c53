//! The record of a key in a store: the holder, the fence, and the signs by which others see that the holder lives.

use crate::values::fence::{Fence, Nonce, Version};
use crate::values::key::{HolderId, Key};
use crate::values::metadata::Metadata;
use crate::values::time::host::Mark;
use crate::values::time::{Ttl, Wall};
use std::fmt;
use std::time::Duration;

/// The record of one key. A record without a tenure is *vacant*: it only keeps the fence and the metadata.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Record {
    /// The fence of the present tenure, or of the last one.
    pub fence: Fence,
    /// Marks the write that made this version of the record.
    pub nonce: Nonce,
    /// The wall clock of the holder (of a vacant record: of who vacated it) just before its own last write.
    pub stamp: Wall,
    /// Who holds the key, if anyone does.
    pub tenure: Option<Tenure>,
    /// The users' fields.
    pub metadata: Metadata,
}

impl Record {
    /// Whether somebody other than the tenure's holder wrote it: letters and marks leave the heartbeat as it was.
    #[must_use]
    pub fn is_written_by_others(&self) -> bool {
        self.tenure.as_ref().is_some_and(|tenure| tenure.heartbeat != self.nonce)
    }

    /// Names the write that made this record: what the native layout compares.
    #[must_use]
    pub fn version(&self) -> Version {
        Version::of(self.nonce, self.fence)
    }
}

/// One holder's claim on a key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tenure {
    /// The nonce of the write that began this tenure, or that took it over as plain data. It *is* the tenure.
    pub id: Nonce,
    /// The nonce of the holder's own last write. Others' mail changes the record but not this, so mail prolongs nothing.
    pub heartbeat: Nonce,
    /// Who holds it.
    pub holder: HolderId,
    /// How long the claim lasts after a heartbeat.
    pub ttl: Ttl,
    /// The holder's wall clock when the tenure began; for people.
    pub since: Wall,
    /// The session that this claim lives and dies with. Without one, it renews itself.
    pub attachment: Option<Attachment>,
    /// Requests to the holder, which its next renewal shows it.
    pub mail: Vec<Letter>,
    /// What hosts of those who found it silent showed then; a renewal leaves none.
    pub marks: Vec<Mark>,
}

impl Tenure {
    /// One that the write of this nonce begins. It renews itself, and nobody has written to it yet.
    #[must_use]
    pub fn new(id: Nonce, holder: HolderId, ttl: Ttl, since: Wall) -> Tenure {
        Tenure {
            id,
            heartbeat: id,
            holder,
            ttl,
            since,
            attachment: None,
            mail: Vec::new(),
            marks: Vec::new(),
        }
    }

    /// Puts a letter into the mailbox; false if it is full. A request takes the place of a question then: whoever asked, asks
    /// again.
    pub fn post(&mut self, letter: Letter) -> bool {
        if self.mail.len() >= MAILBOX {
            let question = self.mail.iter().position(|letter| letter.ask == Ask::Confirm);
            let Some(at) = question.filter(|_| letter.ask != Ask::Confirm) else { return false };
            self.mail.remove(at);
        }
        self.mail.push(letter);
        true
    }
}

/// A claim is live exactly while its session's record shows the same fence and a tenure.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Attachment {
    /// The key of the session.
    pub session: Key,
    /// The session's fence when the claim was made.
    pub fence: Fence,
}

/// A request to the holder of a live lease, left in the record that it renews.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Letter {
    /// Which key it is about: for mail to a session, one of those that are attached to it.
    pub key: Key,
    /// What is asked.
    pub ask: Ask,
    /// Which tenure of the key it is about, if only that one: whoever holds the key under another fence by then isn't asked.
    pub fence: Option<Fence>,
}

impl Letter {
    /// About whatever tenure of the key the reader has.
    #[must_use]
    pub fn new(key: Key, ask: Ask) -> Letter {
        Letter { key, ask, fence: None }
    }

    /// About the tenure under this fence only.
    #[must_use]
    pub fn of(self, fence: Fence) -> Letter {
        Letter { fence: Some(fence), ..self }
    }

    /// Whether it asks this about that key.
    pub(crate) fn is(&self, ask: Ask, key: &Key) -> bool {
        self.ask == ask && self.key == *key
    }

    /// Whether it is about the tenure under this fence, if it is about that key's.
    #[must_use]
    pub fn concerns(&self, fence: Fence) -> bool {
        self.fence.is_none_or(|named| named == fence)
    }
}

/// What a letter asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Ask {
    /// Please give the key up when it suits you.
    HandOver,
    /// The key is withdrawn: stop now. It is vacated, or no longer renewed, when the holder's validity ends.
    Revoke,
    /// Do you really hold this? A holder that doesn't, vacates it. Sent by those who wait long.
    Confirm,
    /// The key was passed on to you, and nothing else tells you so: take it. Workers of a fleet send it to one another; to whom it
    /// says nothing, it is a question as to whether it holds the key.
    Take,
    /// What only a newer version knows, by its number, so that it stands in a record which this version writes again. To whom it says
    /// nothing, it is a question, which is always harmless.
    Newer(u64),
}

impl Ask {
    /// All that this version knows.
    pub const ALL: [Ask; 4] = [Ask::HandOver, Ask::Revoke, Ask::Confirm, Ask::Take];

    /// Its number in a record.
    #[must_use]
    pub fn code(self) -> u64 {
        match self {
            Ask::HandOver => 0,
            Ask::Revoke => 1,
            Ask::Confirm => 2,
            Ask::Take => 3,
            Ask::Newer(code) => code,
        }
    }

    /// What has this number.
    #[must_use]
    pub fn of_code(code: u64) -> Ask {
        Ask::ALL.into_iter().find(|ask| ask.code() == code).unwrap_or(Ask::Newer(code))
    }

    /// Whether its reader is only to say whether it holds the key.
    pub(crate) fn is_question(self) -> bool {
        matches!(self, Ask::Confirm | Ask::Newer(_))
    }
}

impl fmt::Display for Ask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ask::HandOver => f.write_str("hand over"),
            Ask::Revoke => f.write_str("stop: it is withdrawn"),
            Ask::Confirm => f.write_str("confirm"),
            Ask::Take => f.write_str("take"),
            Ask::Newer(code) => write!(f, "what a newer version knows as {code}"),
        }
    }
}

/// The most letters that one record carries. A sender that finds it full waits for the next renewal.
pub const MAILBOX: usize = 16;

/// A record as a store returned it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct Stored {
    /// The record.
    pub record: Record,
    /// What to compare with to write over it.
    pub version: Version,
    /// When it was written and when it was read, by the store's own clock; if the store can tell.
    pub times: Option<Times>,
}

/// Two readings of a store's own clock, in microseconds since whatever that clock counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Times {
    /// Names the clock. Readings of clocks with different names can't be compared. A store that has one clock for all who use
    /// it says 0.
    pub clock: u64,
    /// When the record's last write was asked for, or later: a store that is not certain rounds up.
    pub written: u64,
    /// When this was read, or earlier: a store that is not certain rounds down. So it may lie before `written`.
    pub now: u64,
}

impl Times {
    /// Of a record that was written so long ago, by a clock of whatever beginning.
    #[must_use]
    pub fn of_age(age: Duration) -> Times {
        let written = 1 << 40;
        Times { clock: 0, written, now: micros(age).saturating_add(written) }
    }

    /// How long ago, at the most, its last write was asked for, in whole milliseconds.
    #[must_use]
    pub fn age(&self) -> Duration {
        Duration::from_millis(self.now.saturating_sub(self.written) / 1000)
    }
}

/// A span as a store's clock counts it.
pub(crate) fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl Stored {
    /// A record in the native layout, whose version it tells itself, from a store that tells no times.
    #[must_use]
    pub fn new(record: Record) -> Stored {
        Stored { version: record.version(), record, times: None }
    }

    /// The same with the store's own times, if it tells them.
    #[must_use]
    pub fn timed(self, times: Option<Times>) -> Stored {
        Stored { times, ..self }
    }

    /// The same, written so long ago, if the store tells.
    #[must_use]
    pub fn aged(self, age: Option<Duration>) -> Stored {
        self.timed(age.map(Times::of_age))
    }

    /// The same with another version.
    #[must_use]
    pub fn versioned(self, version: Version) -> Stored {
        Stored { version, ..self }
    }

    /// How long ago the record was written, by the store's own clock, rounded down; if the store can tell.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        self.times.map(|times| times.age())
    }

    /// The tenure with this id, if the record still shows it.
    #[must_use]
    pub fn tenure(&self, id: Nonce) -> Option<&Tenure> {
        self.record.tenure.as_ref().filter(|tenure| tenure.id == id)
    }
}

/// Who holds a key, as told to those who don't.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Occupant {
    /// Who.
    pub holder: HolderId,
    /// Under which fence.
    pub fence: Fence,
    /// Since when, by the wall clock of the holder. Of two processes that hold it one after the other, each goes by its own.
    pub since: Wall,
}

impl Occupant {
    /// Whoever holds a key under this fence since then.
    #[must_use]
    pub fn new(holder: HolderId, fence: Fence, since: Wall) -> Occupant {
        Occupant { holder, fence, since }
    }
}

/// As `b-17 (fence 8)`.
impl fmt::Display for Occupant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (fence {})", self.holder, self.fence)
    }
}

impl Occupant {
    /// Who holds `record`, if anyone does.
    #[must_use]
    pub fn of(record: &Record) -> Option<Occupant> {
        record.tenure.as_ref().map(|tenure| Occupant {
            holder: tenure.holder.clone(),
            fence: record.fence,
            since: tenure.since,
        })
    }
}

/// Who holds a key and what its record says, as told to those who follow it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Sighting {
    /// Who.
    pub occupant: Occupant,
    /// What the record carries.
    pub metadata: Metadata,
}

impl Sighting {
    /// Who holds `record`, if anyone does.
    #[must_use]
    pub fn of(record: &Record) -> Option<Sighting> {
        Some(Sighting { occupant: Occupant::of(record)?, metadata: record.metadata.clone() })
    }
}

/// Who holds it, as [`Occupant`] says.
impl fmt::Display for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.occupant.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: each ask has its number, and what only a newer version knows keeps its own; a full mailbox takes a request in the place of a
    //! question, and nothing else.
    use super::*;

    #[test]
    fn each_ask_has_a_number_of_its_own_and_what_is_unknown_keeps_its_own() {
        // One that is new does not compile here before it stands in the list of all.
        let next = |ask| match ask {
            None => Some(Ask::HandOver),
            Some(Ask::HandOver) => Some(Ask::Revoke),
            Some(Ask::Revoke) => Some(Ask::Confirm),
            Some(Ask::Confirm) => Some(Ask::Take),
            Some(Ask::Take | Ask::Newer(_)) => None,
        };
        let mut last = None;
        for ask in Ask::ALL {
            last = next(last);
            assert_eq!(last, Some(ask));
            assert_eq!(Ask::of_code(ask.code()), ask);
        }
        assert_eq!(next(last), None);
        let newer = Ask::of_code(99);
        assert_eq!((newer, newer.code()), (Ask::Newer(99), 99));
        assert!(newer.is_question() && Ask::Confirm.is_question() && !Ask::HandOver.is_question());
    }

    #[test]
    fn a_request_takes_the_place_of_a_question_where_the_mailbox_is_full() {
        let letter = |name: &str, ask| Letter::new(Key::new(name).unwrap(), ask);
        let mut tenure = Tenure::new(Nonce(1), HolderId::new("a").unwrap(), Ttl::MIN, Wall(0));
        for n in 0..MAILBOX {
            let ask = if n == 3 { Ask::Confirm } else { Ask::HandOver };
            assert!(tenure.post(letter(&format!("k{n}"), ask)));
        }
        assert!(!tenure.post(letter("late", Ask::Confirm)));
        assert!(tenure.post(letter("urgent", Ask::Revoke)));
        assert_eq!((tenure.mail.len(), tenure.mail.last()), (MAILBOX, Some(&letter("urgent", Ask::Revoke))));
        assert!(tenure.mail.iter().all(|letter| letter.ask != Ask::Confirm));
        assert!(!tenure.post(letter("late", Ask::Revoke)), "no request takes another's place");
        tenure.mail[0] = letter("newer", Ask::of_code(99));
        assert!(!tenure.post(letter("late", Ask::Revoke)), "what only its reader knows may be a request");
    }
}
