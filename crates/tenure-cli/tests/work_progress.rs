//! The bar of `work`, in a terminal emulator, by its screen contents.
//!
//! Plan: the real binary on a pseudo-terminal, whose output a terminal emulator reads. While it works the bar is there, below what
//! commands have written; in the end nothing is left of it, in no line. There is none where outputs pass through, and none with
//! `--progress never`. (Off a terminal: `src/work/job/progress.rs`.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, wait_until};
use std::io::Read;
use std::num::NonZero;
use std::process::ExitStatus;
use std::sync::{Arc, Mutex};

type Emulator = Arc<Mutex<vt100::Parser>>;

/// Runs it in a terminal, and does `meanwhile` with what is on the screen. Returns what is there in the end, and all that came.
fn in_terminal(
    bench: &Bench,
    more: &[&str],
    meanwhile: impl FnOnce(&dyn Fn() -> String),
) -> (ExitStatus, String, String) {
    const ROWS: u16 = 100;
    const COLUMNS: u16 = 100;
    let (pty, pts) = pty_process::blocking::open().unwrap();
    pty.resize(pty_process::Size::new(ROWS, COLUMNS)).unwrap();
    let script = "echo \"out {}\"; echo \"err {}\" >&2; while [ {} = u9 ] && [ ! -e go ]; do sleep 0.02; done; sleep 0.02";
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
    let (status, screen, _) = in_terminal(&bench, &[], |screen| {
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
fn there_is_no_bar_where_it_would_be_torn_to_pieces_or_is_not_wanted() {
    for more in [["--ungroup", "-q"], ["--progress", "never"]] {
        let bench = Bench::new();
        let (status, screen, raw) = in_terminal(&bench, &more, |screen| {
            wait_until("the last unit to run", || {
                bench.store().exists() && (screen().contains("out u8") || screen().contains("out u9"))
            });
        });
        assert!(status.success());
        assert!(!raw.contains("settled"), "{raw}");
        assert_eq!(written(&screen), expected(), "{screen}");
    }
}
