//! `run`, and `work`, as a job of a shell: stopped and continued by its keys and words, in bash and in zsh, on a pseudo-terminal.
//!
//! Plan: Ctrl-Z stops tenure and its command as one job, and the lease is held meanwhile; `bg` and `fg` continue both; commands of units stop and go on likewise; after `fg` the command has
//! the terminal again; a pager beside it has the keyboard; one with another input has the terminal when it wants it; one that reads it from the background is a stopped job; what stands still for longer than its lease is ended; a script's timeout(1) ends what stands still for want of the terminal; other signals
//! reach the command. (Where nobody could continue the job, it is not stopped: `run.rs`.)
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::num::NonZero;
use std::process::Child;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SHELLS: [(&str, &[&str]); 2] = [("bash", &["--norc", "--noprofile", "-i"]), ("zsh", &["-f", "-i"])];

/// A shell with somebody at its keyboard.
struct Shell {
    bench: Bench,
    child: Child,
    pty: Arc<pty_process::blocking::Pty>,
    emulator: Arc<Mutex<vt100::Parser>>,
}

impl Shell {
    fn start((name, arguments): (&str, &[&str])) -> Shell {
        let bench = Bench::new();
        let (pty, pts) = pty_process::blocking::open().unwrap();
        let (rows, columns) = (60, 200);
        pty.resize(pty_process::Size::new(rows, columns)).unwrap();
        let command = pty_process::blocking::Command::new(name).args(arguments);
        let command = command
            .current_dir(bench.path(""))
            .env("TENURE_STORE", "sqlite:leases.db")
            .env("TENURE_CONFIG", "/dev/null")
            .env("TENURE", env!("CARGO_BIN_EXE_tenure"))
            .env("HOME", bench.path(""))
            .env("TERM", "xterm-256color");
        let child = command.spawn(pts).unwrap_or_else(|error| panic!("{name} has to be installed: {error}"));
        let size = |n| NonZero::new(n).unwrap();
        let emulator = Arc::new(Mutex::new(vt100::Parser::new(size(rows), size(columns), 0)));
        let pty = Arc::new(pty);
        let (reader, screen) = (Arc::clone(&pty), Arc::clone(&emulator));
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = (&*reader).read(&mut buffer) {
                screen.lock().unwrap().process(&buffer[..n]);
            }
        });
        let shell = Shell { bench, child, pty, emulator };
        // Its line editor is ready when it has answered.
        shell.types("echo sh''ell\n");
        shell.shows("\nshell");
        shell
    }

    fn types(&self, text: &str) {
        (&*self.pty).write_all(text.as_bytes()).unwrap();
    }

    fn screen(&self) -> String {
        self.emulator.lock().unwrap().screen().contents()
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        wait_until(&format!("{text:?} on the screen"), || self.screen().contains(text));
    }

    /// Runs what counts.
    #[track_caller]
    fn counts(&self, ttl: &str) {
        self.types(&format!("$TENURE run k --ttl {ttl} -- bash -c '{COUNTS}'\n"));
        self.goes_on();
    }

    /// How far it has counted.
    fn count(&self) -> u64 {
        self.bench.read("count").trim().parse().unwrap_or(0)
    }

    #[track_caller]
    fn goes_on(&self) {
        let before = self.count();
        wait_until("the command to go on", || self.count() > before);
    }

    /// Waits until the job has the terminal: the command, but after `bg` and `fg` tenure may keep it until the command wants it.
    #[track_caller]
    fn goes_to_front(&self) {
        let is_in_front = |name| {
            let stat = self.stat(name);
            // Its process group, and that in the terminal's foreground.
            stat.len() > 5 && stat[2] == stat[5]
        };
        wait_until("the job to have the terminal", || ["pid", "tenure"].into_iter().any(is_in_front));
    }

    #[track_caller]
    fn presses(&self, key: &str) {
        self.goes_to_front();
        self.types(key);
    }

    /// What the shell says of its job.
    #[track_caller]
    fn says_stopped(&self) {
        let is_said = || self.screen().contains("Stopped") || self.screen().contains("suspended");
        wait_until("the shell to say so", || {
            if !is_said() {
                self.types("jobs\n");
                std::thread::sleep(Duration::from_millis(50));
            }
            is_said()
        });
    }

    /// proc(5), from the state on.
    fn stat(&self, file: &str) -> Vec<String> {
        let pid = self.bench.await_number(file);
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    fn is_stopped(&self, file: &str) -> bool {
        self.stat(file).first().is_some_and(|state| state == "T")
    }

    /// What holds that key counts: Ctrl-Z stops it, bg and fg continue it, and Ctrl-C ends it.
    fn stops_goes_on_and_ends(&self, key: &str) {
        self.presses("\x1a");
        wait_until("both to stop", || self.is_stopped("tenure") && self.is_stopped("pid"));
        self.says_stopped();
        assert_eq!(self.bench.state(key), "held");
        self.types("bg\n");
        self.goes_on();
        self.types("clear\nfg\n");
        self.goes_on();
        self.presses("\x1a");
        wait_until("both to stop again", || self.is_stopped("tenure") && self.is_stopped("pid"));
        self.says_stopped();
        self.types("fg\n");
        self.goes_on();
        self.presses("\x03");
        wait_until("the end", || self.bench.state(key) == "vacant");
        self.types("echo status $?\n");
        self.shows("status 130");
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the screen:\n{}", self.screen());
        }
        let _over = self.child.kill();
        let _reaped = self.child.wait();
    }
}

