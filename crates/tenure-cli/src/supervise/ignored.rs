//! The signals that were ignored when this process was started (as nohup and `&` in scripts do), and are to stay so.

use std::sync::OnceLock;

/// The signals that are ignored, one bit each. Read once: for the system it is the most costly of files.
pub(super) struct IgnoredSignals(u64);

impl IgnoredSignals {
    pub(super) fn at_start() -> &'static IgnoredSignals {
        static AT_START: OnceLock<IgnoredSignals> = OnceLock::new();
        AT_START.get_or_init(IgnoredSignals::read)
    }

    fn read() -> IgnoredSignals {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        IgnoredSignals(line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0))
    }

    pub(super) fn has(&self, number: i32) -> bool {
        self.0 & (1 << (number - 1)) != 0
    }
}
