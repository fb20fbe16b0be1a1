//! Servers that die, refuse and lie: the rows stay right, or the query fails; never anything between.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pushdown::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::world::{World, assert_same, failure, rows};

/// What happens to an S3 Select request on its way.
#[derive(Clone, Copy)]
enum Fault {
    /// The answer is cut off after so many bytes.
    CutAfter(usize),
    /// The answer is 501.
    NotImplemented,
}

/// A proxy that spoils the first `times` answers to S3 Select.
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
    loop {
        tokio::select! {
            read = client.read(&mut asked) => {
                let n = read?;
                if n == 0 { return Ok(()) }
                let select = asked[..n].windows(13).any(|w| w == b"select-type=2");
                if select && count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |c| (c < times).then_some(c + 1)).is_ok() {
                    match fault {
                        Fault::CutAfter(bytes) => left = Some(bytes),
                        Fault::NotImplemented => {
                            let answer = "HTTP/1.1 501 Not Implemented\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
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
async fn through(fault: Fault, times: usize) {
    let mut world = World::node().await;
    let count = table(&world).await;
    let want: Vec<Vec<String>> = (0..count).filter(|id| id % 3 == 1).map(|id| vec![id.to_string()]).collect();
    let target = world.endpoint.trim_start_matches("http://").parse().expect("an address");
    let (endpoint, spoiled) = proxy(target, fault, times).await;
    world.endpoint = endpoint;
    let engine = world.engine("select").await;
    engine.execute(&declare(&world)).await.expect("a table");
    let (got, report) = rows(&engine, SQL).await.expect("rows in spite of it all");
    assert_same("through a fault", &got, &want);
    let spoiled = spoiled.load(Ordering::SeqCst);
    assert!(spoiled > 0, "the fault was met");
    let fell_back = report.usage.strategies.iter().any(|s| s.contains("fell back to GET"));
    let retries = 3;
    match fault {
        Fault::CutAfter(_) if times <= retries => assert!(!fell_back, "{times} cuts are mended by retries"),
        _ => assert!(fell_back, "the report says that it fell back: {:?}", report.usage.strategies),
    }
    if matches!(fault, Fault::NotImplemented) {
        let (_, report) = rows(&engine, SQL).await.expect("rows");
        assert_eq!(report.usage.requests.select, 0, "an endpoint that refused is not asked again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_answer_is_asked_for_again() {
    for bytes in [1, 300, 20_000] {
        through(Fault::CutAfter(bytes), 2).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_cut_again_and_again_are_read_plainly() {
    through(Fault::CutAfter(20_000), usize::MAX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_select_is_read_plainly() {
    through(Fault::NotImplemented, usize::MAX).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_released_early_are_never_repeated() {
    let mut world = World::node().await;
    table(&world).await;
    let target = world.endpoint.trim_start_matches("http://").parse().expect("an address");
    let (endpoint, _) = proxy(target, Fault::CutAfter(350_000), usize::MAX).await;
    world.endpoint = endpoint;
    let engine = world.engine_configured(&[("pushdown.level", "select"), ("pushdown.buffer_bytes", "1")]).await;
    engine.execute(&declare(&world)).await.expect("a table");
    let error = failure(&engine, "SELECT id, text FROM t WHERE id >= 0").await;
    assert!(error.message().contains("after rows of a large split were passed on"), "{error}");
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
