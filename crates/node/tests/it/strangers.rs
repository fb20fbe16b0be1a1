//! What strangers, and keys that have few rights, cannot do to the others.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use object_store::ObjectStoreExt;
use object_store::path::Path;
use pushdowndb_node::{Credentials, Keyring, Limits, Node, NodeConfig, start};

use crate::wire;
use crate::world::{BUCKET, World, builder, raw};

const OPS: (&str, &str) = ("ops", "everything");
const ANN: (&str, &str) = ("ann", "secret-of-ann");
const BOB: (&str, &str) = ("bob", "secret-of-bob");

fn keys(tenants: &[&str]) -> Keyring {
    let table =
        |id: &&str| format!("[[key]]\naccess_key_id = \"{id}\"\nsecret_access_key = \"secret-of-{id}\"\nown = true\n");
    Keyring::parse(&tenants.iter().map(table).collect::<String>()).unwrap()
}

/// A node with two tenants and a key that may do everything.
async fn node(change: impl FnOnce(&mut Limits)) -> (tempfile::TempDir, Node) {
    let dir = tempfile::tempdir().unwrap();
    let mut config = NodeConfig::store(dir.path().join("store"));
    config.keyring = Some(keys(&["ann", "bob"]));
    config.credentials = Some(Credentials { access_key_id: OPS.0.into(), secret_access_key: OPS.1.into() });
    change(&mut config.limits);
    (dir, start(config).await.unwrap())
}

/// Sends a signed request and returns its answer.
fn ask(node: &Node, keys: (&str, &str), method: &str, target: &str, body: &str) -> String {
    wire::rest(wire::send_as(node, keys, method, target, body))
}

fn is_ok(answer: &str) -> bool {
    answer.starts_with("HTTP/1.1 20")
}

/// Sends the head of a signed request and half of its body.
fn begin(node: &Node, keys: (&str, &str), method: &str, target: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(node.address()).unwrap();
    let head = wire::head(node, keys, method, target, body.as_bytes());
    stream.write_all(&[head.as_bytes(), &body.as_bytes()[..body.len() / 2]].concat()).unwrap();
    stream
}

/// Sends the other half and returns the answer.
fn finish(mut stream: TcpStream, body: &str) -> String {
    stream.write_all(&body.as_bytes()[body.len() / 2..]).unwrap();
    wire::rest(stream)
}

const DELETE: &str = "<Delete><Object><Key>kept</Key></Object></Delete>";
const TAGGING: &str = "<Tagging><TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet></Tagging>";
const CORS: &str = "<CORSConfiguration><CORSRule><AllowedOrigin>*</AllowedOrigin><AllowedMethod>GET</AllowedMethod>\
                    </CORSRule></CORSConfiguration>";

/// Requests whose effect would be seen, by method, target and body.
const CHANGES: [(&str, &str, &str); 6] = [
    ("PUT", "/b-1/kept", "of the first owner"),
    ("POST", "/b-1?delete", DELETE),
    ("PUT", "/b-1?tagging", TAGGING),
    ("PUT", "/b-1?cors", CORS),
    ("PUT", "/b-1/kept?tagging", TAGGING),
    ("PUT", "/b-1/other", "of the first owner"),
];

