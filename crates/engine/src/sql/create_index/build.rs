//! Building an index: each object is scanned for values and their positions, which are sorted and
//! written.
//!
//! DataFusion sorts, and spills to disk if the session's memory does not suffice, so objects may be
//! of any size. Every build writes files with new names and the manifest last. Until then there is
//! no index, and DROP INDEX removes the files of an interrupted build.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::{SortOptions, cast, filter_record_batch, is_not_null};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use bytes::Bytes;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use parking_lot::Mutex;
use pushdowndb_contract::index::{COLUMNS, schema};
use pushdowndb_contract::wire::{Encoding, FragmentRequest, INDEX_VERSION, Lookups};
use pushdowndb_contract::{Error, ErrorKind, Expr, Format, Fragment, Level, NamedExpr, Output, Result, Split};
use pushdowndb_scan::{ScanOptions, ScanRange, scan};
use tokio::io::AsyncWriteExt;

use crate::catalog::{DataObject, Listing};
use crate::context::QueryContext;
use crate::endpoints::query_meters;
use crate::error::{from_datafusion, from_object_store, to_datafusion};
use crate::index::location::{IndexLocation, path};
use crate::index::manifest::{IndexedObject, Manifest, Part, VERSION};
use crate::index::{MAX_VALUE_BYTES, check_format, find, meaning};
use crate::provider::ObjectTable;

/// Minimum size of a part in bytes: about what is transferred in the time of one request.
const MIN_PART_BYTES: u64 = 64 * 1024;

/// Approximate maximum number of parts of a whole index, whose manifest is read whole.
const MAX_PARTS: usize = 512;

/// Number of parts that each object's index may have even if there are many objects.
const MIN_PARTS: usize = 16;

/// Maximum length of a part's bound in bytes. A longer value has a prefix as its lower bound, and
/// no upper bound.
const MAX_BOUND_BYTES: usize = 64;

/// The size of the pieces in which index objects are written.
const WRITE_BYTES: usize = 8 * 1024 * 1024;

/// Builds the index `name` on a column of the table's objects and writes it to `home`.
pub(crate) async fn build(
    query: &Arc<QueryContext>,
    context: &Arc<TaskContext>,
    table: &ObjectTable,
    listing: &Listing,
    name: &str,
    column: usize,
    home: &IndexLocation,
) -> Result<()> {
    let definition = table.definition();
    let column_name = definition.file_schema.field(column).name();
    for object in listing.objects.iter() {
        check_format(&definition.format_of(object), &table.backend().address(&object.path))?;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    let builder = Builder {
        query,
        context,
        table,
        column,
        store: home.backend.store(&query_meters(&query.meter))?,
        folder: home.of_index(name, column_name)?,
        run: format!("{since:x}"),
        parts: (MAX_PARTS / listing.objects.len().max(1)).max(MIN_PARTS),
        written: Mutex::default(),
    };
    query.progress.expect(listing.objects.len() as u64, listing.objects.iter().map(|object| object.size).sum());
    let built = builder.build(listing).await;
    if built.is_err() {
        // Best effort: files without a manifest are not used.
        for path in builder.written.into_inner() {
            let _ = builder.store.delete(&path).await;
        }
    }
    built
}

struct Builder<'a> {
    query: &'a Arc<QueryContext>,
    context: &'a Arc<TaskContext>,
    table: &'a ObjectTable,
    column: usize,
    store: Arc<dyn ObjectStore>,
    folder: Path,
    /// The name that distinguishes this build's files from those of other builds.
    run: String,
    /// Maximum number of parts of the index of one object.
    parts: usize,
    written: Mutex<Vec<Path>>,
}

