//! The HTTP layer under every remote store: counts what crosses the network and learns who answers.
//!
//! Counting here, below object_store, sees retries, listings and aborted downloads as they really happened.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Body, Frame, SizeHint};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use pushdown::Profile;
use pushdown::wire::{QUERY, RouteStats, SHARE_HEADER, VERSION_HEADER, common_version};
use pushdowndb_cost::{Meter, RequestKind};
use pushdowndb_http::Connector;
use tokio::time::Sleep;

use super::speed::{Kind, Scanner, Speed};

/// Whoever is asked and says nothing for so long is given up. What scans read has a limit of its own, which is to be shorter
/// (`pushdown.timeout_s`); this one is for listings, samples, indexes, and whatever else is read besides.
const SILENCE: Duration = Duration::from_secs(300);

fn silent() -> HttpError {
    let seconds = SILENCE.as_secs();
    HttpError::new(HttpErrorKind::Timeout, std::io::Error::other(format!("no answer for {seconds} s")))
}

/// What is learned about an endpoint while talking to it.
#[derive(Debug, Default)]
pub(crate) struct EndpointState {
    profile: std::sync::OnceLock<Profile>,
    select_refused: AtomicBool,
    /// The version of the fragment route that both sides speak, by the last answer that told; 0 is none.
    fragment: AtomicU32,
    fragment_refused: AtomicBool,
    /// How fast it is.
    pub(crate) speed: Speed,
}

impl EndpointState {
    /// The kind of server that answered, once one has.
    pub(crate) fn profile(&self) -> Option<Profile> {
        self.profile.get().copied()
    }

    /// Whether the endpoint answered 405 or 501 to S3 Select: it is not asked again.
    pub(crate) fn refuses_select(&self) -> bool {
        self.select_refused.load(Ordering::Relaxed)
    }

    /// Remembers that it refuses S3 Select.
    pub(crate) fn refuse_select(&self) {
        self.select_refused.store(true, Ordering::Relaxed);
    }

    /// The version of the fragment route to speak with it, unless it refused one.
    pub(crate) fn fragment(&self) -> Option<u32> {
        let version = self.fragment.load(Ordering::Relaxed);
        (version != 0 && !self.fragment_refused.load(Ordering::Relaxed)).then_some(version)
    }

    /// Remembers that it refuses fragments.
    pub(crate) fn refuse_fragment(&self) {
        self.fragment_refused.store(true, Ordering::Relaxed);
    }

    fn learn(&self, headers: &http::HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(server) = text(http::header::SERVER.as_str()) {
            self.profile.get_or_init(|| Profile::from_server_header(server));
        }
        if let Some(versions) = text(VERSION_HEADER) {
            self.fragment.store(common_version(versions).unwrap_or(0), Ordering::Relaxed);
        }
        if let Some(share) = text(SHARE_HEADER).and_then(|share| share.parse().ok()) {
            self.speed.left_by_others(share);
        }
    }
}

/// Connections to one endpoint, shared by all queries.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    client: HttpClient,
    state: Arc<EndpointState>,
}

impl Connections {
    pub(crate) fn open(client: HttpClient, speed: Speed) -> Self {
        let state = EndpointState { speed, ..EndpointState::default() };
        Self { client, state: Arc::new(state) }
    }

    pub(crate) fn state(&self) -> &Arc<EndpointState> {
        &self.state
    }

    /// The same connections, counting into these meters.
    pub(crate) fn metered(&self, meters: Meters) -> MeteredHttp {
        MeteredHttp { connections: self.clone(), meters }
    }
}

/// The client of a process: making one reads all root certificates.
#[derive(Clone, Debug)]
pub(crate) struct SharedClient(HttpClient);

impl SharedClient {
    pub(crate) fn new(connector: &Connector, options: &ClientOptions) -> object_store::Result<Self> {
        connector.connect(options).map(Self)
    }

    pub(crate) fn client(&self) -> HttpClient {
        self.0.clone()
    }
}

/// For requests that are no query's, such as those for credentials.
impl HttpConnector for SharedClient {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.client())
    }
}

/// Where traffic is counted: the query, and the operator that caused it if one did.
#[derive(Clone, Debug)]
pub(crate) struct Meters(pub(crate) Vec<Arc<Meter>>);

impl Meters {
    pub(crate) fn each(&self, count: impl Fn(&Meter)) {
        self.0.iter().for_each(|meter| count(meter));
    }
}

/// An HTTP client that counts.
#[derive(Clone, Debug)]
pub(crate) struct MeteredHttp {
    connections: Connections,
    meters: Meters,
}

impl MeteredHttp {
    pub(crate) fn client(self) -> HttpClient {
        HttpClient::new(self)
    }
}

