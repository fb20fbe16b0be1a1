//! Scanning of an object in pieces, which are the ranges that zones leave. Pieces are scanned one
//! after the other, or several in parallel by [`Helpers`].
//!
//! Parallel pieces return the rows that pass, or partial aggregates of them, in the order of the
//! object; all further steps run in one place. The results are those of a sequential scan, except
//! for the last digits of floating-point numbers. The bytes of output that wait for earlier pieces
//! are bounded.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use pushdowndb_contract::{Error, Fragment, Output, Result};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

use crate::batch::slice_bytes;
use crate::counters::ScanCounters;
use crate::io::reader::ObjectReader;
use crate::operators::aggregate_plan::AggregatePlan;
use crate::operators::partial::{PartialAggregate, PieceAggregate};
use crate::options::ScanOptions;
use crate::range::scan_range::ScanRange;
use crate::run::open::{Opened, open_source, zoned};
use crate::runtime::interrupt::{Task, check_interrupt};
use crate::runtime::memory::Reservation;
use crate::runtime::spawner::{Helpers, Spawner};
use crate::source::{BatchSource, ScanInput};
use crate::zones::store::Zones;
use crate::{compact, limits};

/// The next piece is the rest of the object divided by this number and the number of helpers, if
/// that is larger than the smallest piece.
const PIECES_PER_HELPER: u64 = 4;

/// The maximum size of a piece, in multiples of the smallest piece.
const MAX_PIECE_FACTOR: u64 = 4;

/// Opens the pieces of an object.
pub(crate) struct PieceFactory {
    pub(crate) fragment: Arc<Fragment>,
    pub(crate) reader: Arc<dyn ObjectReader>,
    pub(crate) options: ScanOptions,
    pub(crate) counters: Arc<ScanCounters>,
}

