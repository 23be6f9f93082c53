//! A worker of one of tenure's own fleets.

use super::alarms::Alarms;
use super::member::{self, Assignment, Member, Underway};
use crate::config::fleet::Forever;
use crate::exit::Failure;
use crate::output;
use crate::stores::away::opened;
use crate::stores::{Missing, Url, patiently};
use crate::supervise::lease::Lease;
use std::sync::Arc;
use std::time::Duration;
use tenure::fleet::{Event, Fleet, NewUnit, Reason, Status, Unit, Worker};
use tenure::{Clock, Fence, Metadata, Value};

pub(super) struct Native {
    fleet: Fleet,
    worker: Worker,
    alarms: Alarms,
    ttl: Duration,
}

/// Joins the fleet.
pub(super) async fn enlist(url: &Url, plan: &Forever, clock: Arc<dyn Clock>) -> Result<Native, Failure> {
    let store = opened(plan.await_store, async || url.open(Missing::Create, clock.clone()).await).await?;
    let fleet = Fleet::new(store, plan.name.as_str())?;
    patiently(async || fleet.check_layout().await).await?;
    let about = Metadata::from([
        ("host".to_owned(), Value::from(tenure::clock::host_name())),
        ("pid".to_owned(), Value::from(i64::from(std::process::id()))),
    ]);
    let mut builder = fleet.join().ttl(plan.ttl).drain_time(plan.grace).metadata(about).balance(plan.balance);
    for label in &plan.labels {
        builder = builder.label(label);
    }
    if let Some(most) = plan.most {
        builder = builder.most_units(most);
    }
    if let Some(most) = plan.most_weight {
        builder = builder.most_weight(most);
    }
    let worker = builder.start()?;
    let alarms = Alarms::of(&worker, plan.ttl);
    Ok(Native { fleet, worker, alarms, ttl: plan.ttl })
}

impl Member for Native {
    fn name(&self) -> &str {
        self.worker.holder().as_str()
    }

    fn fleet(&self) -> String {
        format!("fleet \"{}\"", self.fleet.name())
    }

    fn register<'c>(&'c self, units: &'c [&'c str]) -> Underway<'c, Result<usize, Failure>> {
        Box::pin(async move {
            let units: Vec<NewUnit> = units.iter().map(|name| NewUnit::named(*name)).collect();
            Ok(patiently(async || self.fleet.create_all(units.clone()).await).await?)
        })
    }

    fn next(&mut self) -> Underway<'_, Option<member::Event>> {
        Box::pin(async {
            loop {
                let told = match self.worker.next().await? {
                    Event::Assigned(assignment) => member::Event::Assigned(Box::new(assignment)),
                    Event::Draining { unit, reason, within } => {
                        member::Event::Draining { unit, why: reason_text(&reason), within }
                    }
                    Event::Lost { unit, loss } => {
                        member::Event::Lost { unit, why: output::Lost::of(&loss).to_string() }
                    }
                    _ => continue,
                };
                return Some(told);
            }
        })
    }

    fn remaining(&self) -> Duration {
        self.worker.remaining()
    }

    fn leave(&mut self) {
        self.alarms.leaving();
        let worker = self.worker.clone();
        tokio::spawn(async move { worker.leave().await });
    }

    fn resign(&mut self) -> Underway<'_, ()> {
        Box::pin(async {
            let _gone = tokio::time::timeout(self.ttl, self.worker.stop()).await;
        })
    }

    fn sound(&mut self) {
        self.alarms.sound();
    }
}

impl Lease for Unit {
    fn key(&self) -> &str {
        Unit::key(self).as_str()
    }

    fn fence(&self) -> Option<Fence> {
        Some(Unit::fence(self))
    }

    fn remaining(&self) -> Duration {
        Unit::remaining(self)
    }

    fn is_revoked(&self) -> bool {
        self.draining().is_some_and(|(reason, _)| reason == Reason::Revoked)
    }

    fn is_over(&self) -> bool {
        self.loss().is_some()
    }
}

impl member::Unit for Unit {
    fn name(&self) -> &str {
        Unit::name(self)
    }

    fn is_draining(&self) -> bool {
        self.draining().is_some()
    }
}

impl Assignment for tenure::fleet::Assignment {
    fn unit(&self) -> Arc<dyn member::Unit> {
        Arc::new(tenure::fleet::Assignment::unit(self).clone())
    }

    fn drained(self: Box<Self>) {
        // A command that was killed at the end of its time may have had a request on its way: if the unit comes back, it has another fence.
        if self.draining().is_some() {
            return drop(self);
        }
        tenure::fleet::Assignment::drained(*self);
    }

    fn lapse(self: Box<Self>) {
        tenure::fleet::Assignment::lapse(*self);
    }
}

fn reason_text(reason: &Reason) -> String {
    match reason {
        Reason::Moved(to) => format!("goes to {to}"),
        Reason::Leaving => "is given back, since this worker leaves".to_owned(),
        Reason::Asked => "is to be passed on: somebody asked for it".to_owned(),
        Reason::Revoked => "was withdrawn".to_owned(),
        Reason::Closed(Status::Deleted) => "was removed".to_owned(),
        Reason::Closed(_) => "is done".to_owned(),
        Reason::Uncovered(why) => format!("is let go of: {}", why),
        _ => "is to be passed on".to_owned(),
    }
}
