//! What people type who come from flock, xargs, GNU parallel and consul: told in our words where it is not known here.

use crate::text::span;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// What GNU parallel has between a command and its arguments, or the files of these.
const SEPARATORS: [&str; 4] = [":::", "::::", ":::+", "::::+"];
const BEFORE: &str = "units stand before --, and the command after it, as in: tenure work a b -- CMD {}; a list of them in a file is --from FILE";
const QUOTES: &str = "the schedule is one word, in quotes: tenure cron '*/5 * * * *' KEY -- CMD";
const HYPHEN: &str =
    "a unit that begins with a hyphen comes by a list: printf '%s\\n' -x | tenure work -- CMD {}";
const BEHIND: &str = "the command and its arguments stand after --, as in: -- ./backup.sh";

/// What is wanted by this verb.
fn of_verb(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "flock" | "lock" | "sem" | "setlock" | "semaphore" => {
            "a command runs under a lease by: tenure run KEY -- CMD"
        }
        "xargs" | "parallel" => "a command runs for each of many units by: tenure work -- CMD {}",
        "locks" | "who" | "ps" => "tenure ls tells what is held and by whom",
        "watch" | "top" => {
            "the dashboard of tenure serve shows all leases live, tenure leader KEY --follow who comes and goes; fleets and jobs have a top: \
             tenure fleet top FLEET, tenure work top JOB"
        }
        "stop" | "kill" | "cancel" => "tenure revoke KEY has its holder stop and give it up",
        "status" => "tenure ls tells what is held, tenure work status JOB how a job is",
        "unlock" => "a lease is given back when its command ends; tenure release KEY takes it by force",
        "jobs" => "tenure work ls lists jobs",
        "version" => "tenure --version",
        _ => return None,
    })
}

/// What is wanted by this verb, typed after `fleet`.
fn of_verb_of_fleets(verb: &str) -> Option<&'static str> {
    Some(match verb {
        "status" | "show" | "info" => {
            "tenure fleet units FLEET tells who has which, tenure fleet workers FLEET who works, tenure fleet top FLEET both, live"
        }
        _ => return None,
    })
}

/// What is wanted by this option, typed after `verb`.
fn of_option(verb: &str, option: &str) -> Option<&'static str> {
    let name = option.split('=').next().unwrap_or_default();
    Some(match (verb, name) {
        ("run" | "elect" | "range", "-c" | "--command" | "--shell") => {
            "for a shell's line, write: -- sh -c 'LINE'"
        }
        ("run" | "range", "-n" | "--nonblock" | "--nb") => "--try does not wait",
        ("run" | "range", "-w" | "-t" | "--timeout") => {
            "--wait TIME is how long to wait, --max TIME how long to run"
        }
        ("run", "-x") => "a lease is one holder's, unless --shared or --permits N",
        ("run", "-u" | "--unlock") => "a lease is given back when its command ends",
        ("run", "-o" | "--close" | "-F" | "--no-fork") => {
            "tenure stays while the command runs, to stop it in time; leave this out"
        }
        ("run", "--verbose" | "-v") => "who waits is told by whom it is held, always; leave this out",
        ("work", "-j" | "--jobs" | "-P" | "--max-procs") => "-p N, --parallel N is how many run at a time",
        ("work", "-I" | "-i" | "--replace") => "{} stands for the unit, and nothing else does",
        ("work", "-a" | "--arg-file") => "--from FILE is the list",
        ("work", "-d" | "--delimiter") => "a unit is a line, or with -0 ends with a NUL",
        ("work", "-r" | "--no-run-if-empty") => "nothing is run where there is no unit; leave this out",
        ("work", "-t" | "--verbose") => "-v tells when each begins and ends",
        ("work", "-S" | "--sshlogin" | "--slf") => {
            "start the same command on each host, on one store that they share"
        }
        ("work", "--dry-run") => "-- echo CMD shows what would be run",
        ("work", "--bar" | "--eta") => {
            "progress is shown on a terminal; see --progress, and tenure work top JOB"
        }
        ("work", "--resume" | "--resume-failed") => {
            "what is done is not run again; tenure work retry JOB tries what has failed"
        }
        ("work", "--pipe" | "--block") => "units are names, not data",
        ("work", "-X" | "-m" | "--xargs" | "-x" | "-l" | "--max-lines" | "-N" | "--max-replace-args") => {
            "-n N puts up to N units into one command"
        }
        ("work", "-E" | "-e" | "--eof") => "each line is a unit, to the end of the list; leave this out",
        ("work", "--line-buffer" | "--lb") => {
            "a piece comes when its command ends; --ungroup lets all through as it comes"
        }
        ("work", "--tagstring") => "--tag puts the unit before each line",
        ("work", "--colsep" | "-C" | "--csv") => {
            "a unit is one name; a shell takes it apart: -- sh -c '...' sh {}"
        }
        ("work", "--memfree" | "--noswap" | "--limit") => {
            "--load N starts nothing more above that load average"
        }
        ("work", "--nice") => "write: -- nice CMD {}",
        ("work", "--shuf") => "shuf before it: shuf FILE | tenure work -- CMD {}",
        ("work", "--wd" | "--workdir") => {
            "commands run where tenure was started; write: -- env -C DIR CMD {}"
        }
        _ => return None,
    })
}

