//! Files of one crate use each other in one direction: where two need each other, neither can be read, tested or changed without the other.
//!
//! What counts is the paths in a file that lead to another file of its crate: in `use`, in code, and in those macros whose arguments are expressions.
//! A file and those of its own submodules are one room: a parent names its children, and they name what is their parent's. What is compiled for
//! tests only is left out. A call of a method names no file. So the files that share one type's methods may need each other, and nothing shows here.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};

/// Where a module is in its crate.
type ModulePath = Vec<String>;

/// What each module uses.
type Uses = BTreeMap<ModulePath, BTreeSet<ModulePath>>;

#[test]
fn no_files_of_a_crate_use_each_other_in_a_circle() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut crates = Vec::new();
    find_crates(&root, &mut crates);
    assert!(crates.len() > 20, "not all crates were found: {crates:?}");
    let mut told = String::new();
    for sources in crates {
        let uses = uses(&read(&sources));
        for circle in circles(&uses) {
            told += &format!("{}:\n", sources.display());
            for module in &circle {
                let others =
                    uses[module].iter().filter(|other| circle.contains(*other)).map(|it| it.join("::"));
                told +=
                    &format!("    {} uses {}\n", module.join("::"), others.collect::<Vec<_>>().join(", "));
            }
        }
    }
    assert!(told.is_empty(), "move what both sides need below both of them:\n{told}");
}

#[test]
fn a_circle_of_files_is_noticed_and_a_parent_with_its_children_is_none() {
    let read = |files: &[(&str, &str)]| {
        let module = |path: &str| path.split("::").filter(|it| !it.is_empty()).map(str::to_owned).collect();
        let files = files.iter().map(|(path, text)| (module(path), syn::parse_file(text).unwrap()));
        circles(&uses(&files.collect()))
    };
    let names = |circles: Vec<BTreeSet<ModulePath>>| {
        circles.iter().map(|circle| circle.iter().map(|it| it.join("::")).collect()).collect::<Vec<Vec<_>>>()
    };
    // Through a group, an expression, and a name that the parent exports.
    let root = ("", "mod a; mod b; mod c; pub use c::Seen;");
    let three = [
        root,
        ("a", "use crate::{b::B as Other};"),
        ("b", "fn f() { super::c::g() }"),
        ("c", "use crate::a; pub struct Seen;"),
    ];
    assert_eq!(names(read(&three)), [["a", "b", "c"]]);
    let by_export = [root, ("a", "use crate::Seen;"), ("b", ""), ("c", "use crate::a;")];
    assert_eq!(names(read(&by_export)), [["a", "c"]]);
    let by_macro = [
        root,
        ("a", "fn f() { assert!(crate::b::is_well(), \"{}\", 1) }"),
        ("b", "use crate::a;"),
        ("c", ""),
    ];
    assert_eq!(names(read(&by_macro)), [["a", "b"]]);
    let one_way = [
        root,
        ("a", "use crate::b;"),
        ("b", "use super::c;"),
        ("c", "#[cfg(test)] mod tests { use crate::a; }"),
    ];
    assert!(read(&one_way).is_empty());
    let family =
        [root, ("a", "mod d; use d::D;"), ("a::d", "use super::A; use crate::b;"), ("b", ""), ("c", "")];
    assert!(read(&family).is_empty());
}

/// The folders `src` of all packages.
fn find_crates(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !path.is_dir() || name == "target" || name.starts_with('.') {
            continue;
        }
        if name == "src" && folder.join("Cargo.toml").exists() {
            found.push(path);
        } else {
            find_crates(&path, found);
        }
    }
}

/// All files of a crate, by where they are in it.
fn read(sources: &Path) -> BTreeMap<ModulePath, syn::File> {
    fn below(folder: &Path, at: &ModulePath, files: &mut BTreeMap<ModulePath, syn::File>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let mut module = at.clone();
            let name = path.file_stem().unwrap().to_string_lossy();
            if !["mod", "lib", "main"].contains(&&*name) {
                module.push(name.into_owned());
            }
            if path.is_dir() {
                below(&path, &module, files);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                files.insert(
                    module,
                    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
                );
            }
        }
    }
    let mut files = BTreeMap::new();
    below(sources, &Vec::new(), &mut files);
    files
}

