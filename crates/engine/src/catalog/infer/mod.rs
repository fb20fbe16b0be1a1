//! Inference of a table's schema from the first bytes of a few of its objects.
//!
//! Up to [`MAX_SAMPLED_OBJECTS`] objects are sampled, spread over the sorted paths, since the last
//! often differ from the first. What a sample does not show (a column that turns to text after the
//! first megabyte) is found by the scan, which names the object, the byte and the column. Every
//! column may be NULL.

pub(crate) mod cache;
pub(crate) mod csv;
pub(crate) mod json;
pub(crate) mod merge;
pub(crate) mod sample;
pub(crate) mod value;

use std::cell::Cell;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use parquet::file::metadata::ParquetMetaData;
use pushdowndb_contract::{Compression, CsvOptions, Error, Format, Result, limits};
use pushdowndb_scan::parquet_schema;

use super::options::{FileName, Kind};
use super::{DataObject, TableLocation, TableOptions};
use cache::InferenceKey;
pub(crate) use cache::{InferenceCache, Inferred};
use merge::{Column, Merging, merge};
use sample::Sample;
use value::Looks;

/// The most objects that are sampled.
const MAX_SAMPLED_OBJECTS: usize = 8;

/// The bytes of the first sample, and of each further one.
const FIRST_SAMPLE_BYTES: u64 = 1024 * 1024;
const FURTHER_SAMPLE_BYTES: u64 = 256 * 1024;

/// The bytes of an object that are read for its header alone.
const MAX_HEADER_BYTES: u64 = 64 * 1024;

/// Requests for samples in flight.
const MAX_CONCURRENT_SAMPLES: usize = 8;

/// What may be known of a table's objects before they are read.
pub(crate) trait KnownObjects: Sync {
    /// The footer of a Parquet object, which is read if it is not known.
    fn footer<'a>(&'a self, object: &'a DataObject) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>>;

    /// The columns that were inferred before.
    fn inferred(&self) -> Option<&InferenceCache> {
        None
    }
}

/// Infers a table's format and columns from a few of `objects`, of which there is at least one.
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
        let (format, columns) = match self.options.format(kind) {
            Format::Parquet => (Format::Parquet, self.parquet().await?),
            Format::Csv(csv) => {
                let (csv, columns) = self.csv(csv).await?;
                (Format::Csv(CsvOptions { inferred: true, ..csv }), columns)
            }
            Format::Json(mut json) => {
                let samples = self.samples().await?;
                json.inferred = true;
                if let (None, Some((_, first))) = (self.options.json_shape, samples.first()) {
                    json.shape = json::sniff(first);
                }
                let mut found = json::Found::default();
                for (address, sample) in &samples {
                    found.add(sample, self.max_records(), address)?;
                }
                (Format::Json(json), found.columns()?.ok_or_else(|| empty(self.location))?)
            }
        };
        if columns.len() > limits::COLUMNS {
            let (location, count) = (self.location, columns.len());
            return Err(Error::unsupported(format!(
                "{location}: has {count} columns, a table at most {}",
                limits::COLUMNS
            )));
        }
        let field = |column: Column| Field::new(column.name, column.data_type.unwrap_or(DataType::Utf8), true);
        Ok(Inferred { format, schema: Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>())) })
    }

    fn max_records(&self) -> usize {
        self.options.schema_infer_max_rec.unwrap_or(usize::MAX)
    }

    fn merging(&self, otherwise: Merging) -> Merging {
        if self.options.union_by_name { Merging::Union } else { otherwise }
    }

    /// The start of each sampled object, with its address.
    async fn samples(&self) -> Result<Vec<(String, Sample)>> {
        let all: Vec<_> = self.sampled.iter().enumerate().map(|(n, object)| self.sample(n, object).boxed()).collect();
        stream::iter(all).buffered(MAX_CONCURRENT_SAMPLES).try_collect().await
    }

    async fn sample(&self, index: usize, object: &DataObject) -> Result<(String, Sample)> {
        let address = self.location.address(&object.path);
        let compression = compression_of(object, self.options);
        let limit = if index == 0 { FIRST_SAMPLE_BYTES } else { FURTHER_SAMPLE_BYTES };
        let sample = Sample::fetch(self.store, object, compression, limit, &address).await?;
        Ok((address, sample))
    }

    /// Infers CSV. The first object that is not empty decides the options of all.
    async fn csv(&self, base: CsvOptions) -> Result<(CsvOptions, Vec<Column>)> {
        let samples = self.samples().await?;
        let Some((address, first)) = samples.iter().find(|(_, sample)| !sample.bytes.is_empty()) else {
            return Err(empty(self.location));
        };
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
        // Without a header there are no names to merge by.
        let merging = if csv.header { self.merging(Merging::Positions) } else { Merging::Positions };
        let columns = merge_all(&samples, read, merging, self.location)?;
        csv.newlines_in_values = newlines_in_values.get();
        Ok((csv, columns))
    }

    async fn footer(&self, object: &DataObject) -> Result<(String, Schema)> {
        let address = self.location.address(&object.path);
        let schema = parquet_schema(&address, &*self.known.footer(object).await?)?;
        Ok((address, schema))
    }

    async fn parquet(&self) -> Result<Vec<Column>> {
        let all: Vec<_> = self.sampled.iter().map(|object| self.footer(object).boxed()).collect();
        let schemas: Vec<(String, Schema)> = stream::iter(all).buffered(MAX_CONCURRENT_SAMPLES).try_collect().await?;
        let columns = |schema: &Schema| {
            let column = |field: &Arc<Field>| Column {
                name: field.name().clone(),
                data_type: (!field.data_type().is_null()).then(|| field.data_type().clone()),
                seen: Looks::default(),
            };
            schema.fields().iter().map(column).collect::<Vec<_>>()
        };
        let mut schemas = schemas.into_iter();
        let Some((first, schema)) = schemas.next() else { return Err(Error::internal("no object to infer from")) };
        let mut table = columns(&schema);
        for (other, schema) in schemas {
            merge(&mut table, columns(&schema), self.merging(Merging::SameNames), (&first, &other))?;
        }
        Ok(table)
    }
}

/// Merges the samples that hold records; an error if none does.
fn merge_all(
    samples: &[(String, Sample)],
    read: impl Fn(&Sample, &str) -> Result<Option<Vec<Column>>>,
    how: Merging,
    location: &TableLocation,
) -> Result<Vec<Column>> {
    let mut table: Option<(&str, Vec<Column>)> = None;
    for (address, sample) in samples {
        let Some(columns) = read(sample, address)? else { continue };
        match &mut table {
            None => table = Some((address, columns)),
            Some((first, known)) => merge(known, columns, how, (first, address))?,
        }
    }
    table.map(|(_, columns)| columns).ok_or_else(|| empty(location))
}

fn empty(location: &TableLocation) -> Error {
    Error::invalid(format!(
        "{location}: is empty: no schema can be inferred; declare the columns with CREATE EXTERNAL TABLE"
    ))
}

/// The compression of an object: as declared, else as its name says.
pub(crate) fn compression_of(object: &DataObject, options: &TableOptions) -> Compression {
    options.compression.unwrap_or_else(|| FileName::of(object.path.as_ref()).compression)
}

/// The objects to sample: the first, the last, and evenly between them.
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
