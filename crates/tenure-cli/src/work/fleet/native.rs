//! A worker of one of tenure's own fleets.

use super::alarms::Alarms;
use super::member::{self, Assignment, Member, Underway};
use crate::config::HolderInfo;
use crate::config::fleet::Forever;
use crate::exit::Failure;
use crate::output;
use crate::stores::away::opened;
use crate::stores::{Missing, Url, patiently};
use crate::supervise::lease::Lease;
use std::sync::Arc;
use std::time::Duration;
use tenure::fleet::{Event, Fleet, NewUnit, Reason, Status, Unit, Worker, WorkerEnd};
use tenure::{Clock, Fence};

pub(super) struct Native {
    fleet: Fleet,
    worker: Worker,
    alarms: Alarms,
    ttl: Duration,
}

/// Joins the fleet.
pub(super) async fn enlist(url: &Url, plan: &Forever, clock: Arc<dyn Clock>) -> Result<Native, Failure> {
    url.check_ttl(plan.ttl)?;
    let store = opened(plan.await_store, async || url.open(Missing::Create, clock.clone()).await).await?;
    let fleet = Fleet::new(store, plan.name.as_str())?;
    patiently(async || fleet.check_layout().await).await?;
    let about = HolderInfo::new(None, Some(&plan.command.program))?.metadata();
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

    fn end(&self) -> Result<(), Failure> {
        match self.worker.end() {
            Some(WorkerEnd::Refused(error)) => Err(error.into()),
            Some(WorkerEnd::Crashed) => Err(member::crashed()),
            _ => Ok(()),
        }
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
        Reason::Moved(to) => format!("is to go to {to}"),
        Reason::Leaving => "is to be given back, since this worker leaves".to_owned(),
        Reason::Asked => "is to be passed on: somebody asked for it".to_owned(),
        Reason::Revoked => "was withdrawn".to_owned(),
        Reason::Closed(Status::Deleted) => "was removed".to_owned(),
        Reason::Closed(_) => "is done".to_owned(),
        Reason::Uncovered(why) => format!("is to be let go of: {}", why),
        _ => "is to be passed on".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    //! Plan: a worker that leaves is told from one that is refused, though it was not before it came, and from one whose driver is gone.
    use super::*;
    use crate::exit;
    use tenure::store::{Expect, Nonce, Record, Tenure, Write};
    use tenure::{AnyStore, HolderId, Metadata, Store, Ttl, Value};
    use tokio::runtime::Builder;

    const TTL: Duration = Duration::from_secs(10);

    fn native(fleet: &Fleet, worker: Worker) -> Native {
        Native { fleet: fleet.clone(), alarms: Alarms::of(&worker, TTL), worker, ttl: TTL }
    }

    /// A worker of the version before, as it came meanwhile.
    async fn older(fleet: &Fleet) {
        let (old, wall) = (HolderId::new("old").unwrap(), tenure::clock::system().now().wall);
        let tenure = Tenure::new(Nonce(7), old.clone(), Ttl::new(TTL).unwrap(), wall);
        let said = Metadata::from([("letters".to_owned(), Value::Bool(true))]);
        let said = Metadata::from([("tenure".to_owned(), Value::Map(said))]);
        for (key, tenure, metadata) in [
            (fleet.name().worker(&old).unwrap(), Some(tenure), said),
            (fleet.name().board().unwrap(), None, Metadata::new()),
        ] {
            let record = Record { fence: Fence(wall.0), nonce: Nonce(7), stamp: wall, tenure, metadata };
            fleet.store().write(Write { key, expect: Expect::Vacant, record }).await.unwrap();
        }
    }

    #[tokio::test]
    async fn who_left_as_somebody_asked_is_told_from_who_was_refused_and_who_has_crashed() {
        let fleet = || Fleet::new(AnyStore::new(tenure::memory()), "f").unwrap();
        let asked = fleet();
        let mut member = native(&asked, asked.join().ttl(TTL).start().unwrap());
        member.worker.joined().await.unwrap();
        member.worker.leave().await;
        assert!(member.next().await.is_none() && member.end().is_ok());
        let refusing = fleet();
        older(&refusing).await;
        let mut member = native(&refusing, refusing.join().ttl(TTL).start().unwrap());
        assert!(member.next().await.is_none());
        let failure = member.end().unwrap_err();
        assert_eq!(failure.code, exit::DAMAGED);
        assert!(failure.text.contains("the worker old of the fleet f"), "{failure}");
        let (crashing, theirs) =
            (fleet(), Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());
        let worker = crashing.join().ttl(TTL).runtime(theirs.handle().clone()).start().unwrap();
        let mut member = native(&crashing, worker);
        member.worker.joined().await.unwrap();
        theirs.shutdown_background();
        assert!(member.next().await.is_none());
        assert_eq!(member.end().unwrap_err().code, exit::INTERNAL);
    }
}
