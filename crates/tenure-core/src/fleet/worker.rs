//! One process in a fleet: its units, its knowledge of the other workers, and its actions.
//!
//! A worker is *joined* once it is told to take part, *up* while its session is, *leaving* once it gives away what it has, and *stopping* at the end.
//! Meanwhile it looks at the board in each interval, and is one of three: the *planner*, a *standby*, or a *member* (`fleet::planning::Role`). The planner
//! lists all after each change, makes a plan, and tells the others their parts. The others hear theirs. Each acts on its own part: it claims what is free,
//! awaits what others still have, and drains and passes on what has to go.
//!
//! Some parts own their state. Each gets its inputs with [`FleetEnv`] and answers with what is to be done; none knows the worker or another part's state.
//!
//! | part | what it keeps |
//! |---|---|
//! | `known_board` | the board as it was seen last, who plans by it, and the alarm |
//! | `known_roster` | the other workers, and the units that are to go to one of them |
//! | `look`, `look::watch` | when to look at the board and which sessions, and who is overdue; `on_look` and `lead` say what follows |
//! | `planner` | what was told of which plan; `on_planner` does what it asks for |
//! | `listing::lister` | when to list, and what was listed so far; `on_listing` makes the plan of that |
//! | `hear` | which plan was heard, and what of the next one was read so far; `on_hear` follows that |
//! | `advance` | whether the board is to be raised; `on_board` raises it |
//! | `letters`, `burial` | letters under way, and dead sessions that are to be ended; `connect` does what they ask for |
//! | `own`, `awaited` | units that this worker has, by which plan, and units that it waits for |
//! | `claims` | claims that wait or are under way; `on_claims` makes them |
//! | `drain` | when units drain that have to go; `on_drain` drains them |
//! | `profile` | what the session's record says of this worker |
//!
//! The other files are steps of the worker itself, and some of them have a little state of their own: `doubts`, `retry` and `rest`. `act` follows a plan, and
//! `release` gives up what has to go.

mod act;
mod advance;
#[cfg(test)]
pub(super) mod alone;
mod asked;
mod awaited;
mod beginning;
mod burial;
mod choice;
mod claims;
mod commands;
mod congestion;
mod connect;
mod doubts;
mod drain;
mod env;
mod hear;
mod io;
mod known_board;
mod known_roster;
mod lead;
mod leave;
mod letters;
mod lifecycle;
mod listed;
mod listing;
mod look;
mod missing;
mod on_board;
mod on_claims;
mod on_drain;
mod on_hear;
mod on_listing;
mod on_look;
mod on_planner;
mod own;
mod pace;
mod planner;
mod profile;
mod release;
mod requests;
mod rest;
mod retry;

use super::talk::{FleetCommand, FleetNotice, Options, Reason};
use crate::holder::command::Command;
use crate::holder::ctx::call_timeout;
use crate::holder::lease_id::LeaseId;
use crate::holder::notice::Notice;
use crate::holder::{Holder, Identity};
use crate::op::{Event, Machine, Op, Step};
use crate::rules::Rules;
use crate::values::error::InvalidInput;
use crate::values::fence::{Fence, Nonces};
use crate::values::key::Key;
use crate::values::record::Ask;
use crate::values::time::{Now, Tick};
use advance::BoardAdvance;
use awaited::Awaited;
use burial::Burials;
use claims::Claims;
use doubts::Doubts;
use drain::Drains;
use env::FleetEnv;
use hear::Hearing;
use io::{InFlight, Io, OWN};
use known_board::KnownBoard;
use known_roster::KnownRoster;
use letters::Letters;
use lifecycle::Lifecycle;
use listing::Lister;
use look::Look;
use own::{Own, OwnUnits, Stage};
use pace::Pace;
use planner::PlannerRole;
use profile::Profile;
use rest::Rest;
use retry::Retries;

/// Tells the worker's own nonces from its holder's.
const OUTSIDE_HOLDER: u64 = 0x666c_6565_7466_6c65;

/// The machine of one process in a fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FleetWorker {
    env: FleetEnv,
    holder: Holder,
    profile: Profile,
    life: Lifecycle,
    board: KnownBoard,
    look: Look,
    advance: BoardAdvance,
    lister: Lister,
    planner: PlannerRole,
    hearing: Hearing,
    roster: KnownRoster,
    own: OwnUnits,
    claims: Claims,
    /// Units that are planned for this worker but held by another.
    awaited: Awaited,
    retries: Retries,
    letters: Letters,
    rest: Rest,
    doubts: Doubts,
    burials: Burials,
    drains: Drains,
    io: Io,
}

