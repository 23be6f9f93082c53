//! The command line of the simulator's own example program, which takes the lines that run a history again, as `tenure sim` does.

use crate::{FaultKind, FaultSet, Rule, SimOptions};
use std::fmt::Write as _;
use tenure_core::{Bug, Bugs, InvalidInput};

/// What `tenure sim` was asked to do.
#[derive(Debug, Clone)]
pub enum SimCommand {
    /// Run worlds.
    Run(Box<SimOptions>),
    /// Print this.
    Text(String),
}

/// How the simulator is used.
pub const USAGE: &str = "\
usage: tenure sim [--scenario NAME] [--seed N] [--hours H] [--worlds N]
                  [--without FAULT,…] [--nodes N] [--bug NAME] [--only PROMISE] [--jobs N] [--no-shrink]
       tenure sim --list";

/// Understands the arguments that follow `tenure sim`.
///
/// # Errors
/// When one is unknown, lacks its value, or has one that makes no sense.
pub fn parse<S: AsRef<str>>(args: impl IntoIterator<Item = S>) -> Result<SimCommand, InvalidInput> {
    let mut options = SimOptions::default();
    let mut hours_given = false;
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let (name, inline) = match arg.as_ref().split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (arg.as_ref().to_owned(), None),
        };
        match name.as_str() {
            "--list" => return Ok(SimCommand::Text(list())),
            "--help" | "-h" => return Ok(SimCommand::Text(USAGE.to_owned())),
            "--no-shrink" => {
                options.shrink = false;
                continue;
            }
            _ => {}
        }
        let mut value = || {
            let next = inline.clone().or_else(|| args.next().map(|value| value.as_ref().to_owned()));
            next.ok_or_else(|| InvalidInput::new(format!("{name} needs a value\n{USAGE}")))
        };
        match name.as_str() {
            "--scenario" => options.scenario = Some(value()?),
            "--seed" => options.seed = number(&name, &value()?)?,
            "--worlds" => options.worlds = number(&name, &value()?)?,
            "--nodes" => options.nodes = number::<usize>(&name, &value()?)?,
            "--jobs" => options.jobs = number::<usize>(&name, &value()?)?.max(1),
            "--hours" => {
                options.hours = number(&name, &value()?)?;
                hours_given = true;
            }
            "--without" => options.without = faults(&value()?)?,
            "--only" => options.only = Some(promise(&value()?)?),
            "--bug" => options.bugs = with_bug(options.bugs, &value()?)?,
            _ => return Err(InvalidInput::new(format!("{name:?} is not known\n{USAGE}"))),
        }
    }
    if options.worlds > 0 && !hours_given {
        options.hours = f64::MAX;
    }
    Ok(SimCommand::Run(Box::new(options)))
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, InvalidInput> {
    text.parse().map_err(|_| InvalidInput::new(format!("{name} needs a number, not {text:?}")))
}

fn faults(text: &str) -> Result<FaultSet, InvalidInput> {
    text.split(',').try_fold(FaultSet::default(), |set, name| match FaultKind::named(name) {
        Some(fault) => Ok(set.with(fault)),
        None => {
            Err(InvalidInput::new(format!("there is no fault {name:?}; `tenure sim --list` has them all")))
        }
    })
}

fn promise(name: &str) -> Result<Rule, InvalidInput> {
    Rule::named(name).ok_or_else(|| {
        InvalidInput::new(format!("there is no promise {name:?}; `tenure sim --list` has them all"))
    })
}

fn with_bug(bugs: Bugs, name: &str) -> Result<Bugs, InvalidInput> {
    let Some(bug) = Bug::named(name) else {
        return Err(InvalidInput::new(format!("there is no bug {name:?}; `tenure sim --list` has them all")));
    };
    switch_on(bugs, bug)
}

#[cfg(feature = "bugs")]
fn switch_on(bugs: Bugs, bug: Bug) -> Result<Bugs, InvalidInput> {
    Ok(bugs.with(bug))
}

#[cfg(not(feature = "bugs"))]
fn switch_on(_bugs: Bugs, bug: Bug) -> Result<Bugs, InvalidInput> {
    Err(InvalidInput::new(format!("{bug} is not in this build; bugs on purpose need the feature \"bugs\"")))
}

/// All scenarios, faults, promises and bugs.
fn list() -> String {
    let mut text = String::from("scenarios\n");
    for (name, about) in crate::scenarios() {
        let _infallible = writeln!(text, "  {name:<22} {about}");
    }
    text += "\nfaults\n";
    for fault in FaultKind::ALL {
        let _infallible = writeln!(text, "  {:<22} {}", fault.name(), fault.about());
    }
    text += "\npromises\n";
    for rule in Rule::ALL {
        let _infallible = writeln!(text, "  {:<22} {}", rule.to_string(), rule.about());
    }
    text += "\nbugs on purpose\n";
    for bug in Bug::ALL {
        let _infallible = writeln!(text, "  {bug:<22} {}", bug.about());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<SimOptions, String> {
        match parse(line.split_whitespace()).map_err(|error| error.to_string())? {
            SimCommand::Run(options) => Ok(*options),
            SimCommand::Text(text) => Err(text),
        }
    }

    #[test]
    fn a_replay_line_is_understood() {
        let got = options(
            "--scenario storm --seed 7 --worlds=1 --without cut,slow --nodes 2 --only S7 --no-shrink",
        )
        .unwrap();
        assert_eq!((got.scenario.as_deref(), got.seed, got.worlds, got.nodes), (Some("storm"), 7, 1, 2));
        assert!(
            got.without.has(FaultKind::Cut)
                && got.without.has(FaultKind::Slow)
                && !got.without.has(FaultKind::Crash)
        );
        assert_eq!(got.only, Some(Rule::S7));
        assert!(!got.shrink && got.hours == f64::MAX);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, says) in [
            ("--seed", "--seed needs a value"),
            ("--seed x", "needs a number, not \"x\""),
            ("--without rain", "no fault \"rain\""),
            ("--bug Moth", "no bug \"Moth\""),
            ("--only S77", "no promise \"S77\""),
            ("--tea", "\"--tea\" is not known"),
        ] {
            let error = options(line).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn the_list_names_everything() {
        let list = options("--list").unwrap_err();
        for name in ["storm", "cut-answers", "S1", "NoDriftMargin"] {
            assert!(list.contains(name), "{name}");
        }
    }
}
