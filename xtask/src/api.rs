//! The public items of each library, one a line, in `docs/api`: so that a change of the interface shows in a diff.
//!
//! They are read from the sources as `cargo fmt` leaves them: an item begins a line, and `}` in its column ends it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where libraries are, from the root.
const ROOMS: [&str; 3] = ["crates", "stores", "peers"];
/// Where the listings are, from the root.
const LISTINGS: &str = "docs/api";

/// Fails if a listing does not show what the sources have.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut stale = Vec::new();
    for (file, text) in listings(root)? {
        let shown = std::fs::read_to_string(&file).unwrap_or_default();
        let (old, new): (BTreeSet<&str>, BTreeSet<&str>) = (shown.lines().collect(), text.lines().collect());
        let gone = old.difference(&new).map(|line| format!("  - {line}"));
        let changed: Vec<String> =
            gone.chain(new.difference(&old).map(|line| format!("  + {line}"))).collect();
        if shown != text {
            stale.push(format!("{}:\n{}", file.display(), changed.join("\n")));
        }
    }
    if stale.is_empty() {
        return Ok(());
    }
    Err(format!(
        "public items have changed; `cargo xtask api` writes that down, and CHANGELOG.md tells users:\n{}",
        stale.join("\n")
    ))
}

/// Writes all listings anew.
pub(crate) fn write(root: &Path) -> Result<(), String> {
    for (file, text) in listings(root)? {
        let error = |error| format!("{}: {error}", file.display());
        std::fs::create_dir_all(root.join(LISTINGS)).map_err(error)?;
        std::fs::write(&file, text).map_err(error)?;
    }
    Ok(())
}

