//! A table: its location, its format, its columns.
//!
//! A table with declared columns costs no request to define; what is wrong with its location shows when it is first
//! read. Whatever was not declared is found out once, at definition, by one LIST and the first bytes of a few objects.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use object_store::path::Path;
use pushdown::{Compression, CsvOptions, Error, Format, Profile, Result};

use super::options::{FileName, Kind};
use super::{DataObject, Listing, ObjectColumns, ReadFooter, TableLocation, TableOptions, infer, listing, partition};

/// How many objects' columns are remembered from query to query.
const REMEMBERED_HEADERS: usize = 10_000;

/// How many headers are read at once.
const CONCURRENCY: usize = 16;

/// What CREATE EXTERNAL TABLE said about the columns.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// The columns, with or without those of the path; `None` or no columns to infer them.
    pub columns: Option<SchemaRef>,
    /// `PARTITIONED BY`. A column that `columns` does not hold gets its type from the paths.
    pub partitions: Vec<String>,
}

/// The columns of objects that were read already, by path and ETag; `None` where they are the table's.
type Headers = HashMap<(Path, Option<String>), Option<Arc<ObjectColumns>>>;

/// A table over objects.
#[derive(Debug)]
pub struct TableDefinition {
    /// Where its objects are.
    pub location: TableLocation,
    /// What was declared about them.
    pub options: TableOptions,
    /// How they are written; for one object ask [`TableDefinition::format_of`].
    pub format: Format,
    /// The columns in the objects: all of them in order for CSV.
    pub file_schema: SchemaRef,
    /// The columns in the paths, which come after those in the objects.
    pub partition_columns: Vec<FieldRef>,
    /// What the store was declared to be able to do.
    pub backend: Option<Profile>,
    kind: Kind,
    schema: SchemaRef,
    headers: Mutex<Headers>,
}

impl TableDefinition {
    /// Finds out what was not declared.
    pub async fn resolve(
        store: &dyn ObjectStore,
        footers: &dyn ReadFooter,
        location: TableLocation,
        options: TableOptions,
        declared: Declared,
    ) -> Result<Self> {
        let columns = declared.columns.filter(|schema| !schema.fields().is_empty());
        if options.hive_partitioning == Some(false) && !declared.partitions.is_empty() {
            return Err(Error::invalid("PARTITIONED BY contradicts OPTIONS ('hive_partitioning' 'false')"));
        }
        let name_kind = options.kind.or_else(|| kind_of_location(&location));
        if let (Some(columns), Some(kind)) = (&columns, name_kind)
            && let Some(partition_columns) = declared_partitions(columns, &declared.partitions)
        {
            let (format, file_schema) = (options.format(kind), without(columns, &partition_columns));
            return Ok(Self::new(location, options, kind, format, file_schema, partition_columns));
        }

        let objects = listing::list(store, &location, options.kind).await?;
        let kind = match options.kind {
            Some(kind) => kind,
            None => kind_of_objects(&location, &objects)?,
        };
        let Some(columns) = columns else {
            let partition_columns = match options.hive_partitioning {
                Some(false) => Vec::new(),
                _ => partition::discover(&location, &objects)?,
            };
            let partition_columns = select_partitions(&location, partition_columns, &declared.partitions)?;
            let inferred = infer::infer(store, footers, &location, &objects, kind, &options).await?;
            let twice =
                partition_columns.iter().find(|column| inferred.schema.column_with_name(column.name()).is_some());
            // Parquet and JSON are read by name: there the value in the path stands for the one in the object.
            if let (Some(twice), Format::Csv(_)) = (twice, &inferred.format) {
                return Err(Error::invalid(format!(
                    "{location}: the column '{name}' is both in the objects and in their path; set OPTIONS \
                     ('hive_partitioning' 'false') to take it from the objects, or declare the columns",
                    name = twice.name(),
                )));
            }
            let file_schema = without(&inferred.schema, &partition_columns);
            return Ok(Self::new(location, options, kind, inferred.format, file_schema, partition_columns));
        };
        let found = partition::discover(&location, &objects)?;
        let mut partition_columns = select_partitions(&location, found, &declared.partitions)?;
        for column in &mut partition_columns {
            if let Some((_, declared)) = columns.column_with_name(column.name()) {
                *column = Arc::new(declared.clone());
            }
        }
        let (format, file_schema) = (options.format(kind), without(&columns, &partition_columns));
        Ok(Self::new(location, options, kind, format, file_schema, partition_columns))
    }

    fn new(
        location: TableLocation,
        options: TableOptions,
        kind: Kind,
        format: Format,
        file_schema: SchemaRef,
        partition_columns: Vec<FieldRef>,
    ) -> Self {
        let all: Vec<FieldRef> = file_schema.fields().iter().chain(&partition_columns).cloned().collect();
        let schema = Arc::new(Schema::new(all));
        let name = location.glob().unwrap_or(location.prefix().as_ref());
        let compression = options.compression.unwrap_or_else(|| FileName::of(name).compression);
        let format = compressed(format, compression);
        let backend = options.backend;
        Self {
            location,
            options,
            format,
            file_schema,
            partition_columns,
            backend,
            kind,
            schema,
            headers: Mutex::default(),
        }
    }

    /// A table about this one, in the same store: its objects are CSV written so, with these columns.
    pub(crate) fn about(&self, format: Format, file_schema: SchemaRef, in_paths: Vec<FieldRef>) -> Self {
        let compression = Some(format.compression());
        let options = TableOptions { backend: self.backend, compression, ..TableOptions::default() };
        Self::new(self.location.clone(), options, Kind::Csv, format, file_schema, in_paths)
    }

