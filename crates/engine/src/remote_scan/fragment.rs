//! Splits on the fragment route: several a request, each complete with its own end mark.
//!
//! The rows of a split are held back until its end mark came. After a failure only the splits without one are asked
//! for again, and at last read plainly. Splits share a request only if they mean the same fragment: objects of one
//! format whose columns are in the same order.

use std::time::Duration;

use arrow::array::RecordBatch;
use pushdown::wire::{Encoding, FragmentRequest};
use pushdown::{Error, ErrorKind, Fragment, Output, Result, Split};
use tokio::sync::mpsc::Sender;

use super::run::Run;
use super::splits::ScanSplit;
use super::task::{Held, SplitTask};
use crate::backends::{Retry, SplitPiece};
use crate::settings::Objective;
use crate::table::DataObject;

/// Splits of one request have about so many bytes in all, where seconds count, and fewer where the workers would have nothing to
/// do.
const REQUEST_BYTES: u64 = 64 * 1024 * 1024;

/// Smaller requests cost more than they bring in parallelism.
const SMALLEST_REQUEST_BYTES: u64 = 8 * 1024 * 1024;

/// The most splits of one request: their rows are held back together.
const REQUEST_SPLITS: usize = 64;

/// About how many bytes one request is for, where so many are scanned with so many requests at a time.
fn request_bytes(total: u64, workers: u64, objective: Objective) -> u64 {
    match objective {
        Objective::Latency => total.div_ceil(workers.max(1)).clamp(SMALLEST_REQUEST_BYTES, REQUEST_BYTES),
        // Dollars are paid for each, and one alone keeps all cores of storage busy.
        Objective::Cost => total,
    }
}

/// How many requests so many bytes in so many splits take, of which each partition sends its own.
pub(crate) fn count_requests(total: u64, splits: u64, workers: u64, partitions: u64, objective: Objective) -> u64 {
    let by_bytes = total.div_ceil(request_bytes(total, workers, objective).max(1));
    by_bytes.max(splits.div_ceil(REQUEST_SPLITS as u64)).max(partitions).clamp(1, splits.max(1))
}

/// Splits that go into one request each, for so many workers. `bytes_of` says how much is read of a split, `fits`
/// whether two objects mean the same fragment.
pub(super) fn requests(
    splits: Vec<ScanSplit>,
    objects: &[DataObject],
    workers: usize,
    objective: Objective,
    bytes_of: impl Fn(&ScanSplit) -> u64,
    fits: impl Fn(&DataObject, &DataObject) -> bool,
) -> Vec<Vec<ScanSplit>> {
    let total: u64 = splits.iter().map(&bytes_of).sum();
    let share = request_bytes(total, workers as u64, objective);
    let mut requests: Vec<Vec<ScanSplit>> = Vec::new();
    let mut bytes = 0;
    for split in splits {
        let more = bytes_of(&split);
        let joins = requests.last().and_then(|splits| splits.first().map(|first| (first, splits.len())));
        let joins = joins.is_some_and(|(first, count)| {
            let same = objects.get(first.object).zip(objects.get(split.object)).is_some_and(|(a, b)| fits(a, b));
            same && count < REQUEST_SPLITS && bytes + more <= share
        });
        match requests.last_mut() {
            Some(last) if joins => {
                bytes += more;
                last.push(split);
            }
            _ => {
                bytes = more;
                requests.push(vec![split]);
            }
        }
    }
    requests
}

/// Splits of one request, neighbours in an object as one: what a split costs storage besides its bytes it then costs once. Leaves
/// so many if there are: a core of storage takes one at a time. None becomes so large that it is not gladly asked for again.
pub(super) fn joined(splits: Vec<ScanSplit>, least: usize) -> Vec<ScanSplit> {
    let most_joined = splits.len() / least.max(1);
    let mut all: Vec<ScanSplit> = Vec::with_capacity(splits.len());
    let mut joined = 0;
    for split in splits {
        match (all.last_mut(), &split.range) {
            (Some(ScanSplit { object, range: Some(before), rows: None }), Some(range))
                if *object == split.object
                    && before.end == range.start
                    && joined < most_joined
                    && range.end - before.start <= REQUEST_BYTES =>
            {
                before.end = range.end;
                joined += 1;
            }
            _ => {
                all.push(split);
                joined = 1;
            }
        }
    }
    all
}

/// A split without its end mark.
struct Open<'a> {
    task: SplitTask<'a>,
    held: Held,
    rows: u64,
    /// Rows whose keys are learned from once the split is complete: one that is asked for again must not count twice.
    unlearned: Vec<RecordBatch>,
    done: bool,
    /// Why the node gave it up.
    error: Option<Error>,
}

impl Open<'_> {
    fn as_asked(&self) -> Split {
        Split { range: self.task.split.range.clone(), ..self.task.whole_object() }
    }

    /// What is asked again starts anew.
    fn reset(&mut self) {
        self.held = Held::default();
        self.rows = 0;
        self.unlearned.clear();
        self.error = None;
    }
}

