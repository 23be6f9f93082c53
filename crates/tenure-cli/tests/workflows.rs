//! The workflows of GitHub: each change and each release is tested, and a release is what was tested.
//!
//! Plan: they are read as YAML. A workflow that writes builds nothing, none packages what was not tested, and a release's notes are those of its version, made by the
//! workflow's own script. The image that manifests name is one that a release pushes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::Bench;
use crate::common::yaml::{containers, document, files, list, pod, root, text, words};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use yaml_rust2::Yaml;

fn workflow(name: &str) -> Yaml {
    document(&root().join(".github/workflows").join(name))
}

fn jobs(workflow: &Yaml) -> Vec<(&str, &Yaml)> {
    workflow["jobs"].as_hash().unwrap().iter().map(|(name, job)| (text(name), job)).collect()
}

/// What a job runs, with what its matrix fills in. Each step runs or uses something, and what is used is GitHub's own.
fn scripts(job: &Yaml) -> Vec<String> {
    let matrix = list(&job["strategy"]["matrix"]["include"]);
    let mut scripts = Vec::new();
    for step in list(&job["steps"]) {
        match (step["uses"].as_str(), step["run"].as_str()) {
            (Some(action), None) => {
                assert!(action.starts_with("actions/") && action.contains("@v"), "{action}");
            }
            (None, Some(run)) if run.contains("${{ matrix.") => {
                let filled = |row: &Yaml| run.replace("${{ matrix.target }}", text(&row["target"]));
                scripts.extend(matrix.iter().map(filled));
            }
            (None, Some(run)) => scripts.push(run.to_owned()),
            _ => panic!("{step:?} neither uses nor runs anything, or both"),
        }
    }
    scripts
}

#[test]
fn workflows_have_jobs_that_a_shell_understands() {
    for path in files(".github/workflows") {
        let (name, workflow) = (path.display(), document(&path));
        let jobs = jobs(&workflow);
        for (job_name, job) in &jobs {
            assert!(!text(&job["runs-on"]).is_empty(), "{name}: {job_name}");
            let needs = job["needs"].as_str();
            assert!(
                needs.is_none_or(|needs| jobs.iter().any(|(other, _)| *other == needs)),
                "{name}: {job_name} needs a job that is there"
            );
            for script in scripts(job) {
                assert!(
                    !script.contains("${{"),
                    "{script}: an expression is passed by the environment, not pasted"
                );
                let said = Command::new("bash").args(["-n", "-c", &script]).output().unwrap();
                assert!(said.status.success() && said.stderr.is_empty(), "{script}: {said:?}");
                for file in
                    script.split(' ').filter(|word| word.starts_with("packaging/") || word.ends_with(".md"))
                {
                    assert!(root().join(file).exists(), "{script}: {file}");
                }
            }
        }
    }
}

#[test]
fn the_workflow_of_releases_builds_what_there_is() {
    let workflow = workflow("release.yml");
    assert_eq!(words(&workflow["on"]["push"]["tags"]), ["v*"]);
    let (mut all, mut built) = (Vec::new(), BTreeSet::new());
    for (_, job) in jobs(&workflow) {
        let scripts = scripts(job);
        let targets = scripts.iter().filter_map(|run| run.strip_prefix("cargo xtask dist --target "));
        built.extend(targets.map(str::to_owned));
        all.extend(scripts);
        // Each of them on a machine of its own kind.
        for row in list(&job["strategy"]["matrix"]["include"]) {
            assert_eq!(text(&row["target"]).starts_with("aarch64"), text(&row["runner"]).ends_with("-arm"));
        }
    }
    assert_eq!(
        built.into_iter().collect::<Vec<_>>(),
        ["aarch64-unknown-linux-musl", "x86_64-unknown-linux-musl"]
    );
    assert!(all.iter().any(|script| script.contains(" -f packaging/Containerfile ")), "{all:?}");
}

/// The jobs of a workflow that come before one, itself among them.
fn needed<'a>(workflow: &'a Yaml, job: &'a str) -> Vec<&'a str> {
    let before = |job: &&'a str| workflow["jobs"][*job]["needs"].as_str();
    std::iter::successors(Some(job), before).collect()
}

#[test]
fn each_change_and_each_release_is_tested_as_a_person_tests_it() {
    let (changes, releases) = (workflow("ci.yml"), workflow("release.yml"));
    let on = changes["on"].as_hash().unwrap();
    assert!(on.contains_key(&Yaml::String("pull_request".into())));
    assert_eq!(text(&list(&changes["on"]["schedule"])[0]["cron"]).split(' ').count(), 5);
    assert_eq!(words(&changes["on"]["push"]["branches"]), ["main"]);
    let test = &changes["jobs"]["test"];
    assert!(scripts(test).iter().any(|script| script.ends_with(" .ci/run")), "{test:?}");
    for part in ["runs-on", "container", "steps"] {
        assert_eq!(test[part], releases["jobs"]["test"][part], "a tag is tested as each change is: {part}");
    }
    for (name, _) in jobs(&releases) {
        assert_eq!(needed(&releases, name).last(), Some(&"test"), "{name} comes after the tests");
    }
    let audited = scripts(&releases["jobs"]["audit"]).contains(&"cargo xtask audit".to_owned());
    assert!(
        audited && needed(&releases, "packages").contains(&"audit"),
        "nothing is packaged before the audit"
    );
    let (_, advisories) = jobs(&changes).into_iter().find(|(name, _)| *name == "advisories").unwrap();
    assert!(scripts(advisories).contains(&"cargo deny check advisories".to_owned()), "{advisories:?}");
}

