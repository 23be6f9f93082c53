//! What a lease's record tells of its holder, for people.

use crate::exit::Failure;
use std::ffi::OsString;
use std::path::Path;
use tenure::Metadata;

/// Who holds a lease, where, and for what. Of the command only the program is told: arguments may be secrets.
#[derive(Debug, Clone, Default)]
pub(crate) struct HolderInfo {
    note: Option<String>,
    program: Option<String>,
}

const LONGEST_NOTE: usize = 1000;
const LONGEST_PROGRAM: usize = 100;

impl HolderInfo {
    /// For that program, if it is for one.
    pub(crate) fn new(note: Option<String>, program: Option<&OsString>) -> Result<HolderInfo, Failure> {
        if let Some(note) = note.as_ref().filter(|note| note.len() > LONGEST_NOTE) {
            return Err(Failure::usage(format!(
                "--note has {} bytes; the limit is {LONGEST_NOTE}",
                note.len()
            )));
        }
        let name = |program: &OsString| {
            let name = Path::new(program).file_name()?.to_string_lossy();
            Some(name.chars().take(LONGEST_PROGRAM).collect())
        };
        Ok(HolderInfo { note, program: program.and_then(name) })
    }

    /// Whether something is to be told to whoever looks.
    #[cfg(any(feature = "dynamodb", feature = "less"))]
    pub(crate) fn has_note(&self) -> bool {
        self.note.is_some()
    }

    /// As the record has it, of this process on this host.
    pub(crate) fn metadata(&self) -> Metadata {
        let user = nix::unistd::User::from_uid(nix::unistd::geteuid()).ok().flatten();
        let user = user.map_or_else(|| nix::unistd::geteuid().to_string(), |user| user.name);
        let mut metadata = Metadata::from([
            ("user".to_owned(), user.into()),
            ("host".to_owned(), tenure::clock::host_name().into()),
            ("pid".to_owned(), i64::from(std::process::id()).into()),
        ]);
        let texts = [("program", &self.program), ("note", &self.note)];
        for (name, text) in texts {
            metadata.extend(text.iter().map(|text| (name.to_owned(), text.as_str().into())));
        }
        metadata
    }
}
