//! Who gets in, and what every answer says of the node.

use std::time::Duration;

use object_store::path::Path;
use object_store::{Error, ObjectStoreExt};
use pushdowndb_node::{Credentials, Keyring, NodeConfig, start};

use crate::world::{BUCKET, World, builder, raw};

#[tokio::test(flavor = "multi_thread")]
async fn only_signed_requests_are_answered() {
    let world = World::new().await;
    let path = Path::from("secret");
    world.client().put(&path, "x".into()).await.unwrap();
    let wrong = [
        builder(&world.node, BUCKET).with_secret_access_key("wrong"),
        builder(&world.node, BUCKET).with_access_key_id("nobody"),
        builder(&world.node, BUCKET).with_skip_signature(true),
    ];
    for (client, code) in wrong.into_iter().zip(["SignatureDoesNotMatch", "InvalidAccessKeyId", "AccessDenied"]) {
        let error = client.build().unwrap().get(&path).await.unwrap_err();
        assert!(matches!(error, Error::PermissionDenied { .. } | Error::Unauthenticated { .. }), "{error:?}");
        assert!(error.to_string().contains(code), "{error}");
    }
    let old =
        "GET /things/secret HTTP/1.1\r\nHost: x\r\nAuthorization: AWS a:b\r\nDate: x\r\nConnection: close\r\n\r\n";
    assert!(raw(&world.node, old).starts_with("HTTP/1.1 403"));
    assert_eq!(world.node.counters().requests_of("GetObject"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_names_the_node_and_the_request() {
    let world = World::new().await;
    for request in ["GET / HTTP/1.1", "GET /no-such/key HTTP/1.1", "DELETE /../.. HTTP/1.1", "POST /x?select HTTP/1.1"]
    {
        let answer = raw(&world.node, &format!("{request}\r\nHost: x\r\nConnection: close\r\n\r\n")).to_lowercase();
        assert!(answer.contains("server: pushdowndb/"), "{request}: {answer}");
        assert!(answer.contains("x-amz-request-id: "), "{request}: {answer}");
        assert!(answer.starts_with("http/1.1 4"), "{request}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_are_kept_unless_given() {
    let world = World::new().await;
    let file = world.node.credentials_file().unwrap().to_owned();
    assert!(file.starts_with(world.dir.path()));
    let first = world.node.credentials().clone();
    let world = world.restart().await;
    assert_eq!(world.node.credentials(), &first);
    let given = Credentials { access_key_id: "me".into(), secret_access_key: "12345678".into() };
    let mut config = NodeConfig::store(world.dir.path().join("other"));
    config.credentials = Some(given.clone());
    let node = start(config).await.unwrap();
    assert_eq!(node.credentials(), &given);
    assert_eq!(node.credentials_file(), None);
    assert!(!world.dir.path().join("other/credentials.json").exists());
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_that_dawdle_are_cut_off() {
    let brief = Duration::from_millis(100);
    let world = World::with(|limits| (limits.header_read, limits.stall, limits.connections) = (brief, brief, 1)).await;
    // Half a request: the connection is closed, or the next one would never get the only slot.
    raw(&world.node, "GET / HTTP/1.1\r\nHost:");
    // Half a body, of the one kind that is read before it is known who sends it.
    let form = "Content-Type: multipart/form-data; boundary=x\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n--x";
    assert!(raw(&world.node, &format!("POST /things HTTP/1.1\r\nHost: x\r\n{form}")).starts_with("HTTP/1.1 4"));
    assert!(raw(&world.node, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").starts_with("HTTP/1.1 403"));
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_have_the_rights_of_the_file() {
    let keys = r#"
        [[key]]
        access_key_id = "ops"
        secret_access_key = "everything"
        [[key]]
        access_key_id = "reader"
        secret_access_key = "only-reads"
        read = ["things"]
        write = ["scratch-*"]
    "#;
    let dir = tempfile::tempdir().unwrap();
    let mut config = NodeConfig::store(dir.path().join("store"));
    config.keyring = Some(Keyring::parse(keys).unwrap());
    let node = start(config).await.unwrap();
    for bucket in [BUCKET, "secrets", "scratch-1"] {
        node.create_bucket(bucket).await.unwrap();
    }
    let client = |key: &str, secret: &str, bucket: &str| {
        builder(&node, bucket).with_access_key_id(key).with_secret_access_key(secret).build().unwrap()
    };
    let (path, copy) = (Path::from("a"), Path::from("b"));
    for bucket in [BUCKET, "secrets", "scratch-1"] {
        client("ops", "everything", bucket).put(&path, "x".into()).await.unwrap();
    }
    let reader = |bucket| client("reader", "only-reads", bucket);
    assert_eq!(reader(BUCKET).get(&path).await.unwrap().bytes().await.unwrap(), "x");
    reader("scratch-1").put(&path, "y".into()).await.unwrap();
    reader("scratch-1").delete(&path).await.unwrap();
    for refused in [
        reader(BUCKET).put(&path, "y".into()).await.map(drop),
        reader(BUCKET).copy(&path, &copy).await,
        reader(BUCKET).delete(&path).await,
        reader("secrets").get(&path).await.map(drop),
        reader("secrets").head(&path).await.map(drop),
    ] {
        assert!(matches!(refused, Err(Error::PermissionDenied { .. })), "{refused:?}");
    }
    assert_eq!(client("ops", "everything", BUCKET).get(&path).await.unwrap().bytes().await.unwrap(), "x");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_with_buckets_of_their_own_see_no_others() {
    let keys = |tenants: &[&str]| {
        let table = |id: &&str| {
            format!("[[key]]\naccess_key_id = \"{id}\"\nsecret_access_key = \"secret-of-{id}\"\nown = true\n")
        };
        Keyring::parse(&tenants.iter().map(table).collect::<String>()).unwrap()
    };
    let dir = tempfile::tempdir().unwrap();
    let mut config = NodeConfig::store(dir.path().join("store"));
    config.keyring = Some(keys(&["ann", "bob"]));
    config.credentials = Some(Credentials { access_key_id: "ops".into(), secret_access_key: "everything".into() });
    let node = start(config).await.unwrap();
    node.create_bucket("of-the-node").await.unwrap();
    let client = |id: &str, bucket: &str| {
        let secret = if id == "ops" { "everything".to_owned() } else { format!("secret-of-{id}") };
        builder(&node, bucket).with_access_key_id(id).with_secret_access_key(secret).build().unwrap()
    };
    // A bucket is made by putting nothing under no key; the client misses the ETag that an object
    // would have.
    let make = async |id: &str, bucket: &str| match client(id, bucket).put(&Path::default(), "".into()).await {
        Err(error) if !format!("{error:?}").contains("MissingEtag") => Err(error),
        _ => Ok(()),
    };
    let (path, copy) = (Path::from("a"), Path::from("b"));
    let denied = |answer: Result<(), Error>| matches!(answer, Err(Error::PermissionDenied { .. }));

    make("ann", "anns").await.unwrap();
    client("ann", "anns").put(&path, "x".into()).await.unwrap();
    client("ann", "anns").copy(&path, &copy).await.unwrap();
    for bucket in ["anns", "of-the-node"] {
        assert!(denied(client("bob", bucket).get(&path).await.map(drop)), "{bucket}");
        assert!(denied(client("bob", bucket).put(&path, "y".into()).await.map(drop)), "{bucket}");
        assert!(make("bob", bucket).await.is_err(), "{bucket}");
    }
    // What is not there is not there, for whoever wants to make it.
    let absent = client("bob", "bobs").get(&path).await;
    assert!(matches!(absent, Err(Error::NotFound { .. })), "{absent:?}");
    assert_eq!(client("ops", "anns").get(&path).await.unwrap().bytes().await.unwrap(), "x");

    // Keys that are replaced are not asked for again; the pair of the configuration stays.
    node.replace_keyring(keys(&["bob", "cid"]));
    let gone = client("ann", "anns").get(&path).await.unwrap_err().to_string();
    assert!(gone.contains("InvalidAccessKeyId"), "{gone}");
    make("cid", "cids").await.unwrap();
    assert_eq!(client("ops", "anns").get(&path).await.unwrap().bytes().await.unwrap(), "x");
    node.shutdown().await;
}
