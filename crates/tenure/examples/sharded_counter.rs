//! A counter in shards that ends exactly right, though its workers are killed at random.
//!
//! Each shard is a unit of a fleet, and counts from 0 to a target, one step at a time: an effect on a resource, then a
//! checkpoint. Workers are processes of their own, and this program kills them (SIGKILL) and starts others, over and over.
//! Between an effect and its checkpoint a worker may die, so a step may be tried twice; and a worker may be slow to die, so
//! two may try at once. The resource takes each step once, because it checks the fence and the step's number. When all
//! shards are done and there are kills left, as many shards again are added.
//!
//! Run it with `cargo run --example sharded_counter`, or with numbers of your own:
//! `cargo run --example sharded_counter -- KILLS SHARDS STEPS WORKERS`, such as `-- 500` for five hundred kills.

use rusqlite::Connection;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tenure::fleet::{Fleet, NewUnit, Status, Unit, Verdict};
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::{AnyStore, Clock};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    match args.first().map(String::as_str) {
        Some("worker") => runtime.block_on(worker(Path::new(&args[1]), args[2].parse()?)),
        _ => {
            let number = |at: usize, default: u64| args.get(at).map_or(Ok(default), |text| text.parse());
            runtime.block_on(watch_over(number(0, 10)?, number(1, 12)?, number(2, 300)?, number(3, 3)?))
        }
    }
}

/// The resource: for each shard how far it has come, and the highest fence that it has seen.
fn resource(dir: &Path) -> Result<Connection> {
    let resource = Connection::open(dir.join("counters.db"))?;
    resource.busy_timeout(Duration::from_secs(10))?;
    resource.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         CREATE TABLE IF NOT EXISTS counter (shard TEXT PRIMARY KEY, fence INTEGER NOT NULL, steps INTEGER NOT NULL);
         CREATE TABLE IF NOT EXISTS step (shard TEXT, step INTEGER, fence INTEGER, PRIMARY KEY (shard, step));",
    )?;
    Ok(resource)
}

/// Takes one step, unless the fence is older than one that was seen. True if it was taken now, false if it had been.
fn take(resource: &mut Connection, shard: &str, fence: i64, step: i64) -> Result<bool> {
    let tx = resource.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    tx.execute("INSERT INTO counter VALUES (?1, ?2, 0) ON CONFLICT DO NOTHING", (shard, fence))?;
    let current =
        tx.execute("UPDATE counter SET fence = ?2 WHERE shard = ?1 AND fence <= ?2", (shard, fence))?;
    if current == 0 {
        return Err(format!("{shard}: fence {fence} is deposed").into());
    }
    let taken =
        tx.execute("UPDATE counter SET steps = ?2 WHERE shard = ?1 AND steps = ?2 - 1", (shard, step))?;
    if taken == 1 {
        tx.execute("INSERT INTO step VALUES (?1, ?2, ?3)", (shard, step, fence))?;
    }
    tx.commit()?;
    Ok(taken == 1)
}

fn fleet(dir: &Path) -> Result<Fleet> {
    let store =
        SqliteStore::open(SqliteConfig::new(dir.join("leases.db")).busy_timeout(Duration::from_secs(10)))?;
    Ok(Fleet::new(AnyStore::new(store), "counters")?)
}

/// One worker process, until it is killed or told to leave by the end of its input.
async fn worker(dir: &Path, steps: i64) -> Result<()> {
    let worker =
        fleet(dir)?.join().ttl(Duration::from_millis(1000)).drain_time(Duration::from_secs(1)).start()?;
    let leaves = worker.clone();
    std::thread::spawn(move || {
        // Nothing is ever written: this returns when the parent closes the pipe, or is gone.
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(leaves.leave());
        }
    });
    let dir: PathBuf = dir.into();
    worker.run(move |unit| count(unit, dir.clone(), steps)).await;
    Ok(())
}

async fn count(unit: Unit, dir: PathBuf, steps: i64) -> Verdict {
    let all = async {
        let mut resource = resource(&dir)?;
        let fence = i64::try_from(unit.fence().0)?;
        let mut step = unit.last_checkpoint().and_then(|value| value.as_i64()).unwrap_or(0);
        while step < steps {
            if unit.cancelled().is_cancelled() {
                return Ok(Verdict::Again);
            }
            step += 1;
            take(&mut resource, unit.name(), fence, step)?;
            if step % 10 == 0 {
                unit.checkpoint(step).await?;
            }
        }
        Ok(Verdict::Done)
    };
    // An error is logged, and the unit goes to another worker.
    let all: Result<Verdict> = all.await;
    all.into()
}

async fn watch_over(kills: u64, shards: u64, steps: u64, workers: u64) -> Result<()> {
    let dir = tempfile::tempdir()?;
    resource(dir.path())?;
    let fleet = fleet(dir.path())?;
    let mut created = 0;
    let start = || {
        let program = std::env::current_exe()?;
        let worker = Command::new(program)
            .arg("worker")
            .arg(dir.path())
            .arg(steps.to_string())
            .stdin(Stdio::piped())
            .spawn();
        worker.map_err(Into::into)
    };
    let mut crew: Vec<Child> = (0..workers).map(|_| start()).collect::<Result<_>>()?;
    let clock = tenure::clock::system();
    // Any mixer of numbers will do to spread the kills.
    let mut dice = clock.now().wall.0;
    let mut killed = 0;
    loop {
        let units = fleet.list().await?.units;
        let done = units.iter().filter(|unit| unit.spec.status == Status::Done).count() as u64;
        if done == created && (created == 0 || killed < kills) {
            fleet
                .create_all((0..shards).map(|n| NewUnit::named(format!("shard-{:03}", created + n))))
                .await?;
            created += shards;
        } else if done == created {
            break;
        }
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        tokio::time::sleep(Duration::from_millis(50 + (dice >> 33) % 400)).await;
        if killed < kills {
            let at = (dice >> 40) as usize % crew.len();
            crew[at].kill()?;
            crew[at].wait()?;
            crew[at] = start()?;
            killed += 1;
        }
    }
    for mut worker in crew {
        drop(worker.stdin.take());
        worker.wait()?;
    }
    let count =
        |sql: &str| -> Result<i64> { Ok(resource(dir.path())?.query_row(sql, (), |row| row.get(0))?) };
    let total = count("SELECT sum(steps) FROM counter")?;
    let taken = count("SELECT count(*) FROM step")?;
    let owners = count("SELECT count(*) FROM (SELECT DISTINCT shard, fence FROM step)")?;
    println!(
        "{created} shards counted to {steps} each: {total} in all, {taken} steps taken, by {owners} tenures; {killed} workers were killed in {:.1} s",
        clock.held().0 as f64 / 1e9
    );
    assert_eq!((total, taken), (i64::try_from(created * steps)?, total));
    assert_eq!(killed, kills);
    Ok(())
}
