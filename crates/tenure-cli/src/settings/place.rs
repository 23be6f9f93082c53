//! Where files are: the default store and the configuration.
//!
//! All processes of a user find the same store, wherever they are started, so that two jobs of one crontab exclude each other. System
//! users have no home to speak of, so they have the host's.

use super::FILE_VARIABLE;
use crate::exit::Failure;
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use std::path::PathBuf;

const STATE_VARIABLE: &str = "XDG_STATE_HOME";
/// The state of this host's services.
const HOST_STATE: &str = "/var/lib/tenure";
const HOST_CONFIGURATION: &str = "/etc/tenure/config.toml";
/// Those below are system users', as are `nobody` and beyond.
const FIRST_USER: u32 = 1000;
const NOBODY: u32 = 65_534;

fn xdg() -> Result<Xdg, Failure> {
    Xdg::new().map_err(|error| Failure::usage(format!("{error}: set HOME, or name a store by --store")))
}

/// The store that is used if none is named, and why it is that one.
pub(super) fn default_store() -> Result<(PathBuf, String), Failure> {
    let user = rustix::process::geteuid().as_raw();
    // In a container there may be no home, nor a user of that number.
    let named = std::env::var_os(STATE_VARIABLE).map(PathBuf::from).filter(|path| path.is_absolute());
    let (directory, why) = if let Some(state) = named {
        (Some(state.join("tenure")), format!("below {STATE_VARIABLE}"))
    } else if (FIRST_USER..NOBODY).contains(&user) {
        (xdg()?.state_dir().map(|state| state.join("tenure")), "this user's".to_owned())
    } else {
        (Some(PathBuf::from(HOST_STATE)), format!("this host's, for system users as {user} is"))
    };
    let directory = directory.unwrap_or_else(|| PathBuf::from(HOST_STATE));
    Ok((directory.join("leases.db"), why))
}

/// The configuration files, those that count first before others. They need not be there.
pub(super) fn files() -> Result<Vec<PathBuf>, Failure> {
    if let Some(named) = std::env::var_os(FILE_VARIABLE).filter(|name| !name.is_empty()) {
        let path = PathBuf::from(named);
        if !path.exists() {
            let shown = crate::text::escaped(&path.to_string_lossy());
            return Err(Failure::usage(format!("{FILE_VARIABLE}: there is no file {shown}")));
        }
        return Ok(vec![path]);
    }
    // Who has no home has the host's file.
    let own = Xdg::new().ok().map(|xdg| xdg.config_dir().join("tenure/config.toml"));
    Ok(own.into_iter().chain([PathBuf::from(HOST_CONFIGURATION)]).collect())
}
