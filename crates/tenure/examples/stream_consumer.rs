//! A stream of messages in partitions, consumed by a group of processes that grows from one to five and shrinks again, and
//! whose members are killed at random meanwhile.
//!
//! Each partition is a unit of a fleet; its checkpoint is the offset of the next message. Consumers join and leave while
//! messages keep coming; each partition's messages are consumed in order, by one consumer at a time, and none is left out.
//! What is consumed goes into a table whose key is the message, under the partition's fence.
//!
//! Run it with `cargo run --example stream_consumer`, or with `-- KILLS` for another number of kills than five.

use rusqlite::Connection;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tenure::fleet::{Fleet, NewUnit, Unit, Verdict};
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::{AnyStore, Clock, HolderId};

type Result<T, E = Box<dyn std::error::Error + Send + Sync>> = std::result::Result<T, E>;

const PARTITIONS: usize = 15;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    match args.first().map(String::as_str) {
        Some("consumer") => runtime.block_on(consumer(Path::new(&args[1]), &args[2])),
        kills => runtime.block_on(scale(kills.map_or(Ok(5), str::parse)?)),
    }
}

fn stream(dir: &Path) -> Result<Connection> {
    let stream = Connection::open(dir.join("stream.db"))?;
    stream.busy_timeout(Duration::from_secs(10))?;
    stream.execute_batch(
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
         CREATE TABLE IF NOT EXISTS message (partition TEXT, offset INTEGER, PRIMARY KEY (partition, offset));
         CREATE TABLE IF NOT EXISTS consumed (partition TEXT, offset INTEGER, fence INTEGER, PRIMARY KEY (partition, offset));",
    )?;
    Ok(stream)
}

fn fleet(dir: &Path) -> Result<Fleet> {
    let store =
        SqliteStore::open(SqliteConfig::new(dir.join("leases.db")).busy_timeout(Duration::from_secs(10)))?;
    Ok(Fleet::new(AnyStore::new(store), "consumers")?)
}

/// One consumer process: it leaves when its input ends.
async fn consumer(dir: &Path, name: &str) -> Result<()> {
    let worker = fleet(dir)?
        .join()
        .holder(HolderId::new(name)?)
        .ttl(Duration::from_millis(1500))
        .drain_time(Duration::from_secs(1))
        .start()?;
    let leaves = worker.clone();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(leaves.leave());
        }
    });
    let dir: PathBuf = dir.into();
    worker.run(move |unit| consume(unit, dir.clone())).await;
    Ok(())
}

/// Consumes one partition for as long as it is ours.
async fn consume(unit: Unit, dir: PathBuf) -> Verdict {
    let all = async {
        let stream = stream(&dir)?;
        let mut offset = unit.last_checkpoint().and_then(|value| value.as_i64()).unwrap_or(0);
        while !unit.cancelled().is_cancelled() {
            let is_there = stream.query_row(
                "SELECT count(*) FROM message WHERE partition = ?1 AND offset = ?2",
                (unit.name(), offset),
                |row| row.get::<_, bool>(0),
            )?;
            if !is_there {
                tokio::select! {
                    () = unit.cancelled() => break,
                    () = tokio::time::sleep(Duration::from_millis(20)) => continue,
                }
            }
            // A message that was consumed, but not checkpointed, by whoever had the partition before, is skipped here; an
            // older fence than the partition's last is refused.
            stream.execute(
                "INSERT INTO consumed SELECT ?1, ?2, ?3
                 WHERE NOT EXISTS (SELECT 1 FROM consumed WHERE partition = ?1 AND (offset = ?2 OR fence > ?3))",
                (unit.name(), offset, i64::try_from(unit.fence().0)?),
            )?;
            offset += 1;
            unit.checkpoint(offset).await?;
        }
        // A partition is never done.
        Ok(Verdict::Again)
    };
    // An error is logged, and another worker has the partition.
    let consumed: Result<Verdict> = all.await;
    consumed.into()
}

async fn scale(kills: usize) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut stream = stream(dir.path())?;
    let fleet = fleet(dir.path())?;
    let names: Vec<String> = (0..PARTITIONS).map(|n| format!("partition-{n:02}")).collect();
    fleet.create_all(names.iter().map(NewUnit::named)).await?;
    let clock = tenure::clock::system();
    let mut group: Vec<(String, Child)> = Vec::new();
    let (mut written, mut started, mut killed) = (0_i64, 0, 0);
    // Any mixer of numbers will do to choose whom to kill.
    let mut dice = clock.now().wall.0;
    let sizes = [1_usize, 3, 5, 2, 1];
    for (phase, size) in sizes.into_iter().enumerate() {
        // Those that are killed in this phase are replaced, and the group has to share evenly again after each.
        let kills_by_now = kills * (phase + 1) / sizes.len();
        loop {
            while group.len() < size {
                started += 1;
                let name = format!("consumer-{started}");
                let program = std::env::current_exe()?;
                let child = Command::new(program)
                    .arg("consumer")
                    .arg(dir.path())
                    .arg(&name)
                    .stdin(Stdio::piped())
                    .spawn()?;
                group.push((name, child));
            }
            while group.len() > size {
                // The first to come is the first to go.
                let (_, mut child) = group.remove(0);
                drop(child.stdin.take());
                child.wait()?;
            }
            let began = clock.held();
            loop {
                let tx = stream.transaction()?;
                for name in &names {
                    tx.execute("INSERT INTO message VALUES (?1, ?2)", (name, written))?;
                }
                tx.commit()?;
                written += 1;
                tokio::time::sleep(Duration::from_millis(20)).await;
                let mut counts: BTreeMap<HolderId, usize> = BTreeMap::new();
                for unit in fleet.list().await?.units {
                    *counts
                        .entry(unit.holder.map_or(HolderId::new("nobody")?, |by| by.holder))
                        .or_default() += 1;
                }
                let even = counts
                    .values()
                    .all(|count| (PARTITIONS / size..=PARTITIONS.div_ceil(size)).contains(count));
                let members =
                    group.iter().all(|(name, _)| counts.keys().any(|holder| holder.as_str() == name));
                if even && members && counts.len() == size {
                    let took = clock.held().since(began);
                    println!(
                        "{size} consumers: {:?} partitions each after {took:.1?}",
                        counts.values().collect::<Vec<_>>()
                    );
                    break;
                }
                if clock.held().since(began) > Duration::from_secs(60) {
                    return Err(format!("{size} consumers don't share evenly: {counts:?}").into());
                }
            }
            if killed == kills_by_now {
                break;
            }
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (_, mut victim) = group.remove((dice >> 40) as usize % group.len());
            victim.kill()?;
            victim.wait()?;
            killed += 1;
        }
    }
    let total = written * PARTITIONS as i64;
    let consumed = || stream.query_row("SELECT count(*) FROM consumed", (), |row| row.get::<_, i64>(0));
    let began = clock.held();
    while consumed()? < total && clock.held().since(began) < Duration::from_secs(60) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for (_, mut child) in group {
        drop(child.stdin.take());
        child.wait()?;
    }
    // Consumed in order: the fence never falls along a partition.
    let disorder: i64 = stream.query_row(
        "SELECT count(*) FROM consumed a JOIN consumed b ON a.partition = b.partition AND a.offset + 1 = b.offset
         WHERE a.fence > b.fence",
        (),
        |row| row.get(0),
    )?;
    println!(
        "{total} messages written, {} consumed, {disorder} by a deposed consumer; {killed} consumers were killed",
        consumed()?
    );
    assert_eq!((consumed()?, disorder, killed), (total, 0, kills));
    Ok(())
}
