//! The names of jobs to which none was given: two jobs have the same only if they are the same.
//!
//! A job is what is run, where, and for which units. Their order, and how often each is given, make no difference. A file
//! is known by its path, and standard input as such. So a list that has grown goes on with the same job, and a list that is
//! not over yet has a job already.

use crate::config::{self, Template, UnitSource};
use crate::exit::Failure;
use crate::keys::JobName;
use crate::text::hex;
use crate::work::units::{Given, input_file};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Bytes of the digest in a name: so many that no two lists have the same, also if somebody tries.
const DIGEST: usize = 16;

/// Where commands are run, whatever links lead there.
pub(crate) fn directory() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        Failure::usage(format!(
            "the job can't be named by the working directory ({error}); name it by --name"
        ))
    })
}

/// What the units of a job are known by.
#[derive(Debug)]
pub(crate) enum List<'a> {
    /// Themselves.
    Units(&'a Given),
    /// The file that they are read from, so many for each command.
    File { path: PathBuf, max_args: usize },
    /// That they come on standard input, so many for each command.
    Input { max_args: usize },
}

impl List<'_> {
    /// # Errors
    /// There are none.
    pub(crate) fn of<'a>(plan: &config::Work, given: &'a Given) -> Result<List<'a>, Failure> {
        if given.is_empty() {
            return Err(Failure::usage(
                "no units are given: give some as arguments before --, on standard input or by --from FILE; or name the job to join by --name",
            ));
        }
        let is_input = plan.source == UnitSource::Input;
        let file = if is_input { input_file() } else { given.file.clone() };
        Ok(match file {
            Some(path) => List::File { path, max_args: plan.max_args },
            None if is_input => List::Input { max_args: plan.max_args },
            None => List::Units(given),
        })
    }

    /// What is given to join its job.
    pub(crate) fn joining(&self) -> &'static str {
        match self {
            List::Units(_) => "the same units",
            List::File { .. } => "units from the same file",
            List::Input { .. } => "units on standard input",
        }
    }
}

/// The same wherever the same command is given for the same list in the same directory.
pub(crate) fn name(command: &Template, directory: &Path, list: &List<'_>) -> Result<JobName, Failure> {
    let mut digest = begun(b"tenure job 1", command);
    let mut part = |bytes: &[u8]| add(&mut digest, bytes);
    part(directory.as_os_str().as_bytes());
    match list {
        List::File { path, max_args } => {
            part(b"file");
            part(path.as_os_str().as_bytes());
            // Names of earlier versions stay, which knew of no number here.
            if *max_args > 1 {
                part(&(*max_args as u64).to_be_bytes());
            }
        }
        List::Units(given) => {
            part(b"units");
            for unit in given.units() {
                part(unit);
            }
        }
        List::Input { max_args } => {
            part(b"standard input");
            part(&(*max_args as u64).to_be_bytes());
        }
    }
    let digest = digest.finalize();
    let digest = hex(&digest[..DIGEST]);
    let base = Path::new(&command.program).file_name().unwrap_or_default().to_string_lossy();
    let base: String =
        base.chars().filter(|c| c.is_ascii_alphanumeric() || "._-".contains(*c)).take(24).collect();
    // A name that begins as an option does can't be typed where a job's is wanted.
    let base = match base.trim_start_matches('-') {
        "" => "job",
        base => base,
    };
    JobName::new(OsStr::new(&format!("{base}-{digest}")))
}

/// What tells two commands apart, with how many units each is given.
pub(crate) fn command_digest(command: &Template, max_args: usize) -> String {
    let mut digest = begun(b"tenure command 1", command);
    add(&mut digest, &(max_args as u64).to_be_bytes());
    hex(&digest.finalize()[..DIGEST])
}