impl Run {
    /// Runs splits of one fragment; `false` when nobody wants rows any more.
    pub(super) async fn run_fragment(
        &self,
        request: &Fragment,
        splits: &[ScanSplit],
        out: &Sender<datafusion::common::Result<RecordBatch>>,
    ) -> Result<bool> {
        let mut open = Vec::with_capacity(splits.len());
        for split in splits {
            let task = SplitTask::new(self, split, out)?;
            if self.lookup.as_ref().is_some_and(|lookup| lookup.rules_out(split.object)) {
                self.finished(split.bytes(&self.spec.objects));
            } else if !task.is_empty() {
                open.push(Open { task, held: Held::default(), rows: 0, unlearned: vec![], done: false, error: None });
            }
        }
        while !open.is_empty() {
            if !self.ask_for_all(request, &mut open).await? {
                return Ok(false);
            }
            // Reading plainly tells the same story in full: the rows, or the error with its place. After as much as a request is
            // for storage may be well again.
            let mut read = 0;
            while read < REQUEST_BYTES && !open.is_empty() {
                let split = open.remove(0);
                if !split.task.plain().await? {
                    return Ok(false);
                }
                let bytes = split.task.split.bytes(&self.spec.objects);
                self.finished(bytes);
                read += bytes;
            }
        }
        Ok(true)
    }

    /// Asks for the splits, and again for those that are still open, for as long as there is hope; `false` when nobody wants rows
    /// any more.
    async fn ask_for_all(&self, request: &Fragment, open: &mut Vec<Open<'_>>) -> Result<bool> {
        let retry = Retry { limit: self.spec.options.retries };
        let mut failures = 0;
        while !open.is_empty() {
            let before = open.len();
            let error = match self.ask(request, open).await {
                Ok(true) => None,
                Ok(false) => return Ok(false),
                Err(error) => Some(error),
            };
            open.retain(|split| !split.done);
            if open.is_empty() {
                // What was cut off is only the bill.
                break;
            }
            let error = error.or_else(|| open.iter_mut().find_map(|split| split.error.take()));
            let Some(error) = error else { break };
            self.check_repeatable(&error, open)?;
            open.iter_mut().for_each(Open::reset);
            // A request that got something done is no failure to count.
            failures = if open.len() < before { 1 } else { failures + 1 };
            // Who is busy has more important work, and was waited for already: the node has a queue.
            if error.kind() == ErrorKind::Throttled {
                self.pushed_back(&error);
                break;
            }
            if let Err(error) = retry.pause(failures, error).await {
                self.fall_backs().tell(&error);
                break;
            }
        }
        Ok(true)
    }

