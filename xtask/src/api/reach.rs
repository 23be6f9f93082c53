//! What users of a library can name: by its public modules, and by what these export.

use super::items::{Import, Item, ItemKind, header};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Where a module is in its library, or by which path something is named.
pub(super) type ModulePath = Vec<String>;

/// The items of each module.
pub(super) type Modules = BTreeMap<ModulePath, Vec<Item>>;

/// The module that declares an item, and its name there.
type Place = (ModulePath, String);

/// More exports of exports than any item has.
const MOST_EXPORTS: usize = 8;

/// The listing of a library. Implementations are shown of what users can name, and of no trait of the crate's own.
pub(super) fn listing(modules: &Modules) -> String {
    let library = CrateModules::of(modules);
    let mut walk = Walk::default();
    library.walk(&mut walk);
    let Walk { mut lines, shown, .. } = walk;
    let homes = library.show_items(shown, &mut lines);
    library.show_parts(&homes, &mut lines);
    let line = |(of, item): (String, String)| {
        if of.is_empty() { format!("{item}\n") } else { format!("{of}: {item}\n") }
    };
    lines.into_iter().map(line).collect()
}

struct CrateModules<'a> {
    modules: &'a Modules,
    /// With the kind of each: a function may be called as a type is.
    declared: BTreeMap<Place, Vec<(&'a str, &'a Item)>>,
    imports: BTreeMap<ModulePath, Vec<Import>>,
}

/// Where an item is that a module has by some name.
enum NamedItem {
    Here(Place),
    /// In another crate, by this path.
    Abroad(ModulePath),
}

/// One path by which users can name an item.
struct Showing {
    path: ModulePath,
    name: String,
    /// Those of the export.
    attributes: Vec<String>,
}

#[derive(Default)]
struct Walk {
    lines: Lines,
    shown: BTreeMap<Place, Vec<Showing>>,
    /// Modules, and the paths by which users name them.
    next: VecDeque<(ModulePath, ModulePath)>,
}

/// Lines, each with what it belongs to.
type Lines = BTreeSet<(String, String)>;

/// The path by which users name the module of an item.
type Homes = BTreeMap<Place, ModulePath>;

