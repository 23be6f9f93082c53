//! Clients in other languages, against the agent that has been built with the tests. That for Python is run by its tests, the others
//! by the pages that say how each is generated and what is added to it.

use crate::services;
use crate::step::CheckStep;
use crate::workspace::built;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where they are, from the workspace's root.
const CLIENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../clients");

/// Where the pages are.
const PAGES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/clients");

/// The languages that have a page, and what has the toolchain of each here, besides the JDK and Maven that the generator takes.
const LANGUAGES: [(&str, Need); 3] =
    [("go", services::need_go), ("java", services::need_java), ("node", services::need_node)];

/// Runs the tests of one file of the client for Python. Python ends well where there are none.
const PYTHON_TESTS: &str = "\
import sys, unittest
words = ['unittest', 'discover', '-s', 'tests', '-p', sys.argv[1]]
result = unittest.main(module=None, argv=words, exit=False).result
if not result.wasSuccessful():
    sys.exit(1)
if result.testsRun <= len(result.skipped):
    sys.exit('no test of ' + sys.argv[1] + ' was run')
";

/// What a JVM is told that lives for seconds: what the second compiler and a second collector do for it costs more than it saves.
const JVM: &str = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC";

/// Has something here, or says what is missing.
type Need = fn() -> Result<(), String>;

/// The toolchain of each language, and the files of its page: before anything of it is run.
pub(crate) fn lay_outs() -> Vec<CheckStep> {
    let of = |(language, need): (&'static str, Need)| {
        CheckStep::check(format!("toolchain and page for {language}"), move || {
            services::need_java()?;
            need()?;
            lay_out(language)
        })
    };
    LANGUAGES.map(of).into()
}

/// The tests of each, with this command line. They wait out some ttls of seconds, and fetch what they build with.
pub(crate) fn checks(program: &Path) -> Result<Vec<CheckStep>, String> {
    let folder = Path::new(CLIENTS).join("python");
    let mut steps = Vec::new();
    // One after the other they wait for minutes.
    for file in python_tests(&folder.join("tests"))? {
        let mut python = Command::new("python3");
        python.args(["-c", PYTHON_TESTS, &file]).current_dir(&folder);
        python.env("TENURE_PROGRAM", program);
        steps.push(CheckStep::command(format!("client for Python, {file}"), python));
    }
    for (language, _) in LANGUAGES {
        steps.push(run(language, program)?);
    }
    Ok(steps)
}

/// The files of tests in a folder: all whose names begin as such, and it is a mistake if another one has a test, which nobody would run.
fn python_tests(folder: &Path) -> Result<Vec<String>, String> {
    let error = |error| format!("{}: {error}", folder.display());
    let is_test = |line: &str| line.starts_with("def test_") || line.starts_with("async def test_");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What Python has compiled is in a folder.
        if path.extension().is_none_or(|extension| extension != "py") {
            continue;
        }
        let text = std::fs::read_to_string(&path).map_err(error)?;
        if name.starts_with("test_") {
            files.push(name);
        } else if text.lines().any(|line| is_test(line.trim_start())) {
            return Err(format!("{}: it has tests, and its name does not begin with test_", path.display()));
        }
    }
    files.sort();
    if files.is_empty() { Err(format!("{}: there are no tests", folder.display())) } else { Ok(files) }
}

fn folder(language: &str) -> PathBuf {
    built().join("clients").join(language)
}

/// Writes the files of a page to its folder, and its commands to one script.
fn lay_out(language: &str) -> Result<(), String> {
    let page = Path::new(PAGES).join(format!("{language}.md"));
    let text = std::fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let folder = folder(language);
    // What an earlier run left there; that there was none is no mistake.
    let _ = std::fs::remove_dir_all(&folder);
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))
    };
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    // Whatever fails, nobody is left.
    let mut script = "trap 'kill $(ps -o pid= --ppid $$) 2> /dev/null || true' EXIT\n".to_owned();
    for (head, body) in blocks(&text) {
        match head.split_once(' ') {
            None if head == "sh" => script += &format!("{body}\n"),
            Some((_, name)) => write(name, &format!("{body}\n"))?,
            None => return Err(format!("{}: a block of {head} has no name", page.display())),
        }
    }
    write("page.sh", &script)
}

/// The blocks of code of a page: what stands beside the fence, and what is inside.
fn blocks(page: &str) -> impl Iterator<Item = (&str, &str)> {
    let rest = page.split("\n```").skip(1).step_by(2);
    rest.filter_map(|block| block.split_once('\n'))
}

