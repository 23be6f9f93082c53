//! Settings that stand outside the command line: configuration files, variables, and the default store. Each knows where it comes from.

mod file;
pub(crate) mod fit;
mod namespace;
mod option_default;
mod place;

use crate::exit::Failure;
use crate::stores::Url;
use crate::text::escaped;
use clap::Command;
use clap::error::ContextKind;
use file::SettingsFile;
use std::fmt;
use std::path::{Path, PathBuf};

pub(crate) use option_default::OptionDefault;

pub(crate) const STORE_VARIABLE: &str = "TENURE_STORE";
pub(crate) const NAMESPACE_VARIABLE: &str = "TENURE_NAMESPACE";
/// Names the one configuration file that is read instead of the user's and the host's.
pub(crate) const FILE_VARIABLE: &str = "TENURE_CONFIG";

/// Where a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SettingSource {
    /// What was typed.
    Typed(&'static str),
    Variable(&'static str),
    File(PathBuf),
    /// Nothing says otherwise; and why it is this.
    Default(String),
}

impl fmt::Display for SettingSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SettingSource::Typed(what) => f.write_str(what),
            SettingSource::Variable(name) => write!(f, "the variable {name}"),
            SettingSource::File(path) => f.write_str(&escaped(&path.to_string_lossy())),
            SettingSource::Default(why) => write!(f, "the default: {why}"),
        }
    }
}

/// A value, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sourced<T> {
    pub(crate) value: T,
    pub(crate) source: SettingSource,
}

/// A store with a name of its own.
#[derive(Debug, Clone)]
pub(crate) struct NamedStore {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) namespace: Option<String>,
    pub(crate) file: PathBuf,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    store: Option<Sourced<String>>,
    namespace: Option<Sourced<String>>,
    pub(crate) stores: Vec<NamedStore>,
    /// The first of a kind counts.
    pub(crate) defaults: Vec<OptionDefault>,
    /// The files that were looked for, and whether each is there.
    pub(crate) files: Vec<(PathBuf, bool)>,
}

/// The store that is used.
#[derive(Debug)]
pub(crate) struct Chosen {
    pub(crate) url: Url,
    pub(crate) source: SettingSource,
    /// What it is called, if it has a name.
    pub(crate) name: Option<String>,
    pub(crate) namespace: Option<Sourced<String>>,
}

impl Chosen {
    /// Whether somebody has chosen it.
    pub(crate) fn is_named(&self) -> bool {
        !matches!(self.source, SettingSource::Default(_))
    }
}

impl Settings {
    /// Reads the configuration files: the user's counts before the host's.
    pub(crate) fn read() -> Result<Settings, Failure> {
        let mut settings = Settings::default();
        for path in place::files()? {
            let read = SettingsFile::read(&path)?;
            settings.files.push((path.clone(), read.is_some()));
            if let Some(file) = read {
                settings.take_in(file, &path)?;
            }
        }
        Ok(settings)
    }

    fn take_in(&mut self, file: SettingsFile, path: &Path) -> Result<(), Failure> {
        let sourced = |value| Sourced { value, source: SettingSource::File(path.to_owned()) };
        self.defaults.extend(file.option_defaults(path)?);
        if self.store.is_none() {
            self.store = file.store.map(sourced);
        }
        if self.namespace.is_none() {
            self.namespace = file.namespace.map(sourced);
        }
        for (name, store) in file.stores {
            if self.stores.iter().all(|known| known.name != name) {
                let (url, namespace) = (store.url, store.namespace);
                self.stores.push(NamedStore { name, url, namespace, file: path.to_owned() });
            }
        }
        Ok(())
    }

