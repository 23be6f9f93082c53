//! What is printed of the command line itself: `completions` and `man`.

use clap::Parser;
use std::path::PathBuf;

/// Print a completion script for a shell.
#[derive(Debug, Parser)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// Print the manual page, of tenure or of one of its verbs, or install them all.
#[derive(Debug, Parser)]
pub(crate) struct ManArgs {
    /// Which verb: run, or fleet top
    pub(crate) verb: Vec<String>,
    /// Write the pages of all verbs to DIR/man1, as in /usr/local/share/man
    #[arg(long, value_name = "DIR", conflicts_with = "verb")]
    pub(crate) install: Option<PathBuf>,
}
