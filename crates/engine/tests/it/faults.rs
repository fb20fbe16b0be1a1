//! Servers that die, refuse and lie: the rows stay right, or the query fails; never anything between.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use object_store::ObjectStoreExt;
use pushdown::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{World, assert_same, failure, rows};

/// What happens on its way to a request that pushes something.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The answer is cut off after so many bytes.
    CutAfter(usize),
    /// The answer is cut off after so many of its events.
    CutAtEvent(usize),
    /// A bit of this event is turned.
    Damage(usize),
    /// The answer is another: its status and reason.
    Answer(&'static str),
}

/// How requests that push something are told from others: those of S3 Select, those of the fragment route.
const PUSHED: [&[u8]; 2] = [b"select-type=2", b"?pushdowndb-fragment"];

/// A proxy that spoils the first `times` answers to requests that push something.
async fn proxy(target: SocketAddr, fault: Fault, times: usize) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let spoiled = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&spoiled);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let count = Arc::clone(&count);
            tokio::spawn(async move {
                let _ = forward(client, target, fault, times, &count).await;
            });
        }
    });
    (format!("http://{address}"), spoiled)
}

async fn forward(
    mut client: TcpStream,
    target: SocketAddr,
    fault: Fault,
    times: usize,
    count: &AtomicUsize,
) -> std::io::Result<()> {
    let mut server = TcpStream::connect(target).await?;
    let (mut asked, mut answered) = (vec![0; 65536], vec![0; 65536]);
    let mut left = None;
    let mut whole: Option<Vec<u8>> = None;
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let n = read?;
                if n == 0 { return Ok(()) }
                let pushed = PUSHED.iter().any(|mark| asked[..n].windows(mark.len()).any(|w| w == *mark));
                if pushed && count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |c| (c < times).then_some(c + 1)).is_ok() {
                    match fault {
                        Fault::CutAfter(bytes) => left = Some(bytes),
                        Fault::CutAtEvent(_) | Fault::Damage(_) => whole = Some(Vec::new()),
                        Fault::Answer(status) => {
                            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                            client.write_all(answer.as_bytes()).await?;
                            return Ok(());
                        }
                    }
                }
                server.write_all(&asked[..n]).await?;
            }
            read = server.read(&mut answered) => {
                let n = read?;
                if n == 0 { return Ok(()) }
                if let Some(whole) = &mut whole {
                    whole.extend_from_slice(&answered[..n]);
                    if whole.ends_with(b"\r\n0\r\n\r\n") {
                        return client.write_all(&spoiled(whole, fault)).await;
                    }
                    continue;
                }
                let send = left.map_or(n, |left: usize| left.min(n));
                client.write_all(&answered[..send]).await?;
                if let Some(rest) = &mut left {
                    *rest -= send;
                    if *rest == 0 { return Ok(()) }
                }
            }
        }
    }
}

/// Head, then the events: the node sends each as a chunk of its own.
fn events(answer: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let head = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    let (mut rest, mut chunks) = (&answer[head..], Vec::new());
    loop {
        let line = rest.windows(2).position(|w| w == b"\r\n").expect("the length of a chunk");
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).expect("digits"), 16).expect("a length");
        if length == 0 {
            return (answer[..head].to_vec(), chunks);
        }
        let end = line + 2 + length + 2;
        chunks.push(rest[..end].to_vec());
        rest = &rest[end..];
    }
}

fn spoiled(answer: &[u8], fault: Fault) -> Vec<u8> {
    let (head, mut events) = events(answer);
    match fault {
        Fault::CutAtEvent(count) => events.truncate(count),
        Fault::Damage(place) => {
            let place = place % events.len();
            let middle = events[place].len() / 2;
            events[place][middle] ^= 4;
        }
        _ => {}
    }
    let mut answer = [head, events.concat()].concat();
    if matches!(fault, Fault::Damage(_)) {
        answer.extend_from_slice(b"0\r\n\r\n");
    }
    answer
}

async fn table(world: &World) -> usize {
    let mut csv = String::from("id,text\n");
    let count = 20_000;
    for id in 0..count {
        csv.push_str(&format!("{id},row number {id}\n"));
    }
    world.put("t/1.csv", csv).await;
    count
}

fn declare(world: &World) -> String {
    format!(
        "CREATE EXTERNAL TABLE t (id BIGINT NOT NULL, text VARCHAR NOT NULL) STORED AS CSV LOCATION '{}' \
         OPTIONS ('format.has_header' 'true', 'backend' 'pushdowndb')",
        world.url("t/")
    )
}

const SQL: &str = "SELECT id FROM t WHERE id % 3 = 1";

