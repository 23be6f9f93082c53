//! Bugs on purpose at small scope. Plan: with a bug switched on, the checker finds a history that breaks a promise of safety.

mod checker;

use checker::sections::SectionScope;
use checker::ticks::TickScope;
use checker::{SCOPE, Scope};
use stateright::{Checker, Model};
use tenure_core::once::Delivery;
use tenure_core::section::Portion;
use tenure_core::semaphore::Mode;
use tenure_core::{Bug, Bugs};

/// The checker allocates all the time, as worlds do.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[test]
fn the_checker_finds_a_bug_that_is_there() {
    for bug in [Bug::TakeWithoutCondition, Bug::FenceNotRaised, Bug::SilenceNotRestarted] {
        let scope = Scope {
            attached: &[false, false],
            units: 9,
            losses: 0,
            deaths: 1,
            releases: 1,
            delays: 0,
            ..SCOPE
        };
        let scope = Scope { bugs: Bugs::default().with(bug), ..scope };
        let checker = scope.checker().threads(2).spawn_bfs().join();
        assert!(
            checker.discoveries().keys().any(|name| name.starts_with('S')),
            "{bug} is not found in {} states",
            checker.unique_state_count()
        );
    }
}

#[test]
fn the_checker_finds_bugs_of_semaphores() {
    for bug in [Bug::WriterBesideReaders, Bug::SemaphoreUnconditional] {
        let permits = &[Mode::Exclusive, Mode::Shared];
        let scope = Scope { attached: &[true, true], permits, units: 9, releases: 1, ..SCOPE };
        let scope = Scope { bugs: Bugs::default().with(bug), ..scope };
        let checker = scope.checker().threads(2).spawn_bfs().join();
        assert!(
            checker.discoveries().keys().any(|name| name.starts_with('S')),
            "{bug} is not found in {} states",
            checker.unique_state_count()
        );
    }
}

#[test]
fn the_checker_finds_bugs_of_sections() {
    for bug in [Bug::SectionUnconditional, Bug::SectionOverlaps] {
        let wants = [(0, 20, Portion::Free), (10, 30, Portion::All)];
        let bugs = Bugs::default().with(bug);
        let scope =
            SectionScope { wants, units: 8, asks: 2, losses: 1, deaths: 1, releases: 0, delays: 0, bugs };
        let checker = scope.checker().threads(2).spawn_bfs().join();
        assert!(
            checker.discoveries().keys().any(|name| name.starts_with('S')),
            "{bug} is not found in {} states",
            checker.unique_state_count()
        );
    }
}

#[test]
fn the_checker_finds_bugs_of_ticks() {
    for (bug, delivery) in
        [(Bug::BegunRunsAgain, Delivery::AtMostOnce), (Bug::TickRunsAgain, Delivery::AtLeastOnce)]
    {
        let bugs = Bugs::default().with(bug);
        let scope = TickScope { delivery, units: 9, losses: 0, deaths: 1, delays: 0, bugs };
        let checker = scope.checker().threads(2).spawn_bfs().join();
        assert!(
            checker.discoveries().keys().any(|name| name.starts_with("a tick is begun")),
            "{bug} is not found in {} states",
            checker.unique_state_count()
        );
    }
}
