//! Scanning a Parquet object row group by row group.
//!
//! Row groups that statistics exclude are not read, and large row groups are read in slices
//! (`row_group_slices`). The predicate's columns, and the key of an ORDER BY … LIMIT, are decoded
//! first, and the other columns only for the rows that pass (`row_group`, by a `plan`). Dictionary
//! columns and numbers need little decoding (`decode::dictionary`, `decode::dictionary_codes`,
//! `decode::fixed_width`). Cached bytes are read page by page (`read::chunk_bytes`); other bytes
//! are prefetched, one row group ahead (`prefetch`). Sizes claimed in a file are checked before the
//! library allocates memory for them (`meta::footer`, `meta::bounds_check`).

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::FutureExt;
use futures::future::BoxFuture;
use pushdowndb_contract::{Error, ErrorKind, Fragment, Output, Result};
use tokio::sync::Semaphore;

use crate::counters::ScanCounters;
use crate::error::from_arrow;
use crate::expr::columns::{columns_of, map_output, only_keys, renumber};
use crate::expr::evaluator::Evaluator;
use crate::io::buffer_pool::BlockBuffers;
use crate::io::reader::ObjectReader;
use crate::limits::{MAX_FOOTER_BYTES, MAX_PAGE_BYTES, MAX_ROW_GROUP_ROWS};
use crate::operators::row_filter::{RowFilter, narrow};
use crate::parquet::errors::{contradiction, explain};
use crate::parquet::meta::cache::KnownFooter;
use crate::parquet::meta::footer::{first_byte, parquet_metadata_within};
use crate::parquet::plan::{LastPlans, Planned};
use crate::parquet::prefetch::Prefetch;
use crate::parquet::read::chunks::Chunks;
use crate::parquet::read::page_memory::PageMemory;
use crate::parquet::read::selection::Rows;
use crate::parquet::row_group::{Groups, RowGroupSlice};
use crate::range::positions::{joined, with_positions};
use crate::range::scan_range::ScanRange;
use crate::runtime::memory::{MemoryBudget, Reservation};
use crate::runtime::spawner::Spawner;
use crate::source::{BatchSource, ScanInput};

pub(crate) struct ParquetScan {
    reader: Arc<dyn ObjectReader>,
    /// All columns of the table, and the columns that are read, as declared.
    table: SchemaRef,
    schema: SchemaRef,
    wanted: RowFilter,
    /// The indexes in `schema` of the output columns, and of those that may be dictionaries.
    columns: Vec<usize>,
    dictionaries: Vec<usize>,
    batches: SchemaRef,
    range: Option<Range<u64>>,
    /// If given, the numbers of the only rows to read, ascending; and whether their bounds are
    /// moved to starts of pages.
    only: Option<Vec<Range<u64>>>,
    only_about: bool,
    /// The number of the next row, if positions are requested.
    position: Option<u64>,
    batch_rows: usize,
    options: ParquetOptions,
    memory: MemoryBudget,
    /// Memory for the footer and its page index.
    of_footer: Reservation,
    counters: Arc<ScanCounters>,
    rows: Option<Prefetch>,
    spawner: Option<Spawner>,
}

/// The options of a scan that apply only to Parquet.
pub(crate) struct ParquetOptions {
    /// The maximum uncompressed bytes of a row group.
    pub(crate) row_group_bytes: u64,
    /// The approximate size of the slices in which a larger row group is read, in stored bytes.
    pub(crate) part_bytes: u64,
    /// Whether a task reads the next row group while rows of the current one are consumed.
    pub(crate) prefetch: bool,
    /// The cache of the footer, if there is one.
    pub(crate) footer: Option<KnownFooter>,
    /// A permit for each row group that is decoded at a time.
    pub(crate) decoding: Option<Arc<Semaphore>>,
    /// Buffers into which pages are decompressed.
    pub(crate) pages: Arc<BlockBuffers>,
    /// Plans of scans of the same fragment.
    pub(crate) plans: Arc<LastPlans>,
}

impl BatchSource for ParquetScan {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.batches)
    }

    fn next(&mut self) -> BoxFuture<'_, Result<Option<RecordBatch>>> {
        // The Parquet library panics on some damaged files (on an embedded schema, for example).
        // After a panic the scan ends with this error, and its state is not used again.
        let location = self.reader.location().to_owned();
        let rows = AssertUnwindSafe(self.advance()).catch_unwind();
        rows.map(move |rows| rows.unwrap_or_else(|_| Err(contradiction(&location)))).boxed()
    }
}

