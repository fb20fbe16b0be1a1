//! The HTTP layer under every remote store: it counts traffic and learns about endpoints.
//!
//! Counting here, below object_store, includes retries, listings and aborted downloads.

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
use pushdowndb_contract::wire::{QUERY, RouteStats, VERSION_HEADER, common_version};
use pushdowndb_contract::{Error, Profile};
use pushdowndb_cost::{Meter, RequestKind};
use pushdowndb_http::Connector;
use pushdowndb_http::reads::ReadLimit;
use tokio::time::Sleep;

use super::profile::{EndpointProfile, Kind, Scanner};

/// Idle timeout of listings, samples, indexes and the like. Scans have a shorter one of their own
/// (`pushdown.timeout_s`).
const SILENCE_TIMEOUT: Duration = Duration::from_secs(300);

fn silent() -> HttpError {
    let seconds = SILENCE_TIMEOUT.as_secs();
    HttpError::new(HttpErrorKind::Timeout, std::io::Error::other(format!("no answer for {seconds} s")))
}

/// The facts about an endpoint that its answers show.
#[derive(Debug, Default)]
pub(crate) struct EndpointState {
    profile: std::sync::OnceLock<Profile>,
    select_refused: AtomicBool,
    /// The version of the fragment route that both sides support, by the endpoint's last answer; 0
    /// if there is none.
    fragment: AtomicU32,
    fragment_refused: AtomicBool,
    /// Its latency, bandwidth and scan rates.
    pub(crate) speed: EndpointProfile,
    /// The limit on plain reads in flight, for an endpoint with high latency.
    pub(crate) reads: Arc<ReadLimit>,
}

impl EndpointState {
    /// Returns the kind of server; `None` before its first answer.
    pub(crate) fn profile(&self) -> Option<Profile> {
        self.profile.get().copied()
    }

    /// Whether the endpoint answered S3 Select with 405 or 501, so that it gets no further such
    /// requests.
    pub(crate) fn refuses_select(&self) -> bool {
        self.select_refused.load(Ordering::Relaxed)
    }

    /// Records that the endpoint refuses S3 Select.
    pub(crate) fn refuse_select(&self) {
        self.select_refused.store(true, Ordering::Relaxed);
    }

    /// Returns the version of the fragment route to use; `None` if there is none or the endpoint
    /// refused it.
    pub(crate) fn fragment(&self) -> Option<u32> {
        let version = self.fragment.load(Ordering::Relaxed);
        (version != 0 && !self.fragment_refused.load(Ordering::Relaxed)).then_some(version)
    }

    /// Records that the endpoint refuses fragments.
    pub(crate) fn refuse_fragment(&self) {
        self.fragment_refused.store(true, Ordering::Relaxed);
    }

    /// Adopts what another process learned about the endpoint, until the endpoint answers here.
    pub(crate) fn told(&self, profile: Profile, fragment: Option<u32>) {
        self.profile.get_or_init(|| profile);
        if let Some(version) = fragment
            && self.fragment.load(Ordering::Relaxed) == 0
        {
            self.fragment.store(version, Ordering::Relaxed);
        }
    }

    fn learn(&self, headers: &http::HeaderMap) {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        if let Some(server) = text(http::header::SERVER.as_str()) {
            self.profile.get_or_init(|| Profile::from_server_header(server));
        }
        if let Some(versions) = text(VERSION_HEADER) {
            self.fragment.store(common_version(versions).unwrap_or(0), Ordering::Relaxed);
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
    pub(crate) fn open(client: HttpClient, speed: EndpointProfile) -> Self {
        let state = EndpointState { speed, ..EndpointState::default() };
        Self { client, state: Arc::new(state) }
    }

    pub(crate) fn state(&self) -> &Arc<EndpointState> {
        &self.state
    }

    /// Returns an HTTP client over the same connections that counts into `meters`.
    pub(crate) fn metered(&self, meters: Meters) -> MeteredHttp {
        MeteredHttp { connections: self.clone(), meters }
    }
}

/// The HTTP client of a process, shared since making one reads all root certificates.
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

/// For requests outside of queries, such as those for credentials.
impl HttpConnector for SharedClient {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.client())
    }
}

