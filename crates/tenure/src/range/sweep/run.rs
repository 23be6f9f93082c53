//! One process's share in a sweep.

use super::SweepError;
use super::covered::Covered;
use super::futility::Futility;
use super::source::{Page, Source};
use crate::error::{AcquireError, BodyError};
use crate::range::{RangeLease, Section};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tenure_core::range::{KeyRange, Point, RangeSet};
use tenure_core::{InvalidInput, Loss};
use tenure_store::tell;
use tokio::sync::Mutex;

/// A sweep: what is covered, in which pieces, and how it is shared.
#[derive(Debug, Clone)]
pub struct Sweep {
    section: Section,
    name: String,
    space: KeyRange,
    shards: u64,
    batch: usize,
    share: usize,
    duration: Duration,
}

/// What one process has done for a sweep that is complete.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Swept {
    /// Items that its handler has handled.
    pub items: u64,
    /// Leases that it has worked under.
    pub leases: u64,
}

/// More pieces than this are not kept in mind; what is not is found again in what is not covered.
const PIECES: usize = 1024;
/// More shards than this can't be handed out at a time anyway.
const MOST_SHARDS: u64 = 1 << 16;
/// A source that says so many times in a row of one piece that there is more, but not what, will not say so the next time either.
const FRUITLESS: u32 = 10;
/// So many leases of one piece in a row within which no batch was handled are no accident.
const SLOW: u32 = 10;
/// A process that finds all pieces with others looks again after no more than this.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A piece is cut into at most so many.
const CUTS: u64 = 16;
/// A piece of a shard is not cut more often than so many times in a row.
const DEPTH: u32 = 8;

/// A part of the key space that is to be looked at.
#[derive(Debug, Clone)]
struct RangePiece {
    range: KeyRange,
    depth: u32,
}

/// What came of a lease.
struct Worked<E> {
    items: u64,
    /// What the next pieces are.
    cut: Vec<KeyRange>,
    /// The source has found nothing, and says that there is more.
    is_fruitless: bool,
    /// The lease was over while a batch was scanned or handled, and nothing was covered under it.
    is_slow: bool,
    error: Option<SweepError<E>>,
}

impl<E> Worked<E> {
    fn nothing() -> Worked<E> {
        Worked { items: 0, cut: Vec::new(), is_fruitless: false, is_slow: false, error: None }
    }
}

/// How far the work under a lease has come, which outlives a body that is aborted.
#[derive(Debug, Default)]
struct SweepProgress {
    /// A batch is scanned, handled or written down.
    is_at_work: AtomicBool,
    has_covered: AtomicBool,
    /// What was handled and written down.
    items: AtomicU64,
}

impl SweepProgress {
    fn is_slow(&self) -> bool {
        self.is_at_work.load(Ordering::SeqCst) && !self.has_covered.load(Ordering::SeqCst)
    }
}

/// Pieces in order, beginning at a place that differs between processes.
fn rotated(ranges: impl Iterator<Item = KeyRange>) -> VecDeque<RangePiece> {
    let mut pieces: VecDeque<RangePiece> = ranges.map(|range| RangePiece { range, depth: 0 }).collect();
    let start = crate::clock::instance() % pieces.len().max(1) as u64;
    pieces.rotate_left(usize::try_from(start).unwrap_or(0));
    pieces
}

impl Sweep {
    /// The sweep of this name over the keys of `space`, whose pieces are leased in `section`. A name stands for one sweep: one
    /// that is complete stays so.
    pub fn new(section: Section, name: impl Into<String>, space: KeyRange) -> Sweep {
        let duration = Duration::from_secs(30);
        Sweep { section, name: name.into(), space, shards: 64, batch: 100, share: 500, duration }
    }

    /// Into how many pieces the key space is cut at first; 64 by default, and 65,536 at most.
    #[must_use]
    pub fn shards(mut self, shards: u64) -> Self {
        self.shards = shards;
        self
    }

    /// How many items are handed to the handler at a time; 100 by default.
    #[must_use]
    pub fn batch(mut self, items: usize) -> Self {
        self.batch = items;
        self
    }

    /// About how many items are handled under one lease; 500 by default. What a piece has beyond that is left to whoever comes.
    #[must_use]
    pub fn share(mut self, items: usize) -> Self {
        self.share = items;
        self
    }

