//! What was found out already, kept from query to query and in a folder from session to session.
//!
//! It is found by the table's location and what decides its rows: how its objects are read, their paths, sizes and ETags.
//! An object that was added or replaced therefore means that the table is looked at again. One file per table: samples
//! in Arrow's IPC format, footers as JSON. A file that cannot be read is as good as none.

use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, AsArray, RecordBatch, UInt32Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt32Type};
use arrow_ipc::reader::FileReader;
use arrow_ipc::writer::FileWriter;
use pushdown::Format;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Footers, Looked, Seen, SharedStatistics, TableSample, TableStatistics, Totals};
use crate::files::put_in_place;
use crate::table::{DataObject, TableDefinition};

/// The names of the columns and the key that a file has beside the table's own.
const PIECE: &str = "pushdowndb.piece";
const BLOCK: &str = "pushdowndb.block";
const ROWS: &str = "pushdowndb.rows";
const BYTES: &str = "pushdowndb.bytes";
const STAMP: &str = "pushdowndb.stamp";

/// Of how many tables is kept in memory: each takes some hundred kilobytes.
const KEPT: usize = 256;

/// What was found out.
#[derive(Debug, Default)]
pub(crate) struct Catalogue {
    folder: Option<PathBuf>,
    kept: Mutex<HashMap<Key, SharedStatistics>>,
}

/// Names a table, and what its rows depend on.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct Key {
    table: String,
    stamp: String,
    /// The columns, of Parquet.
    schema: Option<SchemaRef>,
}

impl Key {
    /// Of a table of a store, as its objects are.
    pub(crate) fn new(store: &str, table: &TableDefinition, objects: &[DataObject]) -> Self {
        let mut stamp = DefaultHasher::new();
        format!("{:?} {:?}", table.format, table.file_schema).hash(&mut stamp);
        for object in objects {
            (object.path.as_ref(), object.size, &object.etag, object.last_modified).hash(&mut stamp);
        }
        let schema = matches!(table.format, Format::Parquet).then(|| Arc::clone(&table.file_schema));
        Self { table: format!("{store} {}", table.location), stamp: format!("{:016x}", stamp.finish()), schema }
    }
}

impl Catalogue {
    /// In a folder, which need not exist; without one only in memory.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, kept: Mutex::default() }
    }

    /// Of a table that has not changed since.
    pub(crate) fn get(&self, key: &Key) -> Option<SharedStatistics> {
        if let Some(known) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(key) {
            return Some(Arc::clone(known));
        }
        let looked = match key.schema.clone() {
            Some(schema) => {
                self.json(key, "footers.json")?.read().map(|footers: Footers| Looked::Footers(footers, schema))
            }
            None => read_sample(&self.file(key, "arrow")?, &key.stamp).map(Looked::Sample),
        };
        let totals: Option<Totals> = self.json(key, "totals.json")?.read();
        if looked.is_none() && totals.is_none() {
            return None;
        }
        let found = Arc::new(TableStatistics { looked, totals, seen: self.seen(key) });
        self.keep(key.clone(), &found);
        Some(found)
    }

    /// Keeps what a few ranges told. A folder that cannot be written keeps nothing: the next session looks again.
    pub(crate) fn put(&self, key: Key, looked: Looked) -> SharedStatistics {
        match &looked {
            Looked::Sample(sample) => {
                if let Some(file) = self.file(&key, "arrow") {
                    told(&file, write_sample(&file, &key.stamp, sample));
                }
            }
            Looked::Footers(footers, _) => {
                if let Some(file) = self.json(&key, "footers.json") {
                    file.write(footers);
                }
            }
        }
        let known = self.kept.lock().unwrap_or_else(PoisonError::into_inner).get(&key).cloned();
        let totals = known.and_then(|known| known.totals.clone());
        let statistics = Arc::new(TableStatistics { looked: Some(looked), totals, seen: self.seen(&key) });
        self.keep(key, &statistics);
        statistics
    }

    /// Keeps what was counted, beside what is known already.
    pub(crate) fn put_totals(&self, key: Key, totals: Totals) -> SharedStatistics {
        if let Some(file) = self.json(&key, "totals.json") {
            file.write(&totals);
        }
        let nothing = || Arc::new(TableStatistics { seen: self.seen(&key), ..TableStatistics::default() });
        let known = self.get(&key).unwrap_or_else(nothing);
        let statistics = Arc::new(known.with_totals(totals));
        self.keep(key, &statistics);
        statistics
    }

    fn keep(&self, key: Key, statistics: &SharedStatistics) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(statistics));
    }

    fn file(&self, key: &Key, extension: &str) -> Option<PathBuf> {
        let mut name = DefaultHasher::new();
        key.table.hash(&mut name);
        Some(self.folder.as_ref()?.join(format!("{:016x}.{extension}", name.finish())))
    }

    fn json(&self, key: &Key, extension: &str) -> Option<StampedFile> {
        Some(StampedFile::new(self.file(key, extension)?, key.stamp.clone()))
    }

    fn seen(&self, key: &Key) -> Arc<Seen> {
        Arc::new(Seen::open(self.json(key, "seen.json")))
    }
}

fn told(file: &Path, written: Result<(), Box<dyn std::error::Error>>) {
    if let Err(error) = written {
        tracing::debug!(file = %file.display(), %error, "statistics are not kept");
    }
}

/// A file of JSON about a table as it is.
#[derive(Debug)]
pub(super) struct StampedFile {
    file: PathBuf,
    stamp: String,
}

impl StampedFile {
    pub(super) fn new(file: PathBuf, stamp: String) -> Self {
        Self { file, stamp }
    }

    /// `None` if it is not there, cannot be read, or is about the table as it was.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Option<T> {
        let kept: Stamped<T> = serde_json::from_slice(&fs::read(&self.file).ok()?).ok()?;
        (kept.stamp == self.stamp).then_some(kept.figures)
    }

    /// A folder that cannot be written keeps nothing.
    pub(super) fn write(&self, figures: &impl Serialize) {
        let kept = Stamped { stamp: self.stamp.clone(), figures };
        let written = put_in_place(&self.file, |new| Ok(serde_json::to_writer(BufWriter::new(new), &kept)?));
        told(&self.file, written);
    }
}

/// Figures as a file of JSON has them, with what they depend on.
#[derive(Deserialize, Serialize)]
struct Stamped<T> {
    stamp: String,
    figures: T,
}

/// What was counted, for a file beside the data.
pub(crate) fn totals_to_json(key: &Key, totals: &Totals) -> Result<Vec<u8>, serde_json::Error> {
    serde_json::to_vec_pretty(&Stamped { stamp: key.stamp.clone(), figures: totals })
}

/// The same read again; `None` if it is of other objects, or of another program.
pub(crate) fn totals_from_json(key: &Key, text: &[u8]) -> Option<Totals> {
    let kept: Stamped<Totals> = serde_json::from_slice(text).ok()?;
    (kept.stamp == key.stamp && kept.figures.are_sane()).then_some(kept.figures)
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