impl ParquetScan {
    /// Creates a scan for the fragment. Returns its output, too, rewritten to the output columns.
    pub(crate) fn new(fragment: &Fragment, options: ParquetOptions, input: ScanInput) -> Result<(Self, Output)> {
        let ScanInput { reader, range, options: shared, counters } = input;
        let (schema, wanted, output) = narrow(fragment, &shared.threshold)?;
        // Columns that only the predicate reads are not decoded for the output.
        let columns = columns_of(&output);
        let dictionaries = only_keys(&output);
        let output = map_output(&output, &mut |expr| Ok(renumber(expr, &columns)))?;
        if let Some(predicate) = wanted.predicate.as_ref().filter(|_| !options.plans.is_made()) {
            // An invalid predicate is refused before anything is read.
            Evaluator::predicate(predicate, &schema)?;
        }
        let batches = Arc::new(schema.project(&columns).map_err(from_arrow)?);
        let scan = Self {
            reader,
            table: Arc::clone(&fragment.schema),
            schema,
            wanted,
            columns,
            dictionaries,
            batches: if range.has_positions() { with_positions(&batches) } else { batches },
            range: range.range(),
            only: match &range {
                ScanRange::Rows(rows) => Some(vec![rows.clone()]),
                other => other.parts().map(joined),
            },
            only_about: matches!(range, ScanRange::Rows(_)),
            position: range.has_positions().then_some(0),
            batch_rows: shared.batch_rows,
            spawner: options.prefetch.then(|| shared.spawner.clone()),
            options,
            of_footer: shared.memory.empty(),
            memory: shared.memory,
            counters,
            rows: None,
        };
        Ok((scan, output))
    }

    async fn advance(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows.is_none() {
            self.rows = Some(self.open().await?);
        }
        let Some(rows) = &mut self.rows else { return Ok(None) };
        match (rows.next().await?, &mut self.position) {
            (Some(batch), Some(next)) => crate::parquet::row_numbers::numbered(&batch, next).map(Some),
            (batch, _) => Ok(batch),
        }
    }

    async fn open(&mut self) -> Result<Prefetch> {
        let metadata = match &self.options.footer {
            Some(known) => known.read(&*self.reader, MAX_FOOTER_BYTES, &self.memory).await?,
            None => Arc::new(parquet_metadata_within(&*self.reader, MAX_FOOTER_BYTES, &self.memory).await?),
        };
        self.reserve_footer(&metadata)?;
        let plan = self.options.plans.of(Planned {
            location: self.reader.location(),
            table: &self.table,
            schema: &self.schema,
            wanted: &self.wanted,
            output: &self.columns,
            dictionaries: &self.dictionaries,
            metadata: &metadata,
        })?;
        let file = &plan.file.schema;
        let asked = self.asked(&metadata);
        let in_range: Vec<usize> = asked.iter().map(|part| part.group).collect();
        let mut groups: Vec<usize> = in_range.iter().copied().filter(|group| plan.is_kept(*group)).collect();
        self.check_sizes(&metadata, &groups)?;
        let explained = |error| explain(self.reader.location(), error);
        let mut chunks = Chunks {
            reader: Arc::clone(&self.reader),
            metadata,
            counters: Arc::clone(&self.counters),
            page_bytes: self.options.row_group_bytes.min(MAX_PAGE_BYTES),
            memory: PageMemory::new(Arc::clone(&self.options.pages), self.memory.clone()),
            are_waited_for: Arc::default(),
        };
        let mut conditions = Vec::new();
        if let Some(predicate) = &self.wanted.predicate {
            groups = crate::parquet::prune::bloom::may_hold(predicate, &plan.schema, file, &chunks, groups)
                .await
                .map_err(explained)?;
            if plan.may_rule_out_pages() {
                conditions = crate::parquet::prune::pages::on_one_column(predicate, &plan.schema, file);
            }
        }
        let pruned = in_range.len() - groups.len();
        self.counters.row_groups_pruned.fetch_add(pruned as u64, Ordering::Relaxed);
        if groups.is_empty() || !crate::parquet::prune::pages::is_there(&conditions, &chunks.metadata) {
            conditions.clear();
        }
        if !conditions.is_empty() || asked.iter().any(|part| !part.rows.are_all()) {
            chunks.load_places(!conditions.is_empty(), self.options.footer.as_ref()).await.map_err(explained)?;
            self.reserve_footer(&chunks.metadata)?;
        }
        let leaves = &plan.leaves;
        let mut parts = Vec::with_capacity(groups.len());
        for mut part in asked.into_iter().filter(|part| groups.binary_search(&part.group).is_ok()) {
            if self.only_about {
                part = crate::parquet::row_group_slices::moved(part, leaves, &chunks).map_err(explained)?;
            }
            let surviving =
                crate::parquet::prune::pages::surviving(&conditions, file, &chunks, part.group, part.rows.of_group())?;
            let rows = part.rows.and(&surviving);
            parts.extend((!rows.is_empty()).then_some(RowGroupSlice { rows, ..part }));
        }
        if crate::parquet::row_group_slices::any_larger(&parts, leaves, &chunks, self.options.part_bytes)
            .map_err(explained)?
        {
            if chunks.metadata.offset_index().is_none() {
                chunks.load_places(false, self.options.footer.as_ref()).await.map_err(explained)?;
                self.reserve_footer(&chunks.metadata)?;
            }
            parts = crate::parquet::row_group_slices::cut(parts, leaves, &chunks, self.options.part_bytes)
                .map_err(explained)?;
        }
        let groups = Groups { chunks, plan, batch_rows: self.batch_rows, decoding: self.options.decoding.clone() };
        Ok(Prefetch::new(groups, parts, self.spawner.clone()))
    }

