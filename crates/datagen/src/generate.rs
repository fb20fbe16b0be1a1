//! Streams the tables into an object store.
//!
//! Memory is bounded by the pieces in flight, at any scale: a permit is acquired, in row order,
//! before a piece is generated, and released once its bytes are passed to the upload. The order
//! ensures that an object's next piece never waits for a permit that a later piece of the same
//! object holds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::buffered::BufWriter;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use pushdowndb_contract::{Error, ErrorKind, Result};
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

use crate::manifest;
use crate::rows::Piece;
use crate::tables::schema_sql_over;
use crate::tables::{MIN_SCALE, row_count};
use crate::{DataSet, Destination, Format, encode};

/// The largest scale; above it keys of rows and pieces would not fit their types.
const MAX_SCALE: f64 = 100_000.0;
/// Maximum objects per table.
const MAX_PARTS: u32 = 10_000;
/// Maximum objects that are written concurrently.
const OBJECTS_AT_ONCE: usize = 8;
/// Bytes per part of a multipart upload.
const UPLOAD_PART_BYTES: usize = 8 * 1024 * 1024;
/// Maximum parts in flight per upload.
const UPLOAD_PARTS_AT_ONCE: usize = 2;

/// Options of a data set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// The scale factor: 1 is about one gigabyte of CSV.
    pub scale: f64,
    /// The format.
    pub format: Format,
    /// Objects per table; tables with fewer rows, and nation and region always, get fewer.
    pub parts: u32,
    /// Whether existing tables are removed first; otherwise they are a conflict.
    pub overwrite: bool,
}

/// The progress of a generation.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Progress {
    /// Rows passed to the store.
    pub rows: u64,
    /// The approximate total number of rows.
    pub rows_expected: u64,
    /// Bytes passed to the store.
    pub bytes: u64,
}

/// A summary of the generated data.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// The number of rows of each table, in the order of [`DataSet::tables`].
    pub rows: Vec<(&'static str, u64)>,
    /// The number of objects, including `schema.sql`.
    pub objects: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// Generates TPC-H: all tables and then `schema.sql`; `progress` is called often.
pub async fn generate(
    options: Options,
    destination: &Destination,
    progress: impl Fn(Progress) + Sync,
) -> Result<Summary> {
    generate_set(DataSet::Tpch, options, destination, progress).await
}

/// Generates any set of tables.
pub async fn generate_set(
    set: DataSet,
    options: Options,
    destination: &Destination,
    progress: impl Fn(Progress) + Sync,
) -> Result<Summary> {
    generate_over(set, options, std::slice::from_ref(destination), 1, progress).await
}

/// Generates any set of tables in several destinations. The parts of a table are distributed in
/// turn, so a table with fewer parts than destinations is in the first ones only. `schema.sql` is
/// written to the first destination and names all of them.
///
/// If `replicas` is more than 1, each part is written to that many consecutive destinations, and a
/// manifest of each table, beside `schema.sql`, lists where.
pub async fn generate_over(
    set: DataSet,
    options: Options,
    destinations: &[Destination],
    replicas: usize,
    progress: impl Fn(Progress) + Sync,
) -> Result<Summary> {
    let Some(first) = destinations.first() else {
        return Err(Error::invalid("a place for the data is missing"));
    };
    if !(1..=destinations.len()).contains(&replicas) {
        let places = destinations.len();
        return Err(Error::invalid(format!("{replicas} replicas of each part in {places} places")));
    }
    if replicas > 1 {
        manifest::check(destinations)?;
    }
    if !(MIN_SCALE..=MAX_SCALE).contains(&options.scale) {
        return Err(Error::invalid(format!("scale {}: between {MIN_SCALE} and {MAX_SCALE}", options.scale)));
    }
    if !(1..=MAX_PARTS).contains(&options.parts) {
        return Err(Error::invalid(format!("{} parts: between 1 and {MAX_PARTS}", options.parts)));
    }
    for table in set.tables() {
        for destination in destinations {
            make_room(destination, table, options.overwrite).await?;
        }
    }

    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let work = Work {
        destinations,
        replicas,
        permits: Arc::new(Semaphore::new(cores.min(32) + 2)),
        cores,
        rows_expected: set.tables().iter().map(|table| row_count(table, options.scale) * replicas as u64).sum(),
        rows: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        progress: &progress,
    };
    // The largest tables start first, so that no long object remains alone at the end.
    let objects: Vec<_> = set.tables().iter().rev().flat_map(|table| objects_of(table, options)).collect();
    let count = (objects.len() * replicas) as u64 + 1;
    let written: Vec<Written> = stream::iter(objects.into_iter().map(|object| work.write(object)))
        .buffer_unordered(OBJECTS_AT_ONCE)
        .try_collect()
        .await?;

    let mut beside = vec![("schema.sql".to_owned(), schema_sql_of(set, options, destinations, replicas)?)];
    if replicas > 1 {
        for table in set.tables() {
            let of_table = written.iter().filter(|object| object.table == *table);
            let listed = of_table.map(|object| manifest::Entry {
                key: &object.path,
                size: object.size,
                etag: object.etag.as_deref(),
                stores: manifest::stores(&object.holders),
            });
            beside.push((manifest::name(table), manifest::of(listed)));
        }
    }
    for (name, text) in beside {
        work.bytes.fetch_add(text.len() as u64, Ordering::Relaxed);
        let path = first.prefix.clone().join(name.as_str());
        first.store.put(&path, text.into()).await.map_err(|e| store_error(first, &path, e))?;
    }

    let rows_of = |table: &str| written.iter().filter(|object| object.table == table).map(|object| object.rows).sum();
    let rows = set.tables().iter().map(|table| (*table, rows_of(table))).collect();
    Ok(Summary { rows, objects: count, bytes: work.bytes.load(Ordering::Relaxed) })
}

/// Returns the statements that declare the tables that [`generate_over`] writes.
pub fn schema_sql_of(set: DataSet, options: Options, destinations: &[Destination], replicas: usize) -> Result<String> {
    let places = |table: &str| match destinations.first() {
        Some(first) if replicas > 1 => vec![first.address_of(&manifest::name(table))],
        _ => {
            let holders = destinations.iter().take(part_count(table, options) as usize);
            holders.map(|destination| destination.address_of(&format!("{table}/"))).collect()
        }
    };
    schema_sql_over(set, places, options.format, options.scale)
}

/// An object that was written.
struct Written<'a> {
    table: &'static str,
    path: Path,
    rows: u64,
    size: u64,
    /// The ETag, which is the same in all its destinations; known only with replicas.
    etag: Option<String>,
    holders: Vec<&'a Destination>,
}

