//! The definition of a table: location, format, columns.
//!
//! A table with declared columns costs no request to define; a wrong location shows when it is
//! first read. Whatever is not declared is inferred once, by one LIST and the first bytes of a few
//! objects.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use pushdowndb_contract::{CsvOptions, DECLARED, EXACT, Error, Format, MIXED, Profile, Result};
use pushdowndb_scan::check_header;

use super::listing::{Asked, PrivateFolder};
use super::options::{FileName, Kind, unread};
use super::{
    DataObject, KnownObjects, Listing, ObjectColumns, TableLocation, TableOptions, adjust, infer, listing, partition,
};

/// Maximum number of objects whose columns are cached across queries.
const MAX_CACHED_HEADERS: usize = 10_000;

/// Maximum number of requests for headers in flight.
const MAX_CONCURRENT_READS: usize = 16;

/// The columns of CREATE EXTERNAL TABLE.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// The columns, with or without the partition columns; inferred if `None` or empty.
    pub columns: Option<SchemaRef>,
    /// The names in `PARTITIONED BY`. A column that `columns` lacks gets its type from the paths.
    pub partitions: Vec<String>,
}

/// The columns of objects whose headers were read, by path and ETag; `None` if an object has the
/// columns of the table.
type Headers = HashMap<(Path, Option<String>), Option<Arc<ObjectColumns>>>;

/// The objects of a table, and those of PushdownDB itself that are listed with them.
pub(crate) type FoundObjects = (Vec<DataObject>, PrivateFolder);

/// A table over objects.
#[derive(Debug)]
pub struct TableDefinition {
    /// The location of its objects.
    pub location: TableLocation,
    /// The declared options.
    pub options: TableOptions,
    /// The format that the objects share; [`TableDefinition::format_of`] returns that of one
    /// object.
    pub format: Format,
    /// The columns in the objects; for CSV all of them, in order.
    pub file_schema: SchemaRef,
    /// The columns in the paths, which follow those in the objects.
    pub partition_columns: Vec<FieldRef>,
    /// The declared kind of server.
    pub backend: Option<Profile>,
    kind: Kind,
    schema: SchemaRef,
    /// Whether each CSV object has its own columns, which are matched with the table's by name.
    by_name: bool,
    headers: Mutex<Headers>,
}

impl TableDefinition {
    /// Defines a table and infers what is not declared. Also returns the objects if they were
    /// listed to infer something.
    pub(crate) async fn resolve(
        store: &dyn ObjectStore,
        known: &dyn KnownObjects,
        location: TableLocation,
        options: TableOptions,
        declared: Declared,
    ) -> Result<(Self, Option<FoundObjects>)> {
        let mut columns = declared.columns.filter(|schema| !schema.fields().is_empty());
        let mut replacing = adjust::declared_columns(&options).await?;
        if columns.is_some() && (replacing.is_some() || !options.types.is_empty() || !options.names.is_empty()) {
            return Err(Error::invalid("the columns are declared twice: leave out 'columns', 'types' and 'names'"));
        }
        if options.auto_detect == Some(false) {
            columns = columns.or(replacing.take());
        }
        if options.hive_partitioning == Some(false) && !declared.partitions.is_empty() {
            return Err(Error::invalid("PARTITIONED BY contradicts OPTIONS ('hive_partitioning' 'false')"));
        }
        let name_kind = options.kind.or_else(|| kind_of_location(&location));
        if let (Some(columns), Some(kind)) = (&columns, name_kind)
            && let Some(partition_columns) = declared_partitions(columns, &declared.partitions)
        {
            let (format, file_schema) = (options.format(kind), without(columns, &partition_columns));
            let table = Self::new(location, options, kind, format, file_schema, partition_columns);
            return Ok((table?, None));
        }

        let asked = options.kind.map_or(Asked::Anything, Asked::Declared);
        let (objects, private) = listing::list_with_private(store, &location, asked).await?;
        let kind = match options.kind {
            Some(kind) => kind,
            None => match kind_of_objects(&location, &objects)? {
                Some(kind) => kind,
                None => infer::kind_of_text(store, &location, &objects, &options).await?,
            },
        };
        let Some(columns) = columns else {
            let found = match options.hive_partitioning {
                Some(false) => Vec::new(),
                _ => partition::discover(&location, &objects)?,
            };
            let inferred = infer::infer(store, known, &location, &objects, kind, &options).await?;
            let inferred = adjust::adjust(inferred, &options, replacing, &location).await?;
            let is_taken = |name: &str| {
                let in_objects = inferred.schema.column_with_name(name).is_some();
                in_objects && !declared.partitions.iter().any(|one| one == name)
                    || found.iter().any(|column| column.name() == name)
            };
            let fixed = match options.hive_partitioning {
                Some(false) => Vec::new(),
                _ => partition::fixed(&location, &is_taken),
            };
            let all = found.iter().cloned().chain(fixed).collect();
            let partition_columns = adjust::partitions(all, &options, &location).await?;
            let partition_columns = select_partitions(&location, partition_columns, &declared.partitions)?;
            let twice =
                partition_columns.iter().find(|column| inferred.schema.column_with_name(column.name()).is_some());
            // Parquet and JSON are read by name: the value in the path replaces the one in the
            // object.
            if let (Some(twice), Format::Csv(_)) = (twice, &inferred.format) {
                return Err(Error::invalid(format!(
                    "{location}: the column '{name}' is both in the objects and in their path; set OPTIONS \
                     ('hive_partitioning' 'false') to take it from the objects, or declare the columns",
                    name = twice.name(),
                )));
            }
            let file_schema = without(&inferred.schema, &partition_columns);
            let mut format = inferred.format;
            if let (Some(_), Format::Json(json)) = (twice, &mut format) {
                // Otherwise the scan would refuse the field of the same name in the objects, since
                // it has no column.
                json.inferred = false;
            }
            let mut table = Self::new(location, options, kind, format, file_schema, partition_columns)?;
            table.by_name = inferred.by_name;
            let mut headers = inferred.headers.into_iter();
            for object in infer::sampled(&objects) {
                let header = headers.next().unwrap_or_default();
                let columns = match inferred.by_name {
                    true => ObjectColumns::new(&header, &table.file_schema).map(Arc::new),
                    false => None,
                };
                table.remember(object, columns);
            }
            return Ok((table, Some((objects, private))));
        };
        let found = partition::discover(&location, &objects)?;
        let mut partition_columns = select_partitions(&location, found, &declared.partitions)?;
        for column in &mut partition_columns {
            if let Some((_, declared)) = columns.column_with_name(column.name()) {
                *column = Arc::new(declared.clone());
            }
        }
        let (format, file_schema) = (options.format(kind), without(&columns, &partition_columns));
        let table = Self::new(location, options, kind, format, file_schema, partition_columns)?;
        Ok((table, Some((objects, private))))
    }

