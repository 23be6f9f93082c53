//! `tenure range`, by the real binary on real files.
//!
//! Plan: the parts on standard input and in the environment; what others hold is left out, and status 75 when that is all; all or
//! nothing, and waiting for it, which is told; what
//! is held is shown; the command's status; stopped before the deadline, also when it is deaf, with status 76; a command that
//! can't be killed, and a second
//! signal, leave the ranges to the watchdogs, and so does a claim of which nothing is known; what could not be given back is told; signals; tenure killed; bad input; gc keeps
//! a section in which something is held, and what sweeps have covered.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, is_alive, now_ms, toothless, wait_until};
use nix::sys::signal::Signal;
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tenure::range::sweep::{Page, Source, Sweep};
use tenure::range::{KeyRange, Point, Section};
use tenure::registry::{Opening, Registry};

/// Writes its process id and stays, deaf to TERM.
const STUBBORN: &str = "trap '' TERM; echo $$ > pid; while :; do sleep 0.1; done";
/// Writes the time, again and again.
const TICKS: &str = "while :; do date +%s%3N >> ticks; sleep 0.01; done";

#[test]
fn the_command_has_its_ranges_its_fence_and_its_deadline() {
    let bench = Bench::new();
    let script = "echo \"$TENURE_RANGES|$TENURE_KEY|$TENURE_FENCE|$TENURE_DEADLINE\"; cat; exit 3";
    let before = now_ms();
    let ran = bench.run(&["range", "s", "00F..ff", "--for", "20s", "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.err.as_str()), (3, ""), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    let fields: Vec<&str> = lines[0].split('|').collect();
    assert_eq!((fields[0], fields[1], lines[1]), ("f_ff", "section/s", "f_ff"));
    assert!(fields[2].parse::<i64>().unwrap() >= before);
    let deadline = fields[3].parse::<i64>().unwrap();
    assert!(deadline >= before + 10_000 && deadline < now_ms() + 17_000, "{before} {deadline}");
}

#[test]
fn what_others_hold_is_left_out_and_all_of_it_is_status_75() {
    let bench = Bench::new();
    let _other = bench.start(&["range", "s", "10..20", "--", "sh", "-c", "echo $$ > pid; sleep 1000"]);
    bench.await_number("pid");
    let ran = bench.run(&["range", "s", "0..30", "--", "cat"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "0_10\n20_30\n"), "{ran:?}");
    let ran = bench.run(&["range", "s", "12..14", "--", "touch", "never"]);
    assert_eq!((ran.code, ran.err.contains("held by others")), (75, true), "{ran:?}");
    assert!(!bench.path("never").exists());
    assert_eq!(bench.run(&["range", "other", "12..14", "--", "cat"]).code, 0, "sections are independent");
    // Held: gc keeps it, however old it is said to be.
    assert_eq!(bench.run(&["gc", "--older-than", "0s", "--yes"]).code, 0);
    assert_eq!(bench.run(&["range", "s", "12..14", "--", "true"]).code, 75);
}

#[test]
fn a_section_is_one_by_its_name_and_by_the_key_of_its_record() {
    let bench = Bench::new();
    let _other = bench.start(&["range", "s", "10..20", "--", "sh", "-c", "echo $$ > pid; sleep 1000"]);
    bench.await_number("pid");
    let ran = bench.run(&["range", "section/s", "0..30", "--", "sh", "-c", "echo $TENURE_KEY; cat"]);
    assert_eq!((ran.code, ran.out.as_str()), (0, "section/s\n0_10\n20_30\n"), "{ran:?}");
    assert_eq!(bench.run(&["reclaim", "section/s", "--now", "--yes"]).code, 0);
    assert_eq!(bench.run(&["range", "section/", "0..30", "--", "true"]).code, 64);
}

#[test]
fn with_all_a_command_runs_for_all_of_it_or_not_at_all_and_waits_as_long_as_it_is_told() {
    let bench = Bench::new();
    let mut other = bench.start(&["range", "s", "10..20", "--", "sh", "-c", "echo $$ > pid; sleep 1000"]);
    bench.await_number("pid");
    let ran = bench.run(&["range", "s", "0..30", "--all", "--", "touch", "never"]);
    assert_eq!((ran.code, ran.err.contains("some of 0_30 is held by others")), (75, true), "{ran:?}");
    let ran = bench.run(&["range", "s", "0..30", "--all", "--wait", "100ms", "--", "touch", "never"]);
    assert_eq!((ran.code, bench.path("never").exists()), (75, false), "{ran:?}");
    let waiting = ["range", "s", "12..30", "--all", "--wait", "1m", "--", "sh", "-c", "cat > got"];
    let mut waiting = bench.start(&waiting);
    assert_eq!(bench.run(&["range", "s", "20..30", "--", "cat"]).out, "20_30\n", "who waits holds no part");
    other.signal(Signal::SIGINT);
    assert_eq!((other.wait(), waiting.wait()), (130, 0));
    assert_eq!(bench.read("got"), "12_30\n");
}

#[test]
fn who_waits_for_longer_than_a_moment_is_told_what_for_and_who_does_not_wait_is_told_nothing() {
    let bench = Bench::new();
    let _other = bench.start(&["range", "s", "10..20", "--", "sh", "-c", "echo $$ > pid; sleep 1000"]);
    bench.await_number("pid");
    let ran = bench.run(&["range", "s", "12..14", "--wait", "1s", "--", "true"]);
    // In one line: what for, how long, and the one that is in the way.
    let holder = bench.show("section/s")["leases"][0]["holder"].as_str().unwrap().to_owned();
    let told = format!("waiting for some of 12_14 in section/s, held by {holder} since ");
    assert_eq!((ran.code, ran.err.matches("waiting for ").count()), (75, 1), "{ran:?}");
    assert!(ran.err.contains(&told) && ran.err.contains("Z (10_20), for 1s at most\n"), "{ran:?}");
    assert!(bench.run(&["show", "section/s"]).out.contains("10_20"), "and it does");
    assert!(ran.err.contains("and a longer --wait TIME waits for them"), "{ran:?}");
    let told = bench.run(&["range", "s", "12..14", "--", "true"]).err;
    assert!(
        told.contains("`tenure show section/s` tells who they are, and --wait TIME waits for them"),
        "{told}"
    );
    for quick in
        [&["range", "s", "12..14", "--", "true"][..], &["range", "s", "20..30", "--wait", "1s", "--", "true"]]
    {
        let ran = bench.run(quick);
        assert!(!ran.err.contains("waiting"), "{ran:?}");
    }
}

#[test]
fn a_deaf_command_is_killed_before_the_time_is_over() {
    let bench = Bench::new();
    let script = format!("echo $TENURE_DEADLINE > deadline; trap '' TERM; echo $$ > pid; {TICKS}");
    let ran = bench.run(&["range", "s", "0..10", "--for", "5s", "--", "sh", "-c", &script]);
    assert_eq!((ran.code, ran.err.contains("the time was over")), (76, true), "{ran:?}");
    let deadline: i64 = bench.read("deadline").trim().parse().unwrap();
    let last: i64 = bench.read("ticks").lines().filter_map(|line| line.parse().ok()).next_back().unwrap();
    // It is told to stop then; others may have the ranges 1.69 s later.
    assert!(last > deadline - 2000 && last < deadline + 1690, "{deadline} {last}");
    assert!(!is_alive(bench.number("pid").unwrap()));
    assert_eq!(bench.run(&["range", "s", "0..10", "--", "cat"]).out, "0_10\n", "handed back");
}

#[test]
fn a_command_that_obeys_when_the_time_is_over_did_not_end_by_itself() {
    let bench = Bench::new();
    let ran = bench.run(&["range", "s", "0..10", "--for", "2s", "--", "sleep", "1000"]);
    assert_eq!((ran.code, ran.err.contains("the time was over")), (76, true), "{ran:?}");
}

#[test]
fn a_signal_stops_the_command_and_hands_the_ranges_back() {
    let bench = Bench::new();
    let mut range = bench.start(&["range", "s", "0..10", "--", "sh", "-c", "echo $$ > pid; sleep 1000"]);
    let pid = bench.await_number("pid");
    range.signal(Signal::SIGINT);
    assert_eq!(range.wait(), 130);
    assert!(!is_alive(pid));
    assert_eq!(bench.run(&["range", "s", "0..10", "--", "cat"]).out, "0_10\n");
}

fn start_unkillable(bench: &Bench, span: &str, grace: &str, with_watchdogs: bool) -> Process {
    let arguments = ["range", "s", "0..10", "--for", span, "--grace", grace, "--", "sh", "-c", STUBBORN];
    toothless::start(bench, &arguments, with_watchdogs)
}

#[test]
fn a_command_that_joins_tenures_own_process_group_is_ended_all_the_same() {
    const ESCAPEE: &str = "setpgrp(0, getpgrp(getppid)); open(F, '>', 'pid'); print F \"$$\\n\"; close F; \
         $SIG{TERM} = 'IGNORE'; for (1..6000) { select(undef, undef, undef, 0.1) }";
    let bench = Bench::new();
    let arguments = ["range", "s", "0..10", "--grace", "100ms", "--", "perl", "-e", ESCAPEE];
    // In a group of its own, so that what it shares with the escapee is not this test.
    let mut command = bench.tenure(&arguments);
    let mut range: Process = command.process_group(0).stdout(Stdio::null()).spawn().unwrap().into();
    let pid = bench.await_number("pid");
    range.signal(Signal::SIGTERM);
    assert_eq!(range.wait(), 143);
    assert!(!is_alive(pid));
    assert_eq!(bench.run(&["range", "s", "0..10", "--", "cat"]).out, "0_10\n", "handed back");
}

#[test]
fn s6_ranges_of_a_command_that_can_not_be_killed_are_left_to_expire() {
    let bench = Bench::new();
    let began = now_ms();
    let mut range = start_unkillable(&bench, "4s", "100ms", true);
    let pid = bench.await_number("pid");
    wait_until("the ranges to be free", || bench.run(&["range", "s", "0..10", "--", "true"]).code == 0);
    let after = now_ms() - began;
    assert!(after >= 4000 || !is_alive(pid), "handed over after {after} ms while the command ran");
    assert_eq!(range.wait(), 76);
    assert!(bench.read("errors").contains("can't be killed"), "{}", bench.read("errors"));
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGKILL).unwrap();
}

#[test]
fn s6_ranges_are_not_handed_back_when_a_signal_can_not_end_the_command() {
    let bench = Bench::new();
    let mut range = start_unkillable(&bench, "60s", "100ms", false);
    let pid = bench.await_number("pid");
    range.signal(Signal::SIGTERM);
    assert_eq!(range.wait(), 76);
    assert!(bench.read("errors").contains("left to expire"), "{}", bench.read("errors"));
    free_once_dead(&bench, pid);
}

/// The watchdogs end what they find, and then give the ranges back.
fn free_once_dead(bench: &Bench, pid: i32) {
    let mut is_dead = true;
    wait_until("the ranges to be free", || {
        let ran = bench.run(&["range", "s", "0..10", "--", "true"]);
        is_dead &= ran.code == 75 || !is_alive(pid);
        ran.code == 0
    });
    assert!(is_dead, "somebody else had them while the command still ran");
}

#[test]
fn s6_after_a_second_signal_the_ranges_are_free_when_the_command_is_dead() {
    let bench = Bench::new();
    let mut range = start_unkillable(&bench, "60s", "1h", false);
    let pid = bench.await_number("pid");
    range.signal(Signal::SIGTERM);
    wait_until("the first signal", || bench.read("errors").contains("once more"));
    range.signal_again(Signal::SIGTERM);
    assert_eq!(range.wait(), 143);
    free_once_dead(&bench, pid);
}

#[test]
fn what_a_killed_tenure_ran_is_stopped_before_its_ranges_are_free() {
    let bench = Bench::new();
    let mut range =
        bench.start(&["range", "s", "0..10", "--for", "4s", "--grace", "100ms", "--", "sh", "-c", STUBBORN]);
    let pid = bench.await_number("pid");
    range.signal(Signal::SIGKILL);
    range.wait();
    free_once_dead(&bench, pid);
}

#[test]
fn bad_input_is_told_before_anything_is_made() {
    let bench = Bench::new();
    for (range, says) in [
        ("5..4", "ends before it begins"),
        ("5..5", "no key"),
        ("5", "not a range"),
        ("0-f", "write LO..HI in hexadecimal digits"),
        ("x..y", "hexadecimal"),
    ] {
        let ran = bench.run(&["range", "s", range, "--", "true"]);
        assert_eq!((ran.code, ran.err.contains(says)), (64, true), "{ran:?}");
    }
    let ran = bench.run(&["range", "", "0..1", "--", "true"]);
    assert_eq!((ran.code, ran.err.contains("name of a section can't be empty")), (64, true), "{ran:?}");
    for (span, says) in [("0s", "--for 0"), ("3d", "--for 3d")] {
        let ran = bench.run(&["range", "s", "0..1", "--for", span, "--", "true"]);
        assert!(ran.code == 64 && ran.err.contains(says) && ran.err.contains("at most"), "{ran:?}");
    }
    assert_eq!(bench.run(&["range", "s", "0..1", "--", "no-such-command-anywhere"]).code, 127);
    assert!(!bench.store().exists());
}

#[test]
fn what_is_held_in_a_section_is_shown() {
    let bench = Bench::new();
    let mut range =
        bench.start(&["range", "s", "10..20", "--for", "60s", "--", "sh", "-c", "echo $$ > pid; sleep 1000"]);
    bench.await_number("pid");
    let ls = bench.run(&["ls"]);
    assert!(ls.out.contains("section/s") && ls.out.contains("held (1 range)"), "{ls:?}");
    assert_eq!(bench.run(&["ls", "--json"]).json()["leases"][0]["leases"][0]["ranges"][0], "10_20");
    let show = bench.run(&["show", "section/s"]);
    assert!(show.out.contains("held (1 range)") && show.out.contains("10_20") && show.out.contains("left"));
    assert!(!show.out.contains("field"), "nothing in code: {show:?}");
    let shown = bench.show("section/s");
    let lease = &shown["leases"][0];
    assert_eq!((&shown["state"], &lease["state"]), (&"held".into(), &"held".into()));
    assert_eq!(lease["fence"], shown["fence"]);
    let left = lease["left_ms"].as_u64().unwrap();
    assert!((30_000..=60_000).contains(&left) && lease["duration_ms"] == 60_000, "{shown}");
    assert!(lease["holder"].as_str().unwrap().contains(&range.id().to_string()), "{shown}");
    let doctor = bench.run(&["doctor"]);
    assert!(doctor.out.contains("1 held") && doctor.out.contains("1 range held in 1 section"), "{doctor:?}");
    for verb in ["release", "revoke"] {
        let ran = bench.run(&[verb, "section/s", "--yes"]);
        assert!(ran.code == 64 && ran.err.contains("is a section") && ran.err.contains("free in"), "{ran:?}");
    }
    range.signal(Signal::SIGINT);
    range.wait();
    assert_eq!(bench.state("section/s"), "vacant");
    let ran = bench.run(&["release", "section/s", "--yes"]);
    assert_eq!((ran.code, ran.err.contains("nobody holds")), (66, true), "{ran:?}");
}

/// Items 0 to 99, all at once.
struct Items;

impl Source for Items {
    type Item = u64;
    type Error = &'static str;

    async fn scan(&self, range: &KeyRange, _: usize, _: Duration) -> Result<Page<u64>, &'static str> {
        let items = (0..100).filter(|key| range.contains(&(*key).into())).collect();
        Ok(Page::new(items, true))
    }

    fn key(&self, item: &u64) -> Point {
        (*item).into()
    }
}

