//! Units that are withdrawn from a worker that has others.
//!
//! Plan: a unit that is released by force from `work` and `work --forever`, whose command is deaf to TERM, beside another one that is well; tenure
//! stands still while the command has its grace, or does not; the same of a worker that leaves.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can't go on fails")]

use crate::common::{Bench, Process, is_alive, wait_until};
use nix::sys::signal::Signal;
use std::time::Duration;

/// Hears of TERM, and goes on.
const DEAF: &str =
    "trap 'echo told > told-$TENURE_UNIT' TERM; echo $$ > $TENURE_UNIT; while :; do sleep 0.05; done";

/// A worker with the units `u` and `v`, and what is there once it has been told that `u` is released by force.
struct Scene {
    bench: Bench,
    work: Process,
    release: Process,
    u: i32,
    v: i32,
}

impl Scene {
    fn play(how: &[&str], key: &str, is_leaving: bool) -> Scene {
        let bench = Bench::new();
        let options = ["work", "--name", "j", "--ttl", "9s", "--grace", "60s", "u", "v"];
        let work = bench.start(&[&options, how, &["--", "sh", "-c", DEAF]].concat());
        let (u, v) = (bench.await_number("u"), bench.await_number("v"));
        let is_told =
            |unit: &str| wait_until("it to be told", || bench.path(&format!("told-{unit}")).exists());
        if is_leaving {
            // Both are to go, and have their grace when one of them is released.
            work.signal(Signal::SIGTERM);
            ["u", "v"].into_iter().for_each(is_told);
        }
        let session = bench.show(key)["session"]["key"].as_str().unwrap().to_owned();
        // It hears of it as late as can be, and is renewed right after that: then its session outlives the unit by most.
        wait_until("a renewal", || bench.show(&session)["age_ms"].as_u64().is_some_and(|age| age < 300));
        let release = bench.start(&["release", "--yes", key]);
        is_told("u");
        Scene { bench, work, release, u, v }
    }

    fn s6_it_is_dead_in_time_when_tenure_stands_still(mut self) {
        // The session is renewed again, and the watchdogs know.
        std::thread::sleep(Duration::from_millis(300));
        self.bench.stop(&[self.work.id()]);
        assert!(is_alive(self.u), "it has its grace still");
        assert_eq!(self.release.wait(), 0);
        assert!(!is_alive(self.u), "another may have the unit");
    }

    fn what_is_well_goes_on(mut self) {
        assert_eq!(self.release.wait(), 0);
        // It is deaf to TERM, so what it is not spared is its end.
        assert!(!is_alive(self.u) && is_alive(self.v));
        assert!(self.bench.number("v") == Some(self.v) && self.work.is_running());
    }
}

const JOB: (&[&str], &str) = (&["-p", "2"], "work/j/u");
const FLEET: (&[&str], &str) = (&["--forever"], "fleet/j/unit/u");

#[test]
fn s6_a_unit_of_a_job_that_is_released_by_force_does_not_run_on_when_tenure_stands_still() {
    Scene::play(JOB.0, JOB.1, false).s6_it_is_dead_in_time_when_tenure_stands_still();
}

#[test]
fn s6_a_unit_of_a_fleet_that_is_released_by_force_does_not_run_on_when_tenure_stands_still() {
    Scene::play(FLEET.0, FLEET.1, false).s6_it_is_dead_in_time_when_tenure_stands_still();
}

#[test]
fn what_a_job_runs_beside_a_unit_that_is_released_by_force_goes_on() {
    Scene::play(JOB.0, JOB.1, false).what_is_well_goes_on();
}

#[test]
fn what_a_fleets_worker_runs_beside_a_unit_that_is_released_by_force_goes_on() {
    Scene::play(FLEET.0, FLEET.1, false).what_is_well_goes_on();
}

#[test]
fn what_is_to_go_beside_a_unit_that_is_released_by_force_keeps_its_grace() {
    Scene::play(FLEET.0, FLEET.1, true).what_is_well_goes_on();
}
