//! The HTTP side: accepting connections, bounding them, and marking every response as ours.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::header::CONTENT_RANGE;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use s3s::Body;
use s3s::service::S3Service;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::Limits;
use crate::counters::Counting;
use crate::socket::Socket;
use crate::stall::Steady;

/// Names the node to engines, which look for it.
pub(crate) const SERVER: &str = concat!("pushdowndb/", env!("CARGO_PKG_VERSION"));

const REQUEST_ID: HeaderName = HeaderName::from_static("x-amz-request-id");

/// Serves until `stop`, then lets requests under way finish for a while.
pub(crate) async fn serve(
    listener: TcpListener,
    service: S3Service,
    counting: Arc<Counting>,
    limits: Limits,
    stop: CancellationToken,
) {
    let mut builder = Builder::new(TokioExecutor::new());
    // Never `pipeline_flush`: with it hyper takes in a whole body before the peer has read any of it.
    builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_read);
    let service = Marked { service, stall: limits.stall };
    let graceful = GracefulShutdown::new();
    let slots = Arc::new(Semaphore::new(limits.connections));
    let mut connections = JoinSet::new();
    loop {
        let slot = tokio::select! {
            slot = Arc::clone(&slots).acquire_owned() => slot,
            () = stop.cancelled() => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        // Finished connections are collected here, so that the set does not grow.
        while connections.try_join_next().is_some() {}
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of descriptors, most likely; accepting again at once would spin.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        drop(stream.set_nodelay(true));
        let socket = Socket::new(stream, Arc::clone(&counting), limits.stall);
        let connection = builder.serve_connection(TokioIo::new(socket), service.clone()).into_owned();
        let connection = graceful.watch(connection);
        connections.spawn(async move {
            let _slot = slot;
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection ended early");
            }
        });
    }
    drop(listener);
    if tokio::time::timeout(limits.shutdown, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests that were still running are cut off");
    }
    connections.shutdown().await;
}

/// Adds the headers that every response carries.
#[derive(Clone)]
struct Marked {
    service: S3Service,
    stall: Duration,
}

impl Service<Request<Incoming>> for Marked {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let (service, stall) = (self.service.clone(), self.stall);
        Box::pin(async move {
            let id = Uuid::new_v4().simple().to_string();
            let what = tracing::enabled!(tracing::Level::DEBUG)
                .then(|| format!("{} {}", request.method(), request.uri().path()));
            let mut response = match service.call(request.map(|body| Body::http_body(Steady::new(body, stall)))).await {
                Ok(response) => response,
                Err(error) => {
                    tracing::error!(%id, error = ?error, "a request failed");
                    let mut response = Response::new(Body::empty());
                    *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                    response
                }
            };
            tracing::debug!(%id, what, status = response.status().as_u16(), "answered");
            // s3s answers HEAD of a range with the range and the status of the whole.
            if response.status() == StatusCode::OK && response.headers().contains_key(CONTENT_RANGE) {
                *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            }
            let headers = response.headers_mut();
            headers.insert(http::header::SERVER, HeaderValue::from_static(SERVER));
            if let Ok(id) = HeaderValue::from_str(&id) {
                headers.insert(REQUEST_ID, id);
            }
            Ok(response)
        })
    }
}
