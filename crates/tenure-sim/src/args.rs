//! The command line of the simulator. `tenure sim` has it, and this package's own program: a line that runs a history again is the same for both.

use crate::{FaultKind, FaultSet, Rule, SimOptions};
use clap::Parser;
use tenure_core::{Bug, Bugs, InvalidInput};

/// Run tenure's machines in a simulated world where everything goes wrong that can, and check the promises.
///
/// The same seed is the same history. When a promise is broken, the history is shortened, and its last events are
/// printed with a line that runs it again.
#[derive(Debug, Parser)]
pub struct SimArgs {
    /// The first world's seed; the next ones count up from it
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// How much time to simulate, at least; otherwise 1,000 hours, or with --worlds as much as so many worlds take
    #[arg(long)]
    pub hours: Option<f64>,
    /// The most worlds; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub worlds: u64,
    /// The kind of world; otherwise, by turns, all those of leases and elections. By turns, too: sections-all, semaphores-all,
    /// fleet-all
    #[arg(long, value_name = "NAME")]
    pub scenario: Option<String>,
    /// Kinds of faults that do not happen
    #[arg(long, value_name = "FAULT", value_delimiter = ',')]
    pub without: Vec<String>,
    /// How many nodes take part; 0 for as many as the scenario has
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub nodes: usize,
    /// The one promise that is checked; otherwise all of them. A line that runs a history again may have it
    #[arg(long, value_name = "PROMISE")]
    pub only: Option<String>,
    /// Switch a bug on, to see it caught; only in a build with the feature `bugs`
    #[arg(long, value_name = "BUG", value_delimiter = ',')]
    pub bug: Vec<String>,
    /// How many worlds run at a time; the report is the same with any number
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub jobs: usize,
    /// Do not shorten the history of a broken promise
    #[arg(long)]
    pub no_shrink: bool,
    /// List scenarios, faults, promises and bugs, and simulate nothing
    #[arg(long)]
    pub list: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

/// How much time is simulated if neither that nor the number of worlds was typed.
const HOURS: f64 = 1000.0;

impl SimArgs {
    /// What is to be run.
    ///
    /// # Errors
    /// When the hours are no number of hours, or there is no fault, promise or bug of a name that was typed. Of scenarios, [`run`](crate::run) says so.
    pub fn options(&self) -> Result<SimOptions, InvalidInput> {
        let hours = match self.hours {
            Some(hours) if !hours.is_finite() || hours < 0.0 => {
                return Err(InvalidInput::new(format!("--hours {hours} is no number of hours")));
            }
            Some(hours) => hours,
            // All of these worlds are wanted, however long they take.
            None if self.worlds > 0 => f64::MAX,
            None => HOURS,
        };
        let mut without = FaultSet::default();
        for name in &self.without {
            without = without.with(FaultKind::named(name).ok_or_else(|| unknown("fault", name))?);
        }
        let mut bugs = Bugs::default();
        for name in &self.bug {
            bugs = with_bug(bugs, Bug::named(name).ok_or_else(|| unknown("bug", name))?)?;
        }
        let promise = |name: &String| Rule::named(name).ok_or_else(|| unknown("promise", name));
        Ok(SimOptions {
            seed: self.seed,
            hours,
            worlds: self.worlds,
            scenario: self.scenario.clone(),
            bugs,
            without,
            nodes: self.nodes,
            only: self.only.as_ref().map(promise).transpose()?,
            shrink: !self.no_shrink,
            jobs: self.jobs,
        })
    }

    /// All scenarios, faults, promises and bugs, for people.
    #[must_use]
    pub fn names() -> String {
        let mut text = String::from("scenarios:\n");
        for (name, about) in crate::scenarios() {
            text.push_str(&format!("  {name:20} {about}\n"));
        }
        text.push_str("faults:\n");
        for fault in FaultKind::ALL {
            text.push_str(&format!("  {:20} {}\n", fault.name(), fault.about()));
        }
        text.push_str("promises:\n");
        for rule in Rule::ALL {
            text.push_str(&format!("  {:20} {}\n", rule.to_string(), rule.about()));
        }
        text.push_str("bugs:\n");
        for bug in Bug::ALL {
            text.push_str(&format!("  {bug:20} {}\n", bug.about()));
        }
        text
    }
}

fn unknown(kind: &str, name: &str) -> InvalidInput {
    InvalidInput::new(format!("there is no {kind} {name:?}; `tenure sim --list` names them"))
}

#[cfg(feature = "bugs")]
fn with_bug(bugs: Bugs, bug: Bug) -> Result<Bugs, InvalidInput> {
    Ok(bugs.with(bug))
}

#[cfg(not(feature = "bugs"))]
fn with_bug(_bugs: Bugs, bug: Bug) -> Result<Bugs, InvalidInput> {
    Err(InvalidInput::new(format!(
        "this build has no bugs to switch on, {bug} included; build it with --features bugs"
    )))
}

#[cfg(test)]
mod tests {
    //! Plan: each option of a line that runs a history again; how long worlds are run for; what makes no sense; the list.
    use super::*;

    fn options(line: &str) -> Result<SimOptions, String> {
        let words = ["sim"].into_iter().chain(line.split_whitespace());
        let typed = SimArgs::try_parse_from(words).map_err(|error| error.to_string())?;
        typed.options().map_err(|error| error.to_string())
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
    fn worlds_are_run_for_a_thousand_hours_unless_they_or_other_hours_were_typed() {
        for (line, hours) in [
            ("", 1000.0),
            ("--hours 3", 3.0),
            ("--worlds 400", f64::MAX),
            ("--worlds 400 --hours 3", 3.0),
            ("--worlds 0", 1000.0),
        ] {
            assert_eq!(options(line).unwrap().hours, hours, "{line}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (line, says) in [
            ("--seed", "a value is required for '--seed <SEED>'"),
            ("--seed x", "invalid value 'x' for '--seed <SEED>'"),
            ("--hours NaN", "--hours NaN is no number of hours"),
            ("--without rain", "no fault \"rain\""),
            ("--bug Moth", "no bug \"Moth\""),
            ("--only S77", "no promise \"S77\""),
            ("--tea", "unexpected argument '--tea'"),
        ] {
            let error = options(line).unwrap_err();
            assert!(error.contains(says), "{line}: {error}");
        }
    }

    #[test]
    fn the_list_names_everything() {
        let list = SimArgs::names();
        for name in ["storm", "cut-answers", "S1", "NoDriftMargin"] {
            assert!(list.contains(name), "{name}");
        }
    }
}
