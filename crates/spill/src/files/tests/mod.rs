//! Tests of the files as operators use them, over real folders and stores.

mod cleaning;
mod counts;
mod faults;
mod operators;
mod random;
mod store;

use std::io::Write;
use std::path::Path as FsPath;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use datafusion_common::Result;
use datafusion_execution::{SpillFile, TempFileFactory};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use rand::RngCore;
use rand::rngs::StdRng;

use super::{DiskOptions, QueryOptions, QuerySpill, RemoteStore, SpillProcess};
use store::TestStore;

/// Creates a process that spills to `folder`, without a reserve, since a test machine may have
/// little free disk space.
fn process(folder: &FsPath, quota_bytes: u64) -> SpillProcess {
    SpillProcess::new(DiskOptions { folder: folder.to_owned(), quota_bytes, reserve_bytes: Some(0) })
}

fn remote(store: &Arc<TestStore>) -> RemoteStore {
    RemoteStore { store: store.clone(), prefix: Path::from("tmp/spill"), url: "s3://bucket/tmp/spill".into() }
}

/// Options for parts of `part_bytes` in `store` alone.
fn remote_only(store: &Arc<TestStore>, part_bytes: usize) -> QueryOptions {
    QueryOptions { disk: false, remote: Some(remote(store)), part_bytes, ..QueryOptions::default() }
}

/// Writes `content` to a new file of `query`, and finishes it.
fn write(query: &QuerySpill, content: &[u8]) -> Result<Arc<dyn SpillFile>> {
    let file = query.create_temp_file("test")?;
    let mut writer = file.open_writer()?;
    writer.write_all(content)?;
    writer.finish()?;
    Ok(file)
}

async fn read(file: &Arc<dyn SpillFile>) -> Result<Vec<u8>> {
    let chunks: Vec<Bytes> = file.read_stream()?.try_collect().await?;
    Ok(chunks.concat())
}

fn random_bytes(rng: &mut StdRng, bytes: usize) -> Vec<u8> {
    let mut content = vec![0; bytes];
    rng.fill_bytes(&mut content);
    content
}

/// The keys of all objects.
async fn keys(store: &dyn ObjectStore) -> Vec<String> {
    let mut keys: Vec<_> = store.list(None).map(|object| object.unwrap().location.to_string()).collect().await;
    keys.sort();
    keys
}

/// The paths of all files below `folder`.
fn files(folder: &FsPath) -> Vec<std::path::PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Waits until `folder` is empty. The folder of a process is removed by the last owner that drops
/// it, which may be in the background.
async fn is_emptied(folder: &FsPath) {
    while std::fs::read_dir(folder).unwrap().next().is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Changes one bit of the object `key`.
async fn flip_bit(store: &dyn ObjectStore, key: &str, bit: usize) {
    let key = Path::from(key);
    let mut bytes = store.get(&key).await.unwrap().bytes().await.unwrap().to_vec();
    let bit = bit % (bytes.len() * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
    store.put(&key, bytes.into()).await.unwrap();
}
