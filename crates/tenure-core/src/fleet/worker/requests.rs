//! Users' requests about their units: other fields, and their end. Each request has its own answer.

use super::FleetWorker;
use super::asked::Change;
use super::own::{Own, Stage};
use crate::fleet::talk::{FleetNotice, RequestId};
use crate::fleet::unit::{Status, UnitSpec};
use crate::holder::command::Command;
use crate::holder::lease_id::LeaseId;
use crate::holder::loss::Loss;
use crate::values::error::StoreError;
use crate::values::key::Key;
use crate::values::metadata::{Metadata, RESERVED};
use crate::values::time::Now;

impl FleetWorker {
    pub(super) fn change(&mut self, now: Now, lease: LeaseId, change: Change) {
        let Some((_, own)) = self.own_of(lease) else {
            return self.tell(FleetNotice::Lost(lease, Loss::Released));
        };
        let refusal = if own.stage == Stage::Going {
            Some(StoreError::invalid("the unit is being given up; write before that"))
        } else {
            own.spec.compose(change.fields.clone()).err().map(StoreError::from)
        };
        if let Some(error) = refusal {
            return self.refuse(lease, &change.requests, &error);
        }
        if !own.asked.is_busy() {
            self.send_change(now, lease, change);
        } else {
            own.asked.wait(change);
        }
    }

    fn send_change(&mut self, now: Now, lease: LeaseId, change: Change) {
        let Some((_, own)) = self.own_of(lease) else { return };
        let Change { requests, fields, replaces } = change;
        let command = match own.spec.compose(fields.clone()) {
            Ok(metadata) if replaces => Command::Update(lease, metadata),
            Ok(_) => Command::Merge(lease, fields),
            Err(error) => return self.refuse(lease, &requests, &error.into()),
        };
        own.asked.sent(requests);
        self.command_holder(now, command);
    }

    fn refuse(&mut self, lease: LeaseId, requests: &[RequestId], error: &StoreError) {
        for request in requests {
            self.tell(FleetNotice::Failed(lease, *request, error.clone()));
        }
    }

    pub(super) fn updated(&mut self, now: Now, lease: LeaseId) {
        if self.noted(now, lease) {
            return;
        }
        let fields = self.users_fields(lease);
        for request in self.written(lease) {
            self.tell(FleetNotice::Updated { lease, request, fields: fields.clone() });
        }
        self.write_next(now, lease);
    }

    pub(super) fn not_updated(&mut self, now: Now, lease: LeaseId, error: &StoreError) {
        if self.noted(now, lease) {
            return;
        }
        let requests = self.written(lease);
        self.refuse(lease, &requests, error);
        self.write_next(now, lease);
    }

    /// Those whose change was under way until now.
    fn written(&mut self, lease: LeaseId) -> Vec<RequestId> {
        let Some((_, own)) = self.own_of(lease) else { return Vec::new() };
        own.asked.written()
    }

    fn write_next(&mut self, now: Now, lease: LeaseId) {
        let Some((_, own)) = self.own_of(lease) else { return };
        // What was not sent when the unit was given up is not sent any more.
        if let Some(next) = own.asked.next().filter(|_| own.stage != Stage::Going) {
            self.send_change(now, lease, next);
        }
        self.write_note(now, lease);
    }

    /// The users' fields, as far as is known here.
    pub(super) fn users_fields(&self, lease: LeaseId) -> Metadata {
        let mut fields = self.holder.metadata_of(lease);
        fields.remove(RESERVED);
        fields
    }

    pub(super) fn finish(&mut self, now: Now, lease: LeaseId, request: RequestId, fields: Option<Metadata>) {
        let Some((_, own)) = self.ending(lease, request) else { return };
        // Nothing is changed here before all is known to be good: the unit goes on, or goes elsewhere, if it is not.
        let replaces = fields.is_some();
        let done = if replaces { UnitSpec { retry: None, ..own.spec.clone() } } else { UnitSpec::default() };
        let metadata = match (UnitSpec { status: Status::Done, ..done }).compose(fields.unwrap_or_default()) {
            Ok(metadata) => metadata,
            Err(error) => return self.refuse(lease, &[request], &error.into()),
        };
        own.spec.status = Status::Done;
        own.asked.end = Some(request);
        self.going(lease);
        // A change that is under way comes first.
        let command =
            if replaces { Command::Release(lease, Some(metadata)) } else { Command::Finish(lease, metadata) };
        self.command_holder(now, command);
    }

    /// A unit that a request is to end, unless it is over, or about to be.
    pub(super) fn ending(&mut self, lease: LeaseId, request: RequestId) -> Option<(Key, &mut Own)> {
        let stage = self.own_of(lease).map(|(_, own)| own.stage);
        match stage {
            Some(Stage::Going) => {
                let error = StoreError::invalid("the unit is being given up already");
                self.refuse(lease, &[request], &error);
                None
            }
            Some(_) => self.own_of(lease),
            None => {
                self.tell(FleetNotice::Released(lease, Some(request), false));
                None
            }
        }
    }
}
