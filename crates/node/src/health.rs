//! `/healthz`, `/readyz` and `/metrics`: what is answered without a signature.
//!
//! All three are also names that buckets may have. Requests to buckets are signed, so an unsigned GET or HEAD
//! of exactly such a path, without a query, is for the node itself and everything else is S3's.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use http::header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};

use crate::admission::{Admission, Connections};
use crate::metrics::Metrics;
use crate::scans::Scans;
use crate::store::Store;

/// Where a request came in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Door {
    /// The address that S3 is served on.
    S3,
    /// The address for administration.
    Admin,
}

/// How the node is doing.
pub(crate) struct Health {
    metrics: Metrics,
    /// Metrics are answered at the door for administration alone.
    metrics_are_private: bool,
    draining: AtomicBool,
    store: Weak<dyn Store>,
    load: Load,
}

/// What of the node can be full.
pub(crate) struct Load {
    pub connections: Arc<Connections>,
    pub admission: Arc<Admission>,
    pub scans: Weak<Scans>,
}

impl Load {
    /// What is full, in words.
    fn saturated(&self) -> Option<&'static str> {
        if self.connections.is_saturated() {
            Some("all connections are busy")
        } else if self.admission.is_saturated() {
            Some("all places for requests are taken")
        } else if self.scans.upgrade().is_some_and(|scans| scans.is_saturated()) {
            Some("all turns for scans and the places to wait for one are taken")
        } else {
            None
        }
    }
}

impl Health {
    pub fn new(metrics: Metrics, metrics_are_private: bool, store: Weak<dyn Store>, load: Load) -> Arc<Self> {
        Arc::new(Self { metrics, metrics_are_private, draining: AtomicBool::new(false), store, load })
    }

    /// From now on the node is not ready: whoever balances load sends its requests elsewhere.
    pub fn drain(&self) {
        self.draining.store(true, Relaxed);
    }

    fn has_stopped(&self) -> bool {
        self.store.upgrade().is_some_and(|store| store.has_stopped())
    }

    /// The answer to a request of `peer` that is for the node itself.
    pub fn answer<B>(&self, door: Door, peer: Option<IpAddr>, request: &Request<B>) -> Option<Response<String>> {
        let plain = matches!(*request.method(), Method::GET | Method::HEAD)
            && request.uri().query().is_none()
            && !request.headers().contains_key(AUTHORIZATION);
        let unavailable = |text: &str| (StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{text}\n"));
        let here = peer.is_some_and(|peer| peer.is_loopback());
        let (status, kind, text) = match request.uri().path() {
            _ if !plain => return None,
            // A restart is what helps.
            "/healthz" if self.has_stopped() => unavailable(STOPPED),
            "/healthz" => (StatusCode::OK, TEXT, "ok\n".to_owned()),
            "/readyz" if self.draining.load(Relaxed) => unavailable("draining"),
            "/readyz" if self.has_stopped() => unavailable(STOPPED),
            "/readyz" => match self.load.saturated() {
                Some(full) => unavailable(full),
                None => (StatusCode::OK, TEXT, "ready\n".to_owned()),
            },
            // Counts of objects and of load are not for strangers.
            "/metrics" if door == Door::Admin || (here && !self.metrics_are_private) => {
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
const TEXT: &str = "text/plain; charset=utf-8";
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