impl Machine for FleetWorker {
    type Command = FleetCommand;
    type Notice = FleetNotice;

    fn step(&mut self, now: Now, event: Event<FleetCommand>) -> Step<FleetNotice> {
        match event {
            Event::Answer(op, result) if op.0 & OWN != 0 => {
                self.pass_to_holder(now, Event::Wake);
                if let Some(flight) = self.io.in_flight.remove(&op) {
                    match flight {
                        InFlight::Look => self.looked(now, result),
                        InFlight::Watch(limit) => self.watched_page(now, limit, result),
                        InFlight::List(number) => self.paged(now, number, result),
                        InFlight::Advance => self.advanced(now, result),
                        InFlight::Alarm => self.alarmed(now, result),
                        InFlight::ToldPlan(write) => self.marked(now, *write, result),
                        InFlight::Part(key, nonce) => self.told_part(now, &key, nonce, result),
                        InFlight::Hear => self.heard(now, result),
                        InFlight::Fence(dead, heartbeat) => self.fenced(now, &dead, heartbeat, result),
                        InFlight::Missing(attachment, ttl) => self.asked_after(now, &attachment, ttl, result),
                        InFlight::Letter(session, about) => self.lettered(now, session, about, result),
                    }
                }
            }
            Event::Answer(op, result) => self.pass_to_holder(now, Event::Answer(op, result)),
            Event::Changed(hint) => {
                self.pass_to_holder(now, Event::Changed(hint.clone()));
                self.hint(now, &hint);
            }
            Event::Wake => self.pass_to_holder(now, Event::Wake),
            Event::Command(command) => {
                self.pass_to_holder(now, Event::Wake);
                self.command(now, command);
            }
        }
        self.follow_session(now);
        self.wake(now);
        self.carry_digest();
        Step {
            requests: std::mem::take(&mut self.io.requests),
            notices: std::mem::take(&mut self.io.notices),
            wake_at: self.wake_at(now),
        }
    }

    /// Its driver listens for as long as it takes part.
    fn listens(&self) -> bool {
        false
    }
}

impl FleetWorker {
    /// A worker that takes part once it is told to join. The identity's session key is chosen here, and its metadata are
    /// fields for people.
    ///
    /// # Errors
    /// When the fleet's name and the holder's id make too long a key.
    pub fn new(identity: Identity, rules: Rules, options: Options) -> Result<FleetWorker, InvalidInput> {
        let me = options.fleet.worker(&identity.holder)?;
        let profile = Profile::new(options.about.clone(), identity.about);
        let about = profile.announcement(&options.about);
        let env = FleetEnv {
            board_key: options.fleet.board()?,
            id: identity.holder.clone(),
            me: me.clone(),
            ttl: identity.ttl,
            pace: Pace::new(identity.ttl),
            nonces: Nonces::new(identity.instance ^ OUTSIDE_HOLDER),
            bugs: rules.bugs,
            options,
        };
        let identity = Identity { session: me, about, ..identity };
        Ok(FleetWorker {
            // The fleet's own listings see to that.
            holder: Holder::new(identity, Rules { audit: 0, ..rules }),
            env,
            profile,
            life: Lifecycle::default(),
            board: KnownBoard::default(),
            look: Look::default(),
            advance: BoardAdvance::default(),
            lister: Lister::default(),
            planner: PlannerRole::default(),
            hearing: Hearing::default(),
            roster: KnownRoster::default(),
            own: OwnUnits::default(),
            claims: Claims::default(),
            awaited: Awaited::default(),
            retries: Retries::default(),
            letters: Letters::default(),
            rest: Rest::default(),
            doubts: Doubts::default(),
            burials: Burials::default(),
            drains: Drains::default(),
            io: Io::default(),
        })
    }

    /// The fence of this worker's session while it is up.
    #[must_use]
    pub fn session_fence(&self) -> Option<Fence> {
        self.holder.session_fence()
    }

