//! Writing a file.

use std::io::{self, Write};
use std::sync::Arc;

use datafusion_common::{Result, exec_err};
use datafusion_execution::SpillWriter;

use super::content::{Content, Phase};
use super::error::to_io;

/// The writer of a file. A file has at most one at a time.
///
/// Operators call [`Write::write`] while they are polled, so it does not wait for the network:
/// parts are uploaded by other threads. Only while the maximum number of uploads is in flight does
/// it block its thread; the thread's other tasks then continue on other threads.
pub(super) struct Writer {
    content: Arc<Content>,
    /// The length of the part being filled at which the local disk is tried next, normally and when
    /// the parts being filled exceed their limit on memory.
    next_try: usize,
    next_early_try: usize,
    is_open: bool,
}

impl Writer {
    pub(super) fn open(content: Arc<Content>) -> Result<Self> {
        content.fault.check()?;
        content.begin()?;
        let (next_try, next_early_try) = (content.tiers.disk_part, content.tiers.least_disk);
        Ok(Self { content, next_try, next_early_try, is_open: true })
    }

    fn append(&mut self, mut bytes: &[u8]) -> Result<()> {
        if !self.is_open {
            return exec_err!("{} is finished, so nothing can be written to it", self.content.name());
        }
        self.content.fault.check()?;
        while !bytes.is_empty() {
            let (taken, filled) = self.content.append(bytes);
            bytes = &bytes[taken..];
            self.place(filled)?;
        }
        Ok(())
    }

    /// Writes or uploads the part being filled, which has `filled` bytes, if it is long enough.
    /// When the parts being filled exceed their limit on memory, shorter parts are written, too.
    fn place(&mut self, filled: usize) -> Result<()> {
        let tiers = &self.content.tiers;
        let is_over = tiers.is_over_buffers();
        let is_for_store = filled >= tiers.remote_part || is_over && filled >= tiers.least_upload;
        if !is_for_store && filled < self.next_try && !(is_over && filled >= self.next_early_try) {
            return Ok(());
        }
        if let Err((reason, part)) = self.content.try_disk()? {
            if tiers.remote.is_some() && part.is_none() && !is_for_store {
                // The disk is not tried again with each write, since that costs a system call.
                self.next_try = filled + tiers.disk_part;
                self.next_early_try = filled + tiers.least_disk;
                return Ok(());
            }
            self.content.upload(part, &reason)?;
        }
        self.next_try = tiers.disk_part;
        self.next_early_try = tiers.least_disk;
        self.content.fault.changed.notify_waiters();
        Ok(())
    }

    fn place_last(&mut self) -> Result<()> {
        if self.content.state.lock().tail.is_empty() {
            return Ok(());
        }
        let (reason, part) = match self.content.try_disk()? {
            Ok(()) => return Ok(()),
            Err(refusal) => refusal,
        };
        if part.is_none() && self.content.try_keep()? {
            return Ok(());
        }
        self.content.upload(part, &reason)
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.append(bytes).map_err(|error| to_io(self.content.fault.set(error)))?;
        Ok(bytes.len())
    }

    /// Wakes readers, which can also read the part that is being filled.
    fn flush(&mut self) -> io::Result<()> {
        self.content.fault.changed.notify_waiters();
        self.content.fault.check().map_err(to_io)
    }
}

impl SpillWriter for Writer {
    /// Stores the last part. Does not wait for uploads to end; if one fails, readers get its error.
    fn finish(&mut self) -> Result<()> {
        if self.is_open {
            let placed = self.place_last();
            self.is_open = false;
            if let Err(error) = placed {
                let error = self.content.fault.set(error);
                self.content.end(Phase::Abandoned);
                return Err(error);
            }
            self.content.end(Phase::Finished);
        }
        self.content.fault.check()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if self.is_open {
            self.content.end(Phase::Abandoned);
        }
    }
}
