//! The parts of one query in an object store.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use datafusion_common::{DataFusionError, Result};
use object_store::ObjectStoreExt;
use object_store::path::Path;
use parking_lot::Mutex;
use uuid::Uuid;

use super::cleanup::{DELETE_KEYS, delete};
use super::disk;
use super::error;
use super::manifest::{ENDING, MAX_PARTS, Manifest, QueryName};
use super::options::{QueryOptions, RemoteStore};
use super::process::SpillProcess;
use super::runtime::{self, Job};
use super::slots::{Slot, Slots};
use super::usage::SpillMeter;

/// The parts that a query has uploaded. Makes no request before the first part.
#[derive(Debug)]
pub(super) struct RemoteParts {
    remote: RemoteStore,
    name: QueryName,
    process: SpillProcess,
    /// Limits the uploads in flight.
    pub slots: Arc<Slots>,
    /// Limits the deletions in flight before the end of the query to one.
    deletions: Arc<Slots>,
    next: AtomicU64,
    uploaded_parts: AtomicU64,
    uploaded_bytes: AtomicU64,
    /// The numbers of parts that have no reader left and are to be deleted.
    discarded: Mutex<Vec<u64>>,
    manifest: tokio::sync::Mutex<ManifestState>,
    interval: Duration,
    meter: SpillMeter,
}

#[derive(Debug)]
struct ManifestState {
    /// The manifest that was written last; its bound is 0 before the first one is written.
    manifest: Manifest,
    has_ended: bool,
    heartbeat: Option<Job<()>>,
}

impl RemoteParts {
    /// Creates the parts of `query` in `remote`, of which there are none yet.
    pub(super) fn new(
        process: &SpillProcess,
        query: Uuid,
        remote: &RemoteStore,
        options: &QueryOptions,
        meter: &SpillMeter,
    ) -> Self {
        let manifest = Manifest::new(process.node(), query, &remote.url, &remote.prefix);
        Self {
            remote: remote.clone(),
            name: manifest.name(),
            process: process.clone(),
            slots: Slots::new(options.uploads),
            deletions: Slots::new(1),
            next: AtomicU64::new(0),
            uploaded_parts: AtomicU64::new(0),
            uploaded_bytes: AtomicU64::new(0),
            discarded: Mutex::new(Vec::new()),
            manifest: tokio::sync::Mutex::new(ManifestState { manifest, has_ended: false, heartbeat: None }),
            interval: options.manifest_interval,
            meter: meter.clone(),
        }
    }

    pub(super) fn store(&self) -> &RemoteStore {
        &self.remote
    }

    /// Returns the key of part `number`.
    pub(super) fn key(&self, number: u64) -> Path {
        self.name.part(&self.remote.prefix, number)
    }

    /// Starts to upload `bytes`. At the end, `done` is called with the number of the part, or an
    /// error, and returns whether the part still has a reader.
    pub(super) fn upload(
        self: &Arc<Self>,
        slot: Slot,
        bytes: Bytes,
        done: impl FnOnce(Result<u64>) -> bool + Send + 'static,
    ) -> Result<()> {
        let (parts, number) = (self.clone(), self.next.fetch_add(1, Relaxed));
        runtime::spawn(async move {
            let result = parts.put(number, bytes).await;
            let is_stored = result.is_ok();
            let is_read = done(result.map(|()| number));
            // Even after an error, the store may have stored the part.
            if !is_stored || !is_read {
                parts.discard(number);
            }
            drop(slot);
        })
    }

    async fn put(self: &Arc<Self>, number: u64, bytes: Bytes) -> Result<()> {
        self.allow(number).await?;
        let (key, size) = (self.key(number), bytes.len());
        self.meter.put();
        self.remote
            .store
            .put(&key, bytes.into())
            .await
            .map_err(|error| error::remote("uploaded", key.as_ref(), error))?;
        self.meter.wrote_remote(size);
        self.uploaded_parts.fetch_add(1, Relaxed);
        self.uploaded_bytes.fetch_add(size as u64, Relaxed);
        Ok(())
    }

    /// Ensures that the stored manifest allows part `number`.
    async fn allow(self: &Arc<Self>, number: u64) -> Result<()> {
        let mut state = self.manifest.lock().await;
        if number < state.manifest.bound {
            return Ok(());
        }
        let bound = state.manifest.bound_for(number).ok_or_else(|| {
            DataFusionError::ResourcesExhausted(format!(
                "the query has spilled {MAX_PARTS} parts to {}; raise pushdown.memory or pushdown.spill_disk_bytes",
                self.remote.url
            ))
        })?;
        self.write(&mut state, bound).await?;
        if state.heartbeat.is_none() {
            state.heartbeat = Some(self.heartbeat()?);
        }
        Ok(())
    }

