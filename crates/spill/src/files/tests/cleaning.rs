//! Cleaning up after killed processes: what is deleted, and that data of other processes is not.

use std::sync::atomic::Ordering::SeqCst;

use crate::files::{Freed, vacuum};

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

/// Spills a file to `folder` and to `store` in a process, and then simulates that it is killed.
async fn killed(folder: &FsPath, store: &Arc<TestStore>) -> QuerySpill {
    let process = process(folder, 2000);
    let options = QueryOptions { disk: true, ..remote_only(store, 1000) };
    let query = QuerySpill::new(&process, &options).unwrap();
    let file = write(&query, &[7; 5500]).unwrap();
    query.uploads_done().await;
    assert_eq!((process.disk_bytes(), query.usage().remote_bytes_written), (2000, 3500));
    // The process's own search for dead processes must be over, so that it does not find itself.
    process.settle().await;
    process.die();
    std::mem::forget((file, query.clone(), process));
    query
}

/// Returns the rows without their ages, which no test checks.
fn rows(freed: Vec<Freed>) -> Vec<(String, String, u64, u64)> {
    let mut rows: Vec<_> = freed.into_iter().map(|row| (row.place, row.query, row.files, row.bytes)).collect();
    rows.sort();
    rows
}

#[tokio::test]
async fn the_next_process_that_spills_removes_what_a_killed_one_left_without_a_list() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    std::mem::forget(killed(folder.path(), &store).await);
    assert_eq!(keys(&*store.inner).await.len(), 5, "four parts and the manifest");
    assert_eq!(files(folder.path()).len(), 3, "the lock, a file and the copy of the manifest");

    let other_folder = folder.path().join("pushdowndb-spill/not-ours");
    std::fs::create_dir(&other_folder).unwrap();
    let process = process(folder.path(), 0);
    // A process without access to the store removes the local data, and leaves the manifest.
    let local = QuerySpill::new(&process, &QueryOptions::default()).unwrap();
    let file = write(&local, &[1; 10]).unwrap();
    process.settle().await;
    assert_eq!(files(folder.path()).len(), 4, "the dead lock and manifest, the live lock and file");
    drop((file, local));
    let (root, node) = (folder.path().join("pushdowndb-spill"), process.node().simple().to_string());
    drop(process);
    while root.join(&node).exists() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    let process = super::process(folder.path(), 0);
    let options = QueryOptions { remote: Some(remote(&store)), ..QueryOptions::default() };
    let query = QuerySpill::new(&process, &options).unwrap();
    let file = write(&query, &[1; 10]).unwrap();
    process.settle().await;
    assert_eq!(keys(&*store.inner).await, Vec::<String>::new());
    assert_eq!(store.lists.load(SeqCst), 0);
    // All part numbers below the bound were deleted, then the manifest.
    assert_eq!((store.deletes.load(SeqCst), store.deleted_keys.lock().len()), (2, 65));
    assert_eq!(files(folder.path()).len(), 2, "of the living process");
    assert_eq!(read(&file).await.unwrap(), [1; 10]);
    assert!(other_folder.exists());
}