/// What is in the bucket, as its owner sees it.
fn state(node: &Node) -> Vec<String> {
    let see = |target: &str| {
        let answer = ask(node, OPS, "GET", target, "");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let body = body.split_once("<RequestId>").map_or(body, |(before, _)| before);
        format!("{} {body}", head.lines().next().unwrap())
    };
    ["/b-1/kept", "/b-1/other", "/b-1?tagging", "/b-1?cors", "/b-1/kept?tagging"].map(see).to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_half_sent_has_no_effect_once_its_bucket_changed_hands() {
    let (_dir, node) = node(|_| {}).await;
    assert!(is_ok(&ask(&node, ANN, "PUT", "/b-1", "")));
    let begun: Vec<_> = CHANGES.iter().map(|(method, target, body)| begin(&node, ANN, method, target, body)).collect();
    // Each was authorised before the bucket is gone.
    while node.counters().requests_in_flight < begun.len() as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(is_ok(&ask(&node, ANN, "DELETE", "/b-1", "")));
    assert!(is_ok(&ask(&node, BOB, "PUT", "/b-1", "")));
    assert!(is_ok(&ask(&node, BOB, "PUT", "/b-1/kept", "of the second owner")));
    let before = state(&node);
    for (stream, (method, target, body)) in begun.into_iter().zip(CHANGES) {
        let answer = finish(stream, body);
        assert!(answer.starts_with("HTTP/1.1 40"), "{method} {target}: {answer}");
    }
    assert_eq!(state(&node), before);
    assert!(before[0].ends_with("of the second owner"));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_half_sent_has_no_effect_once_its_key_was_revoked() {
    let (_dir, node) = node(|_| {}).await;
    assert!(is_ok(&ask(&node, ANN, "PUT", "/b-1", "")));
    assert!(is_ok(&ask(&node, ANN, "PUT", "/b-1/kept", "of the owner")));
    let begun: Vec<_> = CHANGES.iter().map(|(method, target, body)| begin(&node, ANN, method, target, body)).collect();
    while node.counters().requests_in_flight < begun.len() as u64 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    node.replace_keyring(keys(&["bob"]));
    let before = state(&node);
    for (stream, (method, target, body)) in begun.into_iter().zip(CHANGES) {
        let answer = finish(stream, body);
        assert!(answer.starts_with("HTTP/1.1 403"), "{method} {target}: {answer}");
    }
    assert_eq!(state(&node), before);
    node.shutdown().await;
}

/// A signed GET and a Select of another key.
fn others_are_served(node: &Node) {
    let answer = ask(node, OPS, "GET", &format!("/{BUCKET}/k"), "");
    assert!(is_ok(&answer) && answer.ends_with("a\n1\n"), "{answer}");
    let select = wire::select_csv("USE", "SELECT COUNT(*) FROM S3Object");
    let answer = ask(node, OPS, "POST", &format!("/{BUCKET}/k?select&select-type=2"), &select);
    assert!(is_ok(&answer) && answer.contains("Stats"), "{answer}");
}

async fn with_object(change: impl FnOnce(&mut Limits)) -> (tempfile::TempDir, Node) {
    let (dir, node) = node(change).await;
    node.create_bucket(BUCKET).await.unwrap();
    assert!(is_ok(&ask(&node, OPS, "PUT", &format!("/{BUCKET}/k"), "a\n1\n")));
    assert!(is_ok(&ask(&node, ANN, "PUT", "/anns", "")));
    (dir, node)
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_take_no_place_from_others() {
    let (_dir, node) = with_object(|limits| limits.requests = 4).await;
    let document = format!("PUT /{BUCKET}?tagging HTTP/1.1\r\nHost: x\r\nContent-MD5: AAAAAAAAAAAAAAAAAAAAAA==\r\n");
    let form = format!("POST /{BUCKET} HTTP/1.1\r\nHost: x\r\nContent-Type: multipart/form-data; boundary=x\r\n");
    let mut open = Vec::new();
    for number in 0..40 {
        let head = if number % 2 == 0 { &document } else { &form };
        let mut stream = TcpStream::connect(node.address()).unwrap();
        stream.write_all(format!("{head}Content-Length: 1000\r\n\r\n--x").as_bytes()).unwrap();
        open.push(stream);
    }
    others_are_served(&node);
    assert!(raw(&node, "GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ends_with("ready\n"));
    // Documents are refused without a byte of them.
    let mut answer = [0; 12];
    open[0].read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 403");
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn half_heads_give_way_to_others() {
    let (_dir, node) = with_object(|limits| limits.connections = 32).await;
    let open: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(node.address()).unwrap();
            // Those that were closed for others cannot be written to.
            drop(stream.write_all(b"GET / HTTP/1.1\r\nHost:"));
            stream
        })
        .collect();
    others_are_served(&node);
    drop(open);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_sends_slowly_leaves_places_for_others() {
    let (_dir, node) = with_object(|limits| limits.requests = 8).await;
    let open: Vec<_> = (0..20).map(|_| begin(&node, ANN, "PUT", "/anns/slow", "0123456789")).collect();
    while node.counters().requests_in_flight < 20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    others_are_served(&node);
    drop(open);
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_does_not_read_its_answers_leaves_turns_for_others() {
    let (_dir, node) = with_object(|limits| (limits.selects, limits.selects_waiting) = (4, 8)).await;
    let rows = "x".repeat(100) + "\n";
    assert!(is_ok(&ask(&node, ANN, "PUT", "/anns/rows", &rows.repeat(200_000))));
    let select = wire::select_csv("NONE", "SELECT * FROM S3Object");
    let open: Vec<_> =
        (0..20).map(|_| wire::send_as(&node, ANN, "POST", "/anns/rows?select&select-type=2", &select)).collect();
    // Fragments whose bodies do not come hold no turn either.
    let more: Vec<_> = (0..20).map(|_| begin(&node, ANN, "POST", "/anns?pushdowndb-fragment", "0123456789")).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    others_are_served(&node);
    drop((open, more));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_has_its_share_of_buckets_uploads_and_bytes() {
    let (_dir, node) = node(|limits| (limits.buckets, limits.uploads) = (4, 4)).await;
    let made: Vec<bool> = (1..=4).map(|number| is_ok(&ask(&node, ANN, "PUT", &format!("/b-{number}"), ""))).collect();
    assert_eq!(made, [true, true, true, false]);
    assert!(is_ok(&ask(&node, BOB, "PUT", "/bobs", "")));
    let begun: Vec<bool> = (1..=4).map(|_| is_ok(&ask(&node, ANN, "POST", "/b-1/k?uploads", ""))).collect();
    assert_eq!(begun, [true, true, true, false]);
    assert!(is_ok(&ask(&node, BOB, "POST", "/bobs/k?uploads", "")));
    // What is given up is free again: a bucket with its uploads.
    assert!(is_ok(&ask(&node, ANN, "DELETE", "/b-1", "")));
    assert!(is_ok(&ask(&node, ANN, "PUT", "/b-4", "")));
    assert!(is_ok(&ask(&node, ANN, "POST", "/b-4/k?uploads", "")));

    let file = "[[key]]\naccess_key_id = \"ann\"\nsecret_access_key = \"secret-of-ann\"\nown = true\nbytes = 10\n";
    node.replace_keyring(Keyring::parse(file).unwrap());
    assert!(is_ok(&ask(&node, ANN, "PUT", "/b-4/a", "12345678")));
    let refused = ask(&node, ANN, "PUT", "/b-4/b", "123");
    assert!(refused.starts_with("HTTP/1.1 403") && refused.contains("QuotaExceeded"), "{refused}");
    assert!(is_ok(&ask(&node, ANN, "PUT", "/b-4/a", "1234567890")), "what is replaced is free");
    assert!(is_ok(&ask(&node, ANN, "DELETE", "/b-4/a", "")));
    assert!(is_ok(&ask(&node, ANN, "PUT", "/b-4/b", "123")));
    node.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn heads_of_requests_are_bounded() {
    let world = World::new().await;
    let with = |bytes: usize| {
        let long = "x".repeat(bytes);
        let mut stream = TcpStream::connect(world.node.address()).unwrap();
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\nX-Long: {long}\r\nConnection: close\r\n\r\n");
        // The node may close the connection while it is still being sent.
        drop(stream.write_all(head.as_bytes()));
        let mut answer = Vec::new();
        drop(stream.read_to_end(&mut answer));
        String::from_utf8_lossy(&answer).into_owned()
    };
    assert!(with(60_000).starts_with("HTTP/1.1 403"));
    for bytes in [66_000, 120_000] {
        assert!(with(bytes).starts_with("HTTP/1.1 431"), "{bytes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_signature_is_refused() {
    let world = World::new().await;
    world.client().put(&Path::from("k"), "x".into()).await.unwrap();
    let query = "AWSAccessKeyId=a&Signature=b&Expires=9999999999";
    for extra in ["X-Amz-Signature=x&x-amz-copy-source=%2Fthings%2Fk", "x-amz-copy-source=%2Fthings%2Fk", "attributes"]
    {
        let request = format!("PUT /{BUCKET}/copy?{query}&{extra} HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n");
        let answer = raw(&world.node, &format!("{request}Connection: close\r\n\r\n"));
        assert!(answer.starts_with("HTTP/1.1 40"), "{extra}: {answer}");
    }
    let client = builder(&world.node, BUCKET).build().unwrap();
    assert!(client.get(&Path::from("copy")).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_of_a_bucket_is_none_of_its_creation() {
    let (_dir, node) = node(|_| {}).await;
    assert!(is_ok(&ask(&node, BOB, "PUT", "/b-1", "")));
    // The same parameter, written otherwise, with the same signature.
    for target in ["/b-1?acl", "/b-1?%61cl", "/b-1?cors", "/b-1?%63ors"] {
        let refused = ask(&node, ANN, "PUT", target, if target.contains("ors") { CORS } else { "" });
        assert!(refused.starts_with("HTTP/1.1 403"), "{target}: {refused}");
    }
    for target in ["/b-1?%61cl", "/b-1?%63ors"] {
        let answer = ask(&node, BOB, "PUT", target, if target.contains("ors") { CORS } else { "" });
        assert!(is_ok(&answer), "{target}: {answer}");
    }
    node.shutdown().await;
}
