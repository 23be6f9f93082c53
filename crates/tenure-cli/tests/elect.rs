//! `tenure elect` and `tenure leader`, by the real binary on real files.
//!
//! Plan: one of several runs its command and the others stand by; a command's end, tenure's death (SIGKILL), its
//! standstill (SIGSTOP), a withdrawal and signals each make room, and the command is dead before another leads;
//! whoever lost its leadership, or whose command the watchdog stopped, starts its command again when it is elected again; the
//! hook is told of each leader, and does not outlive its process;
//! `leader` says who leads, once and again and again; bad input.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, Ran, is_alive, now_ms, takes_at_most, wait_for, wait_until};
use nix::sys::signal::Signal;
use std::process::Stdio;

/// Deaf to TERM; says under which fence and as which process it begins, and then writes the time until it is killed.
const TICKS: &str = "trap '' TERM; echo \"$TENURE_FENCE $$ $PPID\" >> terms; while :; do date +%s%3N >> ticks.$$; sleep 0.01; done";
/// Obeys.
const OBEYS: &str = "echo \"$TENURE_FENCE $$ $PPID\" >> terms; while :; do sleep 0.02; done";

/// What commands wrote when they began: fence, process id, and that of their tenure.
fn parents(bench: &Bench) -> Vec<(u64, i32, u32)> {
    let line = |line: &str| {
        let [fence, pid, parent] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
        Some((fence.parse().ok()?, pid.parse().ok()?, parent.parse().ok()?))
    };
    bench.read("terms").lines().filter_map(line).collect()
}

fn terms(bench: &Bench) -> Vec<(u64, i32)> {
    parents(bench).into_iter().map(|(fence, pid, _)| (fence, pid)).collect()
}

fn await_term(bench: &Bench, n: usize) -> (u64, i32) {
    let terms = wait_for("the next term", || Some(terms(bench)).filter(|terms| terms.len() >= n));
    assert_eq!(terms.len(), n, "{terms:?}");
    assert!(terms.is_sorted_by(|a, b| a.0 < b.0), "fences grow: {terms:?}");
    terms[n - 1]
}

fn elect(bench: &Bench, ttl: &str, script: &str) -> Process {
    bench.start(&["elect", "k", "--ttl", ttl, "--", "sh", "-c", script])
}

fn last_tick(bench: &Bench, pid: i32) -> i64 {
    bench.read(&format!("ticks.{pid}")).lines().filter_map(|line| line.parse().ok()).next_back().unwrap()
}

#[test]
fn one_leads_and_the_others_follow_in_turn() {
    let bench = Bench::new();
    // Each ends by itself when it is told to by a file.
    let script =
        "echo \"$TENURE_FENCE $$ $PPID\" >> terms; while ! [ -e go.$$ ]; do sleep 0.02; done; exit 7";
    let mut all: Vec<Process> = (0..3).map(|_| elect(&bench, "10s", script)).collect();
    for n in 1..=3 {
        let (fence, pid) = await_term(&bench, n);
        let shown = bench.show("k");
        assert_eq!((shown["state"].as_str(), shown["fence"].as_u64()), (Some("held"), Some(fence)));
        bench.write(&format!("go.{pid}"), "");
        let done = wait_for("the leader to end", || all.iter_mut().position(|process| !process.is_running()));
        assert_eq!(all.remove(done).wait(), 7, "its command's status is passed on");
    }
    assert_eq!(bench.state("k"), "vacant");
}

#[test]
fn a_killed_leader_is_succeeded_in_time_and_its_command_is_dead_before() {
    // 1.15 ttl, and two seconds for a busy machine to start a shell.
    takes_at_most(3450 + 2000, || {
        let bench = Bench::new();
        let mut leader = elect(&bench, "3s", TICKS);
        let (_, first) = await_term(&bench, 1);
        let standby = elect(&bench, "3s", TICKS);
        standby.await_signals();
        let killed_at = now_ms();
        leader.signal(Signal::SIGKILL);
        leader.wait();
        let (_, second) = await_term(&bench, 2);
        let began = wait_for("the second's first tick", || {
            bench.read(&format!("ticks.{second}")).lines().next().and_then(|line| line.parse::<i64>().ok())
        });
        assert!(!is_alive(first));
        assert!(last_tick(&bench, first) < began, "nothing of the first runs under the second");
        began - killed_at
    });
}

