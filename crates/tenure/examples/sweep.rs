//! Sweeps stale reminders with four processes of which two are killed on the way, and ends complete: every reminder was handled.
//! With an argument, so many reminders; 1,000,000 is the full size.
//!
//! `cargo run --release -p tenure --example sweep 1000000`
#![allow(clippy::disallowed_methods, reason = "an example of real processes tells real time")]

use rusqlite::{Connection, params};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tenure::range::sweep::{Page, Source, Sweep};
use tenure::range::{KeyRange, Point, RangeLease, Section};
use tenure::registry::{Opening, Registry};

type Error = Box<dyn std::error::Error + Send + Sync>;

/// Reminders in a table of their own, ordered by a key of 64 bits as 16 hexadecimal digits.
struct Reminders(Arc<Mutex<Connection>>);

struct Reminder {
    key: String,
}

impl Reminders {
    fn open(path: &Path) -> Result<Reminders, Error> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(30))?;
        connection.execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
             CREATE TABLE IF NOT EXISTS reminder (key TEXT PRIMARY KEY, handled INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;",
        )?;
        Ok(Reminders(Arc::new(Mutex::new(connection))))
    }

    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Error> {
        let connection = Arc::clone(&self.0);
        let done = tokio::task::spawn_blocking(move || {
            let mut connection = connection.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            work(&mut connection)
        });
        Ok(done.await??)
    }

    async fn handle(&self, batch: Vec<Reminder>, lease: RangeLease) -> Result<(), Error> {
        self.with(move |connection| {
            let transaction = connection.transaction()?;
            let mut mark = transaction.prepare("UPDATE reminder SET handled = handled + 1 WHERE key = ?1")?;
            for reminder in &batch {
                mark.execute([&reminder.key])?;
            }
            drop(mark);
            // This thread goes on where the handler is aborted, as while it waited for another writer: then these reminders are another's by now.
            if lease.is_held() { transaction.commit() } else { transaction.rollback() }
        })
        .await
    }
}

impl Source for Reminders {
    type Item = Reminder;
    type Error = Error;

    async fn scan(&self, range: &KeyRange, limit: usize, _budget: Duration) -> Result<Page<Reminder>, Error> {
        let (low, high) = range.query_bounds(8)?;
        let items: Vec<Reminder> = self
            .with(move |connection| {
                let select = "SELECT key FROM reminder WHERE key >= ?1 AND key < ?2 ORDER BY key LIMIT ?3";
                let mut statement = connection.prepare(select)?;
                let rows = statement
                    .query_map(params![low, high, limit as i64], |row| Ok(Reminder { key: row.get(0)? }))?;
                rows.collect()
            })
            .await?;
        let is_all = items.len() < limit;
        Ok(Page::new(items, is_all))
    }

    fn key(&self, item: &Reminder) -> Point {
        Point::from_hex(&item.key).unwrap_or_default()
    }
}

/// One of the processes.
async fn take_part(dir: &Path) -> Result<(), Error> {
    let reminders = Arc::new(Reminders::open(&dir.join("reminders.db"))?);
    let store = Registry::standard()
        .open(&format!("sqlite:{}", dir.join("leases.db").display()), Opening::default())
        .await?;
    let section = Section::new(store, "reminders")?;
    let sweep = Sweep::new(section, "stale", KeyRange::universe_of_bytes(8))
        .batch(1000)
        .share(5000)
        .duration(Duration::from_secs(6));
    let handler = Arc::clone(&reminders);
    let swept = sweep
        .run(reminders, move |batch, lease| {
            let handler = Arc::clone(&handler);
            async move { handler.handle(batch, lease).await }
        })
        .await;
    let swept = swept.map_err(|error| error.to_string())?;
    println!("process {}: {} reminders under {} leases", std::process::id(), swept.items, swept.leases);
    Ok(())
}

fn start(dir: &Path) -> Result<Child, Error> {
    Ok(Command::new(std::env::current_exe()?).arg("take-part").arg(dir).spawn()?)
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, role, dir] = arguments.as_slice()
        && role == "take-part"
    {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(take_part(&PathBuf::from(dir)));
    }
    let count: u64 = arguments.get(1).map_or(Ok(50_000), |count| count.parse())?;
    let dir = tempfile::tempdir()?;
    let reminders = Reminders::open(&dir.path().join("reminders.db"))?;
    let connection = || reminders.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    {
        let mut connection = connection();
        let transaction = connection.transaction()?;
        let mut insert = transaction.prepare("INSERT INTO reminder (key) VALUES (?1)")?;
        for n in 0..count {
            // Spread like hashes.
            let key = format!("{:016x}", (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            insert.execute([&key])?;
        }
        drop(insert);
        transaction.commit()?;
    }
    let began = Instant::now();
    let mut processes = (0..4).map(|_| start(dir.path())).collect::<Result<Vec<_>, _>>()?;
    let number =
        |sql: &str| connection().query_row(sql, [], |row| row.get::<_, i64>(0).map(i64::unsigned_abs));
    let handled = "SELECT count(*) FROM reminder WHERE handled > 0";
    // Two are killed in the middle of it.
    for (victim, share) in [(3, 5), (2, 3)] {
        while number(handled)? < count / share {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut victim = processes.remove(victim);
        let killed = victim.kill();
        victim.wait()?;
        killed?;
        println!("process {} was killed after {} reminders", victim.id(), number(handled)?);
    }
    for mut process in processes {
        assert!(process.wait()?.success(), "a process that was left alone fails");
    }
    let twice = number("SELECT count(*) FROM reminder WHERE handled > 1")?;
    println!("{} of {count} handled in {:.1?}, {twice} of them twice", number(handled)?, began.elapsed());
    assert_eq!(number(handled)?, count, "nothing is missed");
    assert!(twice <= 2000, "more than the batches under way of those that were killed");
    Ok(())
}
