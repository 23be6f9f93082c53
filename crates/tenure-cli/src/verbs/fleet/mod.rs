//! `tenure fleet`, which looks at fleets and changes them.

#[cfg(feature = "dynamodb")]
mod adopt;
mod change;
mod forget;
mod gather;
mod health;
mod look;
mod removal;
mod screen;
mod snapshot;
mod top;
mod unknown;
pub(super) mod upkeep;

pub(super) use gather::Fleets;
pub(super) use health::{Health, health};

use crate::args::fleet::{self as args, FleetVerb};
use crate::exit::{self, Failure};
use crate::stores::pages::Pages;
use crate::stores::{Missing, Url};
use gather::FleetGathering;
use snapshot::Snapshot;
use std::sync::Arc;
use tenure::Clock;
use tenure::fleet::{Fleet, FleetName};

/// Works on fleets. `is_named`: the user has named the store.
#[cfg_attr(
    not(feature = "dynamodb"),
    allow(unused_variables, reason = "only what moves rows of a lease table asks for it")
)]
pub(crate) async fn fleet(url: &Url, is_named: bool, typed: args::FleetArgs) -> Result<u8, Failure> {
    match typed.verb {
        FleetVerb::Ls(typed) => look::ls(url, &typed).await,
        FleetVerb::Units(typed) => look::units(url, &typed).await,
        FleetVerb::Workers(typed) => look::workers(url, &typed).await,
        FleetVerb::Add(typed) => change::add(url, &typed).await,
        FleetVerb::Rm(typed) => removal::rm(url, &typed).await,
        FleetVerb::Move(typed) => change::pin(url, &typed).await,
        FleetVerb::Drain(typed) => change::drain(url, &typed).await,
        FleetVerb::Top(typed) => top::top(url, &typed).await,
        #[cfg(feature = "dynamodb")]
        FleetVerb::Adopt(typed) if is_named => adopt::adopt(url, &typed).await,
        #[cfg(feature = "dynamodb")]
        FleetVerb::Adopt(_) => Err(Failure::usage(
            "adopt deletes rows of one store and makes units in another; name that one by --store or TENURE_STORE",
        )),
    }
}

/// A fleet of this name, on a store that is there unless it may be made.
async fn open(url: &Url, name: &FleetName, missing: Missing) -> Result<Fleet, Failure> {
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let store = url.open(missing, Arc::clone(&clock)).await?;
    Ok(Fleet::new(store, name.as_str())?)
}

/// All of a fleet as it is now.
async fn snapshot(fleet: &Fleet) -> Result<Snapshot, Failure> {
    let (clock, mut pages) = (tenure::clock::system(), Pages::default());
    let mut gathering = FleetGathering::new(fleet.name().clone());
    while let Some(page) = pages.next(fleet.store(), &fleet.name().prefix()).await? {
        let now = clock.now().wall;
        page.into_iter().for_each(|listed| gathering.add(listed, now));
    }
    Ok(gathering.end())
}

/// As [`snapshot()`], of a fleet that must be there.
async fn snapshot_of_some(fleet: &Fleet) -> Result<Snapshot, Failure> {
    let snapshot = snapshot(fleet).await?;
    if snapshot.is_empty() {
        return Err(Failure::new(exit::ABSENT, format!("there is no fleet {}", fleet.name())));
    }
    Ok(snapshot)
}
