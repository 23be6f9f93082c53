//! The processes that tenure has beside its commands: this same program, under names of their own.

/// What a watchdog is called in the table of processes: whoever kills all that are called `tenure` does not mean it.
pub(super) const WATCHDOG: &str = "tenure-watchdog";
/// What the process is called that hears of interrupts.
pub(super) const KEYBOARD: &str = "tenure-keyboard";

/// This program, also if its file was replaced meanwhile.
pub(super) fn own_program() -> std::io::Result<std::path::PathBuf> {
    let same = std::path::Path::new("/proc/self/exe");
    if same.exists() { Ok(same.to_owned()) } else { std::env::current_exe() }
}

/// Where the system has no such file, the process is called as its program is.
pub(super) fn call_oneself(name: &str) {
    let _called_otherwise = std::fs::write("/proc/self/comm", name);
}
