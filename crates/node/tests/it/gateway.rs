//! A folder served as it is.

use std::fs;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt};
use pushdown::ErrorKind;
use pushdowndb_node::{NodeConfig, start};
use url::Url;

use crate::world::client;

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_one_bucket_that_nobody_writes_to() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("lake");
    fs::create_dir_all(dir.join("year=2024")).unwrap();
    fs::write(dir.join("year=2024/a.csv"), "x,y\n1,2\n").unwrap();
    fs::write(dir.join("readme"), "hello").unwrap();
    let node = start(NodeConfig::gateway(Url::from_file_path(&dir).unwrap())).await.unwrap();
    assert_eq!(node.credentials_file(), None);
    let client = client(&node, "lake");
    let listed: Vec<_> = client.list(None).try_collect().await.unwrap();
    let names: Vec<_> = listed.iter().map(|meta| meta.location.as_ref()).collect();
    assert_eq!(names, ["readme", "year=2024/a.csv"]);
    let path = Path::from("year=2024/a.csv");
    let got = client.get(&path).await.unwrap();
    let etag = got.meta.e_tag.clone();
    assert!(etag.as_ref().unwrap().contains('-'));
    assert_eq!(listed[1].e_tag, etag);
    assert_eq!(got.bytes().await.unwrap(), "x,y\n1,2\n");
    assert_eq!(client.get_range(&path, 4..7).await.unwrap(), "1,2");

    let refused = client.put(&path, "z".into()).await.unwrap_err();
    assert!(matches!(refused, Error::PermissionDenied { .. }), "{refused:?}");
    assert!(refused.to_string().contains("read-only"), "{refused}");
    assert!(client.delete(&path).await.is_err());
    assert!(client.put_multipart(&path).await.is_err());
    assert!(client.copy(&path, &Path::from("copy")).await.is_err());
    assert_eq!(node.create_bucket("more").await.unwrap_err().kind(), ErrorKind::Denied);
    assert_eq!(fs::read_dir(&dir).unwrap().count(), 2);

    // Another file under the same name is another version.
    fs::write(dir.join("fresh"), "new").unwrap();
    fs::rename(dir.join("fresh"), dir.join("year=2024/a.csv")).unwrap();
    let stale = client.get_opts(&path, GetOptions { if_match: etag, ..Default::default() }).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_served_is_said_at_the_start() {
    let refused = |url: &str| start(NodeConfig::gateway(Url::parse(url).unwrap()));
    // One feature of object_store away.
    assert_eq!(refused("gs://bucket/prefix").await.unwrap_err().kind(), ErrorKind::Unsupported);
    let missing = refused("file:///no/such/folder").await.unwrap_err();
    assert!(missing.to_string().contains("/no/such/folder"), "{missing}");
}
