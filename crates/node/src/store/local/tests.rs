//! Background work of a local store, and a full disk.

use std::fs;

use super::*;

#[test]
fn a_large_store_is_swept_behind_its_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = LocalStore::open(dir.path(), Limits::default()).unwrap();
    let files = &store.shared.files;
    let place = || files.commit_draft(&files.create().unwrap(), 0, None).unwrap();
    // `left` is of an earlier start, `named` belongs to an object. The sweep starts as for a million
    // objects.
    let (left, named) = (place(), place());
    let record =
        ObjectRecord { meta: ObjectMeta::default(), segments: vec![named], upload: None, writer: None, damaged: false };
    let meta = BucketMeta { name: "bucket".into(), ..BucketMeta::default() };
    store.shared.index.create_bucket(&meta, 9, &Grant::node()).unwrap();
    store.shared.index.put("bucket", "key", &record, &Condition::default(), &Grant::node()).unwrap();
    files.track_placed();
    let fresh = place();
    sweep::start(&store.shared.index, &store.shared.files, 1_000_000).unwrap();
    for _ in 0..1000 {
        if !files.path(left.id).exists() && !files.was_placed(fresh.id) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(!files.path(left.id).exists() && files.path(named.id).exists() && files.path(fresh.id).exists());
}

#[test]
fn uploads_are_refused_while_there_is_room_to_delete() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let full = Limits { reserve_bytes: u64::MAX, ..Limits::default() };
        let store = LocalStore::open(dir.path(), full).unwrap();
        store.create_bucket("bucket", BucketSettings::default(), Grant::node()).await.unwrap();
        let body: Body = Box::pin(futures::stream::empty());
        assert!(matches!(store.stage(body, None).await, Err(StoreError::Full)));
        let keys = vec![("key".to_owned(), Condition::default())];
        assert!(store.delete("bucket", keys, Grant::node()).await.unwrap().iter().all(Result::is_ok));
        assert_eq!(fs::read_dir(dir.path().join("tmp")).unwrap().count(), 0);
    });
}
