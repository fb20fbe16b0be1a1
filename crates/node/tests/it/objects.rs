//! Objects through a common S3 client: put, get, ranges, conditions, lists, copies, parts.

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, Error, GetOptions, GetRange, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    UpdateVersion,
};

use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_put_comes_back() {
    let world = World::new().await;
    let client = world.client();
    // Both a name and a folder, as far as names look like paths; and one that needs every kind of
    // encoding.
    for key in ["a", "a/b", "a/b/c d+ü%25&?#", "empty"] {
        let path = Path::from(key);
        let body = Bytes::from(if key == "empty" { String::new() } else { key.repeat(1000) });
        let put = client.put(&path, body.clone().into()).await.unwrap();
        let got = client.get(&path).await.unwrap();
        assert_eq!(got.meta.e_tag, put.e_tag);
        assert_eq!(got.meta.size, body.len() as u64);
        assert_eq!(got.bytes().await.unwrap(), body);
        assert_eq!(client.head(&path).await.unwrap().e_tag, put.e_tag);
    }
    let path = Path::from("a");
    client.delete(&path).await.unwrap();
    client.delete(&path).await.unwrap();
    assert!(matches!(client.get(&path).await, Err(Error::NotFound { .. })));
    assert!(client.get(&Path::from("a/b")).await.is_ok());
    let counters = world.node.counters();
    assert_eq!(counters.requests_of("PutObject"), 4);
    assert!(counters.bytes_sent > 8000 && counters.bytes_received > 8000);
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_and_conditions() {
    let world = World::new().await;
    let client = world.client();
    let path = Path::from("big");
    // More than one block, not a multiple of it.
    let body: Bytes = (0..3_500_001u32).map(|i| (i % 251) as u8).collect::<Vec<_>>().into();
    let put = client.put(&path, body.clone().into()).await.unwrap();
    for range in [0..1, 0..body.len(), 1_048_575..1_048_577, 3_500_000..3_500_001] {
        let part = client.get_range(&path, range.start as u64..range.end as u64).await.unwrap();
        assert_eq!(part, body.slice(range));
    }
    let with = |options: GetOptions| {
        let client = &client;
        let path = &path;
        async move { client.get_opts(path, options).await?.bytes().await }
    };
    let suffix = with(GetOptions { range: Some(GetRange::Suffix(10)), ..Default::default() }).await.unwrap();
    assert_eq!(suffix, body.slice(body.len() - 10..));
    let past = with(GetOptions { range: Some(GetRange::Offset(9_999_999)), ..Default::default() }).await;
    assert!(past.is_err());

    let etag = put.e_tag.clone();
    assert!(with(GetOptions { if_match: etag.clone(), ..Default::default() }).await.is_ok());
    let other = Some("\"0000\"".to_owned());
    let failed = with(GetOptions { if_match: other.clone(), ..Default::default() }).await;
    assert!(matches!(failed, Err(Error::Precondition { .. })), "{failed:?}");
    let same = with(GetOptions { if_none_match: etag.clone(), ..Default::default() }).await;
    assert!(matches!(same, Err(Error::NotModified { .. })), "{same:?}");

    let create = PutOptions { mode: PutMode::Create, ..Default::default() };
    let exists = client.put_opts(&path, "x".into(), create.clone()).await;
    assert!(matches!(exists, Err(Error::AlreadyExists { .. })), "{exists:?}");
    client.put_opts(&Path::from("new"), "x".into(), create).await.unwrap();
    let update =
        |e_tag| PutOptions { mode: PutMode::Update(UpdateVersion { e_tag, version: None }), ..Default::default() };
    let stale = client.put_opts(&path, "y".into(), update(other)).await;
    assert!(matches!(stale, Err(Error::Precondition { .. })), "{stale:?}");
    client.put_opts(&path, "y".into(), update(etag)).await.unwrap();
    assert_eq!(client.get(&path).await.unwrap().bytes().await.unwrap(), "y");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_many_creators_wins() {
    let world = World::new().await;
    let client = world.client();
    let tries = stream::iter(0..16).map(|i| {
        let client = client.clone();
        async move {
            let options = PutOptions { mode: PutMode::Create, ..Default::default() };
            client.put_opts(&Path::from("lock"), format!("{i}").into(), options).await.is_ok()
        }
    });
    let won = tries.buffer_unordered(16).filter(|won| std::future::ready(*won)).count().await;
    assert_eq!(won, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_are_kept() {
    let world = World::new().await;
    let client = world.client();
    let path = Path::from("page");
    let mut attributes = Attributes::new();
    attributes.insert(Attribute::ContentType, "text/html".into());
    attributes.insert(Attribute::ContentLanguage, "de".into());
    attributes.insert(Attribute::CacheControl, "max-age=5".into());
    attributes.insert(Attribute::Metadata("colour".into()), "grün".into());
    let options = PutOptions { attributes: attributes.clone(), ..Default::default() };
    client.put_opts(&path, "<p>".into(), options).await.unwrap();
    let world = world.restart().await;
    let client = world.client();
    let copy = Path::from("copy");
    client.copy(&path, &copy).await.unwrap();
    client.delete(&path).await.unwrap();
    let got = client.get(&copy).await.unwrap();
    // What is no ASCII comes back encoded, as from S3.
    attributes.insert(Attribute::Metadata("colour".into()), "=?UTF-8?B?Z3LDvG4=?=".into());
    assert_eq!(got.attributes, attributes);
    assert_eq!(got.bytes().await.unwrap(), "<p>");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_page_by_page() {
    let world = World::new().await;
    let client = world.client();
    let keys: Vec<String> = (0..2600).map(|i| format!("d{:02}/k{i:05}", i % 26)).collect();
    let puts = stream::iter(&keys).map(|key| {
        let client = client.clone();
        async move { client.put(&Path::from(key.as_str()), PutPayload::from_static(b"x")).await }
    });
    puts.buffer_unordered(32).try_collect::<Vec<_>>().await.unwrap();

    let mut expected = keys.clone();
    expected.sort_unstable();
    let names = |metas: Vec<object_store::ObjectMeta>| -> Vec<String> {
        metas.into_iter().map(|meta| meta.location.to_string()).collect()
    };
    let all = names(client.list(None).try_collect().await.unwrap());
    assert_eq!(all, expected);
    assert_eq!(world.node.counters().requests_of("ListObjectsV2"), 3);
    let below = names(client.list(Some(&Path::from("d07"))).try_collect().await.unwrap());
    assert_eq!(below, expected.iter().filter(|key| key.starts_with("d07/")).cloned().collect::<Vec<_>>());
    let offset = Path::from(expected[1499].as_str());
    let after = names(client.list_with_offset(None, &offset).try_collect().await.unwrap());
    assert_eq!(after, expected[1500..]);
    let rolled = client.list_with_delimiter(None).await.unwrap();
    assert_eq!((rolled.objects.len(), rolled.common_prefixes.len()), (0, 26));

    let doomed = stream::iter(expected.into_iter().map(|key| Ok(Path::from(key)))).boxed();
    assert_eq!(client.delete_stream(doomed).try_collect::<Vec<_>>().await.unwrap().len(), 2600);
    assert_eq!(client.list(None).count().await, 0);
    // What is gone from the index is gone from the disk.
    let data = world.dir.path().join("store/data");
    let files = std::fs::read_dir(data).unwrap().map(|dir| std::fs::read_dir(dir.unwrap().path()).unwrap().count());
    assert_eq!(files.sum::<usize>(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_become_one_object() {
    let world = World::new().await;
    let client = world.client();
    let path = Path::from("parts");
    let part = |byte: u8, size: usize| Bytes::from(vec![byte; size]);
    let parts = [part(1, 5 << 20), part(2, (5 << 20) + 7), part(3, 10)];
    let mut upload = client.put_multipart(&path).await.unwrap();
    for part in &parts {
        upload.put_part(part.clone().into()).await.unwrap();
    }
    assert!(client.get(&path).await.is_err());
    let done = upload.complete().await.unwrap();
    assert!(done.e_tag.unwrap().ends_with("-3\""));
    let whole = Bytes::from(parts.concat());
    assert_eq!(client.get(&path).await.unwrap().bytes().await.unwrap(), whole);
    let edge = (5 << 20) - 3;
    assert_eq!(client.get_range(&path, edge..edge + 6).await.unwrap(), whole.slice(edge as usize..edge as usize + 6));
    let copy = Path::from("copy");
    client.copy(&path, &copy).await.unwrap();

    // A reader keeps what it opened while the object is replaced.
    let mut reading = client.get(&path).await.unwrap().into_stream();
    let first = reading.try_next().await.unwrap().unwrap();
    client.put(&path, "small".into()).await.unwrap();
    let rest: Vec<Bytes> = reading.try_collect().await.unwrap();
    assert!([first.to_vec(), rest.concat()].concat() == whole, "the bytes that were opened");
    assert_eq!(client.get(&copy).await.unwrap().bytes().await.unwrap(), whole);

    let mut small = client.put_multipart(&path).await.unwrap();
    small.put_part("tiny".into()).await.unwrap();
    small.put_part("too".into()).await.unwrap();
    assert!(small.complete().await.unwrap_err().to_string().contains("EntityTooSmall"));
    let mut given_up = client.put_multipart(&path).await.unwrap();
    given_up.put_part("x".into()).await.unwrap();
    given_up.abort().await.unwrap();
    assert_eq!(client.get(&path).await.unwrap().bytes().await.unwrap(), "small");
}