    /// The store: what was typed or is in the variable, what a file says, or the default one.
    pub(crate) fn choose(
        &self,
        typed: Option<Sourced<String>>,
        namespace: Option<Sourced<String>>,
    ) -> Result<Chosen, Failure> {
        let Some(Sourced { value, source }) = typed.or_else(|| self.store.clone()) else {
            let (path, why) = place::default_store()?;
            let chosen = Chosen {
                url: Url::Default(path),
                source: SettingSource::Default(why),
                name: None,
                namespace: None,
            };
            return within(chosen, namespace.or_else(|| self.namespace.clone()));
        };
        if value.is_empty() {
            let text = format!("{source} is empty: name a store there, or leave it out for the default one");
            return Err(Failure::usage(text));
        }
        let named = self.stores.iter().find(|store| store.name == value);
        let url = Url::parse(named.map_or(&value, |store| &store.url)).map_err(|failure| {
            let names: Vec<&str> = self.stores.iter().map(|store| store.name.as_str()).collect();
            let names = if names.is_empty() || value.contains(':') {
                String::new()
            } else {
                format!("; stores by name: {}", escaped(&names.join(", ")))
            };
            let place = named.map_or_else(
                || {
                    if matches!(source, SettingSource::File(_)) {
                        format!("{source}: ")
                    } else {
                        String::new()
                    }
                },
                |store| {
                    format!("{}: stores.{}: ", escaped(&store.file.to_string_lossy()), escaped(&store.name))
                },
            );
            Failure::new(failure.code, format!("{place}{}{names}", failure.text))
        })?;
        let file = named.map(|store| &store.file).or(match &source {
            SettingSource::File(file) => Some(file),
            _ => None,
        });
        if let (Some(file), Url::Sqlite(path)) = (file, &url)
            && path.is_relative()
        {
            let what =
                named.map_or_else(|| "store".to_owned(), |store| format!("stores.{}", escaped(&store.name)));
            return Err(Failure::usage(format!(
                "{}: {what}: {} would be another file in each working directory; write its whole path",
                escaped(&file.to_string_lossy()),
                url.shown()
            )));
        }
        let own = named.and_then(|store| {
            let source = SettingSource::File(store.file.clone());
            Some(Sourced { value: store.namespace.clone()?, source })
        });
        let chosen = Chosen { url, source, name: named.map(|store| store.name.clone()), namespace: None };
        within(chosen, namespace.or(own).or_else(|| self.namespace.clone()))
    }

    /// The default that its option does not take, if that is what the parser says.
    pub(crate) fn refused(&self, error: &clap::Error) -> Option<&OptionDefault> {
        let told = |kind| error.get(kind).map(ToString::to_string);
        let (argument, value) = (told(ContextKind::InvalidArg)?, told(ContextKind::InvalidValue)?);
        let option = argument.strip_prefix("--")?.split(' ').next()?;
        self.defaults.iter().find(|default| default.option == option && default.value == value)
    }

    /// The command line with these defaults: help tells them, and what is typed counts before them.
    pub(crate) fn apply(&self, mut command: Command) -> Result<Command, Failure> {
        // The last one that is set holds, so those of single verbs, and of the user's file, come last.
        let (of_all, of_one): (Vec<_>, Vec<_>) = self.defaults.iter().rev().partition(|it| it.verb.is_none());
        for default in of_all.into_iter().chain(of_one) {
            command = default.apply(command)?;
        }
        Ok(command)
    }
}

