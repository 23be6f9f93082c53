//! A configuration file, as docs/configuration.md describes it.

use super::{FILE_VARIABLE, OptionDefault};
use crate::exit::Failure;
use crate::text::escaped;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::Path;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SettingsFile {
    pub(super) store: Option<String>,
    pub(super) namespace: Option<String>,
    #[serde(default)]
    pub(super) stores: BTreeMap<String, StoreTable>,
    #[serde(default)]
    defaults: toml::Table,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoreTable {
    pub(super) url: String,
    pub(super) namespace: Option<String>,
}

impl SettingsFile {
    /// None if there is none.
    pub(super) fn read(path: &Path) -> Result<Option<SettingsFile>, Failure> {
        // Asked for before it is opened: a pipe that nobody writes to would be waited for, and a device may be endless.
        let kind = std::fs::metadata(path).map(|found| found.file_type());
        let is_empty_device = || path.canonicalize().is_ok_and(|path| path == Path::new("/dev/null"));
        if kind.is_ok_and(|kind| !kind.is_file() && !kind.is_dir()) && !is_empty_device() {
            return Err(wrong(
                path,
                "is no regular file but a pipe, a socket or a device; write what it says to a file, and name that",
            ));
        }
        match std::fs::read_to_string(path) {
            Ok(text) => SettingsFile::parse(&text, path).map(Some),
            // HOME is `/dev/null` for some services.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            // HOME may be another user's, as where a program has changed the user alone.
            Err(error) => Err(wrong(
                path,
                &format!("can't be read: {error}; mend that, or name another file by {FILE_VARIABLE}"),
            )),
        }
    }

    /// Errors tell the line and not what stands in it, which may be a secret.
    pub(super) fn parse(text: &str, path: &Path) -> Result<SettingsFile, Failure> {
        toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = before.map_or(1, |before| before.matches('\n').count() + 1);
            let message = error.message();
            // serde repeats a value of the wrong kind.
            let message = match message.split_once(", expected ") {
                Some((_, expected)) if message.starts_with("invalid type") => format!("expected {expected}"),
                _ => message.to_owned(),
            };
            wrong(path, &format!("line {line}: {message}"))
        })
    }

    /// What stands under `defaults`: options of all verbs, and tables of single verbs.
    pub(super) fn option_defaults(&self, path: &Path) -> Result<Vec<OptionDefault>, Failure> {
        let mut all = Vec::new();
        let mut add = |verb: Option<&str>, option: &str, value: &toml::Value| {
            let default = |value| OptionDefault {
                verb: verb.map(str::to_owned),
                option: option.to_owned(),
                value,
                file: path.to_owned(),
            };
            let value = match value {
                toml::Value::String(text) => text.clone(),
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                _ => {
                    let shown = escaped(&default(String::new()).shown());
                    return Err(wrong(
                        path,
                        &format!("{shown}: write a text or a number, as on the command line"),
                    ));
                }
            };
            all.push(default(value));
            Ok(())
        };
        for (name, value) in &self.defaults {
            match value {
                toml::Value::Table(of_verb) => {
                    of_verb.iter().try_for_each(|(option, value)| add(Some(name), option, value))?;
                }
                value => add(None, name, value)?,
            }
        }
        Ok(all)
    }
}

fn wrong(path: &Path, text: &str) -> Failure {
    Failure::usage(format!("{}: {text}", escaped(&path.to_string_lossy())))
}