    fn new(
        location: TableLocation,
        options: TableOptions,
        kind: Kind,
        format: Format,
        file_schema: SchemaRef,
        mut partition_columns: Vec<FieldRef>,
    ) -> Result<Self> {
        if let Some(name) = &options.filename {
            let is_taken = file_schema.column_with_name(name).is_some()
                || partition_columns.iter().any(|column| column.name() == name);
            if is_taken {
                return Err(Error::invalid(format!(
                    "{location}: the option filename adds the column '{name}', but there is one of that name; write \
                     filename = 'another name'"
                )));
            }
            partition_columns.insert(0, Arc::new(Field::new(name, DataType::Utf8, false)));
        }
        let all = file_schema.fields().iter().chain(&partition_columns);
        let schema = Arc::new(Schema::new(all.map(|field| unmarked(field)).collect::<Vec<_>>()));
        let name = location.glob().unwrap_or(location.prefix().as_ref());
        let compression = options.compression.unwrap_or_else(|| FileName::of(name).compression);
        let format = format.compressed(compression);
        let (backend, by_name) = (options.backend, options.union_by_name == Some(true));
        Ok(Self {
            location,
            options,
            format,
            file_schema,
            partition_columns,
            backend,
            kind,
            schema,
            by_name,
            headers: Mutex::default(),
        })
    }

    /// Returns the table with the additional column `name`, which holds the address of each row's
    /// object; `None` if there is a column of that name already.
    pub(crate) fn with_filename(&self, name: &str) -> Option<Self> {
        let options = TableOptions { filename: Some(name.to_owned()), ..self.options.clone() };
        let hive = self.partition_columns.iter().skip(usize::from(self.options.filename.is_some())).cloned().collect();
        let (location, format, columns) = (self.location.clone(), self.format.clone(), Arc::clone(&self.file_schema));
        let table = Self::new(location, options, self.kind, format, columns, hive).ok()?;
        Some(Self { by_name: self.by_name, ..table })
    }

    /// Sets the values of the partition columns of objects that were listed for the same location.
    pub(crate) fn assign(&self, objects: &mut [DataObject]) -> Result<()> {
        partition::assign(&self.location, objects, &self.partition_columns, self.options.filename.as_deref())
    }

    /// The columns in the objects, then those in the paths.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Whether each CSV object has its own columns, which are matched with the table's by name.
    pub(crate) fn is_by_name(&self) -> bool {
        self.by_name
    }

    /// The format of one object: the table's, compressed as declared or as the object's name says.
    pub fn format_of(&self, object: &DataObject) -> Format {
        self.format.clone().compressed(infer::compression_of(object, &self.options))
    }

    /// The objects of [`Self::listing`].
    #[cfg(test)]
    pub(crate) async fn objects(&self, store: &dyn ObjectStore) -> Result<Vec<DataObject>> {
        self.listing(store).await.map(|listing| Arc::unwrap_or_clone(listing.objects))
    }

