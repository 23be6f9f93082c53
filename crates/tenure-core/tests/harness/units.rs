//! Units' records, written and read from outside.

use super::Harness;
use std::time::Duration;
use tenure_core::fleet::UnitSpec;
use tenure_core::{Fence, Metadata, Nonce, Record, Wall};

impl Harness {
    /// Writes a unit that nobody holds, from outside.
    pub fn put(&mut self, unit: &str, spec: &UnitSpec) {
        let key = self.name.unit(unit).unwrap();
        self.last += 1;
        let fence = Fence::floor(self.now().wall);
        let metadata = spec.compose(Metadata::new()).unwrap();
        let record =
            Record { fence, nonce: Nonce(self.last.into()), stamp: self.now().wall, tenure: None, metadata };
        self.records.insert(key.clone(), (record, self.t));
        self.units.insert(key);
    }

    /// Writes other specs into a unit's record, whoever holds it, from outside.
    pub fn revise(&mut self, unit: &str, spec: &UnitSpec) {
        self.write_over(unit, spec, Metadata::new());
    }

    /// As `revise`, with users' fields.
    pub fn write_over(&mut self, unit: &str, spec: &UnitSpec, fields: Metadata) {
        let key = self.name.unit(unit).unwrap();
        self.last += 1;
        let (record, written) = self.records.get_mut(&key).unwrap();
        record.metadata = spec.compose(fields).unwrap();
        record.nonce = Nonce(self.last.into());
        *written = self.t;
        self.tell();
    }

    /// Writes a unit's record once more, with nothing in it that the fleet goes by, and tells nobody.
    pub fn write_fields(&mut self, unit: &str) {
        let (spec, _) = self.shows(unit);
        self.deface(&self.unit(unit), spec.compose(Metadata::new()).unwrap());
    }

    /// Somebody makes another tenure of what a unit's record shows, behind everybody's back: with this id, and so much higher a fence.
    pub fn usurp(&mut self, unit: &str, id: Option<Nonce>, higher: u64) {
        let key = self.name.unit(unit).unwrap();
        self.last += 1;
        let (record, _) = self.records.get_mut(&key).unwrap();
        record.nonce = Nonce(u128::from(self.last) << 32);
        record.fence.0 += higher;
        let tenure = record.tenure.as_mut().unwrap();
        tenure.id = id.unwrap_or(tenure.id);
    }

    /// To whose session a unit's record is attached.
    pub fn owner(&self, unit: &str) -> Option<usize> {
        let record = &self.records[&self.name.unit(unit).unwrap()].0;
        let attachment = record.tenure.as_ref()?.attachment.as_ref()?;
        (0..self.posts.len()).find(|index| self.session(*index) == attachment.session)
    }

    /// How long ago that was by the wall clock.
    pub fn since_wall(&self, wall: Wall) -> Duration {
        self.now().wall.since(wall)
    }

    /// What the plan and the users see in a unit's record.
    pub fn shows(&self, unit: &str) -> (UnitSpec, Metadata) {
        let key = self.name.unit(unit).unwrap();
        UnitSpec::parse(self.records[&key].0.metadata.clone()).unwrap()
    }
}
