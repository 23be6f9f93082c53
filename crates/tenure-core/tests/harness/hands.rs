//! What somebody does to records by hand, and who stands where in the ring.

use super::Harness;
use tenure_core::Key;
use tenure_core::fleet::{Worker, in_ring};

impl Harness {
    /// Somebody deletes a record.
    pub fn delete(&mut self, key: &Key) {
        assert!(self.records.remove(key).is_some(), "{key} is not there");
    }

    /// The machines are taken out, and nothing happens any more.
    pub fn take_machines(&mut self) -> Vec<Worker> {
        self.queue.clear();
        std::mem::take(&mut self.posts).into_iter().map(|post| post.machine).collect()
    }

    /// All workers in the order of the ring.
    pub fn ring(&self) -> Vec<usize> {
        let sessions: Vec<Key> = (0..self.posts.len()).map(|index| self.session(index)).collect();
        let place = |key: &Key| sessions.iter().position(|session| session == key).unwrap();
        in_ring(&sessions).into_iter().map(place).collect()
    }
}
