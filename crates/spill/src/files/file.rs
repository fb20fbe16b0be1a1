//! Spill files, in the form in which operators use them.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use datafusion_common::Result;
use datafusion_execution::{SpillFile, SpillWriter};
use futures::Stream;

use super::content::Content;
use super::reader;
use super::writer::Writer;

/// The handle of a file. It has no path, since its parts may lie in several places.
pub(super) struct StoredFile(Arc<Content>);

impl StoredFile {
    pub(super) fn new(content: Content) -> Self {
        Self(Arc::new(content))
    }
}

impl SpillFile for StoredFile {
    fn size(&self) -> Option<u64> {
        Some(self.0.size())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        Ok(Box::pin(reader::read(self.0.clone())))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer::open(self.0.clone())?))
    }
}
