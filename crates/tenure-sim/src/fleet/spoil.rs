//! What becomes of plans on their way: parts that somebody cuts short, garbles, takes back or makes another planner's, and letters that
//! somebody throws away or finds no room for.

use super::World;
use crate::kernel::coverage::Coverage;
use crate::kernel::trace::Story;
use tenure_core::op::{Expect, Write};
use tenure_core::{Ask, Key, Letter, MAILBOX, Metadata, Record, Value};

/// What is done to a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spoil {
    /// Of its tasks, every other one is there.
    Short,
    /// It has none.
    Empty,
    /// A task is of a kind that only newer workers know.
    Newer,
    /// It is no part at all.
    Garbled,
    /// The store can't read it, for a while.
    Unreadable,
    Deleted,
    /// It says that it was written by an earlier session of the planner, or by a later one, and something else is to be done.
    PlannerBefore,
    PlannerAfter,
    /// The same with another session of its worker.
    SessionBefore,
    SessionAfter,
}

impl Spoil {
    pub(crate) const ALL: [Spoil; 10] = [
        Spoil::Short,
        Spoil::Empty,
        Spoil::Newer,
        Spoil::Garbled,
        Spoil::Unreadable,
        Spoil::Deleted,
        Spoil::PlannerBefore,
        Spoil::PlannerAfter,
        Spoil::SessionBefore,
        Spoil::SessionAfter,
    ];

    /// What the part says after that; none: nothing that can be written.
    fn change(self, mut part: Metadata) -> Option<Metadata> {
        match self {
            Spoil::Short => {
                if let Some(Value::Map(tasks)) = part.get_mut("tasks") {
                    let mut stays = false;
                    tasks.retain(|_, _| {
                        stays = !stays;
                        stays
                    });
                }
            }
            Spoil::Empty => {
                part.remove("tasks");
            }
            Spoil::Newer => {
                let tasks = Metadata::from([("0000".to_owned(), Value::from("00000000fly"))]);
                part.insert("tasks".to_owned(), Value::Map(tasks));
            }
            Spoil::Garbled => part = Metadata::from([("planner".to_owned(), Value::from("who?"))]),
            Spoil::PlannerBefore | Spoil::PlannerAfter => {
                let by = if self == Spoil::PlannerBefore { -1 } else { 1 };
                if let Some(Value::Map(planner)) = part.get_mut("planner") {
                    moved(planner, "fence", by);
                }
                drop_passed(&mut part);
            }
            Spoil::SessionBefore | Spoil::SessionAfter => {
                moved(&mut part, "to", if self == Spoil::SessionBefore { -1 } else { 1 });
                drop_passed(&mut part);
            }
            Spoil::Unreadable | Spoil::Deleted => return None,
        }
        Some(part)
    }
}

fn moved(fields: &mut Metadata, name: &str, by: i64) {
    let number = fields.get(name).and_then(Value::as_i64);
    if let Some(number) = number {
        fields.insert(name.to_owned(), Value::from(number + by));
    }
}

/// What is to be passed on is to be given up instead, as if nobody had room for it.
fn drop_passed(part: &mut Metadata) {
    let Some(Value::Map(tasks)) = part.get_mut("tasks") else { return };
    for task in tasks.values_mut() {
        if let Some((shows, _)) = task.as_text().and_then(|task| task.split_once("pass ")) {
            *task = Value::from(format!("{shows}drop room").as_str());
        }
    }
}

impl World {
    /// The next parts that are told are spoilt, and the units change, or a worker leaves and comes back.
    pub(super) fn spoil_next(&mut self, index: usize) {
        let any = self.rng.index(Spoil::ALL.len());
        let (how, many) = (Spoil::ALL[any], 1 + self.rng.below(2));
        self.scene.spoil = Some((how, many));
        if self.rng.chance(0.5) {
            self.deliver(index, crate::kernel::NodeInput::Own(super::node::FleetCall::Leave));
        }
        self.change_units();
        // A part that does not count is told again within two looks and a pause; one that counts and lacks something, after a ttl; and
        // a worker whose part the store can't read lists all.
        let lasts = if matches!(how, Spoil::Short | Spoil::Empty) { 1400 } else { 900 };
        self.disturb(self.bound(lasts * many) + self.plan_bound());
    }

    /// A part was written.
    pub(super) fn spoil_part(&mut self, key: &Key, part: &Record) {
        let Some((how, left)) = self.scene.spoil.filter(|(_, left)| *left > 0) else { return };
        self.scene.spoil = Some((how, left - 1));
        self.tally.coverage(Coverage::PartSpoilt);
        self.tell(|_| Story::Store(format!("somebody spoils {key}: {how:?}")));
        match how.change(part.metadata.clone()) {
            Some(metadata) => {
                let record = Record { nonce: self.admin.draw(), metadata, ..part.clone() };
                self.write(Write { key: key.clone(), expect: Expect::Unchanged(part.version()), record });
            }
            None if how == Spoil::Deleted => {
                self.store.remove(self.t, key);
                self.hint(key);
            }
            None => self.damage(key, 6000),
        }
    }

    /// Letters to those who rest come to nothing: there is no room for them, or somebody throws the next ones away.
    pub(super) fn lose_mail(&mut self) {
        // What is not done is told again after a ttl, by another letter. A mailbox is empty after the next renewal.
        let lasts = if self.rng.chance(0.5) {
            self.scene.letters_lost_until = self.t + self.per_mille(700);
            1400
        } else {
            self.fill_mailboxes();
            400
        };
        self.change_units();
        self.disturb(self.bound(lasts) + self.plan_bound());
    }

    fn fill_mailboxes(&mut self) {
        let (roster, plan) = (self.scene.fleet.worker_prefix(), self.scene.fleet.plan_prefix());
        let Ok(nobodys) = Key::new(format!("{plan}nobody")) else { return };
        let of_roster = |key: &&Key| key.as_str().starts_with(&roster);
        let sessions: Vec<Key> = self.store.keys().map(|(key, _)| key).filter(of_roster).cloned().collect();
        for key in sessions {
            let Some(mut stored) = self.store.stored_at(&key, self.t) else { continue };
            let Some(tenure) = &mut stored.record.tenure else { continue };
            tenure.mail.resize(MAILBOX, Letter::new(nobodys.clone(), Ask::Take));
            stored.record.nonce = self.admin.draw();
            self.tally.coverage(Coverage::MailboxFull);
            self.write(Write { key, expect: Expect::Unchanged(stored.version), record: stored.record });
        }
    }

    /// A session was written by another worker: if it has a letter, that may be thrown away.
    pub(super) fn lose_letter(&mut self, key: &Key, session: &Record) {
        let has_mail = session.tenure.as_ref().is_some_and(|tenure| !tenure.mail.is_empty());
        if !has_mail || self.t >= self.scene.letters_lost_until {
            return;
        }
        self.tally.coverage(Coverage::LetterLost);
        self.tell(|_| Story::Store(format!("somebody throws a letter in {key} away")));
        let mut record = Record { nonce: self.admin.draw(), ..session.clone() };
        if let Some(tenure) = &mut record.tenure {
            tenure.mail.clear();
        }
        self.write(Write { key: key.clone(), expect: Expect::Unchanged(session.version()), record });
    }
}
