//! What was acknowledged survives; what was not leaves nothing behind.

use std::fs;
use std::time::{Duration, Instant};

use object_store::ObjectStoreExt;
use object_store::multipart::MultipartStore;
use object_store::path::Path;
use pushdowndb_node::{NodeConfig, start};

use crate::world::{BUCKET, World, client, serve};

#[tokio::test(flavor = "multi_thread")]
async fn objects_survive_a_restart() {
    let world = World::new().await;
    let path = Path::from("a/b");
    let put = world.client().put(&path, "kept".into()).await.unwrap();
    let later = Path::from("later");
    let upload = world.client().create_multipart(&later).await.unwrap();
    let part = world.client().put_part(&later, &upload, 0, "part".into()).await.unwrap();
    let world = world.restart().await;
    let got = world.client().get(&path).await.unwrap();
    assert_eq!(got.meta.e_tag, put.e_tag);
    assert_eq!(got.bytes().await.unwrap(), "kept");
    world.client().complete_multipart(&later, &upload, vec![part]).await.unwrap();
    assert_eq!(world.client().get(&later).await.unwrap().bytes().await.unwrap(), "part");
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
    assert!(!draft.exists());
    let patience = Instant::now();
    while orphan.exists() {
        assert!(patience.elapsed() < Duration::from_secs(10));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
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