fn uses(files: &BTreeMap<ModulePath, syn::File>) -> Uses {
    let named: BTreeMap<_, _> =
        files.iter().map(|(module, file)| (module, Named::of(module, file))).collect();
    let exports: BTreeMap<Vec<String>, Vec<String>> =
        named.values().flat_map(|named| &named.exports).cloned().collect();
    // The file in which a path ends, whatever it is exported as.
    let file_of = |path: &Vec<String>| {
        let mut path = path.clone();
        for _ in 0..8 {
            let exported = (1..=path.len()).find_map(|len| Some((len, exports.get(&path[..len])?)));
            let Some((len, from)) = exported else { break };
            path.splice(..len, from.iter().cloned());
        }
        (0..=path.len()).rev().map(|len| path[..len].to_vec()).find(|module| files.contains_key(module))
    };
    let is_family = |one: &ModulePath, other: &ModulePath| one.starts_with(other) || other.starts_with(one);
    let uses = named.into_iter().map(|(module, named)| {
        let others = named.paths.iter().filter_map(file_of).filter(|other| !is_family(module, other));
        (module.clone(), others.collect())
    });
    uses.collect()
}

/// The paths that a file names, from the root of its crate.
struct Named<'a> {
    module: &'a ModulePath,
    paths: Vec<Vec<String>>,
    /// Those that it exports, by the paths that this makes of them.
    exports: Vec<(Vec<String>, Vec<String>)>,
}

impl Named<'_> {
    fn of<'a>(module: &'a ModulePath, file: &syn::File) -> Named<'a> {
        let mut named = Named { module, paths: Vec::new(), exports: Vec::new() };
        named.visit_file(file);
        named
    }

    /// None for a path into another crate.
    fn in_crate(&self, path: &[String]) -> Option<Vec<String>> {
        let (first, rest) = path.split_first()?;
        let up = path.iter().take_while(|name| *name == "super").count();
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([self.module, rest].concat()),
            "super" => Some([&self.module[..self.module.len().checked_sub(up)?], &path[up..]].concat()),
            _ => None,
        }
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree, is_exported: bool) {
        let mut found = |name: &syn::Ident, rename: &syn::Ident| {
            let path = if name == "self" { before.to_vec() } else { [before, &[name.to_string()]].concat() };
            // A child may be named without `self`.
            let own = || is_exported.then(|| [self.module, path.as_slice()].concat());
            let Some(path) = self.in_crate(&path).or_else(own) else { return };
            if is_exported {
                let exported = [self.module.as_slice(), &[rename.to_string()]].concat();
                if exported != path {
                    self.exports.push((exported, path));
                }
            } else {
                self.paths.push(path);
            }
        };
        match tree {
            syn::UseTree::Path(path) => {
                let before = [before, &[path.ident.to_string()]].concat();
                self.tree(&before, &path.tree, is_exported);
            }
            syn::UseTree::Name(name) => found(&name.ident, &name.ident),
            syn::UseTree::Rename(rename) => found(&rename.ident, &rename.rename),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.tree(before, tree, is_exported));
            }
            syn::UseTree::Glob(_) => self.paths.extend(self.in_crate(before)),
        }
    }
}

impl<'ast> Visit<'ast> for Named<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Mod(it) => &it.attrs,
            syn::Item::Use(it) => &it.attrs,
            syn::Item::Fn(it) => &it.attrs,
            syn::Item::Impl(it) => &it.attrs,
            _ => return visit::visit_item(self, item),
        };
        let is_for_tests = |attribute: &syn::Attribute| match &attribute.meta {
            syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
            _ => false,
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&[], &item.tree, !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.paths.extend(self.in_crate(&names));
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &'ast syn::Macro) {
        let arguments = called.parse_body_with(Punctuated::<syn::Expr, syn::Token![,]>::parse_terminated);
        for argument in arguments.iter().flatten() {
            self.visit_expr(argument);
        }
        visit::visit_macro(self, called);
    }
}

/// The groups of modules each of which uses, by way of others, all others of the group.
fn circles(uses: &Uses) -> Vec<BTreeSet<ModulePath>> {
    let reached: BTreeMap<_, _> = uses.keys().map(|module| (module, reached_from(module, uses))).collect();
    let groups: BTreeSet<BTreeSet<ModulePath>> = uses
        .keys()
        .map(|module| {
            reached[module].iter().filter(|other| reached[*other].contains(module)).cloned().collect()
        })
        .collect();
    groups.into_iter().filter(|group: &BTreeSet<ModulePath>| group.len() > 1).collect()
}

fn reached_from(module: &ModulePath, uses: &Uses) -> BTreeSet<ModulePath> {
    let mut reached = BTreeSet::new();
    let mut next = vec![module];
    while let Some(module) = next.pop() {
        for other in &uses[module] {
            if reached.insert(other.clone()) {
                next.push(other);
            }
        }
    }
    reached
}
