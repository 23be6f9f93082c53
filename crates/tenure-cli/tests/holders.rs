//! Who holds a lease and why, what is run beside the command, and waiting for others.
//!
//! Plan: `show` tells user, host, process, program and note, and who waits, or has waited in vain, is told the same, of units, too; `wait` ends when nobody holds the key, when its time is over, or when somebody does;
//! the hook at the beginning runs under the lease and can forbid the command; the one at a loss knows what was lost, and runs at no other end.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, first_words, wait_until};
use nix::sys::signal::Signal;
use std::process::Stdio;

const STAYS: &str = "echo $$ > pid; exec sleep 600";

#[test]
fn who_holds_a_lease_where_and_why_is_told() {
    let bench = Bench::new();
    let run = bench.start(&["run", "k", "--note", "index \u{1b}[31m rebuilt", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    let shown = bench.run(&["show", "k"]).out;
    let by = shown.lines().find(|line| line.starts_with("by ")).unwrap();
    assert!(by.ends_with(&format!(", process {}, for sh", run.id())), "{shown}");
    assert!(shown.contains("\nnote     index \\u{1b}[31m rebuilt\n") && !shown.contains("field"), "{shown}");
    let told = &bench.show("k")["metadata"];
    assert_eq!((&told["program"], &told["pid"]), (&"sh".into(), &run.id().into()), "{told}");
    // Of several keys each record tells it; of permits, the session's.
    let both = "\"$0\" show a; \"$0\" show b; \"$0\" show b --json";
    let ran =
        bench.run(&["run", "a", "b", "--note", "two", "--", "sh", "-c", both, env!("CARGO_BIN_EXE_tenure")]);
    assert!(
        ran.out.matches(", for sh\nnote     two\n").count() == 2 && ran.out.contains("\"note\": \"two\""),
        "{ran:?}"
    );
    let permits = "\"$0\" show semaphore/p; \"$0\" show semaphore/p --json";
    for how in [&["p", "--permits", "2"][..], &["q", "--shared"], &["r", "--fair"]] {
        let permits = permits.replace("semaphore/p", &format!("semaphore/{}", how[0]));
        let words = [
            &["run", "--note", "in\u{1b} turn"],
            how,
            &["--", "sh", "-c", &permits, env!("CARGO_BIN_EXE_tenure")],
        ];
        let ran = bench.run(&words.concat());
        assert!(ran.out.contains(", for sh: in\\u{1b} turn)  fence "), "{ran:?}");
        assert!(ran.out.contains("\"about\": {") && ran.out.contains("\"program\": \"sh\""), "{ran:?}");
    }
    let long = bench.run(&["run", "k", "--note", &"x".repeat(1001), "--", "true"]);
    assert!(long.code == 64 && long.err.contains("1001 bytes; the limit is 1000"), "{long:?}");
}

#[test]
fn of_units_too_user_host_and_program_are_told_and_who_waits_for_them_is_told_whom_for() {
    let bench = Bench::new();
    let stays = "touch begun.{}; until [ -e go ]; do sleep 0.02; done";
    let job = ["work", "--name", "j", "-p", "2", "a", "b", "--", "sh", "-c", stays];
    let mut runs = bench.start(&job);
    wait_until("both to run", || ["begun.a", "begun.b"].iter().all(|name| bench.path(name).exists()));
    let by = |shown: &str, process: u32| {
        let by = shown.lines().find(|line| line.starts_with("by ")).map(str::to_owned);
        by.is_some_and(|by| by.ends_with(&format!(", process {process}, for sh")))
    };
    let shown = bench.run(&["show", "work/j/a"]).out;
    assert!(by(&shown, runs.id()), "{shown}");
    let file = std::fs::File::create(bench.path("told")).unwrap();
    let mut waits: Process = bench.tenure(&job).stderr(file).stdout(Stdio::null()).spawn().unwrap().into();
    wait_until("it to be told", || bench.read("told").contains("waiting for "));
    let told = bench.read("told");
    let line = told.lines().find(|line| line.contains("waiting for ")).unwrap();
    assert!(line.contains("waiting for a, held by ") && line.contains(&format!("-{}-", runs.id())), "{told}");
    assert!(line.contains(", for sh) since ") && line.ends_with("Z, and for 1 more"), "{told}");
    bench.write("go", "");
    assert_eq!((runs.wait(), waits.wait()), (0, 0));

    let worker = bench.worker(&["u"], "touch begun.{}; exec sleep 600");
    wait_until("the unit to run", || bench.path("begun.u").exists());
    let shown = bench.run(&["show", "fleet/f/unit/u"]).out;
    assert!(by(&shown, worker.id()), "{shown}");
}

#[test]
fn who_waits_is_told_by_whom_it_is_held() {
    let bench = Bench::new();
    let _one = bench.start(&["run", "k", "--note", "new \u{1b} disks", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    let _permits = bench.start(&["run", "p", "--permits", "2", "--take", "2", "--", "sleep", "600"]);
    wait_until("the permits", || bench.run(&["show", "semaphore/p"]).out.contains("fence "));
    let (lease, permits) = ("waiting for k, held by ", "waiting for semaphore/p, held by ");
    for (words, begins, says) in [
        (&["run", "k", "--", "true"][..], lease, ", for sh: new \\u{1b} disks) since 20"),
        (&["run", "free", "k", "--wait", "1h", "--", "true"], lease, ", for sh: new"),
        (&["elect", "k", "--", "true"], lease, ", for sh: new"),
        (&["hold", "k"], lease, ", for sh: new"),
        (&["run", "p", "--permits", "2", "--", "true"], permits, " (2 of 2; 1 waiting)"),
        (&["run", "p", "--permits", "2", "--", "true"], permits, ", for sleep) since 20"),
    ] {
        let line = first_words(bench.tenure(words).stdin(Stdio::piped()).stdout(Stdio::null()));
        assert!(line.starts_with(&format!("tenure: {begins}")) && line.contains(says), "{words:?}: {line:?}");
    }
    let tried = bench.run(&["run", "k", "--try", "--", "true"]);
    assert!(tried.code == 75 && !tried.err.contains("waiting"), "{tried:?}");
    for (words, says) in [
        (&["run", "k", "--try", "--", "true"][..], ", for sh: new \\u{1b} disks) since 20"),
        (&["run", "free", "k", "--try", "--", "true"], ", for sh: new"),
        (&["run", "p", "--permits", "2", "--try", "--", "true"], ", for sleep) since 20"),
        (&["hold", "k", "--try"], ", for sh: new"),
    ] {
        let tried = bench.run(words);
        assert!(tried.code == 75 && tried.err.contains(says), "{words:?}: {tried:?}");
    }
}

#[test]
fn who_waits_for_many_keys_is_told_of_no_key_that_it_has_itself() {
    let bench = Bench::new();
    let _one = bench.start(&["run", "z", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    // They are had one after the other, which takes a while, and then given back.
    let free: Vec<String> = (100..700).map(|n| format!("k{n}")).collect();
    let free: Vec<&str> = free.iter().map(String::as_str).collect();
    let ran = bench.run(&[&["run", "--wait", "3s"], &free[..], &["z", "--", "true"]].concat());
    let lines: Vec<&str> = ran.err.lines().filter(|line| line.contains("waiting for ")).collect();
    assert!(ran.code == 75 && !lines.is_empty(), "{ran:?}");
    assert!(lines.iter().all(|line| line.contains("waiting for z, held by ")), "{ran:?}");
}

#[test]
fn waiting_ends_when_nobody_holds_it_or_somebody_does_or_its_time_is_over() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "other", "--", "true"]).code, 0);
    assert_eq!(bench.run(&["wait", "k"]).code, 0, "it was never held");
    let never = bench.run(&["wait", "k", "--held", "--timeout", "100ms"]);
    assert!(never.code == 75 && never.err.contains("k: after 100ms, nobody holds it still"), "{never:?}");
    assert_eq!(bench.run(&["wait", "k", "--timeout", "0s"]).code, 0, "one look is part of any time");
    let mut held = bench.start(&["wait", "k", "--held"]);
    let mut run = bench.start(&["run", "k", "--ttl", "4s", "--", "sh", "-c", STAYS]);
    assert_eq!(held.wait(), 0);
    bench.await_number("pid");
    let mut waits = bench.start(&["wait", "k"]);
    waits.await_signals();
    assert!(waits.is_running());
    run.signal(Signal::SIGTERM);
    run.wait();
    assert_eq!(waits.wait(), 0);
    // A holder that dies counts until its ttl is over.
    let dead = bench.start(&["run", "k", "--ttl", "4s", "--", "sh", "-c", STAYS]);
    wait_until("it to be held", || bench.state("k") == "held");
    dead.die_with_its_host();
    assert_eq!(bench.run(&["wait", "k", "--timeout", "1ms"]).code, 75);
    assert_eq!(bench.run(&["wait", "k"]).code, 0);
    assert_eq!(bench.state("k"), "expired");
}

#[test]
fn the_first_hook_runs_under_the_lease_and_can_forbid_the_command() {
    let bench = Bench::new();
    let inner = format!("{} run --try k -- true; echo $? $TENURE_KEY > hook", env!("CARGO_BIN_EXE_tenure"));
    let ran = bench.run(&["run", "k", "--on-acquire", &inner, "--", "sh", "-c", "cat hook"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "75 k\n"), "it was over before the command began: {ran:?}");
    let leaves = bench.run(&["run", "k", "--on-acquire", "sleep 1000 &", "--", "true"]);
    let told = leaves.err.contains("--on-acquire left sleep (") && leaves.err.contains("before CMD starts");
    assert!(leaves.code == 0 && told, "what is ended is named: {leaves:?}");
    let forbidden = bench.run(&["run", "k", "--on-acquire", "exit 9", "--", "touch", "ran"]);
    assert!(forbidden.code == 9 && forbidden.err.contains("--on-acquire ended with 9"), "{forbidden:?}");
    assert!(!bench.path("ran").exists() && bench.state("k") == "vacant");
    for option in ["--on-acquire", "--on-lost"] {
        let refused = bench.run(&["run", "k", option, "", "--", "true"]);
        assert!(refused.code == 64 && refused.err.contains(option), "{refused:?}");
    }
}

#[test]
fn who_waits_for_a_key_s_end_is_told_whom_for() {
    let bench = Bench::new();
    let mut holds = bench.start(&["run", "k", "--note", "a move", "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    let waits = |arguments: &[&str]| {
        let mut command = bench.tenure(&[&["wait"], arguments].concat());
        let file = std::fs::File::create(bench.path("told")).unwrap();
        let waits: Process = command.stderr(file).spawn().unwrap().into();
        wait_until("it to be told", || bench.read("told").contains("waiting for "));
        (waits, bench.read("told"))
    };
    let (mut waiting, told) = waits(&["k"]);
    assert!(told.contains("waiting for k, held by ") && told.contains("a move"), "{told}");
    for quiet in
        [&["run", "--quiet", "k", "--wait", "1s", "--", "true"][..], &["wait", "-q", "k", "--timeout", "1s"]]
    {
        let ran = bench.run(quiet);
        assert!(ran.code == 75 && ran.err.lines().count() == 1 && !ran.err.contains("waiting"), "{ran:?}");
        // It is the one line that it has.
        assert!(ran.err.contains(", for sh: a move) since 20"), "{ran:?}");
    }
    holds.signal(Signal::SIGTERM);
    assert_eq!((holds.wait(), waiting.wait()), (143, 0));
    let (_waiting, told) = waits(&["k", "--held"]);
    assert!(told.contains("waiting for somebody to hold k"), "{told}");
    // Of a section.
    let mut holds =
        bench.start(&["range", "s", "0..5", "--", "sh", "-c", "echo $$ > ranges; exec sleep 600"]);
    bench.await_number("ranges");
    let (_waiting, told) = waits(&["section/s"]);
    assert!(told.contains("waiting for section/s, held by ") && told.contains("1 range"), "{told}");
    holds.signal(Signal::SIGTERM);
    holds.wait();
}

#[test]
fn the_hook_at_a_loss_knows_what_was_lost_and_runs_at_no_other_end() {
    let bench = Bench::new();
    let hook = "echo \"$TENURE_KEY $TENURE_REASON\" >> lost";
    assert_eq!(bench.run(&["run", "k", "--on-lost", hook, "--", "false"]).code, 1);
    let mut stopped = bench.start(&["run", "k", "--on-lost", hook, "--", "sh", "-c", STAYS]);
    bench.await_number("pid");
    stopped.signal(Signal::SIGTERM);
    stopped.wait();
    assert_eq!(bench.read("lost"), "");
    let mut revoked = bench.start(&["run", "k", "--ttl", "3s", "--on-lost", hook, "--", "sh", "-c", STAYS]);
    wait_until("it to be held", || bench.state("k") == "held");
    assert_eq!(bench.run(&["revoke", "k", "--yes"]).code, 0);
    assert_eq!(revoked.wait(), 76);
    assert_eq!(bench.read("lost"), "k k: the lease was withdrawn; the command was stopped\n");
    // One that fails is told, and changes no status.
    for (hook, ended) in [("exit 7", "exited with 7"), ("kill -KILL $$", "was ended by SIGKILL")] {
        let ran = bench.run(&["run", "f", "--max", "100ms", "--on-lost", hook, "--", "sleep", "600"]);
        let is_told = ran.err.contains(&format!("--on-lost {ended}"));
        assert_eq!((ran.code, is_told), (76, true), "{ran:?}");
    }
    let ran = bench.run(&["run", "f", "--max", "100ms", "--on-lost", "true", "--", "sleep", "600"]);
    assert!(ran.code == 76 && !ran.err.contains("--on-lost"), "{ran:?}");
    // Of several, with the fence of each.
    let fences = "echo \"$TENURE_KEY|$TENURE_FENCE|$TENURE_FENCES\" > fences";
    let stays = "echo $$ > several; exec sleep 600";
    let mut several =
        bench.start(&["run", "a", "b", "--ttl", "3s", "--on-lost", fences, "--", "sh", "-c", stays]);
    bench.await_number("several");
    let fence = |key| bench.show(key)["fence"].to_string();
    let expected = format!("a b||{} a\n{} b\n\n", fence("a"), fence("b"));
    assert_eq!(bench.run(&["revoke", "a", "--yes"]).code, 0);
    assert_eq!(several.wait(), 76);
    assert_eq!(bench.read("fences"), expected);
    // Of an election, at each of them; the candidate goes on.
    let mut leads = bench.start(&[
        "elect",
        "e",
        "--ttl",
        "3s",
        "--on-lost",
        hook,
        "--",
        "sh",
        "-c",
        "echo $$ > leads; exec sleep 600",
    ]);
    bench.await_number("leads");
    assert_eq!(bench.run(&["revoke", "e", "--yes"]).code, 0);
    wait_until("it to be told", || bench.read("lost").contains("e e: the lease was withdrawn"));
    assert!(leads.is_running());
}