/// One object to write.
struct Object {
    table: &'static str,
    name: String,
    /// The number of the part.
    part: u32,
    format: Format,
    scale: f64,
    /// The range of its pieces among all pieces of the table.
    pieces: std::ops::Range<u32>,
    /// The number of pieces of the table.
    of: u32,
}

/// The number of objects of a table.
fn part_count(table: &str, options: Options) -> u32 {
    let rows = row_count(table, options.scale);
    let parts = match table {
        "region" | "nation" => 1,
        _ => u64::from(options.parts).min(rows).max(1),
    };
    u32::try_from(parts).unwrap_or(1)
}

fn objects_of(table: &'static str, options: Options) -> Vec<Object> {
    let (rows, parts) = (row_count(table, options.scale), u64::from(part_count(table, options)));
    // This fits into `u32`: at most MAX_SCALE * 6_000_000 / 65_536 pieces, and one for each part.
    let pieces = u32::try_from(rows.div_ceil(parts * options.format.piece_rows())).unwrap_or(1);
    let parts = u32::try_from(parts).unwrap_or(1);
    let extension = options.format.extension();
    (0..parts)
        .map(|part| Object {
            table,
            part,
            name: match parts {
                1 => format!("{table}.{extension}"),
                _ => format!("{table}.{}.{extension}", part + 1),
            },
            format: options.format,
            scale: options.scale,
            pieces: part * pieces..(part + 1) * pieces,
            of: parts * pieces,
        })
        .collect()
}

/// State shared by all objects.
struct Work<'a, P> {
    destinations: &'a [Destination],
    /// The number of destinations that hold each object.
    replicas: usize,
    permits: Arc<Semaphore>,
    cores: usize,
    rows_expected: u64,
    rows: AtomicU64,
    bytes: AtomicU64,
    progress: &'a P,
}