impl Builder<'_> {
    async fn build(&self, listing: &Listing) -> Result<()> {
        let definition = self.table.definition();
        let at_once = self.context.session_config().target_partitions().max(1);
        // Boxed, or the compiler cannot see that the future is Send for every lifetime in it.
        let all: Vec<_> =
            listing.objects.iter().enumerate().map(|(i, object)| self.object(i, object).boxed()).collect();
        let building = stream::iter(all).buffered(at_once).try_collect();
        let objects = tokio::select! {
            objects = building => objects?,
            error = self.query.exceeded() => return Err(error),
        };
        let manifest = Manifest {
            version: VERSION,
            column: definition.file_schema.field(self.column).name().clone(),
            meaning: meaning(definition, self.column),
            objects,
        };
        let text = serde_json::to_vec(&manifest).map_err(|e| Error::internal("a manifest").with_source(e))?;
        let path = find::manifest_path(&self.folder)?;
        self.store.put(&path, PutPayload::from(text)).await.map_err(from_object_store)?;
        Ok(())
    }

    /// Writes the index of one object, from rows that the node sends, or from plain reads if that
    /// fails.
    async fn object(&self, number: usize, object: &DataObject) -> Result<IndexedObject> {
        if self.by_node() {
            match self.object_by(true, number, object).await {
                Err(error) if self.is_mended_by_reading(&error) => {
                    self.query.fall_back(&self.table.backend().address(&object.path), &error);
                }
                done => return done,
            }
        }
        self.object_by(false, number, object).await
    }

    /// Returns whether storage can send values with their positions.
    fn by_node(&self) -> bool {
        let capability = self.table.backend().capability(self.table.definition().backend);
        let level = self.query.options.level_cap().unwrap_or(Level::Fragment);
        level == Level::Fragment && capability.fragment.is_some_and(|version| version >= INDEX_VERSION)
    }

    fn is_mended_by_reading(&self, error: &Error) -> bool {
        !matches!(error.kind(), ErrorKind::Limit | ErrorKind::Cancelled | ErrorKind::Conflict | ErrorKind::Denied)
    }

    async fn object_by(&self, node: bool, number: usize, object: &DataObject) -> Result<IndexedObject> {
        let file = format!("{number:05}-{}.csv", self.run);
        let path = path(&format!("{}/{file}", self.folder))?;
        let address = self.table.backend().address(&object.path);
        let mut entries = self.sorted(node, object).await?;
        let mut writer = BufWriter::with_capacity(Arc::clone(&self.store), path.clone(), WRITE_BYTES);
        self.written.lock().push(path);
        let mut encoder = Encoder::default();
        while let Some(batch) = entries.try_next().await.map_err(from_datafusion)? {
            encoder.push(&batch).map_err(|error| error.context(&address))?;
            if encoder.text.len() >= WRITE_BYTES {
                writer.put(encoder.take()).await.map_err(from_object_store)?;
            }
        }
        writer.put(encoder.take()).await.map_err(from_object_store)?;
        writer.shutdown().await.map_err(|error| match error.downcast::<object_store::Error>() {
            Ok(error) => from_object_store(error),
            Err(error) => Error::new(
                pushdowndb_contract::ErrorKind::Unavailable,
                format!("{address}: its index cannot be written"),
            )
            .with_source(error),
        })?;
        let in_steps = self.table.definition().format_of(object) != Format::Parquet;
        self.query.progress.finish(if in_steps { 0 } else { object.size });
        let parts = at_most(self.parts, encoder.parts);
        Ok(IndexedObject {
            path: object.path.to_string(),
            etag: object.etag.clone(),
            size: object.size,
            file,
            bytes: encoder.written,
            entries: parts.iter().map(|part| part.entries).sum(),
            parts,
        })
    }

    /// Returns the values of an object with their positions, sorted.
    async fn sorted(&self, by_node: bool, object: &DataObject) -> Result<SendableRecordBatchStream> {
        let definition = self.table.definition();
        let [value, ..] = COLUMNS;
        let fragment = Fragment {
            output: Output::Rows(vec![NamedExpr { expr: Expr::Column(self.column), name: value.to_owned() }]),
            ..Fragment::all(definition.format_of(object), Arc::clone(&definition.file_schema))
        };
        let fragment = object.columns.as_ref().map_or(fragment.clone(), |columns| columns.adapt(&fragment));
        let schema = schema(definition.file_schema.field(self.column).data_type());
        let rows = if by_node { self.sent(fragment, object).await? } else { self.read(fragment, object)? };
        let target = Arc::clone(&schema);
        // The scan's progress follows the byte positions in text; in Parquet, positions are rows.
        let (query, mut reached) = (Arc::clone(self.query), 0);
        let by_bytes = definition.format_of(object) != Format::Parquet;
        let entries = rows.map(move |batch| {
            let batch = batch?;
            let last = batch.column(2).as_primitive::<Int64Type>().values().last();
            if let Some(last) = last.and_then(|last| u64::try_from(*last).ok()).filter(|_| by_bytes) {
                query.progress.advance(last.saturating_sub(reached));
                reached = last;
            }
            without_nulls(&batch, &target)
        });
        let source = Entries { schema: Arc::clone(&schema), rows: Mutex::new(Some(entries.boxed())) };
        let source = StreamingTableExec::try_new(Arc::clone(&schema), vec![Arc::new(source)], None, [], false, None);
        let source = Arc::new(source.map_err(from_datafusion)?);
        let ascending = |index: usize| {
            let column = Column::new(schema.field(index).name(), index);
            PhysicalSortExpr::new(Arc::new(column), SortOptions::default())
        };
        let order = LexOrdering::new([ascending(0), ascending(1)])
            .ok_or_else(|| Error::internal("an index without an order"))?;
        SortExec::new(order, source).execute(0, Arc::clone(self.context)).map_err(from_datafusion)
    }
}

