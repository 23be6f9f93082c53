//! `tenure work`: units of a job, each run by one process at a time.

mod anew;
mod board;
pub(crate) mod damaged;
pub(crate) mod failed;
mod groups;
mod naming;
mod pacing;
pub(crate) mod pieces;
pub(crate) mod presence;
mod progress;
mod register;
mod scheduler;
mod slots;
mod summary;
mod turns;
pub(crate) mod unit;
pub(crate) mod writes;

use crate::config;
use crate::config::{Form, HolderInfo, UnitSource};
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::output;
use crate::stores::Url;
use crate::supervise::opened::OpenedStore;
use crate::supervise::outage::Outage;
use crate::supervise::process;
use crate::supervise::run::Policy;
use crate::supervise::signals::Signals;
use crate::supervise::will::Will;
use crate::text::{brief, count, date, escaped};
use crate::work::stream::Stream;
use crate::work::units::{self, Given};
use naming::List;
use pieces::capture;
use pieces::joblog::Joblog;
use register::Registered;
use scheduler::Scheduler;
use std::time::Duration;
use tenure::{Clock, Leases, Wall};

pub(crate) async fn work(url: &Url, mut plan: config::Work) -> Result<u8, Failure> {
    if plan.quiet {
        output::be_quiet();
    }
    let found = process::find(&plan.command.program)?;
    plan.command = plan.command.at(found);
    url.check_ttl(plan.ttl)?;
    // What can't be written there is told before a unit is to be run anew for it.
    plan.form.as_ref().map_or(Ok(()), Form::make_directory)?;
    if plan.form.is_some() {
        capture::check_directory()?;
    }
    let joblog = plan.joblog.as_deref().map(Joblog::open).transpose()?;
    let began = tenure::clock::system().now().wall;
    // To run anew what is given, all of it has to be known.
    let is_streamed = plan.source == UnitSource::Input && !plan.fresh;
    let (given, incoming) = if is_streamed {
        let (given, incoming) = Stream::start(plan.separator, plan.max_args)?.begin().await?;
        given.tell();
        (given, incoming)
    } else {
        let given = units::read(&plan.source, plan.separator)?.batched(plan.max_args)?;
        given.tell_left_out();
        (given, None)
    };
    check_given(&plan, &given)?;
    let (name, joining) = match &plan.name {
        Some(name) => (name.clone(), None),
        None => {
            let list = List::of(&plan, &given)?;
            (naming::name(&plan.command, &naming::directory()?, &list)?, Some(list.joining()))
        }
    };
    let named = given.named(&name.prefix())?;
    // A list may be so long that it should not be there twice.
    let (units, left_out) = (given.units().len(), given.left_out());
    drop(given);
    let mut signals = Signals::listen()?;
    // What goes wrong is told by the scheduler, which is what waits for it.
    let opened = OpenedStore::open(url, plan.await_store, Outage::new(false));
    let opened = signals.unless(opened).await??;
    let mut about = HolderInfo::new(None, Some(&plan.command.program))?.metadata();
    about.insert("work".to_owned(), name.as_str().into());
    about.insert(presence::COMMAND.to_owned(), naming::command_digest(&plan.command, plan.max_args).into());
    let leases = opened.leases().session_ttl(plan.ttl).metadata(about).start()?;
    leases.begin_session();
    let registered = signals.unless(register::register(&leases, &plan, &name, &named)).await;
    let registered = match registered.and_then(|registered| greet(&name, joining, registered?)) {
        Ok(registered) => registered,
        Err(failure) => {
            // Whoever comes next must not take this process for one that is at work.
            signals.wait(plan.ttl, say_goodbye(&leases)).await;
            return Err(failure);
        }
    };
    // Whoever was started before the last unit was done has worked on the same job at the same time.
    let is_open = incoming.is_some();
    let done_before = registered.done_before(is_open).filter(|last| *last < began);
    let job = name.clone();
    let is_named = plan.name.is_some();
    // Without a name the status is that nothing was run. With one, nothing is wrong.
    let tell_of_end = |text: String| if is_named { output::tell(text) } else { output::note(text) };
    if let Some(last) = done_before.filter(|_| !is_open) {
        tell_of_end(was_done(&name, units, last, began));
    }
    let policy = Policy::for_many(leases.holder().as_str(), plan.ttl, plan.grace)?;
    policy.watchdogs.bequeath(Will::of(url, &leases, std::iter::empty()));
    let mut scheduler = Scheduler::new(plan, name, leases, opened.outage, policy, registered.board, named)?;
    scheduler.log_to(joblog);
    scheduler.is_in(opened.file);
    scheduler.take(incoming);
    let mut result = scheduler.work(&mut signals).await;
    if let Some(last) = done_before.filter(|_| scheduler.is_idle() && matches!(result, Ok(exit::OK))) {
        let later = scheduler.given_later_and_done();
        if let Some(later) = later.filter(|_| is_open) {
            tell_of_end(was_done(&job, units + later, last, began));
        }
        if !is_named && (later.is_some() || !is_open) {
            result = Ok(exit::DONE_BEFORE);
        }
    }
    if left_out + scheduler.left_out() > 0 {
        result = match result {
            Ok(exit::OK | exit::DONE_BEFORE) => Ok(exit::SOME_FAILED),
            // As --halt has asked for.
            Err(failure) if failure.code == exit::OK && failure.by.is_none() => {
                Err(Failure::silent(exit::SOME_FAILED))
            }
            result => result,
        };
    }
    scheduler.leave(&mut signals, &result).await;
    result
}

