//! Splits of objects with row locations from an index.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use futures::StreamExt;
use pushdowndb_contract::wire::{IndexOutcome, SplitStats};
use pushdowndb_contract::{Format, Result};
use pushdowndb_scan::{ObjectReader, ScanCounters, ScanOptions, ScanRange, near_places};

use super::SplitTask;
use super::ranges::RangesApart;
use crate::exec::partition_scan::PartitionScan;
use crate::plan::placement::{Choice, Route};

/// Maximum gap between records that are read as one range; reading a longer gap costs more than
/// another request.
const MAX_GAP_BYTES: u64 = 32 * 1024;

/// Maximum gap on the fragment route, where one request reads many ranges.
const MAX_ROUTE_GAP_BYTES: u64 = 64;

impl PartitionScan {
    /// Records the look-up result of a finished split.
    pub(crate) fn note_lookup(&self, location: &str, stats: &SplitStats) {
        let Some(lookup) = &self.lookup else { return };
        let why = match stats.index() {
            IndexOutcome::None => return,
            IndexOutcome::Used => {
                self.lookup_outcomes.rows.fetch_add(stats.places, Relaxed);
                self.lookup_outcomes.objects.fetch_add(u64::from(stats.places > 0), Relaxed);
                return;
            }
            IndexOutcome::Gone => "it is gone or was replaced",
            IndexOutcome::Unreadable => "it cannot be read",
            IndexOutcome::TooMany => "it leads to too many rows",
        };
        self.lookup_outcomes.scanned.fetch_add(1, Relaxed);
        let table = &self.plan.name;
        self.query
            .meter
            .strategy(format!("{table}: {location} was scanned without the index {}: {why}", lookup.names()));
    }

    /// Reports the look-ups of this partition.
    pub(crate) fn report_lookups(&self) {
        if let Some(lookup) = self.lookup.as_ref().filter(|_| self.looks_up) {
            let (rows, objects) = (self.lookup_outcomes.rows.load(Relaxed), self.lookup_outcomes.objects.load(Relaxed));
            lookup.report(&self.query, &self.plan.name, rows, objects);
        }
    }
}

/// Ranges of an object to read, and the reader for them.
type ToRead = (Vec<Range<u64>>, Arc<dyn ObjectReader>);

impl SplitTask<'_> {
    /// Reads the rows at `ranges`; `false` if the receiver was dropped.
    pub(crate) async fn looked_up(&self, ranges: &[Range<u64>]) -> Result<bool> {
        if ranges.is_empty() {
            return Ok(true);
        }
        let fragment = Arc::new(self.adapted(&self.run.fragment));
        let (parts, reader) = self.record_reader(&fragment.format, ranges)?;
        let counters = Arc::new(ScanCounters::default());
        let mut rows =
            pushdowndb_scan::scan(fragment, reader, ScanRange::Records(parts), ScanOptions::default(), counters)?;
        while let Some(batch) = rows.next().await {
            if !self.send(self.assemble(batch?)?).await {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the ranges to read for `ranges`, with near ones joined, and a reader for them.
    fn record_reader(&self, format: &Format, ranges: &[Range<u64>]) -> Result<ToRead> {
        let context = &self.run.context;
        let takes_many = matches!(self.run.choice, Choice::Storage { route: Route::Fragment, .. });
        let parts = match format {
            Format::Parquet => ranges.to_vec(),
            _ => near_places(ranges, if takes_many { MAX_ROUTE_GAP_BYTES } else { MAX_GAP_BYTES }),
        };
        let reader = context.backend.reader(&self.object, &self.run.meters(), &context.options)?;
        let reader = Arc::new(RangesApart { reader, at_once: context.options.requests() });
        Ok((parts, if takes_many { self.together(reader, None)? } else { reader }))
    }
}
