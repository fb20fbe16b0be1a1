//! Parquet: typed columns by name, read row group by row group.
//!
//! Row groups that statistics rule out are not read, large ones part by part ([`parts`]). Of the others the predicate's
//! columns are decoded first, the rest only where rows pass ([`groups`], by a [`plan`]); so is the key where only the first rows of an
//! order are wanted. Columns with a dictionary are hardly decoded at all ([`dictionary`], [`coded`]), and neither are numbers
//! ([`fixed`]). Bytes that need not be waited for are read page by page ([`chunk_bytes`]), others a row group ahead ([`ahead`]). What a
//! file claims is checked before the library believes it ([`footer`], [`claims`]).

mod adapt;
mod ahead;
mod bloom;
mod chunk_bytes;
mod chunks;
mod claims;
mod codec;
mod coded;
mod decode;
mod dictionary;
mod errors;
mod fixed;
mod flat;
mod footer;
mod footer_cache;
mod group_rows;
mod groups;
mod header;
mod nested;
mod numbers;
mod page_index;
mod page_memory;
mod pages;
mod parts;
mod plan;
mod prune;
mod rows;
mod run_reader;
mod schema;
mod selection;
mod stages;
mod text_search;
mod thrift;

use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use futures::FutureExt;
use pushdown::{Error, ErrorKind, Result};

use crate::evaluate::Evaluator;
use crate::extent::Extent;
use crate::limits::{FOOTER_BYTES, PAGE_BYTES, ROW_GROUP_ROWS};
use crate::positions::joined;
use crate::row_filter::RowFilter;
use crate::{BlockBuffers, Learned, MemoryBudget, ObjectReader, Reservation, ScanCounters, ScanOptions, Spawner};
use ahead::RowGroups;
use chunks::Chunks;
use errors::{contradiction, explain};
pub use footer::{parquet_metadata, parquet_metadata_within};
pub use footer_cache::{Footers, KnownFooter, RowGroupPlace};
use groups::{GroupPart, Groups};
use page_memory::PageMemory;
pub(crate) use plan::LastPlans;
use plan::Planned;
pub use prune::bounds_match;
pub use schema::parquet_schema;
use selection::Rows;

/// Buffers for decompressed pages that are kept for the next ones: one or two for each column of an ordinary table.
pub(crate) const PAGES_AT_ONCE: usize = 32;

/// A scan of a Parquet object: the rows that pass, as the output's columns.
pub(crate) struct ParquetScan {
    reader: Arc<dyn ObjectReader>,
    /// All columns that are read, as declared.
    schema: SchemaRef,
    wanted: RowFilter,
    /// The columns that come out, by their index in `schema`, and those of them that may as dictionaries.
    columns: Vec<usize>,
    dictionaries: Vec<usize>,
    range: Option<Range<u64>>,
    /// The only rows that are read, by number, ascending; and whether they are moved to where pages begin.
    only: Option<Vec<Range<u64>>>,
    only_about: bool,
    /// Where the next row lies, if that is asked for: its number.
    position: Option<u64>,
    batch_rows: usize,
    row_group_bytes: u64,
    part_bytes: u64,
    /// Where the footer may be known.
    footer: Option<KnownFooter>,
    /// What pages are decompressed into, and where its memory comes from.
    pages: Arc<BlockBuffers>,
    memory: MemoryBudget,
    /// What the footer takes, with its index of pages.
    of_footer: Reservation,
    learned: Arc<Learned>,
    counters: Arc<ScanCounters>,
    rows: Option<RowGroups>,
    spawner: Option<Spawner>,
}

