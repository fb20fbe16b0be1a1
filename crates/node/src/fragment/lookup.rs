//! Looking rows up in the indexes that a request names (PushdownDB, Section X, suggestion 2).
//!
//! The engine knows the indexes of a table and which parts of them can hold what is looked for; the node reads those
//! parts where they lie, and then the records that they lead to. The predicate is evaluated on these again; whatever is seen to be
//! wrong with an index, its split is scanned, and the end mark of the split says why. That no entry is missing is the word of
//! whoever wrote it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::Schema;
use futures::TryStreamExt;
use pushdown::wire::{IndexObject, IndexOutcome, Lookups};
use pushdown::{Error, ErrorKind, Expr, Format, Fragment, NamedExpr, Output, Result, Split, index};
use pushdowndb_scan::{
    Evaluator, ObjectReader, ScanCounters, ScanOptions, Threshold, near_places, places, places_in_both, scan,
};

use super::Objects;
use crate::scans::Bill;

/// The most places of one split, which are in memory together: 16 bytes each.
const MOST_PLACES: usize = 1_000_000;

/// A place in memory, here and among those of other indexes.
const PLACE_BYTES: usize = 2 * size_of::<Range<u64>>();

/// Records with a gap of at most this between them are read and decoded as one.
const GAP_BYTES: u64 = 4 * 1024;

/// The indexes of a request.
pub(super) struct Indexes {
    /// What a probe asks of an index object: the offsets of the records that it is after.
    probes: Vec<Arc<Fragment>>,
    by_split: HashMap<usize, Vec<IndexObject>>,
}

/// What the indexes of a split say.
pub(super) enum Found {
    /// Its rows are among the records of these parts, and there were so many places.
    Parts(Vec<Range<u64>>, u64),
    /// Nothing that can be used.
    Nothing(IndexOutcome),
}

impl Indexes {
    /// Checks what is looked for against the columns.
    pub fn new(lookups: Lookups, schema: &Schema) -> Result<Self> {
        let offset = |column: usize| {
            let name = index::COLUMNS.get(column).copied().unwrap_or_default();
            NamedExpr { expr: Expr::Column(column), name: name.to_owned() }
        };
        let mut probes = Vec::with_capacity(lookups.probes.len());
        for probe in lookups.probes {
            let missing = || Error::invalid("an index is on a column that there is not");
            let value = schema.fields().get(probe.column).ok_or_else(missing)?;
            let schema = index::schema(value.data_type());
            Evaluator::predicate(&probe.predicate, &schema)?;
            probes.push(Arc::new(Fragment {
                predicate: Some(probe.predicate),
                output: Output::Rows(vec![offset(1), offset(2)]),
                ..Fragment::all(index::format(), schema)
            }));
        }
        let mut by_split: HashMap<usize, Vec<IndexObject>> = HashMap::new();
        for object in lookups.objects {
            by_split.entry(object.split).or_default().push(object);
        }
        Ok(Self { probes, by_split })
    }

    /// Where the rows of a split are; `None` if it came without an index.
    pub async fn find(&self, number: u32, split: &Split, format: &Format, shelf: &Shelf<'_>) -> Option<Found> {
        let indexes = self.by_split.get(&usize::try_from(number).ok()?)?;
        Some(match self.places(indexes, split, format, shelf).await {
            Ok(Some(places)) => {
                let count = places.len() as u64;
                let parts = if *format == Format::Parquet { places } else { near_places(&places, GAP_BYTES) };
                Found::Parts(parts, count)
            }
            Ok(None) => Found::Nothing(IndexOutcome::TooMany),
            Err(error) => {
                tracing::warn!(%error, key = %split.key, "an index is not used");
                Found::Nothing(match error.kind() {
                    ErrorKind::NotFound | ErrorKind::Conflict => IndexOutcome::Gone,
                    _ => IndexOutcome::Unreadable,
                })
            }
        })
    }

    /// The places that all of these lead to; `None` if there are too many.
    async fn places(
        &self,
        indexes: &[IndexObject],
        split: &Split,
        format: &Format,
        shelf: &Shelf<'_>,
    ) -> Result<Option<Vec<Range<u64>>>> {
        let size = (*format != Format::Parquet).then_some(split.size);
        let mut all: Option<Vec<Range<u64>>> = None;
        for index in indexes {
            let fragment = self.probes.get(index.probe).ok_or_else(|| Error::internal("an index without a probe"))?;
            let reader: Arc<dyn ObjectReader> = Arc::new(shelf.objects.open(&index.object, shelf.bill).await?.data);
            let mut found = Vec::new();
            let reserved = shelf.options.memory.empty();
            for range in &index.ranges {
                let (fragment, reader) = (Arc::clone(fragment), Arc::clone(&reader));
                let options = ScanOptions {
                    threshold: Arc::new(Threshold::default()),
                    partial_group_bytes: None,
                    // Those of the object, and this is its index.
                    zones: None,
                    footer: None,
                    learned: Arc::default(),
                    ..shelf.options.clone()
                };
                let mut batches = scan(fragment, reader, Some(range.clone()), options, Arc::clone(shelf.counters))?;
                while let Some(batch) = batches.try_next().await? {
                    let bytes = batch.num_rows() * PLACE_BYTES;
                    if found.len() + batch.num_rows() > MOST_PLACES || reserved.grow(bytes).is_err() {
                        return Ok(None);
                    }
                    found.extend(places(&batch, [0, 1], |_| size)?);
                }
            }
            found.sort_unstable_by_key(|place| place.start);
            found.dedup();
            all = Some(match all {
                Some(all) => places_in_both(&all, &found),
                None => found,
            });
        }
        Ok(Some(all.unwrap_or_default()))
    }
}

/// What looking up takes.
pub(super) struct Shelf<'a> {
    pub objects: &'a Objects,
    pub bill: &'a Bill,
    pub options: &'a ScanOptions,
    /// Index objects count as scanned.
    pub counters: &'a Arc<ScanCounters>,
}
