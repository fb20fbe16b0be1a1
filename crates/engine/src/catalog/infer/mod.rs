//! Inference of a table's schema from the first bytes of a few of its objects.
//!
//! Up to [`MAX_SAMPLED_OBJECTS`] objects are sampled, spread over the sorted paths, since the last
//! often differ from the first; of most of them, little more than a header or a footer is read. The
//! table has the columns of all sampled objects, matched by name, each with a type that holds the
//! values in all of them (`merge`, `widen`). If a sample misses something, such as a column that
//! turns to text after the first megabyte, the scan finds it and names the object, the byte and the
//! column. Every column may be NULL.

pub(crate) mod cache;
pub(crate) mod csv;
pub(crate) mod json;
pub(crate) mod merge;
mod preamble;
pub(crate) mod sample;
pub(crate) mod shape;
pub(crate) mod value;
pub(crate) mod widen;

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use parquet::file::metadata::ParquetMetaData;
use pushdowndb_contract::{
    Compression, CsvOptions, EXACT, Error, Format, JsonShape, MIXED, Ragged, Result, Translation, limits,
};
use pushdowndb_scan::{parquet_schema, with_uuids_as_text};

use super::options::{FileName, Kind};
use super::{DataObject, TableLocation, TableOptions};
use cache::InferenceKey;
pub(crate) use cache::{InferenceCache, Inferred};
use merge::{Column, Merging, Names, Types, merge};
use sample::Sample;

/// Maximum number of objects that are sampled.
const MAX_SAMPLED_OBJECTS: usize = 64;

/// Sizes of samples in bytes: of the first object, of about [`LARGE_SAMPLES`] further ones, and of
/// all others.
const FIRST_SAMPLE_BYTES: u64 = 1024 * 1024;
const FURTHER_SAMPLE_BYTES: u64 = 256 * 1024;
const SMALL_SAMPLE_BYTES: u64 = 32 * 1024;

/// Approximate number of large samples, which are spread over all objects.
const LARGE_SAMPLES: usize = 8;

/// Bytes of an object that are read for its header, or to tell JSON from CSV.
const MAX_HEADER_BYTES: u64 = 64 * 1024;

/// Maximum number of requests for samples in flight.
const MAX_CONCURRENT_SAMPLES: usize = 16;

/// Metadata of a table's objects that earlier queries may have cached.
pub(crate) trait KnownObjects: Sync {
    /// Returns the footer of a Parquet object, which is read if it is not cached.
    fn footer<'a>(&'a self, object: &'a DataObject) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>>;

    /// Returns the cache of inferred columns; `None` if there is none.
    fn inferred(&self) -> Option<&InferenceCache> {
        None
    }
}

/// Infers a table's format and columns from a few of `objects`, which must not be empty.
pub(crate) async fn infer(
    store: &dyn ObjectStore,
    known: &dyn KnownObjects,
    location: &TableLocation,
    objects: &[DataObject],
    kind: Kind,
    options: &TableOptions,
) -> Result<Inferred> {
    let all = Objects { store, known, location, sampled: sampled(objects), options };
    let Some(cache) = known.inferred() else { return all.infer(kind).await };
    let key = InferenceKey::new(location, kind, options, &all.sampled);
    if let Some(inferred) = cache.get(&key) {
        return Ok(inferred);
    }
    let inferred = all.infer(kind).await?;
    cache.put(&key, &inferred);
    Ok(inferred)
}

/// The column names in an object's header; `None` for an object without a record.
pub(crate) async fn header(
    store: &dyn ObjectStore,
    object: &DataObject,
    csv: &CsvOptions,
    address: &str,
) -> Result<Option<Vec<String>>> {
    let mut limit = MAX_HEADER_BYTES;
    loop {
        let sample = Sample::fetch(store, object, csv.compression, limit, address).await?;
        match csv::header(&sample, csv).map_err(|error| error.context(address))? {
            Some(names) => return Ok(Some(names)),
            None if sample.is_whole => return Ok(None),
            None if limit < FIRST_SAMPLE_BYTES => limit = FIRST_SAMPLE_BYTES,
            None => return Err(Error::invalid(format!("{address}: the header is longer than {limit} bytes"))),
        }
    }
}

/// Infers the kind of text whose name does not tell it: JSON if the first object that is not empty
/// begins with a brace, else CSV.
pub(crate) async fn kind_of_text(
    store: &dyn ObjectStore,
    location: &TableLocation,
    objects: &[DataObject],
    options: &TableOptions,
) -> Result<Kind> {
    let Some(first) = objects.iter().find(|object| object.size > 0) else { return Ok(Kind::Csv) };
    let address = location.address(&first.path);
    let sample = Sample::fetch(store, first, compression_of(first, options), MAX_HEADER_BYTES, &address).await?;
    let is_json = sample.bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
    Ok(if is_json { Kind::Json } else { Kind::Csv })
}

