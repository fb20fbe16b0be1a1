//! A cache of inferred columns, in memory across queries and in a folder across sessions.
//!
//! The key is what they were inferred from: the location, the options, and the sampled objects with
//! their sizes and ETags. So a table that did not change is sampled once.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use parking_lot::Mutex;
use pushdowndb_contract::{Fingerprint, Format, Fragment, JsonShape, NullRule, Ragged};

use crate::catalog::options::Kind;
use crate::catalog::{DataObject, TableLocation, TableOptions};
use crate::files::stamped::StampedFile;

/// Maximum number of tables in memory; each takes some kilobytes.
const MAX_TABLES: usize = 1024;

/// The format and columns of a table.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Inferred {
    /// The format, with every option decided.
    pub(crate) format: Format,
    /// The columns in the objects.
    pub(crate) schema: SchemaRef,
    /// Whether each CSV object has its own columns, which are matched with the table's by name.
    pub(crate) by_name: bool,
    /// The names in the header of each sampled CSV object, if its columns are matched by name.
    pub(crate) headers: Vec<Vec<String>>,
}

impl Inferred {
    /// Serializes to a line of JSON with what a fragment does not hold, and a fragment of all
    /// columns. Returns `None` if a type cannot be serialized.
    fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = serde_json::to_vec(&(self.by_name, &self.headers)).ok()?;
        bytes.push(b'\n');
        bytes.extend(Fragment::all(self.format.clone(), Arc::clone(&self.schema)).to_bytes().ok()?);
        Some(bytes)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (line, fragment) = bytes.split_at_checked(bytes.iter().position(|byte| *byte == b'\n')? + 1)?;
        let (by_name, headers) = serde_json::from_slice(line).ok()?;
        let Fragment { format, schema, .. } = Fragment::from_bytes(fragment).ok()?;
        Some(Self { format, schema, by_name, headers })
    }
}

/// The cache of inferred columns.
#[derive(Debug, Default)]
pub(crate) struct InferenceCache {
    folder: Option<PathBuf>,
    tables: Mutex<HashMap<InferenceKey, Inferred>>,
}

/// What the columns of a table are inferred from.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) struct InferenceKey {
    table: String,
    stamp: String,
}

impl InferenceKey {
    /// Returns the key of a table of this `kind` whose objects `sampled` are sampled.
    pub(crate) fn new(location: &TableLocation, kind: Kind, options: &TableOptions, sampled: &[&DataObject]) -> Self {
        let byte = |value: Option<u8>| value.map_or(0, |value| 1 + u64::from(value));
        let flag = |value: Option<bool>| value.map_or(0, |value| 1 + u64::from(value));
        let TableOptions { header, delimiter, quote, escape, comment, terminator, null, .. } = options;
        let null = match null {
            None => (0, ""),
            Some(NullRule::Empty) => (1, ""),
            Some(NullRule::Never) => (2, ""),
            Some(NullRule::Text(text)) => (3, text.as_str()),
        };
        let mut stamp = Fingerprint::builder("inferred columns", 4)
            .text(kind.name())
            .number(flag(*header))
            .number(byte(*delimiter))
            .number(quote.map_or(0, |quote| 1 + byte(quote)))
            .number(byte(*escape))
            .number(byte(*comment))
            .number(byte(*terminator))
            .number(null.0)
            .text(null.1)
            .number(flag(options.newlines_in_values))
            .number(flag(options.ragged.map(|ragged| ragged == Ragged::Lenient)))
            .number(flag(options.json_shape.map(|shape| shape == JsonShape::Lines)))
            .number(options.compression.map_or(0, |compression| 1 + compression as u64))
            .number(options.schema_infer_max_rec.map_or(0, |most| 1 + most as u64))
            .number(flag(options.union_by_name))
            .number(u64::from(options.names.is_empty() && options.columns.is_empty()))
            .text(&format!("{:?} {:?}", options.translation, options.wide_delimiter));
        for object in sampled {
            stamp = object.add_to(stamp);
        }
        Self { table: location.to_string(), stamp: stamp.finish().to_string() }
    }
}

impl InferenceCache {
    /// Creates a cache in `folder`, which need not exist; without a folder in memory only.
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder, tables: Mutex::default() }
    }

    /// Returns what was inferred for the same key.
    pub(crate) fn get(&self, key: &InferenceKey) -> Option<Inferred> {
        if let Some(known) = self.tables.lock().get(key) {
            return Some(known.clone());
        }
        let bytes: Vec<u8> = self.file(key)?.read()?;
        let inferred = Inferred::from_bytes(&bytes)?;
        self.keep(key, &inferred);
        Some(inferred)
    }

    /// Caches what was inferred. If a type cannot be serialized, this lasts only for the session.
    pub(crate) fn put(&self, key: &InferenceKey, inferred: &Inferred) {
        self.keep(key, inferred);
        if let Some(file) = self.file(key)
            && let Some(bytes) = inferred.to_bytes()
        {
            file.write(&bytes);
        }
    }

    fn keep(&self, key: &InferenceKey, inferred: &Inferred) {
        let mut tables = self.tables.lock();
        if tables.len() >= MAX_TABLES {
            tables.clear();
        }
        tables.insert(key.clone(), inferred.clone());
    }

    fn file(&self, key: &InferenceKey) -> Option<StampedFile> {
        let name = Fingerprint::builder("table", 1).text(&key.table).finish();
        Some(StampedFile::new(self.folder.as_ref()?.join(format!("{name}.columns.json")), key.stamp.clone()))
    }
}
