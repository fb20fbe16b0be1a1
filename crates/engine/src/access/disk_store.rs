//! The local disk as an object store under a policy.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryFutureExt, TryStreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, ObjectStoreExt, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
    UploadPart,
};
use pushdowndb_contract::{Error, ErrorKind};
use tokio::runtime::Handle;

use super::disk;
use super::disk::Pinned;
use super::remote_store::to_object_store;
use super::rules::{Mode, Rules};

/// Maximum depth of nested folders in a listing: symbolic links may form a cycle.
const MAX_DEPTH: usize = 64;

/// Maximum number of files whose metadata is read at once.
const MAX_CONCURRENT_FILES: usize = 16;

/// The local disk as an object store that checks each call against the policy.
#[derive(Debug)]
pub(super) struct CheckedDisk {
    rules: Arc<Rules>,
    store: Arc<LocalFileSystem>,
}

/// An entry of a listed folder.
enum Found {
    /// A file: `named` is its path in the listing, `real` its path with links resolved.
    File { named: Path, real: Path },
    /// A link that leads out of the permitted locations, with the metadata of the link itself.
    Link(ObjectMeta),
}

impl CheckedDisk {
    pub(super) fn new(rules: Arc<Rules>) -> Self {
        Self { rules, store: Arc::new(LocalFileSystem::new()) }
    }

    /// Runs disk operations on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Rules) -> pushdowndb_contract::Result<T> + Send + 'static,
    ) -> Result<T> {
        let rules = Arc::clone(&self.rules);
        let done = tokio::task::spawn_blocking(move || work(&rules)).await;
        done.map_err(|source| object_store::Error::JoinError { source })?.map_err(to_object_store)
    }

    async fn pin(&self, location: &Path, is_made: bool) -> Result<(Pinned, Path)> {
        let path = file_path(location);
        let pinned = self.blocking(move |rules| rules.pin(&path, is_made)).await?;
        let through = Path::from_absolute_path(&pinned.file)?;
        Ok((pinned, through))
    }

    /// Lists a folder: if `is_deep`, all files below it; otherwise its direct files and folders.
    async fn walk(&self, prefix: Option<&Path>, is_deep: bool) -> Result<(Vec<ObjectMeta>, Vec<Path>)> {
        let folder = prefix.cloned().unwrap_or_default();
        let walked = self.blocking(move |rules| {
            let (mut files, mut folders) = (Vec::new(), BTreeSet::new());
            walk(rules, &file_path(&folder), is_deep, MAX_DEPTH, &mut files, &mut folders)?;
            Ok((files, folders.into_iter().collect()))
        });
        let (files, folders) = walked.await?;
        let looked_at = stream::iter(files).map(|found| async move {
            let (named, real) = match found {
                Found::File { named, real } => (named, real),
                Found::Link(meta) => return Ok(Some(meta)),
            };
            match self.store.head(&real).await {
                Ok(meta) => Ok(Some(ObjectMeta { location: named, ..meta })),
                // It was deleted meanwhile.
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        });
        let files =
            looked_at.buffered(MAX_CONCURRENT_FILES).try_filter_map(|found| async { Ok(found) }).try_collect().await?;
        Ok((files, folders))
    }
}

fn walk(
    rules: &Rules,
    folder: &FilePath,
    is_deep: bool,
    depth: usize,
    files: &mut Vec<Found>,
    folders: &mut BTreeSet<Path>,
) -> pushdowndb_contract::Result<()> {
    let Some(depth) = depth.checked_sub(1) else {
        let message = format!("{}: more than {MAX_DEPTH} folders in each other", folder.display());
        return Err(Error::new(ErrorKind::Limit, message));
    };
    let entries = match rules.real(Mode::Read, folder).map(fs::read_dir) {
        Ok(Ok(entries)) => entries,
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Ok(Err(error)) => return Err(disk::failed(folder, error)),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = folder.join(entry.map_err(|error| disk::failed(folder, error))?.file_name());
        let of = |path: &FilePath| {
            let read = Path::from_absolute_path(path);
            read.map_err(|error| {
                Error::invalid(format!("{}: is no path of objects", path.display())).with_source(error)
            })
        };
        // An entry may be a link. One that leads out of the permitted locations may be a folder
        // with rows, and omitting these silently would be worse than an error. So a deep listing
        // fails; a listing of direct entries shows the link itself, and opening it is refused.
        let real = match rules.real(Mode::Read, &path) {
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) if error.kind() == ErrorKind::Denied && !is_deep => {
                files.push(Found::Link(link(&path, of(&path)?)?));
                continue;
            }
            real => real?,
        };
        let metadata = fs::symlink_metadata(&real).map_err(|error| disk::failed(&path, error))?;
        if metadata.is_dir() {
            match is_deep {
                true => walk(rules, &path, is_deep, depth, files, folders)?,
                false => drop(folders.insert(of(&path)?)),
            }
        } else if metadata.is_file() && !is_being_written(&path) {
            files.push(Found::File { named: of(&path)?, real: of(&real)? });
        }
    }
    Ok(())
}

