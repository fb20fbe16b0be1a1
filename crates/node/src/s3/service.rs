//! From a request's head to its operation: authentication, authorization, admission, and then s3s.
//!
//! One s3s service parses requests and dispatches them. It verifies no signatures: they are
//! verified once, before s3s. Only after that may malformed headers be removed, which S3 ignores
//! but s3s refuses (`http/lenient`). Decision 0038 has the reasons.

use std::sync::Arc;

use http::header::{
    ACCESS_CONTROL_REQUEST_HEADERS, ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_LENGTH, ORIGIN,
};
use http::request::Parts;
use http::{Method, Request};
use s3s::config::{S3Config, StaticConfigProvider};
use s3s::path::S3Path;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::{Body, HttpRequest, HttpResponse, S3Result, s3_error};

use super::access::{Access, NoSignatures};
use super::auth::grant::authorize;
use super::auth::presigned::{Bare, bare};
use super::auth::scheme::Scheme;
use super::auth::signer::{Signer, admit, authenticated};
use super::auth::{form as form_signature, verify::verify};
use super::body::document::{check_select, hold_form, is_document, is_select, read_document, verify_document};
use super::body::payload::verified;
use super::body::watched::Watched;
use super::context::{RequestContext, bucket_of};
use super::http::cors::{self, CorsRequest};
use super::http::form::Form;
use super::http::host::{Domains, decoded_path};
use super::http::{encryption, lenient};
use super::op::fragment;
use super::op::handler::S3Handler;
use crate::admission::NodeMemory;
use crate::admission::WorkPermits;
use crate::keys::{ActiveKeys, Right};
use crate::scans::ScanScheduler;
use crate::store::{CorsRule, Store, now_ms};
use crate::telemetry::LiveCounters;
use crate::{Limits, NodeConfig};

/// The S3 service of a node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Service {
    s3: S3Service,
    handler: S3Handler,
    domains: Domains,
    /// Whether signatures of version 2 are accepted.
    version_2: bool,
    /// Permits for upload forms that are being received, each of which is held in memory.
    forms: WorkPermits,
}

impl Service {
    fn new(handler: S3Handler, config: &NodeConfig) -> Self {
        let (limits, domains) = (&config.limits, Domains::new(&config.domains));
        let mut builder = S3ServiceBuilder::new(handler.clone());
        builder.set_config(Arc::new(StaticConfigProvider::new(Arc::new(settings(limits)))));
        builder.set_host(domains.clone());
        builder.set_auth(NoSignatures);
        builder.set_access(Access(handler.clone()));
        let forms = WorkPermits::new(limits.forms, limits.key_share(limits.forms));
        Self { s3: builder.build(), handler, domains, version_2: config.signature_version_2, forms }
    }

    /// Answers a request.
    pub async fn call(&self, request: HttpRequest) -> HttpResponse {
        let (request, progress) = Watched::over(request);
        let was_empty = progress.is_over();
        let (parts, body) = request.into_parts();
        let context = RequestContext::new(&parts, &self.domains);
        let mut response = match self.answer(parts, body).await {
            Ok(response) => context.complete(response),
            Err(error) => context.refuse(&error),
        };
        if let Some((bucket, origin, method)) = &context.origin {
            let rules = self.cors_rules(bucket).await;
            let allowed = cors::answer(&rules, CorsRequest { origin, method: method.as_str(), headers: "" });
            response.headers_mut().extend(allowed.unwrap_or_default());
        }
        context.close_unless_read(&mut response, was_empty, progress.is_over());
        response
    }

    async fn answer(&self, parts: Parts, body: Body) -> S3Result<HttpResponse> {
        let scheme = Scheme::of(&parts, self.version_2)?;
        match scheme {
            _ if parts.method == Method::OPTIONS => self.preflight(&parts).await,
            Scheme::Form => self.form(parts, body).await,
            _ => self.signed(parts, body, scheme).await,
        }
    }

