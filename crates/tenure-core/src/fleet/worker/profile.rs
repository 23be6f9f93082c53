//! What a worker says of itself in its session's record: what it offers, fields for people, and what it has in short.

use crate::fleet::about::About;
use crate::fleet::digest::Digest;
use crate::values::metadata::Metadata;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Profile {
    /// What it offers as far as the others can see.
    offered: About,
    fields: Metadata,
    /// What the record says that it has.
    carried: Digest,
}

impl Profile {
    pub(super) fn new(offered: About, fields: Metadata) -> Profile {
        Profile { offered, fields, carried: Digest::default() }
    }

    /// What the others can see that it offers.
    pub(super) fn offered(&self) -> &About {
        &self.offered
    }

    /// The others can see this offer.
    pub(super) fn is_seen(&mut self, about: About) {
        self.offered = about;
    }

    /// What the record is to say of this offer at once. What the worker has stays as it was said last.
    pub(super) fn announcement(&self, about: &About) -> Metadata {
        self.record(about, self.carried)
    }

    /// What the next renewal is to say, if the worker has something else by now.
    pub(super) fn news(&self, about: &About, has: Digest) -> Option<Metadata> {
        (has != self.carried).then(|| self.record(about, has))
    }

    /// The next renewal says that it has this.
    pub(super) fn carries(&mut self, has: Digest) {
        self.carried = has;
    }

    fn record(&self, about: &About, has: Digest) -> Metadata {
        let mut record = about.compose(self.fields.clone());
        has.compose(&mut record);
        record
    }
}
