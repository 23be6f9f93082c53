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
    let mut python = Command::new("python3");
    python.args(["-m", "unittest", "discover", "-s", "tests"]).current_dir(Path::new(CLIENTS).join("python"));
    let step = CheckStep::command("client for Python", python);
    let mut steps = vec![step.env("TENURE_PROGRAM", &program.display().to_string())];
    for (language, _) in LANGUAGES {
        steps.push(run(language, program)?);
    }
    Ok(steps)
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
    Ok(CheckStep::command(format!("client for {language}"), shell))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_that_are_run_are_there() {
        assert!(Path::new(CLIENTS).join("python/tests/test_client.py").is_file());
        let shown: Vec<String> =
            checks(Path::new("/t/tenure")).unwrap().iter().map(ToString::to_string).collect();
        assert!(shown.len() == 4 && shown[0].starts_with("client for Python: TENURE_PROGRAM="), "{shown:?}");
        assert!(shown[0].ends_with("discover -s tests"), "{shown:?}");
        assert!(shown[1].starts_with("client for go: ") && shown[1].contains("PATH='/t:"), "{shown:?}");
        let mut pages: Vec<String> = std::fs::read_dir(PAGES)
            .unwrap()
            .map(|page| page.unwrap().file_name().into_string().unwrap())
            .collect();
        pages.sort();
        assert_eq!(pages, LANGUAGES.map(|(language, _)| format!("{language}.md")));
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
