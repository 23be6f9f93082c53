//! The licences of the program and of what is linked into it. Most of them ask that their text comes with each copy.

use super::{ROOT, files, output, write};
use crate::step::cargo_command;
use crate::workspace::object;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use tinyjson::JsonValue;

/// Where they are installed.
const PLACE: &str = "usr/share/doc/tenure";
/// Our own, as they stand in the sources.
const OURS: [&str; 2] = ["LICENSE-APACHE", "LICENSE-MIT"];
/// Those of all packages.
const PACKAGES: &str = "THIRD-PARTY";
/// Those of Rust's own library, as its makers tell them.
const LIBRARY: &str = "RUST-LIBRARY.html";
/// How files with such a text begin, in capitals.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// A static program has the C library in it. Its text comes with Debian's package of the compiler for it.
const MUSL: &str = "/usr/share/doc/musl-dev/copyright";

const HEAD: &str = "\
What is linked into the program `tenure` besides its own code, and on which terms. Below this list are the texts that come with
these packages. One that several of them have stands once.

";

/// A package that is linked in.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LinkedPackage {
    /// With its version.
    name: String,
    /// As an expression.
    licence: String,
    repository: String,
    folder: PathBuf,
    is_ours: bool,
}

/// A file with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LicenceFile {
    /// Below the folder of its package.
    name: String,
    text: String,
}

/// Puts all of them where they are to be installed below `root`, for a program for `target`.
pub(super) fn stage(root: &Path, target: &str) -> Result<(), String> {
    let place = root.join(PLACE);
    for file in OURS {
        write(&place.join(file), &read(&Path::new(ROOT).join(file))?)?;
    }
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let library = Path::new(sysroot.trim()).join("share/doc/rust/COPYRIGHT-library.html");
    write(&place.join(LIBRARY), &read(&library)?)?;
    let mut page = page(&third_party(target)?);
    if target.ends_with("musl") {
        page += &part("musl, the C library", &read(Path::new(MUSL))?);
    }
    write(&place.join(PACKAGES), &page)
}

/// That those files are below `root`, with the licences of what every such program has in it.
pub(super) fn check(root: &Path) -> Result<(), String> {
    let place = root.join(PLACE);
    for file in OURS.into_iter().chain([LIBRARY]) {
        read(&place.join(file))?;
    }
    let told = read(&place.join(PACKAGES))?;
    for package in ["ring", "libsqlite3-sys", "subtle"] {
        let lines = told.lines().filter(|line| line.starts_with(&format!("{package} "))).count();
        // One in the list, and one at least above a text.
        if lines < 2 {
            return Err(format!("{PACKAGES} has no licence of {package}, which is linked in"));
        }
    }
    Ok(())
}

/// The packages that others have written, with their texts.
fn third_party(target: &str) -> Result<Vec<(LinkedPackage, Vec<LicenceFile>)>, String> {
    // Macros run in the compiler, and are not in the program.
    let which = ["--package", "tenure-cli", "--features", "all-stores", "--edges", "normal,no-proc-macro"];
    let shown = ["--target", target, "--prefix", "none", "--format", "{p}"];
    let tree = output(&mut cargo_command(&[&["tree"][..], &which, &shown].concat()))?;
    let metadata = ["metadata", "--format-version", "1", "--all-features", "--filter-platform", target];
    let metadata = output(&mut cargo_command(&metadata))?;
    let packages = of_these(packages(&metadata), linked(&tree))?;
    let others = packages.into_iter().filter(|package| !package.is_ours);
    others
        .map(|package| {
            let mut found = Vec::new();
            find_texts(&package.folder, &package.folder, &mut found)?;
            Ok((package, found))
        })
        .collect()
}

/// The packages of `cargo tree`, each with its version: `NAME vVERSION …`.
fn linked(tree: &str) -> BTreeSet<String> {
    let named = |line: &str| {
        let (name, rest) = line.split_once(" v")?;
        Some(format!("{name} {}", rest.split(' ').next()?))
    };
    tree.lines().filter_map(named).collect()
}

/// All packages of `cargo metadata`.
fn packages(metadata: &str) -> Option<Vec<LinkedPackage>> {
    let metadata: JsonValue = metadata.parse().ok()?;
    let packages: &Vec<JsonValue> = object(&metadata)?.get("packages")?.get()?;
    let package = |json: &JsonValue| {
        let json = object(json)?;
        let text = |name: &str| json.get(name).and_then(|value| value.get::<String>()).cloned();
        Some(LinkedPackage {
            name: format!("{} {}", text("name")?, text("version")?),
            licence: text("license").unwrap_or_else(|| "by its own text".to_owned()),
            repository: text("repository").unwrap_or_default(),
            folder: Path::new(&text("manifest_path")?).parent()?.to_owned(),
            // What is in this folder comes from no registry.
            is_ours: text("source").is_none(),
        })
    };
    packages.iter().map(package).collect()
}