/// The objects to sample, and how they are read.
struct Objects<'a> {
    store: &'a dyn ObjectStore,
    known: &'a dyn KnownObjects,
    location: &'a TableLocation,
    sampled: Vec<&'a DataObject>,
    options: &'a TableOptions,
}

impl Objects<'_> {
    async fn infer(&self, kind: Kind) -> Result<Inferred> {
        let (mut by_name, mut headers) = (false, Vec::new());
        let (format, columns) = match self.options.format(kind) {
            Format::Parquet => (Format::Parquet, self.parquet().await?),
            Format::Csv(csv) => {
                let (csv, columns, found) = self.csv(csv).await?;
                // CSV holds every column as text; objects differ only in where a column stands.
                let columns: Vec<Column> =
                    columns.into_iter().map(|column| Column { mixed: false, ..column }).collect();
                let names = || columns.iter().map(|column| &column.name);
                let has_all = |header: &Vec<String>| header.is_empty() || header.iter().eq(names());
                by_name = csv.header
                    && (self.options.union_by_name == Some(true)
                        || self.options.union_by_name.is_none() && !found.iter().all(has_all));
                headers = if by_name { found } else { headers };
                (Format::Csv(CsvOptions { inferred: true, ..csv }), columns)
            }
            Format::Json(mut json) => {
                let samples = self.samples(json::has_record).await?;
                if let Some((address, _)) = samples.iter().find(|(_, sample)| sample.is_utf16) {
                    return Err(Error::unsupported(format!("{address}: is JSON in UTF-16; convert it to UTF-8")));
                }
                json.inferred = true;
                if self.options.json_shape.is_none() {
                    let mut shapes = samples.iter().filter(|(_, sample)| !sample.bytes.is_empty());
                    let first = shapes.next().map(|(_, sample)| json::sniff(sample)).unwrap_or_default();
                    // The layout of a document also fits records that stand one per line.
                    let alike = shapes.all(|(_, sample)| json::sniff(sample) == first);
                    json.shape = if alike { first } else { JsonShape::Document };
                }
                let mut found = json::Found::default();
                for (number, (address, sample)) in samples.iter().enumerate() {
                    if number > 0 && !sample.is_whole && !json::has_record(sample) {
                        // A document that is longer than its sample.
                        continue;
                    }
                    found.add(sample, self.max_records(), address)?;
                    if self.options.union_by_name == Some(false) {
                        found.refuse_mixed(address)?;
                    }
                }
                (Format::Json(json), found.columns().ok_or_else(|| empty(self.location))?)
            }
        };
        if columns.len() > limits::COLUMNS {
            let (location, count) = (self.location, columns.len());
            return Err(Error::unsupported(format!(
                "{location}: has {count} columns, a table at most {}",
                limits::COLUMNS
            )));
        }
        let of_several = format == Format::Parquet && self.sampled.len() > 1;
        let field = |column: Column| {
            let marks = [(MIXED, column.mixed), (EXACT, of_several)].into_iter().filter(|(_, is_set)| *is_set);
            let metadata: HashMap<_, _> = marks.map(|(key, _)| (key.to_owned(), String::new())).collect();
            Field::new(column.name, column.data_type.unwrap_or(DataType::Utf8), true).with_metadata(metadata)
        };
        let schema = Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()));
        Ok(Inferred { format, schema, by_name, headers })
    }

    fn max_records(&self) -> usize {
        self.options.schema_infer_max_rec.unwrap_or(usize::MAX)
    }

    /// Returns how the columns of CSV objects are merged. `header` says whether the objects have
    /// headers.
    fn merging_of_csv(&self, header: bool) -> Merging {
        let is_ragged = self.options.ragged == Some(Ragged::Lenient);
        let positions = if is_ragged { Names::Ragged } else { Names::Positions };
        match self.options.union_by_name {
            Some(false) => Merging { names: positions, types: Types::Wide },
            // Without a header there are no names to merge by.
            _ if !header => Merging { names: positions, types: Types::Text },
            Some(true) => Merging { names: Names::Union, types: Types::Text },
            None => Merging { names: Names::Related, types: Types::Text },
        }
    }

    /// Returns how the columns of Parquet objects, which declare their types, are merged.
    fn merging_of_parquet(&self) -> Merging {
        match self.options.union_by_name {
            Some(false) => Merging { names: Names::Same, types: Types::Same },
            Some(true) => Merging { names: Names::Union, types: Types::Text },
            None => Merging { names: Names::Related, types: Types::Wide },
        }
    }

    /// Fetches the start of each sampled object, with the object's address. If the usual size does
    /// not satisfy `suffices`, a longer start is fetched.
    async fn samples(&self, suffices: fn(&Sample) -> bool) -> Result<Vec<(String, Sample)>> {
        let sampled = self.sampled.iter().enumerate();
        let all: Vec<_> = sampled.map(|(number, object)| self.sample(number, object, suffices).boxed()).collect();
        stream::iter(all).buffered(MAX_CONCURRENT_SAMPLES).try_collect().await
    }

    async fn sample(
        &self,
        index: usize,
        object: &DataObject,
        suffices: fn(&Sample) -> bool,
    ) -> Result<(String, Sample)> {
        let address = self.location.address(&object.path);
        let compression = compression_of(object, self.options);
        let step = self.sampled.len().div_ceil(LARGE_SAMPLES);
        let limit = match index {
            0 => FIRST_SAMPLE_BYTES,
            _ if index.is_multiple_of(step) || index + 1 == self.sampled.len() => FURTHER_SAMPLE_BYTES,
            _ => SMALL_SAMPLE_BYTES,
        };
        let mut sample = Sample::fetch(self.store, object, compression, limit, &address).await?;
        if limit < FIRST_SAMPLE_BYTES && !sample.is_whole && !suffices(&sample) {
            sample = Sample::fetch(self.store, object, compression, FIRST_SAMPLE_BYTES, &address).await?;
        }
        Ok((address, sample))
    }

    /// Infers CSV: its options, columns, and the names in each sampled object. The first object that
    /// is not empty decides the options of all.
    async fn csv(&self, base: CsvOptions) -> Result<(CsvOptions, Vec<Column>, Vec<Vec<String>>)> {
        let samples = self.samples(csv::has_record).await?;
        let Some((address, first)) = samples.iter().find(|(_, sample)| !sample.bytes.is_empty()) else {
            return Err(empty(self.location));
        };
        let base = if first.is_utf16 { with_encoding(base, "utf-16") } else { base };
        let all = || samples.iter().map(|(_, sample)| sample);
        let is_western = !first.is_utf16 && preamble::is_western(all());
        let base = if is_western { with_encoding(base, "windows-1252") } else { base };
        let base = self.without_preamble(base, all());
        let sniffed = csv::sniff(first, &base, self.options).map_err(|error| error.context(address))?;
        let mut csv = sniffed.csv.clone();
        let newlines_in_values = Cell::new(csv.newlines_in_values);
        let read = |sample: &Sample, address: &str| {
            let columns = if std::ptr::eq(sample, first) {
                sniffed.columns(self.max_records())
            } else {
                let (columns, newlines) = csv::further_columns(sample, &sniffed.csv, self.options, self.max_records())
                    .map_err(|error| error.context(address))?;
                newlines_in_values.set(newlines_in_values.get() || newlines);
                columns
            };
            if columns.is_none() && !sample.is_whole {
                let bytes = sample.bytes.len();
                return Err(Error::invalid(format!(
                    "{address}: the first record does not end within {bytes} bytes; check 'quote' and 'terminator'"
                )));
            }
            Ok(columns)
        };
        let (columns, headers) = merge_all(&samples, read, self.merging_of_csv(csv.header), self.location)?;
        csv.newlines_in_values = newlines_in_values.get();
        Ok((csv, columns, headers))
    }

    /// Returns `base` with an option that skips the lines before the header, if all samples have as
    /// many of them, or treats `#` as the start of a comment. Returns `base` unchanged if there are
    /// no such lines or an option declares something about them.
    fn without_preamble<'s>(&self, base: CsvOptions, samples: impl Iterator<Item = &'s Sample> + Clone) -> CsvOptions {
        let TableOptions { header, names, columns, comment, ragged, translation, .. } = self.options;
        let is_open = header.is_none() && names.is_empty() && columns.is_empty() && comment.is_none();
        if !is_open || ragged.is_some() || translation.skip > 0 || self.sampled.len() == MAX_SAMPLED_OBJECTS {
            return base;
        }
        let found = samples.filter(|sample| !sample.bytes.is_empty());
        let found = found.map(|sample| preamble::find(sample, &base, self.options)).collect::<Option<Vec<_>>>();
        let Some((first, others)) = found.as_deref().and_then(<[_]>::split_first) else { return base };
        let is_same = others.iter().all(|other| other.lines == first.lines);
        if found.iter().flatten().all(|one| one.is_comment) && (!is_same || found.iter().flatten().any(|one| one.later))
        {
            return CsvOptions { comment: Some(b'#'), ..base };
        }
        if !is_same {
            return base;
        }
        let translation = base.translation.as_deref().cloned().unwrap_or_default();
        CsvOptions { translation: Some(Arc::new(Translation { skip: first.lines, ..translation })), ..base }
    }

    async fn footer(&self, object: &DataObject) -> Result<(String, Schema)> {
        let address = self.location.address(&object.path);
        let footer = self.known.footer(object).await?;
        let schema = parquet_schema(&address, &footer)?;
        Ok((address, with_uuids_as_text(&schema, footer.file_metadata().schema_descr())))
    }

    async fn parquet(&self) -> Result<Vec<Column>> {
        let all: Vec<_> = self.sampled.iter().map(|object| self.footer(object).boxed()).collect();
        let schemas: Vec<(String, Schema)> = stream::iter(all).buffered(MAX_CONCURRENT_SAMPLES).try_collect().await?;
        let columns = |schema: &Schema| {
            let column = |field: &Arc<Field>| Column {
                name: field.name().clone(),
                data_type: (!field.data_type().is_null()).then(|| field.data_type().clone()),
                ..Column::default()
            };
            schema.fields().iter().map(column).collect::<Vec<_>>()
        };
        let mut schemas = schemas.into_iter();
        let Some((first, schema)) = schemas.next() else { return Err(Error::internal("no object to infer from")) };
        let mut table = columns(&schema);
        for (other, schema) in schemas {
            merge(&mut table, columns(&schema), self.merging_of_parquet(), (&first, &other))?;
        }
        Ok(table)
    }
}

