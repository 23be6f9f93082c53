//! Settings outside the command line: the default store, the configuration file, namespaces.
//!
//! Plan: two processes in two directories exclude each other by the default store; an old file in the present directory is told;
//! the file names stores and options' defaults, what is typed counts before it, and `config` says where each comes from; its mistakes
//! are named; namespaces know nothing of each other; memory excludes nobody, and says so.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran};
use std::process::Command;

/// `tenure` without a store that is named.
fn unnamed(bench: &Bench, arguments: &[&str]) -> Command {
    let mut command = bench.tenure(arguments);
    command.env_remove("TENURE_STORE");
    command
}

fn ran(command: &mut Command) -> Ran {
    Ran::of(command.output().unwrap())
}

#[test]
fn jobs_that_are_started_in_different_directories_exclude_each_other() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("elsewhere")).unwrap();
    let inner = format!("cd elsewhere && {} run --try k -- true", env!("CARGO_BIN_EXE_tenure"));
    let refused = ran(&mut unnamed(&bench, &["run", "k", "--", "sh", "-c", &inner]));
    assert!(refused.code == 75 && refused.err.contains("k is held by"), "{refused:?}");
    assert!(bench.path("state/tenure/leases.db").exists() && !bench.store().exists());
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(bench.path("state/tenure")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "it is its user's alone");
}

#[test]
fn a_store_in_the_present_directory_as_of_old_is_told_of() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    let told = ran(&mut unnamed(&bench, &["run", "k", "--", "true"]));
    assert!(told.code == 0 && told.err.contains("--store sqlite:leases.db names that"), "{told:?}");
    assert!(!bench.run(&["run", "k", "--", "true"]).err.contains("names that"));
}

#[test]
fn looking_at_the_default_store_makes_nothing() {
    let bench = Bench::new();
    let looked = ran(&mut unnamed(&bench, &["ls"]));
    assert!(looked.code == 69 && looked.err.contains("state/tenure/leases.db"), "{looked:?}");
    // On a new host nothing is wrong with that.
    let checked = ran(&mut unnamed(&bench, &["doctor"]));
    let told = "leases.db yet: the first `tenure run` or `tenure work` makes it";
    assert!(checked.code == 69 && checked.err.contains(told), "{checked:?}");
    let named = bench.run(&["doctor"]);
    assert!(named.err.contains("there is no store at") && !named.err.contains("yet"), "{named:?}");
    assert!(!bench.path("state").exists());
}

const FILE: &str = "\
store = \"team\"

[stores.team]
url = \"sqlite:HERE/team.db\"

[stores.blue]
url = \"sqlite:HERE/team.db\"
namespace = \"blue\"

[defaults]
ttl = \"7s\"

[defaults.run]
wait = \"1s\"
ttl = \"8s\"
";

fn configured<'c>(bench: &Bench, command: &'c mut Command) -> &'c mut Command {
    command.env("TENURE_CONFIG", bench.path("config.toml"))
}

#[test]
fn a_file_names_stores_and_defaults_and_what_is_typed_counts_before_it() {
    let bench = Bench::new();
    let here = bench.path("").display().to_string();
    bench.write("config.toml", FILE.replace("HERE/", &here));
    let run = |arguments: &[&str]| ran(configured(&bench, &mut unnamed(&bench, arguments)));
    let inner = format!("{} show k --json", env!("CARGO_BIN_EXE_tenure"));
    let held = run(&["run", "k", "--", "sh", "-c", &inner]);
    assert_eq!((held.code, held.json()["ttl_ms"].as_u64()), (0, Some(8000)), "{held:?}");
    let typed = run(&["run", "--ttl", "9s", "k", "--", "sh", "-c", &inner]);
    assert_eq!(typed.json()["ttl_ms"], 9000, "{typed:?}");
    // The default of --wait, as `run` has one here: it ends, and --try may still be typed.
    let nested = |more: &str| format!("{} run {more} k -- true", env!("CARGO_BIN_EXE_tenure"));
    for more in ["", "--try"] {
        let refused = run(&["run", "k", "--", "sh", "-c", &nested(more)]);
        assert_eq!(refused.code, 75, "{refused:?}");
    }
    assert!(run(&["run", "--help"]).out.contains("[default: 8s]"));
    assert!(run(&["elect", "--help"]).out.contains("[default: 7s]"));
    // By name, and a namespace of it: the same key is another's.
    assert_eq!(
        run(&["run", "k", "--store", "blue", "--", "sh", "-c", &nested("--store team --try")]).code,
        0
    );
    assert!(bench.path("team.db").exists() && bench.path("team.blue.db").exists());
    let other = run(&["run", "k", "--store", "green", "--", "true"]);
    assert!(other.code == 64 && other.err.contains("stores by name: blue, team"), "{other:?}");

    let told = run(&["config", "--json"]).json();
    let url = format!("sqlite:{here}team.db");
    assert_eq!((&told["store"]["url"], &told["store"]["name"]), (&url.into(), &"team".into()));
    assert!(told["store"]["from"].as_str().unwrap().ends_with("config.toml"), "{told}");
    assert_eq!(told["defaults"].as_array().map(Vec::len), Some(3), "{told}");
    let variable = ran(configured(&bench, &mut unnamed(&bench, &["config"])).env("TENURE_STORE", "memory:"));
    let store = variable.out.lines().find(|line| line.starts_with("store ")).unwrap();
    assert!(store.contains("memory:") && store.ends_with("the variable TENURE_STORE"), "{variable:?}");
    let default = ran(&mut unnamed(&bench, &["config"]));
    assert!(default.out.contains("the default: below XDG_STATE_HOME"), "{default:?}");
}