/// The meters that count traffic: that of the query, and that of the operator that causes it, if
/// any.
#[derive(Clone, Debug)]
pub(crate) struct Meters(pub(crate) Vec<Arc<Meter>>);

impl Meters {
    pub(crate) fn each(&self, count: impl Fn(&Meter)) {
        self.0.iter().for_each(|meter| count(meter));
    }
}

/// An HTTP client that counts its requests and bytes.
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
        let announced = Announced::new(&self.meters, &request, kind, sent).map_err(beyond_caps)?;
        self.meters.each(|meter| {
            meter.request(kind);
            meter.sent(sent);
        });
        let asked = Instant::now();
        let is_question = matches!(kind, RequestKind::Get | RequestKind::Head | RequestKind::List);
        let answered = self.connections.client.execute(request);
        let answered = match is_question {
            true => tokio::time::timeout(SILENCE_TIMEOUT, answered).await.unwrap_or_else(|_| Err(silent())),
            // Uploads have no timeout, and the readers of pushdown responses have their own.
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
        if is_read && is_overload(response.status()) {
            state.reads.overloaded();
        }
        if is_read || matches!(kind, RequestKind::Head | RequestKind::List) {
            state.speed.answered(asked.elapsed());
            state.reads.answered(asked.elapsed());
        }
        let meters = self.meters.clone();
        let (parts, body) = response.into_parts();
        // Other responses include the work of storage, so they do not measure the network.
        let transfer = is_read.then(|| Transfer::begin(Arc::clone(state), asked));
        let silence = is_question.then(|| Box::pin(tokio::time::sleep(SILENCE_TIMEOUT)));
        let body = Counted { body, meters, announced, transfer, silence, waits: false };
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
    }
}

/// Wraps the error of a request that would exceed the query's caps. It is not retried.
fn beyond_caps(error: Error) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, error)
}

/// The bytes that a request in flight has still to receive; the meters reserve them against the
/// query's caps.
struct Announced {
    meters: Meters,
    bytes: u64,
    /// Whether the number of bytes is known before the answer comes.
    is_range: bool,
}

impl Announced {
    /// Reserves the bytes of a request in all meters; `sent` is the size of its body.
    ///
    /// # Errors
    ///
    /// Returns an error if the request would exceed the caps of a meter.
    fn new(meters: &Meters, request: &HttpRequest, kind: RequestKind, sent: u64) -> Result<Self, Error> {
        let mut announced = Self { meters: Meters(vec![]), bytes: asked_for(request), is_range: false };
        announced.is_range = announced.bytes > 0;
        // Requests that end uploads or delete objects must go through, or data would be left
        // behind.
        if matches!(kind, RequestKind::Delete) || matches!(kind, RequestKind::Put) && sent == 0 {
            return Ok(announced);
        }
        for meter in &meters.0 {
            meter.announce(sent, announced.bytes)?;
            announced.meters.0.push(Arc::clone(meter));
        }
        Ok(announced)
    }

    fn arrived(&mut self, bytes: u64) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.meters.each(|meter| meter.release(bytes));
    }
}

impl Drop for Announced {
    fn drop(&mut self) {
        self.meters.each(|meter| meter.release(self.bytes));
    }
}

/// Returns the number of bytes that a request's range asks for; 0 if the request does not tell.
fn asked_for(request: &HttpRequest) -> u64 {
    let range = request.headers().get(http::header::RANGE).and_then(|range| range.to_str().ok());
    let range = range.and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let Some((from, to)) = range else { return 0 };
    match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) => to.saturating_sub(from).saturating_add(1),
        // A suffix range: the last bytes of the object.
        (Err(_), Ok(last)) => last,
        _ => 0,
    }
}

/// A response body whose bytes are counted as they arrive.
struct Counted {
    body: HttpResponseBody,
    meters: Meters,
    announced: Announced,
    transfer: Option<Transfer>,
    /// The idle timer, which runs while a frame is awaited; `None` without a timeout.
    silence: Option<Pin<Box<Sleep>>>,
    waits: bool,
}

