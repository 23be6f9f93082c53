//! `tenure serve`: the lease agent of this host.

use crate::config::serve::ServeConfig;
use crate::exit::Failure;
use crate::files;
use crate::output;
use crate::stores::{Missing, Url};
use crate::supervise::outage::Outage;
use crate::supervise::signals::Signals;
use crate::telemetry;
use crate::text::escaped;
use std::time::Duration;
use tenure::Leases;
use tenure_agent::{Agent, Door};
use tokio::task::JoinSet;

pub(crate) async fn serve(url: &Url, plan: ServeConfig) -> Result<u8, Failure> {
    url.check_ttl(plan.ttl)?;
    let mut signals = Signals::listen()?;
    // Each connection takes two. Where so many are refused, fewer clients are served at a time.
    files::allow_all();
    let mut doors = Vec::new();
    for (address, access) in plan.places {
        let door = Door::open(address, plan.certificate.as_ref()).await;
        let door = door.map_err(|error| Failure::usage(error.to_string()))?;
        doors.push((door, access));
    }
    // Before the first lease: what was measured before is gone.
    let scrape = telemetry::record()?;
    let clock = tenure::clock::system();
    let store = signals.unless(url.open(Missing::Create, clock.clone())).await??;
    let outage = Outage::new(true);
    let leases = Leases::builder(outage.watch(store)).session_ttl(plan.ttl).clock(clock);
    // How long to wait is its clients' affair.
    let leases = leases.store_patience(Duration::MAX).start()?;
    let agent = Agent::new(leases.clone(), plan.limits, Some(scrape));
    for (door, _) in &doors {
        output::tell(format!("serving leases of {} at {}", url.shown(), door.address()));
    }
    for file in &plan.exposed {
        let file = escaped(&file.to_string_lossy());
        output::note(format!(
            "{file}: its mode lets every user of this host read this secret; see to that with chmod o-r"
        ));
    }
    let mut served = JoinSet::new();
    for (door, access) in doors {
        let agent = agent.clone();
        served.spawn(async move { agent.serve(&door, access).await });
    }
    served.spawn(keep_session(leases.clone(), plan.ttl));
    let signal = signals.next().await;
    if agent.held() > 0 {
        output::tell("stopping when all deadlines that clients were told are over");
    }
    // Clients give back what they have meanwhile.
    let told = signals.unless(agent.stop()).await;
    served.abort_all();
    if told.is_ok() {
        signals.wait(plan.ttl, leases.stop()).await;
        return Err(Failure::by_signal(signal));
    }
    // What clients were told may not be over: nothing is given back, not even as a last deed when the agent is dropped.
    std::mem::forget(agent.clone());
    Err(Failure { is_urgent: true, ..Failure::by_signal(signal) })
}

/// Begins the session at once, and anew after each outage that has ended it: no client need wait for it, and as long as the store fails, that is
/// told and counted.
async fn keep_session(leases: Leases, ttl: Duration) {
    loop {
        leases.begin_session();
        tokio::time::sleep(ttl / 3).await;
    }
}
