//! Who waits for a lease is told by whom it is held.

use super::look::view;
use crate::config::WaitPolicy;
use crate::output;
use crate::output::view::{State, View};
use crate::text::{date, escaped};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;
use tenure::{Key, Leases, Value};

/// What comes of `work`, which waits for `keys`. If that takes a while, it is told whom it waits for, and then who has come in between.
/// Whoever only tries does not wait, however slow the store is.
pub(super) async fn told<T>(
    leases: &Leases,
    keys: &[&Key],
    patience: WaitPolicy,
    work: impl Future<Output = T>,
) -> T {
    if patience == WaitPolicy::Try {
        return work.await;
    }
    tokio::select! {
        biased;
        done = work => done,
        never = tell(leases, keys) => match never {},
    }
}

async fn tell(leases: &Leases, keys: &[&Key]) -> Infallible {
    /// What is over sooner needs no words.
    const SOON: Duration = Duration::from_millis(500);
    const SELDOM: Duration = Duration::from_secs(60);
    let (mut last, mut pause) = (BTreeMap::new(), SOON);
    loop {
        tokio::time::sleep(pause).await;
        pause = SELDOM;
        for key in keys {
            // A store that fails is told of by whoever waits for it.
            let text = view(leases, key).await.ok().and_then(|view| words(&view));
            if let Some(text) = text
                && last.insert(*key, text.clone()).as_ref() != Some(&text)
            {
                output::note(text);
            }
        }
    }
}

/// None where nobody holds it.
fn words(view: &View) -> Option<String> {
    if let Some(shared) = &view.shared {
        let (holder, since) = (shared.holders()?, date(shared.since()?));
        return Some(format!(
            "waiting for {}, held by {holder} since {since} ({})",
            view.key,
            shared.status()
        ));
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
    Some(format!("waiting for {}, held by {}{about} since {}", view.key, tenure.holder, date(tenure.since)))
}
