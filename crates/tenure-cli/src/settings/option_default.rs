//! What an option is if it is not typed, as a configuration file says it.

use crate::exit::Failure;
use crate::text::escaped;
use clap::builder::ArgPredicate;
use clap::{Arg, ArgAction, Command};
use std::path::PathBuf;

/// What an option is if it is not typed.
#[derive(Debug, Clone)]
pub(crate) struct OptionDefault {
    /// None for all verbs that have the option.
    pub(crate) verb: Option<String>,
    /// Its long name.
    pub(crate) option: String,
    pub(crate) value: String,
    pub(crate) file: PathBuf,
}

impl OptionDefault {
    pub(super) fn apply(&self, command: Command) -> Result<Command, Failure> {
        let wrong = |text: String| {
            let (file, what) = (escaped(&self.file.to_string_lossy()), escaped(&self.shown()));
            Failure::usage(format!("{file}: {what}: {text}"))
        };
        let is_meant = |verb: &Command| self.verb.as_ref().is_none_or(|name| name == verb.get_name());
        let takers: Vec<Taker> = command
            .get_subcommands()
            .filter(|verb| is_meant(verb))
            .filter_map(|verb| {
                let option = taker(verb, &self.option)?;
                let (id, others) = (option.get_id().clone(), excluded_by(verb, option));
                Some(Taker { verb: verb.get_name().to_owned(), id, others })
            })
            .collect();
        if takers.is_empty() {
            if let Some(instead) = instead(&command, &self.option) {
                let option = escaped(&self.option);
                return Err(wrong(format!(
                    "--{option} is an option of all verbs, and has no default here; {instead}"
                )));
            }
            let whose =
                self.verb.as_ref().map_or_else(|| "no verb".to_owned(), |verb| format!("no verb {verb}"));
            return Err(wrong(format!(
                "{whose} has an option --{} that takes one value",
                escaped(&self.option)
            )));
        }
        Ok(takers.into_iter().fold(command, |command, Taker { verb, id, others }| {
            command.mut_subcommand(verb, |verb| {
                verb.mut_arg(id, |option| {
                    let option = option.default_value(self.value.clone());
                    // What is typed counts before it, also where that is another option, beside which this one can't be typed.
                    others.into_iter().fold(option, |option, (other, typed)| {
                        option.default_value_if(other, typed, None::<&str>)
                    })
                })
            })
        }))
    }

    /// As it stands in the file.
    pub(crate) fn shown(&self) -> String {
        let verb = self.verb.as_ref().map_or_else(String::new, |verb| format!("{verb}."));
        format!("defaults.{verb}{}", self.option)
    }
}

/// An option of a verb that takes a default.
struct Taker {
    verb: String,
    id: clap::Id,
    /// What can't be typed together with it, and how one tells that it was typed.
    others: Vec<(clap::Id, ArgPredicate)>,
}

/// The option of that long name, if it takes one value.
fn taker<'a>(verb: &'a Command, option: &str) -> Option<&'a Arg> {
    let found = verb.get_arguments().find(|argument| argument.get_long() == Some(option))?;
    matches!(found.get_action(), ArgAction::Set).then_some(found)
}

/// What can't be typed together with this option of a verb, and how one tells that it was typed.
fn excluded_by(verb: &Command, option: &Arg) -> Vec<(clap::Id, ArgPredicate)> {
    // One that has a value in any case is beside them in any case.
    if !option.get_default_values().is_empty() {
        return Vec::new();
    }
    let excludes = |one: &Arg, other: &Arg| verb.get_arg_conflicts_with(one).contains(&other);
    let others = verb
        .get_arguments()
        .filter(|other| !other.is_global_set() && (excludes(option, other) || excludes(other, option)));
    let typed = |other: &Arg| match other.get_action() {
        // Which is there, as false, if it is not typed.
        ArgAction::SetTrue => ArgPredicate::Equals("true".into()),
        _ => ArgPredicate::IsPresent,
    };
    others.map(|other| (other.get_id().clone(), typed(other))).collect()
}

/// What sets an option that all verbs have.
fn instead(command: &Command, option: &str) -> Option<String> {
    let found = command.get_arguments().find(|argument| argument.get_long() == Some(option))?;
    let variable = found.get_env()?.to_string_lossy();
    Some(match option {
        "store" | "namespace" => format!("write {option} = … at the top of the file, or set {variable}"),
        _ => format!("set the variable {variable}"),
    })
}
