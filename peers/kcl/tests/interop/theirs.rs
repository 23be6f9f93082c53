//! A worker of the Kinesis Client Library in a process of its own.

use crate::Terms;
use std::process::{Command, Stdio};
use tenure_dynamodb_testkit::Party;

/// Starts one with one worker.
pub(crate) fn start(id: &str, terms: &Terms) -> Party {
    let class_path = std::env::var("TENURE_TEST_KCL").expect(
        "TENURE_TEST_KCL does not say where the KCL is: `cargo xtask services up` fetches it and prints that",
    );
    let mut command = Command::new("java");
    // Quick to start and small, for there are several.
    command.args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]);
    command.args(["-classpath", &class_path, "KclWorker", &terms.endpoint, &terms.table]);
    command.arg(terms.failover.as_millis().to_string()).arg("1000").arg(terms.steals.to_string());
    command.args(["20", id]);
    // It has much to say about a logger that it lacks.
    Party::start(id, command.stderr(Stdio::null()))
}