/// The error with what is to be typed instead, for what `words` say besides.
pub(crate) fn told(error: clap::Error, words: &[String]) -> clap::Error {
    let context = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let tip = match error.kind() {
        ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument
            if words.iter().any(|word| word == "work") && has_separator(words) =>
        {
            Some(BEFORE)
        }
        ErrorKind::MissingRequiredArgument if context(ContextKind::InvalidArg).contains("CMD") => {
            Some(BEHIND)
        }
        ErrorKind::InvalidSubcommand => {
            let verb = context(ContextKind::InvalidSubcommand);
            let is_of_fleets = words.windows(2).any(|pair| pair == ["fleet", verb.as_str()]);
            if is_of_fleets { of_verb_of_fleets(&verb) } else { of_verb(&verb) }
        }
        ErrorKind::UnknownArgument => {
            let option = context(ContextKind::InvalidArg);
            // A shell has made file names of its stars, or has taken it apart.
            if !option.starts_with('-') {
                let verb = words.iter().map(String::as_str).find(|word| ["cron", "wait"].contains(word));
                return match verb {
                    Some("cron") => with(error, QUOTES),
                    Some(_) if span(&option).is_ok() || option.parse::<f64>().is_ok() => {
                        with(error, "--timeout TIME is how long to wait")
                    }
                    Some(_) => with(error, "wait has one KEY; it is started once for each of several ones"),
                    None => error,
                };
            }
            if is_in_units(words) {
                return with(error, HYPHEN);
            }
            let of_option =
                words.iter().take_while(|word| *word != "--").find_map(|verb| of_option(verb, &option));
            let is_like_none = error.get(ContextKind::SuggestedArg).is_none();
            let tip = of_option.or_else(|| (is_like_none && is_of_a_command(words)).then_some(BEHIND));
            if tip.is_none() && runs_a_command(words) {
                return without_value(error);
            }
            tip
        }
        _ => None,
    };
    match tip {
        Some(tip) => with(error, tip),
        None => error,
    }
}

/// Whether the last option that is known there is that of units, so that what looks like another one may be a unit.
fn is_in_units(words: &[String]) -> bool {
    let typed = words.iter().take_while(|word| *word != "--");
    let options = typed.filter(|word| word.starts_with("--"));
    words.iter().any(|word| word == "work") && options.last().is_some_and(|last| last == "--units")
}

/// Verbs that have one command.
const OF_COMMANDS: [&str; 4] = ["run", "elect", "cron", "range"];

/// Whether an option may be one of a command, before which `--` was forgotten.
fn is_of_a_command(words: &[String]) -> bool {
    !words.iter().any(|word| word == "--") && words.iter().any(|word| OF_COMMANDS.contains(&word.as_str()))
}

/// Whether a verb has a command behind `--`.
fn runs_a_command(words: &[String]) -> bool {
    words.iter().any(|word| word == "work" || OF_COMMANDS.contains(&word.as_str()))
}

/// Without the tip to put `--` before what looks like an option, as a value: behind `--` it would be the command.
fn without_value(mut error: clap::Error) -> clap::Error {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("use '-- "));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
    error
}

fn with(mut error: clap::Error, tip: &'static str) -> clap::Error {
    error.remove(ContextKind::SuggestedSubcommand);
    error.remove(ContextKind::SuggestedArg);
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    error
}

fn has_separator(words: &[String]) -> bool {
    words.iter().any(|word| SEPARATORS.contains(&word.as_str()))
}

