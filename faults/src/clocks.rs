//! Clocks that jump, stand and run at other rates, each set of them of one process: see `clocks.c`.

use crate::process::run;
use crate::raw;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const SOURCE: &str = include_str!("clocks.c");

/// Numbers in the file, which is the `struct shift` of `clocks.c`, and where some of them are.
const WORDS: usize = 10;
const SHOWN: usize = 1;
const FELT: usize = 2;
/// The rate, since when, and what the clocks were off by then.
const SHIFT: usize = 3;

/// What is shown instead of the true time: `rate` in parts of a million, times in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Shift {
    rate: i64,
    since: [i64; 3],
    add: [i64; 3],
}

impl Shift {
    /// Another rate from the true time `now` on: no clock jumps.
    fn runs(self, rate: i64, now: [i64; 3]) -> Shift {
        let mut next = Shift { rate, since: now, add: self.add };
        for ((add, since), now) in next.add.iter_mut().zip(self.since).zip(now) {
            let gained = i128::from(now - since) * i128::from(self.rate) / 1_000_000;
            *add += i64::try_from(gained).unwrap_or(0);
        }
        next
    }

    fn words(self) -> [i64; 7] {
        let (Shift { rate, since, add }, mut words) = (self, [0; 7]);
        words[0] = rate;
        words[1..4].copy_from_slice(&since);
        words[4..].copy_from_slice(&add);
        words
    }

    fn of_words(words: [i64; WORDS]) -> Shift {
        let three = |at: usize| [words[SHIFT + at], words[SHIFT + at + 1], words[SHIFT + at + 2]];
        Shift { rate: words[SHIFT], since: three(1), add: three(4) }
    }
}

/// The clocks from which time can be hidden, as `clocks.c` counts them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ClockKind {
    Wall = 0,
    Monotonic = 1,
    Boottime = 2,
}

/// Compiles what is preloaded into processes; tells where it is.
pub(crate) fn compile(folder: &Path) -> Result<PathBuf, String> {
    let (source, library) = (folder.join("clocks.c"), folder.join("clocks.so"));
    std::fs::write(&source, SOURCE).map_err(|error| format!("{}: {error}", source.display()))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-o"]).arg(&library).arg(&source);
    run(&mut compiler)?;
    Ok(library)
}

/// The clocks of those processes that were started with [`Clocks::environment`].
#[derive(Debug)]
pub(crate) struct Clocks {
    library: PathBuf,
    file: PathBuf,
}

impl Clocks {
    /// Those that show the true time.
    pub(crate) fn new(library: &Path, file: PathBuf) -> Result<Clocks, String> {
        let clocks = Clocks { library: library.to_owned(), file };
        let error = |error| format!("{}: {error}", clocks.file.display());
        std::fs::write(&clocks.file, [0; 8 * WORDS]).map_err(error)?;
        // Servers run under users of their own.
        std::fs::set_permissions(&clocks.file, std::fs::Permissions::from_mode(0o666)).map_err(error)?;
        Ok(clocks)
    }

    /// What makes a process go by them.
    pub(crate) fn environment(&self) -> [(&'static str, String); 2] {
        [
            ("LD_PRELOAD", self.library.display().to_string()),
            ("TENURE_FAULTS_CLOCKS", self.file.display().to_string()),
        ]
    }

    /// Sets the wall clock apart from the true time by so many seconds.
    pub(crate) fn jump(&self, seconds: i64) -> Result<(), String> {
        self.change(|mut shift| {
            shift.add[ClockKind::Wall as usize] = seconds * 1_000_000_000;
            shift
        })
    }

    /// From now on all three gain so many parts of a million, or lose them.
    pub(crate) fn run(&self, parts: i64) -> Result<(), String> {
        self.change(|shift| shift.runs(parts, raw::clocks()))
    }

    /// They have stood for that time while the true ones went on.
    pub(crate) fn hide(&self, hidden: &[ClockKind], span: Duration) -> Result<(), String> {
        let span = i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        self.change(|mut shift| {
            hidden.iter().for_each(|clock| shift.add[*clock as usize] -= span);
            shift
        })
    }

    /// All show the true time. A process that runs would see them jump.
    pub(crate) fn reset(&self) -> Result<(), String> {
        self.change(|_| Shift::default())
    }

    /// How often a process was shown another time than the true one by its wall clock.
    pub(crate) fn shown(&self) -> Result<u64, String> {
        self.words().map(|words| words[SHOWN].unsigned_abs())
    }

    /// The same of the clocks that leases go by.
    pub(crate) fn felt(&self) -> Result<u64, String> {
        self.words().map(|words| words[FELT].unsigned_abs())
    }

    /// Processes read it meanwhile: while the first number is odd they wait.
    fn change(&self, change: impl FnOnce(Shift) -> Shift) -> Result<(), String> {
        let words = self.words()?;
        let next = change(Shift::of_words(words)).words().map(i64::to_ne_bytes).concat();
        self.at(|file| {
            file.write_all_at(&(words[0] + 1).to_ne_bytes(), 0)?;
            file.write_all_at(&next, 8 * SHIFT as u64)?;
            file.write_all_at(&(words[0] + 2).to_ne_bytes(), 0)
        })
    }

    fn words(&self) -> Result<[i64; WORDS], String> {
        let mut bytes = [0; 8 * WORDS];
        self.at(|file| file.read_exact_at(&mut bytes, 0))?;
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = i64::from_ne_bytes(*bytes);
        }
        Ok(words)
    }

    fn at(&self, act: impl FnOnce(&std::fs::File) -> std::io::Result<()>) -> Result<(), String> {
        let file = std::fs::File::options().read(true).write(true).open(&self.file);
        file.and_then(|file| act(&file)).map_err(|error| format!("{}: {error}", self.file.display()))
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a change of the rate is no jump; what is written is read again; counts stay as processes made them.
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn another_rate_is_no_jump() {
        let fast = Shift::default().runs(100_000, [10 * SECOND; 3]);
        assert_eq!(fast, Shift { rate: 100_000, since: [10 * SECOND; 3], add: [0; 3] });
        // Ten seconds have gained one.
        let slow = fast.runs(-500_000, [20 * SECOND; 3]);
        assert_eq!((slow.add, slow.since), ([SECOND; 3], [20 * SECOND; 3]));
        assert_eq!(slow.runs(0, [22 * SECOND; 3]).add, [0; 3]);
    }

    #[test]
    fn what_is_written_is_read_again_and_counts_stay() {
        let folder = tempfile::tempdir().unwrap();
        let clocks = Clocks::new(Path::new("none"), folder.path().join("clocks")).unwrap();
        clocks.at(|file| file.write_all_at(&7_i64.to_ne_bytes(), 8 * FELT as u64)).unwrap();
        clocks.jump(3600).unwrap();
        clocks.hide(&[ClockKind::Monotonic], Duration::from_secs(2)).unwrap();
        let shift = Shift::of_words(clocks.words().unwrap());
        assert_eq!(shift, Shift { rate: 0, since: [0; 3], add: [3600 * SECOND, -2 * SECOND, 0] });
        assert_eq!((clocks.felt(), clocks.shown()), (Ok(7), Ok(0)));
        clocks.reset().unwrap();
        assert_eq!(Shift::of_words(clocks.words().unwrap()), Shift::default());
        assert_eq!(clocks.words().unwrap()[0], 6, "even: nobody waits");
    }
}
