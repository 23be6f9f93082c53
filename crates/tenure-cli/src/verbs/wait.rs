//! `wait`: until nobody holds a key, or somebody does.

use super::look::view;
use super::waiting::{said, told};
use crate::args;
use crate::config::{self, WaitLimit};
use crate::exit::{self, Failure};
use crate::output::view::State;
use crate::stores::{Missing, Url};
use crate::supervise::outage::Outage;
use crate::supervise::signals::Signals;
use crate::text::brief;
use std::cell::Cell;
use std::time::Duration;
use tenure::{Changes, Key, Leases, Store};

pub(crate) async fn wait(url: &Url, typed: &args::WaitArgs) -> Result<u8, Failure> {
    let key = config::key(&typed.key)?;
    let mut signals = Signals::listen()?;
    let clock = tenure::clock::system();
    let store = signals.unless(url.open(Missing::Look, clock.clone())).await??;
    let leases = Leases::builder(Outage::new(true).watch(store)).clock(clock).start()?;
    let keys = [&key];
    // Why the last look failed, if it did.
    let trouble = Cell::new(None);
    if typed.timeout.is_some() {
        // It may be so already. What a look takes is not part of the time that is given.
        let (is_so, _) = signals.unless(look(&leases, &key, typed.held, &trouble)).await??;
        if is_so {
            return Ok(exit::OK);
        }
    }
    let wanted = async {
        let wanted = until(&leases, &key, typed.held, &trouble);
        if typed.held {
            said(format!("waiting for somebody to hold {key}"), wanted).await
        } else {
            told(&leases, &keys, WaitLimit::Forever, wanted).await
        }
    };
    let Some(most) = typed.timeout else { return signals.unless(wanted).await? };
    match signals.unless(tokio::time::timeout(most, wanted)).await? {
        Ok(ended) => ended,
        Err(_) => {
            if let Some(failure) = trouble.take() {
                return Err(failure);
            }
            let still = if typed.held { "nobody holds it" } else { "it is held" };
            Err(Failure::new(exit::HELD, format!("{key}: after {}, {still} still", brief(most))))
        }
    }
}

async fn until(
    leases: &Leases,
    key: &Key,
    held: bool,
    trouble: &Cell<Option<Failure>>,
) -> Result<u8, Failure> {
    let mut changes = leases.store().changed(key.as_str()).ok();
    loop {
        let (is_so, left) = look(leases, key, held, trouble).await?;
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
) -> Result<(bool, Option<Duration>), Failure> {
    let (is_held, left) = match view(leases, key).await {
        Ok(seen) => {
            // Whether anybody holds what can't be read is not known.
            seen.sound()?;
            trouble.set(None);
            (seen.known()? == State::Held, seen.left)
        }
        Err(failure) if failure.code == exit::ABSENT => {
            trouble.set(None);
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
