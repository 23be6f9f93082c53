//! A write that can't land after the loss of its lease: the lease is a condition of the transaction, in the same file.
//!
//! A payment service keeps its accounts in SQLite, and its leases in the same database. One process loses its lease in the
//! middle of a payment, and its write changes nothing. Run it with `cargo run --example guarded_write`.

use rusqlite::Connection;
use tenure::sqlite::{SqliteConfig, SqliteStore};
use tenure::{AnyStore, Guard, Leases};

fn pay(accounts: &Connection, store: &SqliteStore, lease: &Guard) -> rusqlite::Result<usize> {
    let still_held = store.guard(lease.key(), lease.fence());
    accounts.execute(
        &format!("UPDATE account SET balance = balance - 10 WHERE id = 7 AND {}", still_held.sql()),
        [],
    )
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("accounts.db");
    let accounts = Connection::open(&path)?;
    accounts.execute_batch("CREATE TABLE account (id INTEGER PRIMARY KEY, balance INTEGER)")?;
    accounts.execute("INSERT INTO account VALUES (7, 100)", [])?;

    let store = SqliteStore::open(SqliteConfig::new(&path).within_application(true))?;
    let (first, second) =
        (Leases::new(AnyStore::new(store.clone()))?, Leases::new(AnyStore::new(store.clone()))?);
    let old = first.acquire("account/7").await?;
    println!("held with fence {}: {} row changed", old.fence(), pay(&accounts, &store, &old)?);

    // Somebody takes the lease away by force, as `tenure release` does; its holder does not know yet.
    steal(&store, &old).await?;
    let new = second.acquire("account/7").await?;
    assert!(old.is_held(), "it believes, until its next renewal or its deadline");
    let late = pay(&accounts, &store, &old)?;
    println!("fence {} after the loss: {late} rows changed", old.fence());
    assert_eq!(late, 0);
    assert_eq!(pay(&accounts, &store, &new)?, 1);

    let balance: i64 = accounts.query_row("SELECT balance FROM account", [], |row| row.get(0))?;
    println!("the balance is {balance}: two payments of 10");
    assert_eq!(balance, 80);
    second.stop().await;
    Ok(())
}

async fn steal(store: &SqliteStore, lease: &Guard) -> Result<(), Box<dyn std::error::Error>> {
    use tenure::Store;
    use tenure::store::{Expect, Record, Write};
    let stored = store.read(lease.key()).await?.ok_or("it is held")?;
    let nonce = tenure_core::Nonce(stored.record.nonce.0 ^ 1);
    let record = Record { tenure: None, nonce, ..stored.record };
    store
        .write(Write { key: lease.key().clone(), expect: Expect::Unchanged(stored.version), record })
        .await?;
    Ok(())
}
