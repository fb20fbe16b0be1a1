//! The cache of statistics, in memory across queries and in a folder across sessions.
//!
//! The key is the table's location and whatever determines its rows: how its objects are read,
//! their paths, sizes and ETags. So a table is sampled again after an object was added or replaced.
//! Each table has its own files: samples in Arrow's IPC format, footers and counts as JSON. An
//! unreadable file is treated as missing.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use parking_lot::Mutex;
use pushdowndb_contract::{Fingerprint, Format};

use super::{Footers, QueryFeedback, Sampled, SharedStatistics, TableSample, TableStatistics, Totals};
use crate::catalog::{DataObject, InferenceCache, TableDefinition};
use crate::files::put_in_place;
use crate::files::stamped::{Stamped, StampedFile, note_failure};

/// Names of the columns and metadata that a sample's file has in addition to the table's own.
const PIECE: &str = "pushdowndb.piece";
const BLOCK: &str = "pushdowndb.block";
const ROWS: &str = "pushdowndb.rows";
const BYTES: &str = "pushdowndb.bytes";
const STAMP: &str = "pushdowndb.stamp";

/// Maximum tables in memory; each takes some hundred kilobytes.
const MAX_TABLES: usize = 256;

/// Cache of table statistics.
#[derive(Debug, Default)]
pub(crate) struct StatisticsCache {
    folder: Option<PathBuf>,
    tables: Mutex<HashMap<Key, SharedStatistics>>,
    /// Inferred columns of tables.
    inferred: InferenceCache,
}

/// Cache key: a table and the version of its objects.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Key {
    table: String,
    stamp: String,
    /// The columns of a Parquet table; `None` for text.
    schema: Option<SchemaRef>,
}

impl Key {
    /// Returns the key of a table in `store` that consists of `objects`.
    pub(crate) fn new(store: &str, table: &TableDefinition, objects: &[DataObject]) -> Self {
        let mut stamp = Fingerprint::builder("objects of a table", 1);
        // Some types and translations of text have no wire form, so their debug form is hashed.
        let typed = stamp.clone().format(&table.format).and_then(|stamp| stamp.schema(&table.file_schema));
        stamp = typed.unwrap_or_else(|_| stamp.text(&format!("{:?} {:?}", table.format, table.file_schema)));
        for object in objects {
            stamp = object.add_to(stamp);
        }
        let schema = matches!(table.format, Format::Parquet).then(|| Arc::clone(&table.file_schema));
        Self { table: format!("{store} {}", table.location), stamp: stamp.finish().to_string(), schema }
    }
}

impl StatisticsCache {
    /// Creates a cache in `folder`, which need not exist. Without a folder, the cache is in memory
    /// only.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { inferred: InferenceCache::new(folder.clone()), folder, tables: Mutex::default() }
    }

    /// Returns the cache of inferred columns.
    pub(crate) fn inferred(&self) -> &InferenceCache {
        &self.inferred
    }

    /// Returns the cached statistics of a table, if its objects have not changed.
    pub(crate) fn get(&self, key: &Key) -> Option<SharedStatistics> {
        if let Some(known) = self.tables.lock().get(key) {
            return Some(Arc::clone(known));
        }
        let sampled = match key.schema.clone() {
            Some(schema) => {
                self.json(key, "footers.json")?.read().map(|footers: Footers| Sampled::Footers(footers, schema))
            }
            None => read_sample(&self.file(key, "arrow")?, &key.stamp).map(Sampled::Rows),
        };
        let totals: Option<Totals> = self.json(key, "totals.json")?.read();
        if sampled.is_none() && totals.is_none() {
            return None;
        }
        let found = Arc::new(TableStatistics { sampled, totals, feedback: self.feedback(key) });
        self.keep(key.clone(), &found);
        Some(found)
    }

    /// Stores a sample or footers. If the folder cannot be written, the next session samples again.
    pub(crate) fn put(&self, key: Key, sampled: Sampled) -> SharedStatistics {
        match &sampled {
            Sampled::Rows(sample) => {
                if let Some(file) = self.file(&key, "arrow") {
                    note_failure(&file, write_sample(&file, &key.stamp, sample));
                }
            }
            Sampled::Footers(footers, _) => {
                if let Some(file) = self.json(&key, "footers.json") {
                    file.write(footers);
                }
            }
        }
        let known = self.tables.lock().get(&key).cloned();
        let totals = known.and_then(|known| known.totals.clone());
        let statistics = Arc::new(TableStatistics { sampled: Some(sampled), totals, feedback: self.feedback(&key) });
        self.keep(key, &statistics);
        statistics
    }

    /// Stores counts of all rows, in addition to the table's other statistics.
    pub(crate) fn put_totals(&self, key: Key, totals: Totals) -> SharedStatistics {
        if let Some(file) = self.json(&key, "totals.json") {
            file.write(&totals);
        }
        let nothing = || Arc::new(TableStatistics { feedback: self.feedback(&key), ..TableStatistics::default() });
        let known = self.get(&key).unwrap_or_else(nothing);
        let statistics = Arc::new(known.with_totals(totals));
        self.keep(key, &statistics);
        statistics
    }

    fn keep(&self, key: Key, statistics: &SharedStatistics) {
        let mut tables = self.tables.lock();
        if tables.len() >= MAX_TABLES {
            tables.clear();
        }
        tables.insert(key, Arc::clone(statistics));
    }

    fn file(&self, key: &Key, extension: &str) -> Option<PathBuf> {
        let name = Fingerprint::builder("table", 1).text(&key.table).finish();
        Some(self.folder.as_ref()?.join(format!("{name}.{extension}")))
    }

    fn json(&self, key: &Key, extension: &str) -> Option<StampedFile> {
        Some(StampedFile::new(self.file(key, extension)?, key.stamp.clone()))
    }

    fn feedback(&self, key: &Key) -> Arc<QueryFeedback> {
        Arc::new(QueryFeedback::open(self.json(key, "seen.json")))
    }
}