fn begun(what: &[u8], command: &Template) -> Sha256 {
    let mut digest = Sha256::new();
    add(&mut digest, what);
    add(&mut digest, &(command.arguments.len() as u64).to_be_bytes());
    add(&mut digest, command.program.as_bytes());
    for word in &command.arguments {
        add(&mut digest, word.as_bytes());
    }
    digest
}

/// With its length before it, no part can be taken for a piece of another.
fn add(digest: &mut Sha256, part: &[u8]) {
    digest.update((part.len() as u64).to_be_bytes());
    digest.update(part);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::UnitSource;
    use crate::work::units;

    fn given(units: &[&str]) -> Given {
        units::read(&UnitSource::Arguments(units.iter().map(Into::into).collect()), b'\n').unwrap()
    }

    fn named(words: &[&str], directory: &str, given: &Given) -> String {
        named_by(words, directory, &List::Units(given))
    }

    fn named_by(words: &[&str], directory: &str, list: &List<'_>) -> String {
        let command = Template::new(words.iter().map(Into::into).collect()).unwrap();
        name(&command, Path::new(directory), list).unwrap().as_str().to_owned()
    }

    #[test]
    fn the_same_command_in_the_same_directory_with_the_same_units_is_the_same_job() {
        let once = named(&["/usr/bin/wc", "-w"], "/d", &given(&["a", "b"]));
        assert_eq!(once, named(&["/usr/bin/wc", "-w"], "/d", &given(&["b", "a", "b"])));
        let digest = once.strip_prefix("wc-").unwrap();
        assert_eq!(digest.len(), 32, "128 bits");
        // Of this and every later version: workers of two versions share a job, and a job outlives an upgrade.
        assert_eq!(digest, "ab358558a313de3a66f11ec6a9bb106d");
        let known_by = |list: List<'_>| named_by(&["/usr/bin/wc", "-w"], "/d", &list);
        assert_eq!(known_by(List::Input { max_args: 1 }), "wc-5dc40389d6a21c167e5682731bdbf1e2");
        let list = List::File { path: "/d/list".into(), max_args: 1 };
        assert_eq!(known_by(list), "wc-ab4247250653498d1a2783c4fa1cd674");
    }

    #[test]
    fn no_name_begins_as_an_option_does() {
        for (program, base) in [("./импорт", "job-"), ("--x", "x-"), ("./-", "job-")] {
            let name = named(&[program], "/d", &given(&["a"]));
            assert!(name.starts_with(base), "{program}: {name}");
        }
    }

    #[test]
    fn whatever_is_another_job_has_another_name() {
        let file =
            |path: &str, max_args| named_by(&["wc", "-w"], "/d", &List::File { path: path.into(), max_args });
        let input = |directory, max_args| named_by(&["wc", "-w"], directory, &List::Input { max_args });
        let names = [
            named(&["wc", "-w"], "/d", &given(&["a", "b"])),
            named(&["wc", "-l"], "/d", &given(&["a", "b"])),
            named(&["wc"], "/d", &given(&["a", "b"])),
            named(&["wc", "-w", ""], "/d", &given(&["a", "b"])),
            named(&["/bin/wc", "-w"], "/d", &given(&["a", "b"])),
            named(&["wc", "-w"], "/e", &given(&["a", "b"])),
            named(&["wc", "-w"], "/d", &given(&["a", "c"])),
            named(&["wc", "-w"], "/d", &given(&["a"])),
            named(&["wc", "-w"], "/d", &given(&["ab"])),
            file("/d/list", 1),
            file("/d/list", 2),
            file("/d/list", 3),
            file("/d/list2", 1),
            input("/d", 1),
            input("/e", 1),
            // What is one unit to the one is several to the other.
            input("/d", 2),
            named(&["a", "bc"], "/d", &given(&["x"])),
            named(&["a", "b", "c"], "/d", &given(&["x"])),
        ];
        let different: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{names:?}");
        assert!(named(&["/"], "/d", &given(&["x"])).starts_with("job-"));
    }
}
