//! What bash and zsh complete by `tenure completions`.
//!
//! Plan: verbs, those below `work`, and what stands behind `--`: a command of the user's. zsh is asked as by a terminal.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran};
use std::process::Command;

/// What bash makes of a line whose last word is to be completed.
const IN_BASH: &str = r#"
    source ./script
    complete() {
        COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()
        _tenure tenure "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo ${COMPREPLY[*]}
    }
    eval "complete tenure $LINE"
"#;

/// Types a line and a tab into zsh, and waits for what that is to add. An empty directory, so that no file comes between.
const IN_ZSH: &str = r#"
    zmodload zsh/zpty
    zpty typed TERM=dumb zsh -f -i
    zpty -w typed "PS1='> '; autoload -Uz compinit; compinit -D -u; source ./script; compdef _tenure tenure; mkdir e; cd e; echo is''ready"
    zpty -r typed told '*isready*' || exit 1
    zpty -w -n typed "tenure $LINE"$'\t'
    zpty -r typed told "*$ADDS*" && echo added
"#;

fn asked(bench: &Bench, shell: &str, script: &str, line: &str, adds: &str) -> Ran {
    bench.write("script", bench.run(&["completions", shell]).out);
    let mut command = Command::new("timeout");
    let arguments = if shell == "zsh" { ["-f", "-c"] } else { ["--norc", "-c"] };
    bench
        .settle(command.arg("30").arg(shell).args(arguments).arg(script).env("LINE", line).env("ADDS", adds));
    Ran::of(command.output().unwrap())
}

#[test]
fn bash_knows_verbs_and_a_users_command_behind_the_dashes() {
    let bench = Bench::new();
    for (line, expected) in [
        ("wor", "work"),
        ("work sta", "status"),
        ("work --progr", "--progress"),
        ("man wor", "work"),
        ("run k -- bas", "bash"),
        ("run k -- ls --per", ""),
    ] {
        let ran = asked(&bench, "bash", IN_BASH, line, "");
        let words: Vec<&str> = ran.out.split_whitespace().collect();
        assert!(words.contains(&expected) || words.is_empty() && expected.is_empty(), "{line}: {ran:?}");
    }
    let ran = asked(&bench, "bash", IN_BASH, "run k -- l", "");
    assert!(!ran.out.split_whitespace().any(|word| word == "leader"), "tenure's verbs: {ran:?}");
}

#[test]
fn zsh_knows_verbs_and_a_users_command_behind_the_dashes() {
    for (line, adds) in [
        ("fleet wor", "kers"),
        ("work sta", "tus"),
        ("work ret", "ry"),
        ("work status --mo", "st"),
        ("man wor", "k"),
        ("work a -- tenure-", "of-mine"),
    ] {
        let bench = Bench::new();
        bench.write("tenure-of-mine", "#!/bin/sh\n");
        let script = format!("chmod +x tenure-of-mine; export PATH=$PWD:$PATH\n{IN_ZSH}");
        let ran = asked(&bench, "zsh", &script, line, adds);
        assert_eq!((ran.code, ran.out.as_str()), (0, "added\n"), "{line}: {ran:?}");
    }
}