#[test]
fn gc_keeps_what_sweeps_have_covered_unless_it_is_told_to_remove_it() {
    let bench = Bench::new();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let url = format!("sqlite:{}", bench.store().display());
    let sweep = || {
        let swept = async {
            let store = Registry::standard().open(&url, Opening::default()).await.unwrap();
            let sweep = Sweep::new(
                Section::new(store, "s").unwrap(),
                "one",
                KeyRange::new(0u64, 1u64 << 32).unwrap(),
            );
            sweep.run(Arc::new(Items), |_, _| async { Ok(()) }).await.unwrap().items
        };
        runtime.block_on(swept)
    };
    assert_eq!((sweep(), sweep()), (100, 0), "it is complete, and stays so");
    let gc = |more: &[&str]| {
        // Until nothing else is left: what was leased last is only over a little later.
        wait_until("gc to be through", || {
            let ran = bench.run(&[&["gc", "--older-than", "0s", "--yes", "--json"], more].concat());
            assert_eq!(ran.code, 0, "{ran:?}");
            ran.json()["removed"] == 0 && ran.json()["kept_sections"] == 0
        });
    };
    gc(&[]);
    assert_eq!(sweep(), 0, "gc has kept what was covered");
    gc(&["--sweeps"]);
    assert_eq!(sweep(), 100, "it begins anew");
}