#[test]
fn a_stopped_leaders_command_is_dead_before_another_leads_and_it_leads_again_later() {
    let bench = Bench::new();
    let mut first = elect(&bench, "6s", TICKS);
    let (_, pid) = await_term(&bench, 1);
    let second = elect(&bench, "6s", TICKS);
    bench.stop(&[first.id()]);
    let (_, next) = await_term(&bench, 2);
    assert!(!is_alive(pid), "it is dead when another leads");
    let began = wait_for("a tick", || bench.read(&format!("ticks.{next}")).lines().next().map(str::to_owned));
    assert!(last_tick(&bench, pid) < began.parse().unwrap());
    first.signal(Signal::SIGCONT);
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(first.is_running(), "it stands by");
    assert_eq!(terms(&bench).len(), 2);
    second.signal(Signal::SIGKILL);
    let (_, again) = await_term(&bench, 3);
    assert!(is_alive(again) && first.is_running(), "elected again, it starts its command again");
    first.signal(Signal::SIGTERM);
    first.signal_again(Signal::SIGTERM);
    assert_eq!(first.wait(), 143);
    wait_until("its command to be dead", || !is_alive(again));
}

#[test]
fn a_command_that_obeys_the_watchdog_is_started_again_at_the_next_election() {
    let bench = Bench::new();
    let mut leader = elect(&bench, "4s", OBEYS);
    let (_, pid) = await_term(&bench, 1);
    // It stands still for a part of its ttl, and wakes up when it still leads, but for its command.
    bench.stop(&[leader.id()]);
    wait_until("the watchdog to stop its command", || !is_alive(pid));
    leader.signal(Signal::SIGCONT);
    let (_, pid) = await_term(&bench, 2);
    // And once more, since nobody can ask the store for a while.
    std::fs::rename(bench.store(), bench.path("elsewhere")).unwrap();
    wait_until("the command to be stopped", || !is_alive(pid));
    std::fs::rename(bench.path("elsewhere"), bench.store()).unwrap();
    await_term(&bench, 3);
    assert!(leader.is_running());
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.wait(), 143);
}

#[test]
fn a_leader_that_is_told_to_stop_makes_room_and_stands_by() {
    let bench = Bench::new();
    let mut first = elect(&bench, "4s", OBEYS);
    await_term(&bench, 1);
    let mut second = elect(&bench, "4s", OBEYS);
    second.await_signals();
    // Whoever is told to stop lets others go first, for a while: again, if the second did not come as far as to stand by.
    let mut n = 1;
    let pid = loop {
        assert_eq!(bench.run(&["revoke", "k", "--yes"]).code, 0);
        n += 1;
        let (_, pid) = await_term(&bench, n);
        if parents(&bench).last().is_some_and(|(.., parent)| *parent == second.id()) {
            break pid;
        }
        assert!(n < 10, "it never makes room");
    };
    assert!(first.is_running() && second.is_running());
    // An interrupted leader's command is stopped, and the other one leads at once.
    second.signal(Signal::SIGINT);
    assert_eq!(second.wait(), 130);
    assert!(!is_alive(pid));
    await_term(&bench, n + 1);
    // One that stands by ends at once.
    let mut third = elect(&bench, "4s", OBEYS);
    third.await_signals();
    third.signal(Signal::SIGINT);
    assert_eq!(third.wait(), 130);
    first.signal(Signal::SIGTERM);
    assert_eq!(first.wait(), 143);
    assert_eq!(bench.state("k"), "vacant");
}

#[test]
fn the_hook_is_told_of_each_leader() {
    let bench = Bench::new();
    let hook = "echo \"$TENURE_ROLE $TENURE_KEY $TENURE_LEADER $TENURE_FENCE\" >> NAME";
    let start = |name: &str| {
        let hook = hook.replace("NAME", name);
        bench.start(&["elect", "k", "--ttl", "10s", "--on-change", &hook, "--", "sh", "-c", OBEYS])
    };
    let mut first = start("first");
    let (fence, _) = await_term(&bench, 1);
    wait_until("the first's hook", || {
        bench.read("first").contains(&format!("leader k {} {fence}", holder(&bench)))
    });
    let leader = holder(&bench);
    let second = start("second");
    wait_until("the second's hook", || {
        bench.read("second").contains(&format!("standby k {leader} {fence}\n"))
    });
    first.signal(Signal::SIGTERM);
    first.wait();
    let (fence, _) = await_term(&bench, 2);
    wait_until("the second's hook", || {
        bench.read("second").contains(&format!("leader k {} {fence}\n", holder(&bench)))
    });
    drop(second);
}