#[test]
fn a_file_s_mistakes_are_named_before_anything_is_done() {
    let bench = Bench::new();
    for (text, told) in [
        ("store = 7\n", "config.toml: line 1: expected a string"),
        ("[defaults]\nttl = \"soon\"\n", "config.toml: defaults.ttl: invalid value 'soon'"),
        (
            "[defaults]\nttl = 9\n[defaults.run]\nttl = \"-1\"\n",
            "config.toml: defaults.run.ttl: invalid value '-1'",
        ),
        ("[defaults.run]\ncolour = 1\n", "defaults.run.colour: no verb run has an option --colour"),
        ("store = \"paper:x\"\n", "config.toml: no store has the scheme"),
        ("namespace = \"a/b\"\n", "config.toml: the namespace \"a/b\""),
    ] {
        bench.write("config.toml", text);
        let refused = ran(configured(&bench, &mut unnamed(&bench, &["run", "k", "--", "touch", "ran"])));
        assert!(refused.code == 64 && refused.err.contains(told), "{text}: {refused:?}");
        let help = ran(configured(&bench, &mut unnamed(&bench, &["run", "--help"])));
        assert_eq!(help.code, 0, "help is there all the same");
    }
    assert!(!bench.path("ran").exists() && !bench.path("state").exists());
    let missing = ran(bench.tenure(&["ls"]).env("TENURE_CONFIG", "/nowhere.toml"));
    assert!(missing.code == 64 && missing.err.contains("TENURE_CONFIG: there is no file"), "{missing:?}");
    // One that nobody writes to, and a device that never ends.
    nix::unistd::mkfifo(&bench.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in [bench.path("pipe"), "/dev/zero".into()] {
        let refused = ran(bench.tenure(&["ls"]).env("TENURE_CONFIG", &path));
        let shown = path.to_str().unwrap();
        assert!(
            refused.code == 64 && refused.err.contains("is no regular file") && refused.err.contains(shown),
            "{refused:?}"
        );
    }
    let unread = ran(bench.tenure(&["ls"]).env("TENURE_CONFIG", "/"));
    let remedy = "or name another file by TENURE_CONFIG";
    assert!(unread.code == 64 && unread.err.starts_with("tenure: /: can't be read: "), "{unread:?}");
    assert!(unread.err.contains(remedy), "{unread:?}");
    let empty = ran(bench.tenure(&["ls"]).env("TENURE_STORE", ""));
    assert!(empty.code == 64 && empty.err.contains("the variable TENURE_STORE is empty"), "{empty:?}");
}

#[test]
fn memory_excludes_nobody_and_says_so_where_that_is_what_it_is_for() {
    let bench = Bench::new();
    let told = |arguments: &[&str]| {
        let ran = bench.run(&[&["--store", "memory:"], arguments].concat());
        // The input of `hold` ends at once, perhaps before it has the lease.
        assert!(ran.code == 0 || (ran.code == 75 && arguments[0] == "hold"), "{ran:?}");
        ran.err.contains("nobody else is excluded")
    };
    assert!(told(&["run", "k", "--", "true"]));
    assert!(told(&["elect", "k", "--", "true"]));
    assert!(told(&["cron", "* * * * * *", "k", "--ticks", "1", "--", "true"]));
    assert!(told(&["hold", "k", "--max", "10ms"]));
    assert!(told(&["range", "s", "0..5", "--", "true"]));
    assert!(told(&["work", "--name", "j", "a", "--", "true"]), "that is named so that others join");
    assert!(!told(&["work", "a", "--", "true"]), "that needs no other process");
}

/// The file that docs/configuration.md has, as it stands there.
#[test]
fn the_example_of_the_page_on_configuration_is_read() {
    let bench = Bench::new();
    let page = format!("{}/../../docs/configuration.md", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(page).unwrap();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    bench.write("config.toml", example);
    let mut command = bench.tenure(&["config", "--store", "here", "--json"]);
    let told = ran(configured(&bench, &mut command)).json();
    assert_eq!(told["store"]["url"], "sqlite:/var/lib/tenure/leases.billing.db", "{told}");
    let options =
        told["defaults"].as_array().unwrap().iter().map(|default| default["option"].as_str().unwrap());
    assert_eq!(options.collect::<Vec<_>>(), ["grace", "ttl", "retries"], "{told}");
    assert_eq!(told["stores"].as_array().map(Vec::len), Some(2), "{told}");
}

#[test]
fn the_user_s_file_is_looked_for_below_xdg_config_home_and_before_the_host_s() {
    let bench = Bench::new();
    let files = |command: &mut Command| {
        let told = ran(command.env_remove("TENURE_CONFIG")).json();
        let path = |file: &serde_json::Value| file["path"].as_str().unwrap().to_owned();
        told["files"].as_array().unwrap().iter().map(path).collect::<Vec<_>>()
    };
    let own = bench.path("xdg").display().to_string();
    let named = files(unnamed(&bench, &["config", "--json"]).env("XDG_CONFIG_HOME", &own));
    assert_eq!(named, [format!("{own}/tenure/config.toml"), "/etc/tenure/config.toml".to_owned()]);
    let home = bench.path("home").display().to_string();
    let by_home =
        files(unnamed(&bench, &["config", "--json"]).env("HOME", &home).env_remove("XDG_CONFIG_HOME"));
    assert_eq!(by_home.first(), Some(&format!("{home}/.config/tenure/config.toml")));
    std::fs::create_dir_all(bench.path("xdg/tenure")).unwrap();
    let store = format!("store = \"sqlite:{}\"\n", bench.path("named.db").display());
    bench.write("xdg/tenure/config.toml", &store);
    let mut command = unnamed(&bench, &["run", "k", "--", "true"]);
    assert_eq!(ran(command.env_remove("TENURE_CONFIG").env("XDG_CONFIG_HOME", &own)).code, 0);
    assert!(bench.path("named.db").exists());
}

#[test]
fn who_has_a_login_s_variable_has_another_store_than_cron_has() {
    let bench = Bench::new();
    let store = |command: &mut Command| ran(command).json()["store"]["url"].as_str().unwrap().to_owned();
    let home = bench.path("home").display().to_string();
    let login = store(unnamed(&bench, &["config", "--json"]).env("XDG_STATE_HOME", format!("{home}/s")));
    assert_eq!(login, format!("sqlite:{home}/s/tenure/leases.db"));
    let cron = store(unnamed(&bench, &["config", "--json"]).env("HOME", &home).env_remove("XDG_STATE_HOME"));
    let is_system_user = !(1000..65_534).contains(&nix::unistd::geteuid().as_raw());
    let own = format!("sqlite:{home}/.local/state/tenure/leases.db");
    assert_eq!(cron, if is_system_user { "sqlite:/var/lib/tenure/leases.db".to_owned() } else { own });
}

#[test]
fn whoever_has_no_directory_for_a_home_has_no_file_of_its_own() {
    let bench = Bench::new();
    let mut command = bench.tenure(&["run", "k", "--", "true"]);
    command.env_remove("TENURE_CONFIG").env_remove("XDG_CONFIG_HOME").env("HOME", "/dev/null");
    let done = ran(&mut command);
    assert!(done.code == 0 && bench.store().exists(), "{done:?}");
}
