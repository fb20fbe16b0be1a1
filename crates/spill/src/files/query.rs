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

/// What the operators of one query spill to; a cheap clone is given to
/// `DiskManagerBuilder::with_temp_file_factory` of DataFusion.
///
/// Nothing exists on the disk or in the object store before the first part is full. Everything is
/// deleted when this and all of its files, writers and readers are dropped: local files at once,
/// parts in the object store in the background ([`SpillProcess::settle`] waits for it).
#[derive(Clone, Debug)]
pub struct QuerySpill(Arc<Tiers>);

impl QuerySpill {
    /// The files of a query of `process`, of which there are none yet. An error means that no key
    /// can be made to encrypt them with.
    pub fn new(process: &SpillProcess, options: &QueryOptions) -> Result<Self> {
        Ok(Self(Arc::new(Tiers::new(process, options)?)))
    }

    /// The name of the query in keys and file names.
    pub fn query(&self) -> Uuid {
        self.0.query
    }

    /// What has been spilled so far.
    pub fn usage(&self) -> SpillUsage {
        self.0.meter.usage()
    }

    /// The counters, which go on counting while the query's files are deleted. Holding them does
    /// not hold the files.
    pub fn meter(&self) -> SpillMeter {
        self.0.meter.clone()
    }

    /// A handle that says when the query has ended. Holding it does not hold the files.
    pub fn end(&self) -> QueryEnd {
        QueryEnd(Arc::downgrade(&self.0))
    }

    /// Waits until no upload is under way.
    #[cfg(test)]
    pub(super) async fn uploads_done(&self) {
        if let Some(remote) = &self.0.remote {
            remote.slots.all_free().await;
        }
    }
}

/// Says that a query has ended, while its operators may still hold files.
#[derive(Clone, Debug)]
pub struct QueryEnd(Weak<Tiers>);

impl QueryEnd {
    /// Makes [`SpillProcess::settle`] wait until the operators of the query have let go of its
    /// files, and these are deleted.
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
