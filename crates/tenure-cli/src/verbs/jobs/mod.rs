//! `work ls`, `work status`, `work top`, `work retry` and `work rm`: jobs as their records show them.

mod change;
mod look;
mod survey;
mod top;

use crate::args::jobs::Jobs;
use crate::exit::{self, Failure};
use crate::keys::JobName;
use crate::stores::Url;

pub(crate) async fn jobs(url: &Url, typed: Jobs) -> Result<u8, Failure> {
    match typed {
        Jobs::Ls(typed) => look::ls(url, &typed).await,
        Jobs::Status(typed) => look::status(url, &typed).await,
        Jobs::Top(typed) => top::top(url, &typed).await,
        Jobs::Retry(typed) => change::retry(url, &typed).await,
        Jobs::Rm(typed) => change::rm(url, &typed).await,
    }
}

fn absent(name: &JobName) -> Failure {
    let name = name.as_str();
    Failure::new(
        exit::ABSENT,
        format!("there is no job \"{name}\"; `tenure work ls` lists those that there are"),
    )
}
