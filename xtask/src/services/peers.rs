//! The programs of others that share a table with us, or do the same work: partners of tests and benches. Each is driven by
//! a small Java program of ours.

use super::maven::{Library, source};
use super::workshop;
use crate::command::run;
use std::path::PathBuf;
use std::process::Command;

/// A library and the program that drives it.
#[derive(Debug, Clone, Copy)]
pub(super) struct PeerLibrary {
    library: Library,
    /// Its source, in this package's folder.
    program: &'static str,
    /// The variable that tells its class path to whoever starts it.
    pub(super) variable: &'static str,
}

/// The Kinesis Client Library: its taker and its renewer.
pub(super) const KCL: PeerLibrary = PeerLibrary {
    library: Library {
        name: "the Kinesis Client Library",
        folder: "kcl-3.5.1",
        pom: "services/kcl/pom.xml",
        whole: "amazon-kinesis-client-3.5.1.jar",
    },
    program: "services/kcl/KclWorker.java",
    variable: "TENURE_TEST_KCL",
};

/// AWS's lock client, to be measured.
pub(super) const LOCK_CLIENT: PeerLibrary = PeerLibrary {
    library: Library {
        name: "AWS's lock client",
        folder: "lock-client-1.4.0",
        pom: "services/lock-client/pom.xml",
        whole: "dynamodb-lock-client-1.4.0.jar",
    },
    program: "services/lock-client/LockPairs.java",
    variable: "TENURE_TEST_LOCK_CLIENT",
};

impl PeerLibrary {
    /// Has the library, and the program compiled.
    pub(super) fn fetch(self) -> Result<(), String> {
        self.library.fetch()?;
        let program = source(self.program);
        let classes = self.classes()?;
        let text =
            std::fs::read_to_string(&program).map_err(|error| format!("{}: {error}", program.display()))?;
        // The source lies beside what was made of it, so that a change is noticed.
        let compiled = classes.join("source");
        if std::fs::read_to_string(&compiled).is_ok_and(|old| old == text) {
            return Ok(());
        }
        let mut javac = Command::new("javac");
        javac.arg("-classpath").arg(self.library.place()?.join("*")).arg("-d").arg(&classes).arg(&program);
        run(&mut javac)?;
        std::fs::write(&compiled, text).map_err(|error| format!("{}: {error}", compiled.display()))
    }

    /// What `java -classpath` has to be given.
    pub(super) fn class_path(self) -> Result<String, String> {
        Ok(format!("{}:{}/*", self.classes()?.display(), self.library.place()?.display()))
    }

    fn classes(self) -> Result<PathBuf, String> {
        Ok(workshop()?.join(format!("{}-program", self.library.folder)))
    }
}
