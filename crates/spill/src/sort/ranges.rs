//! Ranges of keys: where to cut the buffered rows, and above which key rows are not needed.

use datafusion_common::Result;

use super::keys::{Key, partition_point};
use super::run::Run;
use super::setup::Setup;

/// A key, and a number of rows whose keys are certainly not above it.
#[derive(Debug, Clone)]
pub(super) struct Mark {
    pub(super) key: Key,
    pub(super) rows: usize,
}

/// Removes the highest range of about `target` bytes from `runs`, and returns it.
///
/// The last keys of all pieces, weighted by the sizes of the pieces, are a sample of the buffered
/// keys. The range begins above the sampled key that has about `target` bytes above it. If many
/// rows have this very key, much less than `target` may be above it. Then pieces that end with the
/// key are added.
pub(super) fn split_highest(runs: &mut Vec<Run>, target: usize, setup: &Setup) -> Result<Vec<Run>> {
    let total: usize = runs.iter().map(Run::bytes).sum();
    if target >= total {
        return Ok(std::mem::take(runs));
    }
    let mut sample: Vec<(&Key, usize)> =
        runs.iter().flat_map(|run| run.pieces.iter().map(|piece| (&piece.last, piece.memory.size()))).collect();
    sample.sort_unstable_by(|a, b| b.0.cmp(a.0));
    let mut above = 0;
    let boundary = sample.iter().find(|(_, bytes)| {
        above += bytes;
        above >= target
    });
    let Some(boundary) = boundary.map(|(key, _)| (*key).clone()) else {
        return Ok(std::mem::take(runs));
    };

    let mut highest = Vec::new();
    for run in runs.iter_mut() {
        highest.extend(run.split_above(&boundary, setup)?);
    }
    let mut taken: usize = highest.iter().map(Run::bytes).sum();
    if taken < target / 2 {
        for run in runs.iter_mut() {
            while taken < target
                && let Some(piece) = run.split_last(&boundary)
            {
                taken += piece.bytes();
                highest.push(piece);
            }
        }
    }
    runs.retain(|run| !run.pieces.is_empty());
    Ok(highest)
}

/// Returns the lowest sampled key up to which there are at least `fetch` rows in `runs` and in the
/// rows counted by `spilled`. No row above it is among the first `fetch` rows. Returns `None` if
/// there is no such key.
pub(super) fn cutoff(runs: &[Run], spilled: &[&Mark], fetch: usize, setup: &Setup) -> Result<Option<Key>> {
    let last_keys = runs.iter().flat_map(|run| run.pieces.iter().map(|piece| &piece.last));
    let mut known: Vec<&Key> = last_keys.chain(spilled.iter().map(|mark| &mark.key)).collect();
    known.sort_unstable();
    let first = partition_point(known.len(), |place| {
        let key = known[place];
        let mut rows: usize = spilled.iter().filter(|mark| mark.key <= *key).map(|mark| mark.rows).sum();
        for run in runs {
            if rows >= fetch {
                break;
            }
            rows += run.rows_up_to(key, setup)?;
        }
        Ok(rows < fetch)
    })?;
    Ok(known.get(first).map(|key| (*key).clone()))
}
