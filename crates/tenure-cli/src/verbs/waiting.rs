//! Who waits for a lease is told by whom it is held.

use super::look::view;
use crate::config::WaitLimit;
use crate::output;
use crate::output::view::{State, View};
use crate::supervise::held;
use crate::text::{date, escaped};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;
use tenure::{HolderId, Key, Leases, Value, Wall};

/// What is over sooner needs no words.
const SOON: Duration = Duration::from_millis(500);

/// Whoever is waited for.
#[derive(Debug, Clone)]
pub(super) struct CurrentHolder {
    /// Those who hold it, in words.
    pub whom: String,
    /// When their time is over unless they prolong it, where the store tells that.
    pub until: Option<Wall>,
    /// This process was started under that lease.
    pub is_around_us: bool,
}

/// What comes of `work`, which waits for `keys`. If that takes a while, it is told whom it waits for, and then who has come in between.
/// Whoever only tries does not wait, however slow the store is.
pub(super) async fn told<T>(
    leases: &Leases,
    keys: &[&Key],
    patience: WaitLimit,
    work: impl Future<Output = T>,
) -> T {
    // A store that fails is told of by whoever waits for it. Of several keys, this process may have some already.
    let look = async |key: &Key| {
        let view = view(leases, key).await.ok()?;
        holding(&view).filter(|_| !is_held_by(&view, leases.holder()))
    };
    told_by(look, keys, patience, work).await
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
    tokio::select! {
        biased;
        done = work => done,
        never = tell(look, keys) => match never {},
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

async fn tell(look: impl AsyncFn(&Key) -> Option<CurrentHolder>, keys: &[&Key]) -> Infallible {
    const SELDOM: Duration = Duration::from_secs(60);
    let (mut last, mut pause) = (BTreeMap::new(), SOON);
    loop {
        tokio::time::sleep(pause).await;
        pause = SELDOM;
        for key in keys {
            let Some(CurrentHolder { whom, until, is_around_us }) = look(key).await else { continue };
            // A holder that prolongs its time is no other holder.
            if last.get(*key) != Some(&whom) {
                let until =
                    until.map_or_else(String::new, |until| format!(" until {} at least", date(until)));
                output::tell(format!("waiting for {key}, held by {whom}{until}"));
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

/// None where nobody holds it.
fn holding(view: &View) -> Option<CurrentHolder> {
    if let Some(shared) = &view.shared {
        let (holder, since) = (shared.holders()?, date(shared.since()?));
        let whom = format!("{holder} since {since} ({})", shared.status());
        return Some(CurrentHolder { whom, until: None, is_around_us: false });
    }
    if let Some(leased) = &view.leased {
        let whom = format!("{} since {} ({})", leased.holders()?, date(leased.since()?), view.status());
        return Some(CurrentHolder { whom, until: None, is_around_us: false });
    }
    let record = &view.stored.as_ref().ok()?.record;
    let tenure = record.tenure.as_ref().filter(|_| view.state == State::Held)?;
    let text = |name: &str| match record.metadata.get(name) {
        Some(Value::Text(text)) => Some(escaped(text)),
        _ => None,
    };
    let mut about: Vec<String> = Vec::new();
    if let (Some(user), Some(host)) = (text("user"), text("host")) {
        let program = text("program").map_or_else(String::new, |program| format!(", for {program}"));
        about.push(format!("{user} on {host}{program}"));
    }
    about.extend(text("note"));
    let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(": ")) };
    let whom = format!("{}{about} since {}", tenure.holder, date(tenure.since));
    let is_around_us = held::is_ours(&view.key, record.fence);
    Some(CurrentHolder { whom, until: None, is_around_us })
}
