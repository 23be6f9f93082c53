//! What is in the program that users build: never a bug on purpose, and the client of a server only by a feature.

use crate::step::cargo;
use std::process::Command;

/// What users build.
const PROGRAM: &str = "tenure-cli";

/// The feature with protocol bugs, which are for the simulator only.
const BUGS: &str = "bugs";

/// The clients of servers. Each is most of what a build with it takes.
const CLIENTS: [&str; 4] = ["aws-sdk-dynamodb", "redis", "tokio-postgres", "tonic"];

/// A package that would be built, and its features.
#[derive(Debug)]
struct Built {
    name: String,
    features: Vec<String>,
}

pub(crate) fn no_bugs() -> Result<(), String> {
    let built = built(&["--package", PROGRAM])?;
    match built.iter().find(|package| package.has_bugs()) {
        None => Ok(()),
        Some(package) => Err(format!("{PROGRAM} would be built with the protocol bugs of {}", package.name)),
    }
}

pub(crate) fn small_by_default() -> Result<(), String> {
    let clients = clients(&["--package", PROGRAM])?;
    if clients.is_empty() {
        return Ok(());
    }
    Err(format!(
        "a default build of {PROGRAM} would have the clients {}: each belongs behind the feature of its store",
        clients.join(", ")
    ))
}

/// The clients among what cargo would build.
fn clients(which: &[&str]) -> Result<Vec<&'static str>, String> {
    let built = built(which)?;
    Ok(CLIENTS.into_iter().filter(|client| built.iter().any(|package| package.name == *client)).collect())
}

/// All that cargo would build.
fn built(which: &[&str]) -> Result<Vec<Built>, String> {
    let output = Command::new(cargo())
        .args(["tree", "--edges", "normal,build", "--prefix", "none", "--format", "{p}|{f}"])
        .args(which)
        .output()
        .map_err(|error| format!("cargo did not start: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo tree: {}", String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(Built::parse).collect())
}

impl Built {
    /// `NAME vVERSION …|FEATURE,FEATURE`. A package that was shown before has " (*)" after its features.
    fn parse(line: &str) -> Option<Built> {
        let (package, features) = line.split_once('|')?;
        let name = package.split(' ').next()?.to_owned();
        let features = features.trim_end_matches(" (*)").split(',').map(str::to_owned).collect();
        Some(Built { name, features })
    }

    fn has_bugs(&self) -> bool {
        self.features.iter().any(|feature| feature == BUGS)
    }
}

#[cfg(test)]
mod tests {
    //! Plan: protocol bugs and clients are noticed where they are, and only there.
    use super::*;
    use crate::workspace::ALL_STORES;

    #[test]
    fn bugs_are_noticed() {
        let names = |which: &[&str]| -> Vec<String> {
            let built = built(which).unwrap().into_iter();
            built.filter(Built::has_bugs).map(|package| package.name).collect()
        };
        assert_eq!(names(&["--package", "tenure-core", "--features", BUGS]), ["tenure-core"]);
        assert!(names(&["--package", "tenure-core"]).is_empty());
    }

    #[test]
    fn clients_are_noticed() {
        assert_eq!(clients(&["--package", PROGRAM, "--features", ALL_STORES]), Ok(CLIENTS.to_vec()));
        let of_one = clients(&["--package", PROGRAM, "--features", "redis"]);
        assert_eq!(of_one, Ok(vec!["redis"]));
        assert_eq!(clients(&["--package", PROGRAM]), Ok(Vec::new()));
    }
}