    /// Whether the open splits may be asked for again, or read plainly, after this error.
    fn check_repeatable(&self, error: &Error, open: &[Open<'_>]) -> Result<()> {
        if error.kind() == ErrorKind::Conflict {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("an object was replaced while the query ran; run the query again ({error})"),
            ));
        }
        let Some(split) = open.iter().find(|split| split.held.released) else { return Ok(()) };
        Err(Error::new(
            error.kind(),
            format!(
                "{}: storage failed after rows of a large split were passed on (raise pushdown.buffer_bytes or lower \
                 pushdown.split_bytes to make it repeatable): {error}",
                split.task.location()
            ),
        ))
    }

    /// Sends one request for all of the splits, and releases the rows of those that end.
    async fn ask(&self, request: &Fragment, open: &mut [Open<'_>]) -> Result<bool> {
        let Some(first) = open.first() else { return Ok(true) };
        let fragment = match &self.live {
            Some(live) => {
                let predicate = live.narrow(request.predicate.clone())?;
                first.task.adapted(&Fragment { predicate, ..request.clone() })
            }
            None => first.task.adapted(request),
        };
        let location = match open.len() {
            1 => first.task.location(),
            more => format!("{} and {} more", first.task.location(), more - 1),
        };
        let keys = self.live.as_ref().map(|live| live.keys(request)).transpose()?;
        let grouped = matches!(&fragment.output, Output::Aggregate { groups, .. } if !groups.is_empty());
        let lookups = self.lookup.as_ref().map(|lookup| lookup.for_splits(open.iter().map(|s| s.task.split.object)));
        let message = FragmentRequest {
            fragment,
            lookups: lookups.unwrap_or_default(),
            positions: false,
            dictionaries: self.takes_dictionaries,
            splits: open.iter().map(Open::as_asked).collect(),
            deadline: Duration::from_secs(self.spec.options.query_timeout_s),
            encoding: Encoding::Lz4,
            partial_group_bytes: grouped.then_some(self.spec.group_bytes as u64),
        };
        let client = self.spec.backend.fragment_client(&self.meters(), &self.spec.options)?;
        let mut answer = client.run(message, &location).await?;
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("{location}: the answer of storage: {what}"));
        while let Some(piece) = answer.next().await? {
            let (SplitPiece::Batch(place, _) | SplitPiece::End(place, _) | SplitPiece::Failed(place, _)) = &piece;
            let split = open.get_mut(*place).filter(|split| !split.done && split.error.is_none());
            let split = split.ok_or_else(|| corrupt("it goes on about a split that has ended"))?;
            match piece {
                SplitPiece::Batch(_, batch) => {
                    if keys.is_some() {
                        split.unlearned.push(batch.clone());
                    }
                    split.rows += batch.num_rows() as u64;
                    split.held.push(split.task.assemble(batch)?);
                    if !self.keep_within_buffer(open).await {
                        return Ok(false);
                    }
                }
                SplitPiece::End(_, stats) if stats.rows != split.rows => {
                    return Err(corrupt("rows of a split are missing"));
                }
                SplitPiece::End(_, stats) => {
                    self.note_lookup(&split.task.location(), &stats);
                    if let Some(keys) = &keys {
                        split.unlearned.drain(..).try_for_each(|batch| keys.learn(&batch))?;
                    }
                    for batch in split.held.take() {
                        if !split.task.send(batch).await {
                            return Ok(false);
                        }
                    }
                    split.done = true;
                    let bytes = split.task.split.bytes(&self.spec.objects);
                    self.scanned(bytes, stats.bytes_scanned, stats.bytes_ruled_out);
                    self.finished(bytes);
                }
                SplitPiece::Failed(_, error) => split.error = Some(error),
            }
        }
        match open.iter().any(|split| !split.done && split.error.is_none()) {
            true => Err(corrupt("it ended before its splits")),
            false => Ok(true),
        }
    }

    /// Lets rows go where more are held back than may be: those of the largest split.
    async fn keep_within_buffer(&self, open: &mut [Open<'_>]) -> bool {
        let held: u64 = open.iter().map(|split| split.held.bytes).sum();
        if held <= self.spec.options.buffer_bytes {
            return true;
        }
        let Some(largest) = open.iter_mut().max_by_key(|split| split.held.bytes) else { return true };
        largest.held.released = true;
        for batch in largest.held.take() {
            if !largest.task.send(batch).await {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::splits::tests::object;
    use super::*;

    #[test]
    fn small_splits_share_requests_and_large_ones_keep_the_workers_busy() {
        let sizes_for = |object_bytes: u64, count: usize, workers, objective| -> Vec<usize> {
            let objects = vec![object(object_bytes); count];
            let splits = (0..count).map(|object| ScanSplit::new(object, None)).collect();
            requests(splits, &objects, workers, objective, |split| split.bytes(&objects), |_, _| true)
                .iter()
                .map(Vec::len)
                .collect()
        };
        let sizes = |object_bytes, count, workers| sizes_for(object_bytes, count, workers, Objective::Latency);
        assert_eq!(sizes(1000, 100, 4), [64, 36]);
        assert_eq!(sizes(16 << 20, 8, 4), [2, 2, 2, 2]);
        assert_eq!(sizes(16 << 20, 3, 4), [1, 1, 1]);
        assert_eq!(sizes(16 << 20, 100, 4)[0], 4, "64 MiB");
        assert_eq!(sizes(1 << 30, 2, 4), [1, 1]);
        assert!(sizes(1, 0, 4).is_empty());
        assert_eq!(sizes_for(16 << 20, 100, 4, Objective::Cost), [64, 36]);
        for (bytes, count) in [(1000, 100), (16 << 20, 8), (16 << 20, 3), (16 << 20, 100), (1 << 30, 2)] {
            for objective in [Objective::Latency, Objective::Cost] {
                let counted = count_requests(bytes * count as u64, count as u64, 4, 1, objective);
                let of_three = count_requests(bytes * count as u64, count as u64, 4, 3, objective);
                assert_eq!(of_three, counted.max(3).min(count as u64));
                assert_eq!(counted, sizes_for(bytes, count, 4, objective).len() as u64, "{count} of {bytes}");
            }
        }
    }

    #[test]
    fn neighbours_become_one() {
        let split = ScanSplit::new;
        let splits = vec![
            split(0, None),
            split(1, Some(0..10)),
            split(1, Some(10..20)),
            split(1, Some(20..30)),
            split(1, Some(30..40)),
            split(1, Some(50..60)),
            split(2, Some(60..70)),
        ];
        let all = |least| joined(splits.clone(), least).into_iter().map(|split| (split.object, split.range));
        assert!(all(1).eq([(0, None), (1, Some(0..40)), (1, Some(50..60)), (2, Some(60..70))]));
        let two_each = [(0, None), (1, Some(0..20)), (1, Some(20..40)), (1, Some(50..60)), (2, Some(60..70))];
        assert!(all(3).eq(two_each));
        assert_eq!(all(7).count(), 7);
        assert_eq!(all(8).count(), 7);
    }

    #[test]
    fn objects_that_differ_do_not_share_a_request() {
        let objects = [object(1), object(2), object(2), object(1)];
        let splits = (0..4).map(|object| ScanSplit::new(object, None)).collect();
        let cut =
            requests(splits, &objects, 1, Objective::Latency, |split| split.bytes(&objects), |a, b| a.size == b.size);
        assert_eq!(cut.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1]);
    }
}
