//! DynamoDB Local, with its tables on disk.

use super::ClusterMember;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `cargo xtask faults` says that it is.
const LIBRARY: &str = "TENURE_TEST_DYNAMODB_LIBRARY";

/// On a machine of its own it listens on all addresses, as it does by itself.
pub(super) fn command(member: &ClusterMember) -> Result<Command, String> {
    let library = std::env::var_os(LIBRARY).map(PathBuf::from);
    let library = library.ok_or_else(|| {
        format!("{LIBRARY} does not say where DynamoDB Local is: run this by cargo xtask faults")
    })?;
    let data = member.data();
    std::fs::create_dir_all(&data).map_err(|error| format!("{}: {error}", data.display()))?;
    let mut env = member.clocks.environment().to_vec();
    env.push(("DDB_LOCAL_TELEMETRY", "0".to_owned()));
    let mut command = member.place().command(Path::new("java"), None, &env);
    command
        // It is to start soon, again and again, not to be fast.
        .args(["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"])
        .arg(format!("-Djava.library.path={}", library.display()))
        .arg("-classpath")
        .arg(library.join("*"))
        .args(["com.amazonaws.services.dynamodbv2.local.main.ServerRunner", "-dbPath"])
        .arg(&data)
        .args(["-disableTelemetry", "-port", "8000"]);
    Ok(command)
}
