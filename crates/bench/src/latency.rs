//! A proxy that makes a nearby server answer like an object store in the cloud: with a delay, and
//! with a cap on the rate of each connection.

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

/// Maximum bytes that are forwarded at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Maximum chunks in flight on a connection, like the buffers of a network.
const MAX_QUEUED_CHUNKS: usize = 256;

/// Forwards connections until the process is ended.
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
    /// Maximum bytes of answers per second on a connection; 0 is no cap.
    bytes_per_s: f64,
}

async fn pass_on(client: TcpStream, to: SocketAddr, delay: Delay) -> Result<()> {
    let server = TcpStream::connect(to).await.context("connecting")?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Whether a request was forwarded since the last answer began.
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

/// Forwards answers. Reading continues while chunks wait for their time, as in a network.
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
    // An error means that the client has disconnected already.
    let _ = to.shutdown().await;
    Ok(())
}
