//! Bad input, each named with its remedy, with the documented exit code, and with nothing changed.
//!
//! Plan: the command line as such; keys; ttls; stores by URL and by path; units; jobs.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, full_pipe, wait_until};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

#[track_caller]
fn refused(bench: &Bench, arguments: &[&str], code: i32, text: &str) {
    let ran = bench.run(arguments);
    assert_eq!(ran.code, code, "{arguments:?}: {ran:?}");
    assert!(ran.err.contains(text), "{arguments:?}: {ran:?}");
    assert_eq!(ran.out, "");
}

#[test]
fn the_command_line_itself() {
    let bench = Bench::new();
    refused(&bench, &["fly"], 64, "unrecognized subcommand");
    refused(&bench, &["run", "k"], 64, "CMD");
    refused(&bench, &["run", "k", "true"], 64, "stand after --, as in: -- ./backup.sh");
    // As people type it who come from elsewhere.
    for (words, tip) in [
        (&["flock", "/tmp/lock", "true"][..], "tip: a command runs under a lease by: tenure run KEY -- CMD"),
        (&["run", "-n", "k", "--", "true"], "tip: --try does not wait"),
        (&["run", "k", "-w", "5", "--", "true"], "tip: --wait TIME"),
        (&["run", "k", "-c", "true; true"], "tip: for a shell's line"),
        (&["work", "-j4", "--", "true"], "tip: -p N"),
        (&["work", "-I", "%", "--", "echo", "%"], "tip: {} stands for"),
        (&["work", "echo", "{}", ":::", "a", "b"], "tip: units stand before --"),
        (&["work", "--", "echo", "{}", ":::", "a", "b"], "::: is a word of CMD here: units stand before --"),
        (&["work", ":::", "a", "b", "--", "echo"], "::: would be a unit here: units stand before --"),
        (&["run", "k", "-t", "5", "--", "true"], "tip: --wait TIME"),
        (&["wait", "k", "1"], "tip: --timeout TIME"),
        (&["wait", "k", "l"], "tip: wait has one KEY"),
        (&["run", "k", "ls", "-l"], "tip: the command and its arguments stand after --"),
        (&["work", "-p", "+2", "--", "true"], "write how many, as in 4"),
        (&["work", "--colsep", ",", "--", "true"], "tip: a unit is one name"),
        (&["stop", "k"], "tip: tenure revoke KEY"),
        (&["cron", "*/5", "*", "*", "*", "*", "k", "--", "true"], "tip: the schedule is one word, in quotes"),
    ] {
        refused(&bench, words, 64, tip);
    }
    refused(&bench, &["run", "k", "--", "true; true"], 127, "not given to a shell, write: -- sh -c");
    refused(&bench, &["run", "k", "--", "cd", "/tmp"], 127, "a word of the shell's, write: -- sh -c");
    refused(&bench, &["run", "k", "--", "A=1", "env"], 127, "is set by: -- env NAME=VALUE CMD");
    refused(&bench, &["run", "k", "--", "none/of"], 127, "none/of: command not found\n");
    refused(&bench, &["work", "--name=-x", "a", "--", "true"], 64, "can't begin with a hyphen");
    refused(&bench, &["run", "k", "--", ""], 64, "name of the command is empty");
    refused(&bench, &["run", "k", "--ttl", "soon", "--", "true"], 64, "span of time");
    refused(&bench, &["run", "k", "--ttl", "5x", "--", "true"], 64, "no unit of time");
    refused(&bench, &["run", "k", "--try", "--wait", "1s", "--", "true"], 64, "cannot be used with");
    refused(&bench, &["work", "u", "--parallel", "0", "--", "true"], 64, "--parallel 0");
    refused(&bench, &["work", "u", "-0", "--", "true"], 64, "--null");
    refused(&bench, &["work", "u", "--from", "f", "--", "true"], 64, "cannot be used with");
    refused(&bench, &["man", "fly"], 64, "no verb \"fly\"");
    // The store that the environment names has not to be typed.
    for (words, usage) in
        [(&["run"][..], "run <KEY>... -- <CMD>..."), (&["work", "a"], "work <UNIT>... -- <CMD>...")]
    {
        let ran = bench.run(words);
        assert!(ran.code == 64 && !ran.err.contains("--store"), "{ran:?}");
        assert!(ran.err.contains(&format!("Usage: tenure {usage}")), "{ran:?}");
    }
    // Who types no verb is told of all options, those of all verbs, too.
    for words in [&[][..], &["fleet"]] {
        let ran = Ran::of(bench.tenure(words).env_remove("TENURE_STORE").output().unwrap());
        assert!(ran.code == 64 && ran.err.contains("--store <URL>"), "{ran:?}");
    }
    assert!(!bench.store().exists(), "nothing was touched");
}

