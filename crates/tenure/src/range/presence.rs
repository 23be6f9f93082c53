//! What stands for a section: while any of it is there, ranges may be leased and held.

use super::shared::SharedSection;
use crate::home::Home;
use std::sync::Arc;
use tenure_core::section::SectionCommand;
use tenure_store::tell;
use tracing::field::display;

/// The section is wanted as long as somebody has this: a clone of it, or ranges that were leased there.
pub(super) struct SectionPresence {
    section: Arc<SharedSection>,
}

impl SectionPresence {
    pub(super) fn new(section: Arc<SharedSection>) -> SectionPresence {
        SectionPresence { section }
    }
}

/// Nobody renews ranges, so what a process leaves behind at its end is held for as long as it was leased.
impl Drop for SectionPresence {
    fn drop(&mut self) {
        let section = &self.section;
        let Some(driving) = section.driving.get().filter(|driving| driving.is_ours()) else { return };
        section.send(SectionCommand::Stop);
        if section.was_asked()
            && matches!(section.home, Home::Own)
            && !driving.outlast(section.linger, section.is_elsewhere)
        {
            let (key, holder) = (display(&section.key), display(&section.holder));
            tell!(
                warn, name: "ranges.left", target: "tenure::range", key, holder,
                "not all ranges are given up yet; if the process ends now, others wait for them until their time is over"
            );
        }
    }
}
