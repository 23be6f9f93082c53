//! Commands of one `tenure work` that run side by side, and what each of them has started.
//!
//! Plan: a daemon without tenure's mark, which may be of several commands, outlives those that end before the last one of these, and no
//! longer, and what it writes is no other command's; what stands in a session with something marked is known; many slots.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Ran, is_alive, work};

/// Waits for a file.
const AWAIT: &str = "await() { until [ -e $1 ]; do sleep 0.01; done; }; ";

/// As a server that writes over its environment, which is the only one in its session. It is younger than
/// the other command, which has made `old`, and has lost its parent when `up` is there.
const DAEMON: &str =
    "await old; (setsid env -i sh -c 'echo $$ > bare; exec /bin/sleep 600' & await bare); echo > up";

/// Two at a time. The third begins when the first one that ends is over, with all that was taken for its own.
fn of_three(bench: &Bench, script: &str) -> Ran {
    let script = format!("{AWAIT}case $1 in {script} esac");
    bench.run(&work(&["-p", "2", "a", "b", "next"], &["sh", "-c", &script, "sh"]))
}

#[test]
fn s6_what_a_running_command_has_started_is_not_ended_with_another_one() {
    let bench = Bench::new();
    let ran = of_three(
        &bench,
        &format!(
            "a) {DAEMON}; await next; kill -0 $(cat bare);; b) echo > old; await up;; next) echo > next;;"
        ),
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!is_alive(bench.await_number("bare")), "but with its own: {ran:?}");
}

#[test]
fn s6_what_may_be_of_two_commands_is_ended_with_the_last_one() {
    let bench = Bench::new();
    let script =
        format!("a) {DAEMON};; b) echo > old; await next; kill -0 $(cat bare);; next) echo > next;;");
    let ran = of_three(&bench, &script);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(!is_alive(bench.await_number("bare")), "{ran:?}");
    let told = "b: CMD left sleep (";
    assert!(
        ran.err.contains(told) && ran.err.contains("running, or another that ended before did"),
        "{ran:?}"
    );
}

#[test]
fn s6_what_is_in_a_session_with_something_marked_is_ended_with_its_own_command() {
    let bench = Bench::new();
    bench.write("both", "(env -i sh -c 'echo $$ > bare; exec /bin/sleep 600' &); exec sleep 600\n");
    let script = "a) await old; setsid sh ./both & await bare;; b) echo > old; await next; ! kill -0 $(cat bare);; next) echo > next;;";
    let ran = of_three(&bench, script);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("a: CMD left ") && !ran.err.contains("or another"), "{ran:?}");
}

#[test]
fn what_outlives_its_command_writes_into_no_other_commands_output() {
    let bench = Bench::new();
    bench.write(
        "late",
        "echo > up; until [ -e next ]; do /bin/sleep 0.01; done; echo late; echo > wrote; exec /bin/sleep 600",
    );
    let script = "a) await old; (setsid env -i sh ./late & await up);; b) echo > old; await wrote;; next) echo > next; await wrote; echo well;;";
    let ran = of_three(&bench, script);
    assert!(ran.code == 0 && ran.out.contains("well") && !ran.out.contains("late"), "{ran:?}");
}

#[test]
fn any_number_of_slots_that_is_accepted_will_do() {
    for parallel in ["600", "4096"] {
        let bench = Bench::new();
        // Short runs, after which units are claimed ahead.
        let ran = bench.run(&["work", "--name", "j", "-p", parallel, "a", "b", "c", "--", "true"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}
