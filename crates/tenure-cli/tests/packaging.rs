//! The examples for systemd and Kubernetes: what they have tenure do, it does.
//!
//! Plan: every command line of a unit or a manifest is run as it stands there, but for the user's program. A nightly one that is run again when the first
//! has done its work does nothing. Manifests are read as YAML, and what in them belongs together is alike: a program looks
//! for the agent beside it where that listens. A namespace with restricted rights takes the manifests. A unit without a store of all hosts does not start.
//! Packages of cargo take each other in one version, and their pages tell their features. (systemd's own look at the units, and the package that they are in, is a step of `cargo xtask test`.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::yaml::{containers, document, files, list, pod, root, text, words};
use crate::common::{Bench, Process, wait_until};
use nix::sys::signal::Signal;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use yaml_rust2::Yaml;

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
    // Ours has one name, in all that tells it, and this version: before a release, that which it is to be.
    let release = env!("CARGO_PKG_VERSION").split('-').next().unwrap();
    let version = release.rsplit_once('.').unwrap().0;
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

/// A manifest of the project, by its path from the root.
fn manifest(path: &Path) -> toml::Table {
    toml::from_str(&std::fs::read_to_string(root().join(path)).unwrap()).unwrap()
}

#[test]
fn a_package_takes_the_others_in_its_own_version_alone() {
    let mut tables = vec![manifest(Path::new("Cargo.toml"))["workspace"].clone()];
    for folder in ["crates", "peers", "stores"].into_iter().flat_map(files).filter(|path| path.is_dir()) {
        tables.push(manifest(&folder.join("Cargo.toml")).into());
    }
    let mut named = 0;
    for dependencies in tables.iter().filter_map(|table| table.get("dependencies")?.as_table()) {
        for (name, told) in dependencies.iter().filter(|(name, _)| name.starts_with("tenure")) {
            if let Some(version) = told.get("version") {
                assert_eq!(version.as_str(), Some(concat!("=", env!("CARGO_PKG_VERSION"))), "{name}");
                named += 1;
            }
        }
    }
    assert!(named > 10, "all that are published name a version: {named}");
}

#[test]
fn the_front_page_of_a_library_says_what_its_features_bring() {
    for (folder, page) in [("crates/tenure", "src/lib.rs"), ("peers/less", "docs/less.md")] {
        let folder = Path::new(folder);
        let manifest = manifest(&folder.join("Cargo.toml"));
        let features = manifest["features"].as_table().unwrap();
        let on = features["default"].as_array().unwrap();
        let told = std::fs::read_to_string(root().join(folder).join(page)).unwrap();
        for name in features.keys().filter(|name| *name != "default") {
            let by_default = if on.contains(&name.as_str().into()) { "yes" } else { "no" };
            let row = format!("| `{name}` | {by_default} | ");
            assert!(told.contains(&row), "{}: {row}", folder.display());
        }
    }
}

#[test]
fn the_page_of_the_store_in_sqlite_says_which_version_of_rusqlite_it_takes() {
    let manifest = manifest(Path::new("stores/sqlite/Cargo.toml"));
    let version = manifest["dependencies"]["rusqlite"]["version"].as_str().unwrap();
    let page = include_str!("../../../stores/sqlite/README.md");
    assert!(page.contains(&format!("It takes `rusqlite` {version} ")), "{version}");
}
