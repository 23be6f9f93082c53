//! Manual pages, made of what `--help` says.

use crate::args;
use crate::exit::{self, Failure};
use crate::output;
use crate::text::escaped;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io;
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
    write_page(found, &mut roff).map_err(|error| failed(&error))?;
    output::print(&String::from_utf8_lossy(&roff))?;
    Ok(exit::OK)
}

/// Writes a page for each verb where man(1) looks for it below `directory`.
fn install(directory: &Path) -> Result<u8, Failure> {
    let place = directory.join("man1");
    let written = std::fs::create_dir_all(&place).and_then(|()| write_pages(&built(), &place));
    written.map_err(|error| {
        Failure::usage(format!("pages can't be written to {}: {error}", escaped(&place.to_string_lossy())))
    })?;
    Ok(exit::OK)
}

fn write_pages(command: &Command, place: &Path) -> io::Result<()> {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        write_pages(verb, place)?;
    }
    let name = Man::new(command.clone()).get_filename();
    write_page(command, &mut std::fs::File::create(place.join(name))?)
}

/// A page as the library makes it, but with the usage that `--help` tells: the library's own has no `--` and no dots.
fn write_page(command: &Command, to: &mut dyn io::Write) -> io::Result<()> {
    // Without a date what follows would stand in its place.
    let page = Man::new(command.clone()).date(" ").source(concat!("tenure ", env!("CARGO_PKG_VERSION")));
    page.render_title(to)?;
    page.render_name_section(to)?;
    let mut synopsis = Roff::new();
    synopsis.control("SH", ["SYNOPSIS"]);
    let usage = command.clone().render_usage().to_string();
    for (n, line) in usage.trim_start_matches("Usage:").lines().map(str::trim).enumerate() {
        if n > 0 {
            synopsis.control("br", []);
        }
        synopsis.text([roman(line)]);
    }
    synopsis.to_writer(to)?;
    page.render_description_section(to)?;
    page.render_options_section(to)?;
    if command.get_subcommands().any(|verb| !verb.is_hide_set()) {
        page.render_subcommands_section(to)?;
    }
    if let Some(help) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        write_section(&help.to_string(), to)?;
    }
    if command.get_version().is_some() || command.get_long_version().is_some() {
        page.render_version_section(to)?;
    }
    Ok(())
}

/// What stands below the options in `--help`, under the name that man(7) has for it: the library's own is EXTRA. Its lines stay as they are.
fn write_section(help: &str, to: &mut dyn io::Write) -> io::Result<()> {
    const NAMES: [(&str, &str); 2] = [("Examples:\n", "EXAMPLES"), ("Exit codes:\n", "EXIT STATUS")];
    let named = NAMES.iter().find_map(|(heading, name)| Some((*name, help.strip_prefix(heading)?)));
    let (name, text) = named.unwrap_or(("NOTES", help));
    let mut section = Roff::new();
    section.control("SH", [name]).control("nf", []);
    for line in text.lines() {
        section.text([roman(line)]);
    }
    section.control("fi", []);
    section.to_writer(to)
}
