//! `work ls`, `work status`, `work top`, `work retry` and `work rm`: jobs as their records show them.

mod change;
mod look;
mod survey;
mod top;

pub(super) use change::await_fences;

use crate::args::jobs::WorkVerb;
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::stores::Url;

pub(crate) async fn jobs(url: &Url, typed: WorkVerb) -> Result<u8, Failure> {
    match typed {
        WorkVerb::Ls(typed) => look::ls(url, &typed).await,
        WorkVerb::Status(typed) => look::status(url, &typed).await,
        WorkVerb::Top(typed) => top::top(url, &typed).await,
        WorkVerb::Retry(typed) => change::retry(url, &typed).await,
        WorkVerb::Rm(typed) => change::rm(url, &typed).await,
    }
}

fn absent(name: &JobName) -> Failure {
    let name = name.shown();
    Failure::new(
        exit::ABSENT,
        format!("there is no job \"{name}\"; `tenure work ls` lists those that there are"),
    )
}
