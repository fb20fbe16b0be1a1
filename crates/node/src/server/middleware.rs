//! The path from a request to its response: admission, a deadline, common headers, and the access
//! log entry that is written when the last byte has been sent.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, RETRY_AFTER, SERVER as SERVER_HEADER};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::service::Service;
use s3s::Body;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout_at};
use uuid::Uuid;

use crate::admin::{Durations, Health, ListenerKind};
use crate::admission::{Admission, Connection, Ticket};
use crate::telemetry::{Gauge, LiveCounters, Outcome, RequestRecord, UNKNOWN_OPERATION};
use crate::transport::{ConnectionState, StallLimits, TimedBody};
use crate::{Limits, s3};

/// The Server header, by which engines recognize the node.
pub(crate) const SERVER: &str = concat!("pushdowndb/", env!("CARGO_PKG_VERSION"));

/// The versions of the fragment route that the node supports.
const FRAGMENT_VERSIONS: HeaderName = HeaderName::from_static(pushdowndb_contract::wire::VERSION_HEADER);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

/// A non-standard status: the client disconnected before there was a response.
const CLIENT_CLOSED_REQUEST: u16 = 499;

type StdError = Box<dyn std::error::Error + Send + Sync>;

/// Answers requests. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Middleware {
    shared: Arc<Shared>,
    listener: ListenerKind,
    /// The connection that the responses are sent on.
    connection: Option<(Arc<Connection>, ConnectionState)>,
}

struct Shared {
    service: s3::Service,
    health: Arc<Health>,
    counting: Arc<LiveCounters>,
    durations: Durations,
    admission: Arc<Admission>,
    limits: Limits,
}

impl Middleware {
    pub fn new(
        service: s3::Service,
        health: Arc<Health>,
        counting: Arc<LiveCounters>,
        durations: Durations,
        admission: Arc<Admission>,
        limits: Limits,
    ) -> Self {
        let shared = Arc::new(Shared { service, health, counting, durations, admission, limits });
        Self { shared, listener: ListenerKind::S3, connection: None }
    }

    /// Returns the middleware for the administration address, which serves no buckets.
    pub fn for_administration(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), listener: ListenerKind::Admin, connection: None }
    }

    /// Returns the middleware for one connection.
    pub fn for_connection(&self, connection: Arc<Connection>, state: ConnectionState) -> Self {
        Self { shared: Arc::clone(&self.shared), listener: self.listener, connection: Some((connection, state)) }
    }

    async fn answer(self, request: Request<Incoming>) -> Response<ResponseBody> {
        let between = self.connection.as_ref().map(|(_, state)| RequestInProgress::after(state));
        let peer = self.connection.as_ref().map(|(connection, _)| connection.peer());
        if let Some(answer) = self.shared.health.answer(self.listener, peer, &request) {
            return answer.map(|text| ResponseBody::untracked(Body::from(text)));
        }
        match self.listener {
            ListenerKind::S3 => {
                let connection = self.connection.as_ref().map(|(connection, _)| Arc::clone(connection));
                self.shared.s3(request, connection, between).await
            }
            ListenerKind::Admin => {
                let mut response = Response::new(ResponseBody::untracked(Body::empty()));
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
        }
    }
}

impl Service<Request<Incoming>> for Middleware {
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let middleware = self.clone();
        Box::pin(async move { Ok(middleware.answer(request).await) })
    }
}

impl Shared {
    /// Completes if the request is not authenticated within the time limit for its head. Most
    /// requests are authenticated at the first poll, which needs no timer.
    async fn is_not_authenticated(&self, ticket: &Ticket) {
        if ticket.is_authenticated() {
            return std::future::pending().await;
        }
        tokio::select! {
            () = sleep(self.limits.header_read) => {}
            () = ticket.authenticated() => std::future::pending().await,
        }
    }