    /// How long leases last: what a dead process had is taken up after that. 30 s by default; must be ample for a batch. A batch that takes longer than
    /// two thirds of it is aborted and handled anew under the next lease, with [a warning](super#what-is-logged); after ten leases of one piece in a
    /// row without one that was handled, the sweep ends with [`SweepError::Slow`].
    #[must_use]
    pub fn duration(mut self, duration: Duration) -> Self {
        self.duration = duration;
        self
    }

    /// Takes part until the whole space is covered, by this process and others.
    ///
    /// `handle` gets a batch and the lease, and returns when the batch is handled; it should end soon when the lease is
    /// [cancelled](RangeLease::cancelled). What it returns after that does not count, be it `Ok` or an error: the batch is not covered, and is handled
    /// again under another lease. The same holds for a scan.
    ///
    /// A handler is a future, and is aborted as one: what it has started elsewhere, as by `spawn_blocking`, goes on without the lease. Let such work ask
    /// [`RangeLease::is_held`] before it commits, as the example `sweep` does.
    ///
    /// # Errors
    /// When the source or the handler fails, or the store does for long, or [no batch](Sweep::duration) is handled within a lease. What was covered stays so.
    /// Bad input, such as names with `/covered/` in them, is told before any I/O.
    ///
    /// # Cancel safety
    /// When the future is dropped, the batch under way is aborted after its grace period, and its piece left to others.
    pub async fn run<S, H, Fut>(&self, source: Arc<S>, handle: H) -> Result<Swept, SweepError<S::Error>>
    where
        S: Source,
        H: Fn(Vec<S::Item>, RangeLease) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), S::Error>> + Send + 'static,
    {
        self.check().map_err(|error| SweepError::Acquire(error.into()))?;
        let covered =
            Covered::new(&self.section, &self.name).map_err(|error| SweepError::Acquire(error.into()))?;
        let (covered, handle) = (Arc::new(Mutex::new(covered)), Arc::new(handle));
        let (mut swept, mut idle) = (Swept::default(), 0u32);
        let (mut without_fruit, mut without_time) = (Futility::default(), Futility::default());
        let mut pieces: VecDeque<RangePiece> = VecDeque::new();
        loop {
            let (left, is_fragmented) = {
                let mut covered = covered.lock().await;
                covered.look().await?;
                (RangeSet::from(self.space.clone()).minus(covered.parts()), covered.is_fragmented())
            };
            if left.is_empty() {
                return Ok(swept);
            }
            if is_fragmented {
                // What is covered from a gap's beginning joins what is covered before it, so that no more pieces come of it.
                pieces = rotated(left.ranges().iter().cloned());
            } else if pieces.is_empty() {
                pieces = self.pieces(&left);
            }
            let Some(piece) = pieces.pop_front() else { continue };
            let desired = left.intersection(&piece.range.clone().into());
            if desired.is_empty() {
                continue;
            }
            let worked = self.work(desired, &covered, &source, &handle).await?;
            let Some(worked) = worked else {
                // All of that piece is others'. When all pieces are, look again a little later.
                if pieces.is_empty() || is_fragmented {
                    tokio::time::sleep(Duration::from_millis(5 << idle.min(8)).min(LONGEST_PAUSE)).await;
                    idle += 1;
                }
                continue;
            };
            idle = 0;
            let fruitless = without_fruit.count(&piece.range, worked.is_fruitless);
            if fruitless > 0 {
                if fruitless == FRUITLESS {
                    return Err(SweepError::Fruitless(piece.range));
                }
                tokio::time::sleep(Duration::from_millis(5 << fruitless)).await;
            }
            swept.items += worked.items;
            swept.leases += 1;
            if let Some(error) = worked.error {
                return Err(error);
            }
            let slow = without_time.count(&piece.range, worked.is_slow);
            if slow > 0 {
                self.tell_slow(&piece.range, slow);
                if slow == SLOW {
                    let (range, duration, times) = (piece.range, self.duration, slow);
                    let trouble = covered.lock().await.trouble().cloned();
                    return Err(trouble.map_or(SweepError::Slow { range, duration, times }, SweepError::from));
                }
            }
            if fruitless > 0 || slow > 0 {
                // At once, so that a piece which never comes to anything is told soon.
                pieces.push_front(piece);
            } else if piece.depth < DEPTH && pieces.len() < PIECES {
                let depth = piece.depth + 1;
                worked.cut.into_iter().rev().for_each(|range| pieces.push_front(RangePiece { range, depth }));
            }
        }
    }

    fn tell_slow(&self, range: &KeyRange, in_a_row: u32) {
        let (key, sweep) = (self.section.key(), &self.name);
        tell!(
            warn, name: "sweep.batch_aborted", target: "tenure::range", %key, %sweep, %range, in_a_row,
            "a lease was over before one batch was handled and written down"
        );
    }

    /// What is left, cut along the shards, beginning at a place that differs between processes.
    fn pieces(&self, left: &RangeSet) -> VecDeque<RangePiece> {
        let shards = self.space.split(self.shards).map(RangeSet::from);
        rotated(shards.flat_map(|shard| shard.intersection(left).into_ranges()).take(PIECES))
    }

    fn check(&self) -> Result<(), InvalidInput> {
        let Sweep { shards, batch, share, .. } = self;
        if *shards == 0 || *batch == 0 || *share == 0 {
            return Err(InvalidInput::new("shards, batch and share must be 1 at least"));
        }
        if *shards > MOST_SHARDS {
            return Err(InvalidInput::new(format!(
                "{shards} shards are too many; take {MOST_SHARDS} at most"
            )));
        }
        Ok(())
    }

    /// Works on what is free of `desired`; none if nothing is.
    async fn work<S, H, Fut>(
        &self,
        desired: RangeSet,
        covered: &Arc<Mutex<Covered>>,
        source: &Arc<S>,
        handle: &Arc<H>,
    ) -> Result<Option<Worked<S::Error>>, SweepError<S::Error>>
    where
        S: Source,
        H: Fn(Vec<S::Item>, RangeLease) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), S::Error>> + Send + 'static,
    {
        let progress = Arc::new(SweepProgress::default());
        let share = SweepTask {
            batch: self.batch,
            share: self.share,
            covered: Arc::clone(covered),
            source: Arc::clone(source),
            progress: Arc::clone(&progress),
        };
        let handle = Arc::clone(handle);
        let body = move |lease: RangeLease| async move { share.work(&lease, &*handle).await };
        let done = self.section.try_with_lease(desired, self.duration, body).await;
        // Of a body that was aborted, too.
        let items = progress.items.load(Ordering::SeqCst);
        match done {
            // One that ends in time, but had no time to cover anything, is as slow as one that is ended.
            Ok(worked) => {
                let is_slow = worked.error.is_none() && !worked.is_fruitless && progress.is_slow();
                Ok(Some(Worked { items, is_slow, ..worked }))
            }
            // Its time was over. What it has covered is written down; the rest is looked at again.
            Err(BodyError::Interrupted { value, why }) => {
                let worked = value.unwrap_or_else(Worked::nothing);
                let is_slow = why == Loss::Overran && progress.is_slow();
                Ok(Some(Worked { items, is_slow, ..worked }))
            }
            // All of it is others'.
            Err(BodyError::Acquire(AcquireError::Held(_))) => Ok(None),
            Err(BodyError::Acquire(error)) => Err(error.into()),
            Err(BodyError::Panicked(text)) => Err(SweepError::Panicked(text)),
        }
    }
}