fn bytes(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

/// Returns the ranges of `asked` that zones leave, and the number of bytes that they exclude.
fn left_by(zones: &Zones, fragment: &Fragment, asked: &Range<u64>) -> Result<(Vec<Range<u64>>, u64)> {
    let Some((condition, columns)) = zoned(fragment)? else { return Ok((vec![asked.clone()], 0)) };
    let left = zones.surviving(&condition, &columns, asked.clone())?;
    let pruned = bytes(asked).saturating_sub(left.iter().map(bytes).sum());
    Ok((left, pruned))
}

/// Returns the number of bytes of `range` that zones exclude for `fragment`.
///
/// # Errors
///
/// Returns an error if the fragment is invalid.
pub fn bytes_ruled_out(zones: &Zones, fragment: &Fragment, range: &Range<u64>) -> Result<u64> {
    left_by(zones, fragment, range).map(|(_, pruned)| pruned)
}

impl PieceFactory {
    fn open(&self, extent: &ScanRange, spawner: &Spawner) -> Result<Opened> {
        check_interrupt()?;
        let input = ScanInput {
            reader: Arc::clone(&self.reader),
            range: extent.clone(),
            options: self.options.of_source(spawner),
            counters: Arc::clone(&self.counters),
        };
        open_source(&self.fragment, input, self.options.of_parquet())
    }

    /// Returns the ranges of `extent` that zones leave: at least one, which may be empty.
    fn prune(&self, extent: ScanRange) -> Result<VecDeque<ScanRange>> {
        let all = VecDeque::from([extent]);
        let (Some(zones), Some(ScanRange::Bytes(asked))) = (&self.options.zones, all.front()) else { return Ok(all) };
        let asked = self.asked(asked.as_ref());
        let (left, pruned) = left_by(zones, &self.fragment, &asked)?;
        if pruned == 0 {
            return Ok(all);
        }
        self.counters.bytes_pruned.fetch_add(pruned, Ordering::Relaxed);
        let left: VecDeque<_> = left.into_iter().map(|range| ScanRange::Bytes(Some(range))).collect();
        let nothing = || VecDeque::from([ScanRange::Bytes(Some(asked.end..asked.end))]);
        Ok(if left.is_empty() { nothing() } else { left })
    }

    fn asked(&self, range: Option<&Range<u64>>) -> Range<u64> {
        let size = self.reader.size();
        range.map_or(0..size, |range| range.start.min(size)..range.end.min(size))
    }

    /// Returns the helpers, if the object can be scanned in pieces and the scan will not end early.
    fn helpers(&self) -> Option<&Helpers> {
        let is_rows = matches!(self.fragment.output, Output::Rows(_));
        let ends_early = is_rows && self.fragment.limit.is_some() && self.fragment.order.is_empty();
        let helpers = self.options.helpers.as_ref().filter(|helpers| helpers.most() > 1)?;
        (self.fragment.format.is_splittable() && !ends_early).then_some(helpers)
    }

    /// Returns the maximum bytes of partial aggregates that a piece holds, which is the size of a
    /// piece.
    fn totals_bytes(&self) -> usize {
        let bytes = self.helpers().map_or(limits::PIECE_BYTES, Helpers::piece_bytes);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// Cuts ranges into pieces. Pieces become smaller towards the end: to open a piece has a cost,
    /// but the scan has to wait for the last pieces.
    fn cut(&self, extents: VecDeque<ScanRange>, helpers: &Helpers) -> VecDeque<ScanRange> {
        let range_of = |extent: &ScanRange| match extent {
            ScanRange::Bytes(range) => self.asked(range.as_ref()),
            ScanRange::WithPositions | ScanRange::Rows(_) | ScanRange::Records(_) => 0..0,
        };
        let mut left: u64 = extents.iter().map(|extent| bytes(&range_of(extent))).sum();
        let (smallest, turns) = (helpers.piece_bytes(), PIECES_PER_HELPER * helpers.most() as u64);
        let mut pieces = VecDeque::new();
        for extent in extents {
            let mut range = range_of(&extent);
            if bytes(&range) / smallest < 2 {
                left -= bytes(&range);
                pieces.push_back(extent);
                continue;
            }
            while !range.is_empty() {
                let piece = (left / turns).clamp(smallest, smallest.saturating_mul(MAX_PIECE_FACTOR));
                // The last piece takes the rest of the range.
                let is_last = bytes(&range) < piece + smallest;
                let end = if is_last { range.end } else { range.start + piece };
                left -= end - range.start;
                pieces.push_back(ScanRange::Bytes(Some(range.start..end)));
                range.start = end;
            }
        }
        pieces
    }
}

pub(crate) enum PieceOutput {
    Rows(RecordBatch),
    /// A partial aggregate of the rows that pass.
    PartialAggregate(PartialAggregate),
}

/// Returns the output of all pieces.
pub(crate) struct ParallelScan {
    opening: Arc<PieceFactory>,
    /// The plan by which pieces aggregate their rows; `None` if they do not.
    totals: Option<Arc<AggregatePlan>>,
    /// The current piece of a sequential scan.
    current: Option<Box<dyn BatchSource>>,
    left: VecDeque<Piece>,
    /// The pieces that are being scanned in parallel, in order.
    running: VecDeque<Running>,
    /// Notified when one of these pieces has ended.
    ended: Arc<Notify>,
}

/// A piece that is not being scanned yet.
enum Piece {
    Opened(Box<dyn BatchSource>),
    Closed(ScanRange),
}

/// A piece that is scanned by a separate task.
struct Running {
    /// True if a helper scans it, false if the task that scans the object does.
    helped: bool,
    found: UnboundedReceiver<Waiting>,
    /// True once all of its output, or an error, was sent.
    is_whole: Arc<AtomicBool>,
    _task: Task<()>,
    /// Memory for output that waits.
    _reserved: Option<Reservation>,
}

impl Running {
    /// Returns whether all of its output was consumed.
    fn is_taken(&self) -> bool {
        self.found.is_closed() && self.found.is_empty() && self.is_whole.load(Ordering::Acquire)
    }
}

/// Output of a piece or an error, and the permit for its bytes.
type Waiting = (Result<PieceOutput>, OwnedSemaphorePermit);

impl ParallelScan {
    /// Opens the first piece. Also returns the schema of the rows, and the output rewritten to it.
    pub(crate) fn open(opening: PieceFactory, extent: ScanRange) -> Result<(Self, SchemaRef, Output)> {
        let mut extents = opening.prune(extent)?;
        if let Some(helpers) = opening.helpers() {
            extents = opening.cut(extents, helpers);
        }
        let first = extents.pop_front().unwrap_or(ScanRange::Bytes(None));
        let (first, output) = opening.open(&first, &opening.options.spawner)?;
        let schema = first.schema();
        let left = [Piece::Opened(first)].into_iter().chain(extents.into_iter().map(Piece::Closed)).collect();
        // If groups may be passed on, which ones must be decided from all rows, so pieces do not
        // aggregate.
        let totals = match &output {
            Output::Aggregate { groups, calls } if opening.options.partial_group_bytes.is_none() => {
                Some(AggregatePlan::new(groups, calls, &schema, &opening.options.memory))
            }
            _ => None,
        };
        let (running, ended) = (VecDeque::new(), Arc::default());
        Ok((Self { opening: Arc::new(opening), totals, current: None, left, running, ended }, schema, output))
    }

    pub(crate) fn options(&self) -> &ScanOptions {
        &self.opening.options
    }

    /// Returns the next output.
    pub(crate) async fn next(&mut self) -> Result<Option<PieceOutput>> {
        let is_alone = self.running.is_empty() && self.left.len() <= 1;
        if self.current.is_some() || is_alone || self.opening.helpers().is_none() {
            return Ok(self.one_by_one().await?.map(PieceOutput::Rows));
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
                // A helper is free for another piece.
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

    /// Starts to scan pieces while helpers are available.
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
            let room = limits::MAX_WAITING_BYTES / (2 * helpers.most());
            let reserved = self.opening.options.memory.try_reserve(room).ok();
            if helped && reserved.is_none() {
                return;
            }
            // If no memory can be reserved, only one batch may wait.
            let room = if reserved.is_some() { room } else { 1 };
            // The piece is taken last, so that every piece taken is scanned.
            let Some(piece) = self.left.pop_front() else { return };
            let (sender, found) = unbounded_channel();
            let (opening, totals, ended) = (Arc::clone(&self.opening), self.totals.clone(), Arc::clone(&self.ended));
            // As many may have come to their end and wait.
            let by = spawner.clone();
            let is_whole: Arc<AtomicBool> = Arc::default();
            let whole = Arc::clone(&is_whole);
            let task = spawner.spawn(async move {
                let to = BoundedSender::new(sender, room);
                piece.scan(&opening, &by, totals.as_ref(), &to).await;
                whole.store(true, Ordering::Release);
                // Dropped first, so that the helper is free when the end of the piece is observed.
                drop((opening, by));
                drop(to);
                ended.notify_one();
            });
            self.running.push_back(Running { helped, found, is_whole, _task: task, _reserved: reserved });
        }
    }
}

impl Piece {
    fn open(self, opening: &PieceFactory, spawner: &Spawner) -> Result<Box<dyn BatchSource>> {
        match self {
            Self::Opened(source) => Ok(source),
            Self::Closed(extent) => Ok(opening.open(&extent, spawner)?.0),
        }
    }

    /// Scans the piece and sends its output.
    async fn scan(
        self,
        opening: &PieceFactory,
        spawner: &Spawner,
        totals: Option<&Arc<AggregatePlan>>,
        to: &BoundedSender,
    ) {
        if let Err(error) = self.try_scan(opening, spawner, totals, to).await {
            to.send(Err(error), 1).await.unwrap_or_default();
        }
    }

    async fn try_scan(
        self,
        opening: &PieceFactory,
        spawner: &Spawner,
        mut totals: Option<&Arc<AggregatePlan>>,
        to: &BoundedSender,
    ) -> Result<()> {
        let mut source = self.open(opening, spawner)?;
        let mut taken = None;
        while let Some(batch) = source.next().await? {
            check_interrupt()?;
            let (found, bytes) = match totals {
                Some(plan) => {
                    let mut all = taken.take().map_or_else(|| PieceAggregate::new(plan), Ok)?;
                    all.update(&batch)?;
                    let (bytes, most) = (all.bytes(), opening.totals_bytes());
                    if bytes > most / 8 && all.are_many() {
                        totals = None;
                    } else if bytes <= most {
                        taken = Some(all);
                        continue;
                    }
                    (PieceOutput::PartialAggregate(all.into_totals()), bytes)
                }
                None => {
                    let batch = compact(&batch)?;
                    let bytes = batch.columns().iter().map(slice_bytes).sum();
                    (PieceOutput::Rows(batch), bytes)
                }
            };
            if to.send(Ok(found), bytes).await.is_none() {
                return Ok(());
            }
        }
        if let Some(all) = taken {
            let bytes = all.bytes();
            to.send(Ok(PieceOutput::PartialAggregate(all.into_totals())), bytes).await.unwrap_or_default();
        }
        Ok(())
    }
}

/// The sending end of a piece's output. At most `most` bytes plus one batch may wait to be
/// consumed.
struct BoundedSender {
    found: UnboundedSender<Waiting>,
    room: Arc<Semaphore>,
    most: usize,
}

impl BoundedSender {
    fn new(found: UnboundedSender<Waiting>, most: usize) -> Self {
        Self { found, room: Arc::new(Semaphore::new(most)), most }
    }

    /// Waits for a permit for `bytes`, and then sends. Returns `None` if the receiver was dropped.
    async fn send(&self, found: Result<PieceOutput>, bytes: usize) -> Option<()> {
        let bytes = u32::try_from(bytes.clamp(1, self.most)).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.room).acquire_many_owned(bytes).await.ok()?;
        self.found.send((found, permit)).ok()
    }
}