impl ParquetScan {
    /// `columns` are the indexes in `schema` of those that come out.
    pub(crate) fn new(
        schema: &SchemaRef,
        wanted: RowFilter,
        columns: &[usize],
        reader: Arc<dyn ObjectReader>,
        extent: &Extent,
        options: &ScanOptions,
        counters: Arc<ScanCounters>,
    ) -> Result<Self> {
        if let Some(predicate) = wanted.predicate.as_ref().filter(|_| !options.learned.parquet.is_made()) {
            // Refused before anything is read.
            Evaluator::predicate(predicate, schema)?;
        }
        Ok(Self {
            reader,
            schema: Arc::clone(schema),
            wanted,
            columns: columns.to_vec(),
            dictionaries: Vec::new(),
            range: extent.range(),
            only: match extent {
                Extent::About(rows) => Some(vec![rows.clone()]),
                other => other.parts().map(joined),
            },
            only_about: matches!(extent, Extent::About(_)),
            position: extent.has_positions().then_some(0),
            batch_rows: options.batch_rows.max(1),
            row_group_bytes: options.row_group_bytes,
            part_bytes: options.row_group_part_bytes,
            footer: options.footer.clone(),
            pages: Arc::clone(&options.pages),
            memory: options.memory.clone(),
            of_footer: options.memory.empty(),
            learned: Arc::clone(&options.learned),
            counters,
            rows: None,
            spawner: options.fetches_beside.then(|| options.spawner.clone()),
        })
    }

    /// With these columns, by their index in `schema`, as dictionaries wherever they are stored as that.
    pub(crate) fn with_dictionaries(self, columns: Vec<usize>) -> Self {
        Self { dictionaries: columns, ..self }
    }

