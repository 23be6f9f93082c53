//! What is typed: the command line as clap sees it. What it means is worked out once, in `config`.

mod checks;
pub(crate) mod cron;
mod elect;
mod examples;
pub(crate) mod fleet;
pub(crate) mod habits;
pub(crate) mod hold;
pub(crate) mod jobs;
mod pages;
mod range;
mod records;
mod run;
#[cfg(feature = "serve")]
pub(crate) mod serve;
pub(crate) mod telemetry;
mod work;

use crate::exit;
use crate::stores;
use clap::{Parser, Subcommand};
use tenure_sim::SimArgs;

pub(crate) use checks::{BenchArgs, ConfigArgs, DoctorArgs};
pub(crate) use elect::{ElectArgs, LeaderArgs};
pub(crate) use examples::command;
pub(crate) use pages::{CompletionsArgs, ManArgs};
pub(crate) use range::RangeArgs;
pub(crate) use records::{GcArgs, LsArgs, ReclaimArgs, ReleaseArgs, RevokeArgs, RmArgs, ShowArgs, WaitArgs};
pub(crate) use run::{AboutArgs, AwayArgs, HookArgs, RunArgs, VerbosityArgs};
pub(crate) use work::WorkArgs;

/// Where help and manual pages list the options that each verb has, below those of its own: clap sorts both into one list otherwise.
const OF_ALL_VERBS: &str = "Options of all verbs";

/// Leases on a store you already have: run a command under a lock, share units of work between machines.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, long_version = stores::VERSION.as_str(), after_help = exit::HELP, max_term_width = 100)]
pub(crate) struct Args<V: Subcommand = Verb> {
    /// Where the leases are kept: sqlite:PATH, memory:, the URL of a server such as postgres://USER@HOST/DATABASE (--version lists the
    /// kinds), or a name from a configuration file [default: see `tenure config`]
    #[arg(long, short, global = true, help_heading = OF_ALL_VERBS, env = "TENURE_STORE", hide_env_values = true, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// A part of the store that is one by itself: leases.NAME.db beside leases.db; on PostgreSQL a schema, on etcd a prefix below that of
    /// the URL, elsewhere the URL's &namespace=
    #[arg(long, global = true, help_heading = OF_ALL_VERBS, env = "TENURE_NAMESPACE", hide_env_values = true, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) telemetry: telemetry::TelemetryArgs,
    #[command(subcommand)]
    pub(crate) verb: V,
}

/// `run` alone, which scripts start again and again: its line is parsed in an eighth of the instructions that all verbs take.
#[derive(Debug, Subcommand)]
pub(crate) enum RunVerb {
    Run(RunArgs),
}

impl From<Args<RunVerb>> for Args {
    fn from(typed: Args<RunVerb>) -> Args {
        let Args { store, namespace, telemetry, verb: RunVerb::Run(run) } = typed;
        Args { store, namespace, telemetry, verb: Verb::Run(run) }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Run(RunArgs),
    Elect(ElectArgs),
    Cron(cron::CronArgs),
    Hold(hold::HoldArgs),
    #[cfg(feature = "serve")]
    Serve(serve::ServeArgs),
    #[cfg(feature = "serve")]
    Ready(serve::ReadyArgs),
    Leader(LeaderArgs),
    Work(WorkArgs),
    Range(RangeArgs),
    Fleet(fleet::FleetArgs),
    Ls(LsArgs),
    Show(ShowArgs),
    Wait(WaitArgs),
    Rm(RmArgs),
    Release(ReleaseArgs),
    Revoke(RevokeArgs),
    Reclaim(ReclaimArgs),
    Gc(GcArgs),
    Doctor(DoctorArgs),
    Config(ConfigArgs),
    Bench(BenchArgs),
    Sim(SimArgs),
    Completions(CompletionsArgs),
    Man(ManArgs),
}

impl Verb {
    /// The store that is named as the verb's own argument.
    pub(crate) fn url(&self) -> Option<&str> {
        match self {
            Verb::Doctor(typed) => typed.url.as_deref(),
            Verb::Bench(typed) => typed.url.as_deref(),
            _ => None,
        }
    }

    /// Whether only what goes wrong is to be told. `work` sees to that itself.
    pub(crate) fn is_quiet(&self) -> bool {
        let voice = match self {
            Verb::Run(typed) => &typed.voice,
            Verb::Elect(typed) => &typed.voice,
            Verb::Cron(typed) => &typed.voice,
            Verb::Hold(typed) => &typed.voice,
            Verb::Range(typed) => &typed.voice,
            Verb::Wait(typed) => &typed.voice,
            #[cfg(feature = "serve")]
            Verb::Serve(_) | Verb::Ready(_) => return false,
            Verb::Leader(_)
            | Verb::Work(_)
            | Verb::Fleet(_)
            | Verb::Ls(_)
            | Verb::Show(_)
            | Verb::Rm(_)
            | Verb::Release(_)
            | Verb::Revoke(_)
            | Verb::Reclaim(_)
            | Verb::Gc(_)
            | Verb::Doctor(_)
            | Verb::Config(_)
            | Verb::Bench(_)
            | Verb::Sim(_)
            | Verb::Completions(_)
            | Verb::Man(_) => return false,
        };
        voice.quiet
    }

