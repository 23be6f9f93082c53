//! The items of a source file, read as `cargo fmt` leaves them: an item begins a line, and `}` in its column ends it.

/// What stands before the name of a macro.
pub(super) const MACRO: &str = "macro_rules! ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemKind {
    Use,
    Impl,
    Macro,
    /// A type, a function, a module and the like, and what belongs to one.
    Other,
}

/// An item, or a part of one: a field, a variant, a method.
pub(super) struct Item {
    pub(super) kind: ItemKind,
    /// The modules within its file that enclose it.
    pub(super) modules: Vec<String>,
    /// What else encloses it, from outside: macros, types, variants.
    pub(super) owners: Vec<String>,
    /// Those that are shown.
    pub(super) attributes: Vec<String>,
    /// From its visibility on, without a body or a value.
    pub(super) text: String,
    /// Whether who can name what encloses it can name it, too.
    pub(super) is_public: bool,
    pub(super) is_hidden: bool,
    /// A macro that all crates can name.
    pub(super) is_exported: bool,
}

/// A name that a module brings in, and of what.
pub(super) struct Import {
    pub(super) path: Vec<String>,
    pub(super) name: String,
}

impl Item {
    /// What is shown of it, behind these attributes and its own.
    pub(super) fn line(&self, attributes: &[String]) -> String {
        let attributes = attributes.iter().chain(&self.attributes).map(String::as_str);
        attributes.chain([self.text.as_str()]).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn is_in_macro(&self) -> bool {
        self.owners.first().is_some_and(|owner| owner.starts_with(MACRO))
    }

    /// Of what kind it is, and its name, if its module has it: by itself, or by a macro that says the name.
    pub(super) fn declared(&self) -> Option<(&str, &str)> {
        let is_of_module = match self.owners.len() {
            0 => true,
            1 => self.is_public && self.is_in_macro(),
            _ => false,
        };
        if self.kind != ItemKind::Other || !is_of_module {
            return None;
        }
        let mut kind = None;
        for word in bare(&self.text).split(' ') {
            match word {
                "async" | "unsafe" | "extern" | "\"C\"" | "mut" => {}
                "fn" | "struct" | "enum" | "trait" | "mod" | "union" | "type" | "const" | "static" => {
                    kind = Some(word);
                }
                _ => return kind.map(|kind| (kind, name(word))).filter(|(_, name)| !name.is_empty()),
            }
        }
        None
    }

    /// What it brings in, if it is a `use`.
    pub(super) fn imports(&self) -> Vec<Import> {
        let mut found = Vec::new();
        if let Some(tree) = bare(&self.text).strip_prefix("use ") {
            leaves(tree, &[], &mut found);
        }
        found
    }
}

/// The leaves of a tree of `use`.
fn leaves(tree: &str, before: &[String], found: &mut Vec<Import>) {
    let tree = tree.trim();
    let path_of = |text: &str| -> Vec<String> {
        let own = text.split("::").map(str::trim).filter(|name| !name.is_empty());
        before.iter().cloned().chain(own.map(str::to_owned)).collect()
    };
    if let Some((path, group)) = tree.strip_suffix('}').and_then(|tree| tree.split_once('{')) {
        let before = path_of(path);
        parts(group).into_iter().for_each(|part| leaves(part, &before, found));
        return;
    }
    let (path, alias) = match tree.split_once(" as ") {
        Some((path, alias)) => (path, Some(alias.to_owned())),
        None => (tree, None),
    };
    let mut path = path_of(path);
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some(name) = alias.or_else(|| path.last().cloned()) {
        found.push(Import { path, name });
    }
}

/// What commas separate, but for those within braces.
fn parts(group: &str) -> Vec<&str> {
    let (mut depth, mut start, mut all) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                all.push(&group[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    all.push(&group[start..]);
    all.retain(|part| !part.trim().is_empty());
    all
}

/// The word that a text begins with.
fn name(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

/// An item without who may see it.
fn bare(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("pub") else { return text };
    let scoped = rest.strip_prefix('(').and_then(|scope| scope.split_once(')'));
    scoped.map_or(rest, |(_, rest)| rest).strip_prefix(' ').unwrap_or(text)
}

/// What an `impl` is of, without its parameters.
pub(super) fn header(text: &str) -> &str {
    let of = text.strip_prefix("impl").unwrap_or(text);
    let of = if of.starts_with('<') { of.split_once("> ").map_or(of, |(_, of)| of) } else { of };
    of.trim_start()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ItemBody {
    Module,
    Macro,
    /// All in it is public, as in an enum or a trait.
    Open,
    Other,
}

/// What encloses an item: in which column it began, and what it is called.
struct Around {
    column: usize,
    name: String,
    body: ItemBody,
}

/// Each item of a source, public or not, and each public part of one.
pub(super) fn items(source: &str) -> Vec<Item> {
    let (mut all, mut around, mut attributes): (Vec<Item>, Vec<Around>, Vec<&str>) = Default::default();
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
        if column == 0 && with.iter().any(|attribute| attribute.starts_with("#[cfg(test)]")) {
            if !text.ends_with([';', '}']) {
                lines.by_ref().take_while(|line| !line.starts_with('}')).for_each(drop);
            }
            continue;
        }
        let Some(kind) = kind_of(text, column, around.last()) else { continue };
        let is_part = is_part(text, column, around.last());
        let text = whole(text, kind, &mut lines);
        if text.ends_with('{') {
            around.push(Around { column, name: name_of(&text, kind), body: body_of(&text, kind, is_part) });
        }
        let above = |is_module: bool| -> Vec<String> {
            let above = around.iter().filter(|it| it.column < column);
            above.filter(|it| (it.body == ItemBody::Module) == is_module).map(|it| it.name.clone()).collect()
        };
        let is_shown = |attribute: &&&str| {
            ["#[non_exhaustive", "#[cfg(", "#[derive("].iter().any(|kind| attribute.starts_with(kind))
        };
        all.push(Item {
            kind,
            modules: above(true),
            owners: above(false),
            attributes: with.iter().filter(is_shown).map(|&attribute| attribute.to_owned()).collect(),
            is_public: is_part || text.starts_with("pub "),
            is_hidden: with.contains(&"#[doc(hidden)]"),
            is_exported: with.contains(&"#[macro_export]"),
            text: without_body(&text, kind),
        });
    }
    all
}

/// Whether a line begins a variant, a field of one, or something of a trait.
fn is_part(text: &str, column: usize, parent: Option<&Around>) -> bool {
    let is_open = parent.is_some_and(|parent| parent.body == ItemBody::Open && column == parent.column + 4);
    // What a macro repeats has no name.
    is_open && !text.starts_with(['}', ')', '$'])
}

/// What a line begins: None for what is within a body, or private to a type.
fn kind_of(text: &str, column: usize, parent: Option<&Around>) -> Option<ItemKind> {
    let is_of_module = match parent {
        None => column == 0,
        Some(parent) => parent.body == ItemBody::Module && column == parent.column + 4,
    };
    let is_within = parent.is_some_and(|parent| parent.body != ItemBody::Module);
    if !is_of_module && !is_within {
        return None;
    }
    let rest = bare(text);
    let words =
        ["mod", "struct", "enum", "trait", "union", "type", "fn", "const", "static", "async", "unsafe"];
    match () {
        () if text.starts_with(MACRO) => Some(ItemKind::Macro),
        () if text.starts_with("impl ") || text.starts_with("impl<") => {
            let is_in_macro = parent.is_some_and(|parent| parent.body == ItemBody::Macro);
            (is_of_module || is_in_macro).then_some(ItemKind::Impl)
        }
        () if rest.starts_with("use ") => (is_of_module || text.starts_with("pub ")).then_some(ItemKind::Use),
        () if text.starts_with("pub ") || is_part(text, column, parent) => Some(ItemKind::Other),
        () if is_of_module && words.contains(&rest.split(' ').next().unwrap_or(rest)) => {
            Some(ItemKind::Other)
        }
        () => None,
    }
}

/// Whether one of the first words of an item is this.
fn is(text: &str, word: &str) -> bool {
    bare(text).split(' ').take(4).any(|it| it == word)
}

/// An item up to its body or its end, in one line.
fn whole<'a>(text: &str, kind: ItemKind, lines: &mut impl Iterator<Item = &'a str>) -> String {
    let bodies = ["fn", "struct", "enum", "trait", "mod", "union"];
    let ends: &[char] = match kind {
        ItemKind::Use => &[';'],
        ItemKind::Impl | ItemKind::Macro => &['{', ';', '}'],
        ItemKind::Other if is_value(text) || is(text, "type") => &[';'],
        ItemKind::Other if bodies.iter().any(|body| is(text, body)) => &['{', ';', '}'],
        ItemKind::Other => &[',', '{', ';'],
    };
    let mut item = text.to_owned();
    while !item.ends_with(ends) {
        let Some(more) = lines.next() else { break };
        let more = more.trim_start();
        if !more.starts_with("//") {
            item = format!("{item}{}{more}", if item.ends_with(['(', '<', '[']) { "" } else { " " });
        }
    }
    item
}

fn is_value(text: &str) -> bool {
    is(text, "static") || is(text, "const") && !is(text, "fn")
}

/// A body or a value is nobody's business.
fn without_body(text: &str, kind: ItemKind) -> String {
    let text = text.trim_end_matches([' ', '{', ',', ';']).replace(",)", ")").replace(", )", ")");
    let body = match kind {
        ItemKind::Impl => " {",
        ItemKind::Other if is_value(&text) => " = ",
        ItemKind::Other if is(&text, "fn") => " {",
        _ => return text,
    };
    text.split(body).next().unwrap_or(&text).to_owned()
}

fn name_of(text: &str, kind: ItemKind) -> String {
    let text = text.trim_end_matches([' ', '{']);
    let name = match kind {
        ItemKind::Macro => text,
        ItemKind::Impl => header(text),
        _ => {
            let text = bare(text);
            let kinds = ["struct ", "enum ", "trait ", "mod ", "union "];
            let text = kinds.iter().find_map(|kind| text.strip_prefix(kind)).unwrap_or(text);
            text.split([':', '(']).next().unwrap_or(text)
        }
    };
    name.split(" where ").next().unwrap_or(name).trim().to_owned()
}

fn body_of(text: &str, kind: ItemKind, is_part: bool) -> ItemBody {
    match kind {
        ItemKind::Macro => ItemBody::Macro,
        ItemKind::Other if bare(text).starts_with("mod ") => ItemBody::Module,
        ItemKind::Other if is(text, "enum") || is(text, "trait") || is_part && !is(text, "fn") => {
            ItemBody::Open
        }
        _ => ItemBody::Other,
    }
}
