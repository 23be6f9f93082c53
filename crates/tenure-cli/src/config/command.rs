//! Commands as they were typed, and as they are for a unit.

use crate::exit::Failure;
use crate::work::template::Filling;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a program was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundProgram {
    pub(crate) path: PathBuf,
    /// It is text without `#!`, which the system does not execute. A shell reads it, as execvp(3) has it for those who use that.
    pub(crate) is_bare_script: bool,
}

/// A command with its arguments, in which `{}` stands for a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    /// Where the program is, if it was looked for. Each entry of the PATH that lacks it costs each start a call.
    found: Option<FoundProgram>,
    /// Units are several ones, with newlines between.
    is_batched: bool,
}

impl Template {
    pub(crate) fn new(command: Vec<OsString>) -> Result<Template, Failure> {
        let mut words = command.into_iter();
        match words.next() {
            Some(program) if !program.is_empty() => {
                let arguments = words.collect();
                Ok(Template { program, arguments, found: None, is_batched: false })
            }
            Some(_) => Err(Failure::usage("the name of the command is empty")),
            None => Err(Failure::usage("no command is given; write it after --")),
        }
    }

    /// The same, of a program that was found there.
    pub(crate) fn at(self, found: FoundProgram) -> Template {
        Template { found: Some(found), ..self }
    }

    /// The same where each start looks for the program, which may be another by then. A script that a shell reads stays where it was found.
    pub(crate) fn looked_for(self, found: FoundProgram) -> Template {
        if found.is_bare_script { self.at(found) } else { self }
    }

    /// The same, for units that are several ones each.
    pub(super) fn batched(self, is_batched: bool) -> Template {
        Template { is_batched, ..self }
    }

    /// The command as it stands.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.of_program();
        command.args(&self.arguments);
        command
    }

    fn of_program(&self) -> Command {
        let mut command = match &self.found {
            Some(FoundProgram { path, is_bare_script: true }) => {
                let mut shell = Command::new("/bin/sh");
                shell.arg(path);
                shell
            }
            found => {
                let path = found.as_ref().map_or(Path::new(&self.program), |found| &found.path);
                let mut program = Command::new(path);
                program.arg0(&self.program);
                program
            }
        };
        // The address is taken, by us.
        command.env_remove("TENURE_METRICS");
        command
    }

    /// The command for `unit`, without input.
    pub(crate) fn for_unit(&self, unit: &str) -> Command {
        self.filled(&Filling { unit: unit.as_bytes(), number: None, slot: None })
    }

    /// The same, for a unit whose number is known.
    pub(crate) fn filled(&self, filling: &Filling<'_>) -> Command {
        let mut command = self.of_program();
        if let Some(slot) = filling.slot {
            command.env("TENURE_SLOT", slot.to_string());
        }
        let unit = OsStr::from_bytes(filling.unit);
        command.args(self.words(filling)).stdin(Stdio::null()).env("TENURE_UNIT", unit);
        command
    }

    /// The command for a unit, in one line, byte for byte.
    pub(crate) fn in_one_line(&self, filling: &Filling<'_>) -> Vec<u8> {
        let words = self.words(filling);
        let words = std::iter::once(&self.program).chain(&words).map(|word| word.as_bytes());
        words.collect::<Vec<_>>().join(&b' ')
    }

    /// Whether a unit's number stands in it.
    pub(crate) fn is_numbered(&self) -> bool {
        self.has("{#}")
    }

    /// What of it stands for a number of a unit or a slot, if anything does.
    pub(crate) fn numbers(&self) -> Option<&'static str> {
        ["{#}", "{%}"].into_iter().find(|token| self.has(token))
    }

    fn has(&self, token: &str) -> bool {
        let in_it =
            |argument: &OsString| argument.as_bytes().windows(token.len()).any(|at| at == token.as_bytes());
        self.arguments.iter().any(in_it)
    }

    /// The arguments: the unit put in wherever a token stands, or appended if none stands anywhere. Of several units in one, each
    /// becomes an argument where a token is all of one, and all of them stand in it with blanks between otherwise.
    pub(crate) fn words(&self, filling: &Filling<'_>) -> Vec<OsString> {
        let each: Vec<Filling<'_>> = if self.is_batched {
            filling.unit.split(|byte| *byte == b'\n').map(|unit| Filling { unit, ..*filling }).collect()
        } else {
            vec![*filling]
        };
        let (mut found, mut filled) = (false, Vec::new());
        for argument in &self.arguments {
            let word = argument.as_bytes();
            match filling.fill(word) {
                None => filled.push(argument.clone()),
                Some(_) if Filling::is_token(word) => {
                    found = true;
                    filled.extend(each.iter().filter_map(|one| one.fill(word)).map(OsString::from_vec));
                }
                Some(_) => {
                    found = true;
                    filled.extend(Filling::fill_all(&each, word).map(OsString::from_vec));
                }
            }
        }
        if !found {
            filled.extend(each.iter().map(|one| OsStr::from_bytes(one.unit).to_owned()));
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(words: &[&str], unit: &str) -> Vec<String> {
        let template = Template::new(words.iter().map(Into::into).collect()).unwrap();
        let filling = Filling { unit: unit.as_bytes(), number: None, slot: None };
        template.words(&filling).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn several_units_are_several_arguments_or_stand_in_one_with_blanks_between() {
        let words = ["cp", "{}", "a\n{/}.{#}", "{//}"].iter().map(Into::into).collect();
        let template = Template::new(words).unwrap().batched(true);
        let filled = template.words(&Filling { unit: b"d/x\ny", number: Some(3), slot: None });
        assert_eq!(filled, ["d/x", "y", "a\nx y.3", "d", "."]);
        let bare = Template::new(vec!["wc".into(), "-l".into()]).unwrap().batched(true);
        assert_eq!(bare.words(&Filling { unit: b"a\nb", number: None, slot: None }), ["-l", "a", "b"]);
    }

    #[test]
    fn a_unit_goes_where_the_braces_are_or_to_the_end() {
        assert_eq!(fill(&["wc", "-w"], "a b"), ["-w", "a b"]);
        assert_eq!(fill(&["cp", "{}", "out/{}.{}"], "x"), ["x", "out/x.x"]);
        assert_eq!(
            fill(&["echo", "{", "}"], "{}"),
            ["{", "}", "{}"],
            "what is put in is not looked at again"
        );
        assert_eq!(fill(&["echo", "{}"], "{}"), ["{}"]);
    }
}
