//! `work ls` and `work status`.

use super::survey::{JobSurvey, JobWorker, RetryingUnit, RunningUnit, of_job, survey};
use crate::args::jobs::{WorkLsArgs, WorkStatusArgs};
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::output;
use crate::stores::Url;
use crate::text::{brief, count, date, escaped, per_time, table};
use crate::verbs::open_to_look;
use crate::work::job::damaged::DamagedUnit;
use crate::work::job::failed::Failed;
use crate::work::units::{hex_of, text_of};
use serde_json::json;
use tenure::Wall;
use tenure::store::reserved::WORK;

pub(super) async fn ls(url: &Url, typed: &WorkLsArgs) -> Result<u8, Failure> {
    let leases = open_to_look(url).await?;
    let jobs = survey(&leases, WORK).await?;
    let now = leases.clock().now().wall;
    if typed.json {
        let jobs: Vec<_> = jobs.iter().map(|(name, job)| counts(name, job, now)).collect();
        output::json(&json!({"store": url.shown(), "jobs": jobs}))?;
        return Ok(exit::OK);
    }
    if jobs.is_empty() {
        output::note("there are no jobs");
        return Ok(exit::OK);
    }
    let dash = || "-".to_owned();
    let rows: Vec<Vec<String>> = jobs
        .iter()
        .map(|(name, job)| {
            vec![
                escaped(name),
                job.units().to_string(),
                job.done.to_string(),
                job.failed.len().to_string(),
                job.running.len().to_string(),
                job.waiting.to_string(),
                job.workers.len().to_string(),
                job.left(now).map_or_else(dash, brief),
                job.ended.map_or_else(dash, |at| date(Wall(at))),
            ]
        })
        .collect();
    let heading = ["JOB", "UNITS", "DONE", "FAILED", "RUNNING", "WAITING", "WORKERS", "LEFT", "LAST RESULT"];
    output::print(&table(&heading, &rows))?;
    for (name, job) in &jobs {
        let unread = unread(job);
        if !unread.is_empty() {
            let (name, unread) = (escaped(name), unread.join(", "));
            output::note(format!("job \"{name}\": {unread}; `tenure work status` names such units"));
        }
    }
    Ok(exit::OK)
}

/// How many units have records that this version does not read, by what they are.
fn unread(job: &JobSurvey) -> Vec<String> {
    let newer = job.damaged.iter().filter(|unit| unit.is_newer()).count();
    let kinds =
        [(job.damaged.len() - newer, "with a damaged record"), (newer, "that this version can't read")];
    kinds.into_iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect()
}

pub(super) async fn status(url: &Url, typed: &WorkStatusArgs) -> Result<u8, Failure> {
    let name = JobName::new(&typed.job)?;
    let leases = open_to_look(url).await?;
    let job = of_job(&leases, &name).await?.ok_or_else(|| super::absent(&name))?;
    let now = leases.clock().now().wall;
    if typed.json {
        let mut document = counts(name.as_str(), &job, now);
        if let Some(document) = document.as_object_mut() {
            document.insert("workers".into(), job.workers.iter().map(worker_json).collect());
            document.insert(
                "running_units".into(),
                job.running.iter().take(typed.most).map(running_json).collect(),
            );
            document.insert(
                "retrying_units".into(),
                job.retrying.iter().take(typed.most).map(retrying_json).collect(),
            );
            document.insert(
                "failed_units".into(),
                job.failed.iter().take(typed.most).map(Failed::json).collect(),
            );
            document.insert(
                "damaged_units".into(),
                job.damaged.iter().take(typed.most).map(DamagedUnit::json).collect(),
            );
        }
        output::json(&document)?;
    } else {
        output::print(&page(&name, &job, typed.most, now))?;
    }
    Ok(exit::OK)
}

fn counts(name: &str, job: &JobSurvey, now: Wall) -> serde_json::Value {
    json!({
        "job": name,
        "units": job.units(),
        "done": job.done,
        "failed": job.failed.len(),
        "running": job.running.len(),
        "waiting": job.waiting,
        "damaged": job.damaged.len(),
        "workers": job.workers.len(),
        "rate_per_second": job.rate(now),
        "left_seconds": job.left(now).map(|left| left.as_secs_f64()),
        "began": job.began.map(|at| date(Wall(at))),
        "last_result": job.ended.map(|at| date(Wall(at))),
    })
}

fn worker_json(worker: &JobWorker) -> serde_json::Value {
    let JobWorker { holder, host, pid, since, held } = worker;
    json!({"worker": holder, "host": host, "pid": pid, "since": date(*since), "units": held})
}

