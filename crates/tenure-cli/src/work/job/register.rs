//! Registering units: each is a record of its own, made once, whoever gives it and how often.

use super::anew::{self, Earlier};
use super::board::{Board, Local};
use super::groups::GroupedNames;
use super::naming::command_digest;
use super::presence::{await_session, other_command};
use super::unit::{Status, Unit};
use super::writes::{instance, made, registered, reset, won};
use crate::config;
use crate::exit::Failure;
use crate::keys::JobName;
use crate::output;
use crate::output::problem::RecordProblem;
use crate::stores::pages::Pages;
use crate::stores::patiently;
use crate::supervise::held;
use crate::text::count;
use crate::work::units::Named;
use std::collections::BTreeMap;
use tenure::store::{Listed, Outcome, StoreExt, Stored, Write};
use tenure::{Key, Leases, Metadata, Wall};
use tenure_core::Nonces;

/// The job as it was found, and what was added.
pub(crate) struct Registered {
    pub(crate) board: Board,
    pub(crate) created: usize,
    /// When the last of the units that this process was given was done, if all of them were.
    all_done: Option<Wall>,
    /// When the last of all units was done.
    last_done: Option<Wall>,
    /// The unit whose command has started this process.
    pub(crate) around: Option<Key>,
    /// Another command is run for units of the job, too, on that host by that process.
    pub(crate) other_command: Option<(String, i64)>,
}

impl Registered {
    /// When the last of the given units was done, if all of them were, as far as they are known. Where more of them are to come
    /// that may be any of the job.
    pub(crate) fn done_before(&self, are_more_to_come: bool) -> Option<Wall> {
        self.all_done.and(if are_more_to_come { self.last_done } else { self.all_done })
    }
}

/// Makes the records that are missing. Without units, all that are registered count as given. What is kept in memory of a unit
/// is its key, however many there are.
pub(crate) async fn register(
    leases: &Leases,
    plan: &config::Work,
    name: &JobName,
    units: &[Named],
) -> Result<Registered, Failure> {
    let (store, prefix, given) = (leases.store(), name.prefix(), GivenOrder::new(units));
    let mut nonces = Nonces::new(instance(leases));
    if plan.fresh {
        await_session(leases).await?;
        let earlier = Earlier::gather(store, &prefix, |key| given.has(key)).await?;
        anew::check_alone(leases, name, &earlier).await?;
        let (mut pages, mut n) = (Pages::default(), 0);
        while let Some(page) = patiently(async || pages.next(store, &prefix).await).await? {
            let of_given = page.iter().filter(|listed| given.has(&listed.key));
            n += anew::reset(leases, &mut nonces, of_given, &earlier).await?;
        }
        output::tell(format!("{} to be run anew", count(n, "unit")));
    }
    if plan.retry_failed {
        let (mut pages, mut n) = (Pages::default(), 0);
        while let Some(page) = patiently(async || pages.next(store, &prefix).await).await? {
            let resets = page.iter().filter_map(|listed| reset(leases, &mut nonces, listed));
            let resets: Vec<Write> = resets.collect();
            n += won(&patiently(async || store.write_all(resets.clone()).await).await?);
        }
        if n > 0 {
            output::tell(format!("{} to be tried again", count(n, "failed unit")));
        }
    }
    let (mut board, mut pages) = (Board::default(), Pages::default());
    let is_within = held::has_one_below(&prefix);
    let grouped = GroupedNames::of(units, &prefix, plan.max_args);
    let mut found = FoundUnits { is_within, grouped, ..FoundUnits::default() };
    while let Some(page) = patiently(async || pages.next(store, &prefix).await).await? {
        board.refresh(&page);
        page.into_iter().for_each(|listed| found.see(listed, &given));
    }
    board.merge();
    let (mut created, mut is_complete) = (0, true);
    for (batch, some) in units.chunks(BATCH).enumerate() {
        let numbered = (batch * BATCH..).zip(some);
        let missing: Vec<(usize, &Named)> =
            numbered.filter(|(_, unit)| board.local(&unit.key).is_none()).collect();
        if missing.is_empty() {
            continue;
        }
        is_complete = false;
        if let Some(grouped) = &mut found.grouped {
            missing.iter().for_each(|(_, unit)| grouped.add(unit));
        }
        let writes: Vec<Write> = missing.iter().map(|(_, unit)| made(leases, &mut nonces, unit)).collect();
        // Repeating a batch is harmless: what it has made already is not absent any more.
        let outcomes = patiently(async || store.write_all(writes.clone()).await).await?;
        created += won(&outcomes);
        for ((number, unit), (write, outcome)) in missing.into_iter().zip(writes.iter().zip(&outcomes)) {
            let local = match outcome {
                Outcome::Lost(Some(stored)) if Unit::of(&stored.record.metadata).is_none() => {
                    Local::of_odd(&unit.key, &stored.record.metadata)
                }
                _ => Local::Open,
            };
            board.note_new(unit.key.clone(), local);
            if let Some((key, stored)) = registered(((&unit.key, write), outcome)) {
                found.offer(number, key, stored);
            }
        }
    }
    found.grouped.iter().for_each(GroupedNames::tell);
    board.merge();
    board.try_first(found.in_order());
    board.forgive(|key| given.has(key));
    let all_done = found.given_done.filter(|_| is_complete && !found.is_one_open);
    // A job without a name is that of one command.
    let other_command = match found.is_worked_on && plan.name.is_some() {
        true => {
            let digest = command_digest(&plan.command, plan.max_args);
            let looking = other_command(leases, name, &digest);
            // A store that lists none keeps nobody from working.
            looking.await.unwrap_or(None)
        }
        false => None,
    };
    let FoundUnits { last_done, around, .. } = found;
    Ok(Registered { board, created, all_done, last_done, around, other_command })
}