/// Encodes counts for a file that is stored next to the table's objects.
pub(crate) fn totals_to_json(key: &Key, totals: &Totals) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec_pretty(&Stamped { stamp: key.stamp.clone(), figures: totals })
}

/// Decodes counts. Returns `None` if they belong to another version of the objects, or are
/// impossible.
pub(crate) fn totals_from_json(key: &Key, text: &[u8]) -> Option<Totals> {
    let kept: Stamped<Totals> = serde_json::from_slice(text).ok()?;
    (kept.stamp == key.stamp && kept.figures.is_valid()).then_some(kept.figures)
}

fn read_sample(file: &Path, stamp: &str) -> Option<TableSample> {
    let reader = FileReader::try_new(BufReader::new(File::open(file).ok()?), None).ok()?;
    let schema = reader.schema();
    if schema.metadata().get(STAMP)? != stamp {
        return None;
    }
    let number = |key| -> Option<f64> { schema.metadata().get(key)?.parse().ok() };
    let (table_rows, table_bytes) = (number(ROWS)?, number(BYTES)?);
    let batches: Vec<RecordBatch> = reader.collect::<Result<_, _>>().ok()?;
    let rows = concat_batches(&schema, &batches).ok()?;
    let numbers = |name| -> Option<Vec<u32>> {
        Some(rows.column_by_name(name)?.as_primitive_opt::<UInt32Type>()?.values().to_vec())
    };
    let (pieces, blocks) = (numbers(PIECE)?, numbers(BLOCK)?);
    let own: Vec<usize> = (0..rows.num_columns().checked_sub(2)?).collect();
    let rows = rows.project(&own).ok()?;
    let schema = Arc::new(Schema::new(rows.schema().fields().clone()));
    let rows = RecordBatch::try_new(schema, rows.columns().to_vec()).ok()?;
    Some(TableSample::new(rows, pieces, blocks, table_rows, table_bytes))
}

fn write_sample(file: &Path, stamp: &str, sample: &TableSample) -> Result<(), Box<dyn std::error::Error>> {
    let number = |name| Field::new(name, DataType::UInt32, false);
    let own = sample.rows.schema();
    let fields = own.fields().iter().map(|field| field.as_ref().clone()).chain([number(PIECE), number(BLOCK)]);
    let metadata = [
        (STAMP, stamp.to_owned()),
        (ROWS, sample.table_rows.to_string()),
        (BYTES, (sample.table_rows * sample.row_bytes).to_string()),
    ];
    let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let schema = Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), metadata));
    let numbers = |values: &[u32]| -> ArrayRef { Arc::new(UInt32Array::from(values.to_vec())) };
    let columns = sample.rows.columns().iter().cloned().chain([numbers(&sample.pieces), numbers(&sample.blocks)]);
    let rows = RecordBatch::try_new(Arc::clone(&schema), columns.collect())?;

    put_in_place(file, |new| {
        let mut writer = FileWriter::try_new(BufWriter::new(new), &schema)?;
        writer.write(&rows)?;
        Ok(writer.finish()?)
    })
}
