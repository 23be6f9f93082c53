//! Threads of a store: SQLite's calls wait for the disk, so they have threads of their own.

use tenure_core::StoreError;

/// Starts one, which ends by itself.
pub(crate) fn start(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let thread = std::thread::Builder::new().name(name.into()).spawn(work);
    thread.map(drop).map_err(|error| StoreError::unavailable(format!("can't start a thread ({error})")))
}