/// So many records are made together.
const BATCH: usize = 4096;

/// The units that a process was given, by their keys.
struct GivenOrder<'a> {
    units: &'a [Named],
    by_key: Vec<usize>,
}

impl GivenOrder<'_> {
    fn new(units: &[Named]) -> GivenOrder<'_> {
        let key = |at: &usize| units.get(*at).map(|unit| &unit.key);
        let mut by_key: Vec<usize> = (0..units.len()).collect();
        by_key.sort_unstable_by(|a, b| key(a).cmp(&key(b)));
        GivenOrder { units, by_key }
    }

    /// Its place among those that were given.
    fn number(&self, key: &Key) -> Option<usize> {
        let unit = |at: &usize| self.units.get(*at).map(|unit| &unit.key);
        let found = self.by_key.binary_search_by(|at| unit(at).cmp(&Some(key))).ok();
        found.and_then(|found| self.by_key.get(found)).copied()
    }

    /// Whether it was given; where none was, all are.
    fn has(&self, key: &Key) -> bool {
        self.units.is_empty() || self.number(key).is_some()
    }
}

/// What is to be known of all records of a job at its beginning.
#[derive(Default)]
struct FoundUnits<'a> {
    /// Where units are groups of names.
    grouped: Option<GroupedNames<'a>>,
    /// Somebody is at work on it.
    is_worked_on: bool,
    /// The command of one of its units has started this process, as far as that is known.
    is_within: bool,
    around: Option<Key>,
    /// The first ones, by their places, that were given and nobody has tried.
    first: BTreeMap<usize, (Key, Stored)>,
    /// One of the given ones is not done.
    is_one_open: bool,
    /// When the last of the given ones was done.
    given_done: Option<Wall>,
    /// When the last of all was done.
    last_done: Option<Wall>,
}

impl FoundUnits<'_> {
    fn see(&mut self, Listed { key, stored }: Listed, given: &GivenOrder<'_>) {
        let is_given = given.has(&key);
        let done = stored.as_ref().ok().and_then(|stored| done_at(&stored.record.metadata));
        self.last_done = self.last_done.max(done);
        if is_given {
            self.is_one_open |= done.is_none();
            self.given_done = self.given_done.max(done);
        }
        match stored {
            Ok(stored) => {
                self.is_worked_on |= stored.record.tenure.is_some();
                let is_held = self.is_within && stored.record.tenure.is_some();
                if is_held && held::is_ours(&key, stored.record.fence) {
                    self.around = Some(key.clone());
                }
                match (given.number(&key), &mut self.grouped) {
                    (Some(number), _) => self.offer(number, key, stored),
                    (None, Some(grouped)) => {
                        Unit::name(&key, &stored.record.metadata).iter().for_each(|unit| grouped.see(unit));
                    }
                    (None, None) => {}
                }
            }
            Err(error) => {
                let unit = given.number(&key).and_then(|at| given.units.get(at));
                let unit = Unit::shown_as(&key, unit.and_then(|unit| unit.name.as_deref()));
                let problem = RecordProblem::of(&key, &error);
                output::note(format!("{unit}: {problem}; it is left as it is, and not run"));
            }
        }
    }

    /// Takes it up if it is among the first ones that nobody has tried.
    fn offer(&mut self, number: usize, key: Key, stored: Stored) {
        /// Each takes up room until it is run.
        const MOST: usize = 16_384;
        let is_new = Unit::of(&stored.record.metadata)
            .is_some_and(|unit| unit.status == Status::Pending && unit.attempts == 0);
        let is_late =
            self.first.len() >= MOST && self.first.last_key_value().is_some_and(|(last, _)| *last < number);
        if !is_new || is_late {
            return;
        }
        self.first.insert(number, (key, stored));
        if self.first.len() > MOST {
            self.first.pop_last();
        }
    }

    /// Who comes to a job on which nobody is at work takes its units in the order in which they were given. Of several who do so, the
    /// later ones go through pages instead, as soon as they meet.
    fn in_order(&mut self) -> impl Iterator<Item = (Key, Stored)> + use<> {
        if self.is_worked_on {
            self.first.clear();
        }
        std::mem::take(&mut self.first).into_values()
    }
}

/// When a unit was done, if it is.
fn done_at(metadata: &Metadata) -> Option<Wall> {
    let is_done = Unit::of(metadata)?.status == Status::Done;
    is_done.then(|| Wall(Unit::finished(metadata)))
}
