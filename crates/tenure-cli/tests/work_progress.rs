//! The bar of `work`, in a terminal emulator, by its screen contents.
//!
//! Plan: the real binary on a pseudo-terminal, whose output a terminal emulator reads. While it works the bar is there, below what
//! commands have written, also without a newline; in the end nothing is left of it, in no line. There is none where outputs pass through, and none with
//! `--progress never`. A terminal that stands still for longer than the ttl, by Ctrl-S or under a piece of output, holds up no lease and
//! no signal. (Off a terminal: `src/work/job/progress.rs`.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, wait_until};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};

type Emulator = Arc<Mutex<vt100::Parser>>;

/// What each unit does: the last one waits.
const LINES: &str =
    "echo \"out {}\"; echo \"err {}\" >&2; while [ {} = u9 ] && [ ! -e go ]; do sleep 0.02; done; sleep 0.02";

/// Runs it in a terminal, and does `meanwhile` with what is on the screen. Returns what is there in the end, and all that came.
fn in_terminal(
    bench: &Bench,
    more: &[&str],
    script: &str,
    meanwhile: impl FnOnce(&dyn Fn() -> String),
) -> (ExitStatus, String, String) {
    const ROWS: u16 = 100;
    const COLUMNS: u16 = 100;
    let (pty, pts) = pty_process::blocking::open().unwrap();
    pty.resize(pty_process::Size::new(ROWS, COLUMNS)).unwrap();
    let base = ["work", "--name", "j", "-p", "3"];
    let units = ["u1", "u2", "u3", "u4", "u5", "u6", "u7", "u8", "u9", "--", "sh", "-c", script];
    let command = pty_process::blocking::Command::new(env!("CARGO_BIN_EXE_tenure"));
    let command = command.args([&base[..], more, &units].concat());
    let command = command
        .current_dir(bench.path(""))
        .env("TENURE_STORE", "sqlite:leases.db")
        .env("TERM", "xterm-256color");
    let mut child = command.spawn(pts).unwrap();
    let size = |n| NonZero::new(n).unwrap();
    let emulator: Emulator = Arc::new(Mutex::new(vt100::Parser::new(size(ROWS), size(COLUMNS), 0)));
    let (screen, raw) = (Arc::clone(&emulator), Arc::new(Mutex::new(Vec::new())));
    let all = Arc::clone(&raw);
    let reader = std::thread::spawn(move || {
        let (mut pty, mut buffer) = (pty, [0; 4096]);
        // An error is the end: the other side is closed.
        while let Ok(n @ 1..) = pty.read(&mut buffer) {
            screen.lock().unwrap().process(&buffer[..n]);
            all.lock().unwrap().extend_from_slice(&buffer[..n]);
        }
    });
    let contents = || emulator.lock().unwrap().screen().contents();
    meanwhile(&contents);
    bench.write("go", "");
    let status = child.wait().unwrap();
    reader.join().unwrap();
    let raw = String::from_utf8_lossy(&raw.lock().unwrap()).into_owned();
    (status, contents(), raw)
}

/// Every line that has a right to be there, without those of tenure's own.
fn written(screen: &str) -> Vec<String> {
    let mut lines: Vec<String> = screen
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty() && !line.starts_with("tenure: "))
        .map(str::to_owned)
        .collect();
    lines.sort();
    lines
}

fn expected() -> Vec<String> {
    let lines = ["err", "out"].into_iter().flat_map(|what| (1..=9).map(move |n| format!("{what} u{n}")));
    lines.collect()
}

#[test]
fn the_bar_is_below_what_commands_write_and_leaves_nothing_behind() {
    let bench = Bench::new();
    let (status, screen, _) = in_terminal(&bench, &[], LINES, |screen| {
        wait_until("the last unit to be alone", || screen().contains("8/9 settled, 1 running here"));
        let shown = screen();
        let last = shown.trim_end().lines().last().unwrap();
        assert!(last.contains("8/9 settled"), "{shown}");
        assert_eq!(shown.matches("settled").count(), 1, "one bar: {shown}");
    });
    assert!(status.success());
    assert_eq!(written(&screen), expected(), "{screen}");
    assert!(!screen.contains("settled") && screen.contains("9 of 9 units done"), "{screen}");
}