#[test]
fn ranges_of_the_dead_are_reclaimed_when_their_time_is_over_or_at_once() {
    let bench = Bench::new();
    let dead =
        bench.start(&["range", "s", "10..20", "--for", "3s", "--", "sh", "-c", "echo $$ > pid; sleep 1000"]);
    bench.await_number("pid");
    let began = now_ms();
    dead.die_with_its_host();
    let ran = bench.run(&["release", "section/s", "--yes"]);
    assert!(ran.code == 64 && ran.err.contains("tenure reclaim"), "{ran:?}");
    let ran = bench.run(&["reclaim", "s"]);
    assert_eq!((ran.code, ran.err.contains("1 lease over")), (0, true), "{ran:?}");
    assert!(now_ms() > began + 1_500, "no sooner than its time is over");
    assert_eq!(bench.run(&["range", "s", "10..20", "--", "true"]).code, 0);

    let _alive = bench.start(&["range", "s", "10..20", "--", "sh", "-c", "echo $$ > other; sleep 1000"]);
    bench.await_number("other");
    assert_eq!(bench.run(&["reclaim", "s", "--now"]).code, 64, "it asks, and there is nobody to answer");
    let ran = bench.run(&["reclaim", "section/s", "--now", "--yes", "--json"]);
    assert_eq!((ran.code, ran.out.contains("\"freed\": 1")), (0, true), "{ran:?}");
    assert_eq!(bench.run(&["range", "s", "10..20", "--", "true"]).code, 0);
}