/// The metadata of a link itself.
fn link(path: &FilePath, location: Path) -> pushdowndb_contract::Result<ObjectMeta> {
    let metadata = fs::symlink_metadata(path).map_err(|error| disk::failed(path, error))?;
    let modified = metadata.modified().map_err(|error| disk::failed(path, error))?;
    Ok(ObjectMeta { location, last_modified: modified.into(), size: metadata.len(), e_tag: None, version: None })
}

/// Whether the store is still writing the file: such a name ends with `#` and a number.
fn is_being_written(path: &FilePath) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = name.split_once('#').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn file_path(location: &Path) -> PathBuf {
    FilePath::new("/").join(location.as_ref())
}

fn not_here(operation: &str) -> object_store::Error {
    object_store::Error::NotImplemented { operation: operation.to_owned(), implementer: "a checked disk".to_owned() }
}

impl fmt::Display for CheckedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.store.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for CheckedDisk {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        // `_pinned` is held until the write is done: the path leads through the open folder.
        let (_pinned, through) = self.pin(location, true).await?;
        self.store.put_opts(&through, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let (pinned, through) = self.pin(location, true).await?;
        let upload = self.store.put_multipart_opts(&through, options).await?;
        Ok(Box::new(PinnedUpload(Some((upload, pinned)))))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let path = file_path(location);
        let real = self.blocking({
            let path = path.clone();
            move |rules| {
                // Opened to check that it is a permitted file.
                rules.open(&path)?;
                rules.real(Mode::Read, &path)
            }
        });
        let real = Path::from_absolute_path(real.await?)?;
        let mut found = self.store.get_opts(&real, options).await?;
        if let GetResultPayload::File(file, _) = &found.payload {
            self.rules.check_opened(Mode::Read, &path, file).map_err(to_object_store)?;
        }
        found.meta.location = location.clone();
        Ok(found)
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let read = stream::iter(ranges.to_vec()).map(|range| async move {
            let range = Some(GetRange::Bounded(range));
            self.get_opts(location, GetOptions { range, ..GetOptions::default() }).await?.bytes().await
        });
        read.buffered(1).try_collect().await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let disk = Self { rules: Arc::clone(&self.rules), store: Arc::clone(&self.store) };
        locations
            .and_then(move |location| {
                let disk = Self { rules: Arc::clone(&disk.rules), store: Arc::clone(&disk.store) };
                async move {
                    let (_pinned, through) = disk.pin(&location, false).await?;
                    disk.store.delete(&through).await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let disk = Self { rules: Arc::clone(&self.rules), store: Arc::clone(&self.store) };
        let prefix = prefix.cloned();
        let listed = async move {
            let (files, _) = disk.walk(prefix.as_ref(), true).await?;
            Ok::<_, object_store::Error>(stream::iter(files.into_iter().map(Ok)))
        };
        listed.try_flatten_stream().boxed()
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        let offset = offset.clone();
        self.list(prefix).try_filter(move |found| std::future::ready(found.location > offset)).boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let (objects, common_prefixes) = self.walk(prefix, false).await?;
        Ok(ListResult { common_prefixes, objects })
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        Err(not_here("copying"))
    }

    async fn rename_opts(&self, _: &Path, _: &Path, _: RenameOptions) -> Result<()> {
        Err(not_here("renaming"))
    }
}

/// An upload, and the open folder that its paths lead through.
#[derive(Debug)]
struct PinnedUpload(Option<(Box<dyn MultipartUpload>, Pinned)>);

fn over() -> object_store::Error {
    object_store::Error::Generic { store: "upload", source: "it was completed or aborted already".into() }
}

#[async_trait]
impl MultipartUpload for PinnedUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        match &mut self.0 {
            Some((upload, _)) => upload.put_part(data),
            None => async { Err(over()) }.boxed(),
        }
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let (upload, _) = self.0.as_mut().ok_or_else(over)?;
        let completed = upload.complete().await?;
        self.0 = None;
        Ok(completed)
    }

    async fn abort(&mut self) -> Result<()> {
        match &mut self.0 {
            Some((upload, _)) => upload.abort().await,
            None => Ok(()),
        }
    }
}

impl Drop for PinnedUpload {
    fn drop(&mut self) {
        let Some((mut upload, pinned)) = self.0.take() else { return };
        // Aborting removes the partial file by its path, so the folder stays open until then.
        if let Ok(runtime) = Handle::try_current() {
            drop(runtime.spawn(async move {
                let _ = upload.abort().await;
                drop((upload, pinned));
            }));
        }
    }
}
