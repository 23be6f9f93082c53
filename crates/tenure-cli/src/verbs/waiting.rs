//! Who waits for a lease is told by whom it is held.

use super::look::view;
use crate::config::WaitLimit;
use crate::output;
use crate::output::about::{SessionAbouts, about};
use crate::output::view::{State, View};
use crate::supervise::held;
use crate::text::date;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::pin::pin;
use std::time::Duration;
use tenure::store::{Attachment, Record};
use tenure::{HolderId, Key, Leases, Occupant, Wall};

/// What is over sooner needs no words.
pub(super) const SOON: Duration = Duration::from_millis(500);

/// Whoever is waited for.
#[derive(Debug, Clone)]
pub(crate) struct CurrentHolder {
    /// Those who hold it, in words.
    pub(crate) whom: String,
    /// When their time is over unless they prolong it, where the store tells that.
    pub(crate) until: Option<Wall>,
    /// This process was started under that lease.
    pub(crate) is_around_us: bool,
}

impl CurrentHolder {
    /// Who has it since then. `what`: what follows in words, such as how much of it.
    pub(super) fn since(
        holder: impl fmt::Display,
        since: Wall,
        what: &str,
        is_around_us: bool,
    ) -> CurrentHolder {
        let whom = format!("{holder} since {}{what}", date(since));
        CurrentHolder { whom, until: None, is_around_us }
    }
}

/// Whoever holds the key but this process; none where nobody does, or where its record can't be read. A holder whose session can't be read is
/// told with that.
pub(crate) async fn current_holder(leases: &Leases, key: &Key) -> Option<CurrentHolder> {
    // A store that fails is told of by whoever waits for it. Of several keys, this process may have some already.
    let view = view(leases, key).await.ok()?;
    let attached: Vec<Attachment> = view.attachments().cloned().collect();
    let abouts = SessionAbouts::of(leases.store(), attached.iter()).await;
    holding(&view, &abouts).filter(|_| !is_held_by(&view, leases.holder()))
}

/// What comes of `work`, which waits for `keys`. If that takes a while, it is told whom it waits for, and then who has come in between.
/// Whoever only tries does not wait, however slow the store is.
pub(super) async fn told<T>(
    leases: &Leases,
    keys: &[&Key],
    patience: WaitLimit,
    work: impl Future<Output = T>,
) -> T {
    told_by(async |key: &Key| current_holder(leases, key).await, keys, patience, work).await
}

/// As [`told`], where `look` finds out who holds a key; none where nobody does by itself, or where that is not known.
pub(super) async fn told_by<T>(
    look: impl AsyncFn(&Key) -> Option<CurrentHolder>,
    keys: &[&Key],
    patience: WaitLimit,
    work: impl Future<Output = T>,
) -> T {
    if patience == WaitLimit::Try {
        return work.await;
    }
    let words = |key: &Key, whom: Option<&str>| Some(format!("waiting for {key}, held by {}", whom?));
    told_as(words, look, keys, work).await
}

/// As [`told_by`], in the caller's words: for a key, and whoever holds it by itself. What is said where that is nobody is said once at most.
pub(super) async fn told_as<T>(
    words: impl Fn(&Key, Option<&str>) -> Option<String>,
    look: impl AsyncFn(&Key) -> Option<CurrentHolder>,
    keys: &[&Key],
    work: impl Future<Output = T>,
) -> T {
    tokio::select! {
        biased;
        done = work => done,
        never = tell(words, look, keys) => match never {},
    }
}

/// What comes of `work`, which waits for what nobody holds by itself. If that takes a while, these words are told, once.
pub(super) async fn said<T>(words: String, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    tokio::select! {
        biased;
        done = &mut work => return done,
        () = tokio::time::sleep(SOON) => output::tell(words),
    }
    work.await
}