    /// Whether it works until it is stopped, or as long as a command does.
    #[cfg(feature = "serve")]
    pub(crate) fn stays(&self) -> bool {
        match self {
            Verb::Run(_)
            | Verb::Elect(_)
            | Verb::Cron(_)
            | Verb::Hold(_)
            | Verb::Range(_)
            | Verb::Serve(_) => true,
            Verb::Work(typed) => typed.jobs.is_none(),
            Verb::Ready(_)
            | Verb::Leader(_)
            | Verb::Fleet(_)
            | Verb::Ls(_)
            | Verb::Show(_)
            | Verb::Wait(_)
            | Verb::Rm(_)
            | Verb::Release(_)
            | Verb::Revoke(_)
            | Verb::Reclaim(_)
            | Verb::Gc(_)
            | Verb::Doctor(_)
            | Verb::Config(_)
            | Verb::Bench(_)
            | Verb::Sim(_)
            | Verb::Completions(_)
            | Verb::Man(_) => false,
        }
    }

    /// Whether it is there to exclude other processes, which needs a store that they share.
    pub(crate) fn excludes_others(&self) -> bool {
        match self {
            Verb::Run(_) | Verb::Elect(_) | Verb::Cron(_) | Verb::Hold(_) | Verb::Range(_) => true,
            Verb::Work(typed) => typed.jobs.is_none() && typed.name.is_some(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verbs_own_options_stand_before_those_of_all_verbs() {
        fn look(command: &mut clap::Command, seen: &mut Vec<String>) {
            let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
            for help in [command.render_help(), command.render_long_help()] {
                let help = help.to_string();
                let (own, rest) = help.split_once(&format!("\n{OF_ALL_VERBS}:\n")).unwrap_or((&help, ""));
                for word in ["--store", "--namespace", "--log", "--log-format"] {
                    let is_listed = |part: &str| {
                        part.lines().any(|line| {
                            line.trim_start().starts_with('-') && line.split([' ', ',']).any(|it| it == word)
                        })
                    };
                    assert!(!is_listed(own) && is_listed(rest), "{name}: {word}: {help}");
                }
                // What is listed there is of each verb.
                let listed = rest.split("\n\nE").next().unwrap_or(rest).lines();
                let listed = listed.filter(|line| line.trim_start().starts_with('-')).count();
                assert_eq!(listed, if cfg!(feature = "serve") { 5 } else { 4 }, "{name}: {rest}");
            }
            seen.push(name);
            for verb in command.get_subcommands_mut().filter(|verb| verb.get_name() != "help") {
                look(verb, seen);
            }
        }
        let mut all = command();
        all.build();
        let mut seen = Vec::new();
        look(&mut all, &mut seen);
        assert!(seen.len() > 30, "{seen:?}");
    }

    /// Lines that are broken by hand, and wider than a terminal, are broken once more there.
    #[test]
    fn exit_codes_stand_in_help_as_they_are_on_a_terminal_of_80_columns() {
        let help = command().term_width(80).render_help().to_string();
        assert!(help.contains(exit::HELP), "{help}");
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{wide:?}");
    }

    #[test]
    fn a_run_alone_is_understood_as_it_is_among_all_verbs() {
        let read = |line: &str| {
            let words: Vec<&str> = std::iter::once("tenure").chain(line.split(' ')).collect();
            let alone = Args::<RunVerb>::try_parse_from(&words).map(Args::from);
            let among_all = Args::<Verb>::try_parse_from(&words);
            [alone, among_all].map(|typed| typed.ok().map(|typed| format!("{typed:?}")))
        };
        for line in [
            "run k -- true",
            "-s memory: run --try -E 0 k l -- sh -c x --store y",
            "run --namespace n --permits 4 --take 2 --ttl 5s k --log info -- run run",
            "run --wait 30s --max 1h --note run -q run -- run",
            "run help -- true",
        ] {
            let [alone, among_all] = read(line);
            assert!(alone.is_some() && alone == among_all, "{line}: {alone:?}, {among_all:?}");
        }
        for line in [
            "run --help",
            "run",
            "work run -- run",
            "ls run",
            "help run",
            "run --no k -- true",
            "--try run k -- true",
        ] {
            assert_eq!(read(line)[0], None, "{line}");
        }
    }
}
