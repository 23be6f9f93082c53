//! `release` and `revoke`: taking a lease from its holder, by force or by request.

use super::look::view_among;
use crate::args;
use crate::config;
use crate::exit::{self, Failure};
use crate::output;
use crate::output::section::SectionLeases;
use crate::output::view::{Sessions, State, View};
use crate::stores::Url;
use crate::text::brief;
use serde_json::json;
use tenure::store::{Record, Stored};
use tenure::{Fence, Key, LeaseError, Leases, Request, Store};

pub(crate) async fn release(url: &Url, typed: &args::ReleaseArgs) -> Result<u8, Failure> {
    let key = config::key(&typed.key)?;
    let leases = super::open(url).await?;
    let seen = view_among(&leases, &key, &mut Sessions::watching(leases.clock())).await?;
    let stored = seen.sound()?;
    let Some(tenure) = &stored.record.tenure else {
        return Err(not_held(&key, &seen));
    };
    if !typed.yes {
        let danger = match (seen.state != State::Expired, typed.now) {
            (true, true) => {
                "Its holder may still be at work, and is not told: two may hold it, until that one next looks at the record"
            }
            (true, false) => {
                "Its holder is told to stop, and it is free once that one can't be at work under it any more"
            }
            (false, _) => "Its holder has not been heard of for longer than its ttl",
        };
        output::confirm(
            false,
            &format!("{key} is held by {}. {danger}. Take it away by force?", tenure.holder),
        )?;
    }
    let (holder, shown) = (tenure.holder.clone(), stored.record.fence);
    let quiet = typed.json;
    let told = |holder: tenure::HolderId, within| {
        if !quiet {
            let within = brief(within);
            output::note(format!(
                "{holder} is told to stop; {key} is free within {within} (--now doesn't wait, and is unsafe)"
            ));
        }
    };
    let forced = if typed.now {
        leases.release_by_force_now(&key, shown).await
    } else {
        leases.release_by_force_of(&key, shown, told).await
    };
    let forced = match forced {
        Ok(forced) => forced,
        Err(LeaseError::NotHeld) => return Err(not_any_more(&leases, &key, shown).await),
        Err(LeaseError::Store(error)) => return Err(error.into()),
        Err(error) => return Err(Failure::new(exit::UNAVAILABLE, error.to_string())),
    };
    let fence = forced.fence.0;
    if typed.json {
        let document = json!({
            "key": key.as_str(), "released": true, "holder": holder.as_str(), "fence": fence, "vacated": forced.vacated,
        });
        output::json(&document)?;
    } else if forced.vacated {
        output::note(format!(
            "{key} is released; {holder} held it with fence {fence}, the next fence is higher"
        ));
    } else {
        output::note(format!(
            "{holder} has given {key} up; it held it with fence {fence}, the next fence is higher"
        ));
    }
    Ok(exit::OK)
}

/// Why a record without a tenure can't be taken from anyone.
fn not_held(key: &Key, seen: &View) -> Failure {
    if seen.shared.as_ref().is_some_and(|shared| !shared.is_empty()) {
        let text = format!(
            "{key} is a semaphore: `tenure show {key}` names who holds permits, and the session of each; `tenure release` of a session ends \
             all that its process holds"
        );
        return Failure::usage(text);
    }
    match seen.leased.as_ref().and_then(SectionLeases::left) {
        Some(left) => {
            let left = brief(left);
            let text = format!(
                "{key} is a section: all of its ranges are free in {left}, when their time is over; `tenure reclaim` waits for \
                 that, or takes them away"
            );
            Failure::usage(text)
        }
        None => Failure::new(exit::ABSENT, format!("nobody holds {key}")),
    }
}

/// Why the tenure that was shown can't be taken from anyone: it ended meanwhile. Whoever holds the key by now was not meant.
async fn not_any_more(leases: &Leases, key: &Key, shown: Fence) -> Failure {
    match leases.store().read(key).await {
        Ok(Some(Stored { record: Record { fence, tenure: Some(tenure), .. }, .. })) if fence != shown => {
            let text = format!(
                "{key} has changed hands meanwhile: {} holds it, with fence {fence}, and was left as it is; look again",
                tenure.holder
            );
            Failure::new(exit::HELD, text)
        }
        Ok(_) => Failure::new(exit::ABSENT, format!("nobody holds {key}")),
        Err(error) => error.into(),
    }
}

pub(crate) async fn revoke(url: &Url, typed: &args::RevokeArgs) -> Result<u8, Failure> {
    let key = config::key(&typed.key)?;
    let leases = super::open(url).await?;
    revoke_among(&leases, &key, typed).await
}

async fn revoke_among(leases: &Leases, key: &Key, typed: &args::RevokeArgs) -> Result<u8, Failure> {
    let seen = view_among(leases, key, &mut Sessions::watching(leases.clock())).await?;
    let stored = seen.sound()?;
    let Some(tenure) = &stored.record.tenure else {
        return Err(not_held(key, &seen));
    };
    if seen.known()? == State::Expired {
        let holder = &tenure.holder;
        return Err(Failure::new(
            exit::ABSENT,
            format!("the holder of {key}, {holder}, is dead: there is nobody to ask"),
        ));
    }
    output::confirm(typed.yes, &format!("Tell {} to stop and give {key} up?", tenure.holder))?;
    let shown = stored.record.fence;
    match leases.request_of(key, shown, Request::Revoke).await {
        Err(LeaseError::NotHeld) => return Err(not_any_more(leases, key, shown).await),
        asked => asked?,
    }
    if typed.json {
        let document =
            json!({"key": key.as_str(), "asked": tenure.holder.as_str(), "ttl_ms": tenure.ttl.millis()});
        output::json(&document)?;
    } else {
        let within = brief(tenure.ttl.part(3));
        let holder = &tenure.holder;
        // Two wall clocks are no reason not to ask.
        if seen.is_doubtful {
            output::note(format!(
                "{holder} is dead by two hosts' clocks, which may differ; if it lives, it is told within {within}, and stops then"
            ));
        } else {
            // Whoever has died is not heard of for the rest of its time, and reads nothing.
            let left = seen.left.map_or_else(String::new, |left| format!(" within {}", brief(left)));
            output::note(format!(
                "{holder} is asked to stop, and knows it within {within} if it lives; if it has died, {key} is free{left}"
            ));
        }
    }
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    //! Plan: where the store tells no ages, a holder whose clock is behind is told to stop like any other.
    use super::*;
    use crate::verbs::ageless::Ageless;
    use std::time::Duration;

    #[tokio::test]
    async fn s10_a_holder_whose_clock_is_behind_is_told_to_stop() {
        let world = Ageless::new().await;
        let guard = world.there.lock("k").ttl(Duration::from_millis(900)).acquire().await.unwrap();
        let typed = args::RevokeArgs { key: "k".into(), yes: true, json: true };
        assert_eq!(revoke_among(&world.here, guard.key(), &typed).await.unwrap(), exit::OK);
        assert_eq!(guard.lost().await, tenure::Loss::Revoked);
    }
}
