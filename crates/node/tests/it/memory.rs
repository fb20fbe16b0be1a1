//! The size of objects does not show in the size of the node.

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use pushdowndb_testkit::skip::skipped;

use crate::child::Child;

#[tokio::test(flavor = "multi_thread")]
async fn large_objects_pass_through() {
    const MIB: usize = 256;
    let dir = tempfile::tempdir().unwrap();
    let child = Child::serve(dir.path());
    let (client, path) = (child.client(), Path::from("large"));
    client.put(&path, Bytes::from(vec![7; MIB << 20]).into()).await.unwrap();
    // The client reads as fast as it can and is still slower than the disk cache.
    let blocks = client.get(&path).await.unwrap().into_stream();
    let size = blocks.try_fold(0, |size, block| std::future::ready(Ok(size + block.len()))).await.unwrap();
    assert_eq!(size, MIB << 20);
    match child.peak_bytes() {
        Some(peak) => assert!(peak < 128 << 20, "the node held {peak} bytes to serve {MIB} MiB"),
        None => skipped("this system does not report the peak memory of a process"),
    }
}
