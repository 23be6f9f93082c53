//! The examples for systemd and Kubernetes: what they have tenure do, it does.
//!
//! Plan: every command line of a unit or a manifest is run as it stands there, but for the user's program. A nightly one that is run again when the first
//! has done its work does nothing. Manifests and the workflow of releases are read as YAML, and what in them belongs together is alike: a program looks
//! for the agent beside it where that listens. A namespace with restricted rights takes the manifests. A workflow that writes builds nothing, none packages what was not tested, and a release's notes are those of its
//! version, made by the workflow's own script. (systemd's own look at the units, and the package that they are in, is a step of `cargo xtask test`.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, wait_until};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use yaml_rust2::{Yaml, YamlLoader};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(directory: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(root().join(directory)).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

/// The one document of a file. Keys that are there twice are refused by who reads it.
fn document(path: &Path) -> Yaml {
    let mut documents = YamlLoader::load_from_str(&std::fs::read_to_string(path).unwrap())
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert_eq!(documents.len(), 1, "{}", path.display());
    documents.remove(0)
}

#[track_caller]
fn text(node: &Yaml) -> &str {
    node.as_str().unwrap_or_else(|| panic!("{node:?} is no text"))
}

/// None where there is no such list.
fn list(node: &Yaml) -> &[Yaml] {
    node.as_vec().map_or(&[], Vec::as_slice)
}

fn words(node: &Yaml) -> Vec<String> {
    list(node).iter().map(|word| text(word).to_owned()).collect()
}

/// Of a workload the part that describes its pods.
fn pod(manifest: &Yaml) -> &Yaml {
    let spec = &manifest["spec"];
    let template = if text(&manifest["kind"]) == "CronJob" { &spec["jobTemplate"]["spec"] } else { spec };
    &template["template"]
}

fn containers(pod: &Yaml) -> impl Iterator<Item = &Yaml> {
    list(&pod["spec"]["initContainers"]).iter().chain(list(&pod["spec"]["containers"]))
}

/// What tenure is called with, and in which file.
fn commands() -> Vec<(PathBuf, Vec<String>)> {
    let mut commands = Vec::new();
    for path in files("packaging/systemd") {
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter_map(|line| line.strip_prefix("ExecStart=/usr/bin/tenure "));
        commands.extend(lines.map(|line| (path.clone(), line.split(' ').map(str::to_owned).collect())));
    }
    for path in files("packaging/kubernetes") {
        let manifest = document(&path);
        for container in containers(pod(&manifest)).filter(|container| !container["command"].is_badvalue()) {
            assert_eq!(words(&container["command"]), ["/usr/bin/tenure"], "{}", path.display());
            commands.push((path.clone(), words(&container["args"])));
        }
    }
    commands
}

#[test]
fn what_belongs_together_in_a_manifest_is_alike() {
    /// `--grace` where nothing else is said.
    const GRACE: i64 = 10;
    let (mut images, mut secrets) = (BTreeSet::new(), BTreeSet::new());
    for path in files("packaging/kubernetes") {
        let (name, manifest) = (path.display(), document(&path));
        let kind = text(&manifest["kind"]);
        let version =
            [("CronJob", "batch/v1"), ("Deployment", "apps/v1")].into_iter().find(|it| it.0 == kind);
        assert_eq!(Some(text(&manifest["apiVersion"])), version.map(|it| it.1), "{name}");
        assert!(!text(&manifest["metadata"]["name"]).is_empty(), "{name}");
        let pod = pod(&manifest);
        if kind == "Deployment" {
            let labels = &manifest["spec"]["selector"]["matchLabels"];
            assert!(labels.as_hash().is_some_and(|labels| !labels.is_empty()), "{name}");
            assert_eq!(labels, &pod["metadata"]["labels"], "{name}: it selects its own pods");
            assert!(manifest["spec"]["replicas"].as_i64() > Some(1), "{name}: somebody stands by");
        } else {
            assert_eq!(text(&pod["spec"]["restartPolicy"]), "Never", "{name}: a Job refuses Always");
            assert_eq!(text(&manifest["spec"]["schedule"]).split(' ').count(), 5, "{name}");
        }
        assert!(pod["spec"]["terminationGracePeriodSeconds"].as_i64() > Some(2 * GRACE), "{name}");
        let volumes: BTreeSet<&str> =
            list(&pod["spec"]["volumes"]).iter().map(|volume| text(&volume["name"])).collect();
        let mut has_tenure = false;
        for container in containers(pod) {
            has_tenure |= !container["command"].is_badvalue();
            images.insert(text(&container["image"]).to_owned());
            for source in list(&container["envFrom"]) {
                secrets.insert(text(&source["secretRef"]["name"]).to_owned());
            }
            for mount in list(&container["volumeMounts"]) {
                assert!(volumes.contains(text(&mount["name"])), "{name}: {mount:?}");
            }
        }
        assert!(has_tenure, "{name}");
        // An agent beside a program: it begins before it and ends after it, and the program looks for it there.
        for beside in list(&pod["spec"]["initContainers"]) {
            assert_eq!(text(&beside["restartPolicy"]), "Always", "{name}");
            let probe = self::words(&beside["startupProbe"]["exec"]["command"]);
            let words = words(&beside["args"]);
            let listens = words.iter().position(|word| word == "--listen").unwrap() + 1;
            assert_eq!(
                probe,
                ["/usr/bin/tenure", "ready", &words[listens]],
                "{name}: it is asked where it listens"
            );
            for program in list(&pod["spec"]["containers"]) {
                let told: Vec<&Yaml> = list(&program["env"])
                    .iter()
                    .filter(|it| it["name"].as_str() == Some("TENURE_AGENT"))
                    .collect();
                assert_eq!(told.len(), 1, "{name}: {program:?}");
                assert_eq!(text(&told[0]["value"]), words[listens], "{name}");
                assert_eq!(program["volumeMounts"], beside["volumeMounts"], "{name}: both see the socket");
            }
        }
    }
    assert_eq!(secrets, BTreeSet::from(["tenure".to_owned()]));
    // Ours has one name, in all that tells it, and this version.
    let version = env!("CARGO_PKG_VERSION").rsplit_once('.').unwrap().0;
    let ours = format!("ghcr.io/tenure-rs/tenure:{version}");
    assert!(images.contains(&ours), "{images:?}");
    assert!(images.iter().all(|image| *image == ours || image.starts_with("example.com/")), "{images:?}");
    let mut pages = files("packaging/kubernetes");
    pages.push(root().join("docs/install.md"));
    for page in pages {
        let told = std::fs::read_to_string(&page).unwrap();
        for rest in told.split("ghcr.io/").skip(1) {
            assert!(format!("ghcr.io/{rest}").starts_with(&ours), "{}", page.display());
        }
    }
}