/// Nothing may be begun any more.
fn is_over(lease: &RangeLease) -> bool {
    // Its time may be over a moment before it is told so.
    lease.cancelled().is_cancelled() || lease.remaining().is_zero() || !lease.is_held()
}

/// What is done under one lease.
struct SweepTask<S> {
    batch: usize,
    share: usize,
    covered: Arc<Mutex<Covered>>,
    source: Arc<S>,
    progress: Arc<SweepProgress>,
}

impl<S: Source> SweepTask<S> {
    async fn work<H, Fut>(&self, lease: &RangeLease, handle: &H) -> Worked<S::Error>
    where
        H: Fn(Vec<S::Item>, RangeLease) -> Fut,
        Fut: Future<Output = Result<(), S::Error>>,
    {
        let mut worked = Worked::nothing();
        worked.error = self.try_work(lease, handle, &mut worked).await.err();
        worked
    }

    async fn try_work<H, Fut>(
        &self,
        lease: &RangeLease,
        handle: &H,
        worked: &mut Worked<S::Error>,
    ) -> Result<(), SweepError<S::Error>>
    where
        H: Fn(Vec<S::Item>, RangeLease) -> Fut,
        Fut: Future<Output = Result<(), S::Error>>,
    {
        self.progress.is_at_work.store(true, Ordering::SeqCst);
        // Between the look that chose this piece and the lease, another may have covered some of it.
        let parts = {
            let mut covered = self.covered.lock().await;
            covered.look().await?;
            lease.set().minus(covered.parts())
        };
        // Where another has covered it all, nothing was slow.
        self.progress.is_at_work.store(false, Ordering::SeqCst);
        for part in parts.ranges() {
            let mut rest = part.clone();
            while !rest.is_empty() {
                if is_over(lease) {
                    return Ok(());
                }
                let spent = usize::try_from(worked.items).unwrap_or(usize::MAX);
                let Some(most) = self.share.checked_sub(spent).filter(|most| *most > 0) else {
                    worked.cut.extend(self.cut(part, &rest, worked.items));
                    break;
                };
                let limit = most.min(self.batch);
                let budget = lease.remaining() / 2;
                // One more than is handled shows whether the last key goes on beyond the page.
                self.progress.is_at_work.store(true, Ordering::SeqCst);
                let scanned = self.source.scan(&rest, limit.saturating_add(1), budget).await;
                if is_over(lease) {
                    return Ok(());
                }
                let Page { items: mut page, mut is_all } = scanned.map_err(SweepError::Failed)?;
                self.check(&rest, &page)?;
                if page.len() > limit {
                    page.truncate(limit);
                    is_all = false;
                }
                let count = page.len() as u64;
                let next = match page.last() {
                    Some(last) if !is_all => self.source.key(last).next(),
                    None if !is_all => {
                        worked.is_fruitless = worked.items == 0;
                        return Ok(());
                    }
                    _ => rest.high().clone(),
                };
                if !page.is_empty() {
                    let handled = handle(page, lease.clone()).await;
                    // Whoever ends because it was told to has not handled all, whatever it says.
                    if is_over(lease) {
                        return Ok(());
                    }
                    handled.map_err(SweepError::Failed)?;
                }
                let done = KeyRange::new(rest.low().clone(), next.clone()).unwrap_or_default();
                self.covered.lock().await.add(&done.into()).await?;
                self.progress.has_covered.store(true, Ordering::SeqCst);
                self.progress.is_at_work.store(false, Ordering::SeqCst);
                self.progress.items.fetch_add(count, Ordering::SeqCst);
                worked.items += count;
                rest = KeyRange::new(next, rest.high().clone()).unwrap_or_default();
            }
        }
        Ok(())
    }

