//! The pieces of an object that are scanned: what zones leave of it, one after the other or, with [`Helpers`], some at
//! once.
//!
//! Pieces that are scanned at once give the rows that pass, or what aggregates have taken in of them, in the order of the
//! object; what becomes of that is done in one place whoever found it. So the answer is the same as that of one scan from
//! the beginning to the end, but for the last digits of floating-point numbers. What waits for the pieces before it is
//! bounded in bytes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pushdown::{Error, Fragment, Output, Result};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::extent::Extent;
use crate::interrupt::{Task, check_interrupt};
use crate::pruning::zones::Zones;
use crate::scan::{Source, slice_bytes, zoned};
use crate::totals::{PieceTotals, Totals, TotalsPlan};
use crate::{Helpers, ObjectReader, Reservation, ScanCounters, ScanOptions, Spawner, compact, limits};

/// Pieces that each of those who scan takes in turn of what is left, while they are not the smallest.
const TURNS: u64 = 4;

/// The largest piece, in smallest ones.
const LARGEST: u64 = 4;

/// How pieces of an object are opened.
pub(crate) struct Opening {
    pub(crate) fragment: Arc<Fragment>,
    pub(crate) reader: Arc<dyn ObjectReader>,
    pub(crate) options: ScanOptions,
    pub(crate) counters: Arc<ScanCounters>,
}