    /// Reserves the memory of the footer as long as the scan holds it.
    fn reserve_footer(&self, metadata: &ParquetMetaData) -> Result<()> {
        let reserved = self.of_footer.resize(metadata.memory_size());
        reserved.map_err(|shortage| shortage.error(crate::parquet::meta::footer::WHAT, "ParquetParsingError"))
    }

    /// Refuses row groups that are too large, since the needed columns of one are in memory
    /// together. Also refuses a row group that claims too many rows, since a bit is allocated for
    /// each row.
    fn check_sizes(&self, metadata: &ParquetMetaData, groups: &[usize]) -> Result<()> {
        let mut rows = groups.iter().filter_map(|i| metadata.row_groups().get(*i)).map(RowGroupMetaData::num_rows);
        if let Some(rows) = rows.find(|rows| !(0..=MAX_ROW_GROUP_ROWS).contains(rows)) {
            let location = self.reader.location();
            let message = format!("{location}: a row group claims {rows} rows, at most {MAX_ROW_GROUP_ROWS} are read");
            return Err(Error::new(ErrorKind::Limit, message).with_code("OverMaxParquetBlockSize"));
        }
        // Columns are fetched in stored form, which may be larger than the claimed uncompressed
        // size.
        let claimed = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
        let bytes = |group: &RowGroupMetaData| {
            let stored = group.columns().iter().map(|chunk| claimed(chunk.compressed_size()));
            stored.fold(0, u64::saturating_add).max(claimed(group.total_byte_size()))
        };
        let largest = groups.iter().filter_map(|i| metadata.row_groups().get(*i)).map(bytes).max().unwrap_or_default();
        if largest <= self.options.row_group_bytes {
            return Ok(());
        }
        let (location, most) = (self.reader.location(), self.options.row_group_bytes);
        let message = format!("{location}: a row group has {largest} bytes, at most {most} are read");
        Err(Error::new(ErrorKind::Limit, message).with_code("OverMaxParquetBlockSize"))
    }

    /// Returns the row groups to read: those with selected rows, or those in the range.
    fn asked(&self, metadata: &ParquetMetaData) -> Vec<RowGroupSlice> {
        if let Some(only) = &self.only {
            return crate::parquet::row_numbers::holding(only, metadata);
        }
        let in_range = |group: &RowGroupMetaData| match &self.range {
            Some(range) => first_byte(group).is_some_and(|first| range.contains(&first)),
            None => true,
        };
        let groups = metadata.row_groups().iter().enumerate().filter(|(_, group)| in_range(group));
        let whole = |(group, of): (usize, &RowGroupMetaData)| {
            let rows = Rows::all(usize::try_from(of.num_rows()).unwrap_or_default());
            RowGroupSlice { group, rows, is_first: true }
        };
        groups.map(whole).collect()
    }
}
