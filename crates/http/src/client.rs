//! The HTTP client and its settings.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey as Key, ClientOptions};
use reqwest::dns::{Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Certificate, NoProxy, Proxy};
use tokio::time::{Instant, timeout};

use crate::body::Watched;
use crate::error::{failed, refused, silent};
use crate::expected::Expected;
use crate::trust::{CA_BUNDLE, authorities, innermost, is_untrusted};

/// The slowest upload that does not time out, in bytes per second: sending a request may take as
/// much longer as its body takes at this rate.
const MIN_SEND_BYTES_PER_S: u64 = 64 << 10;

/// The time limit for a whole response that is a document, as a multiple of the timeout for
/// silence.
const DOCUMENT_PATIENCE: u32 = 10;

/// The time that a server may be silent before a request or a body fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Patience(pub Duration);

/// A factory of HTTP clients that follow no redirects and check the lengths of bodies.
#[derive(Clone, Debug, Default)]
pub struct Connector {
    /// True if certificates are not verified.
    pub insecure: bool,
    /// The timeout for a silent server. With `None`, timeouts are left to the caller.
    pub patience: Option<Patience>,
    /// The resolver of host names. With one, no proxy is used, since a proxy resolves names itself.
    pub resolver: Option<Resolver>,
}

/// A resolver of host names.
#[derive(Clone)]
pub struct Resolver(pub Arc<dyn Resolve>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        self.0.resolve(name)
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resolver")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Client { http: self.client(options)?, patience: self.patience }))
    }
}

fn parsed<T: FromStr>(options: &ClientOptions, key: Key) -> object_store::Result<Option<T>> {
    let Some(value) = options.get_config_value(&key) else { return Ok(None) };
    value.parse().map(Some).map_err(|_| refused(format!("'{value}' is no value of {key:?}")))
}

fn time(options: &ClientOptions, key: Key) -> object_store::Result<Option<Duration>> {
    let Some(value) = options.get_config_value(&key) else { return Ok(None) };
    humantime::parse_duration(&value).map(Some).map_err(|error| refused(format!("'{value}' of {key:?}: {error}")))
}

impl Connector {
    /// Builds a client from the settings of `object_store`, with the certificate authorities that
    /// the environment names in addition.
    fn client(&self, options: &ClientOptions) -> object_store::Result<reqwest::Client> {
        let is_set = |key| parsed::<bool>(options, key).map(|set| set == Some(true));
        let invalid = |error: reqwest::Error| refused(innermost(&error).to_string());
        let agent = options.get_config_value(&Key::UserAgent);
        let agent = agent.unwrap_or_else(|| concat!("pushdowndb/", env!("CARGO_PKG_VERSION")).to_owned());
        let mut builder = reqwest::Client::builder()
            .redirect(Policy::none())
            .user_agent(agent)
            .default_headers(options.get_default_headers().cloned().unwrap_or_default())
            .https_only(!is_set(Key::AllowHttp)?)
            .danger_accept_invalid_certs(self.insecure || is_set(Key::AllowInvalidCertificates)?);
        for authority in authorities()? {
            builder = builder.add_root_certificate(authority);
        }
        if let Some(address) = options.get_config_value(&Key::ProxyUrl) {
            let mut proxy = Proxy::all(address).map_err(invalid)?;
            if let Some(authority) = options.get_config_value(&Key::ProxyCaCertificate) {
                let authority = Certificate::from_pem(authority.as_bytes()).map_err(invalid)?;
                builder = builder.add_root_certificate(authority);
            }
            if let Some(excluded) = options.get_config_value(&Key::ProxyExcludes) {
                proxy = proxy.no_proxy(NoProxy::from_string(&excluded));
            }
            builder = builder.proxy(proxy);
        }
        if let Some(resolver) = &self.resolver {
            builder = builder.no_proxy().dns_resolver(Arc::new(resolver.clone()));
        }
        if let Some(limit) = time(options, Key::Timeout)? {
            builder = builder.timeout(limit);
        }
        if let Some(limit) = time(options, Key::ConnectTimeout)? {
            builder = builder.connect_timeout(limit);
        }
        if let Some(limit) = time(options, Key::PoolIdleTimeout)? {
            builder = builder.pool_idle_timeout(limit);
        }
        if let Some(max) = parsed(options, Key::PoolMaxIdlePerHost)? {
            builder = builder.pool_max_idle_per_host(max);
        }
        if let Some(interval) = time(options, Key::Http2KeepAliveInterval)? {
            builder = builder.http2_keep_alive_interval(interval);
        }
        if let Some(limit) = time(options, Key::Http2KeepAliveTimeout)? {
            builder = builder.http2_keep_alive_timeout(limit);
        }
        if is_set(Key::Http2KeepAliveWhileIdle)? {
            builder = builder.http2_keep_alive_while_idle(true);
        }
        if let Some(size) = parsed::<u32>(options, Key::Http2MaxFrameSize)? {
            builder = builder.http2_max_frame_size(size);
        }
        if is_set(Key::Http1Only)? {
            builder = builder.http1_only();
        }
        if is_set(Key::Http2Only)? {
            builder = builder.http2_prior_knowledge();
        }
        // A compressed body would not have the promised length.
        builder.no_gzip().no_brotli().no_zstd().no_deflate().build().map_err(invalid)
    }
}

/// An HTTP client that checks its responses.
#[derive(Debug)]
struct Client {
    http: reqwest::Client,
    patience: Option<Patience>,
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let expected = Expected::of(&head);
        let sent = body.content_length() as u64;
        let answering = HttpService::call(&self.http, HttpRequest::from_parts(head, body));
        let response = match self.patience {
            Some(Patience(silence)) => {
                let patience = silence + Duration::from_secs(sent / MIN_SEND_BYTES_PER_S);
                timeout(patience, answering).await.unwrap_or_else(|_| Err(silent(patience)))
            }
            None => answering.await,
        };
        let response = response.map_err(|error| untrusted(&error).unwrap_or(error))?;
        let (parts, body) = response.into_parts();
        let length = expected.length(&parts).map_err(|wrong| failed(HttpErrorKind::Unknown, wrong))?;
        let silence = self.patience.map(|Patience(silence)| silence);
        let end = silence.and_then(|silence| Instant::now().checked_add(silence * DOCUMENT_PATIENCE));
        let body = HttpResponseBody::new(Watched::new(body, length, silence, end));
        Ok(HttpResponse::from_parts(parts, body))
    }
}

/// Returns an error that says how to trust the server, if `error` is a rejected certificate. Its
/// kind prevents a retry.
fn untrusted(error: &HttpError) -> Option<HttpError> {
    let cause = innermost(error).to_string();
    is_untrusted(&cause).then(|| {
        let message = format!(
            "the server's certificate is not trusted ({cause}); {CA_BUNDLE} names a file of authorities to trust"
        );
        failed(HttpErrorKind::Unknown, message)
    })
}
