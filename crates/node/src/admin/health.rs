//! `/healthz`, `/readyz` and `/metrics`, which need no signature.
//!
//! All three are valid bucket names too. Requests to buckets are signed, so an unsigned GET or HEAD
//! of exactly such a path without a query is answered here; every other request goes to S3.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};

use super::metrics::Metrics;
use crate::admission::{Admission, Connections};
use crate::scans::ScanScheduler;
use crate::store::Store;

/// The address that a request came in at.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ListenerKind {
    /// The S3 address.
    S3,
    /// The administration address.
    Admin,
}

/// Liveness, readiness and metrics of a node.
pub(crate) struct Health {
    metrics: Metrics,
    /// Whether `/metrics` is answered at the administration address only.
    metrics_are_private: bool,
    draining: AtomicBool,
    store: Weak<dyn Store>,
    capacity: Capacity,
}

/// The parts of a node that can run out of capacity.
pub(crate) struct Capacity {
    pub connections: Arc<Connections>,
    pub admission: Arc<Admission>,
    pub scans: Weak<ScanScheduler>,
}

impl Capacity {
    /// Returns a message that names the exhausted resource, or `None` if there is capacity left.
    fn exhausted(&self) -> Option<&'static str> {
        if self.connections.is_overloaded() {
            Some("all connections are busy")
        } else if self.admission.is_overloaded() {
            Some("all places for requests are taken")
        } else if self.scans.upgrade().is_some_and(|scans| scans.is_overloaded()) {
            Some("all turns for scans and the places to wait for one are taken")
        } else {
            None
        }
    }
}

impl Health {
    pub fn new(metrics: Metrics, metrics_are_private: bool, store: Weak<dyn Store>, capacity: Capacity) -> Arc<Self> {
        Arc::new(Self { metrics, metrics_are_private, draining: AtomicBool::new(false), store, capacity })
    }

    /// Reports the node as not ready from now on, so that load balancers send requests elsewhere.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
    }

    fn has_stopped(&self) -> bool {
        self.store.upgrade().is_some_and(|store| store.has_stopped())
    }

    /// Answers an unsigned GET or HEAD of one of the three paths, sent by `peer`. Returns `None`
    /// for any other request.
    pub fn answer<B>(
        &self,
        listener: ListenerKind,
        peer: Option<IpAddr>,
        request: &Request<B>,
    ) -> Option<Response<String>> {
        let plain = matches!(*request.method(), Method::GET | Method::HEAD)
            && request.uri().query().is_none()
            && !request.headers().contains_key(AUTHORIZATION);
        let unavailable = |text: &str| (StatusCode::SERVICE_UNAVAILABLE, TEXT_PLAIN, format!("{text}\n"));
        let here = peer.is_some_and(|peer| peer.is_loopback());
        let (status, kind, text) = match request.uri().path() {
            _ if !plain => return None,
            // Fails the liveness probe, so that a supervisor restarts the process, which repairs
            // the store.
            "/healthz" if self.has_stopped() => unavailable(STOPPED),
            "/healthz" => (StatusCode::OK, TEXT_PLAIN, "ok\n".to_owned()),
            "/readyz" if self.draining.load(Relaxed) => unavailable("draining"),
            "/readyz" if self.has_stopped() => unavailable(STOPPED),
            "/readyz" => match self.capacity.exhausted() {
                Some(full) => unavailable(full),
                None => (StatusCode::OK, TEXT_PLAIN, "ready\n".to_owned()),
            },
            // Metrics reveal object counts and load, so they are not public.
            "/metrics" if listener == ListenerKind::Admin || (here && !self.metrics_are_private) => {
                (StatusCode::OK, OPEN_METRICS, self.metrics.text())
            }
            _ => return None,
        };
        let mut response = Response::new(if request.method() == Method::HEAD { String::new() } else { text });
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Some(response)
    }
}

const STOPPED: &str = "the disk failed to keep a write; restart the node";
const TEXT_PLAIN: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
