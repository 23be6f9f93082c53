//! Fleets: units of work, partitioned over the workers of one name.
//!
//! Anyone can create, list, change and delete units ([`Fleet`]). A process that joins becomes a [`Worker`] and is given its
//! share: each unit is held by one worker at a time, until it is done or the worker lets go of it, leaves or dies; then another
//! has it, with a higher fence. One worker, the planner, plans who should have which unit, and tells each its part. Any other takes its
//! place when it is gone. Whoever has what is planned for another ends what it does for it, and passes it on in one write.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tenure::fleet::{Fleet, NewUnit, Verdict};
//!
//! let fleet = Fleet::new(tenure::memory(), "thumbnails")?;
//! fleet.create_all((0..4).map(|n| NewUnit::named(format!("shard-{n}")))).await?;
//! let worker = fleet.join().start()?;
//! # let control = worker.clone();
//! # tokio::spawn(async move { while control.held().len() < 4 { tokio::task::yield_now().await } control.leave().await; });
//! // One task for each unit of this worker, told to end when the unit is to go to another.
//! worker.run(|unit| async move {
//!     println!("{} with fence {}", unit.name(), unit.fence());
//!     unit.cancelled().await;
//!     Verdict::Again
//! }).await;
//! # Ok(()) }
//! ```
//!
//! # What it costs
//! With nothing changing, a worker makes one renewal and one small read in each third of a ttl, however many units and workers
//! there are; where ttls differ, it looks by the shortest of them, at the most eight times as often as by its own. That read is of
//! two records. The planner, and two who stand by, read all workers' sessions instead. When a worker comes, goes or dies, or units are
//! added or closed, the planner lists the fleet, and tells those whom its plan concerns. Those who stand by list the workers then.
//!
//! A unit that fails ([`Verdict::Again`]) goes to the next worker: that costs six requests and a listing of the workers, or one where
//! it rests and is tried again in the same place.
//!
//! # How fast it is
//! What a dead worker had is held again 1.15 ttls after its last renewal on a store that tells records' ages or pushes
//! changes (SQLite does both), 1.4 ttls on any other. A worker that joins has its share within three thirds of a ttl and
//! the time that bodies take to end. A worker that leaves passes everything on without a gap.
//!
//! # Metrics and traces
//! With the `metrics` facade, each with the labels `fleet` and `worker`; the example `fleet_metrics` serves them for
//! Prometheus. `worker` is a small number that tells the workers of one process apart; it is given again once its worker is gone, so that restarts add
//! no series. Nor do names of fleets without end: beyond 512 of a fleet and a number, workers are told of as those of a fleet `other`.
//!
//! | name | kind | what |
//! |---|---|---|
//! | `tenure_fleet_held` | gauge | units that this worker holds |
//! | `tenure_fleet_workers` | gauge | live workers, by the last plan |
//! | `tenure_fleet_units` | gauge | units with work to do, by the last plan |
//! | `tenure_fleet_uncovered` | gauge | units that no worker can have |
//! | `tenure_fleet_moves` | gauge | units that the last plan gives to this worker or takes from it, and that have not come or gone yet; one that rests first counts until it is begun |
//! | `tenure_fleet_planner` | gauge | 1 if this worker plans for all, else 0 |
//! | `tenure_fleet_standby` | gauge | 1 if it is to take the planner's place, else 0 |
//! | `tenure_fleet_plan` | gauge | the number of the last plan that was told, as this worker knows; each planner counts its own |
//! | `tenure_fleet_plan_told_seconds` | gauge | when that was, in seconds since 1970 by the planner's clock; 0 before the first one |
//! | `tenure_fleet_planned_moves` | gauge | units that move by the planner's last plan, by `reason`: `vacant` (nobody holds it), `gone` (its worker is), `leave`, `pin`, `labels`, `declined`, `full`, `join`, `evenness`; 0 of all but the planner |
//! | `tenure_fleet_assigned_total` | counter | units given to this worker, by `reason`: `passed` (by another worker), `vacant` (nobody held it), `gone` (its worker was), `rested` (it had failed here) |
//! | `tenure_fleet_drained_total` | counter | units that it was asked to let go of, by `reason`: `moved`, `leaving`, `asked`, `revoked`, `closed`, `uncovered` |
//! | `tenure_fleet_lost_total` | counter | units that it lost, by `reason`, as [leases](crate#what-is-measured) are lost |
//! | `tenure_fleet_trouble_total` | counter | failed looks and listings |
//! | `tenure_fleet_hold_seconds` | histogram | how long it held units that it has no more |
//! | `tenure_fleet_drain_seconds` | histogram | how long it took to let go of units that it was asked for |
//!
//! How renewals of its session fare, on which all its units depend, is [measured](crate#what-is-measured) with the label `of="worker"`.
//!
//! With `tracing`, under the target `tenure::fleet`. All that a worker does happens in a span `worker` (fields `fleet` and
//! `holder`); each task that [`Worker::run`] starts is in a span `unit` (`fleet`, `holder`, `key`, `fence`). In events, too, `key` is that of the
//! unit's record, and `holder` this worker's name. The events:
//!
//! | name | level | message | fields |
//! |---|---|---|---|
//! | `fleet.assigned` | info | unit assigned | `key`, `fence`, `holder` |
//! | `fleet.draining` | info | unit is to go | `key`, `fence`, `holder`, `reason` |
//! | `fleet.lost` | warn | unit lost | `key`, `fence`, `holder`, `reason`, `loss` (the word for it in metrics) |
//! | `fleet.suspended` | warn | session not believed in | `holder` |
//! | `fleet.role` | info | role in the fleet's planning | `holder`, `role` (`planner`, `standby` or `member`), `planner` (nobody: empty) |
//! | `fleet.told` | debug | plan told | `holder`, `planner`, `plan` |
//! | `fleet.planned` | debug | fleet planned | `holder`, `generation`, `workers`, `units`, `moves`, `uncovered`, `causes` (of all moves; only the planner knows them) |
//! | `fleet.uncovered` | warn | no worker can have this unit | `key`, `holder`, `reason` |
//! | `fleet.more_uncovered` | warn | no worker can have that many more units | `holder`, `units` |
//! | `fleet.rests` | warn | this unit has failed, and is tried again later | `key`, `holder`, `failures` (in a row), `rest_ms` |
//! | `fleet.unreadable` | warn | this record can't be read | `key`, `holder`, `reason` |
//! | `fleet.failing` | warn | the store could not be asked about the fleet | `holder`, `reason` |
//! | `fleet.refused` | error | the fleet's workers divide units in another way | `holder`, `reason` |
//! | `fleet.stopped` | info | worker stopped | `holder` |
//! | `fleet.failed` | warn | what was done for this unit has failed | `key`, `fence`, `holder`, `reason` |
//! | `fleet.panicked` | error | what was done for this unit panicked | `key`, `fence`, `holder`, `reason` |
//! | `fleet.stuck` | error | what is done for this unit can't be ended | `key`, `fence`, `holder` |
//! | `fleet.not_let_go` | warn | this unit could not be let go of as its task said | `key`, `fence`, `holder`, `reason` |
//!
//! `fleet.uncovered` names units that this worker's plan before did not, or for another reason, ten at a time at the most; `fleet.more_uncovered` counts the others.
//! A worker that leaves or stops warns of neither, nor of its session.
//!
//! `fleet.failing` is told at once, and then every 10 s while that goes on. The calls that failed are told with the target
//! [`tenure::store`](crate#what-is-logged).
//!
//! # Where names of other systems went
//!
//! | a8m/lease, KCL | here |
//! |---|---|
//! | lease, shard | unit |
//! | coordinator, scheduler | [`Worker`] |
//! | lease key | [`Unit::name`] |
//! | lease counter, owner switches | [`Unit::fence`] |
//! | checkpoint | [`Unit::checkpoint`] |
//! | failover time | [`WorkerBuilder::ttl`] |
//! | max leases per worker | [`WorkerBuilder::most_units`] |
//! | `ShardRecordProcessor` | the body given to [`Worker::run`] |
//! | `shutdownRequested`, `leaseLost` | [`Unit::cancelled`], [`Event::Draining`], [`Event::Lost`] |
//! | `evict` | [`Assignment::release`] |

mod assignment;
mod builder;
mod catalogue;
mod entry;
mod membership;
mod meters;
mod news;
mod presence;
mod run;
mod seat;
mod shared_unit;
mod shared_worker;
mod sink;
mod unit;
mod users;
mod view;
mod worker;

pub use assignment::Assignment;
pub use builder::WorkerBuilder;
pub use catalogue::Fleet;
pub use presence::AtStop;
pub use run::Verdict;
pub use tenure_core::fleet::{
    About, Balance, Cause, FleetKey, FleetName, Planning, Reason, Retry, Role, Status, Summary, Taken,
    Uncovered, UnitSpec,
};
pub use unit::Unit;
pub use view::{Member, NewUnit, Roster, UnitView, Units};
pub use worker::{Event, Worker, WorkerEnd};