#[test]
fn what_a_command_writes_without_a_newline_at_its_end_stays_on_the_screen() {
    let bench = Bench::new();
    let script =
        "printf \"out {}\"; printf \"err {}\" >&2; while [ {} = u9 ] && [ ! -e go ]; do sleep 0.02; done";
    let (status, screen, _) = in_terminal(&bench, &[], script, |screen| {
        wait_until("the last unit to be alone", || screen().contains("8/9 settled, 1 running here"));
    });
    assert!(status.success());
    assert_eq!(written(&screen), expected(), "{screen}");
}

#[test]
fn there_is_no_bar_where_it_would_be_torn_to_pieces_or_is_not_wanted() {
    for more in [["--ungroup", "-q"], ["--progress", "never"]] {
        let bench = Bench::new();
        let (status, screen, raw) = in_terminal(&bench, &more, LINES, |screen| {
            wait_until("the last unit to run", || {
                bench.store().exists() && (screen().contains("out u8") || screen().contains("out u9"))
            });
        });
        assert!(status.success());
        assert!(!raw.contains("settled"), "{raw}");
        assert_eq!(written(&screen), expected(), "{screen}");
    }
}

/// Stops the output of a terminal, and lets it go on, as a terminal does by default.
const CTRL_S: &[u8] = b"\x13";
const CTRL_Q: &[u8] = b"\x11";

/// Starts the units `a`, `b` and `c`, of which the first one ends after it has written so much, and the others after `go`.
fn on_a_terminal_that_nobody_reads(bench: &Bench, writes: usize) -> (pty_process::blocking::Pty, Process) {
    let (pty, pts) = pty_process::blocking::open().unwrap();
    pty.resize(pty_process::Size::new(40, 100)).unwrap();
    let script = "echo {} >> runs; [ {} = a ] || until [ -e go ]; do sleep 0.02; done; \
                  [ {} != a ] || { yes | head -c $0; touch written; }";
    let work = ["work", "-v", "--name", "j", "-p", "3", "--ttl", "2s", "a", "b", "c", "--"];
    let command = pty_process::blocking::Command::new(env!("CARGO_BIN_EXE_tenure"));
    let command = command
        .args(work)
        .args(["sh", "-c", script, &writes.to_string()])
        .current_dir(bench.path(""))
        .env("TENURE_STORE", "sqlite:leases.db")
        .env("TERM", "xterm-256color");
    let child = command.spawn(pts).unwrap().into();
    wait_until("all to run", || bench.read("runs").lines().count() == 3);
    wait_until("the first one to end", || bench.path("written").exists());
    (pty, child)
}

#[test]
#[allow(clippy::disallowed_methods, reason = "the terminal stands still for more than two ttls")]
fn a_terminal_that_stands_still_costs_no_unit() {
    // Under a piece that it does not hold, and as its user wants it.
    for (writes, is_stopped) in [(1_000_000, false), (10, true)] {
        let bench = Bench::new();
        let (mut pty, mut child) = on_a_terminal_that_nobody_reads(&bench, writes);
        if is_stopped {
            pty.write_all(CTRL_S).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_secs(5));
        bench.write("go", "");
        wait_until("the others to be done", || {
            bench.run(&["work", "status", "j", "--json"]).json()["done"] == 3
        });
        pty.write_all(CTRL_Q).unwrap();
        let reader = std::thread::spawn(move || {
            let mut all = Vec::new();
            // An error is the end: the other side is closed.
            let _closed = pty.read_to_end(&mut all);
            String::from_utf8_lossy(&all).into_owned()
        });
        assert_eq!(child.wait(), 0);
        let screen = reader.join().unwrap();
        let runs = bench.read("runs");
        assert_eq!(runs.lines().count(), 3, "{runs}: {}", screen.replace("y\r\n", ""));
        assert_eq!(screen.matches("y\r\n").count(), writes / 2, "all of it came");
        assert!(screen.contains("c: exit 0") && screen.contains("3 of 3 units done"), "{screen}");
    }
}

#[test]
fn a_terminal_that_stands_still_holds_up_no_signal() {
    let bench = Bench::new();
    let (mut pty, mut child) = on_a_terminal_that_nobody_reads(&bench, 1_000_000);
    pty.write_all(CTRL_S).unwrap();
    child.signal(Signal::SIGTERM);
    wait_until("it to end", || !child.is_running());
    assert_eq!(child.wait(), 143);
}