/// Of all packages those with these names, by name.
fn of_these(
    packages: Option<Vec<LinkedPackage>>,
    mut names: BTreeSet<String>,
) -> Result<Vec<LinkedPackage>, String> {
    let packages = packages.ok_or_else(|| "cargo metadata can't be understood".to_owned())?;
    let mut found: Vec<LinkedPackage> =
        packages.into_iter().filter(|package| names.remove(&package.name)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    match names.first() {
        None => Ok(found),
        Some(name) => Err(format!("cargo metadata does not tell of {name}, which is linked in")),
    }
}

/// Also those of code that a package has taken from others, in folders of its own.
fn find_texts(package: &Path, folder: &Path, found: &mut Vec<LicenceFile>) -> Result<(), String> {
    for path in files(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_dir() {
            find_texts(package, &path, found)?;
        } else if NAMES.iter().any(|known| name.starts_with(known)) && !name.ends_with(".RS") {
            let name = path.strip_prefix(package).unwrap_or(&path).display().to_string();
            found.push(LicenceFile { name, text: read(&path)? });
        }
    }
    Ok(())
}

fn page(packages: &[(LinkedPackage, Vec<LicenceFile>)]) -> String {
    let mut page = HEAD.to_owned();
    let mut texts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (package, files) in packages {
        let LinkedPackage { name, licence, repository, .. } = package;
        let lacks = if files.is_empty() { "; no text comes with it" } else { "" };
        page += &format!("{name}: {licence}; {repository}{lacks}\n");
        for file in files {
            texts.entry(file.text.trim()).or_default().push(format!("{name}, {}", file.name));
        }
    }
    for (text, of) in texts {
        page += &part(&of.join("\n"), text);
    }
    page
}

/// A text, and what it is of.
fn part(of: &str, text: &str) -> String {
    let line = "-".repeat(80);
    format!("\n{line}\n{of}\n{line}\n\n{}\n", text.trim())
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    //! Plan: what cargo tells is understood, and what it leaves out is an error; a text stands once, below all that have it, and what has
    //! none is listed; our own text is in Debian's file, too. (The whole page is made by `dist`, which checks it.)
    use super::*;

    const METADATA: &str = r#"{"packages":[
        {"name":"b","version":"2.0.0","license":null,"repository":null,"manifest_path":"/r/b/Cargo.toml","source":"registry"},
        {"name":"a","version":"1.0.0","license":"MIT","repository":"https://a.example","manifest_path":"/r/a/Cargo.toml","source":"registry"},
        {"name":"ours","version":"0.1.0","license":"MIT","manifest_path":"/ours/Cargo.toml","source":null}]}"#;

    #[test]
    fn what_is_linked_is_what_cargo_tells() {
        let names = linked("ours v0.1.0 (/ours)\na v1.0.0\nb v2.0.0\na v1.0.0 (*)\n");
        assert_eq!(names.iter().collect::<Vec<_>>(), ["a 1.0.0", "b 2.0.0", "ours 0.1.0"]);
        let found = of_these(packages(METADATA), names).unwrap();
        let told: Vec<_> =
            found.iter().map(|it| (it.name.as_str(), it.licence.as_str(), it.is_ours)).collect();
        let b = ("b 2.0.0", "by its own text", false);
        assert_eq!(told, [("a 1.0.0", "MIT", false), b, ("ours 0.1.0", "MIT", true)]);
        assert_eq!(found[0].folder, Path::new("/r/a"));
        let lacks = of_these(packages(METADATA), linked("c v3.0.0\n")).unwrap_err();
        assert!(lacks.contains("c 3.0.0"), "{lacks}");
        assert!(of_these(packages("{"), BTreeSet::new()).is_err());
    }

    #[test]
    fn a_text_stands_once_below_all_that_have_it() {
        let [b, a, _]: [LinkedPackage; 3] = packages(METADATA).unwrap().try_into().unwrap();
        let file = |name: &str, text: &str| LicenceFile { name: name.to_owned(), text: text.to_owned() };
        let c = LinkedPackage { name: "c 3.0.0".to_owned(), ..a.clone() };
        let page = page(&[
            (a, vec![file("LICENSE", "as it is\n"), file("x/NOTICE", "also x")]),
            (b, vec![file("COPYING", "\nas it is")]),
            (c, vec![]),
        ]);
        assert_eq!(page.matches("as it is").count(), 1, "{page}");
        assert!(page.contains("\na 1.0.0, LICENSE\nb 2.0.0, COPYING\n---"), "{page}");
        assert!(page.contains("\na 1.0.0, x/NOTICE\n---") && page.ends_with("as it is\n"), "{page}");
        assert!(page.contains("\na 1.0.0: MIT; https://a.example\nb 2.0.0: by its own text; \n"), "{page}");
        assert!(page.contains("\nc 3.0.0: MIT; https://a.example; no text comes with it\n"), "{page}");
    }

    #[test]
    fn debians_file_has_the_text_of_our_licence() {
        let ours = read(&Path::new(ROOT).join("LICENSE-MIT")).unwrap();
        let (_, text) = ours.split_once("Permission is").unwrap();
        let text = format!("Permission is{text}");
        // As Debian has it: each line is indented, and a dot is an empty one.
        let lines = text.trim().lines().map(|line| if line.is_empty() { " ." } else { line });
        let lines: String = lines.map(|line| format!(" {}\n", line.trim_start())).collect();
        let debian = read(&Path::new(ROOT).join("packaging/debian/copyright")).unwrap();
        assert!(debian.contains(&lines), "{lines}");
        assert!(debian.contains(&format!("/{PLACE}/{PACKAGES}")), "{debian}");
    }
}