#[test]
fn why_a_command_can_t_be_started_is_told() {
    let bench = Bench::new();
    refused(&bench, &["work", "a", "--", "{}"], 127, "write: -- sh -c {}");
    bench.write("script", "#!/no/such/interpreter\n");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(bench.path("script"), executable).unwrap();
    refused(&bench, &["run", "k", "--", "./script"], 126, "interpreter");
}

#[test]
fn keys() {
    let bench = Bench::new();
    refused(&bench, &["run", "", "--", "true"], 64, "a key can't be empty");
    refused(&bench, &["run", &"x".repeat(513), "--", "true"], 64, "513 bytes; the limit is 512");
    refused(&bench, &["show", &"x".repeat(513)], 64, "the limit is 512");
    for key in ["work/j/u", "fleet/f/unit/u", "session/a", "section/s"] {
        for verb in ["run", "elect"] {
            refused(&bench, &[verb, key, "--", "true"], 64, "choose a name that doesn't begin with");
        }
    }
    let mut command = bench.tenure(&["run"]);
    let output = command.arg(OsStr::from_bytes(b"a\xff\x1b[31m")).args(["--", "true"]).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(64));
    assert!(error.contains("not UTF-8") && error.contains("\\xff") && !error.contains('\u{1b}'), "{error}");
    assert!(!bench.store().exists());
    assert_eq!(bench.run(&["run", &"x".repeat(512), "--", "true"]).code, 0);
}

#[test]
fn ttls() {
    let bench = Bench::new();
    for ttl in ["0", "0s", "9ms", "86401s", "2d"] {
        refused(&bench, &["run", "k", "--ttl", ttl, "--", "true"], 64, "10 ms to 1 day");
        refused(&bench, &["work", "u", "--ttl", ttl, "--", "true"], 64, "10 ms to 1 day");
    }
    assert!(!bench.store().exists());
    refused(&bench, &["run", "k", "--ttl", "50ms", "--", "true"], 64, "below this store's minimum");
    refused(&bench, &["work", "u", "--ttl", "50ms", "--", "true"], 64, "below this store's minimum");
    let short = "tenure: a ttl of 50ms is below this store's minimum of 100ms\n";
    refused(&bench, &["elect", "k", "--ttl", "50ms", "--", "true"], 64, short);
    refused(&bench, &["cron", "--ttl", "50ms", "* * * * *", "k", "--", "true"], 64, short);
    refused(&bench, &["hold", "k", "--ttl", "50ms"], 64, short);
    let range = ["range", "s", "0_80", "--for", "50ms", "--", "true"];
    refused(&bench, &range, 64, "tenure: a duration of 50ms is below this store's minimum of 100ms\n");
    #[cfg(feature = "serve")]
    refused(&bench, &["serve", "--listen", "unix:door", "--ttl", "50ms"], 64, short);
    // The scheme of its URL tells the minimum: nothing is made for that.
    assert!(!bench.store().exists() && !bench.path("door.lock").exists());
    assert_eq!(bench.run(&["run", "k", "--ttl", "1d", "--", "true"]).code, 0);
}

