//! Files that documentation and comments cite must be in the repository, and so must tests and metrics that pages name: a reader looks for them
//! there. Tests may be told by what their names begin with. Each promise has one at least.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What the repository's own files end in, where texts cite them.
const KINDS: [&str; 8] = ["rs", "md", "toml", "tla", "java", "go", "lua", "proto"];

/// The site, which is no file.
const NO_FILES: [&str; 1] = ["docs.rs"];

/// What is not searched: git's own, what was built, and the tests here, which cite what is nowhere.
const LEFT_OUT: [&str; 3] = [".git", "target", "cited.rs"];

/// A name of so many parts is that of a test, or of a metric. A shorter one may be a word of a command or of another program.
const PARTS_OF_A_NAME: usize = 5;

/// What the names of several tests end in, where a page tells them all by what they begin with.
const REST: &str = "_…";

/// The page that names what there was once.
const OF_THE_PAST: &str = "CHANGELOG.md";

/// What the last column of a table of promises is called.
const OF_PROMISES: &str = "tests that guard it";

/// Fails if a comment or a page names a file that is not here, or a page links one that is not where the link leads, or names a test that is nowhere.
pub(crate) fn check(root: &Path) -> Result<(), String> {
    let mut files = Vec::new();
    list(root, root, &mut files)?;
    let mut missing = Vec::new();
    let (known, tests) = (code_words(root, &files), tests(root, &files));
    for file in files.iter().filter(|file| ["rs", "md"].contains(&kind(file))) {
        let path = root.join(file);
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let is_code = kind(file) == "rs";
        let folders = top_folders(&files);
        let mut gone: Vec<(usize, &str)> = Vec::new();
        gone.extend(cited(&text, is_code).into_iter().filter(|(_, word)| !is_here(root, &files, file, word)));
        gone.extend(
            quoted(&text, is_code, &folders).into_iter().filter(|(_, path)| !is_above(root, file, path)),
        );
        if !is_code {
            let beside = root.join(file).parent().map_or_else(|| root.to_owned(), Path::to_owned);
            gone.extend(linked(&text).into_iter().filter(|(_, path)| !beside.join(path).exists()));
        }
        if !is_code && file != OF_THE_PAST {
            gone.extend(long_names(&text).into_iter().filter(|(_, name)| !known.contains(*name)));
            gone.extend(beginnings(&text).into_iter().filter(|(_, word)| !begins_one(word, &tests)));
            gone.extend(untested(&text, &tests));
        }
        gone.sort_unstable();
        gone.dedup();
        missing.extend(gone.into_iter().map(|(line, word)| format!("{file}:{line}: {word}")));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(format!(
        "files or tests are cited that are not in the repository; name one that is, or say what it says:\n{}",
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
    let end = format!("/{word}");
    files.iter().any(|file| file == word || file.ends_with(&end)) || beside.is_some_and(|path| path.is_file())
}

/// Whether a path is there from the root, or from another folder above the text.
fn is_above(root: &Path, text: &str, path: &str) -> bool {
    Path::new(text).ancestors().any(|folder| root.join(folder).join(path).exists())
}

/// What a line of a text is.
enum TextLine<'a> {
    Prose(&'a str),
    Code(&'a str),
}

/// The lines of a text without its examples, each with its number. In a page all is prose, in code the comments are.
fn lines(text: &str, is_code: bool) -> Vec<(usize, TextLine<'_>)> {
    let mut all = Vec::new();
    let mut in_example = false;
    for (place, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']));
        let prose = if is_code { comment } else { Some(line) };
        match prose {
            Some(prose) if prose.trim_start().starts_with("```") => in_example = !in_example,
            Some(_) if in_example => {}
            Some(prose) => all.push((place + 1, TextLine::Prose(prose))),
            None => {
                in_example = false;
                all.push((place + 1, TextLine::Code(line)));
            }
        }
    }
    all
}

/// The words of a text that look like files of ours, each with its line: in prose all kinds, in code only pages.
fn cited(text: &str, is_code: bool) -> Vec<(usize, &str)> {
    let of = |(place, line)| {
        let (line, kinds) = match line {
            TextLine::Prose(line) => (line, &KINDS[..]),
            TextLine::Code(line) => (line, &["md"][..]),
        };
        words(line, kinds).map(move |word| (place, word))
    };
    lines(text, is_code).into_iter().flat_map(of).collect()
}

/// The folders that the repository begins with.
fn top_folders(files: &[String]) -> BTreeSet<&str> {
    files.iter().filter_map(|file| file.split_once('/').map(|(folder, _)| folder)).collect()
}

/// What stands in backticks in prose and begins with a folder of the repository, of any kind: a path from its root, or from a folder of its own.
fn quoted<'a>(text: &'a str, is_code: bool, folders: &BTreeSet<&str>) -> Vec<(usize, &'a str)> {
    let mut all = Vec::new();
    for (place, line) in lines(text, is_code) {
        let TextLine::Prose(line) = line else { continue };
        let paths = line.split('`').skip(1).step_by(2).filter(|path| {
            let begins = path.split_once('/').is_some_and(|(folder, _)| folders.contains(folder));
            begins && path.chars().all(|c| c.is_ascii_alphanumeric() || "_./-".contains(c))
        });
        all.extend(paths.map(|path| (place, path)));
    }
    all
}

/// Where the links of a page lead, as paths from beside it. What has a scheme, or names an item of code, leads elsewhere.
fn linked(text: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    for (place, line) in lines(text, false) {
        let TextLine::Prose(line) = line else { continue };
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let paths = targets.filter_map(|target| target.split('#').next());
        let is_path = |path: &&str| path.contains(['/', '.']) && !path.contains(':');
        all.extend(paths.filter(is_path).map(|path| (place, path)));
    }
    all
}

/// The names of a page in backticks that have as many parts as those of tests have.
fn long_names(text: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    for (place, line) in lines(text, false) {
        let TextLine::Prose(line) = line else { continue };
        let quoted = line.split('`').skip(1).step_by(2).map(|word| word.rsplit("::").next().unwrap_or(word));
        all.extend(quoted.filter(|word| is_long_name(word)).map(|word| (place, word)));
    }
    all
}

fn is_long_name(word: &str) -> bool {
    word.split('_').count() >= PARTS_OF_A_NAME && is_name(word)
}

fn is_name(word: &str) -> bool {
    let is_part =
        |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    word.split('_').all(is_part)
}

/// What a page has in backticks that tells several tests by what they begin with.
fn beginnings(text: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    for (place, line) in lines(text, false) {
        let TextLine::Prose(line) = line else { continue };
        let quoted = line.split('`').skip(1).step_by(2);
        all.extend(
            quoted.filter(|word| word.strip_suffix(REST).is_some_and(is_name)).map(|word| (place, word)),
        );
    }
    all
}

fn begins_one(word: &str, tests: &BTreeSet<String>) -> bool {
    let begin = word.trim_end_matches('…');
    tests.iter().any(|test| test.starts_with(begin))
}

/// Promises that no test is named after, and rows of their tables that name no test.
fn untested<'a>(text: &'a str, tests: &BTreeSet<String>) -> Vec<(usize, &'a str)> {
    let mut all = Vec::new();
    let mut in_table = false;
    for (place, line) in text.lines().enumerate() {
        let cells = line.strip_prefix('|').and_then(|line| line.trim_end().strip_suffix('|'));
        let Some(cells) = cells.map(|cells| cells.split('|').map(str::trim).collect::<Vec<_>>()) else {
            in_table = false;
            continue;
        };
        let (first, last) = (cells.first().copied().unwrap_or(""), cells.last().copied().unwrap_or(""));
        if last == OF_PROMISES {
            in_table = true;
        } else if in_table && !last.starts_with("---") {
            let promise = first.trim_matches('*');
            let is_guarded =
                promise.is_empty() || begins_one(&format!("{}{REST}", promise.to_lowercase()), tests);
            if !is_guarded || long_names(last).is_empty() && beginnings(last).is_empty() {
                all.push((place + 1, if promise.is_empty() { "a promise without a test" } else { promise }));
            }
        }
    }
    all
}

/// The names of all tests.
fn tests(root: &Path, files: &[String]) -> BTreeSet<String> {
    let code = files.iter().filter(|file| ["rs", "py"].contains(&kind(file)));
    let texts = code.filter_map(|file| Some((kind(file), std::fs::read_to_string(root.join(file)).ok()?)));
    texts.flat_map(|(kind, text)| tests_of(kind, &text)).collect()
}

fn tests_of(kind: &str, text: &str) -> Vec<String> {
    let name = |after: &str| {
        after.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or("").to_owned()
    };
    let mut is_test = kind == "py";
    let mut all = Vec::new();
    for line in text.lines().map(str::trim_start) {
        match (kind, line.strip_prefix("#[")) {
            ("rs", Some(attribute)) => {
                let path = attribute.split(['(', ']']).next().unwrap_or("");
                is_test |= path.rsplit("::").next() == Some("test");
            }
            ("rs", None) => {
                if let Some((_, after)) = line.split_once("fn ").filter(|_| is_test) {
                    all.push(name(after));
                }
                // Between an attribute and its function are others, which may go over lines, and comments.
                is_test &= !line.contains("fn ") && !line.ends_with(['{', '}', ';']);
            }
            ("py", _) => all.extend(
                line.split_once("def ")
                    .filter(|(before, _)| ["", "async "].contains(before))
                    .map(|(_, after)| name(after)),
            ),
            _ => {}
        }
    }
    all
}

/// All words of such names in files that are no pages. What is no text has none.
fn code_words(root: &Path, files: &[String]) -> BTreeSet<String> {
    let code = files.iter().filter(|file| kind(file) != "md");
    let texts = code.filter_map(|file| std::fs::read_to_string(root.join(file)).ok());
    let words = |text: String| {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.filter(|word| is_long_name(word)).map(str::to_owned).collect::<Vec<_>>()
    };
    texts.flat_map(words).collect()
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
    //! Plan: what is taken for a file, for a path of the repository and for a link, and what is not; what of it is here; that what
    //! is missing is told; what a test is, by what tests are told together, and promises without one.
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
    fn paths_in_backticks_are_of_any_kind_and_begin_with_a_folder_of_ours() {
        let folders = ["docs", "crates"].into();
        let text = "//! `docs/design`, `crates/a/run.sh`, `fleet/look`, crates/plain, `docs/*.md`, `docs/x y`\n\
                    let code = \"`docs/gone`\";\n\
                    /// ```\n\
                    /// `docs/example`\n\
                    /// ```\n";
        assert_eq!(quoted(text, true, &folders), [(1, "docs/design"), (1, "crates/a/run.sh")]);
    }

    #[test]
    fn links_are_followed_unless_they_lead_elsewhere() {
        let page = "[a](../b.md#part), [c](folder/d) and [e](f.sh)\n\
                    [g](#here), [h](https://example.com/i.md), [`J`](crate::k::J), [l](L)\n";
        assert_eq!(linked(page), [(1, "../b.md"), (1, "folder/d"), (1, "f.sh")]);
    }

    #[test]
    fn a_missing_file_is_told_with_its_place() {
        let root = std::env::temp_dir().join(format!("tenure-cited-{}", std::process::id()));
        std::fs::create_dir_all(root.join("docs")).unwrap();
        // The file is in the repository, but not where the link leads.
        let page = "here.md, and\nthere.md,\n`docs/gone`,\n[here](docs/here.md)\n[here](here.md)\n\
                    `a_test_that_is_here`, `m::a_test_that_is_gone`, `of_four_parts_only`, a_test_that_is_bare\n";
        std::fs::write(root.join("docs/here.md"), page).unwrap();
        std::fs::write(root.join("docs/t.py"), "def a_test_that_is_here():").unwrap();
        std::fs::write(root.join(OF_THE_PAST), "`a_test_that_is_gone`").unwrap();
        let error = check(&root).unwrap_err();
        std::fs::remove_dir_all(&root).unwrap();
        let told = ":\ndocs/here.md:2: there.md\ndocs/here.md:3: docs/gone\ndocs/here.md:4: docs/here.md\n\
                    docs/here.md:6: a_test_that_is_gone";
        assert!(error.ends_with(told), "{error}");
    }

    #[test]
    fn tests_are_functions_that_say_so() {
        let code = "#[test]\nfn one() {\n}\nfn helper() {}\n#[tokio::test(\n    flavor = \"x\"\n)]\n// Why.\n#[cfg(unix)]\nasync fn two() {}\n\
                    #[cfg(test)]\nmod tests {\n    fn three() {}\n    #[test]\n    fn four() {}\n}\n#[test_log::test]\npub fn five() {}\n";
        assert_eq!(tests_of("rs", code), ["one", "two", "four", "five"]);
        assert_eq!(tests_of("py", "    def six(self):\nasync def seven():\nundef eight"), ["six", "seven"]);
        assert_eq!(tests_of("md", "#[test]\nfn nine() {}"), Vec::<String>::new());
    }

    #[test]
    fn a_beginning_is_one_of_a_test_and_a_promise_has_one() {
        let tests: BTreeSet<String> = ["s1_one_holds".to_owned(), "s10_ten".to_owned()].into();
        let page = "`s1_…`, `s1_one_…`, `s1_two_…`, `s_…`, s2_…, `tenure …`, `s1_o…`, `s1`\n";
        assert_eq!(
            beginnings(page).iter().map(|(_, word)| *word).collect::<Vec<_>>(),
            ["s1_…", "s1_one_…", "s1_two_…", "s_…"]
        );
        let begins = |word: &str| begins_one(word, &tests);
        assert!(begins("s1_…") && begins("s1_one_…") && begins("s10_…"));
        // A promise's letter is whole, and what a name begins with is, too.
        assert!(!begins("s1_two_…") && !begins("s1_on_…") && !begins("s_…") && !begins("s0_…"));
        let table = "| | promise | tests that guard it |\n|---|---|---|\n| **S1** | a | `s1_…` |\n| | b | `s1_one_…` (x) |\n\
                     | **S2** | c | `s1_…` |\n| **S10** | d | none |\n| | e | |\n\n| **S3** | f | |\n";
        assert_eq!(untested(table, &tests), [(5, "S2"), (6, "S10"), (7, "a promise without a test")]);
    }
}