fn run(language: &str, program: &Path) -> Result<CheckStep, String> {
    let folder = folder(language);
    let programs = program.parent().unwrap_or(program);
    let [(_, path), (toolchain, auto)] = services::go_environment()?;
    let mut all = programs.as_os_str().to_owned();
    all.push(":");
    all.push(path);
    let mut shell = Command::new("sh");
    shell.args(["-e", "page.sh"]).current_dir(&folder).env("PATH", all).env(toolchain, auto);
    shell.env("TENURE_STORE", "sqlite:leases.db").env("TENURE_CONFIG", "/dev/null").env_remove("TENURE_LOG");
    // The generator, Maven and the compiler find it there.
    shell.env("JAVA_TOOL_OPTIONS", JVM);
    Ok(CheckStep::command(format!("client for {language}"), shell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_that_are_run_are_there() {
        let files = python_tests(&Path::new(CLIENTS).join("python/tests")).unwrap();
        assert!(files.contains(&"test_client.py".to_owned()), "{files:?}");
        let shown: Vec<String> =
            checks(Path::new("/t/tenure")).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown.len(), files.len() + LANGUAGES.len());
        for (file, shown) in files.iter().zip(&shown) {
            assert!(
                shown.starts_with(&format!("client for Python, {file}: TENURE_PROGRAM='/t/tenure'")),
                "{shown}"
            );
            assert!(shown.ends_with(&format!(" {file}")), "{shown}");
        }
        let go = &shown[files.len()];
        assert!(go.starts_with("client for go: ") && go.contains("PATH='/t:") && go.contains(JVM), "{go}");
        let mut pages: Vec<String> = std::fs::read_dir(PAGES)
            .unwrap()
            .map(|page| page.unwrap().file_name().into_string().unwrap())
            .collect();
        pages.sort();
        assert_eq!(pages, LANGUAGES.map(|(language, _)| format!("{language}.md")));
    }

    #[test]
    fn a_file_of_python_without_a_test_that_passes_fails() {
        let root = std::env::temp_dir().join(format!("tenure-python-{}", std::process::id()));
        let tests = root.join("tests");
        std::fs::create_dir_all(&tests).unwrap();
        let write = |name: &str, text: &str| std::fs::write(tests.join(name), text).unwrap();
        let class = "import unittest\nclass Some(unittest.TestCase):\n    ";
        write("test_good.py", &format!("{class}def test_it(self): pass\n"));
        write("test_bad.py", &format!("{class}def test_it(self): self.fail('no')\n"));
        write("test_skipped.py", &format!("{class}@unittest.skip('')\n    def test_it(self): pass\n"));
        write("test_none.py", &format!("{class}def it(self): pass\n"));
        write("test_broken.py", "import nothing_like_that\n");
        write("harness.py", "def wait(): pass\n");
        let files = python_tests(&tests).unwrap();
        let passes = |file: &String| {
            let mut python = Command::new("python3");
            let run = python.args(["-c", PYTHON_TESTS, file]).current_dir(&root).output().unwrap();
            run.status.success()
        };
        let passed: Vec<&String> = files.iter().filter(|file| passes(file)).collect();
        write("worker_tests.py", &format!("{class}def test_it(self): pass\n"));
        let error = python_tests(&tests).unwrap_err();
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((files.len(), passed), (5, vec![&"test_good.py".to_owned()]));
        assert!(error.contains("worker_tests.py: it has tests"), "{error}");
    }

    #[test]
    fn a_page_is_laid_out() {
        let page = "# A\n\n```sh\none\n```\n\ntext\n\n```go main.go\npackage main\n```\n\n```sh\ntwo\n```\n";
        let found: Vec<(&str, &str)> = blocks(page).collect();
        assert_eq!(found, [("sh", "one"), ("go main.go", "package main"), ("sh", "two")]);
        for (language, file) in [("go", "lease.go"), ("java", "Lease.java"), ("node", "lease.ts")] {
            lay_out(language).unwrap();
            let read = |name: &str| std::fs::read_to_string(folder(language).join(name)).unwrap();
            assert!(read(file).ends_with("}\n"), "{file}");
            let script = read("page.sh");
            assert!(
                script.contains("\ntenure serve ") && script.ends_with("tail -n 1 program.log\n"),
                "{script}"
            );
        }
    }
}