fn bytes(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// What zones leave of a range, and how many bytes they rule out.
fn left_by(zones: &Zones, fragment: &Fragment, asked: &Range<u64>) -> Result<(Vec<Range<u64>>, u64)> {
    let Some((condition, columns)) = zoned(fragment)? else { return Ok((vec![asked.clone()], 0)) };
    let left = zones.surviving(&condition, &columns, asked.clone())?;
    let pruned = bytes(asked).saturating_sub(left.iter().map(bytes).sum());
    Ok((left, pruned))
}

/// How many bytes of this range of a text the fragment need not look at, by what is known of its values.
///
/// # Errors
///
/// Where the fragment cannot be scanned for.
pub fn bytes_ruled_out(zones: &Zones, fragment: &Fragment, range: &Range<u64>) -> Result<u64> {
    left_by(zones, fragment, range).map(|(_, pruned)| pruned)
}

impl Opening {
    fn open(&self, extent: &Extent, spawner: &Spawner) -> Result<(Source, SchemaRef, Output)> {
        check_interrupt()?;
        let options = ScanOptions { spawner: spawner.clone(), ..self.options.clone() };
        Source::open(&self.fragment, Arc::clone(&self.reader), extent, &options, Arc::clone(&self.counters))
    }

    /// What zones leave of the extent: at least one piece, though it may be empty.
    fn prune(&self, extent: Extent) -> Result<VecDeque<Extent>> {
        let all = VecDeque::from([extent]);
        let (Some(zones), Some(Extent::Range(asked))) = (&self.options.zones, all.front()) else { return Ok(all) };
        let asked = self.asked(asked.as_ref());
        let (left, pruned) = left_by(zones, &self.fragment, &asked)?;
        if pruned == 0 {
            return Ok(all);
        }
        self.counters.bytes_pruned.fetch_add(pruned, Ordering::Relaxed);
        let left: VecDeque<_> = left.into_iter().map(|range| Extent::Range(Some(range))).collect();
        let nothing = || VecDeque::from([Extent::Range(Some(asked.end..asked.end))]);
        Ok(if left.is_empty() { nothing() } else { left })
    }

    fn asked(&self, range: Option<&Range<u64>>) -> Range<u64> {
        let size = self.reader.size();
        range.map_or(0..size, |range| range.start.min(size)..range.end.min(size))
    }

    /// Who helps, if the object can be scanned in pieces and all of it is going to be.
    fn helpers(&self) -> Option<&Helpers> {
        let is_rows = matches!(self.fragment.output, Output::Rows(_));
        let ends_early = is_rows && self.fragment.limit.is_some() && self.fragment.order.is_empty();
        let helpers = self.options.helpers.as_ref().filter(|helpers| helpers.most() > 1)?;
        (self.fragment.format.is_splittable() && !ends_early).then_some(helpers)
    }

    /// What totals of a piece may take before they are handed on: no more than the piece.
    fn totals_bytes(&self) -> usize {
        let bytes = self.helpers().map_or(limits::PIECE_BYTES, Helpers::piece_bytes);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Cuts extents into pieces, which become smaller towards the end: each has to be begun, and at the end one is waited
    /// for.
    fn cut(&self, extents: VecDeque<Extent>, helpers: &Helpers) -> VecDeque<Extent> {
        let range_of = |extent: &Extent| match extent {
            Extent::Range(range) => self.asked(range.as_ref()),
            Extent::Positions | Extent::About(_) | Extent::Parts(_) => 0..0,
        };
        let mut left: u64 = extents.iter().map(|extent| bytes(&range_of(extent))).sum();
        let (smallest, turns) = (helpers.piece_bytes(), TURNS * helpers.most() as u64);
        let mut pieces = VecDeque::new();
        for extent in extents {
            let mut range = range_of(&extent);
            if bytes(&range) / smallest < 2 {
                left -= bytes(&range);
                pieces.push_back(extent);
                continue;
            }
            while !range.is_empty() {
                let piece = (left / turns).clamp(smallest, smallest.saturating_mul(LARGEST));
                // The last one takes what is left.
                let is_last = bytes(&range) < piece + smallest;
                let end = if is_last { range.end } else { range.start + piece };
                left -= end - range.start;
                pieces.push_back(Extent::Range(Some(range.start..end)));
                range.start = end;
            }
        }
        pieces
    }
}

/// What was found in a piece.
pub(crate) enum Found {
    /// Rows that pass.
    Rows(RecordBatch),
    /// What was aggregated of such rows.
    Totals(Totals),
}

/// The rows of the pieces.
pub(crate) struct Pieces {
    opening: Arc<Opening>,
    /// What pieces aggregate their rows to, if they do.
    totals: Option<Arc<TotalsPlan>>,
    /// The one at hand, where one is scanned after the other.
    current: Option<Source>,
    left: VecDeque<Piece>,
    /// Those that are scanned at once, in their order.
    running: VecDeque<Running>,
    /// One of those has come to its end.
    ended: Arc<Notify>,
}

/// A piece that nobody scans yet.
enum Piece {
    Opened(Source),
    Closed(Extent),
}

/// A piece that is scanned on a task of its own.
struct Running {
    /// Whether a helper scans it, or who scans the object.
    helped: bool,
    found: UnboundedReceiver<Waiting>,
    /// Whether all of that, or what went wrong, were sent.
    is_whole: Arc<AtomicBool>,
    _task: Task<()>,
    /// For what was found and waits.
    _reserved: Option<Reservation>,
}

impl Running {
    /// Whether nothing of it is left to be taken.
    fn is_taken(&self) -> bool {
        self.found.is_closed() && self.found.is_empty() && self.is_whole.load(Ordering::Acquire)
    }
}

/// What was found, or what went wrong, and the room that it takes.
type Waiting = (Result<Found>, OwnedSemaphorePermit);

impl Pieces {
    /// Opens the first piece. Also gives the schema of the rows, and the output rewritten to it.
    pub(crate) fn open(opening: Opening, extent: Extent) -> Result<(Self, SchemaRef, Output)> {
        let mut extents = opening.prune(extent)?;
        if let Some(helpers) = opening.helpers() {
            extents = opening.cut(extents, helpers);
        }
        let first = extents.pop_front().unwrap_or(Extent::Range(None));
        let (first, schema, output) = opening.open(&first, &opening.options.spawner)?;
        let left = [Piece::Opened(first)].into_iter().chain(extents.into_iter().map(Piece::Closed)).collect();
        // Who passes groups on decides by all rows which.
        let totals = match &output {
            Output::Aggregate { groups, calls } if opening.options.partial_group_bytes.is_none() => {
                Some(TotalsPlan::new(groups, calls, &schema, &opening.options.memory))
            }
            _ => None,
        };
        let (running, ended) = (VecDeque::new(), Arc::default());
        Ok((Self { opening: Arc::new(opening), totals, current: None, left, running, ended }, schema, output))
    }

    pub(crate) fn options(&self) -> &ScanOptions {
        &self.opening.options
    }

    /// What was found next.
    pub(crate) async fn next(&mut self) -> Result<Option<Found>> {
        let is_alone = self.running.is_empty() && self.left.len() <= 1;
        if self.current.is_some() || is_alone || self.opening.helpers().is_none() {
            return Ok(self.one_by_one().await?.map(Found::Rows));
        }
        loop {
            self.start();
            let Some(front) = self.running.front_mut() else { return Ok(None) };
            let ended = self.ended.notified();
            tokio::select! {
                biased;
                next = front.found.recv() => match next {
                    Some((found, _)) => return found.map(Some),
                    None if front.is_taken() => drop(self.running.pop_front()),
                    None => return Err(Error::internal("a piece of an object was given up")),
                },
                // Somebody is free for another piece.
                () = ended => {}
            }
        }
    }

    async fn one_by_one(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let source = match &mut self.current {
                Some(source) => source,
                none => {
                    let Some(piece) = self.left.pop_front() else { return Ok(None) };
                    none.insert(piece.open(&self.opening, &self.opening.options.spawner)?)
                }
            };
            if let Some(batch) = source.next().await? {
                return Ok(Some(batch));
            }
            self.current = None;
        }
    }

    /// Starts pieces while there is somebody to scan them.
    fn start(&mut self) {
        let Some(helpers) = self.opening.helpers() else { return };
        self.running.retain(|piece| !piece.is_taken());
        while !self.left.is_empty() {
            let unfinished: Vec<_> = self.running.iter().filter(|piece| !piece.found.is_closed()).collect();
            if unfinished.len() >= helpers.most() || self.running.len() >= 2 * helpers.most() {
                return;
            }
            let helped = unfinished.iter().any(|piece| !piece.helped);
            let spawner = if helped { helpers.ask() } else { Some(self.opening.options.spawner.clone()) };
            let Some(spawner) = spawner else { return };
            let room = limits::AHEAD_BYTES / (2 * helpers.most());
            let reserved = self.opening.options.memory.try_reserve(room).ok();
            if helped && reserved.is_none() {
                return;
            }
            // Without memory for more, no more than a batch waits.
            let room = if reserved.is_some() { room } else { 1 };
            // In this order: a piece that is taken is scanned.
            let Some(piece) = self.left.pop_front() else { return };
            let (sender, found) = unbounded_channel();
            let (opening, totals, ended) = (Arc::clone(&self.opening), self.totals.clone(), Arc::clone(&self.ended));
            // As many may have come to their end and wait.
            let by = spawner.clone();
            let is_whole: Arc<AtomicBool> = Arc::default();
            let whole = Arc::clone(&is_whole);
            let task = spawner.spawn(async move {
                let to = Sending::new(sender, room);
                piece.scan(&opening, &by, totals.as_ref(), &to).await;
                whole.store(true, Ordering::Release);
                // Who has seen the end has nobody beside himself any more.
                drop((opening, by));
                drop(to);
                ended.notify_one();
            });
            self.running.push_back(Running { helped, found, is_whole, _task: task, _reserved: reserved });
        }
    }
}

impl Piece {
    fn open(self, opening: &Opening, spawner: &Spawner) -> Result<Source> {
        match self {
            Self::Opened(source) => Ok(source),
            Self::Closed(extent) => Ok(opening.open(&extent, spawner)?.0),
        }
    }

    /// Sends what is found in the piece.
    async fn scan(self, opening: &Opening, spawner: &Spawner, totals: Option<&Arc<TotalsPlan>>, to: &Sending) {
        if let Err(error) = self.try_scan(opening, spawner, totals, to).await {
            to.send(Err(error), 1).await.unwrap_or_default();
        }
    }

    async fn try_scan(
        self,
        opening: &Opening,
        spawner: &Spawner,
        mut totals: Option<&Arc<TotalsPlan>>,
        to: &Sending,
    ) -> Result<()> {
        let mut source = self.open(opening, spawner)?;
        let mut taken = None;
        while let Some(batch) = source.next().await? {
            check_interrupt()?;
            let (found, bytes) = match totals {
                Some(plan) => {
                    let mut all = taken.take().map_or_else(|| PieceTotals::new(plan), Ok)?;
                    all.update(&batch)?;
                    let (bytes, most) = (all.bytes(), opening.totals_bytes());
                    if bytes > most / 8 && all.are_many() {
                        totals = None;
                    } else if bytes <= most {
                        taken = Some(all);
                        continue;
                    }
                    (Found::Totals(all.into_totals()), bytes)
                }
                None => {
                    let batch = compact(&batch)?;
                    let bytes = batch.columns().iter().map(slice_bytes).sum();
                    (Found::Rows(batch), bytes)
                }
            };
            if to.send(Ok(found), bytes).await.is_none() {
                return Ok(());
            }
        }
        if let Some(all) = taken {
            let bytes = all.bytes();
            to.send(Ok(Found::Totals(all.into_totals())), bytes).await.unwrap_or_default();
        }
        Ok(())
    }
}

/// Where a piece sends what it finds. Of what was not yet taken there are never more than `most` bytes and a batch.
struct Sending {
    found: UnboundedSender<Waiting>,
    room: Arc<Semaphore>,
    most: usize,
}

impl Sending {
    fn new(found: UnboundedSender<Waiting>, most: usize) -> Self {
        Self { found, room: Arc::new(Semaphore::new(most)), most }
    }

    /// Sends as soon as there is room for so many bytes; `None` if nobody wants it.
    async fn send(&self, found: Result<Found>, bytes: usize) -> Option<()> {
        let bytes = u32::try_from(bytes.clamp(1, self.most)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.room).acquire_many_owned(bytes).await.ok()?;
        self.found.send((found, permit)).ok()
    }
}
