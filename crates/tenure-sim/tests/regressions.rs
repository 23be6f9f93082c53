//! Worlds that once broke a promise. Plan: each runs again, for ever. What it showed is said beside it; a scenario that has
//! changed since makes another history of the same seed, which does no harm.

use tenure_sim::{SimOptions, run};

/// Scenario, seed, and what the simulator found there.
const FOUND: &[(&str, u64, &str)] = &[
    ("calm", 134_631, "S1: two copies of one token were both adopted"),
    ("calm", 249, "L1: a hint that came while the key was being read was lost"),
    ("usual", 7, "S4: an attempt gave up on a claim that it had never looked for"),
    ("attached", 23, "S3: an attached lease's record was written in the step that lost its session"),
    ("calm", 638, "Answered: a lapse of a withdrawn lease was never answered"),
    ("storm", 72, "S2: a repeated claim, and a release that then lowered the fence"),
    ("storm", 500_010_781, "S2: a repeated claim, and a takeover of the first with the fence of the second"),
    ("hidden", 1_013_914, "Mail: a refresh emptied the mailbox of a token"),
    (
        "sections-brief",
        1,
        "L1: a dead range was refused for ever, as each write lost what ages are rounded by",
    ),
    ("sections-asked", 2, "Answered: whoever waited when a section was stopped heard nothing"),
    (
        "usual",
        8_050_385,
        "C1: where the store's clock has whole seconds, a waiter did nothing but look for the last of them",
    ),
    (
        "usual",
        8_010_252,
        "Answered: an adoption that failed was taken for the lease's end, as its holder was stopped",
    ),
    ("failover", 443, "S2: the beginning of a tenure changed with its first renewal"),
    (
        "semaphores-sessions",
        345,
        "S6: a session had a fence twice, and permits left to expire were taken out as strays",
    ),
    ("semaphores-sessions", 898, "S6: the same, over an older copy that was vacant"),
    (
        "semaphores-sessions",
        1788,
        "L5: the copy of a claim that was refused landed, and its permits were nobody's",
    ),
    (
        "storm",
        1_000_034,
        "L1: the mark of a process that only tries hid the last renewal from who was told of both",
    ),
    ("beyond-rho", 700_033, "Answered: a withdrawn token that was being adopted was told as lost"),
    (
        "fleet-mail",
        47,
        "L2: a worker that had not heard of its part was told again by the number of plans, and so too late",
    ),
];

#[test]
fn what_was_broken_once_is_not_broken_again() {
    for (scenario, seed, found) in FOUND {
        let options = SimOptions {
            scenario: Some((*scenario).into()),
            seed: *seed,
            worlds: 1,
            hours: 1e9,
            ..SimOptions::default()
        };
        let report = run(&options).unwrap();
        assert!(report.failure.is_none(), "{found}\n{report}");
        assert!(report.tenures > 0);
    }
}
