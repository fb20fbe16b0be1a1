//! Where the queries of a session spill to, and VACUUM TEMPORARY FILES.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use datafusion::common::config::{ConfigOptions, SpillCompression as ArrowCompression};
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use parking_lot::Mutex;
use pushdowndb_contract::{Error, Result};
use pushdowndb_cost::Meter;
use pushdowndb_spill::files::{DiskOptions, Freed, QueryOptions, QuerySpill, RemoteStore, SpillProcess, vacuum};
use url::Url;

use crate::access::{Access, Mode};
use crate::catalog::TableLocation;
use crate::endpoints::{Backends, ConnectionConfig, query_meters};
use crate::error::from_datafusion;
use crate::settings::{DiskLimit, MemoryLimit, PushdownOptions, SPILL_DISK, SPILL_LOCATION, SpillCompression};
use crate::sql::vacuum::Vacuum;

/// Maximum number of spill files that are merged at a time: each is read ahead.
const MAX_MERGED_FILES: usize = 16;

/// Bytes of the memory limit per byte that waits in the writers of spill files or is read ahead.
const MEMORY_BYTES_PER_BUFFER_BYTE: u64 = 8;

/// The places that the queries of a session spill to.
#[derive(Debug)]
pub(crate) struct Spilling {
    /// Separate connections: a thread that waits for an upload may be the one that would drive a
    /// connection of the scans.
    backends: Backends,
    /// The spill files of this process, by folder and limit.
    processes: Mutex<HashMap<(PathBuf, DiskLimit), SpillProcess>>,
}

impl Spilling {
    /// Creates the places, which have no files yet. Stores are opened with `connection`, as far as
    /// `access` permits.
    pub(super) fn new(connection: ConnectionConfig, access: Access) -> Self {
        Self { backends: Backends::new(connection, access, None), processes: Mutex::default() }
    }

    /// Returns the spill files of one query; `None` if the policy permits no place for them.
    ///
    /// # Errors
    ///
    /// Returns an error if `pushdown.spill_location` cannot be written to.
    pub(super) fn query(&self, options: &PushdownOptions, meter: &Arc<Meter>) -> Result<Option<QuerySpill>> {
        let disk = options.spill_disk_bytes != DiskLimit::Bytes(0)
            && self.backends.access().folder(Mode::Write, &folder(options)).is_ok();
        let remote = self.remote(options, meter)?;
        if !disk && remote.is_none() {
            return Ok(None);
        }
        let mut own = QueryOptions { disk, remote, encrypt: options.spill_encryption, ..QueryOptions::default() };
        if let MemoryLimit::Bytes(bytes) = options.memory {
            own.buffer_bytes = own.buffer_bytes.min(bytes / MEMORY_BYTES_PER_BUFFER_BYTE);
        }
        QuerySpill::new(&self.process(options), &own).map(Some).map_err(from_datafusion)
    }

    /// Deletes the files that ended processes left. Returns a row for each query and place.
    pub(super) async fn vacuum(
        &self,
        statement: Vacuum,
        options: &PushdownOptions,
        meter: &Arc<Meter>,
    ) -> Result<RecordBatch> {
        let remotes: Vec<_> = self.remote(options, meter)?.into_iter().collect();
        self.backends.access().folder(Mode::Write, &folder(options)).map_err(|error| error.context(SPILL_DISK))?;
        let freed = vacuum(&self.process(options), &remotes, statement.older_than).await;
        rows(&freed.map_err(|error| from_datafusion(error).context("VACUUM TEMPORARY FILES"))?)
    }

    /// Waits until the spilled data of ended queries is deleted.
    pub(super) async fn settle(&self) {
        let all: Vec<SpillProcess> = self.processes.lock().values().cloned().collect();
        for process in all {
            process.settle().await;
        }
    }

    /// Fails if nothing can be spilled to `pushdown.spill_location`.
    pub(super) fn check(&self, options: &PushdownOptions) -> Result<()> {
        self.remote(options, &Arc::default()).map(|_| ())
    }

    fn process(&self, options: &PushdownOptions) -> SpillProcess {
        let key = (folder(options), options.spill_disk_bytes);
        let open = || {
            let quota_bytes = match options.spill_disk_bytes {
                DiskLimit::Auto => 0,
                DiskLimit::Bytes(bytes) => bytes,
            };
            SpillProcess::new(DiskOptions { folder: folder(options), quota_bytes, reserve_bytes: None })
        };
        self.processes.lock().entry(key).or_insert_with(open).clone()
    }

    /// Returns the store of `pushdown.spill_location`, whose requests count into `meter`.
    fn remote(&self, options: &PushdownOptions, meter: &Arc<Meter>) -> Result<Option<RemoteStore>> {
        let url = options.spill_location.trim();
        if url.is_empty() {
            return Ok(None);
        }
        let open = || {
            let location = TableLocation::parse(url, self.backends.access())?;
            let url_of_store: &Url = location.store().as_ref();
            if url_of_store.scheme() == "file" {
                return Err(Error::invalid(format!("{url} is on the local disk: name its folder in {SPILL_DISK}")));
            }
            self.backends.access().named(Mode::Write, url_of_store, location.prefix())?;
            let store = self.backends.backend(url_of_store)?.store(&query_meters(meter))?;
            Ok(RemoteStore { store, prefix: location.prefix().clone(), url: url.trim_end_matches('/').to_owned() })
        };
        open().map(Some).map_err(|error: Error| error.context(SPILL_LOCATION))
    }
}

/// Returns the folder of `pushdown.spill_disk`.
fn folder(options: &PushdownOptions) -> PathBuf {
    if options.spill_disk.is_empty() { std::env::temp_dir() } else { PathBuf::from(&options.spill_disk) }
}

/// Returns how DataFusion makes temporary files: through `spill`, or not at all without it.
pub(super) fn disk_manager(spill: Option<&QuerySpill>) -> DiskManagerBuilder {
    match spill {
        Some(spill) => DiskManagerBuilder::default()
            .with_temp_file_factory(Arc::new(spill.clone()))
            .with_max_spill_merge_fan_in(MAX_MERGED_FILES),
        None => DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled),
    }
}

/// Sets how DataFusion compresses what it spills.
pub(super) fn set_compression(options: &mut ConfigOptions, own: &PushdownOptions) {
    options.execution.spill_compression = match own.spill_compression {
        SpillCompression::Lz4 => ArrowCompression::Lz4Frame,
        SpillCompression::Zstd => ArrowCompression::Zstd,
        SpillCompression::None => ArrowCompression::Uncompressed,
    };
}

fn rows(freed: &[Freed]) -> Result<RecordBatch> {
    let texts =
        |value: fn(&Freed) -> &str| Arc::new(StringArray::from_iter_values(freed.iter().map(value))) as ArrayRef;
    let numbers =
        |value: fn(&Freed) -> u64| Arc::new(UInt64Array::from_iter_values(freed.iter().map(value))) as ArrayRef;
    let ages = Float64Array::from_iter_values(freed.iter().map(|freed| freed.age.as_secs_f64().round()));
    let columns: [(&str, ArrayRef); 5] = [
        ("place", texts(|freed| &freed.place)),
        ("query", texts(|freed| &freed.query)),
        ("files", numbers(|freed| freed.files)),
        ("bytes", numbers(|freed| freed.bytes)),
        ("age_s", Arc::new(ages)),
    ];
    RecordBatch::try_from_iter(columns).map_err(|error| Error::internal("freed files as rows").with_source(error))
}
