//! Health and metrics by HTTP: `GET /healthz`, `/readyz` and `/metrics`.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::shared::Server;

/// Maximum bytes of a request that are read.
const MAX_REQUEST_BYTES: usize = 4096;

/// Maximum time of a request.
const MAX_TIME: Duration = Duration::from_secs(5);

/// Maximum concurrent requests.
const MAX_REQUESTS: usize = 16;

/// Answers requests until `stopped`.
pub(crate) async fn serve(server: Arc<Server>, listener: TcpListener, mut stopped: watch::Receiver<bool>) {
    let mut registry = Registry::with_prefix("pushdowndb_sql");
    let help = "Time from the start of a query to its last row";
    registry.register_with_unit("query_duration", help, Unit::Seconds, server.counters.durations.clone());
    registry.register_collector(Box::new(ServerCollector(Arc::clone(&server))));
    let registry = Arc::new(registry);
    let places = Arc::new(Semaphore::new(MAX_REQUESTS));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|is_stopped| *is_stopped) => return,
        };
        let (Ok((socket, _)), Ok(place)) = (accepted, Arc::clone(&places).try_acquire_owned()) else { continue };
        let registry = Arc::clone(&registry);
        tokio::spawn(async move {
            drop(tokio::time::timeout(MAX_TIME, answer(&registry, socket)).await);
            drop(place);
        });
    }
}

async fn answer(registry: &Registry, mut socket: TcpStream) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && request.len() < MAX_REQUEST_BYTES {
        if socket.read_buf(&mut request).await? == 0 {
            break;
        }
    }
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, kind, body) = match (method, path) {
        (b"GET" | b"HEAD", b"/healthz" | b"/readyz") => ("200 OK", "text/plain", "ok\n".to_owned()),
        (b"GET" | b"HEAD", b"/metrics") => {
            let mut text = String::new();
            match encode(&mut text, registry) {
                Ok(()) => ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text),
                Err(_) => ("500 Internal Server Error", "text/plain", String::new()),
            }
        }
        (b"GET" | b"HEAD", _) => ("404 Not Found", "text/plain", "/healthz, /readyz, /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", String::new()),
    };
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    socket.write_all(head.as_bytes()).await?;
    if method == b"GET" {
        socket.write_all(body.as_bytes()).await?;
    }
    socket.shutdown().await
}

struct ServerCollector(Arc<Server>);

impl fmt::Debug for ServerCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerCollector")
    }
}

impl Collector for ServerCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Server { counters, admission, sessions, limits, .. } = &*self.0;
        let mut queries = encoder.encode_descriptor(
            "queries",
            "Queries by their outcome: ok or SQLSTATE",
            None,
            MetricType::Counter,
        )?;
        for (outcome, count) in counters.outcomes() {
            let labels = [("outcome", outcome)];
            ConstCounter::new(count).encode(queries.encode_family(&labels)?)?;
        }
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed) as f64;
        for (name, help, value) in [
            ("connections", "Connections that were accepted", load(&counters.connections)),
            ("connections_refused", "Connections that were refused before a session", load(&counters.refused)),
            ("rows", "Rows that were sent", load(&counters.rows)),
            ("network_bytes", "Bytes that queries moved from and to storage", load(&counters.network_bytes)),
            ("dollars", "What queries cost by the price book", counters.dollars()),
        ] {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(family)?;
        }
        let (running, waiting) = admission.load();
        for (name, help, value) in [
            ("sessions", "Open sessions", sessions.all().len()),
            ("queries_running", "Queries that run", running),
            ("queries_waiting", "Queries that wait for a place", waiting),
            ("queries_limit", "Queries that may run at once", limits.queries),
            ("connections_limit", "Connections that may be open at once", limits.connections),
        ] {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value as f64).encode(family)?;
        }
        Ok(())
    }
}