impl Builder<'_> {
    /// Returns values and positions from plain reads.
    fn read(&self, fragment: Fragment, object: &DataObject) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let reader = self.table.backend().reader(object, &query_meters(&self.query.meter), &self.query.options)?;
        scan(Arc::new(fragment), reader, ScanRange::WithPositions, ScanOptions::default(), Arc::default())
    }

    /// Returns values and positions from the node
    /// (`docs/decisions/0011-index-sort-in-the-engine.md`).
    async fn sent(&self, fragment: Fragment, object: &DataObject) -> Result<BoxStream<'static, Result<RecordBatch>>> {
        let backend = self.table.backend();
        let client = backend.fragment_client(object, None, &query_meters(&self.query.meter), &self.query.options)?;
        let split =
            Split { key: object.path.as_ref().into(), etag: object.etag.clone(), size: object.size, range: None };
        let request = FragmentRequest {
            fragment,
            splits: vec![split],
            deadline: Duration::from_secs(self.query.options.query_timeout_s),
            encoding: Encoding::Lz4,
            partial_group_bytes: None,
            lookups: Lookups::default(),
            positions: true,
            dictionaries: true,
        };
        let answer = client.run(request, &backend.address(&object.path)).await?;
        Ok(answer.only_split().boxed())
    }
}

/// Returns the rows whose value is not NULL, as entries of an index.
fn without_nulls(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let internal = |e| Error::internal("values with their places").with_source(e);
    let valid = is_not_null(batch.column(0)).map_err(internal)?;
    let batch = filter_record_batch(batch, &valid).map_err(internal)?;
    RecordBatch::try_new(Arc::clone(schema), batch.columns().to_vec()).map_err(internal)
}

/// The entries of one object, before they are sorted.
struct Entries {
    schema: SchemaRef,
    rows: Mutex<Option<BoxStream<'static, Result<RecordBatch>>>>,
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entries").finish_non_exhaustive()
    }
}

impl PartitionStream for Entries {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = self.rows.lock().take();
        let rows = rows.unwrap_or_else(|| stream::once(async { Err(Error::internal("entries read twice")) }).boxed());
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows.map_err(to_datafusion)))
    }
}

/// Encodes sorted entries as CSV, and cuts them into parts.
struct Encoder {
    /// Text that is encoded and not written yet.
    text: Vec<u8>,
    /// The bytes encoded so far.
    written: u64,
    parts: Vec<Part>,
    last: Option<String>,
}

impl Default for Encoder {
    fn default() -> Self {
        let text = format!("{}\n", COLUMNS.join(",")).into_bytes();
        Self { written: text.len() as u64, text, parts: Vec::new(), last: None }
    }
}

impl Encoder {
    fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        let internal = |e| Error::internal("a value that cannot be written").with_source(e);
        // Arrow formats plain strings faster than views.
        let values = match batch.column(0).data_type() {
            DataType::Utf8View => cast(batch.column(0), &DataType::Utf8).map_err(internal)?,
            _ => Arc::clone(batch.column(0)),
        };
        let options = FormatOptions::default();
        let values = ArrayFormatter::try_new(values.as_ref(), &options).map_err(internal)?;
        let (first, last) = (batch.column(1).as_primitive::<Int64Type>(), batch.column(2).as_primitive::<Int64Type>());
        for (row, (first, last)) in first.values().iter().zip(last.values()).enumerate() {
            self.entry(&values.value(row).try_to_string().map_err(internal)?, *first, *last)?;
        }
        Ok(())
    }

    fn entry(&mut self, value: &str, first: i64, last: i64) -> Result<()> {
        let shown = || value.chars().take(64).collect::<String>();
        if value.len() > MAX_VALUE_BYTES {
            return Err(Error::unsupported(format!(
                "a value has {} bytes ('{}…'); at most {MAX_VALUE_BYTES} can be indexed",
                value.len(),
                shown()
            )));
        }
        if value.contains(['\n', '\r']) {
            return Err(Error::unsupported(format!("a value holds a line end ('{}') and cannot be indexed", shown())));
        }
        let begun = match self.parts.last() {
            // The header belongs to the first part.
            Some(part) => self.written - part.at >= MIN_PART_BYTES,
            None => true,
        };
        let at = if self.parts.is_empty() { 0 } else { self.written };
        let is_new = self.last.as_deref() != Some(value);
        if begun {
            self.parts.push(Part { at, entries: 0, distinct: 0, min: Some(lower_bound(value)), max: None });
        }
        if let Some(part) = self.parts.last_mut() {
            part.entries += 1;
            part.distinct += u64::from(is_new || begun);
            if is_new || begun {
                part.max = (value.len() <= MAX_BOUND_BYTES).then(|| value.to_owned());
            }
        }
        if is_new {
            self.last = Some(value.to_owned());
        }
        let before = self.text.len();
        let quoted = value.contains(['"', ',']);
        let text = if quoted { format!("\"{}\"", value.replace('"', "\"\"")) } else { value.to_owned() };
        self.text.extend_from_slice(format!("{text},{first},{last}\n").as_bytes());
        self.written += (self.text.len() - before) as u64;
        Ok(())
    }

    fn take(&mut self) -> Bytes {
        std::mem::take(&mut self.text).into()
    }
}

