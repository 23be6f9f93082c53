//! What `tenure elect` and `tenure work` are given to run: it logs from when until when it was at work, under which fence.

use crate::raw;
use std::io::Write as _;
use std::time::Duration;

/// `FILE NAME MILLISECONDS`: a line at each few milliseconds, `NAME FENCE TIME`, and at the end `NAME FENCE done`. For ever with 0.
pub(super) fn run(words: &[&str]) -> Result<(), String> {
    let [file, name, span] = words else { return Err("lead FILE NAME MILLISECONDS".into()) };
    let fence = std::env::var("TENURE_FENCE").map_err(|_| "there is no TENURE_FENCE here")?;
    let span = Duration::from_millis(span.parse().map_err(|error| format!("{span}: {error}"))?);
    let error = |error| format!("{file}: {error}");
    // Appended at once: lines of several processes don't mix.
    let mut log = std::fs::File::options().create(true).append(true).open(file).map_err(error)?;
    let start = raw::now();
    while span.is_zero() || raw::since(start) < span {
        log.write_all(format!("{name} {fence} {}\n", raw::now()).as_bytes()).map_err(error)?;
        std::thread::sleep(Duration::from_millis(5));
    }
    log.write_all(format!("{name} {fence} done\n").as_bytes()).map_err(error)
}