#[test]
fn a_job_that_may_write_builds_nothing() {
    for path in files(".github/workflows") {
        let workflow = document(&path);
        let by_default = &workflow["permissions"];
        assert!(by_default.as_hash().is_some(), "{}: without it a token may write", path.display());
        for (name, job) in jobs(&workflow) {
            let own = &job["permissions"];
            let rights = if own.is_badvalue() { by_default } else { own }.as_hash().unwrap();
            let writes: Vec<&str> =
                rights.iter().filter(|(_, right)| text(right) == "write").map(|(of, _)| text(of)).collect();
            let expected = match (path.file_name().unwrap().to_str().unwrap(), name) {
                ("release.yml", "release") => &["contents"][..],
                ("release.yml", "image") => &["packages"],
                _ => &[],
            };
            assert_eq!(writes, expected, "{}: {name}", path.display());
            let builds = |script: &String| script.contains("cargo") || script.contains(".ci/run");
            assert!(writes.is_empty() || !scripts(job).iter().any(builds), "{}: {name}", path.display());
        }
    }
}

#[test]
fn the_notes_of_a_release_are_what_its_changes_begin_with() {
    /// GitHub takes 125,000 characters.
    const MOST: usize = 120_000;
    let changes = std::fs::read_to_string(root().join("CHANGELOG.md")).unwrap();
    let newest =
        changes.lines().find_map(|line| line.strip_prefix("## [")).unwrap().split(']').next().unwrap();
    let workflow = workflow("release.yml");
    let of_job = scripts(&workflow["jobs"]["release"]);
    let script = of_job.iter().find(|script| script.contains("> notes.txt")).unwrap();
    let notes = |changes: &str, version: &str| {
        let bench = Bench::new();
        bench.write("CHANGELOG.md", changes);
        // As a step's shell is called.
        let ran = Command::new("bash")
            .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
            .current_dir(bench.path(""))
            .env("GITHUB_REF_NAME", format!("v{version}"))
            .env("GITHUB_SERVER_URL", "https://github.example")
            .env("GITHUB_REPOSITORY", "tenure-rs/tenure")
            .status();
        ran.unwrap().success().then(|| bench.read("notes.txt"))
    };
    let told = notes(&changes, newest).unwrap();
    let lines = told.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines > 10 && told.chars().count() < MOST, "{lines} lines: {told}");
    assert!(!told.contains("\n#"), "no list, and no other version: {told}");
    let link = format!("(https://github.example/tenure-rs/tenure/blob/v{newest}/CHANGELOG.md)");
    assert!(told.trim_end().ends_with(&link), "{told}");
    // Of several versions that one alone; and none without a word on it.
    let some = "# Changes\n\n## [2.0.0]\n\nTwo.\n\n### Added\n\n- A.\n\n## [1.0.0]\n\nOne.\n\n## [0.9.0]\n\n### Added\n\n- B.\n";
    for (version, expected) in [("2.0.0", "\nTwo.\n\n["), ("1.0.0", "\nOne.\n\n[")] {
        let told = notes(some, version).unwrap();
        assert!(told.starts_with(expected) && told.lines().count() == 4, "{told:?}");
    }
    for version in ["0.9.0", "3.0.0"] {
        assert_eq!(notes(some, version), None, "{version}");
    }
}

#[test]
fn the_image_that_manifests_name_is_one_that_a_release_pushes() {
    let bench = Bench::new();
    bench.write("docker", "#!/bin/sh\n[ \"$1\" != push ] || echo \"$2\" >> pushed\n");
    std::fs::set_permissions(bench.path("docker"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let workflow = workflow("release.yml");
    let pushed = |version: &str| {
        bench.write("pushed", "");
        let steps = list(&workflow["jobs"]["image"]["steps"]).iter().filter_map(|step| step["run"].as_str());
        for script in steps.filter(|script| script.contains("docker push")) {
            let ran = Command::new("bash")
                .args(["-ec", script])
                .current_dir(bench.path(""))
                .env("PATH", format!("{}:/usr/bin:/bin", bench.path("").display()))
                .env("GITHUB_REPOSITORY", "tenure-rs/tenure")
                .env("GITHUB_REF_NAME", format!("v{version}"))
                .status();
            assert!(ran.unwrap().success(), "{script}");
        }
        bench.read("pushed")
    };
    // What comes before a release is pushed by its own name alone, and manifests name that release.
    let version = env!("CARGO_PKG_VERSION").split('-').next().unwrap();
    let before = format!("{version}-rc.1");
    assert_eq!(pushed(&before), format!("ghcr.io/tenure-rs/tenure:{before}\n"));
    let pushed = pushed(version);
    let images = files("packaging/kubernetes").into_iter().flat_map(|path| {
        let images: Vec<String> =
            containers(pod(&document(&path))).map(|it| text(&it["image"]).to_owned()).collect();
        images
    });
    let ours: BTreeSet<String> = images.filter(|image| !image.starts_with("example.com/")).collect();
    assert!(!ours.is_empty() && ours.iter().all(|ours| pushed.lines().any(|it| it == ours)), "{pushed}");
    assert!(pushed.lines().any(|image| image.ends_with(&format!(":{version}"))), "{pushed}");
}