#[test]
fn stores() {
    let bench = Bench::new();
    refused(&bench, &["ls", "--store", "leases.db"], 64, "sqlite:leases.db");
    refused(&bench, &["ls", "--store", "sqlite:"], 64, "names no file");
    refused(
        &bench,
        &["ls", "--store", "sqlite:~/x.db"],
        64,
        "write the whole path, in a shell sqlite:$HOME/x.db",
    );
    refused(&bench, &["ls", "--store", "memory:x"], 64, "nothing after the colon");
    refused(&bench, &["ls", "--store", ""], 64, "--store is empty");
    refused(&bench, &["ls", "--store", "sqlite:x.db?mode=ro"], 64, "write sqlite:x.db");
    let ran = bench.run(&["ls", "--store", "mongodb://user:hunter2@host/db"]);
    assert_eq!(ran.code, 64);
    assert!(
        ran.err.contains("mongodb:") && ran.err.contains("sqlite:PATH") && !ran.err.contains("hunter2"),
        "{ran:?}"
    );
    let ran = crate::common::Ran::of(
        bench.tenure(&["--help"]).env("TENURE_STORE", "x://hunter2").output().unwrap(),
    );
    assert!(!ran.out.contains("hunter2"), "help does not tell what is in the environment");
}

#[test]
fn a_build_tells_its_stores_and_how_to_get_others() {
    let bench = Bench::new();
    let version = bench.run(&["--version"]);
    let stores = version.out.lines().find_map(|line| line.strip_prefix("stores: ")).unwrap();
    let stores: Vec<&str> = stores.split(", ").collect();
    assert!(stores.contains(&"sqlite") && stores.contains(&"memory"), "{version:?}");
    for (scheme, feature) in [
        ("dynamodb", "dynamodb"),
        ("etcd", "etcd"),
        ("etcds", "etcd"),
        ("postgres", "postgres"),
        ("postgresql", "postgres"),
    ] {
        let ran = bench.run(&["ls", "--store", &format!("{scheme}://user:hunter2@127.0.0.1:1/x")]);
        let is_missing = ran.code == 64 && ran.err.contains(&format!("--features {feature},"));
        assert_eq!(is_missing, !stores.contains(&scheme), "{ran:?}");
        assert!(!ran.err.contains("hunter2"), "{ran:?}");
    }
}

#[test]
fn store_paths() {
    let bench = Bench::new();
    for verb in [
        ["ls"].as_slice(),
        &["show", "k"],
        &["release", "k", "--yes"],
        &["revoke", "k", "--yes"],
        &["gc", "--yes"],
        &["doctor"],
    ] {
        refused(&bench, verb, 69, "there is no store at leases.db");
    }
    assert!(!bench.store().exists(), "looking makes nothing");
    std::fs::create_dir(bench.path("directory")).unwrap();
    bench.write("text", "this is no database, whatever it may be called, and is long enough to be taken for one at first sight");
    for path in ["directory", "text", "no/such/place.db"] {
        let url = format!("sqlite:{path}");
        let ran = bench.run(&["run", "k", "--store", &url, "--", "touch", "ran"]);
        assert!([64, 65, 69].contains(&ran.code), "{ran:?}");
        assert!(ran.err.contains(path), "{ran:?}");
    }
    assert!(!bench.path("ran").exists());
    assert!(bench.read("text").starts_with("this is no database"), "nothing foreign is overwritten");
}

#[test]
fn damaged_records() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    bench.sql("UPDATE tenure_record SET record = x'5401ff'");
    refused(&bench, &["run", "k", "--", "touch", "ran"], 65, "k: ");
    refused(&bench, &["release", "k", "--yes"], 65, "k: ");
    refused(&bench, &["revoke", "k", "--yes"], 65, "k: ");
    let listing = bench.run(&["ls", "--json"]);
    assert_eq!((listing.code, &listing.json()["leases"][0]["state"]), (0, &"damaged".into()));
    let doctor = bench.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, 1, "{doctor:?}");
    assert!(doctor.out.contains("damaged"));
    assert_eq!(bench.run(&["gc", "--older-than", "0s", "--yes"]).code, 0);
    assert_eq!(bench.run(&["ls", "--json"]).json()["leases"][0]["state"], "damaged", "left as it is");
    assert!(!bench.path("ran").exists());
}

