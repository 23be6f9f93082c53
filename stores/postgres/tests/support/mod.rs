//! What the tests of this store share: the server that `cargo xtask` has started, and schemas of their own in it.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use std::sync::atomic::{AtomicU32, Ordering};
use tenure_postgres::PostgresConfig;
use tenure_postgres::tokio_postgres::{Client, NoTls};

/// Where the server is: the variable that `cargo xtask test` and `cargo xtask services run` set.
pub(crate) fn url() -> String {
    std::env::var("TENURE_TEST_POSTGRES").expect(
        "TENURE_TEST_POSTGRES is not set; run `cargo xtask services run -- cargo test -p tenure-postgres`",
    )
}

/// A schema of that server.
pub(crate) fn config(schema: &str) -> PostgresConfig {
    PostgresConfig::from_url(&url()).unwrap().schema(schema).connections(4)
}

/// A connection around tenure, as an operator's or another program's.
pub(crate) async fn admin() -> Client {
    let (client, connection) =
        url().parse::<tenure_postgres::tokio_postgres::Config>().unwrap().connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A name that no other test, in whatever process, has.
pub(crate) fn unique(name: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{name}_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::SeqCst))
}
