//! The process that something was made in. A forked child has its parent's memory, and none of its threads.

use forkguard::Guard;
use tenure_core::StoreError;

/// A process, to be told from the children that it forks off.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    id: u32,
    /// None where the C library has no room for a handler.
    forks: Option<Guard>,
}

impl Process {
    /// The one that runs this.
    pub(crate) fn this() -> Process {
        Process { id: std::process::id(), forks: Guard::try_new().ok() }
    }

    /// Whether it runs this.
    pub(crate) fn is_this(&self) -> bool {
        // Not all ways to fork call the handler.
        !self.is_forked() && self.id == std::process::id()
    }

    /// Whether a child that it has forked off runs this: one load, for beliefs. Asking the kernel would take ten times as long as the rest of
    /// `is_held()`.
    #[inline]
    pub(crate) fn is_forked(&self) -> bool {
        match &self.forks {
            Some(forks) => forks.clone().detected_fork(),
            None => self.id != std::process::id(),
        }
    }

    /// Refuses what only this process's threads could do.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        if self.is_this() {
            return Ok(());
        }
        Err(StoreError::unavailable(
            "this process was forked off from the one that opened this, and has none of its threads; open the store in this process",
        ))
    }

    /// Another one, as a child finds it.
    #[cfg(test)]
    pub(crate) fn parent() -> Process {
        Process { id: std::process::id().wrapping_add(1), forks: None }
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a process knows itself, and a child is refused with the reason. A fork itself is in tests/fork.rs.
    use super::*;

    #[test]
    fn a_process_is_told_from_its_parent() {
        let (this, parent) = (Process::this(), Process::parent());
        assert!(this.is_this() && !this.is_forked() && this.check().is_ok());
        assert!(!parent.is_this() && parent.is_forked());
        assert!(parent.check().unwrap_err().to_string().contains("forked"));
    }
}
