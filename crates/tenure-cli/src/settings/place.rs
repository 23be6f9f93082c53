//! Where files are: the default store and the configuration.
//!
//! All processes of a user find the same store, wherever they are started, so that two jobs of one crontab exclude each other. System
//! users have no home to speak of, so they have the host's.

use super::FILE_VARIABLE;
use crate::exit::Failure;
use crate::text::escaped;
use etcetera::BaseStrategy;
use etcetera::base_strategy::Xdg;
use std::path::{Path, PathBuf};

const STATE_VARIABLE: &str = "XDG_STATE_HOME";
/// The state of this host's services.
const HOST_STATE: &str = "/var/lib/tenure";
const HOST_CONFIGURATION: &str = "/etc/tenure/config.toml";
/// Those below are system users', as are `nobody` and beyond.
const FIRST_USER: u32 = 1000;
const NOBODY: u32 = 65_534;

fn xdg() -> Result<Xdg, Failure> {
    let xdg = Xdg::new()
        .map_err(|error| Failure::usage(format!("{error}: set HOME, or name a store by --store")))?;
    check_home(xdg.home_dir())?;
    Ok(xdg)
}

/// A home that depends on the working directory would give each of a user's jobs a store of its own.
fn check_home(home: &Path) -> Result<(), Failure> {
    if home.is_absolute() {
        return Ok(());
    }
    let shown = escaped(&home.to_string_lossy());
    Err(Failure::usage(format!(
        "HOME is \"{shown}\", which is no absolute path: set HOME, or name a store by --store"
    )))
}

/// The store that is used if none is named, and why it is that one.
pub(super) fn default_store() -> Result<(PathBuf, String), Failure> {
    let user = rustix::process::geteuid().as_raw();
    let named = std::env::var_os(STATE_VARIABLE).map(PathBuf::from);
    default_store_of(user, named, || Ok(xdg()?.state_dir()))
}

/// The same for this user, whose variable says this, and who has a home with a directory for state.
fn default_store_of(
    user: u32,
    named: Option<PathBuf>,
    own: impl FnOnce() -> Result<Option<PathBuf>, Failure>,
) -> Result<(PathBuf, String), Failure> {
    // In a container there may be no home, nor a user of that number.
    let named = named.filter(|path| path.is_absolute());
    let (directory, why) = if let Some(state) = named {
        (Some(state.join("tenure")), format!("below {STATE_VARIABLE}"))
    } else if (FIRST_USER..NOBODY).contains(&user) {
        (own()?.map(|state| state.join("tenure")), "this user's".to_owned())
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
            let shown = escaped(&path.to_string_lossy());
            return Err(Failure::usage(format!("{FILE_VARIABLE}: there is no file {shown}")));
        }
        return Ok(vec![path]);
    }
    // Who has no home has the host's file.
    let own = Xdg::new().ok().map(|xdg| xdg.config_dir().join("tenure/config.toml"));
    let own = own.filter(|path| path.is_absolute());
    Ok(own.into_iter().chain([PathBuf::from(HOST_CONFIGURATION)]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_store_is_the_user_s_or_that_of_the_host_s_system_users() {
        let of = |user, named: Option<&str>| {
            let own = || Ok(Some(PathBuf::from("/home/u/.local/state")));
            let (store, why) = default_store_of(user, named.map(PathBuf::from), own).unwrap();
            (store.to_str().unwrap().to_owned(), why)
        };
        const USERS: &str = "/home/u/.local/state/tenure/leases.db";
        const HOSTS: &str = "/var/lib/tenure/leases.db";
        for (user, store) in
            [(0, HOSTS), (999, HOSTS), (1000, USERS), (65_533, USERS), (65_534, HOSTS), (u32::MAX, HOSTS)]
        {
            let (is, why) = of(user, None);
            assert_eq!(is, store, "{user}");
            assert_eq!(why.contains("system users"), store == HOSTS, "{user}: {why}");
            assert_eq!(of(user, Some("/s")).0, "/s/tenure/leases.db", "{user}: what is named counts first");
            assert_eq!(of(user, Some("s")).0, store, "{user}: XDG has relative paths ignored");
        }
    }

    #[test]
    fn a_home_that_depends_on_the_working_directory_is_none() {
        for home in [".", "", "home/u"] {
            let told = check_home(Path::new(home)).unwrap_err().text;
            assert!(told.contains("set HOME"), "{told}");
        }
        assert!(check_home(Path::new("/home/u")).is_ok());
    }

    #[test]
    fn a_user_without_a_home_is_told_and_a_system_user_needs_none() {
        let homeless = || Err(Failure::usage("set HOME"));
        assert!(default_store_of(1000, None, homeless).unwrap_err().text.contains("HOME"));
        assert!(default_store_of(33, None, homeless).is_ok());
        assert!(default_store_of(1000, Some("/s".into()), homeless).is_ok());
    }
}
