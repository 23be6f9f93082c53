//! Users' orders to this worker, and the facts that it publishes about itself.

use super::FleetWorker;
use super::asked::Change;
use super::choice::EndedUnit;
use super::own::{Own, Stage};
use crate::bugs::Bug;
use crate::fleet::about::About;
use crate::fleet::talk::{FleetCommand, FleetNotice};
use crate::holder::command::Command;
use crate::values::error::StoreError;
use crate::values::key::Key;
use crate::values::time::Now;
use std::collections::VecDeque;
use std::time::Duration;

impl FleetWorker {
    /// To users, a unit that rests here was given up.
    pub(super) fn command(&mut self, now: Now, command: FleetCommand) {
        let untold = |(_, own): &(Key, &mut Own)| own.stage == Stage::Held && !own.told;
        let resting = command.lease().filter(|lease| self.own_of(*lease).filter(untold).is_some());
        let hidden = resting.and_then(|lease| self.own.hide(lease));
        self.obey(now, command);
        self.own.show(hidden);
    }

    fn obey(&mut self, now: Now, command: FleetCommand) {
        match command {
            FleetCommand::Join => {
                self.life.joined = true;
                self.look.plan(now.held);
                self.command_holder(now, Command::Start);
            }
            FleetCommand::Update(lease, request, fields) => {
                self.change(now, lease, Change::new(request, fields, true));
            }
            FleetCommand::Merge(lease, request, fields) => {
                self.change(now, lease, Change::new(request, fields, false));
            }
            FleetCommand::Drained(lease) => self.drained(now, lease),
            FleetCommand::Finish(lease, request, fields) => self.finish(now, lease, request, fields),
            FleetCommand::Decline(lease, request) => self.choose(now, lease, request, EndedUnit::Failed),
            FleetCommand::Abandon(lease, request) => self.choose(now, lease, request, EndedUnit::Abandoned),
            FleetCommand::HandTo(lease, request, holder) => {
                self.choose(now, lease, request, EndedUnit::HandedTo(holder));
            }
            // It was lost before users could hear of that.
            FleetCommand::Lapse(lease)
                if self.own_of(lease).is_none() && !self.env.has_bug(Bug::LateLapseUnheard) =>
            {
                self.tell(FleetNotice::Released(lease, None, false));
            }
            FleetCommand::Lapse(lease) => {
                self.going(lease);
                self.command_holder(now, Command::Lapse(lease));
            }
            FleetCommand::Offer(about) => {
                let declines = self.env.options.about.declines.clone();
                self.env.options.about = About { leaving: self.life.leaving, declines, ..about };
                self.announce(now);
            }
            FleetCommand::Tell => self.want_advance(now.held),
            FleetCommand::Leave => self.leave(now),
            FleetCommand::Stop => self.stop(now),
        }
    }

    pub(super) fn leave(&mut self, now: Now) {
        if !std::mem::replace(&mut self.life.leaving, true) {
            self.env.options.about.leaving = true;
            self.forget_refusals();
            self.claims.plan(VecDeque::new());
            self.announce(now);
        }
    }

    pub(super) fn stop(&mut self, now: Now) {
        if !std::mem::replace(&mut self.life.stopping, true) {
            // What is not being written yet is not written any more.
            for (_, own) in self.own.iter_mut() {
                own.stage = Stage::Going;
            }
            self.command_holder(now, Command::Stop);
        }
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.life.stopping
    }

    pub(super) fn announce(&mut self, now: Now) {
        let about = self.profile.announcement(&self.env.options.about);
        self.command_holder(now, Command::Announce(about));
        if self.life.session.is_none() {
            self.announced(now);
        }
    }

    /// The others can see what this worker offers; they have to be told to look.
    pub(super) fn announced(&mut self, now: Now) {
        if self.life.leaving {
            // Without a push they notice only when they next look. Who plans has listed all, and so knows that there is nobody else.
            let notice = match self.env.options.push {
                _ if self.is_planner() && !self.is_behind() && self.roster.is_empty() => Duration::ZERO,
                true => self.env.part(16),
                false => self.env.part(16) + self.env.heard_within(),
            };
            self.life.leave_from = Some(now.held.after(notice));
            self.drains.look_anew();
        }
        self.want_advance(now.held);
    }

    /// What it offers can't be written: it goes on with what the others know. One that leaves does so all the same.
    pub(super) fn not_announced(&mut self, now: Now, error: StoreError) {
        self.env.options.about = About { leaving: self.life.leaving, ..self.profile.offered().clone() };
        self.tell(FleetNotice::Trouble(error));
        if self.life.leaving {
            self.announced(now);
        }
    }
}