    /// Writes the manifest with `bound`, first to the local disk. A process that starts later can
    /// clean up by either copy.
    async fn write(&self, state: &mut ManifestState, bound: u64) -> Result<()> {
        let mut manifest = state.manifest.clone();
        manifest.bound = bound;
        manifest.parts = self.uploaded_parts.load(Relaxed);
        manifest.bytes = self.uploaded_bytes.load(Relaxed);
        let json = manifest.to_json().map_err(|error| DataFusionError::External(Box::new(error)))?;
        // If the local copy cannot be written, VACUUM can still use the manifest in the store.
        if let Some(copy) = self.copy()
            && let Err(error) = disk::replace(&copy, &json)
        {
            tracing::warn!(path = %copy.display(), %error, "a manifest of spilled data has no local copy");
        }
        let key = self.name.manifest(&self.remote.prefix);
        self.meter.put();
        let put = self.remote.store.put(&key, json.into()).await;
        put.map_err(|error| error::remote("written", key.as_ref(), error))?;
        state.manifest = manifest;
        Ok(())
    }

    /// Returns the path of the manifest's local copy; `None` if the process has no local folder.
    fn copy(&self) -> Option<PathBuf> {
        let folder = self.process.folder(Some(&self.remote)).ok()?;
        Some(folder.join(format!("{}{ENDING}", self.name.query.simple())))
    }

    /// Starts to rewrite the manifest at intervals, so that its age shows that the query is alive.
    fn heartbeat(self: &Arc<Self>) -> Result<Job<()>> {
        let (parts, interval) = (Arc::downgrade(self), self.interval);
        Job::start(async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(parts) = parts.upgrade() else { return };
                let mut state = parts.manifest.lock().await;
                if state.has_ended {
                    return;
                }
                let bound = state.manifest.bound;
                if let Err(error) = parts.write(&mut state, bound).await {
                    tracing::warn!(%error, "a manifest of spilled data was not rewritten");
                }
            }
        })
    }

    /// Marks the part `number` for deletion. Parts are deleted [`DELETE_KEYS`] at a time.
    pub(super) fn discard(self: &Arc<Self>, number: u64) {
        let (some, slot) = {
            let mut discarded = self.discarded.lock();
            discarded.push(number);
            // Fewer parts than that are deleted at the end of the query.
            if discarded.len() < DELETE_KEYS {
                return;
            }
            let Some(slot) = self.deletions.try_take() else { return };
            (std::mem::take(&mut *discarded), slot)
        };
        let parts = self.clone();
        let deletion = async move {
            if let Err(some) = parts.delete(some).await {
                parts.discarded.lock().extend(some);
            }
            drop(slot);
        };
        // If there are no threads, nothing was uploaded.
        let _ = runtime::spawn(deletion);
    }

    /// Deletes the parts `numbers`. Returns `numbers` if an error occurs.
    async fn delete(&self, numbers: Vec<u64>) -> Result<(), Vec<u64>> {
        let (name, prefix) = (self.name, self.remote.prefix.clone());
        let keys = numbers.clone().into_iter().map(move |number| name.part(&prefix, number));
        match delete(&self.remote, keys, &self.meter).await {
            Ok(()) => Ok(()),
            Err(error) => {
                tracing::warn!(query = %self.name, %error, "spilled parts could not be deleted");
                Err(numbers)
            }
        }
    }

    /// Deletes everything in the background, once the uploads in flight are done. Expects that
    /// every part was discarded, or will be by its upload. If the query has uploaded nothing, no
    /// request is made.
    pub(super) fn end(self: Arc<Self>) {
        if self.next.load(Relaxed) == 0 && self.slots.is_all_free() {
            return;
        }
        let ending = self.process.ending();
        let _ = runtime::spawn(async move {
            let _ending = ending;
            // Uploads are not cancelled: a cancelled one could still reach the store after the
            // deletion.
            self.slots.all_free().await;
            self.deletions.all_free().await;
            let mut state = self.manifest.lock().await;
            state.has_ended = true;
            state.heartbeat = None;
            let discarded = std::mem::take(&mut *self.discarded.lock());
            if self.delete(discarded).await.is_err() {
                // The manifest is not deleted, so that the parts can be found.
                return;
            }
            let key = self.name.manifest(&self.remote.prefix);
            if let Err(error) = delete(&self.remote, std::iter::once(key), &self.meter).await {
                tracing::warn!(query = %self.name, %error, "a manifest of spilled data could not be deleted");
                return;
            }
            if let Some(copy) = self.copy() {
                let _ = std::fs::remove_file(copy);
            }
        });
    }
}
