//! Peers' published bugs. Plan: each scenario that is named after one runs, keeps every promise, and the moment that the
//! bug is about really came, many times, and so did each kind of fault that it names; every bug that was published and that the faces here can have is among them.
//! (`bugs.rs` shows that each of these worlds would have told: with the bug switched on, it is caught there.)

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::promises::odd_faults;
use tenure_sim::{Coverage, SimOptions, run, scenario};

/// How often a kind of moment must come, at the least.
pub(crate) type Moments = &'static [(Coverage, u64)];

/// How long each is simulated.
pub(crate) const SECONDS: f64 = 5e5;

/// Scenario, where its bug was published, and what must come how often in these seconds.
pub(crate) const PEERS: &[(&str, &str, Moments)] = &[
    ("kcl-1803", "kinesis-client issue 1803", &[(Coverage::DiedHolding, 1000), (Coverage::TakenOver, 1000)]),
    (
        "kcl-1729",
        "kinesis-client issue 1729",
        &[(Coverage::MailMetRenewal, 1000), (Coverage::HandedOver, 500)],
    ),
    ("a8m-3", "dynamodb-lease issue 3", &[(Coverage::Renewed, 50_000), (Coverage::RefusedByResource, 50)]),
    ("a8m-fresh-row", "dynamodb-lease, first claim", &[(Coverage::FreshRowRace, 20)]),
    (
        "lock-client-44",
        "lock-client issue 44; cirello-io/dynamolock issue 84",
        &[(Coverage::TakenByTrying, 500)],
    ),
    ("dynamolock-446", "dynamolock issue 446", &[(Coverage::LossUnreachable, 1000)]),
    ("shedlock-1986", "ShedLock issue 1986", &[(Coverage::LateRelease, 10), (Coverage::LossOverdue, 500)]),
    ("less", "less", &[(Coverage::LateRenewal, 20), (Coverage::TakenOver, 1000)]),
    ("etcd-11456", "etcd issue 11456", &[(Coverage::OwnSessionAgain, 500)]),
    (
        "client-go-728",
        "client-go issue 728",
        &[(Coverage::LeftToExpire, 1000), (Coverage::DiedHolding, 1000)],
    ),
];

#[test]
fn every_published_bug_is_met_and_survived() {
    for (name, source, moments) in PEERS {
        let scenario = scenario::named(name).unwrap_or_else(|| panic!("no scenario {name}"));
        assert!(scenario.source.contains(source), "{name} cites {}", scenario.source);
        let options =
            SimOptions { scenario: Some((*name).into()), hours: SECONDS / 3600.0, ..SimOptions::default() };
        let report = run(&options).unwrap();
        assert!(report.failure.is_none() && report.seconds() >= SECONDS, "{report}");
        assert!(report.tenures > 500 && report.events > 25_000, "{name} does something: {report}");
        assert_eq!(odd_faults(name, &report), Vec::<String>::new());
        let seen: Vec<_> =
            moments.iter().map(|(coverage, _)| (coverage.name(), report.coverage(*coverage))).collect();
        println!("{name:<16} {:>7} tenures  {seen:?}", report.tenures);
        for (coverage, least) in *moments {
            assert!(report.coverage(*coverage) >= *least, "{name} is about {}: {seen:?}", coverage.name());
        }
    }
}

/// a8m/lease scans one page of its table, and what is on the next ones is nobody's.
#[test]
fn a_fleet_that_is_listed_in_many_pages_is_seen_whole() {
    let scenario = Some("fleet-a8m-one-page".into());
    let report = run(&SimOptions { scenario, worlds: 40, hours: 1e9, ..SimOptions::default() }).unwrap();
    assert!(report.failure.is_none(), "{report}");
    assert!(report.tenures > 2_000 && report.fault_count() > 5_000, "{report}");
}