/// A list without a unit may be a mistake of whoever has made it. All units of a job are meant only by who names no list.
fn check_given(plan: &config::Work, given: &Given) -> Result<(), Failure> {
    let list = match &plan.source {
        UnitSource::File(path) => escaped(&path.to_string_lossy()),
        UnitSource::Input if plan.fresh && units::is_input_a_list() => "standard input".to_owned(),
        _ => return Ok(()),
    };
    if !given.is_empty() {
        return Ok(());
    }
    let fresh = if plan.fresh { " --fresh" } else { "" };
    Err(Failure::usage(format!(
        "no units are given: there is none in {list}; to work on those that are registered, say --join --name NAME{fresh}"
    )))
}

/// Ends the session. One that is on its way yet would be left to expire, and be taken for a process that is at work until then: it is
/// waited for if it comes soon.
async fn say_goodbye(leases: &Leases) {
    const SOON: Duration = Duration::from_millis(500);
    const PAUSE: Duration = Duration::from_millis(1);
    let has_come = async {
        while leases.session_remaining().is_zero() {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _may_be_up = tokio::time::timeout(SOON, has_come).await;
    leases.stop().await;
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
        name.shown(),
        date(last)
    )
}

/// Says what job it is. `joining`: what joins it without its name, if anything does.
fn greet(name: &JobName, joining: Option<&str>, registered: Registered) -> Result<Registered, Failure> {
    let counts = registered.board.counts();
    let name = name.shown();
    if counts.total() == 0 {
        let text = format!(
            "the job \"{name}\" has no units: give some as arguments, on standard input or by --from FILE"
        );
        return Err(Failure::usage(text));
    }
    // What can't be read is none that was settled: it may be open.
    let known = [(counts.done + counts.failed, "settled already"), (counts.damaged, "that can't be read")];
    let known = known.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!(", {n} {what}"));
    let known: String = known.collect();
    output::tell(format!(
        "job \"{name}\": {} ({} new{known})",
        count(counts.total(), "unit"),
        registered.created
    ));
    if let Some(key) = &registered.around {
        output::note(format!(
            "{} is held for the command by which this one was started (TENURE_HELD): if that waits for this one, both wait for ever",
            escaped(key.as_str())
        ));
    }
    if let Some((host, pid)) = &registered.other_command {
        output::note(format!(
            "{} pid {pid} runs another command for the units of this job, or with another -n: each unit is run by one of both. If that is not meant, \
             give another --name",
            escaped(host)
        ));
    }
    if let Some(units) = joining {
        output::tell(format!(
            "the same command here, with {units}, joins it; from elsewhere, add --join --name {name}"
        ));
    }
    Ok(registered)
}
