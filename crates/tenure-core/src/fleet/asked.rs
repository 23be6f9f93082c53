//! Users' requests about their units: other fields, and their end. Each request has its own answer.

use super::own::{Own, Stage};
use super::talk::{FleetNotice, RequestId};
use super::unit::{Status, UnitSpec};
use super::worker::Worker;
use crate::holder::command::Command;
use crate::holder::lease_id::LeaseId;
use crate::holder::renewal::Loss;
use crate::values::error::StoreError;
use crate::values::key::Key;
use crate::values::metadata::{Metadata, RESERVED};
use crate::values::time::Now;

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
    requests: Vec<RequestId>,
    fields: Metadata,
    /// Whether fields of other names go.
    replaces: bool,
}

impl Asked {
    pub(super) fn is_busy(&self) -> bool {
        self.busy
    }

    /// A change is to begin that nobody has asked for; false if another is under way.
    pub(super) fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.busy, true)
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

impl Worker {
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
        if !own.asked.busy {
            self.send_change(now, lease, change);
        } else if let Some(next) = &mut own.asked.next {
            next.follow(change);
        } else {
            own.asked.next = Some(Box::new(change));
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
        (own.asked.busy, own.asked.writing) = (true, requests);
        self.order(now, command);
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
        own.asked.busy = false;
        std::mem::take(&mut own.asked.writing)
    }

    fn write_next(&mut self, now: Now, lease: LeaseId) {
        let Some((_, own)) = self.own_of(lease) else { return };
        // What was not sent when the unit was given up is not sent any more.
        if let Some(next) = own.asked.next.take().filter(|_| own.stage != Stage::Going) {
            self.send_change(now, lease, *next);
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
        self.order(now, command);
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