/// Sets the `encoding` that was detected, unless one was declared.
fn with_encoding(csv: CsvOptions, encoding: &str) -> CsvOptions {
    let declared = csv.translation.as_deref().cloned().unwrap_or_default();
    let encoding = declared.encoding.clone().unwrap_or_else(|| encoding.to_owned());
    CsvOptions { translation: Some(Arc::new(Translation { encoding: Some(encoding), ..declared })), ..csv }
}

/// Merges the columns of all samples. Also returns the column names of each sample, an empty list
/// for one without a record. Fails if no sample has a record.
fn merge_all(
    samples: &[(String, Sample)],
    read: impl Fn(&Sample, &str) -> Result<Option<Vec<Column>>>,
    how: Merging,
    location: &TableLocation,
) -> Result<(Vec<Column>, Vec<Vec<String>>)> {
    let mut table: Option<(&str, Vec<Column>)> = None;
    let mut headers = Vec::with_capacity(samples.len());
    for (address, sample) in samples {
        let columns = read(sample, address)?;
        headers.push(columns.iter().flatten().map(|column| column.name.clone()).collect());
        let Some(columns) = columns else { continue };
        match &mut table {
            None => table = Some((address, columns)),
            Some((first, known)) => merge(known, columns, how, (first, address))?,
        }
    }
    let (_, columns) = table.ok_or_else(|| empty(location))?;
    Ok((columns, headers))
}

