//! DynamoDB Local, Amazon's own emulator, from Maven Central.

use super::maven::{Library, source};
use super::server::{Ports, ServerKind};
use std::path::Path;
use std::process::{Child, Command};

pub(super) const KIND: ServerKind = ServerKind {
    name: "DynamoDB Local",
    file: "dynamodb",
    mark: PROGRAM,
    fetch: || LIBRARY.fetch(),
    spawn,
    signal: "-KILL",
};

/// The program that binds it to loopback, which also tells its processes from others.
const PROGRAM: &str = "services/dynamodb/Loopback.java";

/// From Maven Central.
pub(super) const LIBRARY: Library = Library {
    name: "DynamoDB Local",
    folder: "dynamodb-2.6.1",
    pom: "services/dynamodb/pom.xml",
    whole: "DynamoDBLocal-2.6.1.jar",
};

/// What it takes to start one, by the names of variables.
pub(super) fn parts() -> Result<[(&'static str, String); 2], String> {
    let text = |path: &Path| path.display().to_string();
    let library = ("TENURE_TEST_DYNAMODB_LIBRARY", text(&LIBRARY.place()?));
    Ok([library, ("TENURE_TEST_DYNAMODB_PROGRAM", text(&source(PROGRAM)))])
}

/// Starts it. It keeps everything in memory.
fn spawn(port: u16, _others: &Ports) -> Result<Child, String> {
    let library = LIBRARY.place()?;
    let mut java = Command::new("java");
    // It lives for minutes: what the second compiler and a second collector do for it costs more than it saves.
    java.args(["-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
        .arg(format!("-Djava.library.path={}", library.display()))
        .arg("-classpath")
        .arg(library.join("*"))
        .arg(source(PROGRAM))
        .arg(port.to_string())
        .env("DDB_LOCAL_TELEMETRY", "0");
    KIND.start(&mut java)
}
