//! Index look-ups on the node (PushdownDB, Section X, suggestion 2).
//!
//! The engine knows the indexes of a table and which of their ranges can match; the node reads
//! those ranges and then the records they point to. The predicate is evaluated again on these
//! records. If an index turns out to be unusable, its split is scanned, and the end event of the
//! split says why. That an index has no missing entries cannot be checked here; its writer
//! guarantees it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::Schema;
use futures::TryStreamExt;
use pushdowndb_contract::wire::{IndexObject, IndexOutcome, Lookups};
use pushdowndb_contract::{Error, ErrorKind, Expr, Format, Fragment, NamedExpr, Output, Result, Split, index};
use pushdowndb_scan::{
    Evaluator, ObjectReader, ScanCounters, ScanOptions, Threshold, near_places, places, places_in_both, scan,
};

use super::context::Objects;
use crate::scans::CpuAccount;

/// Maximum positions of one split. They are held in memory, 16 bytes each.
const MAX_POSITIONS: usize = 1_000_000;

/// Memory of a position, including its copy while indexes are intersected.
const POSITION_BYTES: usize = 2 * size_of::<Range<u64>>();

/// Records with at most this gap between them are read and decoded together.
const MAX_GAP_BYTES: u64 = 4 * 1024;

/// The indexes of a request.
pub(super) struct Indexes {
    /// The fragments that run on index objects and return the positions of matching records.
    probes: Vec<Arc<Fragment>>,
    by_split: HashMap<usize, Vec<IndexObject>>,
}

/// The outcome of a look-up for one split.
pub(super) enum LookupResult {
    /// The ranges that hold the matching records, and the number of positions.
    Parts(Vec<Range<u64>>, u64),
    /// The index is not used.
    Nothing(IndexOutcome),
}

impl Indexes {
    /// Prepares `lookups` after checking their probes against the columns of `schema`.
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

    /// Looks up the rows of `split`, the one with this `number` in the request; `None` if it has no
    /// index.
    pub async fn find(
        &self,
        number: u32,
        split: &Split,
        format: &Format,
        context: &LookupContext<'_>,
    ) -> Option<LookupResult> {
        let indexes = self.by_split.get(&usize::try_from(number).ok()?)?;
        Some(match self.places(indexes, split, format, context).await {
            Ok(Some(places)) => {
                let count = places.len() as u64;
                let parts = if *format == Format::Parquet { places } else { near_places(&places, MAX_GAP_BYTES) };
                LookupResult::Parts(parts, count)
            }
            Ok(None) => LookupResult::Nothing(IndexOutcome::TooMany),
            Err(error) => {
                tracing::warn!(%error, key = %split.key, "an index is not used");
                LookupResult::Nothing(match error.kind() {
                    ErrorKind::NotFound | ErrorKind::Conflict => IndexOutcome::Gone,
                    _ => IndexOutcome::Unreadable,
                })
            }
        })
    }

    /// Returns the positions that all of `indexes` agree on; `None` if there are too many.
    async fn places(
        &self,
        indexes: &[IndexObject],
        split: &Split,
        format: &Format,
        context: &LookupContext<'_>,
    ) -> Result<Option<Vec<Range<u64>>>> {
        let size = (*format != Format::Parquet).then_some(split.size);
        let mut all: Option<Vec<Range<u64>>> = None;
        for index in indexes {
            let fragment = self.probes.get(index.probe).ok_or_else(|| Error::internal("an index without a probe"))?;
            let reader: Arc<dyn ObjectReader> =
                Arc::new(context.objects.open(&index.object, context.account, &context.options.memory).await?.data);
            let mut found = Vec::new();
            let reserved = context.options.memory.empty();
            for range in &index.ranges {
                let (fragment, reader) = (Arc::clone(fragment), Arc::clone(&reader));
                let options = ScanOptions {
                    threshold: Arc::new(Threshold::default()),
                    partial_group_bytes: None,
                    // The options hold the zones and footer of the object, not of this index.
                    zones: None,
                    footer: None,
                    learned: Arc::default(),
                    ..context.options.clone()
                };
                let mut batches = scan(fragment, reader, Some(range.clone()), options, Arc::clone(context.counters))?;
                while let Some(batch) = batches.try_next().await? {
                    let bytes = batch.num_rows() * POSITION_BYTES;
                    if found.len() + batch.num_rows() > MAX_POSITIONS || reserved.grow(bytes).is_err() {
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

/// What a look-up needs.
pub(super) struct LookupContext<'a> {
    pub objects: &'a Objects,
    pub account: &'a CpuAccount,
    pub options: &'a ScanOptions,
    /// Bytes of index objects count as scanned.
    pub counters: &'a Arc<ScanCounters>,
}