fn empty(location: &TableLocation) -> Error {
    Error::invalid(format!(
        "{location}: is empty: no schema can be inferred; declare the columns with CREATE EXTERNAL TABLE"
    ))
}

/// Returns the compression of an object: the declared one, or else that of its name.
pub(crate) fn compression_of(object: &DataObject, options: &TableOptions) -> Compression {
    options.compression.unwrap_or_else(|| FileName::of(object.path.as_ref()).compression)
}

/// Returns the objects to sample: the first, the last, and others evenly spread between them.
pub(crate) fn sampled(objects: &[DataObject]) -> Vec<&DataObject> {
    if objects.len() <= MAX_SAMPLED_OBJECTS {
        return objects.iter().collect();
    }
    let last = objects.len() - 1;
    (0..MAX_SAMPLED_OBJECTS).filter_map(|n| objects.get(n * last / (MAX_SAMPLED_OBJECTS - 1))).collect()
}

#[cfg(test)]
impl KnownObjects for object_store::memory::InMemory {
    fn footer<'a>(&'a self, object: &'a DataObject) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        async move {
            let address = format!("s3://b/{}", object.path);
            let bytes = object.fetch(self, 0..object.size, &address).await?;
            let reader = pushdowndb_scan::InMemory::new(address, bytes);
            pushdowndb_scan::parquet_metadata(&reader, u64::MAX).await.map(Arc::new)
        }
        .boxed()
    }
}
