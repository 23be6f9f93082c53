//! What somebody does to records by hand, and who plans.

use super::Harness;
use tenure_core::Key;
use tenure_core::fleet::{Worker, planner, standbys};

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

    /// Whether one of those lives who stand by.
    pub fn has_standby(&self) -> bool {
        let standbys = standbys(&self.stored(&self.board()).unwrap().record);
        let names =
            |index: usize| standbys.iter().any(|who| self.session(index) == self.name.worker(who).unwrap());
        (0..self.posts.len()).any(|index| self.posts[index].up && names(index))
    }

    /// Who plans.
    pub fn planner(&self) -> usize {
        let board = self.stored(&self.board()).unwrap();
        let planner = planner(&board.record).unwrap();
        (0..self.posts.len()).find(|index| self.session(*index) == planner.session).unwrap()
    }
}
