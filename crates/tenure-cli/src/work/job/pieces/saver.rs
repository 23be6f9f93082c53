//! The thread that saves pieces in files (`--results`). It is not the one that writes them: whoever reads these may be slow, and a unit is done
//! once its files are there.
//!
//! Where the lease was lost, another process may have run the unit since, and have saved what came of that: such a piece is not saved.

use super::capture::Captured;
use super::printer::Piece;
use crate::exit::Failure;
use crate::text::{escaped, hex};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};

#[derive(Debug)]
pub(crate) struct Saver(Sender<Piece>);

impl Saver {
    /// `saved` is given each piece whose files are there, and each that `is_ours` no more, with that answer; `trouble` is told once if files
    /// can't be written there.
    pub(crate) fn start(
        results: PathBuf,
        is_ours: impl Fn(&Piece) -> bool + Send + 'static,
        saved: impl Fn(Piece, bool) + Send + 'static,
        trouble: impl FnOnce(io::Error) + Send + 'static,
    ) -> Result<Saver, Failure> {
        let (pieces, to_save) = channel();
        let save_all = move || {
            for mut piece in to_save {
                let is_ours = is_ours(&piece);
                let result = if is_ours { save_in(&results, &mut piece) } else { Ok(()) };
                if let Err(error) = result {
                    return trouble(error);
                }
                saved(piece, is_ours);
            }
        };
        let thread = std::thread::Builder::new().name("saver".to_owned());
        thread.spawn(save_all).map_err(Failure::no_thread)?;
        Ok(Saver(pieces))
    }

    pub(crate) fn save(&self, piece: Piece) {
        // Nobody takes it any more after trouble, which was told.
        let _untold = self.0.send(piece);
    }
}

fn save_in(results: &Path, Piece { unit, captured, exit, .. }: &mut Piece) -> io::Result<()> {
    save(&results.join(directory_of(unit)), captured, *exit).map_err(|error| {
        io::Error::other(format!("--results {}: {error}", escaped(&results.to_string_lossy())))
    })
}

fn save(directory: &Path, captured: &mut Captured, exit: Option<i64>) -> io::Result<()> {
    captured.out.rewind()?;
    captured.err.rewind()?;
    let named = |path: &Path| {
        let shown = escaped(&path.to_string_lossy());
        move |error: io::Error| io::Error::new(error.kind(), format!("{shown}: {error}"))
    };
    std::fs::create_dir_all(directory).map_err(named(directory))?;
    // That of an earlier run tells nothing of what is written now.
    let status_path = directory.join("status");
    match std::fs::remove_file(&status_path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(named(&status_path)(error)),
        _ => {}
    }
    for (name, file) in [("stdout", &mut captured.out), ("stderr", &mut captured.err)] {
        let length = file.metadata()?.len();
        let path = directory.join(name);
        let mut saved = File::create(&path).map_err(named(&path))?;
        io::copy(&mut (&*file).take(length), &mut saved).map_err(named(&path))?;
    }
    // Last: who finds it finds the rest complete.
    let status = exit.map_or("stopped\n".to_owned(), |exit| format!("{exit}\n"));
    std::fs::write(&status_path, status).map_err(named(&status_path))
}

/// A unit's directory: its name, with what a file's name can't hold, and what is no text, written as in URLs; or a digest if that is too
/// long.
fn directory_of(unit: &[u8]) -> String {
    const LONGEST: usize = 200;
    let is_odd = |c: char| matches!(c, '/' | '%') || c.is_control() || matches!(unit, b"." | b"..");
    let encoded = |bytes: &[u8]| bytes.iter().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let written = |c: char| if is_odd(c) { encoded(c.to_string().as_bytes()) } else { c.to_string() };
    let mut name = String::new();
    for chunk in unit.utf8_chunks() {
        name.extend(chunk.valid().chars().map(written));
        name.push_str(&encoded(chunk.invalid()));
    }
    if name.len() <= LONGEST {
        return name;
    }
    hex(&Sha256::digest(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_units_directory_is_one_part_of_a_path() {
        assert_eq!(directory_of("a b é".as_bytes()), "a b é");
        assert_eq!(
            (directory_of(b"\xff%FF"), directory_of(b"\xc2\x80")),
            ("%FF%25FF".into(), "%C2%80".into())
        );
        assert_eq!(directory_of(b"d/x%y\n"), "d%2Fx%25y%0A");
        assert_eq!((directory_of(b".."), directory_of(b".")), ("%2E%2E".into(), "%2E".into()));
        assert_eq!(directory_of("x".repeat(500).as_bytes()).len(), 64);
    }
}