fn running_json(running: &RunningUnit) -> serde_json::Value {
    let RunningUnit { unit, holder, since } = running;
    json!({"unit": text_of(unit), "unit_hex": hex_of(unit), "worker": holder, "since": date(*since)})
}

fn retrying_json(retrying: &RetryingUnit) -> serde_json::Value {
    let RetryingUnit { failed, due } = retrying;
    let mut document = failed.json();
    if let Some(document) = document.as_object_mut() {
        document.insert("due".into(), due.map(date).into());
    }
    document
}

pub(super) fn page(name: &JobName, job: &JobSurvey, most: usize, now: Wall) -> String {
    let mut text = format!("job      {}\n", name.shown());
    // Rounded down: all of it is done where it says so.
    let percent = (job.done * 100).checked_div(job.units()).unwrap_or(0);
    let mut parts = vec![format!("{} done ({percent}%)", job.done)];
    let (newer, damaged): (Vec<_>, Vec<_>) = job.damaged.iter().partition(|unit| unit.is_newer());
    for (n, what) in [(job.failed.len(), "failed"), (job.running.len(), "running"), (job.waiting, "waiting")]
    {
        if n > 0 {
            parts.push(format!("{n} {what}"));
        }
    }
    parts.extend(unread(job));
    text.push_str(&format!("units    {}: {}\n", job.units(), parts.join(", ")));
    if let Some(rate) = job.rate(now) {
        let left = job.left(now).map_or_else(String::new, |left| format!(", about {} left", brief(left)));
        text.push_str(&format!("rate     {}{left}\n", per_time(rate)));
    }
    if let Some(at) = job.ended {
        let ago = brief(now.since(Wall(at)));
        text.push_str(&format!("last     result {ago} ago, at {}\n", date(Wall(at))));
    }
    text.push_str(&format!(
        "workers  {}\n",
        if job.workers.is_empty() { "none".into() } else { job.workers.len().to_string() }
    ));
    for JobWorker { host, pid, since, held, .. } in &job.workers {
        let held = count(*held, "unit");
        text.push_str(&format!(
            "  {} pid {pid}: {held}, here for {}\n",
            escaped(host),
            brief(now.since(*since))
        ));
    }
    let more = |n: usize| {
        if n > most { format!("  … and {} more; see --most\n", n - most) } else { String::new() }
    };
    if !job.running.is_empty() {
        text.push_str("running\n");
        for RunningUnit { unit, holder, since } in job.running.iter().take(most) {
            let since = brief(now.since(*since));
            text.push_str(&format!("  {}: for {since}, by {}\n", escaped(&text_of(unit)), escaped(holder)));
        }
        text.push_str(&more(job.running.len()));
    }
    if !job.retrying.is_empty() {
        text.push_str("to be tried again\n");
        for RetryingUnit { failed, due } in job.retrying.iter().take(most) {
            let left = due.map(|due| due.since(now)).filter(|left| !left.is_zero());
            text.push_str(&failed.lines(left.map(|left| format!("again in {}", brief(left)))));
        }
        text.push_str(&more(job.retrying.len()));
    }
    // What a newer version has written goes by that version.
    let (held, free): (Vec<_>, Vec<_>) = damaged.into_iter().partition(|unit| unit.is_held());
    for (units, what, remedy) in [
        (free, "damaged", "remove such a record: tenure rm --damaged KEY\n"),
        (held, "damaged, and held", "take such a record from its holder: tenure release KEY\n"),
        (newer, "not read by this version", ""),
    ] {
        if units.is_empty() {
            continue;
        }
        text.push_str(&format!("{what}\n"));
        units.iter().take(most).for_each(|unit| text.push_str(&unit.line()));
        text.push_str(&more(units.len()));
        text.push_str(remedy);
    }
    if !job.failed.is_empty() {
        text.push_str("failed\n");
        job.failed.iter().take(most).for_each(|failed| text.push_str(&failed.lines(None)));
        text.push_str(&more(job.failed.len()));
        // As a shell reads it. What begins as an option does can't be typed as a word of its own.
        let is_word = !name.as_str().starts_with('-');
        let name = shlex::try_quote(name.as_str()).unwrap_or_default();
        let again = if is_word { "retry " } else { "--retry-failed --join --name=" };
        let command = if is_word { "" } else { " -- CMD" };
        text.push_str(&format!("try them again: tenure work {again}{}{command}\n", escaped(&name)));
    }
    text
}
