//! A folder served as it is.

use std::fs;
use std::os::unix::fs::symlink;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use pushdowndb_contract::ErrorKind;
use pushdowndb_node::{Gateway, NodeConfig, Storage, start};
use url::Url;

use crate::wire;
use crate::world::client;

#[tokio::test(flavor = "multi_thread")]
async fn a_read_only_folder_is_one_bucket_that_nobody_writes_to() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("lake");
    fs::create_dir_all(dir.join("year=2024")).unwrap();
    fs::write(dir.join("year=2024/a.csv"), "x,y\n1,2\n").unwrap();
    fs::write(dir.join("readme"), "hello").unwrap();
    let read_only = Gateway { read_only: true, ..Gateway::new(Url::from_file_path(&dir).unwrap()) };
    let node = start(NodeConfig::new(Storage::Gateway(read_only))).await.unwrap();
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
async fn files_are_written_into_a_folder_and_nowhere_else() {
    let outer = tempfile::tempdir().unwrap();
    let dir = outer.path().join("lake");
    fs::create_dir_all(dir.join("sub")).unwrap();
    fs::create_dir(outer.path().join("elsewhere")).unwrap();
    fs::write(outer.path().join("elsewhere/kept"), "kept").unwrap();
    symlink("../elsewhere", dir.join("out")).unwrap();
    symlink("../elsewhere/kept", dir.join("file-link")).unwrap();
    let mut config = NodeConfig::new(Storage::Gateway(Gateway::new(Url::from_file_path(&dir).unwrap())));
    config.limits.part_min_bytes = 1;
    let node = start(config).await.unwrap();
    let front = client(&node, "lake");

    let put = front.put(&Path::from("new/deep/file"), "text".into()).await.unwrap();
    assert_eq!(fs::read_to_string(dir.join("new/deep/file")).unwrap(), "text");
    assert_eq!(front.head(&Path::from("new/deep/file")).await.unwrap().e_tag, put.e_tag);
    let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    let twice = front.put_opts(&Path::from("new/deep/file"), "other".into(), create).await;
    assert!(matches!(twice, Err(Error::AlreadyExists { .. } | Error::Precondition { .. })), "{twice:?}");
    let mut upload = front.put_multipart(&Path::from("parts")).await.unwrap();
    for part in ["one,", "two,", "three"] {
        upload.put_part(part.into()).await.unwrap();
    }
    upload.complete().await.unwrap();
    assert_eq!(fs::read_to_string(dir.join("parts")).unwrap(), "one,two,three");
    front.copy(&Path::from("parts"), &Path::from("copies/parts")).await.unwrap();
    assert_eq!(fs::read_to_string(dir.join("copies/parts")).unwrap(), "one,two,three");

    // Neither through links nor over folders; a link in the place of a file is replaced.
    assert!(front.put(&Path::from("out/escaped"), "x".into()).await.is_err());
    assert!(front.put(&Path::from("sub"), "x".into()).await.is_err());
    assert!(front.put(&Path::from("parts/below"), "x".into()).await.is_err());
    front.delete(&Path::from("out/kept")).await.unwrap();
    front.put(&Path::from("file-link"), "replaced".into()).await.unwrap();
    assert_eq!(fs::read_to_string(outer.path().join("elsewhere/kept")).unwrap(), "kept");
    assert_eq!(fs::read_dir(outer.path().join("elsewhere")).unwrap().count(), 1);
    assert_eq!(fs::read_to_string(dir.join("file-link")).unwrap(), "replaced");
    let answer = wire::rest(wire::send(&node, "PUT", "/lake/.pushdowndb-x", "x"));
    assert!(answer.starts_with("HTTP/1.1 4") || answer.starts_with("HTTP/1.1 501"), "{answer}");
    assert!(!answer.contains("SignatureDoesNotMatch"), "{answer}");
    assert_eq!(fs::read_dir(outer.path()).unwrap().count(), 2);

    front.delete(&Path::from("parts")).await.unwrap();
    front.delete(&Path::from("never-was")).await.unwrap();
    let left: Vec<_> = front.list(None).map_ok(|meta| meta.location.to_string()).try_collect().await.unwrap();
    assert_eq!(left, ["copies/parts", "file-link", "new/deep/file"]);
    let drafts = fs::read_dir(&dir).unwrap().filter_map(Result::ok);
    assert!(!drafts.map(|entry| entry.file_name()).any(|name| name.to_string_lossy().starts_with(".pushdowndb")));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_served_is_said_at_the_start() {
    let refused = |url: &str| start(NodeConfig::gateway(Url::parse(url).unwrap()));
    assert_eq!(refused("ftp://host/prefix").await.unwrap_err().kind(), ErrorKind::Unsupported);
    let nameless = refused("az://container").await.unwrap_err();
    assert!(nameless.to_string().contains("az://container"), "{nameless:?}");
    let missing = refused("file:///no/such/folder").await.unwrap_err();
    assert!(missing.to_string().contains("/no/such/folder"), "{missing}");
}
