//! `release` and `revoke`: taking a lease from its holder, by force or by request.

use super::look::view;
use crate::args;
use crate::exit::{self, Failure};
use crate::leased::Leased;
use crate::meant;
use crate::say;
use crate::stores::Url;
use crate::text::brief;
use crate::view::State;
use crate::work::unit::Fnv;
use serde_json::json;
use tenure::{Ask, Expect, Key, Leases, Outcome, Record, Store, Stored, Write};
use tenure_core::Nonces;

pub(crate) async fn release(url: &Url, typed: &args::Release) -> Result<u8, Failure> {
    let key = meant::key(&typed.key)?;
    let leases = super::open(url).await?;
    let seen = view(&leases, &key).await?;
    let stored = seen.stored.map_err(|problem| Failure::new(exit::DAMAGED, format!("{key}: {problem}")))?;
    let Some(tenure) = &stored.record.tenure else {
        return Err(not_held(&key, seen.leased.as_ref()));
    };
    if !typed.yes {
        let danger = if seen.state == State::Held {
            "Its holder may still be at work, and finds out at its next renewal only"
        } else {
            "Its holder has not been heard of for longer than its ttl"
        };
        say::confirm(
            false,
            &format!("{key} is held by {}. {danger}. Take it away by force?", tenure.holder),
        )?;
    }
    let holder = tenure.holder.clone();
    let fence = vacate(&leases, &key, stored).await?;
    if typed.json {
        say::json(
            &json!({"key": key.as_str(), "released": true, "holder": holder.as_str(), "fence": fence}),
        )?;
    } else {
        say::note(format!(
            "{key} is released; {holder} held it with fence {fence}, the next fence is higher"
        ));
    }
    Ok(exit::OK)
}

/// Why a record without a tenure can't be taken from anyone.
fn not_held(key: &Key, leased: Option<&Leased>) -> Failure {
    match leased.and_then(Leased::left) {
        Some(left) => {
            let left = brief(left);
            let text = format!(
                "{key} is a section: its ranges can't be taken away; all are free in {left}, when their time is over"
            );
            Failure::usage(text)
        }
        None => Failure::new(exit::ABSENT, format!("nobody holds {key}")),
    }
}

/// Vacates the record on condition that it still shows the tenure that was seen.
async fn vacate(leases: &Leases, key: &Key, mut seen: Stored) -> Result<u64, Failure> {
    /// A live holder renews three times in a ttl; more changes than this are something else.
    const ATTEMPTS: usize = 8;
    let meant = seen.record.tenure.as_ref().map(|tenure| tenure.id);
    let mut nonces = nonces(leases);
    for _ in 0..ATTEMPTS {
        let fence = seen.record.fence;
        let stamp = leases.clock().now().wall;
        let record = Record { nonce: nonces.draw(), stamp, tenure: None, ..seen.record };
        let write = Write { key: key.clone(), expect: Expect::Unchanged(seen.version), record };
        match leases.store().write(write).await? {
            Outcome::Won { .. } => return Ok(fence.0),
            Outcome::Lost(Some(now)) if now.record.tenure.as_ref().map(|tenure| tenure.id) == meant => {
                seen = now
            }
            Outcome::Lost(_) => {
                return Err(Failure::new(
                    exit::HELD,
                    format!("{key} has changed hands meanwhile; look again"),
                ));
            }
        }
    }
    Err(Failure::new(exit::UNAVAILABLE, format!("the record of {key} changes too fast; try again")))
}

/// Nonces for an operator's own writes, from the random part of this process's name.
pub(super) fn nonces(leases: &Leases) -> Nonces {
    let mut digest = Fnv::default();
    digest.update(b"operator ");
    digest.update(leases.holder().as_str().as_bytes());
    Nonces::new(digest.finish())
}

pub(crate) async fn revoke(url: &Url, typed: &args::Revoke) -> Result<u8, Failure> {
    let key = meant::key(&typed.key)?;
    let leases = super::open(url).await?;
    let seen = view(&leases, &key).await?;
    let stored = seen.stored.map_err(|problem| Failure::new(exit::DAMAGED, format!("{key}: {problem}")))?;
    let Some(tenure) = &stored.record.tenure else {
        return Err(not_held(&key, seen.leased.as_ref()));
    };
    if seen.state == State::Expired {
        let holder = &tenure.holder;
        return Err(Failure::new(
            exit::ABSENT,
            format!("the holder of {key}, {holder}, is dead: there is nobody to ask"),
        ));
    }
    say::confirm(typed.yes, &format!("Tell {} to stop and give {key} up?", tenure.holder))?;
    leases.request(&key, Ask::Revoke).await?;
    if typed.json {
        let document =
            json!({"key": key.as_str(), "asked": tenure.holder.as_str(), "ttl_ms": tenure.ttl.millis()});
        say::json(&document)?;
    } else {
        let within = brief(tenure.ttl.part(3));
        say::note(format!("{} is told within {within}, and stops then", tenure.holder));
    }
    Ok(exit::OK)
}
