//! From a request to its answer: admission, a deadline, the headers that every answer carries, and the record
//! that is logged and counted when the last byte has left.

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

use crate::Limits;
use crate::admission::{Admission, Connection, Ticket};
use crate::counters::{Counting, Present};
use crate::health::{Door, Health};
use crate::host::Host;
use crate::metrics::Durations;
use crate::record::{Outcome, RequestRecord, UNKNOWN};
use crate::s3;
use crate::socket::Reading;
use crate::stall::{Patience, Steady};

/// Names the node to engines, which look for it.
pub(crate) const SERVER: &str = concat!("pushdowndb/", env!("CARGO_PKG_VERSION"));

/// Tells engines which versions of the fragment route the node speaks.
const FRAGMENT_VERSIONS: HeaderName = HeaderName::from_static(pushdown::wire::VERSION_HEADER);

/// Tells engines what other programs leave of the machine, where that is little.
const SHARE: HeaderName = HeaderName::from_static(pushdown::wire::SHARE_HEADER);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

/// A status of our own: the client went away before there was an answer.
const CLIENT_GONE: u16 = 499;

type StdError = Box<dyn std::error::Error + Send + Sync>;

/// What answers requests. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Answers {
    shared: Arc<Shared>,
    door: Door,
    /// The connection that these answers go to.
    connection: Option<(Arc<Connection>, Reading)>,
}

struct Shared {
    service: s3::Service,
    health: Arc<Health>,
    counting: Arc<Counting>,
    durations: Durations,
    admission: Arc<Admission>,
    limits: Limits,
    host: Option<Host>,
}

impl Answers {
    pub fn new(
        service: s3::Service,
        health: Arc<Health>,
        counting: Arc<Counting>,
        durations: Durations,
        admission: Arc<Admission>,
        limits: Limits,
        host: Option<Host>,
    ) -> Self {
        let shared = Arc::new(Shared { service, health, counting, durations, admission, limits, host });
        Self { shared, door: Door::S3, connection: None }
    }

    /// The same node behind its address for administration, where there are no buckets.
    pub fn for_administration(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), door: Door::Admin, connection: None }
    }

    /// The same node on one connection.
    pub fn for_connection(&self, connection: Arc<Connection>, reading: Reading) -> Self {
        Self { shared: Arc::clone(&self.shared), door: self.door, connection: Some((connection, reading)) }
    }

    async fn answer(self, request: Request<Incoming>) -> Response<AnswerBody> {
        let between = self.connection.as_ref().map(|(_, reading)| Between::after(reading));
        let peer = self.connection.as_ref().map(|(connection, _)| connection.peer());
        if let Some(answer) = self.shared.health.answer(self.door, peer, &request) {
            return answer.map(|text| AnswerBody::untracked(Body::from(text)));
        }
        match self.door {
            Door::S3 => {
                let connection = self.connection.as_ref().map(|(connection, _)| Arc::clone(connection));
                self.shared.s3(request, connection, between).await
            }
            Door::Admin => {
                let mut response = Response::new(AnswerBody::untracked(Body::empty()));
                *response.status_mut() = StatusCode::NOT_FOUND;
                response
            }
        }
    }
}

impl Service<Request<Incoming>> for Answers {
    type Response = Response<AnswerBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let answers = self.clone();
        Box::pin(async move { Ok(answers.answer(request).await) })
    }
}

impl Shared {
    /// Returns if the request was not authenticated within the time that its head may take.
    async fn is_not_authenticated(&self, ticket: &Ticket) {
        tokio::select! {
            () = sleep(self.limits.header_read) => {}
            () = ticket.authenticated() => std::future::pending().await,
        }
    }

