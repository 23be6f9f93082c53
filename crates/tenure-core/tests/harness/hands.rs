//! What somebody does to records by hand, and who plans.

use super::Harness;
use tenure_core::fleet::{FleetWorker, planner, standbys};
use tenure_core::{Ask, Key, Letter, Nonce};

impl Harness {
    /// Somebody deletes a record.
    pub fn delete(&mut self, key: &Key) {
        assert!(self.records.remove(key).is_some(), "{key} is not there");
    }

    /// The machines are taken out, and nothing happens any more.
    pub fn take_machines(&mut self) -> Vec<FleetWorker> {
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

    /// Somebody leaves a letter about a worker's session in it.
    pub fn ask_worker(&mut self, index: usize, ask: Ask) {
        self.last += 1;
        let session = self.session(index);
        let (record, written) = self.records.get_mut(&session).unwrap();
        assert!(record.tenure.as_mut().unwrap().post(Letter::new(session, ask)));
        (record.nonce, *written) = (Nonce(u128::from(self.last) << 32), self.t);
    }
}
