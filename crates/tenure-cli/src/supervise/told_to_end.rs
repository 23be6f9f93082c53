//! Whether this process was told to end. It is known as soon as the process goes on after a stop, before anybody has taken the signal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Notes that this signal tells the process to end.
pub(super) fn note(signal: i32) {
    let flag = Arc::clone(FLAG.get_or_init(Arc::default));
    // Without it a terminal may stop this process once more before it ends.
    let _flagged = signal_hook::flag::register(signal, flag);
}

/// Whether one of those signals has come.
pub(super) fn was_told() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::SeqCst))
}