async fn tell(
    words: impl Fn(&Key, Option<&str>) -> Option<String>,
    look: impl AsyncFn(&Key) -> Option<CurrentHolder>,
    keys: &[&Key],
) -> Infallible {
    const SELDOM: Duration = Duration::from_secs(60);
    let (mut last, mut pause) = (BTreeMap::new(), SOON);
    loop {
        tokio::time::sleep(pause).await;
        pause = SELDOM;
        for key in keys {
            let Some(CurrentHolder { whom, until, is_around_us }) = look(key).await else {
                if let Some(text) = words(key, None).filter(|_| !last.contains_key(*key)) {
                    output::tell(text);
                    last.insert(*key, String::new());
                }
                continue;
            };
            // A holder that prolongs its time is no other holder.
            if last.get(*key) != Some(&whom) {
                let until =
                    until.map_or_else(String::new, |until| format!(" until {} at least", date(until)));
                let shown = format!("{whom}{until}");
                words(key, Some(shown.as_str())).into_iter().for_each(output::tell);
                if is_around_us {
                    output::tell(format!(
                        "{key} is held for the command by which this one was started (TENURE_HELD): if that waits for this one, both wait for \
                         ever; use another key here, or leave this `tenure` out"
                    ));
                }
                last.insert(*key, whom);
            }
        }
    }
}

fn is_held_by(view: &View, holder: &HolderId) -> bool {
    let tenure = view.stored.as_ref().ok().and_then(|stored| stored.record.tenure.as_ref());
    tenure.is_some_and(|tenure| tenure.holder == *holder)
}

/// What is told of a record's holder.
fn about_tenure(record: &Record, abouts: &SessionAbouts) -> Option<String> {
    about(&record.metadata).or_else(|| abouts.of_tenure(record).and_then(about))
}

/// What is told of whoever was found to hold one of these keys, if that is soon known: a refusal does not wait for it.
pub(super) async fn about_occupant(leases: &Leases, keys: &[&Key], by: &Occupant) -> Option<String> {
    let look = async {
        for key in keys {
            let Ok(view) = view(leases, key).await else { continue };
            let abouts = SessionAbouts::of(leases.store(), view.attachments()).await;
            let is_meant = |record: &&Record| {
                record.fence == by.fence
                    && record.tenure.as_ref().is_some_and(|held| held.holder == by.holder)
            };
            if let Some(record) = view.stored.as_ref().ok().map(|stored| &stored.record).filter(is_meant) {
                return about_tenure(record, &abouts);
            }
            if let Some(about) = view.shared.as_ref().and_then(|shared| shared.about_holder(&abouts)) {
                return Some(about);
            }
        }
        None
    };
    tokio::time::timeout(SOON, look).await.ok().flatten()
}

/// None where nobody holds it.
fn holding(view: &View, abouts: &SessionAbouts) -> Option<CurrentHolder> {
    let brackets = |about: Option<String>| about.map_or_else(String::new, |about| format!(" ({about})"));
    if let Some(shared) = &view.shared {
        let about = brackets(shared.about_holder(abouts));
        let (holder, what) =
            (format!("{}{about}", shared.holders_shown()?), format!(" ({})", shared.status()));
        // Where others hold some of it, too, what they give back may be enough.
        let is_around_us = shared.0.holders.iter().all(|grant| held::is_ours(&view.key, grant.fence));
        return Some(CurrentHolder::since(holder, shared.since()?, &what, is_around_us));
    }
    if let Some(leased) = &view.leased {
        let what = format!(" ({})", view.status());
        return Some(CurrentHolder::since(leased.holders_shown()?, leased.since()?, &what, false));
    }
    let record = &view.stored.as_ref().ok()?.record;
    let what = match view.state {
        State::Held => "",
        // It may live.
        State::Unknown => ", as the record says (its session can't be read)",
        State::Vacant | State::Expired | State::Damaged | State::Newer => return None,
    };
    let tenure = record.tenure.as_ref()?;
    let holder = format!("{}{}", tenure.holder, brackets(about_tenure(record, abouts)));
    Some(CurrentHolder::since(holder, tenure.since, what, held::is_ours(&view.key, record.fence)))
}

#[cfg(test)]
mod tests {
    //! Plan: a holder whose session can't be read is no nobody.
    use super::*;
    use tenure_store::FaultyStore;

    #[tokio::test]
    async fn of_a_holder_whose_session_can_not_be_read_it_is_told_what_the_record_says() {
        let store = FaultyStore::new(tenure::memory());
        let (there, here) = (Leases::new(store.clone()).unwrap(), Leases::new(store.clone()).unwrap());
        let key = Key::new("k").unwrap();
        let _guard = there.acquire("k").await.unwrap();
        let whom = async || current_holder(&here, &key).await.map(|holder| holder.whom).unwrap_or_default();
        let told = whom().await;
        assert!(told.starts_with(there.holder().as_str()), "{told}");
        store.damage(there.session_key().clone());
        assert_eq!(whom().await, format!("{told}, as the record says (its session can't be read)"));
    }
}