impl Counted {
    /// Returns whether the next frame, which is awaited if `waits`, is overdue.
    fn is_silent(&mut self, waits: bool, context: &mut Context<'_>) -> bool {
        let waited = std::mem::replace(&mut self.waits, waits);
        let Some(silence) = self.silence.as_mut().filter(|_| waits) else { return false };
        if !waited {
            silence.as_mut().reset(tokio::time::Instant::now() + SILENCE_TIMEOUT);
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
            let bytes = data.len() as u64;
            self.announced.arrived(bytes);
            self.meters.each(|meter| meter.received(bytes));
            // The bytes of a range were reserved before, so they need no check.
            if !self.announced.is_range
                && let Some(error) = self.meters.0.iter().find_map(|meter| meter.check_bytes().err())
            {
                polled = Poll::Ready(Some(Err(beyond_caps(error))));
            }
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

/// A download whose rate is measured while this value lives.
struct Transfer {
    state: Arc<EndpointState>,
    waits_since: Option<Instant>,
}

impl Transfer {
    fn begin(state: Arc<EndpointState>, asked: Instant) -> Self {
        state.speed.begin_transfer(asked, Instant::now());
        Self { state, waits_since: None }
    }

    fn polled(&mut self, polled: &Poll<Option<Result<Frame<Bytes>, HttpError>>>) {
        match polled {
            Poll::Pending => {
                self.waits_since.get_or_insert_with(Instant::now);
            }
            Poll::Ready(Some(Ok(frame))) => {
                let waited = self.waits_since.take().map_or(Duration::ZERO, |since| since.elapsed());
                let bytes = frame.data_ref().map_or(0, Bytes::len) as u64;
                self.state.speed.transferred(bytes, waited, Instant::now());
            }
            Poll::Ready(_) => self.waits_since = None,
        }
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.state.speed.end_transfer(Instant::now());
    }
}

/// A scan by storage, timed while this value lives. `kind` is `None` if it does not show a scan
/// rate.
pub(crate) struct ScanInStorage {
    state: Arc<EndpointState>,
    by: Scanner,
    kind: Option<Kind>,
}

impl ScanInStorage {
    pub(crate) fn begin(state: &Arc<EndpointState>, by: Scanner, kind: Option<Kind>) -> Self {
        state.speed.begin_scan(by, kind, Instant::now());
        Self { state: Arc::clone(state), by, kind }
    }

    /// Records the bytes that storage reports to have scanned and returned.
    pub(crate) fn scanned(&self, scanned: u64, returned: u64) {
        if let Some(kind) = self.kind {
            self.state.speed.scanned(self.by, kind, scanned, returned, Instant::now());
        }
    }

    /// Records what a node reports about the scan. If it skipped data, its rate does not count.
    pub(crate) fn worked(&self, stats: &RouteStats) {
        if stats.cores > 0 {
            self.state.speed.reported_load(stats, Instant::now());
        }
        let cpu = Duration::from_nanos(stats.cpu_ns);
        self.state.speed.reported_cpu(cpu, Duration::from_nanos(stats.busy_ns));
        let passed_over = stats.bytes_pruned > 0 || stats.row_groups_pruned > 0 || stats.cpu_ns == 0;
        if let Some(kind) = self.kind.filter(|_| !passed_over) {
            self.state.speed.scanned_in(self.by, kind, stats.bytes_scanned, stats.bytes_returned, cpu);
        }
    }
}

impl Drop for ScanInStorage {
    fn drop(&mut self) {
        self.state.speed.end_scan(self.by, self.kind, Instant::now());
    }
}

impl HttpConnector for MeteredHttp {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.clone().client())
    }
}

/// Returns whether the status means that a server is overloaded.
fn is_overload(status: StatusCode) -> bool {
    status == StatusCode::SERVICE_UNAVAILABLE || status == StatusCode::TOO_MANY_REQUESTS
}

/// Returns the kind under which the price book counts a request.
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

    #[test]
    fn ranges_say_how_much_they_ask_for() {
        let asked = |range: &str| {
            let request = http::Request::builder().header("range", range);
            asked_for(&request.body(object_store::client::HttpRequestBody::empty()).unwrap())
        };
        assert_eq!([asked("bytes=0-99"), asked("bytes=-8"), asked("bytes=5-"), asked("x")], [100, 8, 0, 0]);
    }
}
