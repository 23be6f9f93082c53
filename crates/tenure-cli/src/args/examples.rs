//! Examples, for each verb's help and manual page. Each is run by `tests/examples.rs`.

use super::{Args, Verb};
use clap::{Command, CommandFactory};

/// What is shown of each verb, by its path.
const ALL: &[(&[&str], &str)] = &[
    (
        &["run"],
        "tenure run nightly -- ./backup.sh
tenure run --try -E 0 nightly -- ./backup.sh
tenure run --wait 30s --max 1h --note 'before the move' nightly -- ./backup.sh
tenure run --permits 4 builds -- ./build.sh
tenure run --shared index -- ./search.sh
tenure run from to -- ./transfer.sh
tenure run --on-acquire ./mount.sh --on-lost ./alarm.sh volume -- ./serve.sh",
    ),
    (
        &["elect"],
        "tenure elect primary -- ./serve.sh\ntenure elect --on-change 'echo $TENURE_ROLE' primary -- ./serve.sh
tenure elect --check ./test.sh --check-every 5s primary -- ./serve.sh",
    ),
    (
        &["cron"],
        "tenure cron '*/5 * * * *' mail -- ./send.sh
tenure cron --missed run --at-least-once @daily report -- ./report.sh
tenure cron --ticks 1 '* * * * * *' soon -- ./send.sh",
    ),
    (&["hold"], "sleep 1 | tenure hold nightly --json"),
    (
        &["serve"],
        "tenure serve --listen unix:agent/agent.sock\ntenure serve --ttl 30s --read-token-file token --listen unix:agent/agent.sock",
    ),
    (&["ready"], "tenure ready unix:agent/agent.sock || echo 'not yet'"),
    (&["leader"], "tenure leader primary || echo nobody\ntenure leader --follow primary"),
    (
        &["work"],
        "ls *.gz | tenure work -- gunzip -t {}
tenure work --name night --from units.txt --timeout 10m -- ./convert.sh {} {.}.png
tenure work --keep-order --tag a b c -- ./report.sh
tenure work --parallel 8 --joblog log --results out --halt now,fail=1 a b c -- ./test.sh
tenure work --forever --name shards --units s0 s1 -- ./consume.sh {}",
    ),
    (&["work", "ls"], "tenure work ls\ntenure work ls --json"),
    (&["work", "status"], "tenure work status night"),
    (&["work", "top"], "tenure work top --interval 5s night"),
    (&["work", "retry"], "tenure work retry night || echo 'no unit of it has failed'"),
    (&["work", "rm"], "tenure work rm --yes night"),
    (&["range"], "tenure range mail 0..ffff -- ./send.sh\ntenure range --for 1m mail 00..80 -- cat"),
    (&["fleet"], "tenure fleet add shards s0 s1\ntenure fleet units shards\ntenure fleet top --once shards"),
    (&["fleet", "ls"], "tenure fleet ls"),
    (&["fleet", "units"], "tenure fleet units shards\ntenure fleet units --json shards"),
    (&["fleet", "workers"], "tenure fleet workers shards"),
    (
        &["fleet", "add"],
        "tenure fleet add shards s0 s1 s2\ntenure fleet add --weight 5 --needs gpu shards s3",
    ),
    (
        &["fleet", "rm"],
        "tenure fleet rm --yes shards s1
tenure fleet rm --all --dry-run shards
tenure fleet rm --all --yes old || echo 'there is no such fleet'",
    ),
    (&["fleet", "move"], "tenure fleet move --anywhere shards s0"),
    (&["fleet", "drain"], "tenure fleet drain --yes shards host-a"),
    (&["fleet", "top"], "tenure fleet top shards\ntenure fleet top --once shards"),
    (
        &["fleet", "adopt"],
        "tenure fleet adopt shards --store dynamodb://new --from 'dynamodb://old?dialect=kcl'",
    ),
    (&["ls"], "tenure ls\ntenure ls --all night\ntenure ls --json"),
    (&["show"], "tenure show nightly\ntenure show --json nightly"),
    (&["wait"], "tenure wait nightly\ntenure wait --timeout 10m nightly && ./after.sh"),
    (&["rm"], "tenure rm --damaged nightly"),
    (&["release"], "tenure release --yes nightly || echo 'nobody holds it'"),
    (&["revoke"], "tenure revoke --yes nightly || echo 'nobody holds it'"),
    (&["reclaim"], "tenure reclaim --yes mail"),
    (&["gc"], "tenure gc --dry-run\ntenure gc --older-than 7d --yes"),
    (&["doctor"], "tenure doctor\ntenure doctor --read-only --json"),
    (&["config"], "tenure config"),
    (&["bench"], "tenure bench --seconds 0.5 sqlite:/tmp/bench.db"),
    (&["sim"], "tenure sim --hours 10\ntenure sim --list"),
    (&["completions"], "tenure completions bash > tenure.bash"),
    (&["man"], "tenure man fleet top\ntenure man --install ./man"),
];