fn separator_among(words: &[OsString]) -> Option<&str> {
    words.iter().filter_map(|word| word.to_str()).find(|word| SEPARATORS.contains(word))
}

/// What is wrong with units among which GNU parallel's word for them stands.
pub(crate) fn separator_as_unit(units: &[OsString]) -> Option<String> {
    let separator = separator_among(units)?;
    Some(format!("{separator} would be a unit here: {BEFORE}, and may have a unit of that name"))
}

/// What is wrong with a command of `work` that has its units behind it, as GNU parallel has them.
pub(crate) fn units_behind(command: &[OsString]) -> Option<String> {
    let separator = separator_among(command)?;
    Some(format!(
        "{separator} is a word of CMD here: {BEFORE}; and --from - has CMD as it stands, for units on standard input"
    ))
}

#[cfg(test)]
mod tests {
    //! Plan: no tip is of what is known here; what a tip names is known.
    use super::*;

    #[test]
    fn what_is_refused_is_told_by_what_was_typed() {
        let told = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let error = crate::args::command().try_get_matches_from(&words).unwrap_err();
            told(error, &words).to_string()
        };
        let text = told("tenure work --units -x -- echo");
        assert!(text.contains("begins with a hyphen") && !text.contains("N units"), "{text}");
        let text = told("tenure work --forever --name n --halt now,fail=1 a -- echo");
        assert!(text.contains("--halt <WHEN>") && !text.contains("--joblog"), "{text}");
        let text = told("tenure work --forever --name n -k --halt now,fail=1 a -- echo");
        assert!(
            text.contains("--keep-order") && text.contains("--halt") && !text.contains("--tag"),
            "{text}"
        );
        let text = told("tenure work -N 2 a -- echo");
        assert!(text.contains("-n N puts up to N units") && !text.contains("as a value"), "{text}");
        for line in ["tenure work --retries -1 a -- true", "tenure run --permits -1 k -- true"] {
            let text = told(line);
            assert!(text.contains("'-1'") && !text.contains("as a value"), "it would be CMD: {text}");
        }
        assert!(told("tenure ls -1").contains("as a value"), "it may be a name");
        let text = told("tenure fleet status shards");
        let says = ["tenure fleet units FLEET", "tenure fleet workers FLEET", "tenure fleet top FLEET"];
        assert!(says.iter().all(|says| text.contains(says)) && !text.contains("tenure ls"), "{text}");
        let text = told("tenure work -E end -- echo");
        assert!(text.contains("each line is a unit") && !text.contains("as a value"), "{text}");
    }

    #[test]
    fn tips_are_of_what_is_not_known_here() {
        let command = crate::args::command();
        for verb in [
            "flock", "lock", "sem", "xargs", "parallel", "status", "unlock", "jobs", "version", "locks",
            "who", "ps", "stop", "kill", "cancel", "watch", "top",
        ] {
            let tip = of_verb(verb).unwrap();
            assert!(command.find_subcommand(verb).is_none() && tip.contains("tenure "), "{verb}");
        }
        let of_fleets = command.find_subcommand("fleet").unwrap();
        for verb in ["status", "show", "info"] {
            let is_known = of_fleets.find_subcommand(verb).is_some();
            assert!(!is_known && of_verb_of_fleets(verb).is_some(), "{verb}");
        }
        for (verb, options) in [
            (
                "run",
                &["-c", "-n", "--nonblock", "-w", "-t", "--timeout", "-x", "-u", "-o", "-F", "--verbose"][..],
            ),
            (
                "work",
                &[
                    "-j",
                    "--jobs",
                    "-P",
                    "-I",
                    "-a",
                    "-d",
                    "-r",
                    "-t",
                    "-S",
                    "--dry-run",
                    "--bar",
                    "--eta",
                    "--resume",
                    "-X",
                    "-m",
                    "--xargs",
                    "-N",
                    "-E",
                    "-l",
                    "--line-buffer",
                    "--tagstring",
                    "--colsep",
                    "--memfree",
                    "--nice",
                    "--shuf",
                    "--wd",
                ],
            ),
        ] {
            let known = command.find_subcommand(verb).unwrap();
            for option in options {
                let name = option.trim_start_matches('-');
                let is_known = known.get_arguments().any(|argument| {
                    argument.get_long() == Some(name)
                        || argument.get_short().map(String::from).as_deref() == Some(name)
                });
                assert!(!is_known && of_option(verb, option).is_some(), "{verb} {option}");
            }
        }
    }
}
