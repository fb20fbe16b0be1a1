//! Splits on the fragment route: a request covers several splits, and the response has an end mark
//! for each.
//!
//! The rows of a split are buffered until its end mark arrives. After a failure, only the splits
//! whose end mark is missing are requested again, and finally read plainly. Splits share a request
//! only if the same fragment applies to them: their objects have one format, and the same columns
//! in the same order.

use std::time::Duration;

use arrow::array::RecordBatch;
use pushdowndb_contract::wire::{Encoding, FragmentRequest};
use pushdowndb_contract::{Error, ErrorKind, Fragment, Output, Result, Split};
use tokio::sync::mpsc::Sender;

use super::{Held, SplitTask};
use crate::cost::requests;
use crate::endpoints::{Retry, SplitPiece};
use crate::exec::partition_scan::PartitionScan;
use crate::plan::splits::ScanSplit;
use crate::settings::Objective;

/// Groups `splits` into requests for `workers` workers. Requests are smaller if objects are
/// `replicated` in other stores. `bytes_of` returns the number of bytes read of a split, and `fits`
/// whether two splits may share a request.
pub(crate) fn requests(
    splits: Vec<ScanSplit>,
    workers: usize,
    objective: Objective,
    replicated: bool,
    bytes_of: impl Fn(&ScanSplit) -> u64,
    fits: impl Fn(&ScanSplit, &ScanSplit) -> bool,
) -> Vec<Vec<ScanSplit>> {
    let total: u64 = splits.iter().map(&bytes_of).sum();
    let share = match replicated {
        true => requests::replicated_request_bytes(total, workers as u64),
        false => requests::request_bytes(total, workers as u64, objective),
    };
    let mut requests: Vec<Vec<ScanSplit>> = Vec::new();
    let mut bytes = 0;
    for split in splits {
        let more = bytes_of(&split);
        let joins = requests.last().and_then(|splits| splits.first().map(|first| (first, splits.len())));
        let joins = joins.is_some_and(|(first, count)| {
            fits(first, &split) && count < requests::MAX_REQUEST_SPLITS && bytes + more <= share
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

/// Joins neighboring splits of a request, to pay the fixed cost per split once. Leaves at least
/// `least` splits if there are that many, since each core of storage processes one split at a time.
/// A joined split has at most the bytes of a request, so that a retry stays cheap.
pub(crate) fn joined(splits: Vec<ScanSplit>, least: usize) -> Vec<ScanSplit> {
    let most_joined = splits.len() / least.max(1);
    let mut all: Vec<ScanSplit> = Vec::with_capacity(splits.len());
    let mut joined = 0;
    for split in splits {
        match (all.last_mut(), &split.range) {
            (Some(ScanSplit { object, range: Some(before), rows: None }), Some(range))
                if *object == split.object
                    && before.end == range.start
                    && joined < most_joined
                    && range.end - before.start <= requests::MAX_REQUEST_BYTES =>
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

/// Split whose end mark has not arrived yet.
struct OpenSplit<'a> {
    task: SplitTask<'a>,
    held: Held,
    rows: u64,
    /// Batches that the live top-k counts once the split is complete, so that retries do not count
    /// rows twice.
    pending: Vec<RecordBatch>,
    done: bool,
    /// Error with which the node gave up the split.
    error: Option<Error>,
}

impl OpenSplit<'_> {
    fn wire_split(&self) -> Split {
        Split { range: self.task.split.range.clone(), ..self.task.whole_object() }
    }

    /// Resets the state before a retry.
    fn reset(&mut self) {
        self.held = Held::default();
        self.rows = 0;
        self.pending.clear();
        self.error = None;
    }
}

impl PartitionScan {
    /// Runs the splits of one fragment, on `store` if it holds their objects. Returns `false` if
    /// the receiver was dropped.
    pub(crate) async fn run_fragment(
        &self,
        request: &Fragment,
        splits: &[ScanSplit],
        store: Option<usize>,
        out: &Sender<datafusion::common::Result<RecordBatch>>,
    ) -> Result<bool> {
        let mut open = Vec::with_capacity(splits.len());
        for split in splits {
            let task = SplitTask::new(self, split, store, out)?;
            if self.lookup.as_ref().is_some_and(|lookup| lookup.rules_out(split.object)) {
                self.finished(split.bytes(&self.plan.objects));
            } else if !task.is_empty() {
                open.push(OpenSplit {
                    task,
                    held: Held::default(),
                    rows: 0,
                    pending: vec![],
                    done: false,
                    error: None,
                });
            }
        }
        while !open.is_empty() {
            if !self.request_all(request, &mut open).await? {
                return Ok(false);
            }
            // Read the remaining splits plainly, which returns their rows or an error with its
            // position. After as many bytes as a request has, try storage again.
            let mut read = 0;
            while read < requests::MAX_REQUEST_BYTES && !open.is_empty() {
                let split = open.remove(0);
                if !split.task.plain().await? {
                    return Ok(false);
                }
                let bytes = split.task.split.bytes(&self.plan.objects);
                self.finished(bytes);
                read += bytes;
            }
        }
        Ok(true)
    }

    /// Requests the splits and retries those without an end mark. Splits left in `open` must be
    /// read plainly. Returns `false` if the receiver was dropped.
    async fn request_all(&self, request: &Fragment, open: &mut Vec<OpenSplit<'_>>) -> Result<bool> {
        let retry = Retry { limit: self.context.options.retries };
        let mut failures = 0;
        while !open.is_empty() {
            let before = open.len();
            let error = match self.request(request, open).await {
                Ok(true) => None,
                Ok(false) => return Ok(false),
                Err(error) => Some(error),
            };
            open.retain(|split| !split.done);
            if open.is_empty() {
                // All splits are complete; at most the usage record was cut off.
                break;
            }
            let error = error.or_else(|| open.iter_mut().find_map(|split| split.error.take()));
            let Some(error) = error else { break };
            self.check_repeatable(&error, open)?;
            open.iter_mut().for_each(OpenSplit::reset);
            // A request with progress resets the count.
            failures = if open.len() < before { 1 } else { failures + 1 };
            // Do not retry: a throttled request has already waited in the node's queue.
            if error.kind() == ErrorKind::Throttled {
                self.throttled(&error);
                break;
            }
            if let Err(error) = retry.pause(failures, error).await {
                self.fall_backs().record(&error);
                break;
            }
        }
        Ok(true)
    }

    /// Returns an error if the open splits can neither be retried nor read plainly after `error`.
    fn check_repeatable(&self, error: &Error, open: &[OpenSplit<'_>]) -> Result<()> {
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

    /// Sends one request for all splits, and releases the rows of each split at its end mark.
    /// Returns `false` if the receiver was dropped.
    async fn request(&self, request: &Fragment, open: &mut [OpenSplit<'_>]) -> Result<bool> {
        let Some(first) = open.first() else { return Ok(true) };
        let fragment = match &self.live_top_k {
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
        let keys = self.live_top_k.as_ref().map(|live| live.keys(request)).transpose()?;
        let grouped = matches!(&fragment.output, Output::Aggregate { groups, .. } if !groups.is_empty());
        let lookups = self.lookup.as_ref().map(|lookup| lookup.for_splits(open.iter().map(|s| s.task.split.object)));
        let message = FragmentRequest {
            fragment,
            lookups: lookups.unwrap_or_default(),
            positions: false,
            dictionaries: self.takes_dictionaries,
            splits: open.iter().map(OpenSplit::wire_split).collect(),
            deadline: Duration::from_secs(self.context.options.query_timeout_s),
            encoding: Encoding::Lz4,
            partial_group_bytes: grouped.then_some(self.plan.group_bytes as u64),
        };
        let client = self.context.fragment_client(&first.task.object, &self.meters())?;
        let mut answer = client.run(message, &location).await?;
        let corrupt = |what: &str| Error::new(ErrorKind::Corrupt, format!("{location}: the answer of storage: {what}"));
        while let Some(piece) = answer.next().await? {
            let (SplitPiece::Batch(place, _) | SplitPiece::End(place, _) | SplitPiece::Failed(place, _)) = &piece;
            let split = open.get_mut(*place).filter(|split| !split.done && split.error.is_none());
            let split = split.ok_or_else(|| corrupt("it goes on about a split that has ended"))?;
            match piece {
                SplitPiece::Batch(_, batch) => {
                    if keys.is_some() {
                        split.pending.push(batch.clone());
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
                        split.pending.drain(..).try_for_each(|batch| keys.learn(&batch))?;
                    }
                    for batch in split.held.take() {
                        if !split.task.send(batch).await {
                            return Ok(false);
                        }
                    }
                    split.done = true;
                    let bytes = split.task.split.bytes(&self.plan.objects);
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

    /// Releases the rows of the split with the most buffered bytes if the buffers are full. Returns
    /// `false` if the receiver was dropped.
    async fn keep_within_buffer(&self, open: &mut [OpenSplit<'_>]) -> bool {
        let held: u64 = open.iter().map(|split| split.held.bytes).sum();
        if held <= self.context.options.held_bytes() {
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
    use super::*;
    use crate::cost::requests::count_requests;
    use crate::plan::splits::tests::object;

    #[test]
    fn small_splits_share_requests_and_large_ones_keep_the_workers_busy() {
        let sizes_for = |object_bytes: u64, count: usize, workers, objective| -> Vec<usize> {
            let objects = vec![object(object_bytes); count];
            let splits = (0..count).map(|object| ScanSplit::new(object, None)).collect();
            requests(splits, workers, objective, false, |split| split.bytes(&objects), |_, _| true)
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
        let cut = requests(
            splits,
            1,
            Objective::Latency,
            false,
            |split| split.bytes(&objects),
            |a, b| objects[a.object].size == objects[b.object].size,
        );
        assert_eq!(cut.iter().map(Vec::len).collect::<Vec<_>>(), [1, 2, 1]);
    }
}