#[tokio::test]
async fn vacuum_frees_what_is_old_and_dead_and_nothing_else() {
    let (folder, other, store) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), TestStore::new());
    // One process of this machine is dead, one of another machine, and one of this machine lives.
    let dead = killed(folder.path(), &store).await;
    let elsewhere = killed(other.path(), &store).await;
    let live = process(folder.path(), 2000);
    let options = QueryOptions { disk: true, ..remote_only(&store, 1000) };
    // The live process removes the local data of the dead one, but not its parts in a store that
    // the live process does not know.
    let hidden = RemoteStore { url: "s3://elsewhere".into(), ..remote(&store) };
    let options = QueryOptions { remote: Some(hidden), ..options };
    let query = QuerySpill::new(&live, &options).unwrap();
    let file = write(&query, &[9; 5500]).unwrap();
    query.uploads_done().await;
    live.settle().await;
    let stray = "tmp/spill/notes.txt";
    store.inner.put(&Path::from(stray), "kept".into()).await.unwrap();
    let orphan = format!("tmp/spill/{}_{}", dead.query().simple(), dead.query().simple());
    for name in ["0", "17", "no-part"] {
        store.inner.put(&Path::from(format!("{orphan}/{name}")), vec![1; 100].into()).await.unwrap();
    }
    let before = keys(&*store.inner).await;

    let user = process(folder.path(), 0);
    let remotes = [remote(&store)];
    assert_eq!(vacuum(&user, &remotes, DAY).await.unwrap(), []);
    assert_eq!(keys(&*store.inner).await, before);

    let lists = store.lists.load(SeqCst);
    let freed = rows(vacuum(&user, &remotes, Duration::ZERO).await.unwrap());
    let url = remote(&store).url;
    let mut expected = vec![
        (url.clone(), dead.query().to_string(), 4, 3500),
        (url.clone(), elsewhere.query().to_string(), 4, 3500),
        (url, dead.query().to_string(), 2, 200),
    ];
    expected.sort();
    assert_eq!(freed, expected);
    // One LIST for the dead folder, one for the prefix, and one for each of the queries there.
    assert_eq!(store.lists.load(SeqCst) - lists, 4);
    assert_eq!(read(&file).await.unwrap(), [9; 5500]);
    let left = keys(&*store.inner).await;
    let of_live = left.iter().filter(|key| key.contains(&live.node().simple().to_string())).count();
    assert_eq!((of_live, left.len()), (5, 7), "{left:?}");
    assert!(left.contains(&stray.to_owned()) && left.contains(&format!("{orphan}/no-part")));
    assert_eq!(vacuum(&user, &remotes, Duration::ZERO).await.unwrap(), []);

    drop((file, query));
    live.settle().await;
    assert_eq!(keys(&*store.inner).await.len(), 2);
    std::mem::forget((dead, elsewhere));
}

#[tokio::test]
async fn vacuum_frees_local_folders_and_parts_of_a_damaged_manifest() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let dead = killed(folder.path(), &store).await;
    let node_folder = files(folder.path())[0].parent().unwrap().to_owned();
    for path in files(folder.path()).into_iter().filter(|path| path.extension().is_some()) {
        std::fs::write(path, "{").unwrap();
    }
    let manifest = keys(&*store.inner).await.into_iter().find(|key| key.ends_with(".meta")).unwrap();
    store.inner.put(&Path::from(manifest), "{}".into()).await.unwrap();
    let user = process(folder.path(), 0);
    let freed = rows(vacuum(&user, &[remote(&store)], Duration::ZERO).await.unwrap());
    let query = dead.query().to_string();
    let mut expected =
        vec![(node_folder.display().to_string(), query.clone(), 1, 2000), (remote(&store).url, query, 4, 3500)];
    expected.sort();
    assert_eq!(freed, expected);
    assert_eq!(keys(&*store.inner).await, Vec::<String>::new());
    assert!(std::fs::read_dir(folder.path().join("pushdowndb-spill")).unwrap().next().is_none());
    std::mem::forget(dead);
}

#[tokio::test]
async fn the_manifest_is_rewritten_while_the_query_lives() {
    let (folder, store) = (tempfile::tempdir().unwrap(), TestStore::new());
    let process = process(folder.path(), 0);
    let options = QueryOptions { manifest_interval: Duration::from_millis(5), ..remote_only(&store, 1000) };
    let query = QuerySpill::new(&process, &options).unwrap();
    let file = write(&query, &[1; 3000]).unwrap();
    while store.puts.load(SeqCst) < 8 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let manifest = store.put_keys.lock()[0].clone();
    let json = store.inner.get(&Path::from(manifest)).await.unwrap().bytes().await.unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!((&manifest["bound"], &manifest["parts"], &manifest["bytes"]), (&64.into(), &3.into(), &3000.into()));
    drop((file, query));
    process.settle().await;
    let puts = store.puts.load(SeqCst);
    tokio::time::sleep(Duration::from_millis(30)).await;
    assert_eq!(store.puts.load(SeqCst), puts, "not after its end");
    assert_eq!(keys(&*store.inner).await, Vec::<String>::new());
}
