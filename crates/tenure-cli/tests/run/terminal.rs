//! Commands of `tenure run` on a terminal.
//!
//! Plan: the command reads the terminal, and the shell has it back; interrupts reach the command, end it and the script that called tenure; it is not
//! suspended; who insists ends a command that ignores interrupts.

use crate::common::{Bench, wait_until};
use std::io::Write;
use std::process::{Command, Stdio};

/// What a command on a terminal does first: it waits until the terminal is lent to it, which is just after it has started. What is
/// typed before that is for `tenure`.
const IN_FRONT: &str = "until [ $(cut -d\" \" -f8 /proc/$$/stat) = $$ ]; do sleep 0.01; done; touch ready";

/// Runs a shell command on a terminal of its own, types into it, and returns what the terminal shows.
fn on_a_terminal(bench: &Bench, command: &str, typed: &[u8]) -> String {
    typing(bench, command, |keyboard, _| keyboard.write_all(typed).unwrap())
}

/// The same with somebody at the keyboard who is told whether the command has ended.
fn typing(
    bench: &Bench,
    command: &str,
    person: impl FnOnce(&mut std::process::ChildStdin, &mut dyn FnMut() -> bool),
) -> String {
    let mut script = Command::new("script");
    bench.settle(script.args(["-qec", command, "/dev/null"]));
    script.env("TENURE", env!("CARGO_BIN_EXE_tenure")).env("TENURE_STORE", "sqlite:leases.db");
    let mut child =
        script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut keyboard = child.stdin.take().unwrap();
    wait_until("the command to be ready", || bench.path("ready").exists());
    person(&mut keyboard, &mut || child.try_wait().unwrap().is_some());
    let output = child.wait_with_output().unwrap();
    drop(keyboard);
    format!("{} status {}", String::from_utf8_lossy(&output.stdout), output.status.code().unwrap())
}

#[test]
fn a_command_can_read_the_terminal_and_the_shell_has_it_back_afterwards() {
    let bench = Bench::new();
    let command = format!(
        "$TENURE run k -- sh -c '{IN_FRONT}; read x; echo got $x'; echo tenure ended with $?; read y; echo shell got $y"
    );
    let shown = on_a_terminal(&bench, &command, b"one\ntwo\n");
    assert!(
        shown.contains("got one") && shown.contains("tenure ended with 0") && shown.contains("shell got two"),
        "{shown}"
    );
}

#[test]
fn the_terminals_interrupt_goes_to_the_command() {
    let bench = Bench::new();
    let command = format!(
        "$TENURE run k -- sh -c 'trap \"echo cleaning up; exit 9\" INT; {IN_FRONT}; while :; do sleep 0.01; done'"
    );
    let shown = on_a_terminal(&bench, &command, b"\x03");
    assert!(shown.contains("cleaning up") && shown.ends_with("status 9"), "{shown}");
}

#[test]
fn a_command_is_not_suspended_since_its_lease_goes_on() {
    let bench = Bench::new();
    let command = format!("$TENURE run k -- sh -c '{IN_FRONT}; read x; echo got $x'");
    let shown = on_a_terminal(&bench, &command, b"\x1aafter\n");
    assert!(shown.contains("got after") && shown.ends_with("status 0"), "{shown}");
}

/// As the terminal does, and sooner than anybody types: before tenure has heard of it, or is ready to.
#[test]
fn an_interrupt_that_ends_the_command_at_once_ends_the_script_that_called_tenure() {
    let bench = Bench::new();
    let command = format!("$TENURE run k -- sh -c '{IN_FRONT}; kill -INT 0'; echo went on");
    let shown = on_a_terminal(&bench, &command, b"");
    assert!(!shown.contains("went on") && shown.ends_with("status 130"), "{shown}");
    assert_eq!(bench.state("k"), "vacant");
}

#[test]
fn a_command_that_is_interrupted_ends_the_script_that_called_tenure() {
    let bench = Bench::new();
    let command = format!("$TENURE run k -- sh -c '{IN_FRONT}; exec sleep 1000'; echo went on");
    let shown = on_a_terminal(&bench, &command, b"\x03");
    assert!(!shown.contains("went on") && shown.ends_with("status 130"), "{shown}");
    assert_eq!(bench.state("k"), "vacant");
}

#[test]
fn who_insists_ends_a_command_that_ignores_interrupts() {
    let bench = Bench::new();
    let command = format!(
        "$TENURE run k -- sh -c 'trap \"\" INT; {IN_FRONT}; while :; do sleep 0.01; done'; echo went on"
    );
    let shown = typing(&bench, &command, |keyboard, is_over| {
        // A person, who presses the keys again until it helps.
        wait_until("it to end", || {
            std::thread::sleep(std::time::Duration::from_millis(200));
            is_over() || keyboard.write_all(b"\x03").is_err()
        });
    });
    assert!(!shown.contains("went on") && shown.ends_with("status 130"), "{shown}");
    assert!(shown.contains("SIGINT: stopping the command"), "{shown}");
}
