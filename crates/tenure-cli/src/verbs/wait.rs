//! `wait`: until nobody holds a key, or somebody does.

use super::look::{doubt, found_among, namesake};
use super::waiting::{SOON, current_holder, said, told};
use crate::args;
use crate::config::{self, WaitLimit};
use crate::exit::{self, Failure};
use crate::output;
use crate::output::view::{Sessions, State};
use crate::stores::{Missing, Url};
use crate::supervise::outage::Outage;
use crate::supervise::signals::Signals;
use crate::text::brief;
use std::cell::Cell;
use std::time::Duration;
use tenure::store::Changes;
use tenure::{Key, Leases, Store};

pub(crate) async fn wait(url: &Url, typed: &args::WaitArgs) -> Result<u8, Failure> {
    let key = config::key(&typed.key)?;
    let mut signals = Signals::listen()?;
    let clock = tenure::clock::system();
    let store = signals.unless(url.open(Missing::Look, clock.clone())).await??;
    let file = url.watch();
    let leases = Leases::builder(Outage::new(true).watch(store)).clock(clock).start()?;
    let keys = [&key];
    // Why the last look failed, if it did.
    let trouble = Cell::new(None);
    let mut watch =
        KeyWatch { sessions: Sessions::watching(leases.clock()), is_told: false, is_sought: false };
    if typed.timeout.is_some() {
        // It may be so already. What a look takes is not part of the time that is given.
        let (is_so, _) = signals.unless(look(&leases, &key, typed.held, &trouble, &mut watch)).await??;
        if is_so {
            return Ok(exit::OK);
        }
    }
    let wanted = async {
        let wanted = until(&leases, &key, typed.held, &trouble, &mut watch);
        if typed.held {
            said(format!("waiting for somebody to hold {key}"), wanted).await
        } else {
            told(&leases, &keys, WaitLimit::Forever, wanted).await
        }
    };
    // What nobody else can see is waited for in vain.
    let wanted = file.unless_gone(super::GONE, wanted);
    let Some(most) = typed.timeout else { return signals.unless(wanted).await?? };
    match signals.unless(tokio::time::timeout(most, wanted)).await?.map(Result::flatten) {
        Ok(ended) => ended,
        Err(_) => {
            if let Some(failure) = trouble.take() {
                return Err(failure);
            }
            let still = if typed.held {
                "nobody holds it still".to_owned()
            } else {
                let holder = tokio::time::timeout(SOON, current_holder(&leases, &key)).await;
                let by = holder.ok().flatten().map_or_else(String::new, |by| format!(" by {}", by.whom));
                format!("it is held still{by}")
            };
            Err(Failure::new(exit::HELD, format!("{key}: after {}, {still}", brief(most))))
        }
    }
}

/// What is known of who holds it.
struct KeyWatch {
    sessions: Sessions,
    /// Who waits was told that the holder may be dead.
    is_told: bool,
    /// There was no record, and a semaphore of that name was looked for.
    is_sought: bool,
}

async fn until(
    leases: &Leases,
    key: &Key,
    held: bool,
    trouble: &Cell<Option<Failure>>,
    watch: &mut KeyWatch,
) -> Result<u8, Failure> {
    let mut changes = leases.store().changed(key.as_str()).ok();
    loop {
        let (is_so, left) = look(leases, key, held, trouble, watch).await?;
        if is_so {
            return Ok(exit::OK);
        }
        rest(&mut changes, left).await;
    }
}