/// The rows through a spoiled connection, and what the report says.
async fn through(level: &str, fault: Fault, times: usize) {
    let mut world = World::node().await;
    let count = table(&world).await;
    let want: Vec<Vec<String>> = (0..count).filter(|id| id % 3 == 1).map(|id| vec![id.to_string()]).collect();
    let target = world.endpoint.trim_start_matches("http://").parse().expect("an address");
    let (endpoint, spoiled) = proxy(target, fault, times).await;
    world.endpoint = endpoint;
    let engine = world.engine(level).await;
    engine.execute(&declare(&world)).await.expect("a table");
    let what = format!("{fault:?} {times} times at {level}");
    let (got, report) = rows(&engine, SQL).await.unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_same(&what, &got, &want);
    let spoiled = spoiled.load(Ordering::SeqCst);
    assert!(spoiled > 0, "{what}: the fault was met");
    let fell_back = report.usage.strategies.iter().any(|s| s.contains("fell back to GET"));
    let retries = 3;
    match fault {
        Fault::CutAfter(_) | Fault::CutAtEvent(0) if times <= retries => {
            assert!(!fell_back, "{what}: retries mend it");
        }
        // Whether rows were missing depends on which event it was.
        Fault::CutAtEvent(1..) | Fault::Damage(_) => {}
        Fault::Answer("503 Slow Down") if times <= retries => assert!(!fell_back, "{what}: retries mend it"),
        _ => assert!(fell_back, "{what}: the report says that it fell back: {:?}", report.usage.strategies),
    }
    if matches!(fault, Fault::Answer(status) if !status.starts_with("503")) {
        let (_, report) = rows(&engine, SQL).await.expect("rows");
        let requests = report.usage.requests;
        let again = if level == "select" { requests.select } else { requests.fragment };
        assert_eq!(again, 0, "{what}: an endpoint that refused is not asked again");
    }
}

const LEVELS: [&str; 2] = ["select", "fragment"];

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_is_asked_for_again() {
    for level in LEVELS {
        for bytes in [1, 300, 20_000] {
            through(level, Fault::CutAfter(bytes), 2).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_cut_again_and_again_are_read_plainly() {
    for level in LEVELS {
        through(level, Fault::CutAfter(20_000), usize::MAX).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_refuses_is_read_plainly() {
    through("select", Fault::Answer("501 Not Implemented"), usize::MAX).await;
    for status in ["501 Not Implemented", "405 Method Not Allowed", "404 Not Found"] {
        through("fragment", Fault::Answer(status), usize::MAX).await;
    }
    for level in LEVELS {
        through(level, Fault::Answer("503 Slow Down"), 2).await;
        through(level, Fault::Answer("503 Slow Down"), usize::MAX).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_cut_or_damaged_at_any_event_gives_the_rows() {
    // Batches, the end of the split, the bill, the end: the table makes fewer than these.
    for event in 0..8 {
        through("fragment", Fault::CutAtEvent(event), 1).await;
        through("fragment", Fault::CutAtEvent(event % 5), usize::MAX).await;
        through("fragment", Fault::Damage(event), 1).await;
    }
}

/// The first requests are told to slow down; meanwhile the object is replaced.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_replaced_between_tries_is_a_conflict() {
    for level in LEVELS {
        let mut world = World::node().await;
        table(&world).await;
        let store = world.store();
        let target = world.endpoint.trim_start_matches("http://").parse().expect("an address");
        let (endpoint, spoiled) = proxy(target, Fault::Answer("503 Slow Down"), 3).await;
        world.endpoint = endpoint;
        let engine = world.engine(level).await;
        engine.execute(&declare(&world)).await.expect("a table");
        let replace = async {
            while spoiled.load(Ordering::SeqCst) == 0 {
                tokio::task::yield_now().await;
            }
            store.put(&"t/1.csv".into(), "id,text\n1,new\n".into()).await.expect("a PUT");
        };
        let (error, ()) = tokio::join!(failure(&engine, SQL), replace);
        assert_eq!(error.kind(), ErrorKind::Conflict, "{level}: {error}");
        assert!(error.message().contains("t/1.csv"), "{level}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_released_early_are_never_repeated() {
    for (level, fault) in [("select", Fault::CutAfter(350_000)), ("fragment", Fault::CutAtEvent(1))] {
        let mut world = World::node().await;
        table(&world).await;
        let target = world.endpoint.trim_start_matches("http://").parse().expect("an address");
        let (endpoint, _) = proxy(target, fault, usize::MAX).await;
        world.endpoint = endpoint;
        let engine = world.engine_configured(&[("pushdown.level", level), ("pushdown.buffer_bytes", "1")]).await;
        engine.execute(&declare(&world)).await.expect("a table");
        let error = failure(&engine, "SELECT id, text FROM t WHERE id >= 0").await;
        assert!(error.message().contains("after rows of a large split were passed on"), "{level}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_server_is_said_so() {
    let mut world = World::node().await;
    world.endpoint = "http://127.0.0.1:1".to_owned();
    let engine = world.engine_configured(&[("pushdown.retries", "0")]).await;
    engine.execute(&declare(&world)).await.expect("declared columns need no server");
    let error = failure(&engine, SQL).await;
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}
