//! Files that documentation and comments cite must be in the repository: a reader looks for them there.

use std::path::{Path, PathBuf};

/// What the repository's own files end in, where texts cite them.
const KINDS: [&str; 8] = ["rs", "md", "toml", "tla", "java", "go", "lua", "proto"];

/// The site, which is no file.
const NO_FILES: [&str; 1] = ["docs.rs"];

/// What is not searched: git's own, what was built, and the tests here, which cite what is nowhere.
const LEFT_OUT: [&str; 3] = [".git", "target", "cited.rs"];

/// Fails if a comment or a page names a file that is not here.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut files = Vec::new();
    list(root, root, &mut files)?;
    let mut missing = Vec::new();
    for file in files.iter().filter(|file| ["rs", "md"].contains(&kind(file))) {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let is_code = kind(file) == "rs";
        missing.extend(
            cited(&text, is_code)
                .into_iter()
                .filter(|(_, word)| !is_here(root, &files, file, word))
                .map(|(line, word)| format!("{file}:{line}: {word}")),
        );
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "files are cited that are not in the repository; name one that is, or say what it says:\n{}",
        missing.join("\n")
    ))
}

fn kind(file: &str) -> &str {
    file.rsplit_once('.').map_or("", |(_, kind)| kind)
}

/// All files below `folder`, by their paths from the root.
fn list(root: &Path, folder: &Path, files: &mut Vec<String>) -> Result<(), String> {
    let error = |error| format!("{}: {error}", folder.display());
    let mut entries: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(error)? {
        entries.push(entry.map_err(error)?.path());
    }
    entries.sort();
    for path in entries {
        if path.file_name().is_some_and(|name| LEFT_OUT.iter().any(|left_out| name == *left_out)) {
            continue;
        }
        if path.is_dir() {
            list(root, &path, files)?;
        } else {
            files.push(path.strip_prefix(root).unwrap_or(&path).display().to_string());
        }
    }
    Ok(())
}

/// Whether a word names a file: from the root, from beside the text, or by the end of its path.
fn is_here(root: &Path, files: &[String], text: &str, word: &str) -> bool {
    let beside = root.join(text).parent().map(|folder| folder.join(word));
    files.iter().any(|file| file == word || file.ends_with(&format!("/{word}")))
        || beside.is_some_and(|path| path.is_file())
}

/// The words of a text that look like files of ours, each with its line: in prose all kinds, in code only pages.
fn cited(text: &str, is_code: bool) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    let mut in_example = false;
    for (place, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']));
        let prose = if is_code { comment } else { Some(line) };
        match prose {
            Some(prose) if prose.trim_start().starts_with("```") => in_example = !in_example,
            Some(_) if in_example => {}
            Some(prose) => all.extend(words(prose, &KINDS).map(|word| (place + 1, word))),
            None => {
                in_example = false;
                all.extend(words(line, &["md"]).map(|word| (place + 1, word)));
            }
        }
    }
    all
}

fn words<'a>(line: &'a str, kinds: &'a [&str]) -> impl Iterator<Item = &'a str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    // What has a scheme is elsewhere; what has a wildcard or a variable is no one file.
    let pieces = line
        .split_whitespace()
        .filter(|piece| !["://", "*", "$", "{", "<", "~"].iter().any(|mark| piece.contains(mark)));
    let words = pieces.flat_map(move |piece| piece.split(move |c| !is_of_path(c)));
    words.map(|word| word.trim_end_matches('.')).filter(move |word| {
        let name = word.rsplit('/').next().unwrap_or_default();
        let stem = name.rsplit_once('.').map_or("", |(stem, _)| stem);
        // A path from the host's root is not ours.
        !stem.is_empty() && kinds.contains(&kind(name)) && !word.starts_with('/') && !NO_FILES.contains(word)
    })
}

#[cfg(test)]
mod tests {
    //! Plan: what is taken for a file and what is not; what of it is here; the repository itself.
    use super::*;

    #[test]
    fn files_are_found_in_prose_and_pages_also_in_code() {
        let text = "//! See docs/a.md, `src/b.rs`; and (c.toml).\n\
                    /// ```\n\
                    /// let d = include!(\"d.rs\");\n\
                    /// ```\n\
                    let e = (\"e.rs\", \"e.md\"); // not f.rs\n\
                    // https://example.com/g.md, /etc/h.toml, i-*.md, docs.rs, v1.2\n";
        assert_eq!(cited(text, true), [(1, "docs/a.md"), (1, "src/b.rs"), (1, "c.toml"), (5, "e.md")]);
        let page = "[one](docs/a.md) and `b.rs`.\n```sh\ncat c.md\n```\nd.tla\n";
        assert_eq!(cited(page, false), [(1, "docs/a.md"), (1, "b.rs"), (5, "d.tla")]);
    }

    #[test]
    fn a_file_is_found_from_the_root_from_beside_and_by_its_end() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let files = ["src/main.rs".to_owned(), "src/services/etcd.rs".to_owned()];
        let is_here = |word: &str| super::is_here(root, &files, "src/cited.rs", word);
        for word in ["src/main.rs", "main.rs", "services/etcd.rs", "../Cargo.toml", "cited.rs"] {
            assert!(is_here(word), "{word}");
        }
        for word in ["ain.rs", "etcd/main.rs", "gone.md"] {
            assert!(!is_here(word), "{word}");
        }
    }

    #[test]
    fn a_missing_file_is_told_with_its_place() {
        let root = std::env::temp_dir().join(format!("tenure-cited-{}", std::process::id()));
        std::fs::create_dir_all(root.join("docs")).unwrap();
        std::fs::write(root.join("docs/here.md"), "here.md, and\nthere.md\n").unwrap();
        let error = check(&root).unwrap_err();
        std::fs::remove_dir_all(&root).unwrap();
        assert!(error.ends_with(":\ndocs/here.md:2: there.md"), "{error}");
    }
}