/// Whether the key is held, or not, as is wanted, and how long its lease lasts yet. A store that can't be had is trouble, and may be had again.
async fn look(
    leases: &Leases,
    key: &Key,
    held: bool,
    trouble: &Cell<Option<Failure>>,
    watch: &mut KeyWatch,
) -> Result<(bool, Option<Duration>), Failure> {
    watch.sessions.look_again();
    let (is_held, left) = match found_among(leases, key, &mut watch.sessions).await {
        Ok(Some(seen)) => {
            // Whether anybody holds what can't be read is not known.
            seen.sound()?;
            trouble.set(None);
            let is_held = seen.known()? == State::Held;
            // Who may be dead is neither waited for in vain, nor taken for one who holds it.
            if seen.is_doubtful {
                if !held && !std::mem::replace(&mut watch.is_told, true) {
                    output::tell(doubt(&seen));
                }
                return Ok((false, seen.left));
            }
            (is_held, seen.left)
        }
        Ok(None) => {
            trouble.set(None);
            if !std::mem::replace(&mut watch.is_sought, true)
                && let Some(namesake) = namesake(leases.store(), key).await
            {
                output::tell(format!("there is no record of {key}; {namesake}"));
            }
            (false, None)
        }
        // Who waits is told.
        Err(failure) if failure.code == exit::UNAVAILABLE => {
            trouble.set(Some(failure));
            (!held, None)
        }
        Err(failure) => return Err(failure),
    };
    Ok((is_held == held, left))
}

/// Until there may be news. A lease that is attached to a session ends with that, which is another record.
async fn rest(changes: &mut Option<Changes>, left: Option<Duration>) {
    const SELDOM: Duration = Duration::from_secs(1);
    const OFTEN: Duration = Duration::from_millis(100);
    let pause = left.map_or(SELDOM, |left| left.clamp(OFTEN, SELDOM));
    match changes {
        Some(news) => {
            if let Ok(None) = tokio::time::timeout(pause, news.recv()).await {
                *changes = None;
            }
        }
        None => tokio::time::sleep(pause.min(OFTEN * 5)).await,
    }
}

#[cfg(test)]
mod tests {
    //! Plan: where the store tells no ages, a live holder whose clock is behind holds its key for as long as it lives, and a dead one for its ttl
    //! from when it was first seen.
    use super::*;
    use crate::verbs::ageless::Ageless;

    const TTL: Duration = Duration::from_millis(2_500);

    async fn is_so(world: &Ageless, key: &Key, held: bool, watch: &mut KeyWatch) -> bool {
        look(&world.here, key, held, &Cell::new(None), watch).await.unwrap().0
    }

    fn watch(world: &Ageless) -> KeyWatch {
        KeyWatch { sessions: Sessions::watching(world.here.clock()), is_told: true, is_sought: true }
    }

    #[tokio::test]
    async fn s1_a_live_holder_whose_clock_is_behind_is_not_taken_for_dead() {
        let world = Ageless::new().await;
        let guard = world.there.lock("k").ttl(TTL).acquire().await.unwrap();
        let key = guard.key().clone();
        let (mut free, mut held) = (watch(&world), watch(&world));
        assert!(!is_so(&world, &key, true, &mut held).await, "it is not known yet");
        for _ in 0..13 {
            assert!(!is_so(&world, &key, false, &mut free).await && guard.is_held());
            tokio::time::sleep(TTL / 10).await;
        }
        assert!(is_so(&world, &key, true, &mut held).await, "it has renewed it");
        guard.release().await;
        assert!(is_so(&world, &key, false, &mut free).await);
    }

    #[tokio::test]
    async fn a_dead_holder_is_waited_for_until_its_ttl_was_watched() {
        let world = Ageless::new().await;
        let key = Key::new("k").unwrap();
        world.left(&key, Some(TTL)).await;
        let (clock, mut free, mut held) = (world.here.clock().clone(), watch(&world), watch(&world));
        let began = clock.held();
        assert!(!is_so(&world, &key, true, &mut held).await);
        while !is_so(&world, &key, false, &mut free).await {
            // A letter is no sign of life.
            let _told = world.here.request("k", tenure::Request::Revoke).await;
            assert!(!is_so(&world, &key, true, &mut held).await);
            tokio::time::sleep(TTL / 10).await;
        }
        assert!(clock.held().since(began) >= TTL);
        assert!(!is_so(&world, &key, true, &mut free).await);
    }
}
