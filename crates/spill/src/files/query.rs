//! The files of one query.

use std::sync::{Arc, Weak};

use datafusion_common::{Result, resources_err};
use datafusion_execution::{SpillFile, TempFileFactory};
use uuid::Uuid;

use super::content::Content;
use super::file::StoredFile;
use super::options::QueryOptions;
use super::process::SpillProcess;
use super::tiers::Tiers;
use super::usage::{SpillMeter, SpillUsage};

/// The spill files of one query. Pass a clone, which is cheap, to DataFusion's
/// `DiskManagerBuilder::with_temp_file_factory`.
///
/// Nothing is written to the disk or the object store before the first part is full. When this and
/// all of the query's files, writers and readers are dropped, everything is deleted: local files at
/// once, parts in the object store in the background ([`SpillProcess::settle`] waits for that).
#[derive(Clone, Debug)]
pub struct QuerySpill(Arc<Tiers>);

impl QuerySpill {
    /// Creates the spill of a query of `process`, without files. Returns an error if no encryption
    /// key can be generated.
    pub fn new(process: &SpillProcess, options: &QueryOptions) -> Result<Self> {
        Ok(Self(Arc::new(Tiers::new(process, options)?)))
    }

    /// Returns the name of the query, which is used in keys and file names.
    pub fn query(&self) -> Uuid {
        self.0.query
    }

    /// Returns a snapshot of the counters.
    pub fn usage(&self) -> SpillUsage {
        self.0.meter.usage()
    }

    /// Returns the counters, which go on counting while the query's files are deleted. They do not
    /// keep the files alive.
    pub fn meter(&self) -> SpillMeter {
        self.0.meter.clone()
    }

    /// Returns a handle that marks the query as ended. It does not keep the files alive.
    pub fn end(&self) -> QueryEnd {
        QueryEnd(Arc::downgrade(&self.0))
    }

    /// Waits until no upload is in flight.
    #[cfg(test)]
    pub(super) async fn uploads_done(&self) {
        if let Some(remote) = &self.0.remote {
            remote.slots.all_free().await;
        }
    }
}

/// Marks a query as ended, though its operators may still hold files.
#[derive(Clone, Debug)]
pub struct QueryEnd(Weak<Tiers>);

impl QueryEnd {
    /// Makes [`SpillProcess::settle`] wait until the query's operators have dropped its files and
    /// the files are deleted.
    pub fn ended(&self) {
        if let Some(tiers) = self.0.upgrade() {
            tiers.ending.lock().get_or_insert_with(|| tiers.process.ending());
        }
    }
}

impl TempFileFactory for QuerySpill {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        if !self.0.disk && self.0.remote.is_none() {
            return resources_err!(
                "memory is exhausted while {description}, and nothing may be spilled; set pushdown.spill_disk or \
                 pushdown.spill_location, or raise pushdown.memory"
            );
        }
        Ok(Arc::new(StoredFile::new(Content::new(self.0.clone(), description))))
    }
}
