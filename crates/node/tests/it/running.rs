//! A node in operation: health, metrics, TLS, stopping, and what happens when it is asked for too
//! much.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path as FilePath;
use std::time::{Duration, Instant};

use object_store::aws::AmazonS3;
use object_store::client::{Certificate, ClientOptions};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, RetryConfig};
use pushdowndb_node::{Node, NodeConfig, TlsFiles, start};

use crate::wire;
use crate::world::{BUCKET, World, builder, client, raw};

/// Sends an unsigned GET and returns all of the answer.
fn get(node: &Node, path: &str) -> String {
    raw(node, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", node.address()))
}

/// The value of a metric in a reading, its labels written as they are there.
fn metric(reading: &str, name: &str) -> f64 {
    let line = reading.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {reading}")).trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn health_and_metrics_are_answered_beside_buckets_of_those_names() {
    let world = World::new().await;
    assert!(get(&world.node, "/healthz").starts_with("HTTP/1.1 200"));
    assert!(get(&world.node, "/readyz").ends_with("ready\n"));
    world.node.create_bucket("metrics").await.unwrap();
    let in_bucket = client(&world.node, "metrics");
    in_bucket.put(&Path::from("k"), "v".into()).await.unwrap();
    assert_eq!(in_bucket.get(&Path::from("k")).await.unwrap().bytes().await.unwrap(), "v");
    assert!(in_bucket.head(&Path::from("missing")).await.is_err());
    // Everything but the exact path is S3's, which wants a signature.
    for path in ["/metrics/", "/metrics/k", "/metrics?x", "/healthz/x", "//metrics"] {
        assert!(get(&world.node, path).starts_with("HTTP/1.1 4"), "{path}");
    }

    let reading = get(&world.node, "/metrics");
    assert!(reading.contains("application/openmetrics-text"), "{reading}");
    assert!(reading.trim_end().ends_with("# EOF"), "{reading}");
    for (name, value) in [
        ("pushdowndb_requests_total{operation=\"PutObject\",code=\"200\"}", 1.0),
        ("pushdowndb_requests_total{operation=\"HeadObject\",code=\"404\"}", 1.0),
        ("pushdowndb_requests_total{operation=\"GetObject\",code=\"200\"}", 1.0),
        ("pushdowndb_request_duration_seconds_count{operation=\"PutObject\"}", 1.0),
        ("pushdowndb_scans_active", 0.0),
        ("pushdowndb_requests_in_flight", 0.0),
        // A client that keeps its connection takes its answers whole all the same.
        ("pushdowndb_answers_cut_off_total", 0.0),
    ] {
        assert_eq!(metric(&reading, name), value, "{name}");
    }
    assert!(metric(&reading, "pushdowndb_sent_bytes_total") > 0.0);
    assert!(!reading.contains("secret") && !reading.contains(&world.node.credentials().access_key_id));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_can_be_kept_from_the_public_address() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = NodeConfig::store(dir.path().join("store"));
    config.admin_listen = Some("127.0.0.1:0".parse().unwrap());
    config.limits.drain_delay = Duration::from_secs(60);
    let node = start(config).await.unwrap();
    let ask = |path: &str| {
        let mut stream = TcpStream::connect(node.admin_address().unwrap()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    assert!(ask("/metrics").contains("pushdowndb_build"));
    assert!(ask("/things/k").starts_with("HTTP/1.1 404"));
    assert!(get(&node, "/metrics").starts_with("HTTP/1.1 403"));
    assert!(get(&node, "/readyz").starts_with("HTTP/1.1 200"));
    node.begin_shutdown();
    assert!(get(&node, "/readyz").starts_with("HTTP/1.1 503"));
    assert!(get(&node, "/healthz").starts_with("HTTP/1.1 200"), "still serving while draining");
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_with_a_certificate_that_is_renewed() {
    let dir = tempfile::tempdir().unwrap();
    let fixtures = FilePath::new("tests/it/tls");
    let install = |name: &str| {
        for kind in ["pem", "key"] {
            fs::copy(fixtures.join(format!("{name}.{kind}")), dir.path().join(format!("in-use.{kind}"))).unwrap();
        }
    };
    install("first");
    let mut config = NodeConfig::store(dir.path().join("store"));
    config.tls = Some(TlsFiles { certificate: dir.path().join("in-use.pem"), key: dir.path().join("in-use.key") });
    let node = start(config.clone()).await.unwrap();
    node.create_bucket(BUCKET).await.unwrap();
    assert!(node.endpoint().starts_with("https://"));
    let trusting = |name: &str| -> AmazonS3 {
        let root = Certificate::from_pem(&fs::read(fixtures.join(format!("{name}.pem"))).unwrap()).unwrap();
        let client = ClientOptions::new().with_root_certificate(root);
        let builder = builder(&node, BUCKET).with_client_options(client);
        builder.with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() }).build().unwrap()
    };
    let path = Path::from("over/tls");
    trusting("first").put(&path, vec![7; 3 << 20].into()).await.unwrap();
    let got = trusting("first").get(&path).await.unwrap().bytes().await.unwrap();
    assert!(got.len() == 3 << 20 && got.iter().all(|byte| *byte == 7));
    assert!(trusting("second").get(&path).await.is_err());
    // Plain HTTP is not served, and garbage ends the connection.
    assert!(!raw(&node, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").contains("200 OK"));

    fs::write(dir.path().join("in-use.pem"), "no certificate").unwrap();
    assert!(node.reload_certificate().await.unwrap_err().to_string().contains("in-use.pem"));
    assert!(trusting("first").head(&path).await.is_ok(), "the old one stays in use");
    install("second");
    node.reload_certificate().await.unwrap();
    assert!(trusting("second").head(&path).await.is_ok());
    assert!(trusting("first").head(&path).await.is_err());
    node.shutdown().await;

    // A key that does not belong to the certificate is found at the start.
    fs::copy(fixtures.join("first.key"), dir.path().join("in-use.key")).unwrap();
    assert!(start(config).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_says_slow_down() {
    let world = World::with(|limits| {
        (limits.requests, limits.request_wait) = (1, Duration::from_millis(50));
        limits.stall = Duration::from_secs(30);
    })
    .await;
    let path = Path::from("large");
    world.client().put(&path, vec![1; 8 << 20].into()).await.unwrap();
    // Holds the only place: its answer does not fit into the buffers between us.
    let url = signed_get(&world, &path).await;
    let mut slow = TcpStream::connect(world.node.address()).unwrap();
    write!(slow, "GET {url} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", world.node.address()).unwrap();
    let mut first = [0; 12];
    slow.read_exact(&mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200");

    let again = || get(&world.node, &url);
    let refused = again();
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(refused.to_lowercase().contains("retry-after: 1"), "{refused}");
    assert!(refused.contains("<Code>SlowDown</Code>"), "{refused}");
    assert!(get(&world.node, "/healthz").starts_with("HTTP/1.1 200"), "health needs no place");
    assert!(get(&world.node, "/readyz").contains("all places for requests are taken"));
    assert!(get(&world.node, "/things/large").starts_with("HTTP/1.1 403"), "strangers are refused, not told to wait");
    drop(slow);
    let answered = eventually(|| again().starts_with("HTTP/1.1 200"));
    assert!(answered, "the place was not given back");
    let reading = get(&world.node, "/metrics");
    assert!(metric(&reading, "pushdowndb_requests_refused_total") >= 1.0);
    assert!(metric(&reading, "pushdowndb_answers_cut_off_total") >= 1.0);
}

/// The path and query of a presigned GET.
async fn signed_get(world: &World, path: &Path) -> String {
    use object_store::signer::Signer;
    let url = world.client().signed_url(http::Method::GET, path, Duration::from_secs(60)).await.unwrap();
    format!("{}?{}", url.path(), url.query().unwrap())
}

fn eventually(mut done: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(10) {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Starts a Select that takes a while and returns one row.
fn count(node: &Node) -> TcpStream {
    let sql = "SELECT COUNT(*) FROM S3Object s WHERE s._1 LIKE '%7%1%' OR s._2 LIKE '%9%2%'";
    wire::send(node, "POST", "/things/rows.csv?select&select-type=2", wire::select_csv("NONE", sql))
}

#[tokio::test(flavor = "multi_thread")]
async fn scans_are_bounded_accounted_and_leave_room_for_reads() {
    let world = World::with(|limits| {
        (limits.selects, limits.selects_waiting, limits.key_share_percent) = (2, 4, 100);
        limits.select_wait = Duration::from_secs(120);
    })
    .await;
    let client = world.client();
    let rows: String = (0..400_000).map(|i| format!("{},{},some text to look through\n", i * 7, i * 13)).collect();
    client.put(&Path::from("rows.csv"), rows.into()).await.unwrap();
    client.put(&Path::from("small"), "x".into()).await.unwrap();
    let quiet = slowest(&client).await;
    // Six fill the turns and the queue; whoever comes then is refused at once.
    let scans: Vec<_> = (0..6).map(|_| count(&world.node)).collect();
    let node = &world.node;
    let full = || {
        let reading = get(node, "/metrics");
        metric(&reading, "pushdowndb_scans_active") == 2.0 && metric(&reading, "pushdowndb_scans_waiting") == 4.0
    };
    assert!(eventually(full), "the scans did not start");
    let refused = wire::rest(count(node));
    assert!(refused.contains("<Code>SlowDown</Code>") && refused.starts_with("HTTP/1.1 503"), "{refused}");

    // Reads are answered while scans wait for a core.
    let busy = slowest(&client).await;
    assert!(metric(&get(node, "/metrics"), "pushdowndb_scans_active") > 0.0, "the scans were too short to tell");
    assert!(busy < quiet + Duration::from_millis(500), "a read took {busy:?} while scans ran, {quiet:?} before");
    for scan in scans {
        let answer = wire::rest(scan);
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("End"), "{answer}");
    }
    let reading = get(node, "/metrics");
    assert_eq!(metric(&reading, "pushdowndb_scans_refused_total"), 1.0);
    assert!(metric(&reading, "pushdowndb_scan_cpu_seconds_total") > 0.01, "{reading}");
    assert!(metric(&reading, "pushdowndb_scan_wait_seconds_total") > 0.0, "{reading}");
    assert_eq!(metric(&reading, "pushdowndb_scans_active"), 0.0);
    assert!(metric(&reading, "pushdowndb_scanned_bytes_total") > 6.0 * 10e6, "{reading}");
}

/// The slowest of some small reads.
async fn slowest(client: &impl ObjectStore) -> Duration {
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let since = Instant::now();
        client.get(&Path::from("small")).await.unwrap().bytes().await.unwrap();
        slowest = slowest.max(since.elapsed());
    }
    slowest
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_or_stops_reading_ends_its_scan() {
    let world = World::with(|limits| limits.stall = Duration::from_millis(300)).await;
    let rows: String = (0..600_000).map(|i| format!("{i},some text that is returned row by row\n")).collect();
    world.client().put(&Path::from("rows.csv"), rows.into()).await.unwrap();
    for stops_reading in [false, true] {
        let sql = wire::select_csv("NONE", "SELECT * FROM S3Object");
        let stream = wire::send(&world.node, "POST", "/things/rows.csv?select&select-type=2", &sql);
        let active = || metric(&get(&world.node, "/metrics"), "pushdowndb_scans_active");
        assert!(eventually(|| active() == 1.0));
        let kept = stops_reading.then_some(stream);
        let ended = eventually(|| {
            let reading = get(&world.node, "/metrics");
            metric(&reading, "pushdowndb_scans_active") == 0.0 && metric(&reading, "pushdowndb_scan_tasks") == 0.0
        });
        assert!(ended, "the scan went on; stops reading: {stops_reading}");
        drop(kept);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_finishes_what_is_under_way() {
    let world = World::new().await;
    let path = Path::from("large");
    world.client().put(&path, vec![5; 24 << 20].into()).await.unwrap();
    let url = signed_get(&world, &path).await;
    let address = world.node.address();
    let mut reading = TcpStream::connect(address).unwrap();
    write!(reading, "GET {url} HTTP/1.1\r\nHost: {address}\r\n\r\n").unwrap();
    let mut first = [0; 12];
    reading.read_exact(&mut first).unwrap();
    let rest = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(200));
        let mut all = Vec::new();
        reading.read_to_end(&mut all).unwrap();
        all
    });
    world.node.shutdown().await;
    assert!(TcpStream::connect(address).is_err(), "still accepting");
    let all = rest.join().unwrap();
    assert!(all.len() > 24 << 20, "cut off after {} bytes", all.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn old_requests_are_refused() {
    let world = World::with(|limits| limits.clock_skew = Duration::from_secs(1)).await;
    let path = Path::from("x");
    world.client().put(&path, "x".into()).await.unwrap();
    let keys = world.node.credentials();
    // A signature of an hour ago, whether or not it is right.
    let then = chrono::Utc::now() - chrono::TimeDelta::hours(1);
    let (day, time) = (then.format("%Y%m%d"), then.format("%Y%m%dT%H%M%SZ"));
    let request = format!(
        "GET /{BUCKET}/x HTTP/1.1\r\nHost: x\r\nx-amz-date: {time}\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential={}/{day}/us-east-1/s3/aws4_request, \
         SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={}\r\nConnection: close\r\n\r\n",
        keys.access_key_id,
        "0".repeat(64),
    );
    let answer = raw(&world.node, &request);
    assert!(answer.contains("<Code>RequestTimeTooSkewed</Code>"), "{answer}");
}

/// A file system that does not answer holds a thread for ever; it must not hold the node.
#[test]
fn a_thread_that_never_comes_back_does_not_keep_a_node_from_stopping() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (release, stuck) = std::sync::mpsc::channel::<()>();
    let done = runtime.block_on(async {
        let node = start(NodeConfig::store(dir.path().join("store"))).await.unwrap();
        tokio::task::spawn_blocking(move || stuck.recv());
        tokio::time::timeout(Duration::from_secs(30), node.shutdown()).await
    });
    assert!(done.is_ok(), "the node waits for a thread that never comes back");
    drop(release);
}