/// Counts until it is told to end. In bash: where /bin/sh forks by vfork(2), Ctrl-Z may stop the child before it is a program of its own,
/// and its parent waits for it, unstopped; no shell sees such a job as stopped. With a trap: without one bash goes on if what it waits for
/// ends by itself as Ctrl-C is pressed.
const COUNTS: &str = "trap \"trap - INT; kill -INT \\$\\$\" INT; echo $PPID > tenure; echo $$ > pid; n=0; \
                      while :; do n=$((n+1)); echo $n > count; sleep 0.02; done";

#[test]
fn ctrl_z_bg_and_fg_are_as_with_any_job() {
    for of in SHELLS {
        let shell = Shell::start(of);
        shell.counts("10m");
        shell.stops_goes_on_and_ends("k");
    }
}

/// Commands of units are no part of the terminal's job: they stop and go on with the process that has started them.
#[test]
fn ctrl_z_bg_and_fg_stop_and_continue_the_commands_of_units_too() {
    for of in SHELLS {
        let shell = Shell::start(of);
        shell.types(&format!("$TENURE work -q --name j --ttl 10m u -- bash -c '{COUNTS}'\n"));
        shell.goes_on();
        shell.stops_goes_on_and_ends("work/j/u");
    }
}

/// After `bg`, `fg` sends no signal: the job has the terminal, and its command does not, until it wants it.
#[test]
fn what_reads_the_terminal_after_bg_and_fg_has_it() {
    for of in SHELLS {
        let shell = Shell::start(of);
        let reads =
            "echo $PPID > tenure; echo $$ > pid; until [ -e go ]; do sleep 0.02; done; read x; echo got $x";
        shell.types(&format!("$TENURE run k --ttl 10m -- bash -c '{reads}'\n"));
        shell.presses("\x1a");
        shell.says_stopped();
        shell.types("bg\nclear\nfg\n");
        shell.goes_to_front();
        std::fs::write(shell.bench.path("go"), "").unwrap();
        shell.types("something\n");
        shell.shows("got something");
        wait_until("the end", || shell.bench.state("k") == "vacant");
    }
}

/// As `| less`: its reader is of tenure's group, and has the keyboard. The command has it when it asks.
#[test]
fn a_pager_has_the_keyboard_beside_a_command_and_the_command_when_it_wants_it() {
    for of in SHELLS {
        let shell = Shell::start(of);
        let asks = "touch begun; until [ -e go ]; do sleep 0.02; done; read y </dev/tty; echo command got $y >/dev/tty";
        let pages = "read x </dev/tty; echo pager got $x; touch go; cat";
        shell.types(&format!("$TENURE run k --ttl 10m -- sh -c '{asks}' | bash -c '{pages}'\n"));
        wait_until("the command to run", || shell.bench.path("begun").exists());
        shell.types("one\n");
        shell.shows("pager got one");
        shell.types("two\n");
        shell.shows("command got two");
        wait_until("the end", || shell.bench.state("k") == "vacant");
        shell.types("echo status $?\n");
        shell.shows("status 0");
    }
}

