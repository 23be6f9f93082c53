//! What the tests of this store share: the server that `cargo xtask` has started, and schemas of their own in it.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests fail by panicking, also in what they share"
)]

use tenure_postgres::PostgresConfig;
use tenure_postgres::tokio_postgres::{Client, NoTls};
#[allow(unused_imports, reason = "each test file uses its own part")]
pub(crate) use tenure_testkit::unique;

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