    /// Answers a request that is signed in its headers or its URL. Nothing of the body is read
    /// before the request is authorized.
    async fn signed(&self, mut parts: Parts, body: Body, scheme: Scheme) -> S3Result<HttpResponse> {
        let handler = &self.handler;
        let decoded = decoded_path(&parts.uri)?;
        let path = self.domains.resolve(&parts.headers, &decoded)?;
        let keyring = handler.keys.now();
        let (signer, payload) = verify(&parts, &decoded, scheme, &keyring, (&handler.limits, &self.domains))?;
        authenticated(&parts.extensions);
        let (mut body, trailer) = verified(body, payload, &mut parts.headers)?;
        if fragment::is_request(&parts.method, &parts.uri) {
            return fragment::answer(handler, &path, parts, body, signer).await;
        }
        let Bare { uri, overrides, hoisted } = bare(std::mem::take(&mut parts.uri), scheme)?;
        parts.uri = uri;
        parts.headers.remove(AUTHORIZATION);
        lenient::remove_malformed(&mut parts.headers);
        parts.headers.extend(hoisted);
        parts.extensions.insert(overrides);
        if let Some(trailer) = trailer {
            parts.extensions.insert(trailer);
        }
        let (right, creates) = needed_right(&parts, &path);
        self.authorize(&mut parts, &path, &signer, right, creates).await?;
        admit(&mut parts.extensions, &handler.keys, &signer).await?;
        encryption::check(&parts.method, &parts.headers)?;
        self.read_document(&mut parts, &path, &signer, &mut body).await?;
        self.dispatch(parts, body, signer, scheme).await
    }

    /// Authorizes `signer` for `right` on the bucket in `path`, or, if `creates`, for creating it.
    /// The result is added to the extensions of `parts`.
    async fn authorize(
        &self,
        parts: &mut Parts,
        path: &S3Path,
        signer: &Signer,
        right: Right,
        creates: bool,
    ) -> S3Result<()> {
        let Some(bucket) = path.get_bucket_name() else { return Ok(()) };
        let S3Handler { keys, store, limits, .. } = &self.handler;
        let given = authorize(keys, &**store, limits, Some(signer), (right, bucket), creates).await?;
        parts.extensions.insert(given);
        Ok(())
    }

    /// Reads and checks the body if it is a document, and leaves it in `body` for s3s.
    async fn read_document(&self, parts: &mut Parts, path: &S3Path, signer: &Signer, body: &mut Body) -> S3Result<()> {
        let (method, uri) = (&parts.method, &parts.uri);
        let is_document = is_document(method, uri);
        let has_key = path.as_object().is_some();
        if method != Method::POST && !(method == Method::PUT && (is_document || !has_key)) {
            return Ok(());
        }
        let limits = &self.handler.limits;
        let memory = self.handler.memory.bodies(&signer.access_key_id);
        let (document, held) = read_document(body, &parts.headers, limits.request_body_bytes, limits, &memory).await?;
        if is_document {
            verify_document(&document, &parts.headers)?;
        } else if is_select(method, uri) {
            check_select(&document)?;
        }
        parts.extensions.insert(held);
        Ok(())
    }

    /// Answers an upload form. Its fields are read and authorized before the file is read.
    async fn form(&self, mut parts: Parts, mut body: Body) -> S3Result<HttpResponse> {
        let handler = &self.handler;
        let path = self.domains.resolve(&parts.headers, &decoded_path(&parts.uri)?)?;
        let form = Form::read(&parts.headers, &mut body).await?;
        let signer = form_signature::verify(&form, &handler.keys.now(), self.version_2)?;
        authenticated(&parts.extensions);
        let S3Path::Bucket { bucket } = &path else {
            return Err(s3_error!(MethodNotAllowed, "a form is sent to a bucket"));
        };
        form_signature::check_policy(&form, bucket, i64::try_from(now_ms()).unwrap_or(i64::MAX))?;
        self.authorize(&mut parts, &path, &signer, Right::Write, false).await?;
        let requester = admit(&mut parts.extensions, &handler.keys, &signer).await?;
        let limits = &handler.limits;
        let turn = self.forms.take(&requester.key, limits.request_wait).await;
        let _turn = turn.ok_or_else(|| s3_error!(SlowDown, "{} forms are being received; try again", limits.forms))?;
        let memory = handler.memory.bodies(&requester.key);
        parts.extensions.insert(hold_form(&parts.headers, limits, &memory)?);
        if let Some(tagging) = form.tagging() {
            parts.extensions.insert(tagging);
        }
        // The form is rewritten and has another length, which s3s does not need.
        parts.headers.remove(CONTENT_LENGTH);
        self.dispatch(parts, form.into_body(body)?, signer, Scheme::Form).await
    }