#[test]
fn a_hook_that_still_runs_at_the_end_is_killed() {
    let bench = Bench::new();
    let hook = "echo $$ > hook; sleep 600";
    let mut leader =
        bench.start(&["elect", "k", "--ttl", "10s", "--on-change", hook, "--", "sh", "-c", OBEYS]);
    let hook = bench.await_number("hook");
    leader.signal(Signal::SIGTERM);
    leader.wait();
    // Killed and waited for before `elect` has ended, so nothing is left of it; the group's other members die with it.
    assert!(!is_alive(hook));
}

fn holder(bench: &Bench) -> String {
    bench.show("k")["holder"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn leader_says_who_leads() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["leader", "k"]).code, 69, "there is no store");
    let first = elect(&bench, "5s", OBEYS);
    let (fence, _) = await_term(&bench, 1);
    let ran = bench.run(&["leader", "k"]);
    assert_eq!((ran.code, ran.out.trim()), (0, holder(&bench).as_str()));
    let json = bench.run(&["leader", "k", "--json"]).json();
    assert_eq!(
        (json["leader"]["id"].as_str(), json["leader"]["fence"].as_u64()),
        (Some(ran.out.trim()), Some(fence))
    );
    let nobody = bench.run(&["leader", "other"]);
    assert_eq!((nobody.code, nobody.out.as_str()), (66, ""));
    assert!(nobody.err.contains("nobody leads other"), "{nobody:?}");
    let nobody = bench.run(&["leader", "other", "--json"]);
    assert_eq!((nobody.code, nobody.json()["leader"].is_null()), (66, true));
    first.signal(Signal::SIGKILL);
    wait_until("the dead leader to count as none", || bench.run(&["leader", "k"]).code == 66);
}

#[test]
fn leader_follows() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "other", "--", "true"]).code, 0);
    let follow = |name: &str, arguments: &[&str]| {
        let out = std::fs::File::create(bench.path(name)).unwrap();
        let mut command = bench.tenure(&[&["leader", "k", "--follow"], arguments].concat());
        Process::from(command.stdout(out).stderr(Stdio::null()).spawn().unwrap())
    };
    let (mut text, _json) = (follow("text", &[]), follow("json", &["--json"]));
    // Each step is waited for by both: a watch tells what is, not all that was.
    wait_until("the first line", || bench.read("text").ends_with(" - -\n"));
    wait_until("the first line in JSON", || bench.read("json").lines().count() == 1);
    let mut first = elect(&bench, "10s", OBEYS);
    let (fence, _) = await_term(&bench, 1);
    let leader = holder(&bench);
    wait_until("the leader's line", || bench.read("text").ends_with(&format!(" {leader} {fence}\n")));
    wait_until("the leader's line in JSON", || bench.read("json").lines().count() == 2);
    first.signal(Signal::SIGTERM);
    first.wait();
    wait_until("the line of none", || bench.read("text").lines().count() == 3);
    assert!(bench.read("text").ends_with(" - -\n"));
    wait_until("as many in JSON", || bench.read("json").lines().count() == 3);
    let lines: Vec<serde_json::Value> =
        bench.read("json").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["leader"].is_null() && lines[2]["leader"].is_null());
    assert_eq!(lines[1]["leader"]["id"].as_str(), Some(leader.as_str()));
    text.signal(Signal::SIGINT);
    assert_eq!(text.wait(), 130);
}

#[test]
fn who_follows_for_nobody_ends() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["run", "other", "--", "true"]).code, 0);
    let (read, write) = std::io::pipe().unwrap();
    let mut command = bench.tenure(&["leader", "k", "--follow"]);
    let mut follows = Process::from(command.stdout(write).stderr(Stdio::null()).spawn().unwrap());
    drop(command);
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(read), &mut line).unwrap();
    assert!(line.ends_with(" - -\n"), "{line}");
    assert_eq!(follows.wait(), 0);
}

