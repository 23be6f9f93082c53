//! Manual pages, made of what `--help` says.

use crate::args;
use crate::exit::{self, Failure};
use crate::output;
use crate::text::escaped;
use clap::Command;
use clap_mangen::Man;
use std::path::Path;

pub(crate) fn manual(typed: &args::ManArgs) -> Result<u8, Failure> {
    match &typed.install {
        Some(directory) => install(directory),
        None => print(&typed.verb),
    }
}

/// All verbs and those below them, with their names as pages have them.
fn built() -> Command {
    let mut command = args::command().disable_help_subcommand(true);
    command.build();
    command
}

fn failed(error: &std::io::Error) -> Failure {
    Failure::new(exit::INTERNAL, error.to_string())
}

fn print(verbs: &[String]) -> Result<u8, Failure> {
    let command = built();
    // As pages are called: fleet-top.
    let words = verbs.iter().flat_map(|word| word.split('-'));
    let found = words.clone().try_fold(&command, |command, word| command.find_subcommand(word));
    let Some(found) = found else {
        let verb = escaped(&verbs.join(" "));
        return Err(Failure::usage(format!("tenure has no verb \"{verb}\"")));
    };
    let mut roff = Vec::new();
    Man::new(found.clone()).render(&mut roff).map_err(|error| failed(&error))?;
    output::print(&String::from_utf8_lossy(&roff))?;
    Ok(exit::OK)
}

/// Writes a page for each verb where man(1) looks for it below `directory`.
fn install(directory: &Path) -> Result<u8, Failure> {
    let place = directory.join("man1");
    let written = std::fs::create_dir_all(&place).and_then(|()| clap_mangen::generate_to(built(), &place));
    written.map_err(|error| {
        Failure::usage(format!("pages can't be written to {}: {error}", escaped(&place.to_string_lossy())))
    })?;
    Ok(exit::OK)
}