/// The store, or a part of it that is one by itself.
fn within(chosen: Chosen, namespace: Option<Sourced<String>>) -> Result<Chosen, Failure> {
    let Some(namespace) = namespace else { return Ok(chosen) };
    let url = namespace::within(&chosen.url, &namespace)?;
    Ok(Chosen { url, namespace: Some(namespace), ..chosen })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Settings {
        let mut settings = Settings::default();
        let path = Path::new("/etc/x.toml");
        settings.take_in(SettingsFile::parse(text, path).unwrap(), path).unwrap();
        settings
    }

    fn typed(text: &str) -> Option<Sourced<String>> {
        Some(Sourced { value: text.to_owned(), source: SettingSource::Typed("--store") })
    }

    #[test]
    fn what_is_typed_counts_before_the_file_and_a_name_is_looked_up() {
        let settings = settings(
            "store = \"team\"\n[stores]\nteam = { url = \"sqlite:/a/t.db\", namespace = \"blue\" }\nmine = { url = \"sqlite:/m.db\" }\n",
        );
        let url = |typed, namespace| settings.choose(typed, namespace).unwrap().url.shown();
        assert_eq!(url(None, None), "sqlite:/a/t.blue.db");
        assert_eq!(url(typed("mine"), None), "sqlite:/m.db");
        assert_eq!(url(typed("sqlite:x.db"), None), "sqlite:x.db");
        assert_eq!(url(None, typed("red")), "sqlite:/a/t.red.db", "before the store's own");
        let refused = settings.choose(typed("yours"), None).unwrap_err().text;
        assert!(refused.contains("stores by name: mine, team"), "{refused}");
        let empty = Sourced { value: String::new(), source: SettingSource::Variable(STORE_VARIABLE) };
        assert!(
            settings
                .choose(Some(empty), None)
                .unwrap_err()
                .text
                .starts_with("the variable TENURE_STORE is empty")
        );
    }

    #[test]
    fn the_user_s_file_counts_before_the_host_s_setting_by_setting() {
        let mut settings = Settings::default();
        for (path, text) in [
            (
                "/home/u/config.toml",
                "store = \"mine\"\n[stores]\nmine = { url = \"sqlite:/u.db\" }\n[defaults]\nttl = \"7s\"",
            ),
            (
                "/etc/tenure/config.toml",
                "store = \"sqlite:/h.db\"\nnamespace = \"ops\"\n[stores]\nmine = { url = \"sqlite:/h.db\" }\n[defaults]\nttl = \"9s\"\ngrace = \"3s\"",
            ),
        ] {
            settings.take_in(SettingsFile::parse(text, Path::new(path)).unwrap(), Path::new(path)).unwrap();
        }
        assert_eq!(settings.choose(None, None).unwrap().url.shown(), "sqlite:/u.ops.db");
        let command = settings.apply(crate::args::command()).unwrap();
        let run = command.find_subcommand("run").unwrap();
        let default = |name: &str| {
            let option = run.get_arguments().find(|it| it.get_long() == Some(name)).unwrap();
            option.get_default_values().first().unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!((default("ttl"), default("grace")), ("7s".to_owned(), "3s".to_owned()));
    }

    #[test]
    fn a_file_of_leases_is_the_same_in_all_working_directories() {
        let settings = settings(
            "store = \"sqlite:l.db\"\n[stores]\nmine = { url = \"sqlite:m.db\" }\nall = { url = \"memory:\" }\n",
        );
        let refused = |typed| settings.choose(typed, None).unwrap_err().text;
        assert!(refused(None).starts_with("/etc/x.toml: store: sqlite:l.db would be another file"));
        assert!(refused(typed("mine")).starts_with("/etc/x.toml: stores.mine: sqlite:m.db would be"));
        assert_eq!(settings.choose(typed("all"), None).unwrap().url, Url::Memory);
        // Who types it sees where it is.
        assert_eq!(settings.choose(typed("sqlite:l.db"), None).unwrap().url.shown(), "sqlite:l.db");
    }

    #[test]
    fn what_is_typed_counts_before_a_default_that_can_t_be_typed_beside_it() {
        let settings = settings(
            "[defaults.run]\npermits = 2\nwait = \"9s\"\n[defaults.work]\nfrom = \"list\"\nretries = 5\n",
        );
        let parsed = |words: &[&str]| {
            let command = settings.apply(crate::args::command()).unwrap();
            let parsed = command.try_get_matches_from([&["tenure"], words].concat()).unwrap();
            let (verb, options) = parsed.subcommand().unwrap();
            let value =
                |name| options.get_raw(name).and_then(|mut all| all.next()).map(std::ffi::OsStr::to_owned);
            if verb == "run" { (value("permits"), value("wait")) } else { (value("from"), None) }
        };
        let some = |text: &str| Some(std::ffi::OsString::from(text));
        assert_eq!(parsed(&["run", "k", "--", "x"]), (some("2"), some("9s")));
        for typed in ["--exclusive", "--shared", "--fair"] {
            assert_eq!(parsed(&["run", typed, "k", "--", "x"]), (None, some("9s")), "{typed}");
        }
        assert_eq!(parsed(&["run", "--try", "--permits", "3", "k", "--", "x"]), (some("3"), None));
        assert_eq!(parsed(&["work", "--", "x"]), (some("list"), None));
        assert_eq!(parsed(&["work", "--join", "--name", "j", "--", "x"]), (None, None));
        assert_eq!(parsed(&["work", "a", "--", "x"]), (None, None));
        // It has a value of its own, typed or not.
        let forever = ["work", "--forever", "--name", "j", "--units", "a", "--", "x"];
        assert_eq!(parsed(&forever), (None, None));
    }

    #[test]
    fn a_file_s_mistake_is_named_with_its_line_and_without_its_text() {
        let path = Path::new("/etc/x.toml");
        for (text, told) in [
            ("store = 7", "line 1"),
            ("\nstores = \"x:hunter2\"", "line 2"),
            ("colour = \"hunter2\"", "unknown field `colour`"),
            ("[stores.a]\nurl = \"x\"\npassword = \"hunter2\"", "unknown field `password`"),
        ] {
            let failure = SettingsFile::parse(text, path).unwrap_err();
            assert!(failure.text.starts_with("/etc/x.toml: ") && failure.text.contains(told), "{failure}");
            assert!(!failure.text.contains("hunter2"), "{failure}");
        }
        for (text, told) in [
            ("[defaults]\nttl = []", "defaults.ttl"),
            ("[defaults.run]\ntry = 1", "no verb run has an option --try that takes one value"),
            ("[defaults]\ncolour = 1", "no verb has an option --colour"),
            ("[defaults]\nlog-format = \"json\"", "set the variable TENURE_LOG_FORMAT"),
            (
                "[defaults.run]\nstore = \"team\"",
                "write store = … at the top of the file, or set TENURE_STORE",
            ),
        ] {
            let file = SettingsFile::parse(text, path).unwrap();
            let mut settings = Settings::default();
            let taken = settings.take_in(file, path);
            let command = crate::args::command();
            let failure = taken.and_then(|()| settings.apply(command).map(drop)).unwrap_err();
            assert!(failure.text.contains(told), "{failure}");
        }
    }
}
