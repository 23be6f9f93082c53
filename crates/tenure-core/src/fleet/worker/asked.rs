//! What users ask about a unit, until it is answered.

use crate::fleet::talk::RequestId;
use crate::values::metadata::Metadata;

/// What was asked about a unit and is not answered yet.
#[derive(Debug, Default, Clone, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    /// A change is under way.
    busy: bool,
    /// Those who asked for it.
    writing: Vec<RequestId>,
    /// What is to be written after that.
    next: Option<Box<Change>>,
    /// What the unit is given up by.
    pub(super) end: Option<RequestId>,
}

/// Other fields for a unit's record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Change {
    pub(super) requests: Vec<RequestId>,
    pub(super) fields: Metadata,
    /// Whether fields of other names go.
    pub(super) replaces: bool,
}

impl Asked {
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// A change is to begin that nobody has asked for; false if another is under way.
    pub(super) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.busy, true)
    }

    /// A change has begun that these have asked for.
    pub(super) fn sent(&mut self, requests: Vec<RequestId>) {
        (self.busy, self.writing) = (true, requests);
    }

    /// It has ended. Those who have asked for it.
    pub(super) fn written(&mut self) -> Vec<RequestId> {
        self.busy = false;
        std::mem::take(&mut self.writing)
    }

    /// Another change waits until the one that is under way has ended.
    pub(super) fn wait(&mut self, change: Change) {
        match &mut self.next {
            Some(next) => next.follow(change),
            None => self.next = Some(Box::new(change)),
        }
    }

    /// What has waited until now.
    pub(super) fn next(&mut self) -> Option<Change> {
        self.next.take().map(|next| *next)
    }
}

impl Change {
    pub(super) fn new(request: RequestId, fields: Metadata, replaces: bool) -> Change {
        Change { requests: vec![request], fields, replaces }
    }

    /// A later change comes on top of this one, which was not sent yet: one write does for both.
    fn follow(&mut self, later: Change) {
        self.requests.extend(later.requests);
        if later.replaces {
            (self.fields, self.replaces) = (later.fields, true);
        } else {
            self.fields.extend(later.fields);
        }
    }
}