/// The command line, with examples in its help.
pub(crate) fn command() -> Command {
    ALL.iter().fold(Args::<Verb>::command(), |command, (path, text)| with(command, path, text))
}

fn with(command: Command, path: &[&str], text: &str) -> Command {
    let Some((first, rest)) = path.split_first() else {
        let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
        return command.after_help(format!("Examples:\n{}", lines.join("\n")));
    };
    if command.find_subcommand(first).is_none() {
        // Of a store that is not in this build.
        return command;
    }
    command.mut_subcommand(*first, |verb| with(verb, rest, text))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// The text of each source file.
    fn sources(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let texts = entries.map(|path| match path.extension() {
            None => sources(&path),
            Some(_) => vec![std::fs::read_to_string(&path).unwrap()],
        });
        texts.flatten().collect()
    }

    /// A remedy that names a verb is none once that verb has another name.
    #[test]
    fn messages_and_help_name_verbs_that_exist() {
        let command = super::command();
        // Of a store that is not in this build, a verb stands in the list alone.
        let is_whole = cfg!(all(feature = "serve", feature = "dynamodb"));
        let is_listed = |path: &[&str]| !is_whole && super::ALL.iter().any(|(listed, _)| *listed == path);
        let is_word = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase());
        let mut count = 0;
        for text in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
            let named = text.split("`tenure ").skip(1).filter_map(|rest| rest.split('`').next());
            for named in named {
                let mut words = named.split_whitespace();
                let Some(verb) = words.next().filter(is_word) else { continue };
                count += 1;
                let known = command.find_subcommand(verb);
                assert!(known.is_some() || is_listed(&[verb]), "there is no `tenure {named}`");
                let below = words.next().filter(is_word);
                if let (Some(known), Some(below)) = (known.filter(|known| known.has_subcommands()), below) {
                    let is_known = known.find_subcommand(below).is_some() || is_listed(&[verb, below]);
                    assert!(is_known, "there is no `tenure {named}`");
                }
            }
        }
        assert!(count > 50, "{count}");
    }

    #[test]
    fn options_refer_to_options_and_groups_that_exist() {
        super::command().debug_assert();
    }

    #[test]
    fn no_example_is_broken_into_two_lines() {
        for (path, text) in super::ALL {
            assert!(text.lines().all(|line| line.len() <= 96), "{path:?}");
        }
    }

    #[test]
    fn each_verb_s_help_has_examples() {
        fn look(command: &clap::Command, path: &str) {
            for verb in command.get_subcommands() {
                let path = format!("{path} {}", verb.get_name());
                let examples = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
                let verbs: Vec<&str> = path.split(' ').collect();
                assert!(verbs.iter().all(|word| examples.contains(word)), "{path}: {examples}");
                look(verb, &path);
            }
        }
        look(&super::command(), "tenure");
    }
}