    /// The next rows that pass.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        // The Parquet library panics on some damaged files (on an embedded schema, for one). Nothing is used after
        // a panic: the scan ends with this error.
        match AssertUnwindSafe(self.advance()).catch_unwind().await {
            Ok(rows) => rows,
            Err(_) => Err(contradiction(self.reader.location())),
        }
    }

    async fn advance(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows.is_none() {
            self.rows = Some(self.open().await?);
        }
        let Some(rows) = &mut self.rows else { return Ok(None) };
        match (rows.next().await?, &mut self.position) {
            (Some(batch), Some(next)) => rows::numbered(&batch, next).map(Some),
            (batch, _) => Ok(batch),
        }
    }

    async fn open(&mut self) -> Result<RowGroups> {
        let metadata = match &self.footer {
            Some(known) => known.read(&*self.reader, FOOTER_BYTES, &self.memory).await?,
            None => Arc::new(parquet_metadata_within(&*self.reader, FOOTER_BYTES, &self.memory).await?),
        };
        self.reserve_footer(&metadata)?;
        let plan = self.learned.parquet.of(Planned {
            location: self.reader.location(),
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
            page_bytes: self.row_group_bytes.min(PAGE_BYTES),
            memory: PageMemory::new(Arc::clone(&self.pages), self.memory.clone()),
            are_waited_for: Arc::default(),
        };
        let mut conditions = Vec::new();
        if let Some(predicate) = &self.wanted.predicate {
            groups = bloom::may_hold(predicate, &self.schema, file, &chunks, groups).await.map_err(explained)?;
            if plan.may_rule_out_pages() {
                conditions = page_index::on_one_column(predicate, &self.schema, file);
            }
        }
        let pruned = in_range.len() - groups.len();
        self.counters.row_groups_pruned.fetch_add(pruned as u64, Ordering::Relaxed);
        if groups.is_empty() || !page_index::is_there(&conditions, &chunks.metadata) {
            conditions.clear();
        }
        if !conditions.is_empty() || asked.iter().any(|part| !part.rows.are_all()) {
            chunks.load_places(!conditions.is_empty(), self.footer.as_ref()).await.map_err(explained)?;
            self.reserve_footer(&chunks.metadata)?;
        }
        let leaves = &plan.leaves;
        let mut parts = Vec::with_capacity(groups.len());
        for mut part in asked.into_iter().filter(|part| groups.binary_search(&part.group).is_ok()) {
            if self.only_about {
                part = parts::moved(part, leaves, &chunks).map_err(explained)?;
            }
            let surviving = page_index::surviving(&conditions, file, &chunks, part.group, part.rows.of_group())?;
            let rows = part.rows.and(&surviving);
            parts.extend((!rows.is_empty()).then_some(GroupPart { rows, ..part }));
        }
        if parts::any_larger(&parts, leaves, &chunks, self.part_bytes).map_err(explained)? {
            if chunks.metadata.offset_index().is_none() {
                chunks.load_places(false, self.footer.as_ref()).await.map_err(explained)?;
                self.reserve_footer(&chunks.metadata)?;
            }
            parts = parts::cut(parts, leaves, &chunks, self.part_bytes).map_err(explained)?;
        }
        let groups = Groups::new(chunks, plan, self.batch_rows);
        Ok(RowGroups::new(groups, parts, self.spawner.clone()))
    }

    /// Draws what the footer takes while the scan has it.
    fn reserve_footer(&self, metadata: &ParquetMetaData) -> Result<()> {
        let reserved = self.of_footer.resize(metadata.memory_size());
        reserved.map_err(|shortage| shortage.error(footer::WHAT, "ParquetParsingError"))
    }

    /// Refuses row groups that are too large: the columns wanted of one are in memory together. A footer may claim any
    /// number of rows, and room is made for a bit of each.
    fn check_sizes(&self, metadata: &ParquetMetaData, groups: &[usize]) -> Result<()> {
        let mut rows = groups.iter().filter_map(|i| metadata.row_groups().get(*i)).map(RowGroupMetaData::num_rows);
        if let Some(rows) = rows.find(|rows| !(0..=ROW_GROUP_ROWS).contains(rows)) {
            let location = self.reader.location();
            let message = format!("{location}: a row group claims {rows} rows, at most {ROW_GROUP_ROWS} are read");
            return Err(Error::new(ErrorKind::Limit, message).with_code("OverMaxParquetBlockSize"));
        }
        // As stored they are fetched, and may be more than what is claimed of them decompressed.
        let claimed = |bytes: i64| u64::try_from(bytes).unwrap_or_default();
        let bytes = |group: &RowGroupMetaData| {
            let stored = group.columns().iter().map(|chunk| claimed(chunk.compressed_size()));
            stored.fold(0, u64::saturating_add).max(claimed(group.total_byte_size()))
        };
        let largest = groups.iter().filter_map(|i| metadata.row_groups().get(*i)).map(bytes).max().unwrap_or_default();
        if largest <= self.row_group_bytes {
            return Ok(());
        }
        let (location, most) = (self.reader.location(), self.row_group_bytes);
        let message = format!("{location}: a row group has {largest} bytes, at most {most} are read");
        Err(Error::new(ErrorKind::Limit, message).with_code("OverMaxParquetBlockSize"))
    }

    /// What is asked for of each row group: the rows that are listed, or all of those in the range.
    fn asked(&self, metadata: &ParquetMetaData) -> Vec<GroupPart> {
        if let Some(only) = &self.only {
            return rows::holding(only, metadata);
        }
        let in_range = |group: &RowGroupMetaData| match &self.range {
            Some(range) => first_byte(group).is_some_and(|first| range.contains(&first)),
            None => true,
        };
        let groups = metadata.row_groups().iter().enumerate().filter(|(_, group)| in_range(group));
        let whole = |(group, of): (usize, &RowGroupMetaData)| {
            let rows = Rows::all(usize::try_from(of.num_rows()).unwrap_or_default());
            GroupPart { group, rows, is_first: true }
        };
        groups.map(whole).collect()
    }
}

/// Where the row group begins in the file: the first byte of its first column chunk.
fn first_byte(group: &RowGroupMetaData) -> Option<u64> {
    let column = group.columns().first()?;
    let first = column.dictionary_page_offset().filter(|at| *at > 0).unwrap_or_else(|| column.data_page_offset());
    u64::try_from(first.min(column.data_page_offset())).ok()
}