/// Each library's file, and what it should show.
fn listings(root: &Path) -> Result<Vec<(PathBuf, String)>, String> {
    let mut all = Vec::new();
    for package in ROOMS.iter().flat_map(|room| entries(&root.join(room))) {
        if package.join("src/lib.rs").is_file() {
            let manifest = read(&package.join("Cargo.toml"))?;
            let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap_or_default();
            let mut sources = Vec::new();
            sources_in(&package.join("src"), &mut sources)?;
            all.push((
                root.join(LISTINGS).join(format!("{}.txt", name.trim_matches('"'))),
                listing(&sources),
            ));
        }
    }
    Ok(all)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn sources_in(folder: &Path, sources: &mut Vec<String>) -> Result<(), String> {
    for path in entries(folder) {
        if path.is_dir() {
            sources_in(&path, sources)?;
        } else if path.extension().is_some_and(|kind| kind == "rs") && !path.ends_with("tests.rs") {
            sources.push(read(&path)?);
        }
    }
    Ok(())
}

/// The items of all sources, by name. Implementations are shown of public types only, and of no trait of the crate's own.
fn listing(sources: &[String]) -> String {
    let items: BTreeSet<(String, String)> = sources.iter().flat_map(|source| items(source)).collect();
    let named = |words: [&str; 4]| -> BTreeSet<String> {
        let lines = sources.iter().flat_map(|source| source.lines());
        let of =
            |line: &str| words.iter().find_map(|word| Some(name(line.trim_start().strip_prefix(*word)?)));
        lines.filter_map(of).collect()
    };
    let public = named(["pub struct ", "pub enum ", "pub trait ", "pub union "]);
    let own = named(["trait ", "pub(crate) trait ", "pub(super) trait ", "pub(self) trait "]);
    let is_shown = |item: &str| match item.strip_prefix("impl").and_then(|rest| rest.split_once(" for ")) {
        Some((what, of)) => {
            let what = what.rsplit([' ', ':']).next().unwrap_or(what);
            (of.starts_with('$') || public.contains(&name(of))) && !own.contains(&name(what))
        }
        None => true,
    };
    let line = |(of, item): (String, String)| if of.is_empty() { item } else { format!("{of}: {item}") };
    items.into_iter().filter(|(_, item)| is_shown(item)).map(|item| line(item) + "\n").collect()
}

/// The word that a text begins with.
fn name(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// What encloses an item: in which column it began, what it is called, and whether all in it is public, as in an enum or a trait.
struct Around {
    column: usize,
    name: String,
    is_open: bool,
}

/// Each public item of a source, with what it belongs to.
fn items(source: &str) -> Vec<(String, String)> {
    let (mut all, mut around, mut attributes): (Vec<_>, Vec<Around>, Vec<&str>) = Default::default();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let text = line.trim_start();
        let column = line.len() - text.len();
        if text.is_empty() || text.starts_with("//") {
            continue;
        }
        while around
            .last()
            .is_some_and(|last| column < last.column || column == last.column && text.starts_with('}'))
        {
            around.pop();
        }
        if text.starts_with("#[") {
            attributes.push(text);
            continue;
        }
        let with: Vec<&str> = std::mem::take(&mut attributes);
        if with.iter().any(|attribute| attribute.starts_with("#[cfg(test)]")) && column == 0 {
            lines.by_ref().take_while(|line| !text.ends_with(';') && *line != "}").for_each(drop);
            continue;
        }
        let parent = around.last();
        let is_open = parent.is_some_and(|parent| parent.is_open && column == parent.column + 4);
        let is_item = text.starts_with("pub ") || is_open && !text.starts_with(['}', ')']);
        let is_impl = text.starts_with("impl")
            && (column == 0 || parent.is_some_and(|parent| parent.name.starts_with("macro")));
        if !(is_item || is_impl || text.starts_with("macro_rules! ")) {
            continue;
        }
        let words: Vec<&str> = text.split(' ').collect();
        let is = |kind: &str| words.iter().take(4).any(|word| *word == kind);
        let ends: &[char] = match () {
            () if is("use") || is("const") && !is("fn") || is("static") || is("type") => &[';'],
            () if is_impl
                || ["fn", "struct", "enum", "trait", "mod", "union", "macro_rules!"]
                    .iter()
                    .any(|kind| is(kind)) =>
            {
                &['{', ';', '}']
            }
            () => &[',', '{', ';'],
        };
        let mut item = text.to_owned();
        while !item.ends_with(ends) {
            let Some(more) = lines.next() else { break };
            let more = more.trim_start();
            if !more.starts_with("//") {
                item = format!("{item}{}{more}", if item.ends_with(['(', '<', '[']) { "" } else { " " });
            }
        }
        if item.ends_with('{') {
            let header = item.trim_end_matches([' ', '{']).trim_start_matches("pub ");
            let header = ["struct ", "enum ", "trait ", "mod "]
                .iter()
                .find_map(|kind| header.strip_prefix(kind))
                .unwrap_or(header);
            let of = match header.strip_prefix("impl") {
                Some(of) => of.split_once("> ").filter(|_| of.starts_with('<')).map_or(of, |(_, of)| of),
                None => header.split([':', '(']).next().unwrap_or(header),
            };
            let is_open = is_item && (is("enum") || is("trait") || is_open && !is("fn"));
            around.push(Around { column, name: of.trim().to_owned(), is_open });
        }
        let is_hidden = with.contains(&"#[doc(hidden)]");
        if is_item && !is_hidden || is_impl && item.contains(" for ") {
            let parent =
                around.iter().rev().find(|parent| parent.column < column).map_or("", |parent| &parent.name);
            let shown = |attribute: &&&str| {
                ["#[non_exhaustive", "#[cfg(", "#[derive("].iter().any(|kind| attribute.starts_with(kind))
            };
            let mut words: Vec<&str> = with.iter().filter(shown).copied().collect();
            let item = item.trim_end_matches([' ', '{', ',', ';']).replace(",)", ")").replace(", )", ")");
            // A body or a value is nobody's business.
            let is_value = is("static") || is("const") && !is("fn");
            let body = if is_value {
                " = "
            } else if is("fn") {
                " {"
            } else {
                "\n"
            };
            let item = item.split(body).next().unwrap_or(&item);
            words.push(item);
            all.push((parent.to_owned(), words.join(" ")));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_items_are_listed_and_nothing_else() {
        let source = r#"
use std::fmt;
pub use crate::guard::{
    Guard, Held,
};
/// A parcel.
#[derive(Debug)]
#[non_exhaustive]
pub struct Parcel<T> {
    /// Its key.
    pub key: Key,
    own: T,
}
pub(crate) struct Hidden;
pub enum Damage {
    Expired,
    Taken { by: Key },
}
impl<T> Parcel<T> {
    pub fn get(
        &self,
        key: &str,
    ) -> Option<T>
    where
        T: Clone,
    {
        pub_things(key)
    }
    fn hidden(&self) {}
    pub const MAX: u64 = 5;
}
pub trait Depot {
    fn id(&self) -> String;
}
trait Private {
    fn id(&self);
}
impl fmt::Display for Parcel<u8> {
    fn fmt(&self) {}
}
impl Private for Damage {}
impl fmt::Display for Hidden {}
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub fn open() {}
}
pub struct Weight(pub u64);
#[cfg(test)]
mod tests {
    pub fn helper() {}
}
"#;
        let lines = [
            "#[cfg(feature = \"sqlite\")] pub mod sqlite",
            "#[derive(Debug)] #[non_exhaustive] pub struct Parcel<T>",
            "impl fmt::Display for Parcel<u8>",
            "pub enum Damage",
            "pub struct Weight(pub u64)",
            "pub trait Depot",
            "pub use crate::guard::{ Guard, Held, }",
            "Parcel<T>: pub const MAX: u64",
            "Parcel<T>: pub fn get(&self, key: &str) -> Option<T> where T: Clone",
            "Parcel<T>: pub key: Key",
            "Damage: Expired",
            "Damage: Taken { by: Key }",
            "Depot: fn id(&self) -> String",
            "sqlite: pub fn open()",
        ];
        let listed = listing(&[source.to_owned()]);
        let (listed, mut lines): (Vec<&str>, Vec<&str>) = (listed.lines().collect(), lines.to_vec());
        let mut sorted = listed.clone();
        sorted.sort_unstable();
        lines.sort_unstable();
        assert_eq!(sorted, lines);
    }
}