#[test]
fn bad_input_is_told_before_anything_is_done() {
    let bench = Bench::new();
    let cases: [(&[&str], i32, &str); 5] = [
        (&["elect", "", "--", "true"], 64, "a key can't be empty"),
        (&["elect", "k", "--ttl", "2d", "--", "true"], 64, "10 ms to 1 day"),
        (&["elect", "k", "--on-change", "", "--", "true"], 64, "--on-change is empty"),
        (&["elect", "k", "--", "no-such-command-anywhere"], 127, "command not found"),
        (&["elect", "k"], 64, "CMD"),
    ];
    for (arguments, code, text) in cases {
        let ran: Ran = bench.run(arguments);
        assert!(ran.code == code && ran.err.contains(text), "{arguments:?}: {ran:?}");
    }
    assert!(!bench.store().exists());
}

#[test]
fn a_leader_that_hangs_or_has_led_for_long_makes_room_for_another() {
    let bench = Bench::new();
    let told = "printf '%s' \"$TENURE_REASON\" > reason";
    // The first one hangs, and its check finds that out. Whoever leads next is well.
    let script = "echo \"$TENURE_FENCE $$ $PPID\" >> terms; [ -e hung ] || { touch hung; kill -STOP $$; }; exec sleep 600";
    let check =
        "echo $TENURE_KEY >> checked; [ \"$(ps -o state= -p $(tail -1 terms | cut -d ' ' -f 2))\" != T ]";
    let words = [
        "elect",
        "k",
        "--ttl",
        "2s",
        "--grace",
        "100ms",
        "--on-lost",
        told,
        "--check",
        check,
        "--check-every",
        "300ms",
        "--check-failures",
        "2",
        "--cooldown",
        "10m",
        "--",
        "sh",
        "-c",
        script,
    ];
    let mut first = bench.start(&words);
    let (_, hung) = await_term(&bench, 1);
    let _second = bench.start(&words);
    let (_, leads) = await_term(&bench, 2);
    assert!(!is_alive(hung) && first.is_running(), "it stands back");
    wait_until("the hook to be told", || bench.read("reason").contains("--check failed 2 times in a row"));
    let checks = bench.read("checked").lines().count();
    wait_until("more checks", || bench.read("checked").lines().count() > checks + 3);
    assert!(
        is_alive(leads) && terms(&bench).len() == 2 && bench.read("checked").lines().all(|key| key == "k")
    );
    // A check that hangs has failed; a term ends by its longest time.
    let bench = Bench::new();
    let notes = std::fs::File::create(bench.path("notes")).unwrap();
    let words = [
        "elect",
        "k",
        "--check",
        "sleep 60",
        "--check-every",
        "200ms",
        "--max",
        "1h",
        "--",
        "sh",
        "-c",
        OBEYS,
    ];
    let mut hangs = Process::from(bench.tenure(&words).stderr(notes).spawn().unwrap());
    wait_until("it to step down", || {
        bench.read("notes").contains("k: --check failed 3 times in a row; the command was stopped")
    });
    assert!(
        bench.read("notes").contains("3 of 3 in a row: it took longer than 200ms"),
        "{}",
        bench.read("notes")
    );
    hangs.signal(Signal::SIGTERM);
    assert_eq!(hangs.wait(), 143);
    let bench = Bench::new();
    let words = ["elect", "k", "--max", "200ms", "--cooldown", "0s", "--", "sh", "-c", OBEYS];
    let mut leads = bench.start(&words);
    await_term(&bench, 1);
    wait_until("it to lead again", || terms(&bench).len() > 1);
    leads.signal(Signal::SIGTERM);
    leads.wait();
}

#[test]
fn a_check_without_a_command_or_time_is_refused() {
    let bench = Bench::new();
    for (words, says) in [
        (&["--check", ""][..], "--check is empty"),
        (&["--check", "true", "--check-every", "0s"], "--check-every 0s"),
        (&["--check-every", "1s"], "give a --check"),
        (&["--check", "true", "--check-failures", "0"], "--check-failures"),
        (&["--max", "0s"], "no time at all"),
    ] {
        let ran = bench.run(&[&["elect", "k"], words, &["--", "true"]].concat());
        assert!(ran.code == 64 && ran.err.contains(says), "{words:?}: {ran:?}");
    }
}

#[test]
fn a_leader_that_ended_by_itself_says_that_its_lease_was_lost_before() {
    let bench = Bench::new();
    let script = "\"$0\" release k --now --yes; exit 0";
    let ran =
        bench.run(&["elect", "k", "--ttl", "60s", "--", "sh", "-c", script, env!("CARGO_BIN_EXE_tenure")]);
    assert!(ran.code == 76 && ran.err.contains("k: the lease was lost while the command ran"), "{ran:?}");
}