    async fn s3(
        &self,
        request: Request<Incoming>,
        connection: Option<Arc<Connection>>,
        between: Option<RequestInProgress>,
    ) -> Response<ResponseBody> {
        let id = Uuid::new_v4().simple().to_string();
        let record = Arc::new(RequestRecord::new(id.clone(), request.method().clone()));
        let deadline = Instant::now() + self.limits.request_time;
        // From here on every exit, including a disconnect, writes the access log entry.
        let ticket = self.admission.ticket(connection);
        let mut guard =
            AccessLogGuard::new(Arc::clone(&record), &self.counting, &self.durations, Arc::clone(&ticket), between);

        let mut response = if head_bytes(&request) > self.limits.head_bytes {
            let message = format!("the head of a request has at most {} bytes", self.limits.head_bytes);
            refusal(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "RequestHeaderSectionTooLarge", &message, &id)
        } else {
            let (patience, arriving) = (StallLimits::new(&self.limits), Arc::clone(&record));
            let mut request = request.map(|body| Body::http_body(TimedBody::new(body, patience, arriving)));
            request.extensions_mut().insert(Arc::clone(&record));
            request.extensions_mut().insert(Arc::clone(&ticket));
            request.extensions_mut().insert(s3::RequestId(id.clone()));
            // Boxed, since the future is large and is moved several times before its first poll.
            let answering = Box::pin(self.service.call(request));
            tokio::select! {
                biased;
                answered = timeout_at(deadline, answering) => match answered {
                    Ok(response) => response,
                    Err(_) => {
                        let message = format!("the request took more than {} s", self.limits.request_time.as_secs());
                        refusal(StatusCode::BAD_REQUEST, "RequestTimeout", &message, &id)
                    }
                },
                () = self.is_not_authenticated(&ticket) => {
                    let message = "the request was not complete enough to tell who sent it in time";
                    refusal(StatusCode::BAD_REQUEST, "RequestTimeout", message, &id)
                }
            }
        };

        // s3s answers HEAD of a range with the Content-Range, but with the status of the whole
        // object.
        if response.status() == StatusCode::OK && response.headers().contains_key(CONTENT_RANGE) {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        let status = response.status();
        let headers = response.headers_mut();
        headers.insert(SERVER_HEADER, HeaderValue::from_static(SERVER));
        headers.insert(FRAGMENT_VERSIONS, HeaderValue::from_static(pushdowndb_contract::wire::VERSIONS));
        if let Ok(id) = HeaderValue::from_str(&id) {
            headers.insert(REQUEST_ID, id);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE && !headers.contains_key(RETRY_AFTER) {
            headers.insert(RETRY_AFTER, HeaderValue::from(self.limits.retry_after.as_secs()));
        }
        guard.status = status.as_u16();
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        guard.code = response.extensions().get::<s3::ErrorCode>().map(|code| code.0.clone());
        response.map(|body| ResponseBody::tracked(body, length, guard, deadline))
    }
}

/// The approximate size of a request's head.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let lines = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    target + lines.sum::<usize>()
}

/// An error response that is created here and not by the S3 service.
fn refusal(status: StatusCode, code: &str, message: &str, id: &str) -> Response<Body> {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <Error><Code>{code}</Code><Message>{message}</Message><RequestId>{id}</RequestId></Error>"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    response.extensions_mut().insert(s3::ErrorCode(code.to_owned()));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    // The body was not read, and must not be parsed as the next request.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// Writes the access log entry of a request on drop.
struct AccessLogGuard {
    record: Arc<RequestRecord>,
    counting: Arc<LiveCounters>,
    durations: Durations,
    status: u16,
    code: Option<String>,
    outcome: Outcome,
    /// The resources of the request, released with this.
    _ticket: Arc<Ticket>,
    _between: Option<RequestInProgress>,
    _present: Gauge,
}

/// Marks a connection as being in a request and, on drop, as being between requests.
struct RequestInProgress(ConnectionState);

impl RequestInProgress {
    fn after(state: &ConnectionState) -> Self {
        state.request();
        Self(state.clone())
    }
}

impl Drop for RequestInProgress {
    fn drop(&mut self) {
        self.0.between();
    }
}

impl AccessLogGuard {
    fn new(
        record: Arc<RequestRecord>,
        counting: &Arc<LiveCounters>,
        durations: &Durations,
        ticket: Arc<Ticket>,
        between: Option<RequestInProgress>,
    ) -> Self {
        Self {
            record,
            counting: Arc::clone(counting),
            durations: durations.clone(),
            _ticket: ticket,
            _between: between,
            status: CLIENT_CLOSED_REQUEST,
            code: None,
            outcome: Outcome::CutOff,
            _present: Gauge::new(counting, |counting| &counting.in_flight),
        }
    }
}

impl Drop for AccessLogGuard {
    fn drop(&mut self) {
        use std::sync::atomic::Ordering::Relaxed;
        match self.outcome {
            Outcome::Complete => {}
            Outcome::CutOff => drop(self.counting.cut_off.fetch_add(1, Relaxed)),
            Outcome::Failed => drop(self.counting.failed.fetch_add(1, Relaxed)),
        }
        let operation = self.record.target().map_or(UNKNOWN_OPERATION, |target| target.operation.as_str());
        self.counting.answer(operation, self.status);
        self.durations.observe(operation, self.record.elapsed());
        self.record.log(self.status, self.code.as_deref(), self.outcome);
    }
}

/// The body of a response. The resources of the request are released when the body has been sent or
/// is dropped.
pub(crate) struct ResponseBody {
    body: Body,
    tracked: Option<Tracked>,
}

struct Tracked {
    guard: AccessLogGuard,
    deadline: Pin<Box<Sleep>>,
    /// The size, if known in advance: the body may not be polled after its last byte.
    size: Option<u64>,
}

impl ResponseBody {
    fn untracked(body: Body) -> Self {
        Self { body, tracked: None }
    }

    fn tracked(body: Body, length: Option<u64>, guard: AccessLogGuard, deadline: Instant) -> Self {
        let size = HttpBody::size_hint(&body).exact().or(length);
        let mut tracked = Tracked { guard, deadline: Box::pin(sleep_until(deadline)), size };
        // Responses to HEAD and empty ones are never polled.
        if body.is_end_stream() || size == Some(0) || tracked.guard.record.method == http::Method::HEAD {
            tracked.guard.outcome = Outcome::Complete;
        }
        Self { body, tracked: Some(tracked) }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let step = Pin::new(&mut self.body).poll_frame(cx);
        let Some(tracked) = &mut self.tracked else { return step };
        let guard = &mut tracked.guard;
        match step {
            Poll::Ready(Some(Ok(frame))) => {
                guard.record.sent(frame.data_ref().map_or(0, Bytes::len));
                if tracked.size.is_some_and(|size| guard.record.sent_bytes() >= size) {
                    guard.outcome = Outcome::Complete;
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                guard.outcome = Outcome::Failed;
                let target = guard.record.target();
                tracing::error!(
                    id = guard.record.id,
                    operation = guard.record.operation(),
                    bucket = target.and_then(|target| target.bucket.as_deref()),
                    key = target.and_then(|target| target.key.as_deref()),
                    error,
                    "an answer failed on its way"
                );
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                guard.outcome = Outcome::Complete;
                Poll::Ready(None)
            }
            Poll::Pending if tracked.deadline.as_mut().poll(cx).is_ready() => {
                Poll::Ready(Some(Err("the request took too long".into())))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}