#[test]
fn a_unit_on_a_host_without_a_store_of_all_hosts_does_not_start() {
    for path in files("packaging/systemd").into_iter().filter(|path| path.extension().unwrap() == "service") {
        let unit = std::fs::read_to_string(&path).unwrap();
        // What the file says counts before that.
        let starts_without = "\nEnvironment=TENURE_STORE=\nEnvironmentFile=-/etc/default/tenure\n";
        assert!(unit.contains(starts_without), "{}", path.display());
    }
    let bench = Bench::new();
    let refused = bench.tenure(&["run", "k", "--", "touch", "ran"]).env("TENURE_STORE", "").output().unwrap();
    let says = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(64), "{says}");
    assert!(says.contains("TENURE_STORE is empty") && !bench.path("ran").exists(), "{says}");
}

#[test]
fn a_restricted_namespace_takes_each_manifest_and_no_container_has_a_limit_of_cpu() {
    for path in files("packaging/kubernetes") {
        let (name, manifest) = (path.display(), document(&path));
        let pod = pod(&manifest);
        // What Kubernetes' Pod Security Standards ask for.
        let user = &pod["spec"]["securityContext"];
        assert_eq!(user["runAsNonRoot"].as_bool(), Some(true), "{name}");
        assert!(user["runAsUser"].as_i64() > Some(0), "{name}");
        assert_eq!(text(&user["seccompProfile"]["type"]), "RuntimeDefault", "{name}");
        assert!(
            list(&pod["spec"]["volumes"]).iter().all(|volume| volume["emptyDir"].as_hash().is_some()),
            "{name}"
        );
        for container in containers(pod) {
            let name = format!("{name}: {}", text(&container["name"]));
            let rights = &container["securityContext"];
            assert_eq!(rights["allowPrivilegeEscalation"].as_bool(), Some(false), "{name}");
            assert_eq!(words(&rights["capabilities"]["drop"]), ["ALL"], "{name}");
            let resources = &container["resources"];
            assert!(text(&resources["requests"]["cpu"]).ends_with('m'), "{name}");
            // Without it, such a container is among the first that the kernel kills.
            assert!(text(&resources["requests"]["memory"]).ends_with("Mi"), "{name}");
            assert!(resources["limits"].is_badvalue(), "{name}");
        }
    }
}

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
    let steps = list(&workflow["jobs"]["image"]["steps"]).iter().filter_map(|step| step["run"].as_str());
    for script in steps.filter(|script| script.contains("docker push")) {
        let ran = Command::new("bash")
            .args(["-ec", script])
            .current_dir(bench.path(""))
            .env("PATH", format!("{}:/usr/bin:/bin", bench.path("").display()))
            .env("GITHUB_REPOSITORY", "tenure-rs/tenure")
            .env("GITHUB_REF_NAME", concat!("v", env!("CARGO_PKG_VERSION")))
            .status();
        assert!(ran.unwrap().success(), "{script}");
    }
    let pushed = bench.read("pushed");
    let images = files("packaging/kubernetes").into_iter().flat_map(|path| {
        let images: Vec<String> =
            containers(pod(&document(&path))).map(|it| text(&it["image"]).to_owned()).collect();
        images
    });
    let ours: BTreeSet<String> = images.filter(|image| !image.starts_with("example.com/")).collect();
    assert!(!ours.is_empty() && ours.iter().all(|ours| pushed.lines().any(|it| it == ours)), "{pushed}");
    assert!(pushed.lines().any(|image| image.ends_with(concat!(":", env!("CARGO_PKG_VERSION")))), "{pushed}");
}

