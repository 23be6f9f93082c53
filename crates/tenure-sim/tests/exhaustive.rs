//! Every history at small scope. Plan: in the world of `checker`, the states are counted, and there are about as many as there were; S1, S2, P2 and S5 hold in each. That the
//! checker finds bugs is in `exhaustive_bugs.rs`.

use crate::checker::{SCOPE, Scope};
use stateright::{Checker, Model};
use tenure_core::semaphore::Mode;

/// With less than this many `states`, something that can happen in `scope` does not happen any more.
fn check(name: &str, states: usize, scope: Scope) {
    let checker = scope.checker().threads(1).spawn_dfs().join();
    println!(
        "{name}: {} states, {} transitions, depth {}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    assert!(checker.unique_state_count() >= states, "{name}: {} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn two_processes_that_renew_themselves() {
    check(
        "two own",
        1_000_000,
        Scope { attached: &[false, false], units: 9, losses: 1, deaths: 1, releases: 1, delays: 2, ..SCOPE },
    );
}

#[test]
fn a_session_and_a_contender() {
    check(
        "session",
        1_000_000,
        Scope { attached: &[true, false], units: 9, losses: 1, deaths: 1, releases: 0, delays: 2, ..SCOPE },
    );
}

#[test]
fn three_processes() {
    check(
        "three own",
        600_000,
        Scope {
            attached: &[false, false, false],
            units: 7,
            losses: 0,
            deaths: 1,
            releases: 1,
            delays: 1,
            ..SCOPE
        },
    );
}

#[test]
fn a_writer_and_a_reader_of_one_key() {
    let permits = &[Mode::Exclusive, Mode::Shared];
    check(
        "permits",
        120_000,
        Scope {
            attached: &[true, true],
            permits,
            units: 9,
            losses: 1,
            deaths: 1,
            releases: 1,
            delays: 0,
            ..SCOPE
        },
    );
}
