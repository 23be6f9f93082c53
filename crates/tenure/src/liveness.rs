//! Who holds what, by records as they stand: one reader for all that show it.
//!
//! A record that renews itself tells that by itself. What is attached to a session lives as long as that does, and the session is another record. It
//! may be gone, or not be readable. What follows from that is decided here, and nowhere else. How much time is left is measured by whoever asks, as
//! clocks differ: [`time_left`] is the usual measure.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tenure_core::semaphore::{SemaphoreLedger, Ticket, is_semaphore};
use tenure_core::{Attachment, ErrorKind, Fence, Key, Record, StoreError, Stored, Ttl, Wall};
use tenure_store::{Freshness, Listed, Store};

/// Whether a record's holder may act on it. `T` is how much of its time is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Liveness<T> {
    /// There is no tenure.
    Vacant,
    /// It has a holder, which has this much time left; none, perhaps.
    Tenured(T),
    /// The session that it is attached to was given up, or fenced by another: nobody can act on it.
    Over,
    /// There is no record of that session. A holder that lives finds that out at its next renewal.
    SessionGone,
    /// That session can't be read: its holder may live.
    Unknown(StoreError),
}

impl<T> Liveness<T> {
    /// Whether somebody holds it as far as records tell, however long it has not been heard of.
    pub fn may_be_held(&self) -> bool {
        !matches!(self, Liveness::Vacant | Liveness::Over)
    }
}

/// What the record of a session tells of what is attached to it.
#[derive(Debug, Clone)]
enum SessionLife<T> {
    Gone,
    Ended,
    Tenured { fence: Fence, left: T },
    Unreadable(StoreError),
}

/// Sessions, as they are needed to judge what is attached to them. Each is read once.
///
/// Each method takes a measure: how much time is left to a tenure of this ttl, by its record.
#[derive(Debug, Clone)]
pub struct SessionLives<T> {
    lives: BTreeMap<Key, SessionLife<T>>,
}

impl<T> Default for SessionLives<T> {
    fn default() -> SessionLives<T> {
        SessionLives { lives: BTreeMap::new() }
    }
}

impl<T: Clone> SessionLives<T> {
    /// All that was read is read anew.
    pub fn clear(&mut self) {
        self.lives.clear();
    }