#[async_trait]
impl HttpService for MeteredHttp {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let kind = kind(request.method(), request.uri().query().unwrap_or_default());
        let sent = request.body().content_length() as u64;
        self.meters.each(|meter| {
            meter.request(kind);
            meter.sent(sent);
        });
        let asked = Instant::now();
        let is_question = matches!(kind, RequestKind::Get | RequestKind::Head | RequestKind::List);
        let answered = self.connections.client.execute(request);
        let answered = match is_question {
            true => tokio::time::timeout(SILENCE, answered).await.unwrap_or_else(|_| Err(silent())),
            // An upload takes as long as it takes, and scans by storage are timed by who reads their answers.
            false => answered.await,
        };
        let comes_back = |status: StatusCode| status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        if answered.as_ref().map_or(true, |response| comes_back(response.status())) {
            self.meters.each(Meter::failed);
        }
        let response = answered?;
        let state = &self.connections.state;
        state.learn(response.headers());
        let is_read = matches!(kind, RequestKind::Get);
        if is_read || matches!(kind, RequestKind::Head | RequestKind::List) {
            state.speed.answered(asked.elapsed());
        }
        let meters = self.meters.clone();
        let (parts, body) = response.into_parts();
        // Storage works while it answers other requests: they say nothing about the network.
        let transfer = is_read.then(|| Transfer::begin(Arc::clone(state), asked));
        let silence = is_question.then(|| Box::pin(tokio::time::sleep(SILENCE)));
        let body = Counted { body, meters, transfer, silence, waits: false };
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// A body whose bytes are counted as they arrive.
struct Counted {
    body: HttpResponseBody,
    meters: Meters,
    transfer: Option<Transfer>,
    /// Runs while the next frame is waited for, if it is not to be waited for for ever.
    silence: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

impl Counted {
    /// Whether the next frame has been waited for too long.
    fn is_silent(&mut self, waits: bool, context: &mut Context<'_>) -> bool {
        let waited = std::mem::replace(&mut self.waits, waits);
        let Some(silence) = self.silence.as_mut().filter(|_| waits) else { return false };
        if !waited {
            silence.as_mut().reset(tokio::time::Instant::now() + SILENCE);
        }
        silence.as_mut().poll(context).is_ready()
    }
}

impl Body for Counted {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let mut polled = Pin::new(&mut self.body).poll_frame(context);
        if self.is_silent(polled.is_pending(), context) {
            polled = Poll::Ready(Some(Err(silent())));
        }
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.meters.each(|meter| meter.received(data.len() as u64));
        }
        if let Poll::Ready(Some(Err(_))) = &polled {
            self.meters.each(Meter::failed);
        }
        if let Some(transfer) = &mut self.transfer {
            transfer.polled(&polled);
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A transfer over the network, whose speed is measured.
struct Transfer {
    state: Arc<EndpointState>,
    waits_since: Option<Instant>,
}

impl Transfer {
    fn begin(state: Arc<EndpointState>, asked: Instant) -> Self {
        state.speed.begin_transfer(asked);
        Self { state, waits_since: None }
    }

    fn polled(&mut self, polled: &Poll<Option<Result<Frame<Bytes>, HttpError>>>) {
        match polled {
            Poll::Pending => {
                self.waits_since.get_or_insert_with(Instant::now);
            }
            Poll::Ready(Some(Ok(frame))) => {
                let waited = self.waits_since.take().map_or(Duration::ZERO, |since| since.elapsed());
                self.state.speed.transferred(frame.data_ref().map_or(0, Bytes::len) as u64, waited);
            }
            Poll::Ready(_) => self.waits_since = None,
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.state.speed.end_transfer();
    }
}

/// A scan by storage. Its speed is measured while this is alive, if it shows that of something.
pub(crate) struct ScanInStorage {
    state: Arc<EndpointState>,
    by: Scanner,
    kind: Option<Kind>,
}

impl ScanInStorage {
    pub(crate) fn begin(state: &Arc<EndpointState>, by: Scanner, kind: Option<Kind>) -> Self {
        if let Some(kind) = kind {
            state.speed.begin_scan(by, kind);
        }
        state.speed.scan_is_under_way();
        Self { state: Arc::clone(state), by, kind }
    }

    /// What storage says it did.
    pub(crate) fn scanned(&self, scanned: u64, returned: u64) {
        if let Some(kind) = self.kind {
            self.state.speed.scanned(self.by, kind, scanned, returned);
        }
    }

    /// What our node says it did. What it passed over shows no speed.
    pub(crate) fn worked(&self, stats: &RouteStats) {
        if stats.cores > 0 {
            self.state.speed.loaded(stats);
        }
        let worked = Duration::from_nanos(stats.cpu_ns);
        self.state.speed.shared(worked, Duration::from_nanos(stats.busy_ns));
        let passed_over = stats.bytes_pruned > 0 || stats.row_groups_pruned > 0 || stats.cpu_ns == 0;
        if let Some(kind) = self.kind.filter(|_| !passed_over) {
            self.state.speed.worked(self.by, kind, stats.bytes_scanned, stats.bytes_returned, worked);
        }
    }
}

impl Drop for ScanInStorage {
    fn drop(&mut self) {
        if let Some(kind) = self.kind {
            self.state.speed.end_scan(self.by, kind);
        }
        self.state.speed.scan_is_over();
    }
}

impl HttpConnector for MeteredHttp {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.clone().client())
    }
}

/// What a request is to a price book.
fn kind(method: &Method, query: &str) -> RequestKind {
    let has = |name: &str| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    match *method {
        Method::HEAD => RequestKind::Head,
        Method::DELETE => RequestKind::Delete,
        Method::GET if has("list-type") || has("uploads") => RequestKind::List,
        Method::GET => RequestKind::Get,
        Method::POST if has("select") => RequestKind::Select,
        Method::POST if has(QUERY) => RequestKind::Fragment,
        Method::POST if has("delete") => RequestKind::Delete,
        _ => RequestKind::Put,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_priced_by_what_they_do() {
        assert!(matches!(kind(&Method::GET, ""), RequestKind::Get));
        assert!(matches!(kind(&Method::GET, "list-type=2&prefix=a"), RequestKind::List));
        assert!(matches!(kind(&Method::POST, "select&select-type=2"), RequestKind::Select));
        assert!(matches!(kind(&Method::POST, "pushdowndb-fragment"), RequestKind::Fragment));
        assert!(matches!(kind(&Method::POST, "uploads"), RequestKind::Put));
        assert!(matches!(kind(&Method::PUT, "partNumber=1&uploadId=x"), RequestKind::Put));
    }
}
