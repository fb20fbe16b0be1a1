//! What was acknowledged survives; what was not leaves nothing behind.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use pushdowndb_node::{NodeConfig, start};

use crate::child::Child;
use crate::world::{BUCKET, World, client, serve};

#[tokio::test(flavor = "multi_thread")]
async fn objects_survive_a_restart() {
    let world = World::new().await;
    let path = Path::from("a/b");
    let put = world.client().put(&path, "kept".into()).await.unwrap();
    let mut upload = world.client().put_multipart(&Path::from("later")).await.unwrap();
    upload.put_part("part".into()).await.unwrap();
    let world = world.restart().await;
    let got = world.client().get(&path).await.unwrap();
    assert_eq!(got.meta.e_tag, put.e_tag);
    assert_eq!(got.bytes().await.unwrap(), "kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_a_crash_are_removed() {
    let world = World::new().await;
    world.client().put(&Path::from("a"), "kept".into()).await.unwrap();
    let store = world.dir.path().join("store");
    world.node.shutdown().await;
    let draft = store.join("tmp/0123");
    let orphan = store.join("data/00/00000000000000000000000000000000");
    fs::create_dir_all(orphan.parent().unwrap()).unwrap();
    fs::write(&draft, "half").unwrap();
    fs::write(&orphan, "nobody's").unwrap();
    let node = serve(world.dir.path()).await;
    assert!(!draft.exists() && !orphan.exists());
    assert_eq!(client(&node, BUCKET).get(&Path::from("a")).await.unwrap().bytes().await.unwrap(), "kept");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_that_are_no_store_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("precious"), "x").unwrap();
    let error = start(NodeConfig::store(dir.path())).await.unwrap_err();
    assert!(error.to_string().contains("--gateway"), "{error}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);

    let world = World::new().await;
    let twice = start(NodeConfig::store(world.dir.path().join("store"))).await.unwrap_err();
    assert!(twice.to_string().contains("another node"), "{twice}");
    let version = world.dir.path().join("store/VERSION");
    world.node.shutdown().await;
    fs::write(version, "pushdowndb store 99\n").unwrap();
    let newer = start(NodeConfig::store(world.dir.path().join("store"))).await.unwrap_err();
    assert!(newer.to_string().contains("99"), "{newer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let acknowledged: Vec<AtomicUsize> = (0..8).map(|_| AtomicUsize::new(0)).collect();
    let acknowledged = Arc::new(acknowledged);
    for round in 1..=3 {
        let mut child = Child::serve(dir.path());
        let client = child.client();
        // Each writer replaces its key by ever longer bodies, until the server is gone.
        let target = round * 10;
        let writers = stream::iter(0..8usize).map(|writer| {
            let (client, acknowledged) = (client.clone(), Arc::clone(&acknowledged));
            async move {
                loop {
                    let next = acknowledged[writer].load(Ordering::SeqCst) + 1;
                    let body = format!("{next}|").repeat(next * 100);
                    if client.put(&Path::from(format!("k{writer}")), body.into()).await.is_err() {
                        return;
                    }
                    acknowledged[writer].store(next, Ordering::SeqCst);
                }
            }
        });
        let watch = Arc::clone(&acknowledged);
        let killer = async move {
            while watch.iter().map(|count| count.load(Ordering::SeqCst)).sum::<usize>() < target * 8 {
                tokio::task::yield_now().await;
            }
            child.kill();
        };
        tokio::join!(writers.buffer_unordered(8).collect::<Vec<()>>(), killer);
    }
    let node = serve(dir.path()).await;
    let client = client(&node, BUCKET);
    for (writer, count) in acknowledged.iter().enumerate() {
        let body = client.get(&Path::from(format!("k{writer}"))).await.unwrap().bytes().await.unwrap();
        let body = std::str::from_utf8(&body).unwrap();
        let version: usize = body.split('|').next().unwrap().parse().unwrap();
        let count = count.load(Ordering::SeqCst);
        // The write under way when the server died may have happened or not, as a whole.
        assert!(version == count || version == count + 1, "{version} after {count} acknowledged");
        assert_eq!(body, format!("{version}|").repeat(version * 100));
    }
    assert_eq!(client.list(None).try_collect::<Vec<_>>().await.unwrap().len(), 8);
    let data = dir.path().join("store/data");
    let files = fs::read_dir(data).unwrap().map(|folder| fs::read_dir(folder.unwrap().path()).unwrap().count());
    assert_eq!(files.sum::<usize>(), 8);
    node.shutdown().await;
}
