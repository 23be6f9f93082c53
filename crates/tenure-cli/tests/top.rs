//! `tenure fleet top`, in a terminal emulator, by its screen contents.
//!
//! Plan: the real binary on a pseudo-terminal, whose output a terminal emulator reads. It shows workers, units and counts; follows
//! a unit that is added, a worker that dies and the takeover; scrolls; adapts to the terminal's size; says when the store is
//! gone, and goes on; ends by q, by ^C and by a signal, and leaves the terminal as it was. (The layout by itself is tested in
//! `src/verbs/fleet/screen.rs`, and that it refuses to start without a terminal in `fleet_ops.rs`.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]
#![allow(clippy::disallowed_methods, reason = "a real process draws in real time")]

use crate::common::{Bench, LONG, OBEYS, wait_for, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

fn some(size: u16) -> NonZero<u16> {
    NonZero::new(size).unwrap()
}

/// A terminal with `top` in it.
pub(crate) struct Top {
    pub(crate) child: Child,
    pty: Arc<pty_process::blocking::Pty>,
    emulator: Arc<Mutex<vt100::Parser>>,
}

impl Top {
    fn start(bench: &Bench, rows: u16, columns: u16) -> Top {
        Top::of(bench, &["fleet", "top", "f"], rows, columns)
    }

    pub(crate) fn of(bench: &Bench, verb: &[&str], rows: u16, columns: u16) -> Top {
        let (pty, pts) = pty_process::blocking::open().unwrap();
        pty.resize(pty_process::Size::new(rows, columns)).unwrap();
        let command = pty_process::blocking::Command::new(env!("CARGO_BIN_EXE_tenure"));
        let command = command
            .args(verb)
            .args(["--interval", "100ms"])
            .current_dir(bench.path(""))
            .env("TENURE_STORE", "sqlite:leases.db")
            .env("TERM", "xterm-256color");
        let child = command.spawn(pts).unwrap();
        let pty = Arc::new(pty);
        let emulator = Arc::new(Mutex::new(vt100::Parser::new(some(rows), some(columns), 0)));
        let (reader, screen) = (Arc::clone(&pty), Arc::clone(&emulator));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // An error is the end: the other side is closed.
            while let Ok(n @ 1..) = (&*reader).read(&mut buffer) {
                screen.lock().unwrap().process(&buffer[..n]);
            }
        });
        Top { child, pty, emulator }
    }

    fn screen(&self) -> String {
        self.emulator.lock().unwrap().screen().contents()
    }

    pub(crate) fn await_text(&self, text: &str) -> String {
        let shown = || Some(self.screen()).filter(|screen| screen.contains(text));
        let end = Instant::now() + LONG;
        loop {
            match shown() {
                Some(screen) => return screen,
                None => assert!(Instant::now() < end, "{text} is not shown:\n{}", self.screen()),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub(crate) fn press(&self, keys: &str) {
        (&*self.pty).write_all(keys.as_bytes()).unwrap();
    }

    fn resize(&self, rows: u16, columns: u16) {
        self.emulator.lock().unwrap().screen_mut().set_size(some(rows), some(columns));
        self.pty.resize(pty_process::Size::new(rows, columns)).unwrap();
    }

    /// Its exit code; the terminal must be as it was.
    fn end(mut self) -> i32 {
        let status = wait_for("top to end", || self.child.try_wait().unwrap());
        wait_until("the terminal to be as it was", || {
            let emulator = self.emulator.lock().unwrap();
            !emulator.screen().alternate_screen() && !emulator.screen().hide_cursor()
        });
        crate::common::shell_status(status)
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        let _over = self.child.kill();
        let _reaped = self.child.wait();
    }
}

#[test]
fn it_shows_the_fleet_as_it_is_and_becomes() {
    let bench = Bench::new();
    let first = bench.worker(&["a", "b"], OBEYS);
    bench.await_shares(&[(&first, 2)]);
    let second = bench.worker(&["--join"], OBEYS);
    bench.await_shares(&[(&first, 1), (&second, 1)]);
    let (one, other) = (bench.name_of(&first), bench.name_of(&second));
    let top = Top::start(&bench, 30, 180);
    top.await_text("2 workers, 2 units, 2 held, 0 moving, 0 waiting");
    // The last line is drawn last.
    let shown = top.await_text("q quit");
    let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
    assert!(lines[0].starts_with("fleet f  sqlite:leases.db  2"), "{shown}");
    assert!(lines[3].starts_with("WORKER") && lines[3].contains("RENEWED"), "{shown}");
    assert_eq!(
        lines.iter().filter(|line| line.contains("live") && line.contains("s ago")).count(),
        2,
        "{shown}"
    );
    assert!(lines[7].starts_with("UNIT"), "{shown}");
    for (line, unit) in [(lines[8], "a "), (lines[9], "b ")] {
        assert!(line.starts_with(unit) && line.contains("held"), "{shown}");
        assert!(line.contains(&one) || line.contains(&other), "{shown}");
    }
    assert!(shown.trim_end().ends_with("q quit   ↑ ↓ scroll"), "{shown}");
    assert!(top.emulator.lock().unwrap().screen().alternate_screen(), "what was on the screen is kept");

    let to = if bench.unit("a")["owner"] == *one { &other } else { &one };
    assert_eq!(bench.run(&["fleet", "move", "f", "a", to]).code, 0);
    assert_eq!(bench.run(&["fleet", "add", "f", "c", "--needs", "gpu"]).code, 0);
    // The other unit comes back for it.
    top.await_text("seen: 2 moves, 0 takeovers");
    top.await_text("1 uncovered");
    top.await_text("(no worker has its labels)");

    first.die_with_its_host();
    top.await_text("seen: 2 moves, 1 takeover");
    top.await_text("1 worker, 3 units, 2 held");
    assert!(top.screen().contains(&other));
    top.press("q");
    assert_eq!(top.end(), 0);
}

#[test]
fn it_scrolls_and_adapts_to_the_terminal() {
    let bench = Bench::new();
    let units: Vec<String> = (0..40).map(|n| format!("u{n:02}")).collect();
    let units: Vec<&str> = units.iter().map(String::as_str).collect();
    assert_eq!(bench.run(&[&["fleet", "add", "f"], &units[..]].concat()).code, 0);
    let top = Top::start(&bench, 12, 100);
    let shown = top.await_text("u00");
    assert!(!shown.contains("u20"), "{shown}");
    top.press("\u{1b}[B\u{1b}[B");
    wait_until("two lines to scroll", || !top.screen().contains("u01") && top.screen().contains("u02"));
    top.press("\u{1b}[6~\u{1b}[6~");
    wait_until("two pages to scroll", || !top.screen().contains("u21") && top.screen().contains("u22"));
    top.press("\u{1b}[H");
    top.await_text("u00");
    top.resize(50, 120);
    top.await_text("u39");
    top.press("\u{3}");
    assert_eq!(top.end(), 130);
}

#[test]
fn it_goes_on_while_the_store_cannot_be_read_and_ends_by_a_signal() {
    let bench = Bench::new();
    assert_eq!(bench.run(&["fleet", "add", "f", "u"]).code, 0);
    let top = Top::start(&bench, 20, 100);
    top.await_text("1 unit,");
    bench.sql("ALTER TABLE tenure_record RENAME TO hidden");
    top.await_text("tables are not as tenure made them");
    assert!(top.screen().contains("1 unit,"), "what was seen last stays");
    bench.sql("ALTER TABLE hidden RENAME TO tenure_record");
    wait_until("it to recover", || !top.screen().contains("not as tenure made them"));
    kill(Pid::from_raw(top.child.id() as i32), Signal::SIGTERM).unwrap();
    assert_eq!(top.end(), 143);
}

#[test]
fn a_job_is_watched_as_it_goes_on() {
    let bench = Bench::new();
    let script = "[ {} = a ] && exit 3; while ! [ -e go.{} ]; do sleep 0.02; done";
    let base = ["work", "--name", "j", "--retries", "0", "-p", "3", "a", "b", "c", "--", "sh", "-c", script];
    let mut work = bench.start(&base);
    wait_until("the failure", || bench.run(&["work", "status", "j"]).out.contains("exit 3"));
    let mut top = Top::of(&bench, &["work", "top", "j"], 30, 80);
    let shown = top.await_text("units    3: 0 done (0%), 1 failed, 2 running");
    assert!(shown.contains("a: exit 3") && shown.contains("q quit"), "{shown}");
    bench.write("go.b", "");
    top.await_text("units    3: 1 done (33%), 1 failed, 1 running");
    bench.write("go.c", "");
    assert_eq!(work.wait(), 1);
    top.await_text("units    3: 2 done (66%), 1 failed");
    top.press("q");
    assert!(top.child.wait().unwrap().success());
    let refused = bench.run(&["work", "top", "j"]);
    assert!(refused.code == 64 && refused.err.contains("tenure work status"), "{refused:?}");
}