    /// Takes sessions that a listing has shown.
    pub fn see<'a>(
        &mut self,
        sessions: impl IntoIterator<Item = &'a Listed>,
        mut measure: impl FnMut(&Key, &Stored, Ttl) -> T,
    ) {
        for Listed { key, stored } in sessions {
            let life = match stored {
                Err(error) => SessionLife::Unreadable(error.clone()),
                Ok(stored) => life(key, stored, &mut measure),
            };
            self.lives.insert(key.clone(), life);
        }
    }

    /// Reads all sessions at once that records of this page are attached to, and that are not known yet.
    ///
    /// # Errors
    /// The store's. That a session can't be read is none.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn follow(
        &mut self,
        store: &impl Store,
        page: &[Listed],
        mut measure: impl FnMut(&Key, &Stored, Ttl) -> T,
    ) -> Result<(), StoreError> {
        const AT_A_TIME: usize = 100;
        let records = page.iter().filter_map(|listed| Some(&listed.stored.as_ref().ok()?.record));
        let named = records.flat_map(sessions);
        let unknown: BTreeSet<Key> = named.filter(|session| !self.lives.contains_key(session)).collect();
        let unknown: Vec<Key> = unknown.into_iter().collect();
        for some in unknown.chunks(AT_A_TIME) {
            let read = store.read_many(some, Freshness::Latest).await?;
            self.lives.extend(some.iter().map(|key| (key.clone(), SessionLife::Gone)));
            self.see(&read, &mut measure);
        }
        Ok(())
    }

    /// What is known of a record's holder. Its session is read if it is not known yet.
    ///
    /// # Errors
    /// The store's. That a session can't be read is none.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn judge(
        &mut self,
        store: &impl Store,
        key: &Key,
        stored: &Stored,
        mut measure: impl FnMut(&Key, &Stored, Ttl) -> T,
    ) -> Result<Liveness<T>, StoreError> {
        let Some(tenure) = &stored.record.tenure else { return Ok(Liveness::Vacant) };
        match &tenure.attachment {
            Some(attachment) => self.attached(store, attachment, &mut measure).await,
            None => Ok(Liveness::Tenured(measure(key, stored, tenure.ttl))),
        }
    }

    /// What is known of who has a semaphore's permits, or, while all are free, of those who wait for them: of the one that lasts longest. The default of
    /// `T` is that no time is left.
    ///
    /// # Errors
    /// The store's. That a session can't be read is none.
    ///
    /// # Cancel safety
    /// May be dropped.
    pub async fn judge_permits(
        &mut self,
        store: &impl Store,
        ledger: &SemaphoreLedger,
        mut measure: impl FnMut(&Key, &Stored, Ttl) -> T,
    ) -> Result<Liveness<T>, StoreError>
    where
        T: Ord + Default,
    {
        let (mut longest, mut unknown) = (None, None);
        for ticket in claims(ledger) {
            match self.attached(store, &ticket.attachment, &mut measure).await? {
                Liveness::Tenured(left) => longest = longest.max(Some(left)),
                Liveness::Unknown(error) => unknown = Some(error),
                Liveness::Vacant | Liveness::Over | Liveness::SessionGone => {}
            }
        }
        Ok(match (longest, unknown) {
            (Some(left), None) => Liveness::Tenured(left),
            (Some(left), Some(_)) if left > T::default() => Liveness::Tenured(left),
            (_, Some(error)) => Liveness::Unknown(error),
            (None, None) if ledger.is_empty() => Liveness::Vacant,
            (None, None) => Liveness::Over,
        })
    }

    async fn attached(
        &mut self,
        store: &impl Store,
        Attachment { session, fence, .. }: &Attachment,
        measure: &mut impl FnMut(&Key, &Stored, Ttl) -> T,
    ) -> Result<Liveness<T>, StoreError> {
        if !self.lives.contains_key(session) {
            let read = match store.read(session).await {
                Ok(None) => SessionLife::Gone,
                Ok(Some(stored)) => life(session, &stored, measure),
                Err(error) if error.kind() == ErrorKind::Foreign => SessionLife::Unreadable(error),
                Err(error) => return Err(error),
            };
            self.lives.insert(session.clone(), read);
        }
        Ok(match self.lives.get(session) {
            Some(SessionLife::Tenured { fence: shown, left }) if shown == fence => {
                Liveness::Tenured(left.clone())
            }
            Some(SessionLife::Tenured { .. } | SessionLife::Ended) => Liveness::Over,
            Some(SessionLife::Unreadable(error)) => Liveness::Unknown(error.clone()),
            Some(SessionLife::Gone) | None => Liveness::SessionGone,
        })
    }
}

fn life<T>(key: &Key, session: &Stored, measure: &mut impl FnMut(&Key, &Stored, Ttl) -> T) -> SessionLife<T> {
    match &session.record.tenure {
        None => SessionLife::Ended,
        Some(tenure) => {
            SessionLife::Tenured { fence: session.record.fence, left: measure(key, session, tenure.ttl) }
        }
    }
}

/// The sessions that a record's lease or permits are attached to.
fn sessions(record: &Record) -> Vec<Key> {
    let own = record.tenure.as_ref().and_then(|tenure| tenure.attachment.as_ref());
    let ledger = is_semaphore(record).then(|| SemaphoreLedger::of(record).ok()).flatten();
    let claims = ledger.iter().flat_map(claims).map(|ticket| &ticket.attachment);
    own.into_iter().chain(claims).map(|attachment| attachment.session.clone()).collect()
}

/// Those that count: who waits has nothing, but is next where nobody has anything.
fn claims(ledger: &SemaphoreLedger) -> impl Iterator<Item = &Ticket> {
    let waiting = if ledger.holders.is_empty() { ledger.queue.as_slice() } else { &[] };
    ledger.holders.iter().map(|grant| &grant.ticket).chain(waiting)
}

/// How much of a ttl is left since a record was written: by the store's clock if that tells, else by two wall clocks.
#[must_use]
pub fn time_left(stored: &Stored, ttl: Ttl, now: Wall) -> Duration {
    let age = stored.age().unwrap_or_else(|| now.since(stored.record.stamp));
    ttl.duration().saturating_sub(age)
}