/// Returns a lower bound of the value: the value itself, or a prefix.
fn lower_bound(value: &str) -> String {
    let mut end = value.len().min(MAX_BOUND_BYTES);
    while !value.is_char_boundary(end) {
        end -= 1;
    }
    value.get(..end).unwrap_or_default().to_owned()
}

/// Joins neighboring parts until there are at most `most`.
fn at_most(most: usize, mut parts: Vec<Part>) -> Vec<Part> {
    while parts.len() > most {
        let mut joined: Vec<Part> = Vec::with_capacity(parts.len().div_ceil(2));
        for (i, part) in parts.into_iter().enumerate() {
            match joined.last_mut() {
                Some(last) if i % 2 == 1 => {
                    let shared = last.max.is_some() && last.max == part.min;
                    last.entries += part.entries;
                    last.distinct += part.distinct - u64::from(shared);
                    last.max = part.max;
                }
                _ => joined.push(part),
            }
        }
        parts = joined;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(values: &[&str]) -> (String, Encoder) {
        let mut encoder = Encoder::default();
        values.iter().zip(0..).for_each(|(value, i)| encoder.entry(value, i * 10, i * 10 + 8).unwrap());
        (String::from_utf8(encoder.take().to_vec()).unwrap(), encoder)
    }

    #[test]
    fn entries_are_csv() {
        let (text, encoder) = encoded(&["", "a", "a", "b,\"c\"", "é"]);
        let header = "value,first_byte_offset,last_byte_offset\n";
        assert_eq!(text, format!("{header},0,8\na,10,18\na,20,28\n\"b,\"\"c\"\"\",30,38\né,40,48\n"));
        assert_eq!(encoder.written, text.len() as u64);
        let part = Part { at: 0, entries: 5, distinct: 4, min: Some(String::new()), max: Some("é".to_owned()) };
        assert_eq!(encoder.parts, [part]);
    }

    #[test]
    fn parts_cover_the_text_and_bound_their_values() {
        let values: Vec<String> = (0..40_000).map(|i| format!("{:08}", i / 3)).collect();
        let (text, encoder) = encoded(&values.iter().map(String::as_str).collect::<Vec<_>>());
        let parts = at_most(4, encoder.parts);
        assert!(parts.len() <= 4 && parts.len() > 1);
        assert_eq!(parts.iter().map(|part| part.entries).sum::<u64>(), 40_000);
        assert_eq!(parts[0].at, 0);
        for (i, part) in parts.iter().enumerate() {
            let end = parts.get(i + 1).map_or(text.len(), |next| next.at as usize);
            let lines: Vec<&str> = text[part.at as usize..end].lines().skip(usize::from(i == 0)).collect();
            let value = |line: &str| line.split(',').next().unwrap().to_owned();
            assert_eq!(lines.len() as u64, part.entries);
            assert_eq!(part.min, lines.first().map(|line| value(line)));
            assert_eq!(part.max, lines.last().map(|line| value(line)));
            let mut distinct: Vec<String> = lines.iter().map(|line| value(line)).collect();
            distinct.dedup();
            assert_eq!(part.distinct, distinct.len() as u64);
        }
    }

    #[test]
    fn long_values_bound_from_below_only() {
        let long = "é".repeat(100);
        let (_, encoder) = encoded(&["a", &long]);
        assert_eq!((encoder.parts[0].min.as_deref(), encoder.parts[0].max.as_deref()), (Some("a"), None));
        assert!(long.starts_with(&lower_bound(&long)) && lower_bound(&long).len() <= MAX_BOUND_BYTES);
        for bad in ["a\nb".to_owned(), "\r".to_owned(), "x".repeat(MAX_VALUE_BYTES + 1)] {
            assert!(Encoder::default().entry(&bad, 0, 1).is_err());
        }
    }
}
