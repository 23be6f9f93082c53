//! What this process makes of other processes' silence, for a machine that watches them beside its holder.

use super::Holder;
use super::failure_detector::HolderVerdict;
use crate::values::key::Key;
use crate::values::record::{Attachment, Stored, Tenure};
use crate::values::time::{Now, Ttl};

impl Holder {
    /// See [`FailureDetector::judge`](super::failure_detector::FailureDetector::judge).
    pub(crate) fn judge(&mut self, now: Now, key: &Key, stored: &Stored, tenure: &Tenure) -> HolderVerdict {
        self.env.detector.judge(now, key, stored, tenure, &self.env.rules)
    }

    /// `key` was taken or given up.
    pub(crate) fn forget_silence(&mut self, key: &Key) {
        self.env.detector.end(key);
    }

    /// Judges a session that a read has just shown to be missing.
    pub(crate) fn judge_missing(&mut self, now: Now, attachment: &Attachment, ttl: Ttl) -> HolderVerdict {
        self.env.detector.judge_missing(now, attachment, ttl, &self.env.rules)
    }

    /// What is thought of such a session by what was read before; none if no read has shown that it is missing.
    pub(crate) fn known_missing(&self, now: Now, attachment: &Attachment, ttl: Ttl) -> Option<HolderVerdict> {
        self.env.detector.known_missing(now, attachment, ttl, &self.env.rules)
    }

    /// A read has shown the session that was missing.
    pub(crate) fn session_is_there(&mut self, attachment: &Attachment) {
        self.env.detector.session_is_there(attachment);
    }
}
