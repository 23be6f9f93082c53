//! The lines of a text, or its items, one after the other.

use super::name::MOST_BYTES;
use std::io::BufRead;

/// A line or an item, as it was read.
pub(in crate::work) struct Line {
    pub(in crate::work) number: usize,
    /// No more of it than is needed to see that it is too long.
    pub(in crate::work) unit: Vec<u8>,
    /// All that it has.
    pub(in crate::work) bytes: usize,
}

/// The lines of a text, or its items; empty ones are skipped. One without end takes no more memory than another.
pub(in crate::work) struct Lines<R> {
    pub(in crate::work) input: R,
    separator: u8,
    number: usize,
}

impl<R: BufRead> Lines<R> {
    pub(in crate::work) fn new(input: R, separator: u8) -> Lines<R> {
        Lines { input, separator, number: 0 }
    }

    /// The next one, though it be empty; none at the end.
    pub(in crate::work) fn next(&mut self) -> std::io::Result<Option<Line>> {
        let (mut unit, mut bytes) = (Vec::new(), 0_usize);
        let is_over = loop {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                break bytes == 0;
            }
            let end = chunk.iter().position(|byte| *byte == self.separator);
            let part = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            let room = (MOST_BYTES + 1).saturating_sub(unit.len());
            unit.extend(part.iter().take(room));
            bytes = bytes.saturating_add(part.len());
            let read = part.len() + usize::from(end.is_some());
            self.input.consume(read);
            if end.is_some() {
                break false;
            }
        };
        if is_over {
            return Ok(None);
        }
        self.number += 1;
        Ok(Some(Line { number: self.number, unit, bytes }))
    }
}