    /// Whether all keys are within `range`, and each is greater than the one before it. Else what is covered can't be told by the last one.
    fn check(&self, range: &KeyRange, page: &[S::Item]) -> Result<(), SweepError<S::Error>> {
        let mut last: Option<Point> = None;
        for item in page {
            let key = self.source.key(item);
            let wrong = match &last {
                _ if !range.contains(&key) => Some("that is outside of it"),
                Some(last) if *last == key => {
                    Some("there is another item of the same key; keys must be unique")
                }
                Some(last) if *last > key => Some(
                    "what came before it in the page belongs after it; items must be in the order of their keys",
                ),
                _ => None,
            };
            if let Some(wrong) = wrong {
                return Err(SweepError::Misplaced { key, range: range.clone(), wrong });
            }
            last = Some(key);
        }
        Ok(())
    }

    /// What comes after what was handled of `part`, in pieces of about a share each.
    fn cut(&self, part: &KeyRange, rest: &KeyRange, items: u64) -> Vec<KeyRange> {
        let whole = || vec![rest.clone()];
        let Some(last) = rest.low().previous() else { return whole() };
        match part.educated_split_after(&last, items, self.share as u64, CUTS) {
            Ok(pieces) => pieces.collect(),
            Err(_) => whole(),
        }
    }
}
