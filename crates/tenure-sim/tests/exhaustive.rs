//! Every history at small scope. Plan: in the world of `checker`, the states are counted, and there are about as many as there were; S1, S2, P2 and S5 hold in each; in the worlds of a section S2, S3 and S7 do, and in those of a tick what its delivery says. That the
//! checker finds bugs is in `exhaustive_bugs.rs`.

use crate::checker::sections::SectionScope;
use crate::checker::ticks::TickScope;
use crate::checker::{SCOPE, Scope};
use stateright::{Checker, Model};
use std::fmt::Debug;
use std::hash::Hash;
use tenure_core::Bugs;
use tenure_core::once::Delivery;
use tenure_core::section::Portion;
use tenure_core::semaphore::Mode;

/// With less than this many `states`, something that can happen in `scope` does not happen any more.
fn check<M>(name: &str, states: usize, scope: M)
where
    M: Model<State: Clone + Debug + Hash + PartialEq + Send + Sync, Action: Clone + Debug + PartialEq>
        + Send
        + Sync
        + 'static,
{
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

#[test]
fn two_processes_whose_ranges_overlap() {
    let wants = [(0, 20, Portion::Free), (10, 30, Portion::All)];
    let bugs = Bugs::NONE;
    check(
        "section",
        14_000,
        SectionScope { wants, units: 8, asks: 2, losses: 1, deaths: 1, releases: 0, delays: 0, bugs },
    );
}

#[test]
fn two_processes_that_are_to_run_one_tick() {
    for (name, delivery) in [("at most", Delivery::AtMostOnce), ("at least", Delivery::AtLeastOnce)] {
        let bugs = Bugs::NONE;
        check(name, 9_500, TickScope { delivery, units: 9, losses: 0, deaths: 1, delays: 0, bugs });
    }
}