impl<'a> CrateModules<'a> {
    fn of(modules: &'a Modules) -> CrateModules<'a> {
        let mut declared: BTreeMap<Place, Vec<(&str, &Item)>> = BTreeMap::new();
        let mut imports: BTreeMap<ModulePath, Vec<Import>> = BTreeMap::new();
        for (module, items) in modules {
            for item in items {
                if let Some((kind, name)) = item.declared() {
                    declared.entry((module.clone(), name.to_owned())).or_default().push((kind, item));
                }
                if item.kind == ItemKind::Use && item.owners.is_empty() {
                    imports.entry(module.clone()).or_default().extend(item.imports());
                }
            }
        }
        CrateModules { modules, declared, imports }
    }

    /// A path from the root of the library; None for one into another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<ModulePath> {
        let (first, rest) = path.split_first()?;
        let up = path.iter().take_while(|name| *name == "super").count();
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "self" => Some([module, rest].concat()),
            "super" => Some([&module[..module.len().checked_sub(up)?], &path[up..]].concat()),
            _ => {
                let own = [module, path].concat();
                let is_own = self.modules.contains_key(&own[..=module.len()])
                    || self.declared.contains_key(&(module.to_vec(), first.clone()));
                is_own.then_some(own)
            }
        }
    }

    /// What a module has by this name. What is brought in and declared nowhere is taken for a macro's.
    fn find(&self, module: &[String], name: &str, exports: usize) -> Option<NamedItem> {
        let place = (module.to_vec(), name.to_owned());
        if self.declared.contains_key(&place) {
            return Some(NamedItem::Here(place));
        }
        if exports > MOST_EXPORTS {
            return None;
        }
        let imports = self.imports.get(module).map(Vec::as_slice).unwrap_or_default();
        if let Some(import) = imports.iter().find(|import| import.name == name) {
            let Some(target) = self.absolute(module, &import.path) else {
                return Some(NamedItem::Abroad(import.path.clone()));
            };
            let (last, parent) = target.split_last()?;
            let found = self.find(parent, last, exports + 1);
            return Some(found.unwrap_or_else(|| NamedItem::Here((parent.to_vec(), last.clone()))));
        }
        imports.iter().filter(|import| import.name == "*").find_map(|import| {
            let (_, of) = import.path.split_last()?;
            let target = self.absolute(module, of).filter(|target| target != module)?;
            self.find(&target, name, exports + 1)
        })
    }

    /// What a module means by the name of a type or a trait, with or without a path and parameters.
    fn resolved(&self, module: &[String], text: &str) -> Option<NamedItem> {
        let head = text.trim_start_matches('&').split(['<', ' ']).next()?;
        let path: ModulePath = head.split("::").map(str::to_owned).collect();
        let (last, before) = path.split_last()?;
        if before.is_empty() {
            return self.find(module, last, 0);
        }
        let parent = self.absolute(module, before)?;
        let found = self.find(&parent, last, 0);
        Some(found.unwrap_or_else(|| NamedItem::Here((parent, last.clone()))))
    }

    fn has_module(&self, parent: &[String], name: &str, is_public: bool) -> bool {
        let declared = self.declared.get(&(parent.to_vec(), name.to_owned()));
        let is_module = |(kind, item): &(&str, &Item)| *kind == "mod" && (item.is_public || !is_public);
        declared.is_some_and(|all| all.iter().any(is_module))
    }

    /// Whether it is a part of the library, and not of its tests.
    fn is_built(&self, module: &[String]) -> bool {
        (0..module.len()).all(|at| self.has_module(&module[..at], &module[at], false))
    }

    /// Goes through all modules that users can name.
    fn walk(&self, walk: &mut Walk) {
        let mut seen = BTreeSet::new();
        walk.next.push_back((Vec::new(), Vec::new()));
        while let Some((module, path)) = walk.next.pop_front() {
            if !seen.insert((module.clone(), path.clone())) {
                continue;
            }
            let items = self.modules.get(&module).into_iter().flatten();
            for item in items.filter(|item| item.is_public && !item.is_hidden) {
                if item.kind == ItemKind::Use && item.owners.is_empty() {
                    self.export(&module, &path, item, walk);
                    continue;
                }
                match item.declared() {
                    Some(("mod", name)) => {
                        walk.lines.insert((path.join("::"), item.line(&[])));
                        walk.next.push_back((below(&module, name), below(&path, name)));
                    }
                    Some((_, name)) => {
                        let (path, name) = (path.clone(), name.to_owned());
                        let place = (module.clone(), name.clone());
                        let showing = Showing { path, name, attributes: Vec::new() };
                        walk.shown.entry(place).or_default().push(showing);
                    }
                    None => {}
                }
            }
        }
    }

    /// What a `pub use` in a module adds that users name by `path`.
    fn export(&self, module: &[String], path: &[String], item: &Item, walk: &mut Walk) {
        let imports = item.imports();
        if imports.iter().any(|import| self.absolute(module, &import.path).is_none()) {
            walk.lines.insert((path.join("::"), item.line(&[])));
            return;
        }
        let behind = |text: String| {
            let words: Vec<String> = item.attributes.iter().cloned().chain([text]).collect();
            (path.join("::"), words.join(" "))
        };
        for Import { path: from, name } in imports {
            let Some(target) = self.absolute(module, &from) else { continue };
            let Some((last, parent)) = target.split_last() else { continue };
            if last == "*" {
                walk.next.push_back((parent.to_vec(), path.to_vec()));
                continue;
            }
            let is_module = self.has_module(parent, last, true);
            if is_module {
                walk.lines.insert(behind(format!("pub mod {name}")));
                walk.next.push_back((target.clone(), below(path, &name)));
            }
            let place = match self.find(parent, last, 0) {
                Some(NamedItem::Here(place)) => place,
                Some(NamedItem::Abroad(from)) => {
                    walk.lines.insert(behind(format!("pub use {}", from.join("::"))));
                    continue;
                }
                None => (parent.to_vec(), last.clone()),
            };
            let declared = self.declared.get(&place).map(Vec::as_slice).unwrap_or_default();
            if declared.is_empty() || declared.iter().any(|(kind, _)| *kind != "mod") {
                let attributes = item.attributes.clone();
                let showing = Showing { path: path.to_vec(), name, attributes };
                walk.shown.entry(place).or_default().push(showing);
            }
        }
    }

    /// Shows each item by its shortest path, and what its other paths are.
    fn show_items(&self, shown: BTreeMap<Place, Vec<Showing>>, lines: &mut Lines) -> Homes {
        let mut homes = Homes::new();
        for (place, mut showings) in shown {
            showings.sort_by_cached_key(|it| (it.path.len(), it.path.clone(), it.name.clone()));
            showings.dedup_by(|one, other| (&one.path, &one.name) == (&other.path, &other.name));
            let mut showings = showings.into_iter();
            let Some(first) = showings.next() else { continue };
            let declared = self.declared.get(&place).map(Vec::as_slice).unwrap_or_default();
            let items = declared.iter().filter(|(kind, _)| *kind != "mod");
            let mut texts: Vec<String> = items.map(|(_, item)| item.line(&first.attributes)).collect();
            if texts.is_empty() {
                // A macro makes it, whose lines tell more.
                let (module, name) = &place;
                let text = format!("pub use {}", below(module, name).join("::"));
                texts.push([first.attributes.as_slice(), &[text]].concat().join(" "));
            }
            lines.extend(texts.into_iter().map(|text| (first.path.join("::"), text)));
            let name = below(&first.path, &first.name).join("::");
            for Showing { path, attributes, .. } in showings {
                let text = [attributes.as_slice(), &[format!("pub use crate::{name}")]].concat().join(" ");
                lines.insert((path.join("::"), text));
            }
            homes.insert(place, first.path);
        }
        homes
    }

    /// Shows what belongs to the items that are shown: fields, variants, methods, implementations; and exported macros.
    fn show_parts(&self, homes: &Homes, lines: &mut Lines) {
        for (module, items) in self.modules.iter().filter(|(module, _)| self.is_built(module)) {
            for item in items.iter().filter(|item| !item.is_hidden) {
                let of = match item.kind {
                    ItemKind::Use => None,
                    ItemKind::Macro => item.is_exported.then(String::new),
                    ItemKind::Impl => self.owner_of_impl(module, item, homes),
                    ItemKind::Other => self.owner_of_part(module, item, homes),
                };
                lines.extend(of.map(|of| (of, item.line(&[]))));
            }
        }
    }

    /// The path by which users name the module of what is called so here.
    fn home<'h>(&self, module: &[String], name: &str, homes: &'h Homes) -> Option<&'h ModulePath> {
        match self.resolved(module, name)? {
            NamedItem::Here(place) => homes.get(&place),
            NamedItem::Abroad(_) => None,
        }
    }

    fn owner_of_impl(&self, module: &[String], item: &Item, homes: &Homes) -> Option<String> {
        let (what, of) = header(&item.text).split_once(" for ")?;
        if let Some(NamedItem::Here(place)) = self.resolved(module, what)
            && self.declared.contains_key(&place)
            && !homes.contains_key(&place)
        {
            return None;
        }
        let home = self.home(module, of, homes);
        if item.is_in_macro() && (home.is_some() || of.starts_with('$')) {
            return item.owners.first().cloned();
        }
        // Of what is another crate's, it may be shown for what it does with the own.
        let mut words = what.split(|c: char| !c.is_alphanumeric() && c != '_');
        let home = match (home, self.resolved(module, of)) {
            (None, Some(NamedItem::Here(_))) => None,
            (None, _) => words.find_map(|word| self.home(module, word, homes)),
            (home, _) => home,
        };
        home.map(|home| home.join("::"))
    }

    fn owner_of_part(&self, module: &[String], item: &Item, homes: &Homes) -> Option<String> {
        if !item.is_public {
            return None;
        }
        let (made_by, owners) = match item.owners.split_first() {
            Some((name, owners)) if item.is_in_macro() => (Some(name), owners),
            _ => (None, item.owners.as_slice()),
        };
        match (made_by, owners.first()) {
            // One without a name of its own: with one, it is an item of its module.
            (Some(name), None) => item.text.contains('$').then(|| name.clone()),
            (Some(name), Some(owner)) if owner.starts_with('$') => {
                Some(format!("{name}: {}", owners.join("::")))
            }
            (_, Some(owner)) => {
                let home = self.home(module, owner, homes)?;
                Some([home.as_slice(), owners].concat().join("::"))
            }
            (None, None) => None,
        }
    }
}

fn below(path: &[String], name: &str) -> ModulePath {
    [path, &[name.to_owned()]].concat()
}
