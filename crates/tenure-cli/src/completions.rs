//! Completion scripts, made of what is known of the command line.

use crate::args::{self, CompletionsArgs};
use crate::exit::{self, Failure};
use crate::output;
use clap::Command;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;

/// Behind -- stands a command of the user's: its name, and then what that takes. Where there is no bash-completion, files.
const BEHIND_IN_BASH: &str = r#"
    local n
    for (( n = 1; n < COMP_CWORD; n++ )); do
        [[ "${COMP_WORDS[n]}" == "--" ]] || continue
        if declare -F _comp_command_offset > /dev/null; then
            _comp_command_offset $((n + 1))
        elif declare -F _command_offset > /dev/null; then
            _command_offset $((n + 1))
        elif (( COMP_CWORD == n + 1 )); then
            COMPREPLY=( $(compgen -c -- "${cur}") )
        fi
        return 0
    done
"#;
const START_IN_BASH: &str = "    prev=\"$3\"\n";

/// The same in zsh.
const BEHIND_IN_ZSH: &str = r#"
    integer separator=${words[(i)--]}
    if (( separator < CURRENT )); then
        shift $separator words
        (( CURRENT -= separator ))
        _normal
        return
    fi
"#;
const START_IN_ZSH: &str = "    local context curcontext=\"$curcontext\" state line\n";

pub(crate) fn completions(typed: &CompletionsArgs) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(typed.shell, &mut described(), "tenure", &mut script);
    let script = String::from_utf8_lossy(&script);
    output::print(&match typed.shell {
        Shell::Bash => in_bash(&script),
        Shell::Zsh => in_zsh(&script),
        _ => script.into_owned(),
    })?;
    Ok(exit::OK)
}

/// The command line, where pages are named.
fn described() -> Command {
    let command = args::command();
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    command.mut_subcommand("man", |man| {
        man.mut_arg("verb", |verb| verb.value_parser(PossibleValuesParser::new(verbs)))
    })
}

fn in_bash(script: &str) -> String {
    script.replacen(START_IN_BASH, &format!("{START_IN_BASH}{BEHIND_IN_BASH}"), 1)
}

/// A verb that has units and verbs below it is completed by the place of its first word, which the library takes for that of the units.
fn in_zsh(script: &str) -> String {
    let script = script.replacen(START_IN_ZSH, &format!("{BEHIND_IN_ZSH}{START_IN_ZSH}"), 1);
    let mut lines: Vec<String> = Vec::new();
    // How many places the library counts before the verb's own.
    let mut places = 0;
    for line in script.lines() {
        let is_of_verbs = line.starts_with("\":: :_tenure__") && line.ends_with("_commands\" \\");
        if is_of_verbs {
            let own = lines.len() - lines.iter().rev().take_while(|line| is_positional(line)).count();
            places = lines.len() - own;
            lines.truncate(own);
        }
        if is_of_verbs && places > 0 {
            let verbs = line.trim_start_matches("\":: :").trim_end_matches("\" \\");
            lines.push(format!("\":: :{{{verbs}; _files}}\" \\"));
        } else if places > 0 && line.contains("$line[") {
            lines.push(line.replace(&format!("$line[{}]", places + 1), "$line[1]"));
        } else {
            lines.push(line.to_owned());
        }
        if line.trim() == "esac" {
            places = 0;
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Whether a line describes an argument by its place.
fn is_positional(line: &str) -> bool {
    ["':", "'::", "'*::"].iter().any(|start| line.starts_with(start))
}