#[test]
fn units_and_manifests_have_tenure_do_what_it_can() {
    let commands = commands();
    assert_eq!(commands.len(), 8, "{commands:?}");
    for (path, mut words) in commands {
        let bench = Bench::new();
        // On an address of this host alone.
        words
            .iter_mut()
            .filter(|word| *word == "0.0.0.0:9187")
            .for_each(|word| "127.0.0.1:0".clone_into(word));
        if words[0] == "gc" {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
            assert_eq!(bench.run(&words).code, 0, "{}", path.display());
            continue;
        }
        if words[0] == "serve" {
            // The volume is the test's own directory.
            let here = bench.path("").display().to_string();
            let words: Vec<String> = words.iter().map(|word| word.replace("/run/tenure/", &here)).collect();
            let mut agent = bench.start(&words.iter().map(String::as_str).collect::<Vec<_>>());
            // What keeps the program from being started until the agent is ready.
            let is_manifest = path.extension().is_some_and(|kind| kind == "yaml");
            let manifest = is_manifest.then(|| document(&path));
            for container in manifest.iter().flat_map(|manifest| containers(pod(manifest))) {
                let probe = &container["startupProbe"]["exec"]["command"];
                if !probe.is_badvalue() {
                    let probe: Vec<String> =
                        self::words(probe).iter().map(|word| word.replace("/run/tenure/", &here)).collect();
                    assert_eq!(probe[0], "/usr/bin/tenure", "{}", path.display());
                    let asks: Vec<&str> = probe[1..].iter().map(String::as_str).collect();
                    wait_until("the agent is ready", || bench.run(&asks).code == 0);
                }
            }
            let socket = words.iter().find_map(|word| word.strip_prefix("unix:")).unwrap();
            wait_until("the agent's socket is there", || Path::new(socket).exists());
            agent.signal(Signal::SIGTERM);
            assert_eq!(agent.wait(), 143, "{}", path.display());
            continue;
        }
        let end = words.iter().position(|word| word == "--").unwrap();
        let words: Vec<&str> = words[..end].iter().map(String::as_str).collect();
        if words.contains(&"--forever") {
            assert_eq!(bench.run(&["fleet", "add", "shards", "s0"]).code, 0);
            let mut command =
                bench.tenure(&[&words[..], &["--", "sh", "-c", "echo $$ > pid; exec sleep 600"]].concat());
            let mut process: Process =
                command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap().into();
            bench.await_number("pid");
            process.signal(Signal::SIGTERM);
            assert_eq!(process.wait(), 143, "{}", path.display());
        } else if words[0] == "run" {
            let mut first = bench.start(&[&words[..], &["--", "sh", "-c", "echo $$ > pid"]].concat());
            let pid = bench.await_number("pid");
            wait_until("the end of its command", || !Path::new(&format!("/proc/{pid}")).exists());
            // As on another host, whose clock is a moment behind.
            let again = bench.run(&[&words[..], &["--", "touch", "again"]].concat());
            assert!(again.code == 0 && !bench.path("again").exists(), "{}: {again:?}", path.display());
            first.signal(Signal::SIGTERM);
            assert_eq!(first.wait(), 0, "{}", path.display());
        } else {
            let ran = bench.run(&[&words[..], &["--", "touch", "ran"]].concat());
            assert!(ran.code == 0 && bench.path("ran").exists(), "{}: {ran:?}", path.display());
        }
    }
}

#[test]
fn the_default_build_is_the_one_that_the_pages_tell_of() {
    let manifest: toml::Table = toml::from_str(include_str!("../Cargo.toml")).unwrap();
    let features = manifest["features"].as_table().unwrap();
    // The stores of one host, and the agent.
    assert_eq!(features["default"].as_array().unwrap(), &["serve".into()]);
    for (page, told) in [
        ("README.md", include_str!("../../../README.md")),
        ("tenure-cli/README.md", include_str!("../README.md")),
        ("docs/install.md", include_str!("../../../docs/install.md")),
    ] {
        let rest = told.split("--features ").skip(1);
        let named: BTreeSet<&str> = rest
            .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap())
            .collect();
        assert!(named.contains("all-stores"), "{page}");
        assert!(named.iter().all(|name| features.contains_key(*name)), "{page}: {named:?}");
    }
    let servers = ["dynamodb", "etcd", "less", "postgres", "redis"];
    let all = features["all-stores"].as_array().unwrap();
    assert!(
        servers.iter().all(|name| all.contains(&(*name).into())) && all.len() == servers.len(),
        "{all:?}"
    );
}