    async fn s3(
        &self,
        request: Request<Incoming>,
        connection: Option<Arc<Connection>>,
        between: Option<Between>,
    ) -> Response<AnswerBody> {
        let id = Uuid::new_v4().simple().to_string();
        let record = Arc::new(RequestRecord::new(id.clone(), request.method().clone()));
        let deadline = Instant::now() + self.limits.request_time;
        // From here on every way out, a client that goes away included, ends the record.
        let ticket = self.admission.ticket(connection);
        let mut ending =
            Ending::new(Arc::clone(&record), &self.counting, &self.durations, Arc::clone(&ticket), between);

        let mut response = if head_bytes(&request) > self.limits.head_bytes {
            let message = format!("the head of a request has at most {} bytes", self.limits.head_bytes);
            refusal(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "RequestHeaderSectionTooLarge", &message, &id)
        } else {
            let (patience, arriving) = (Patience::new(&self.limits), Arc::clone(&record));
            let mut request = request.map(|body| Body::http_body(Steady::new(body, patience, arriving)));
            request.extensions_mut().insert(Arc::clone(&record));
            request.extensions_mut().insert(Arc::clone(&ticket));
            request.extensions_mut().insert(s3::RequestId(id.clone()));
            tokio::select! {
                answered = timeout_at(deadline, self.service.call(request)) => match answered {
                    Ok(Ok(response)) => response,
                    Ok(Err(error)) => {
                        tracing::error!(id, error = ?error, "a request failed");
                        refusal(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", "the node's log says why", &id)
                    }
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

        // s3s answers HEAD of a range with the range and the status of the whole.
        if response.status() == StatusCode::OK && response.headers().contains_key(CONTENT_RANGE) {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        }
        let status = response.status();
        let headers = response.headers_mut();
        headers.insert(SERVER_HEADER, HeaderValue::from_static(SERVER));
        headers.insert(FRAGMENT_VERSIONS, HeaderValue::from_static(pushdown::wire::VERSIONS));
        if let Some(share) = self.host.as_ref().and_then(Host::share)
            && let Ok(share) = HeaderValue::from_str(&format!("{share:.2}"))
        {
            headers.insert(SHARE, share);
        }
        if let Ok(id) = HeaderValue::from_str(&id) {
            headers.insert(REQUEST_ID, id);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE && !headers.contains_key(RETRY_AFTER) {
            headers.insert(RETRY_AFTER, HeaderValue::from(self.limits.retry_after.as_secs()));
        }
        ending.status = status.as_u16();
        let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        response.map(|body| {
            ending.code = error_code(status, &body);
            AnswerBody::tracked(body, length, ending, deadline)
        })
    }
}

/// The bytes of a request's head, about as they were sent.
fn head_bytes<B>(request: &Request<B>) -> usize {
    let target = request.uri().path_and_query().map_or(0, |target| target.as_str().len());
    let lines = request.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    target + lines.sum::<usize>()
}

/// An error that is answered before S3 is asked.
fn refusal(status: StatusCode, code: &str, message: &str, id: &str) -> Response<Body> {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <Error><Code>{code}</Code><Message>{message}</Message><RequestId>{id}</RequestId></Error>"
    );
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    // The body of the request was not read, and must not be taken for the next one.
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

/// The S3 error code that an answer carries.
fn error_code(status: StatusCode, body: &Body) -> Option<String> {
    if !status.is_client_error() && !status.is_server_error() {
        return None;
    }
    let text = body.bytes()?;
    let text = std::str::from_utf8(&text).ok()?;
    let (_, rest) = text.split_once("<Code>")?;
    rest.split_once("</Code>").map(|(code, _)| code.to_owned())
}

/// Ends the record of a request, however it ends.
struct Ending {
    record: Arc<RequestRecord>,
    counting: Arc<Counting>,
    durations: Durations,
    status: u16,
    code: Option<String>,
    outcome: Outcome,
    /// What the request has taken of the node, given back with this.
    _ticket: Arc<Ticket>,
    _between: Option<Between>,
    _present: Present,
}

/// Says to a connection, when it is dropped, that the next head is awaited.
struct Between(Reading);

impl Between {
    fn after(reading: &Reading) -> Self {
        reading.request();
        Self(reading.clone())
    }
}

impl Drop for Between {
    fn drop(&mut self) {
        self.0.between();
    }
}

impl Ending {
    fn new(
        record: Arc<RequestRecord>,
        counting: &Arc<Counting>,
        durations: &Durations,
        ticket: Arc<Ticket>,
        between: Option<Between>,
    ) -> Self {
        Self {
            record,
            counting: Arc::clone(counting),
            durations: durations.clone(),
            _ticket: ticket,
            _between: between,
            status: CLIENT_GONE,
            code: None,
            outcome: Outcome::CutOff,
            _present: Present::new(counting, |counting| &counting.in_flight),
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        use std::sync::atomic::Ordering::Relaxed;
        match self.outcome {
            Outcome::Complete => {}
            Outcome::CutOff => drop(self.counting.cut_off.fetch_add(1, Relaxed)),
            Outcome::Failed => drop(self.counting.failed.fetch_add(1, Relaxed)),
        }
        let operation = self.record.target().map_or(UNKNOWN, |target| target.operation.as_str());
        self.counting.answer(operation, self.status);
        self.durations.observe(operation, self.record.elapsed());
        self.record.log(self.status, self.code.as_deref(), self.outcome);
    }
}

/// The body of an answer. What it holds of the node is given back when it has left or is dropped.
pub(crate) struct AnswerBody {
    body: Body,
    tracked: Option<Tracked>,
}

struct Tracked {
    ending: Ending,
    deadline: Pin<Box<Sleep>>,
    /// The size, where it is known beforehand: no one asks for more after the last byte.
    size: Option<u64>,
}

impl AnswerBody {
    fn untracked(body: Body) -> Self {
        Self { body, tracked: None }
    }

    fn tracked(body: Body, length: Option<u64>, ending: Ending, deadline: Instant) -> Self {
        let size = HttpBody::size_hint(&body).exact().or(length);
        let mut tracked = Tracked { ending, deadline: Box::pin(sleep_until(deadline)), size };
        // Answers to HEAD and empty ones are never asked for a byte.
        if body.is_end_stream() || size == Some(0) || tracked.ending.record.method == http::Method::HEAD {
            tracked.ending.outcome = Outcome::Complete;
        }
        Self { body, tracked: Some(tracked) }
    }
}

impl HttpBody for AnswerBody {
    type Data = Bytes;
    type Error = StdError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, StdError>>> {
        let step = Pin::new(&mut self.body).poll_frame(cx);
        let Some(tracked) = &mut self.tracked else { return step };
        let ending = &mut tracked.ending;
        match step {
            Poll::Ready(Some(Ok(frame))) => {
                ending.record.sent(frame.data_ref().map_or(0, Bytes::len));
                if tracked.size.is_some_and(|size| ending.record.sent_bytes() >= size) {
                    ending.outcome = Outcome::Complete;
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Poll::Ready(Some(Err(error))) => {
                ending.outcome = Outcome::Failed;
                let target = ending.record.target();
                tracing::error!(
                    id = ending.record.id,
                    operation = ending.record.operation(),
                    bucket = target.and_then(|target| target.bucket.as_deref()),
                    key = target.and_then(|target| target.key.as_deref()),
                    error,
                    "an answer failed on its way"
                );
                Poll::Ready(Some(Err(error)))
            }
            Poll::Ready(None) => {
                ending.outcome = Outcome::Complete;
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