impl<'a, P: Fn(Progress) + Sync> Work<'a, P> {
    /// Writes an object to each of its destinations.
    async fn write(&self, object: Object) -> Result<Written<'a>> {
        let places = self.destinations.iter().cycle().skip(object.part as usize % self.destinations.len().max(1));
        let holders: Vec<&Destination> = places.take(self.replicas).collect();
        let (mut written, mut etags) = (None, Vec::new());
        for destination in &holders {
            let (path, rows, size) = self.write_to(&object, destination).await?;
            if self.replicas > 1 {
                let found = destination.store.head(&path).await;
                etags.push(found.map_err(|e| store_error(destination, &path, e))?.e_tag);
            }
            written = Some((path, rows, size));
        }
        let (path, rows, size) = written.ok_or_else(|| Error::internal("an object without a place"))?;
        etags.dedup();
        let etag = etags.pop().flatten().filter(|_| etags.is_empty());
        Ok(Written { table: object.table, path, rows, size, etag, holders })
    }

    /// Writes an object to one destination. Returns its path, rows and bytes.
    async fn write_to(&self, object: &Object, destination: &Destination) -> Result<(Path, u64, u64)> {
        let path = destination.prefix.clone().join(object.table).join(object.name.as_str());
        let mut upload = BufWriter::with_capacity(Arc::clone(&destination.store), path.clone(), UPLOAD_PART_BYTES)
            .with_max_concurrency(UPLOAD_PARTS_AT_ONCE);
        match self.stream_pieces(object, destination, &path, &mut upload).await {
            Ok((rows, size)) => {
                upload.shutdown().await.map_err(|e| io_error(destination, &path, e))?;
                Ok((path, rows, size))
            }
            Err(error) => {
                // The first error is the one to report. An upload that cannot be aborted expires in
                // the store.
                let _ = upload.abort().await;
                Err(error)
            }
        }
    }

    async fn stream_pieces(
        &self,
        object: &Object,
        destination: &Destination,
        path: &Path,
        upload: &mut BufWriter,
    ) -> Result<(u64, u64)> {
        let (pieces, mut whole) = encode::object(object.table, object.format)?;
        let ready = stream::iter(object.pieces.clone())
            .then(|index| async move { (index, Arc::clone(&self.permits).acquire_owned().await) })
            .map(|(index, permit)| {
                let pieces = Arc::clone(&pieces);
                let piece = Piece { table: object.table, scale: object.scale, index, of: object.of };
                let first = index == object.pieces.start;
                let task = tokio::task::spawn_blocking(move || pieces.encode(piece, first));
                async move {
                    let encoded = task.await.map_err(|e| Error::internal("the generator stopped").with_source(e))??;
                    Ok::<_, Error>((encoded, permit))
                }
            })
            .buffered(self.cores + 1);
        let mut ready = std::pin::pin!(ready);
        let (mut rows, mut size) = (0, 0);
        while let Some((piece, permit)) = ready.try_next().await? {
            rows += piece.rows;
            let piece_rows = piece.rows;
            let bytes = whole.add(piece)?;
            let count = bytes.len() as u64;
            upload.put(bytes).await.map_err(|e| store_error(destination, path, e))?;
            self.count(count, piece_rows);
            size += count;
            drop(permit);
        }
        let bytes = whole.finish()?;
        self.count(bytes.len() as u64, 0);
        size += bytes.len() as u64;
        upload.put(bytes).await.map_err(|e| store_error(destination, path, e))?;
        Ok((rows, size))
    }

    /// Counts rows and bytes that were passed to a store, and reports the progress.
    fn count(&self, bytes: u64, rows: u64) {
        (self.progress)(Progress {
            rows: self.rows.fetch_add(rows, Ordering::Relaxed) + rows,
            rows_expected: self.rows_expected,
            bytes: self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes,
        });
    }
}

/// Removes objects of an earlier run, or refuses them if not `overwrite`: they would be read as
/// rows of the table.
async fn make_room(destination: &Destination, table: &str, overwrite: bool) -> Result<()> {
    let folder = destination.prefix.clone().join(table);
    let mut old = destination.store.list(Some(&folder));
    while let Some(object) = old.try_next().await.map_err(|e| store_error(destination, &folder, e))? {
        if !overwrite {
            return Err(Error::new(
                ErrorKind::Conflict,
                format!("{}: {table}/ holds objects already; choose another place or overwrite it", destination.url),
            ));
        }
        let gone = destination.store.delete(&object.location).await;
        gone.map_err(|e| store_error(destination, &object.location, e))?;
    }
    Ok(())
}

fn io_error(destination: &Destination, path: &Path, error: std::io::Error) -> Error {
    match error.downcast::<object_store::Error>() {
        Ok(error) => store_error(destination, path, error),
        Err(error) => Error::new(ErrorKind::Unavailable, place(destination, path)).with_source(error),
    }
}

fn store_error(destination: &Destination, path: &Path, error: object_store::Error) -> Error {
    use object_store::Error as E;
    let place = place(destination, path);
    let text = error.to_string();
    let kind = match &error {
        E::NotFound { .. } => ErrorKind::NotFound,
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => ErrorKind::Denied,
        E::AlreadyExists { .. } | E::Precondition { .. } => ErrorKind::Conflict,
        E::InvalidPath { .. } => ErrorKind::Invalid,
        E::NotSupported { .. } | E::NotImplemented { .. } => ErrorKind::Unsupported,
        // Some errors of S3 contain nothing but their text.
        _ if text.contains("<Code>NoSuchBucket") => ErrorKind::NotFound,
        _ if text.contains("403 Forbidden") => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    };
    match kind {
        ErrorKind::NotFound => Error::new(kind, format!("{place}: the bucket does not exist")),
        ErrorKind::Denied => Error::new(kind, format!("{place}: not permitted")).with_source(error),
        _ => Error::new(kind, format!("{place}: the store failed")).with_source(error),
    }
}

fn place(destination: &Destination, path: &Path) -> String {
    let below = path
        .prefix_match(&destination.prefix)
        .map(|parts| parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"));
    format!("{}/{}", destination.url.trim_end_matches('/'), below.unwrap_or_default())
}