#[test]
fn ranges_that_are_found_to_be_gone_when_they_are_given_up_are_told_with_status_76() {
    let bench = Bench::new();
    let free = "\"$0\" reclaim s --now --yes";
    let ran = bench.run(&["range", "s", "0..f", "--", "sh", "-c", free, env!("CARGO_BIN_EXE_tenure")]);
    assert!(
        ran.code == 76 && ran.err.contains("section/s: the lease was lost while the command ran"),
        "{ran:?}"
    );
}

#[test]
fn what_the_store_does_not_take_back_is_told() {
    let bench = Bench::new();
    let script = "touch began; until test -e ends; do sleep 0.01; done";
    let err = std::fs::File::create(bench.path("err")).unwrap();
    let command = ["range", "s", "0..5", "--for", "60s", "--", "sh", "-c", script];
    let mut range: Process = bench.tenure(&command).stderr(err).spawn().unwrap().into();
    wait_until("the command", || bench.path("began").exists());
    let writer = rusqlite::Connection::open(bench.store()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    bench.write("ends", "");
    assert_eq!(range.wait(), 0, "the command has ended well");
    let told = bench.read("err");
    assert!(
        told.contains("section/s: the store does not answer, so the ranges could not be given back"),
        "{told}"
    );
}

#[test]
fn a_claim_of_which_nothing_is_known_is_taken_out_by_the_watchdogs() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["range", "s", "0..5", "--", "true"]).code, 0);
    let writer = rusqlite::Connection::open(bench.store()).unwrap();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Not by `bench.run`, which would wait for a turn at the file.
    let mut range = bench.tenure(&["range", "s", "0..5", "--for", "60s", "--", "touch", "ran"]);
    let ran = Ran::of(range.output().unwrap());
    assert!(ran.code == 69 && ran.err.contains("section/s: a claim may have been written"), "{ran:?}");
    writer.execute_batch("ROLLBACK").unwrap();
    wait_until("the ranges to be free", || bench.run(&["range", "s", "0..5", "--", "true"]).code == 0);
    assert!(!bench.path("ran").exists());
}
