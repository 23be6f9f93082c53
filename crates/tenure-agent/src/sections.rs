//! The sections that clients use.

use std::collections::VecDeque;
use tenure::InvalidInput;
use tenure::range::Section;

/// How long a section has had a dead one's ranges in view tells when they are over, where the store tells no ages. So it is kept from one request to the next.
#[derive(Default)]
pub(crate) struct Sections {
    /// By name, the one that was used last at the end.
    kept: VecDeque<(String, Section)>,
}

impl Sections {
    /// Of more, the one that was not used for longest is given up. What clients have of it stays theirs.
    const MOST: usize = 256;

    /// The section of this name, which is made if it is not there.
    pub(crate) fn find(
        &mut self,
        name: &str,
        make: impl FnOnce() -> Result<Section, InvalidInput>,
    ) -> Result<Section, InvalidInput> {
        let known = self.kept.iter().rposition(|(kept, _)| kept == name);
        let found = match known.and_then(|at| self.kept.remove(at)) {
            Some(found) => found,
            None => (name.to_owned(), make()?),
        };
        let section = found.1.clone();
        self.kept.push_back(found);
        if self.kept.len() > Self::MOST {
            self.kept.pop_front();
        }
        Ok(section)
    }
}