    /// Hands a verified request to s3s, which parses it and calls its operation.
    async fn dispatch(&self, mut parts: Parts, body: Body, signer: Signer, scheme: Scheme) -> S3Result<HttpResponse> {
        parts.extensions.insert(signer);
        parts.extensions.insert(scheme);
        let answered = Box::pin(self.s3.call(Request::from_parts(parts, body))).await;
        answered.map_err(|error| {
            tracing::error!(?error, "an answer could not be written");
            s3_error!(InternalError, "the node's log says why")
        })
    }

    /// The CORS rules of `bucket`. They are empty if the bucket does not exist: the names of
    /// existing buckets are not public.
    async fn cors_rules(&self, bucket: &str) -> Vec<CorsRule> {
        self.handler.store.bucket(bucket).await.ok().and_then(|bucket| bucket.settings.cors).unwrap_or_default()
    }

    /// Answers a preflight (`OPTIONS`), which browsers send unsigned.
    async fn preflight(&self, parts: &Parts) -> S3Result<HttpResponse> {
        let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let origin = header(ORIGIN)
            .ok_or_else(|| s3_error!(InvalidRequest, "Insufficient information. Origin request header needed."))?;
        let method = header(ACCESS_CONTROL_REQUEST_METHOD)
            .ok_or_else(|| s3_error!(InvalidRequest, "Invalid Access-Control-Request-Method: null"))?;
        let asked = CorsRequest { origin, method, headers: header(ACCESS_CONTROL_REQUEST_HEADERS).unwrap_or_default() };
        let rules = match bucket_of(parts, &self.domains) {
            Some(bucket) => self.cors_rules(&bucket).await,
            None => Vec::new(),
        };
        let allowed = cors::answer(&rules, asked)
            .ok_or_else(|| s3_error!(AccessDenied, "CORSResponse: This CORS request is not allowed."))?;
        let mut response = HttpResponse::new(Body::empty());
        response.headers_mut().extend(allowed);
        Ok(response)
    }
}

/// The right that a request needs according to its head, and whether it may create its bucket. s3s
/// determines the operation later; [`Access`] then checks the right that the operation needs.
fn needed_right(parts: &Parts, path: &S3Path) -> (Right, bool) {
    let (method, uri) = (&parts.method, &parts.uri);
    let is_document = is_document(method, uri);
    let reads = [Method::GET, Method::HEAD].contains(method) || is_select(method, uri) && !is_document;
    let creates = method == Method::PUT && path.as_bucket().is_some() && !is_document;
    (if reads { Right::Read } else { Right::Write }, creates)
}

/// The S3 service over a store.
pub(crate) fn service(
    store: Arc<dyn Store>,
    keys: &ActiveKeys,
    config: &NodeConfig,
    counting: Arc<LiveCounters>,
    scans: Arc<ScanScheduler>,
    memory: Arc<NodeMemory>,
) -> Service {
    let limits = config.limits.clone();
    let copies_of_key = limits.key_share(limits.copies).min(limits.copies.saturating_sub(1)).max(1);
    let handler = S3Handler {
        store,
        copies: WorkPermits::new(limits.copies, copies_of_key),
        limits,
        region: config.region.clone(),
        keys: keys.clone(),
        counting,
        scans,
        memory,
    };
    Service::new(handler, config)
}

/// The size limits that s3s enforces.
fn settings(limits: &Limits) -> S3Config {
    let mut settings = S3Config::default();
    settings.xml_max_body_size = limits.request_body_bytes;
    // s3s holds the file of an upload form in memory.
    settings.post_object_max_file_size = limits.form_bytes as u64;
    settings.form_max_field_size = 64 << 10;
    settings.form_max_fields_size = 256 << 10;
    settings.form_max_parts = 100;
    settings
}
