//! The public items of each library, one a line, in `docs/api`: so that a change of the interface shows in a diff.
//!
//! An item is listed if users can name it, and by the shortest path by which they can. What is hidden from the documentation is left out.

mod items;
mod reach;

use items::items;
use reach::{ModulePath, Modules, listing};
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
            let mut modules = Modules::new();
            read_modules(&package.join("src"), &[], &mut modules)?;
            all.push((
                root.join(LISTINGS).join(format!("{}.txt", name.trim_matches('"'))),
                listing(&modules),
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

/// The items of all files below a folder, by the modules that have them.
fn read_modules(folder: &Path, at: &[String], modules: &mut Modules) -> Result<(), String> {
    for path in entries(folder) {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let module: ModulePath = match name.as_str() {
            "mod" | "lib" | "main" => at.to_vec(),
            _ => [at, &[name]].concat(),
        };
        if path.is_dir() {
            read_modules(&path, &module, modules)?;
        } else if path.extension().is_some_and(|kind| kind == "rs") {
            add_items(&read(&path)?, &module, modules);
        }
    }
    Ok(())
}

/// The items of one file, some of which are in modules within it.
fn add_items(source: &str, module: &[String], modules: &mut Modules) {
    for item in items(source) {
        modules.entry([module, item.modules.as_slice()].concat()).or_default().push(item);
    }
}

#[cfg(test)]
mod tests {
    //! Plan: what is public is listed and nothing else; by public modules and by what they export, each once; and what only the crate can name is
    //! left out with all that belongs to it.
    use super::*;

    /// The lines for these files, each named by its module.
    fn listed(files: &[(&str, &str)]) -> Vec<String> {
        let mut modules = Modules::new();
        for (module, source) in files {
            let module: ModulePath =
                module.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect();
            add_items(source, &module, &mut modules);
        }
        listing(&modules).lines().map(str::to_owned).collect()
    }

    fn sorted<const N: usize>(lines: [&str; N]) -> Vec<&str> {
        let mut lines = lines.to_vec();
        lines.sort_unstable();
        lines
    }

    fn assert_listed<const N: usize>(files: &[(&str, &str)], lines: [&str; N]) {
        let mut listed = listed(files);
        listed.sort_unstable();
        assert_eq!(listed, sorted(lines));
    }

    #[test]
    fn public_items_are_listed_and_nothing_else() {
        let source = r#"
use std::fmt;
mod guard;
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
struct Withheld {
    pub field: u8,
}
pub enum Damage {
    Expired,
    Taken { by: Key },
    Lost {
        key: Key,
    },
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
impl From<Damage> for (u8, u8) {}
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub fn open() {}
}
pub struct Weight(pub u64);
#[macro_export]
macro_rules! parcels {
    () => {};
}
#[cfg(test)]
use std::{
    env,
};
pub fn after() {}
#[cfg(test)]
mod tests {
    pub fn helper() {}
}
"#;
        let guard = "pub struct Guard;\nnames!(Held);\n";
        let lines = [
            "#[cfg(feature = \"sqlite\")] pub mod sqlite",
            "#[derive(Debug)] #[non_exhaustive] pub struct Parcel<T>",
            "impl fmt::Display for Parcel<u8>",
            "impl From<Damage> for (u8, u8)",
            "macro_rules! parcels",
            "pub enum Damage",
            "pub fn after()",
            "pub struct Guard",
            "pub struct Weight(pub u64)",
            "pub trait Depot",
            // A macro makes it.
            "pub use guard::Held",
            "Parcel<T>: pub const MAX: u64",
            "Parcel<T>: pub fn get(&self, key: &str) -> Option<T> where T: Clone",
            "Parcel<T>: pub key: Key",
            "Damage: Expired",
            "Damage: Lost",
            "Damage::Lost: key: Key",
            "Damage: Taken { by: Key }",
            "Depot: fn id(&self) -> String",
            "sqlite: pub fn open()",
        ];
        assert_listed(&[("", source), ("guard", guard)], lines);
    }

    #[test]
    fn an_item_is_listed_by_the_path_that_users_name_it_by() {
        let files = [
            ("", "mod wire;\npub mod face;\npub use face::{Face, nose::Nose};\n"),
            (
                "face",
                "pub(crate) mod nose;\nmod ear;\npub use ear::{Ear, lobes};\npub use std::fmt::Debug;\npub struct Face {\n    pub nose: Nose,\n}\n",
            ),
            ("face::nose", "use super::Face;\npub struct Nose;\nimpl Face {\n    pub fn blow(&self) {}\n}\n"),
            ("face::ear", "pub mod lobes;\npub struct Ear;\npub struct Drum;\n"),
            ("face::ear::lobes", "pub fn left() {}\n"),
            (
                "wire",
                "pub struct Message {\n    pub id: u64,\n}\npub mod event {\n    pub enum Kind {\n        Put,\n    }\n}\n",
            ),
        ];
        let lines = [
            "pub mod face",
            "pub struct Face",
            "Face: pub fn blow(&self)",
            "Face: pub nose: Nose",
            "pub struct Nose",
            "face: pub mod lobes",
            "face: pub struct Ear",
            "face: pub use crate::Face",
            "face: pub use std::fmt::Debug",
            "face::lobes: pub fn left()",
        ];
        assert_listed(&files, lines);
    }

    #[test]
    fn what_is_hidden_from_the_documentation_or_is_for_tests_only_is_not_listed() {
        let files = [
            (
                "",
                "#[doc(hidden)]\npub mod statements;\n#[cfg(test)]\nmod walk;\nmod call;\n#[doc(hidden)]\npub use call::examine;\npub use call::Call;\n",
            ),
            ("statements", "pub fn ask() {}\n"),
            ("walk", "use crate::Call;\nimpl Default for Call {}\n"),
            (
                "call",
                "pub fn examine() {}\npub struct Call;\nimpl Call {\n    #[doc(hidden)]\n    pub fn inner(&self) {}\n    pub fn outer(&self) {}\n}\n",
            ),
        ];
        assert_listed(&files, ["pub struct Call", "Call: pub fn outer(&self)"]);
    }
}
