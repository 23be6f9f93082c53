//! `tenure work`: units of a job, each run by one process at a time.

mod board;
mod crew;
mod progress;
pub(crate) mod register;
mod slots;
mod summary;
pub(crate) mod unit;
pub(crate) mod units;

use crate::exit::{self, Failure};
use crate::meant;
use crate::say;
use crate::stores::{Missing, Url};
use crate::supervise::client::Keeper;
use crate::supervise::process;
use crate::supervise::signals::Signals;
use crate::supervise::watchdog::Lead;
use crate::text::count;
use crew::Crew;
use std::sync::Arc;
use tenure::{Clock, Leases, Metadata, Value};

pub(crate) async fn work(url: &Url, plan: meant::Work) -> Result<u8, Failure> {
    process::find(&plan.command.program)?;
    let units = units::read(&plan.source, plan.separator, &plan.name.prefix())?;
    for text in &units.notes {
        say::note(text);
    }
    let mut signals = Signals::listen().map_err(|error| Failure::new(exit::INTERNAL, error.to_string()))?;
    let clock: Arc<dyn Clock> = tenure::clock::system();
    let store = url.open(Missing::Create, Arc::clone(&clock)).await?;
    let about = Metadata::from([
        ("host".to_owned(), Value::from(tenure::clock::host_name())),
        ("pid".to_owned(), Value::from(i64::from(std::process::id()))),
        ("work".to_owned(), Value::from(plan.name.as_str())),
    ]);
    let leases = Leases::builder(store).clock(clock).session_ttl(plan.ttl).about(about).start()?;
    leases.begin_session();
    let registered = tokio::select! {
        registered = register::register(&leases, &plan, units.keys) => registered?,
        signal = signals.next() => return Err(Failure::by_signal(signal)),
    };
    greet(&plan, &registered)?;
    let keeper =
        Arc::new(Keeper::start(leases.holder().as_str().to_owned(), Lead::new(plan.ttl, plan.grace))?);
    let mut crew = Crew::new(plan, leases, keeper, registered.board)?;
    let result = crew.work(&mut signals).await;
    crew.leave(&mut signals, &result).await;
    result
}

fn greet(plan: &meant::Work, registered: &register::Registered) -> Result<(), Failure> {
    let counts = registered.board.counts();
    let name = plan.name.as_str();
    if counts.total() == 0 {
        let text = format!(
            "the job \"{name}\" has no units: give some as arguments, on standard input or by --from FILE"
        );
        return Err(Failure::usage(text));
    }
    let settled = match counts.settled() {
        0 => String::new(),
        n => format!(", {n} settled already"),
    };
    say::note(format!(
        "job \"{name}\": {} ({} new{settled})",
        count(counts.total(), "unit"),
        registered.created
    ));
    Ok(())
}
