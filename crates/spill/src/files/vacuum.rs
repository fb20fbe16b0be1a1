//! Deletion, on request, of data that dead processes left.

use std::collections::HashSet;
use std::time::Duration;

use datafusion_common::{DataFusionError, Result};
use futures::TryStreamExt;
use object_store::{ObjectMeta, ObjectStoreExt};

use super::cleanup::{DELETE_KEYS, Freed, after_dead_processes, age_of, delete, delete_query, find_query};
use super::error;
use super::manifest::{ENDING, MAX_MANIFEST_BYTES, Manifest, QueryName};
use super::options::RemoteStore;
use super::process::SpillProcess;
use super::runtime::Job;
use super::usage::SpillMeter;

/// Deletes data that dead processes spilled to the local disk of `process` and to `remotes` and
/// that was written longer than `older_than` ago. Returns what was deleted.
///
/// First, local folders are removed; their locks show that their processes are dead. Then the parts
/// that the manifests in the object stores allow are deleted by number, and at last parts without a
/// manifest. Data of living processes that spill to the same local disk is never deleted. Other
/// processes rewrite their manifests at an interval
/// ([`QueryOptions::manifest_interval`](super::QueryOptions)). `older_than` must be far longer than
/// that interval, or the data of their running queries is deleted.
///
/// Only keys of the form that this module writes are deleted. An error is returned only after
/// everything that could be deleted was deleted.
pub async fn vacuum(process: &SpillProcess, remotes: &[RemoteStore], older_than: Duration) -> Result<Vec<Freed>> {
    let (process, remotes) = (process.clone(), remotes.to_vec());
    Job::start(async move {
        let sweep = after_dead_processes(&process.root(), &remotes, older_than, true).await;
        let mut freed = sweep.freed;
        let mut first = sweep.failed.map_or(Ok(()), |failed| Err(DataFusionError::Execution(failed)));
        for remote in &remotes {
            let vacuumed = Vacuum { process: &process, remote, older_than, freed: &mut freed }.run().await;
            first = first.and(vacuumed);
        }
        first.map(|()| freed)
    })?
    .await?
}

struct Vacuum<'a> {
    process: &'a SpillProcess,
    remote: &'a RemoteStore,
    older_than: Duration,
    freed: &'a mut Vec<Freed>,
}

impl Vacuum<'_> {
    async fn run(&mut self) -> Result<()> {
        let RemoteStore { store, prefix, url } = self.remote;
        // This lists only the folders of parts, so its cost depends on the number of queries, not
        // of parts.
        let listed = store.list_with_delimiter(Some(prefix)).await;
        let listed = listed.map_err(|error| error::remote("listed", url, error))?;
        let mut first = Ok(());
        let mut with_manifest = HashSet::new();
        for object in &listed.objects {
            let name = object.location.filename().and_then(|file| QueryName::parse(file.strip_suffix(ENDING)?));
            let Some(name) = name else { continue };
            with_manifest.insert(name);
            if age_of(object) < self.older_than || self.process.is_live(name.node) {
                continue;
            }
            first = first.and(self.query(object, name).await);
        }
        for folder in &listed.common_prefixes {
            let Some(name) = folder.filename().and_then(QueryName::parse) else { continue };
            if with_manifest.contains(&name) || self.process.is_live(name.node) {
                continue;
            }
            first = first.and(self.orphans(name).await);
        }
        first
    }

    /// Deletes the manifest `object` of a query and the query's parts.
    async fn query(&mut self, object: &ObjectMeta, name: QueryName) -> Result<()> {
        let failed = |error| error::remote("deleted", object.location.as_ref(), error);
        let found = find_query(self.remote, name).await.map_err(failed)?;
        let age = found.age.map_or(age_of(object), |age| age.min(age_of(object)));
        if age < self.older_than {
            return Ok(());
        }
        match self.manifest(object, name).await? {
            Some(manifest) => delete_query(self.remote, &manifest).await.map_err(failed)?,
            None => {
                // Without a usable manifest, the parts are found by a LIST.
                self.orphans(name).await?;
                let manifest = std::iter::once(object.location.clone());
                return delete(self.remote, manifest, &SpillMeter::default()).await.map_err(failed);
            }
        }
        self.push(name, found.files, found.bytes, age);
        Ok(())
    }

    /// Reads the manifest `object` of the query `name`. Returns `None` if it is damaged or gone.
    async fn manifest(&self, object: &ObjectMeta, name: QueryName) -> Result<Option<Manifest>> {
        let failed = |error| error::remote("read", object.location.as_ref(), error);
        if object.size > MAX_MANIFEST_BYTES {
            return Ok(None);
        }
        let got = match self.remote.store.get(&object.location).await {
            // Another cleaner was faster; what it left is found by a LIST.
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            got => got.map_err(failed)?,
        };
        let json = got.bytes().await.map_err(failed)?;
        Ok(Manifest::from_json(&json).ok().filter(|manifest| manifest.name() == name))
    }

    /// Finds the parts of a query without a manifest by a LIST, and deletes them.
    async fn orphans(&mut self, name: QueryName) -> Result<()> {
        let folder = name.folder(&self.remote.prefix);
        let failed = |error| error::remote("deleted", folder.as_ref(), error);
        let (mut keys, mut files, mut bytes, mut least) = (Vec::new(), 0, 0, Duration::MAX);
        let mut objects = self.remote.store.list(Some(&folder));
        loop {
            let object = objects.try_next().await.map_err(failed)?;
            // Deleted in batches, since the keys of all parts may not fit into memory.
            if object.is_none() || keys.len() == DELETE_KEYS {
                let some = std::mem::take(&mut keys);
                delete(self.remote, some.into_iter(), &SpillMeter::default()).await.map_err(failed)?;
            }
            let Some(object) = object else { break };
            let number = object.location.filename().and_then(|file| file.parse::<u64>().ok());
            let is_part = number.is_some_and(|number| name.part(&self.remote.prefix, number) == object.location);
            let age = age_of(&object);
            if is_part && age >= self.older_than {
                keys.push(object.location);
                (files, bytes, least) = (files + 1, bytes + object.size, least.min(age));
            }
        }
        if files > 0 {
            self.push(name, files, bytes, least);
        }
        Ok(())
    }

    fn push(&mut self, name: QueryName, files: u64, bytes: u64, age: Duration) {
        let (place, query) = (self.remote.url.clone(), name.query.to_string());
        self.freed.push(Freed { place, query, files, bytes, age });
    }
}
