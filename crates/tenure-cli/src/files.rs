//! Open files: how many this process may have at a time (1,024, as a rule, for programs that don't ask for more), how large they may be, and
//! those without a name.

use nix::sys::signal::Signal;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// As many as it may have at all.
#[cfg(feature = "serve")]
pub(crate) fn allow_all() {
    allow(u64::MAX);
}

/// At least `n`, if it may have so many. What is started afterwards may have as many as this process, so it is not asked for more than is needed.
pub(crate) fn allow(n: u64) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if let Some(more) = more(current, maximum, n) {
        // Where that is refused, whoever opens a file is told.
        let _as_before = setrlimit(Resource::Nofile, Rlimit { current: more, maximum });
    }
}

/// Where files may be only so large (ulimit -f), whoever writes beyond that is told, as on a full disk. This process would be killed by a signal
/// otherwise. The programs that it starts have that signal as they would have it without this.
pub(crate) fn outlive_size_limit() {
    if getrlimit(Resource::Fsize).current.is_some() {
        let _killed_by_it =
            signal_hook::flag::register(Signal::SIGXFSZ as i32, Arc::new(AtomicBool::new(false)));
    }
}

/// A new file in this directory, which has no name: nothing is left of it however this process ends.
///
/// # Errors
/// The name that it should have had for a moment, and why it has not.
pub(crate) fn nameless(directory: &Path) -> Result<File, (PathBuf, io::Error)> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("tenure-{}-{number}", std::process::id()));
        // Nobody else's, also where somebody has guessed the name.
        let file = OpenOptions::new().read(true).append(true).create_new(true).mode(0o600).open(&path);
        match file.and_then(|file| std::fs::remove_file(&path).map(|()| file)) {
            Ok(file) => return Ok(file),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err((path, error)),
        }
    }
}

/// The last byte of a file that can be read at any place; none if it is empty.
pub(crate) fn last_byte(file: &File) -> io::Result<Option<u8>> {
    let Some(at) = file.metadata()?.len().checked_sub(1) else { return Ok(None) };
    let mut last = [0];
    file.read_exact_at(&mut last, at)?;
    Ok(Some(last[0]))
}

/// The next limit, if there is to be another; without a number there is none.
fn more(current: Option<u64>, maximum: Option<u64>, n: u64) -> Option<Option<u64>> {
    let current = current.filter(|current| *current < n)?;
    let wanted = n.max(current.saturating_mul(2));
    let more = maximum.map_or((n < u64::MAX).then_some(wanted), |maximum| Some(wanted.min(maximum)));
    (more != Some(current)).then_some(more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_doubled_as_far_as_it_may_be_and_never_lowered() {
        assert_eq!(more(Some(1024), Some(4096), 1024), None);
        assert_eq!(more(Some(1024), Some(4096), 1026), Some(Some(2048)));
        assert_eq!(more(Some(1024), Some(4096), 3000), Some(Some(3000)));
        assert_eq!(more(Some(3000), Some(4096), 3002), Some(Some(4096)));
        assert_eq!(more(Some(4096), Some(4096), 5000), None);
        assert_eq!((more(Some(1024), Some(4096), u64::MAX), more(None, None, 9)), (Some(Some(4096)), None));
        assert_eq!(
            (more(Some(1024), None, u64::MAX), more(Some(1024), None, 1026)),
            (Some(None), Some(Some(2048)))
        );
    }
}
