//! A proxy that makes a server near by answer like an object store in the cloud: late, and with a
//! cap on each connection.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::args::LatencyArgs;

/// The most bytes that are passed on at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Chunks under way on a connection: the network's buffers.
const MAX_QUEUED_CHUNKS: usize = 256;

/// Passes connections on until it is ended.
pub async fn run(args: LatencyArgs) -> Result<()> {
    let listener = TcpListener::bind(args.listen).await.with_context(|| format!("listening on {}", args.listen))?;
    let delay = Delay { first: args.first.into(), bytes_per_s: args.mbps * 1e6 };
    println!("passing {} on to {}", listener.local_addr()?, args.to);
    loop {
        let (client, _) = listener.accept().await?;
        tokio::spawn(async move {
            if let Err(error) = pass_on(client, args.to, delay).await {
                eprintln!("{}: {error:#}", args.to);
            }
        });
    }
}

/// How answers are delayed.
#[derive(Clone, Copy, Debug)]
struct Delay {
    /// The time before the first byte of each answer.
    first: Duration,
    /// The most bytes of answers of a connection in a second; 0: no cap.
    bytes_per_s: f64,
}

async fn pass_on(client: TcpStream, to: SocketAddr, delay: Delay) -> Result<()> {
    let server = TcpStream::connect(to).await.context("connecting")?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Whether a request went by since the last answer began.
    let asked = Arc::new(AtomicBool::new(false));
    let requests = tokio::spawn(requests(from_client, to_server, Arc::clone(&asked)));
    let answers = answers(from_server, to_client, asked, delay).await;
    requests.abort();
    answers
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, asked: Arc<AtomicBool>) -> Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let bytes = from.read(&mut chunk).await?;
        asked.store(true, Ordering::Release);
        if bytes == 0 {
            return Ok(to.shutdown().await?);
        }
        to.write_all(&chunk[..bytes]).await?;
    }
}

/// Passes answers on. Reading goes on while chunks wait for their time, as bytes do in a network.
async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, asked: Arc<AtomicBool>, delay: Delay) -> Result<()> {
    let (sender, mut queued) = mpsc::channel::<(Instant, Vec<u8>)>(MAX_QUEUED_CHUNKS);
    let reading = tokio::spawn(async move {
        let mut free = Instant::now();
        loop {
            let mut chunk = vec![0; CHUNK_BYTES];
            let Ok(bytes @ 1..) = from.read(&mut chunk).await else { return };
            chunk.truncate(bytes);
            let mut due = Instant::now();
            if asked.swap(false, Ordering::AcqRel) {
                due += delay.first;
            }
            if delay.bytes_per_s > 0.0 {
                due = due.max(free);
                free = due + Duration::from_secs_f64(bytes as f64 / delay.bytes_per_s);
            }
            if sender.send((due, chunk)).await.is_err() {
                return;
            }
        }
    });
    while let Some((due, chunk)) = queued.recv().await {
        sleep_until(due).await;
        if to.write_all(&chunk).await.is_err() {
            break;
        }
    }
    reading.abort();
    // The client may have gone first.
    let _ = to.shutdown().await;
    Ok(())
}
