//! The HTTP layer under every remote store: counts what crosses the network and learns who answers.
//!
//! Counting here, below object_store, sees retries, listings and aborted downloads as they really happened.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use http::Method;
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService, ReqwestConnector,
};
use pushdown::Profile;
use pushdown::wire::{QUERY, VERSION_HEADER, common_version};
use pushdowndb_cost::{Meter, RequestKind};

/// What is learned about an endpoint while talking to it.
#[derive(Debug, Default)]
pub(crate) struct EndpointState {
    profile: std::sync::OnceLock<Profile>,
    select_refused: AtomicBool,
    /// The version of the fragment route that both sides speak, by the last answer that told; 0 is none.
    fragment: AtomicU32,
    fragment_refused: AtomicBool,
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
    }
}

/// Connections to one endpoint, shared by all queries.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    client: HttpClient,
    state: Arc<EndpointState>,
}

impl Connections {
    pub(crate) fn open(options: &ClientOptions) -> object_store::Result<Self> {
        Ok(Self { client: ReqwestConnector::default().connect(options)?, state: Arc::default() })
    }

    pub(crate) fn state(&self) -> &Arc<EndpointState> {
        &self.state
    }

    /// The same connections, counting into these meters.
    pub(crate) fn metered(&self, meters: Meters) -> MeteredHttp {
        MeteredHttp { connections: self.clone(), meters }
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
        let response = self.connections.client.execute(request).await?;
        self.connections.state.learn(response.headers());
        let meters = self.meters.clone();
        let (parts, body) = response.into_parts();
        let body = body.map_frame(move |frame| {
            if let Some(data) = frame.data_ref() {
                meters.each(|meter| meter.received(data.len() as u64));
            }
            frame
        });
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body)))
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
