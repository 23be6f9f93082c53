//! What each metric is, in a sentence for whoever looks at it.

pub(super) const COUNTERS: [(&str, &str); 12] = [
    ("tenure_leases_acquired_total", "Leases that were acquired"),
    ("tenure_leases_released_total", "Leases that were given up while they were held"),
    ("tenure_leases_lost_total", "Leases that were lost"),
    ("tenure_leaderships_begun_total", "Elections that were won"),
    ("tenure_leaderships_ended_total", "Leaderships that are over"),
    ("tenure_range_leases_acquired_total", "Leases of parts of a range that were acquired"),
    ("tenure_range_leases_ended_total", "Leases of parts of a range that have ended"),
    ("tenure_store_failures_total", "Calls to the store that failed"),
    ("tenure_fleet_assigned_total", "Units given to a worker"),
    ("tenure_fleet_drained_total", "Units that a worker was asked to let go of"),
    ("tenure_fleet_lost_total", "Units that a worker lost"),
    ("tenure_fleet_trouble_total", "Failed looks and listings of a worker"),
];

pub(super) const GAUGES: [(&str, &str); 17] = [
    ("tenure_leases_held", "Leases that are held now"),
    ("tenure_leases_waiting", "Leases that somebody waits for now"),
    ("tenure_permits_held", "Permits of semaphores that are held now"),
    ("tenure_permits_waiting", "Permits of semaphores that somebody waits for now"),
    ("tenure_range_leases_held", "Leases of parts of a range that are held now"),
    ("tenure_range_leases_waiting", "Leases of parts of a range that somebody waits for now"),
    (
        "tenure_renewal_remaining_least_seconds",
        "The least that was left at a renewal, in the minute before the latest",
    ),
    ("tenure_fleet_held", "Units that a worker holds"),
    ("tenure_fleet_workers", "Live workers, by the last plan"),
    ("tenure_fleet_units", "Units with work to do, by the last plan"),
    ("tenure_fleet_uncovered", "Units that no worker can have"),
    ("tenure_fleet_moves", "Units on their way to or from a worker"),
    ("tenure_fleet_planner", "Whether a worker plans for its fleet"),
    ("tenure_fleet_standby", "Whether a worker is to take the planner's place"),
    ("tenure_fleet_plan", "The number of the last plan that was told"),
    ("tenure_fleet_plan_told_seconds", "When the last plan was told, in seconds since 1970"),
    ("tenure_fleet_planned_moves", "Units that move by the planner's last plan"),
];

pub(super) const HISTOGRAMS: [(&str, &str); 9] = [
    ("tenure_lease_hold_seconds", "How long leases were held that have ended"),
    ("tenure_lease_wait_seconds", "How long leases were waited for that were acquired"),
    ("tenure_range_lease_hold_seconds", "How long leases of parts of a range were held that have ended"),
    ("tenure_range_lease_wait_seconds", "How long parts of a range were waited for that were had"),
    ("tenure_renewal_seconds", "How long renewals took that landed in time"),
    (
        "tenure_renewal_remaining_seconds",
        "What was left of what was renewed when it was: what nears zero is about to be lost",
    ),
    ("tenure_store_call_seconds", "How long calls to the store take"),
    ("tenure_fleet_hold_seconds", "How long a worker held units that it has no more"),
    ("tenure_fleet_drain_seconds", "How long a worker took to let go of units that it was asked for"),
];