#[test]
fn units() {
    let bench = Bench::new();
    refused(&bench, &["work", "", "--", "true"], 64, "argument 1: a unit can't be empty");
    refused(&bench, &["work", "--from", "nowhere", "--", "true"], 64, "can't be read from nowhere");
    for forever in [
        ("bad", "line 2 of bad: the unit \"\\xff\\xfe\" is not UTF-8"),
        ("nul", "line 1 of nul: "),
        ("long", "has 600 bytes"),
    ] {
        bench.write("bad", b"fine\n\xff\xfe\n");
        bench.write("long", format!("fine\n{}\n", "x".repeat(600)));
        bench.write("nul", b"a\0b\n");
        let (list, told) = forever;
        refused(&bench, &["work", "--forever", "--name", "j", "--from", list, "--", "true"], 64, told);
    }
    assert!(!bench.store().exists(), "a fleet's list with a bad unit registers nothing");
}

#[test]
fn jobs() {
    let bench = Bench::new();
    refused(&bench, &["work", "--name", "a/b", "u", "--", "true"], 64, "slash");
    refused(&bench, &["work", "--name", "", "u", "--", "true"], 64, "allowed are 1 to 128");
    refused(&bench, &["work", "--name", &"x".repeat(129), "u", "--", "true"], 64, "129 bytes");
}

#[test]
fn help_that_can_t_be_written_is_a_failure_and_help_that_nobody_reads_is_none() {
    let bench = Bench::new();
    for arguments in [&["help"][..], &["--help"], &["help", "work"], &["--version"], &["run", "-h"], &["man"]]
    {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(bench.tenure(arguments).stdout(full).output().unwrap());
        assert!(
            ran.code == 70 && ran.err.contains("standard output can't be written"),
            "{arguments:?}: {ran:?}"
        );
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = Ran::of(bench.tenure(arguments).stdout(writer).output().unwrap());
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{arguments:?}");
    }
}

#[test]
fn a_list_that_can_t_be_written_is_a_failure() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "k", "--", "true"]).code, 0);
    for arguments in
        [&["ls", "--all"][..], &["ls", "--all", "--json"], &["show", "k"], &["show", "k", "--json"]]
    {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let ran = Ran::of(bench.tenure(arguments).stdout(full).output().unwrap());
        assert_eq!((ran.code, ran.err.contains("standard output can't be written")), (70, true), "{ran:?}");
    }
}

#[test]
fn help_by_its_verb_is_the_help_of_that_verb() {
    let bench = Bench::new();
    for verb in [&["run"][..], &["work"], &["work", "status"], &["fleet", "top"]] {
        let by_verb = bench.run(&[&["help"], verb].concat());
        assert!(by_verb.code == 0 && by_verb.out.contains("Usage: tenure"), "{by_verb:?}");
        assert_eq!(by_verb.out, bench.run(&[verb, &["--help"]].concat()).out);
    }
    refused(&bench, &["help", "flock"], 64, "flock");
}

#[test]
fn no_verb_waits_for_ever_for_who_does_not_read_what_it_says() {
    let bench = Bench::new();
    let holding = bench.start(&["run", "k", "--", "sleep", "600"]);
    wait_until("the lease", || {
        bench.store().exists() && bench.run(&["show", "k", "--json"]).out.contains("\"held\"")
    });
    for (arguments, code) in [
        (&["run", "k", "--wait", "100ms", "--", "true"][..], 75),
        (&["work", "-v", "-p", "1", "a", "b", "--", "true"], 0),
        (&["show", "nobody"], 66),
    ] {
        let (_unread, full) = full_pipe();
        let mut verb: Process = bench
            .tenure(arguments)
            .stderr(full)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap()
            .into();
        wait_until("the verb to end", || !verb.is_running());
        assert_eq!(verb.wait(), code, "{arguments:?}");
    }
    drop(holding);
}

#[test]
fn no_part_of_a_password_is_shown_where_it_has_signs_that_end_it() {
    let bench = Bench::new();
    for password in ["hun@ter2", "hun@hun@ter2", "hun@ter2:ter2", "1?ter2=x", "hun/ter2", "hun#ter2"] {
        // Nobody listens there.
        let url = format!("postgres://user:{password}@127.0.0.1:1/x");
        let ran = bench.run(&["ls", "--store", &url]);
        assert!([64, 69].contains(&ran.code) && !ran.err.contains("ter2"), "{url}: {ran:?}");
    }
}
