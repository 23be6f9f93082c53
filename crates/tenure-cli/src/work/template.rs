//! What stands for a unit in the words of a command, as GNU parallel has it.

use std::borrow::Cow;

/// The tokens, the longer ones before those that they begin with.
const TOKENS: [(&[u8], Part); 7] = [
    (b"{}", Part::Whole),
    (b"{.}", Part::WithoutExtension),
    (b"{//}", Part::Directory),
    (b"{/.}", Part::BaseWithoutExtension),
    (b"{/}", Part::Base),
    (b"{#}", Part::Number),
    (b"{%}", Part::Slot),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    WithoutExtension,
    Base,
    Directory,
    BaseWithoutExtension,
    Number,
    Slot,
}

/// A unit as it is put into a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filling<'a> {
    pub(crate) unit: &'a [u8],
    /// The number of its line or argument, from 1; none leaves `{#}` as it is.
    pub(crate) number: Option<usize>,
    /// Where it runs, from 1 to how many run at a time; none leaves `{%}` as it is.
    pub(crate) slot: Option<usize>,
}

impl Filling<'_> {
    /// The word with all tokens replaced; none if there are none in it. What is put in is not looked at again.
    pub(crate) fn fill(&self, word: &[u8]) -> Option<Vec<u8>> {
        fill_by(word, |part| self.part(part).map(Cow::into_owned))
    }

    /// The same for several units, with blanks between what stands for each.
    pub(crate) fn fill_all(each: &[Filling<'_>], word: &[u8]) -> Option<Vec<u8>> {
        fill_by(word, |part| {
            let most = if [Part::Number, Part::Slot].contains(&part) { 1 } else { each.len() };
            let parts: Option<Vec<_>> = each.iter().take(most).map(|one| one.part(part)).collect();
            Some(parts?.join(&b' '))
        })
    }

    /// Whether a word is a token, and nothing beside it.
    pub(crate) fn is_token(word: &[u8]) -> bool {
        TOKENS.iter().any(|(token, part)| word == *token && ![Part::Number, Part::Slot].contains(part))
    }

    fn part(&self, part: Part) -> Option<Cow<'_, [u8]>> {
        let unit = self.unit;
        Some(match part {
            Part::Whole => unit.into(),
            Part::WithoutExtension => without_extension(unit).into(),
            Part::Base => base(unit).into(),
            Part::Directory => directory(unit).into(),
            Part::BaseWithoutExtension => without_extension(base(unit)).into(),
            Part::Number => self.number?.to_string().into_bytes().into(),
            Part::Slot => self.slot?.to_string().into_bytes().into(),
        })
    }
}

/// Tokens are replaced by what they stand for, unless that is nothing.
fn fill_by(word: &[u8], part_of: impl Fn(Part) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut rest, mut has_any) = (word, false);
    while let Some(at) = rest.iter().position(|byte| *byte == b'{') {
        let (before, from) = rest.split_at(at);
        out.extend_from_slice(before);
        let found =
            TOKENS.iter().find_map(|(token, part)| Some((from.strip_prefix(*token)?, part_of(*part)?)));
        rest = match found {
            Some((after, text)) => {
                has_any = true;
                out.extend_from_slice(&text);
                after
            }
            None => {
                out.push(b'{');
                from.get(1..).unwrap_or_default()
            }
        };
    }
    out.extend_from_slice(rest);
    has_any.then_some(out)
}

fn base(unit: &[u8]) -> &[u8] {
    unit.rsplit(|byte| *byte == b'/').next().unwrap_or(unit)
}

/// As dirname(1) has it: slashes at the end belong to the last part.
fn directory(unit: &[u8]) -> &[u8] {
    let path = without_slashes(unit);
    match path.iter().rposition(|byte| *byte == b'/') {
        None if path.is_empty() && !unit.is_empty() => b"/",
        None => b".",
        Some(at) => match without_slashes(path.get(..at).unwrap_or(path)) {
            b"" => b"/",
            directory => directory,
        },
    }
}

fn without_slashes(path: &[u8]) -> &[u8] {
    let last = path.iter().rposition(|byte| *byte != b'/');
    last.and_then(|last| path.get(..=last)).unwrap_or_default()
}

/// Without the last dot of its last part and what follows that, if anything does.
fn without_extension(unit: &[u8]) -> &[u8] {
    let dot = unit.iter().rposition(|byte| *byte == b'.');
    let cut = dot.and_then(|at| Some((unit.get(..at)?, unit.get(at + 1..)?)));
    match cut {
        Some((before, extension)) if !extension.is_empty() && !extension.contains(&b'/') => before,
        _ => unit,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(word: &str, unit: &str) -> Option<String> {
        let filled = Filling { unit: unit.as_bytes(), number: Some(7), slot: Some(2) }.fill(word.as_bytes());
        filled.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn tokens_stand_for_parts_of_the_unit() {
        for (word, filled) in [
            ("{}", "d/a.tar.gz"),
            ("{.}", "d/a.tar"),
            ("{/}", "a.tar.gz"),
            ("{//}", "d"),
            ("{/.}", "a.tar"),
            ("{#}", "7"),
            ("{%}", "2"),
            ("{//}/{#}-{/.}.{", "d/7-a.tar.{"),
            ("{{}}", "{d/a.tar.gz}"),
        ] {
            assert_eq!(fill(word, "d/a.tar.gz").as_deref(), Some(filled), "{word}");
        }
        assert_eq!(fill("{x} { } {", "u"), None);
        let directories = [
            ("", "."),
            ("a", "."),
            ("a/", "."),
            ("/a", "/"),
            ("//a", "/"),
            ("/", "/"),
            ("a//b", "a"),
            ("a/b/", "a"),
        ];
        for (unit, directory) in directories {
            assert_eq!(fill("{//}", unit).as_deref(), Some(directory), "{unit}");
        }
        assert_eq!((fill("{.}", "a.b/c"), fill("{.}", "c.")), (Some("a.b/c".into()), Some("c.".into())));
        assert_eq!(fill("{}", "{.}"), Some("{.}".into()), "what is put in is not looked at again");
        assert_eq!(Filling { unit: b"u", number: None, slot: None }.fill(b"{#}{%}"), None);
    }
}