/// As `ssh` asks for a password though its input is a file, and as a command does that has none.
#[test]
fn what_has_another_input_has_the_terminal_when_it_wants_it() {
    for of in SHELLS {
        let shell = Shell::start(of);
        for (verb, name, key) in [
            ("run k --ttl", "first", "k"),
            ("range s 0..10 --for", "second", "section/s"),
            ("run k --ttl 10m -- $TENURE run l --ttl", "third", "k"),
        ] {
            let asks = format!("stty -echo </dev/tty; echo read\"\"y for {name} >/dev/tty; read y </dev/tty");
            let tells = "stty echo </dev/tty; echo got $y";
            shell.types(&format!("echo input | $TENURE {verb} 10m -- sh -c '{asks}; {tells}'\n"));
            shell.shows(&format!("ready for {name}"));
            shell.types(&format!("{name}\n"));
            shell.shows(&format!("got {name}"));
            wait_until("the end", || shell.bench.state(key) == "vacant");
            shell.types("echo status $?\n");
            shell.shows("status 0");
        }
        // An interrupt is for tenure, as long as the command has not asked.
        shell.types("clear; $TENURE run k --ttl 10m -- sh -c 'touch begun; exec sleep 1000' </dev/null\n");
        wait_until("the command to run", || shell.bench.path("begun").exists());
        shell.types("\x03");
        shell.shows("SIGINT: stopping the command");
        wait_until("the end", || shell.bench.state("k") == "vacant");
    }
}

/// As `| tee`: Ctrl-C comes to tenure and to the reader then, and the command hears of it as from its terminal.
#[test]
fn ctrl_c_is_an_interrupt_for_a_command_whose_output_is_piped() {
    for of in SHELLS {
        let shell = Shell::start(of);
        let traps = "trap \"touch interrupted; exit 3\" INT; trap \"touch told\" TERM; touch begun; while :; do sleep 0.02; done";
        let reads = "trap \"\" INT; cat";
        shell.types(&format!("$TENURE run k --ttl 10m -- sh -c '{traps}' | sh -c '{reads}'\n"));
        wait_until("the command to run", || shell.bench.path("begun").exists());
        shell.types("\x03");
        wait_until("it to hear of that", || shell.bench.path("interrupted").exists());
        wait_until("the end", || shell.bench.state("k") == "vacant");
        assert!(!shell.bench.path("told").exists(), "it was stopped by TERM");
    }
}

#[test]
fn what_reads_the_terminal_from_the_background_stops_until_it_is_in_front() {
    for of in SHELLS {
        let shell = Shell::start(of);
        let reads = "echo $PPID > tenure; read x; echo got $x";
        shell.types(&format!("$TENURE run k --ttl 10m -- sh -c '{reads}' &\n"));
        shell.says_stopped();
        shell.types("fg\n");
        wait_until("tenure to go on", || !shell.is_stopped("tenure"));
        shell.types("something\n");
        shell.shows("got something");
        wait_until("the end", || shell.bench.state("k") == "vacant");
    }
}

/// It ignores what a terminal stops others with, so that it can end them.
#[test]
fn timeout_ends_what_wants_the_terminal_and_has_it_not() {
    let shell = Shell::start(SHELLS[0]);
    for (verb, name) in [("run k -- cat", "ran"), ("hold k", "held")] {
        shell.types(&format!("bash -c 'timeout 2 $TENURE {verb}; echo {name} $?'\n"));
        shell.shows(&format!("{name} 124"));
        wait_until("the end", || shell.bench.state("k") == "vacant");
    }
}

#[test]
fn s6_a_job_that_stands_still_for_longer_than_its_lease_is_ended() {
    for of in SHELLS {
        let shell = Shell::start(of);
        shell.counts("2s");
        shell.presses("\x1a");
        wait_until("the command to be ended", || !crate::common::is_alive(shell.bench.await_number("pid")));
        assert!(shell.is_stopped("tenure"), "by the watchdogs, as tenure stands still");
        shell.types("fg\n");
        shell.shows("the command was stopped");
        shell.types("echo status $?\n");
        shell.shows("status 76");
    }
}

#[test]
fn other_signals_reach_the_command_and_do_no_harm_to_who_waits() {
    let bench = Bench::new();
    let script = "for s in USR1 USR2 QUIT WINCH ALRM; do trap \"echo $s >> got\" $s; done; echo $$ > pid; \
                  while [ \"$(sort -u got 2>/dev/null | wc -l)\" != 5 ]; do sleep 0.01; done; exit 7";
    let mut run = bench.start(&["run", "k", "--ttl", "60s", "--", "sh", "-c", script]);
    bench.await_number("pid");
    let mut waits = bench.start(&["run", "k", "--ttl", "60s", "--", "true"]);
    waits.await_signals();
    for signal in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGWINCH, Signal::SIGALRM] {
        waits.signal(signal);
    }
    for signal in [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGQUIT, Signal::SIGWINCH, Signal::SIGALRM] {
        kill(Pid::from_raw(run.id().cast_signed()), signal).unwrap();
    }
    assert_eq!(run.wait(), 7, "all of them, each to the command: {}", bench.read("got"));
    assert_eq!(waits.wait(), 0, "none of them ends who waits");
}