    /// Lists the table's objects as they are now, sorted by path, and PushdownDB's own objects
    /// beside them. This takes one LIST and, for tables read by name, one read per object whose
    /// header is not cached.
    pub async fn listing(&self, store: &dyn ObjectStore) -> Result<Listing> {
        let asked = self.options.kind.map_or(Asked::Found(self.kind), Asked::Declared);
        let found = listing::list_with_private(store, &self.location, asked).await?;
        self.listed(store, found).await
    }

    /// Makes a listing of objects that were found: adds their partition values and, for tables read
    /// by name, their columns.
    pub(crate) async fn listed(&self, store: &dyn ObjectStore, found: FoundObjects) -> Result<Listing> {
        let (mut objects, private) = found;
        self.assign(&mut objects)?;
        let objects = match &self.format {
            Format::Csv(csv) if csv.header && self.by_name => self.with_columns(store, csv, objects).await?,
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
        let columns: Vec<_> = stream::iter(all).buffered(MAX_CONCURRENT_READS).try_collect().await?;
        let with = |(object, columns)| DataObject { columns, ..object };
        Ok(objects.into_iter().zip(columns).map(with).collect())
    }

    /// Fails if inferred columns are read by position and the header of `object` differs from them.
    /// Headers that were compared before, or that the columns were inferred from, are not read
    /// again.
    pub(crate) async fn check_header(&self, store: &dyn ObjectStore, object: &DataObject) -> Result<()> {
        let Format::Csv(csv) = self.format_of(object) else { return Ok(()) };
        let is_known = |headers: &Headers| headers.contains_key(&key(object));
        let by_position = csv.inferred && csv.header && !self.by_name;
        if !by_position || is_known(&self.headers.lock()) {
            return Ok(());
        }
        let address = self.location.address(&object.path);
        let header = infer::header(store, object, &csv, &address).await?.unwrap_or_default();
        let names: Vec<String> = self.file_schema.fields().iter().map(|field| field.name().clone()).collect();
        check_header(&names, &header, &address)?;
        self.remember(object, None);
        Ok(())
    }

    fn remember(&self, object: &DataObject, columns: Option<Arc<ObjectColumns>>) {
        let mut headers = self.headers.lock();
        if headers.len() >= MAX_CACHED_HEADERS {
            headers.clear();
        }
        headers.insert(key(object), columns);
    }

    async fn columns_of(
        &self,
        store: &dyn ObjectStore,
        csv: &CsvOptions,
        object: &DataObject,
    ) -> Result<Option<Arc<ObjectColumns>>> {
        let remembered = |headers: &Headers| headers.get(&key(object)).cloned();
        if let Some(known) = remembered(&self.headers.lock()) {
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
        self.remember(object, columns.clone());
        Ok(columns)
    }
}

/// Returns `field` without the metadata that is for scans ([`MIXED`], [`EXACT`], [`DECLARED`]).
pub(crate) fn unmarked(field: &Field) -> Field {
    let marks = [MIXED, EXACT, DECLARED];
    let mut metadata = field.metadata().clone();
    metadata.retain(|key, _| !marks.contains(&key.as_str()));
    field.clone().with_metadata(metadata)
}

fn key(object: &DataObject) -> (Path, Option<String>) {
    (object.path.clone(), object.etag.clone())
}

/// Returns the partition columns `names` with their declared types; `None` if a type is not
/// declared.
fn declared_partitions(columns: &Schema, names: &[String]) -> Option<Vec<FieldRef>> {
    names.iter().map(|name| columns.column_with_name(name).map(|(_, field)| Arc::new(field.clone()))).collect()
}

/// Returns those of the columns `found` in the paths that `names` declares; all of them if `names`
/// is empty. Fails if the paths lack a declared column.
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

/// Returns the kind that the extensions of all objects have in common; `None` if the extensions
/// only say that the objects are text.
fn kind_of_objects(location: &TableLocation, objects: &[DataObject]) -> Result<Option<Kind>> {
    let mut known =
        objects.iter().filter_map(|object| FileName::of(object.path.as_ref()).kind.map(|kind| (kind, object)));
    let Some((kind, first)) = known.next() else {
        if objects.iter().any(|object| FileName::of(object.path.as_ref()).is_text) {
            return Ok(None);
        }
        let example = objects.first().map(|object| location.address(&object.path)).unwrap_or_default();
        if let Some(advice) = unread(&example) {
            return Err(Error::unsupported(format!("{example}: {advice}")));
        }
        return Err(Error::invalid(format!(
            "{location}: the name {example} does not tell its format (CSV, TSV, JSON, NDJSON or PARQUET); write \
             read_csv('{location}'), read_json or read_parquet, or CREATE EXTERNAL TABLE … STORED AS CSV"
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
    Ok(Some(kind))
}

#[cfg(test)]
mod tests;
