//! What each verb does, but for `work`.

#[cfg(test)]
mod ageless;
mod bench;
mod config;
mod cron;
mod doctor;
mod elect;
mod fleet;
mod gc;
mod hold;
mod jobs;
mod leader;
mod live;
mod look;
mod range;
#[cfg(feature = "serve")]
mod ready;
mod reclaim;
mod rm;
mod run;
mod seize;
#[cfg(feature = "serve")]
mod serve;
mod sim;
mod spans;
#[cfg(feature = "dynamodb")]
mod tabletheory;
mod wait;
pub(crate) mod waiting;

pub(crate) use bench::bench;
pub(crate) use config::config;
pub(crate) use cron::cron;
pub(crate) use doctor::doctor;
pub(crate) use elect::elect;
pub(crate) use fleet::fleet;
pub(crate) use gc::gc;
pub(crate) use hold::hold;
pub(crate) use jobs::jobs;
pub(crate) use leader::leader;
pub(crate) use look::{ls, show};
pub(crate) use range::range;
#[cfg(feature = "serve")]
pub(crate) use ready::ready;
pub(crate) use reclaim::reclaim;
pub(crate) use rm::rm;
pub(crate) use run::run;
pub(crate) use seize::{release, revoke};
#[cfg(feature = "serve")]
pub(crate) use serve::serve;
pub(crate) use sim::sim;
pub(crate) use wait::wait;

use crate::exit::Failure;
use crate::stores::{Missing, Url};
use std::sync::Arc;
use std::time::Duration;
use tenure::{Clock, Leases};

/// For how long the file of a store may be gone while somebody looks at it, who has no ttl.
const GONE: Duration = Duration::from_secs(2);

/// Leases on a store that is there already.
async fn open(url: &Url) -> Result<Leases, Failure> {
    open_as(url, Missing::Refuse).await
}

/// As [`open`], also where nothing can be written.
async fn open_to_look(url: &Url) -> Result<Leases, Failure> {
    open_as(url, Missing::Look).await
}

async fn open_as(url: &Url, missing: Missing) -> Result<Leases, Failure> {
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let store = url.open(missing, Arc::clone(&clock)).await?;
    Ok(Leases::builder(store).clock(clock).start()?)
}
