//! `tenure work`: units of a job, each run by one process at a time.

mod anew;
mod board;
mod naming;
pub(crate) mod pieces;
mod progress;
pub(crate) mod register;
mod scheduler;
mod slots;
mod summary;
pub(crate) mod unit;

use crate::config;
use crate::config::Source;
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::output;
use crate::stores::{Missing, Url};
use crate::supervise::outage::Outage;
use crate::supervise::process;
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::supervise::will::Will;
use crate::text::{brief, count, date};
use crate::work::stream::Stream;
use crate::work::units;
use pieces::joblog::Joblog;
use pieces::printer::Form;
use register::Registered;
use scheduler::Scheduler;
use tenure::{Clock, Leases, Metadata, Value, Wall};

pub(crate) async fn work(url: &Url, mut plan: config::Work) -> Result<u8, Failure> {
    if plan.quiet {
        output::be_quiet();
    }
    let path = process::find(&plan.command.program)?;
    plan.command = plan.command.at(path);
    // What can't be written there is told before a unit is to be run anew for it.
    plan.form.as_ref().map_or(Ok(()), Form::make_directory)?;
    let joblog = plan.joblog.as_deref().map(Joblog::open).transpose()?;
    let began = tenure::clock::system().now().wall;
    let is_streamed = plan.name.is_some() && plan.source == Source::Input && !plan.fresh;
    let (given, incoming) = if is_streamed {
        let (given, incoming) = Stream::start(plan.separator, plan.max_args)?.begin().await?;
        given.tell();
        (given, incoming)
    } else {
        let given = units::read(&plan.source, plan.separator)?.batched(plan.max_args)?;
        given.tell_left_out();
        (given, None)
    };
    let name = match &plan.name {
        Some(name) => name.clone(),
        None => naming::name(&plan.command, &naming::directory()?, &given)?,
    };
    let named = given.named(&name.prefix())?;
    let mut signals = Signals::listen()?;
    let clock = tenure::clock::system();
    let store = url.open(Missing::Create, clock.clone()).await?;
    // What goes wrong is told by the scheduler, which is what waits for it.
    let outage = Outage::new(false);
    let store = outage.watch(store);
    let about = Metadata::from([
        ("host".to_owned(), Value::from(tenure::clock::host_name())),
        ("pid".to_owned(), Value::from(i64::from(std::process::id()))),
        ("work".to_owned(), Value::from(name.as_str())),
    ]);
    let leases = Leases::builder(store).clock(clock).session_ttl(plan.ttl).about(about).start()?;
    leases.begin_session();
    let registered = signals.unless(register::register(&leases, &plan, &name, &named)).await;
    let registered = match registered.and_then(|registered| greet(&plan, &name, registered?)) {
        Ok(registered) => registered,
        Err(failure) => {
            // Whoever comes next must not take this process for one that is at work.
            signals.wait(plan.ttl, leases.stop()).await;
            return Err(failure);
        }
    };
    // Whoever was started before the last unit was done has worked on the same job at the same time.
    let done_before = registered.all_done.filter(|last| *last < began && incoming.is_none());
    if let Some(last) = done_before {
        output::note(was_done(&name, given.units().len(), last, began));
    }
    let is_named = plan.name.is_some();
    let policy = Policy::for_many(leases.holder().as_str(), plan.ttl, plan.grace)?;
    policy.watchdogs.bequeath(Will::of(url, &leases, std::iter::empty()));
    let mut scheduler = Scheduler::new(plan, name, leases, outage, policy, registered.board, named)?;
    scheduler.log_to(joblog);
    scheduler.take(incoming);
    let mut result = scheduler.work(&mut signals).await;
    if done_before.is_some() && !is_named && scheduler.is_idle() && matches!(result, Ok(exit::OK)) {
        result = Ok(exit::DONE_BEFORE);
    }
    if given.left_out() + scheduler.left_out() > 0 && matches!(result, Ok(exit::OK | exit::DONE_BEFORE)) {
        result = Ok(exit::SOME_FAILED);
    }
    scheduler.leave(&mut signals, &result).await;
    result
}

/// That there is nothing to run, and what to do if it should be run all the same.
fn was_done(name: &JobName, given: usize, last: Wall, now: Wall) -> String {
    let units = match given {
        0 => "all units were".to_owned(),
        1 => "the given unit was".to_owned(),
        n => format!("all {n} given units were"),
    };
    let ago = brief(now.since(last));
    format!(
        "job \"{}\": {units} done before, the last at {} ({ago} ago); to run them anew, say --fresh, or give a new --name",
        name.as_str(),
        date(last)
    )
}

fn greet(plan: &config::Work, name: &JobName, registered: Registered) -> Result<Registered, Failure> {
    let counts = registered.board.counts();
    let is_named = plan.name.is_some();
    let name = name.as_str();
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
    output::tell(format!(
        "job \"{name}\": {} ({} new{settled})",
        count(counts.total(), "unit"),
        registered.created
    ));
    if !is_named {
        output::tell(format!(
            "the same command here, with the same units, joins it; from elsewhere, add --join --name {name}"
        ));
    }
    Ok(registered)
}
