//! Who reads what is told, or has stopped to: a pipe that nobody empties must hold up no verb.

use crate::pipe::takes_more;
use std::io::Write;
use std::os::fd::AsFd;
use std::time::Duration;

/// How long one who has read until now is waited for.
pub(super) const PATIENCE: Duration = Duration::from_millis(250);
/// A pipe that takes anything takes this much at once (PIPE_BUF).
const PIECE: usize = 4096;

/// The reader at the other end. What it does not read in time is lost, and it is told so once it reads again.
#[derive(Debug, Default)]
pub(super) struct OutputReader {
    /// Lines that were lost since it has read last.
    lost: usize,
}

impl OutputReader {
    pub(super) const fn new() -> OutputReader {
        OutputReader { lost: 0 }
    }

    /// How long it is worth waiting for: who has not read once is not waited for again.
    fn patience(&self) -> Duration {
        if self.lost == 0 { PATIENCE } else { Duration::ZERO }
    }

    /// Writes a line, or loses it. That nobody can read it is no reason to fail.
    pub(super) fn say(&mut self, out: &mut (impl Write + AsFd), line: &str) {
        if self.lost > 0 && takes_more(out, Duration::ZERO) {
            let _unread = out.write_all(lost_before(std::mem::take(&mut self.lost)).as_bytes());
        }
        let patience = self.patience();
        for piece in line.as_bytes().chunks(PIECE) {
            if !takes_more(out, patience) {
                self.lost += 1;
                return;
            }
            if out.write_all(piece).is_err() {
                return;
            }
        }
    }
}

/// What whoever reads again is told of so many lines.
pub(super) fn lost_before(lines: usize) -> String {
    let (lost, are) = (crate::text::count(lines, "line"), if lines == 1 { "is" } else { "are" });
    format!("tenure: {lost} before this went unread, and {are} lost\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_line_that_nobody_reads_is_lost_and_counted_and_nobody_waits_for_ever() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let mut listener = OutputReader::new();
        // More than any pipe holds by default; the last line is longer than what it takes at once.
        let line = format!("{}\n", "x".repeat(1023));
        (0..1024).for_each(|_| listener.say(&mut writer, &line));
        let lost = listener.lost;
        assert!(lost > 0 && lost < 1024, "{lost}");
        let mut read = vec![0; 1024 * (1024 - lost)];
        reader.read_exact(&mut read).unwrap();
        listener.say(&mut writer, "again\n");
        drop(writer);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, format!("tenure: {lost} lines before this went unread, and are lost\nagain\n"));
        // Nobody is there at all.
        let (reader, mut writer) = std::io::pipe().unwrap();
        drop(reader);
        listener.say(&mut writer, "x\n");
        assert_eq!(listener.lost, 0);
    }
}