    /// How many units this worker holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.own.values().filter(|own| matches!(own.stage, Stage::Held | Stage::Draining)).count()
    }

    fn tell(&mut self, notice: FleetNotice) {
        self.io.notices.push(notice);
    }

    fn send(&mut self, flight: InFlight, op: Op) {
        self.io.send(flight, op, call_timeout(self.env.ttl));
    }

    fn own_of(&mut self, lease: LeaseId) -> Option<(Key, &mut Own)> {
        self.own.by_lease_mut(lease)
    }

    /// Lets the holder take a step, and does what its notices ask for.
    fn pass_to_holder(&mut self, now: Now, event: Event<Command>) {
        let step = self.holder.step(now, event);
        self.io.requests.extend(step.requests);
        self.io.holder_wakes = step.wake_at;
        // A notice may make us command the holder again; what that brings comes after what is here already.
        let is_busy = !self.io.inbox.is_empty();
        self.io.inbox.extend(step.notices);
        if is_busy {
            return;
        }
        while let Some(notice) = self.io.inbox.front().cloned() {
            self.on_notice(now, notice);
            self.io.inbox.pop_front();
        }
    }

    fn command_holder(&mut self, now: Now, command: Command) {
        self.pass_to_holder(now, Event::Command(command));
    }

    fn on_notice(&mut self, now: Now, notice: Notice) {
        match notice {
            Notice::Acquired { lease, fence, metadata, .. } => self.acquired(now, lease, fence, metadata),
            Notice::Held(lease, _) => self.occupied(now, lease),
            Notice::Absent(lease) => self.vanished(lease),
            Notice::Failed(lease, error) => self.failed(now, lease, error),
            Notice::SessionValid(until) => {
                self.life.valid = until;
                self.tell(FleetNotice::Valid(until));
            }
            Notice::Given(key) => self.got_letter(now, key),
            Notice::Asked(lease, Ask::Revoke) => self.asked(now, lease, Reason::Revoked),
            Notice::Asked(lease, Ask::HandOver) => self.asked(now, lease, Reason::Asked),
            Notice::Lost(lease, loss) => self.lost(now, lease, loss),
            Notice::Updated(lease) => self.updated(now, lease),
            Notice::Released(lease, ours) => self.released(now, lease, ours),
            Notice::Announced => {
                self.profile.is_seen(self.env.options.about.clone());
                self.announced(now);
            }
            Notice::NotAnnounced(error) => self.not_announced(now, error),
            // An operator drains this worker. What is done for its units has to end before they go, also when they are
            // withdrawn all at once: so a revocation is a request to leave, and no stop.
            Notice::SessionAsked(Ask::Revoke) => self.leave_at_once(now),
            Notice::SessionAsked(_) => self.leave(now),
            Notice::SessionFailed(error) => self.not_begun(now, error),
            Notice::Stopped => self.tell(FleetNotice::Stopped),
            Notice::Valid(lease, until) => self.tell(FleetNotice::Withdrawn(lease, until)),
            // Nothing here is plain data.
            Notice::Asked(..) | Notice::Seen(..) | Notice::Detached(..) | Notice::NotOurs(..) => {}
        }
    }

    /// Has the next renewal say what this worker has.
    fn carry_digest(&mut self) {
        let has = self.own.digest();
        let news = self.profile.news(&self.env.options.about, has);
        if news.is_some_and(|news| self.holder.carry(news)) {
            self.profile.carries(has);
        }
    }

    fn wake(&mut self, now: Now) {
        if !self.life.joined || self.life.stopping {
            return;
        }
        self.wake_leaving(now);
        if self.life.stopping {
            return;
        }
        if self.life.session.is_none() && now.held >= self.life.restart_at {
            self.life.restart_at = now.held.after(self.env.ttl.part(8));
            self.command_holder(now, Command::Start);
        }
        // What may ask for a look comes before the look.
        self.wake_claims(now);
        self.wake_planner(now);
        self.tell_vacated(now);
        self.wake_drains(now);
        self.wake_look(now);
        self.wake_advance(now);
        self.wake_listing(now);
        self.wake_hearing(now);
        self.wake_doubts(now);
        self.wake_burials(now);
        self.wake_retries(now);
        self.wake_letters(now);
        self.wake_leaving(now);
    }

    fn wake_at(&self, now: Now) -> Option<Tick> {
        let own = if self.life.joined && !self.life.stopping {
            let restart = self.life.session.is_none().then_some(self.life.restart_at);
            let parts = [self.look.wake_at(), self.advance.wake_at(), self.listing_wake_at()];
            let [look, advance, listing] = parts;
            let doubts = self.doubts.wake_at().into_iter().chain(self.burials.wake_at());
            let doubts = doubts.chain(self.retries_wake_at(now)).chain(self.letters.wake_at()).min();
            let hearing = self.hearing_wake_at();
            let (drains, leaving) = (self.drains.wake_at(&self.life), self.leaving_wake_at(now));
            let bulk = self.claims.wake_at().into_iter().chain(self.planner.wake_at()).min();
            [restart, look, advance, listing, hearing, drains, leaving, doubts, bulk]
        } else {
            [None; 9]
        };
        own.into_iter().flatten().chain(self.io.holder_wakes).min()
    }
}
