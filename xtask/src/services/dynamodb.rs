//! DynamoDB Local, Amazon's own emulator, from Maven Central.

use super::{log, workshop};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The program that binds it to loopback, which also tells its processes from others.
pub(super) const PROGRAM: &str = "services/dynamodb/Loopback.java";

/// Which file says that all of it is here.
const WHOLE: &str = "DynamoDBLocal-2.6.1.jar";

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn library() -> Result<PathBuf, String> {
    Ok(workshop()?.join("dynamodb-2.6.1"))
}

/// Has Java and the emulator, or says what is missing.
pub(super) fn fetch() -> Result<(), String> {
    // A JDK, because the program that binds it to loopback is run from its source.
    need("javac", "-version", "default-jdk-headless")?;
    let library = library()?;
    if library.join(WHOLE).exists() {
        return Ok(());
    }
    need("mvn", "--version", "maven")?;
    let coming = library.with_extension("part");
    // What an earlier run left there; that there was none is no mistake.
    let _ = std::fs::remove_dir_all(&coming);
    println!("fetching DynamoDB Local from Maven Central to {}", library.display());
    let status = Command::new("mvn")
        .args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "--file"])
        .arg(source("services/dynamodb/pom.xml"))
        .arg(format!("-DoutputDirectory={}", coming.display()))
        .stdin(Stdio::null())
        .status()
        .map_err(|error| format!("mvn did not start: {error}"))?;
    if !status.success() || !coming.join(WHOLE).exists() {
        return Err(format!("mvn: {status}; {WHOLE} did not come; is Maven Central within reach?"));
    }
    std::fs::rename(&coming, &library).map_err(|error| format!("{}: {error}", library.display()))
}

/// Starts it. It keeps everything in memory.
pub(super) fn spawn(port: u16) -> Result<Child, String> {
    let library = library()?;
    let log = log();
    let file =
        |path: &Path| std::fs::File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let out = file(&log)?;
    let err = out.try_clone().map_err(|error| format!("{}: {error}", log.display()))?;
    Command::new("java")
        .arg("-Xmx512m")
        .arg(format!("-Djava.library.path={}", library.display()))
        .arg("-classpath")
        .arg(library.join("*"))
        .arg(source(PROGRAM))
        .arg(port.to_string())
        .env("DDB_LOCAL_TELEMETRY", "0")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err)
        .spawn()
        .map_err(|error| format!("java did not start: {error}"))
}

fn succeeds(program: &str, args: &[&str]) -> bool {
    let quiet = Command::new(program).args(args).stdout(Stdio::null()).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success())
}

/// Installs a Debian package where its program is missing and we may.
fn need(program: &str, version: &str, package: &str) -> Result<(), String> {
    if succeeds(program, &[version]) {
        return Ok(());
    }
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    if is_root && succeeds("apt-get", &["--version"]) {
        println!("{program} is missing: apt-get install {package}");
        let installed = succeeds("apt-get", &["update"])
            && succeeds("apt-get", &["install", "-y", "--no-install-recommends", package]);
        if installed && succeeds(program, &[version]) {
            return Ok(());
        }
    }
    Err(format!("{program} is missing, and DynamoDB Local needs it: apt-get install {package}"))
}