    /// The columns in the objects, then those in the paths.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// How one object is written: the table's format, compressed as declared or else as the object's name says.
    pub fn format_of(&self, object: &DataObject) -> Format {
        compressed(self.format.clone(), infer::compression_of(object, &self.options))
    }

    /// The objects of [`Self::listing`].
    #[cfg(test)]
    pub(super) async fn objects(&self, store: &dyn ObjectStore) -> Result<Vec<DataObject>> {
        self.listing(store).await.map(|listing| Arc::unwrap_or_clone(listing.objects))
    }

    /// The table's objects as they are now, sorted by path, and what the listing tells of our own objects beside them: one
    /// LIST, and for tables read by name the header of each object that was not seen before.
    pub async fn listing(&self, store: &dyn ObjectStore) -> Result<Listing> {
        let (mut objects, private) = listing::list_with_private(store, &self.location, Some(self.kind)).await?;
        partition::assign(&self.location, &mut objects, &self.partition_columns)?;
        let objects = match &self.format {
            Format::Csv(csv) if csv.header && self.options.union_by_name => {
                self.with_columns(store, csv, objects).await?
            }
            _ => objects,
        };
        Ok(Listing { objects: Arc::new(objects), private })
    }

    async fn with_columns(
        &self,
        store: &dyn ObjectStore,
        csv: &CsvOptions,
        objects: Vec<DataObject>,
    ) -> Result<Vec<DataObject>> {
        let all: Vec<_> = objects.iter().map(|object| self.columns_of(store, csv, object).boxed()).collect();
        let columns: Vec<_> = stream::iter(all).buffered(CONCURRENCY).try_collect().await?;
        let with = |(object, columns)| DataObject { columns, ..object };
        Ok(objects.into_iter().zip(columns).map(with).collect())
    }

    async fn columns_of(
        &self,
        store: &dyn ObjectStore,
        csv: &CsvOptions,
        object: &DataObject,
    ) -> Result<Option<Arc<ObjectColumns>>> {
        let remembered = |headers: &Headers| headers.get(&key(object)).cloned();
        if let Some(known) = remembered(&self.headers.lock().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(known);
        }
        let address = self.location.address(&object.path);
        let csv = CsvOptions { compression: infer::compression_of(object, &self.options), ..csv.clone() };
        let header = infer::header(store, object, &csv, &address).await?.unwrap_or_default();
        let columns = ObjectColumns::new(&header, &self.file_schema).map(Arc::new);
        if let Some(columns) = &columns
            && !columns.has_any()
            && !header.is_empty()
        {
            return Err(Error::invalid(format!(
                "{address}: has none of the table's columns; its header is '{}'",
                header.join("', '")
            )));
        }
        let mut headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        if headers.len() >= REMEMBERED_HEADERS {
            headers.clear();
        }
        headers.insert(key(object), columns.clone());
        Ok(columns)
    }
}

fn key(object: &DataObject) -> (Path, Option<String>) {
    (object.path.clone(), object.etag.clone())
}

fn compressed(mut format: Format, by: Compression) -> Format {
    match &mut format {
        Format::Csv(csv) => csv.compression = by,
        Format::Json(json) => json.compression = by,
        Format::Parquet => {}
    }
    format
}

/// The partition columns with their types, if all of them are declared.
fn declared_partitions(columns: &Schema, names: &[String]) -> Option<Vec<FieldRef>> {
    names.iter().map(|name| columns.column_with_name(name).map(|(_, field)| Arc::new(field.clone()))).collect()
}

/// Those of the columns found in the paths that were declared; all of them if none was.
fn select_partitions(location: &TableLocation, found: Vec<FieldRef>, names: &[String]) -> Result<Vec<FieldRef>> {
    if names.is_empty() {
        return Ok(found);
    }
    let named = |name: &String| {
        found.iter().find(|column| column.name() == name).cloned().ok_or_else(|| {
            Error::invalid(format!("{location}: PARTITIONED BY ({name}): there is no folder '{name}=…' in the paths"))
        })
    };
    names.iter().map(named).collect()
}

fn without(schema: &SchemaRef, columns: &[FieldRef]) -> SchemaRef {
    if columns.is_empty() {
        return Arc::clone(schema);
    }
    let in_objects = schema.fields().iter().filter(|field| columns.iter().all(|column| column.name() != field.name()));
    Arc::new(Schema::new(in_objects.cloned().collect::<Vec<_>>()))
}

fn kind_of_location(location: &TableLocation) -> Option<Kind> {
    FileName::of(location.glob().unwrap_or(location.prefix().as_ref())).kind
}

/// The one kind that the objects' extensions speak of.
fn kind_of_objects(location: &TableLocation, objects: &[DataObject]) -> Result<Kind> {
    let mut known =
        objects.iter().filter_map(|object| FileName::of(object.path.as_ref()).kind.map(|kind| (kind, object)));
    let Some((kind, first)) = known.next() else {
        let example = objects.first().map(|object| location.address(&object.path)).unwrap_or_default();
        return Err(Error::invalid(format!(
            "{location}: the name {example} does not tell its format; say CREATE EXTERNAL TABLE … STORED AS CSV \
             (or TSV, JSON, PARQUET) LOCATION '{location}'"
        )));
    };
    if let Some((other, object)) = known.find(|(other, _)| *other != kind) {
        return Err(Error::invalid(format!(
            "{location}: holds objects of several formats, {} ({}) and {} ({}): narrow the location with a glob",
            kind.name(),
            location.address(&first.path),
            other.name(),
            location.address(&object.path),
        )));
    }
    Ok(kind)
}

#[cfg(test)]
mod tests;
