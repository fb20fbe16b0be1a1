//! The worker: a server that runs stages.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::common::Result as DfResult;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion_distributed::{
    DistributedConfig, DistributedExt, WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerQueryContext,
    WorkerSessionBuilder,
};
use http::HeaderMap;
use parking_lot::Mutex;
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_engine::stages::{StageRequest, carry, with_spilling};
use pushdowndb_engine::{Engine, EngineConfig};
use pushdowndb_tls::{Tls, TlsFiles};
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic::{Request, Status};

use crate::accept::{Limits, accept};
use crate::channel::{Channels, WatchedChannels};
use crate::codec::StageCodec;
use crate::cut::REQUEST;
use crate::error::to_datafusion;
use crate::token::Token;
use crate::version;

/// Maximum bytes of a message that a worker accepts: a stage with the list of its objects.
const MAX_MESSAGE_BYTES: usize = 256 << 20;

/// The protocols offered by ALPN: gRPC requires HTTP/2.
const PROTOCOLS: &[&[u8]] = &[b"h2"];

/// Interval of keep-alive pings on an idle connection, and the time limit for their answers.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// The configuration of a worker.
#[derive(Debug)]
pub struct WorkerConfig {
    /// The address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// The token that callers must present, and that this worker presents to others.
    pub token: Token,
    /// The certificate; without one, rows are sent over the network unencrypted.
    pub tls: Option<TlsFiles>,
    /// A PEM file with the certificate authorities of the other workers.
    pub authorities: Option<PathBuf>,
    /// The configuration of the engine: what stages may read, credentials, memory, where it spills.
    pub engine: EngineConfig,
}

/// A running worker. Dropping it stops it at once.
#[derive(Debug)]
pub struct Worker {
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    serving: Mutex<Option<JoinHandle<Result<()>>>>,
    accepting: JoinHandle<()>,
}

/// Starts a worker.
///
/// # Errors
///
/// A setting or the certificate is invalid, or the worker cannot listen on the address.
pub async fn serve(config: WorkerConfig) -> Result<Worker> {
    let WorkerConfig { listen, token, tls, authorities, engine } = config;
    let channels = Channels::new(token.clone(), authorities.as_deref())?;
    let tls = tls.map(|files| Tls::load(files, PROTOCOLS)).transpose()?.map(Arc::new);
    let engine = Arc::new(Engine::new(engine).await?);
    let unavailable =
        |error: std::io::Error| Error::new(ErrorKind::Unavailable, format!("listening on {listen}")).with_source(error);
    let listener = TcpListener::bind(listen).await.map_err(unavailable)?;
    let address = listener.local_addr().map_err(unavailable)?;
    let worker = datafusion_distributed::Worker::from_session_builder(Sessions { engine, channels });
    let service = worker.with_version(version()).into_worker_server().max_decoding_message_size(MAX_MESSAGE_BYTES);
    let service = InterceptedService::new(service, Authentication(token));
    let router = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEP_ALIVE_TIMEOUT))
        .http2_adaptive_window(Some(true))
        .tcp_nodelay(true)
        .add_service(service);
    let (stop, stopped) = oneshot::channel();
    let until = async move { drop(stopped.await) };
    let failed = |error: tonic::transport::Error| Error::internal("the worker's server failed").with_source(error);
    let (serving, accepting) = match &tls {
        None => {
            let (incoming, accepting) = accept(listener, Limits::default(), |connection| async move { Ok(connection) });
            let serving = router.serve_with_incoming_shutdown(incoming, until);
            (tokio::spawn(async move { serving.await.map_err(failed) }), accepting)
        }
        Some(tls) => {
            let tls = Arc::clone(tls);
            let (incoming, accepting) = accept(listener, Limits::default(), move |connection| {
                let acceptor = tls.acceptor();
                async move { acceptor.accept(connection).await }
            });
            let serving = router.serve_with_incoming_shutdown(incoming, until);
            (tokio::spawn(async move { serving.await.map_err(failed) }), accepting)
        }
    };
    Ok(Worker { address, tls, stop: Mutex::new(Some(stop)), serving: Mutex::new(Some(serving)), accepting })
}

impl Worker {
    /// The address that the worker listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the worker for `pushdown.workers`, with the IP address as the host.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// Reloads the certificate, for new connections. Returns `false` if there is none. An error
    /// keeps the old certificate.
    pub async fn reload_certificate(&self) -> Result<bool> {
        let Some(tls) = self.tls.clone() else { return Ok(false) };
        let reloaded = tokio::task::spawn_blocking(move || tls.reload()).await;
        reloaded.map_err(|error| Error::internal("reading the certificate").with_source(error))??;
        Ok(true)
    }

    /// Stops accepting connections, and returns once the stages in progress are finished.
    pub async fn shutdown(&self) {
        self.accepting.abort();
        let stop = self.stop.lock().take();
        if stop.is_some_and(|stop| stop.send(()).is_err()) {
            tracing::debug!("the worker's server has stopped already");
        }
        let serving = self.serving.lock().take();
        if let Some(serving) = serving {
            match serving.await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the worker stops"),
                Err(error) => tracing::warn!(%error, "the worker stops"),
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.accepting.abort();
        if let Some(serving) = self.serving.get_mut() {
            serving.abort();
        }
    }
}

/// Refuses calls without the token.
#[derive(Clone)]
struct Authentication(Token);

impl Interceptor for Authentication {
    fn call(&mut self, request: Request<()>) -> std::result::Result<Request<()>, Status> {
        let presented = request.metadata().get("authorization");
        match presented.is_some_and(|presented| self.0.is(presented.as_bytes())) {
            true => Ok(request),
            false => Err(Status::unauthenticated("this worker takes another token")),
        }
    }
}

/// Creates the session of each task.
struct Sessions {
    engine: Arc<Engine>,
    channels: Channels,
}

#[async_trait]
impl WorkerSessionBuilder for Sessions {
    async fn build_session_state(&self, mut query: WorkerQueryContext) -> DfResult<SessionState> {
        let request = requested(&query.headers).map_err(to_datafusion)?;
        let state = self.engine.stage_state(&request).await.map_err(to_datafusion)?;
        // Combines the configuration of `datafusion-distributed` with the options and extensions of
        // the engine's.
        let mut config = query.builder.config().take().unwrap_or_default();
        let distributed = DistributedConfig::from_session_config(&config)?.clone();
        *config.options_mut() = state.config().options().as_ref().clone();
        config.options_mut().extensions.insert(distributed);
        let config = carry(state.config(), config);
        let resolver = WatchedChannels { channels: self.channels.clone(), usages: None };
        Ok(SessionStateBuilder::new_from_existing(state)
            .with_config(config)
            .with_distributed_user_codec(StageCodec)
            .with_distributed_channel_resolver(resolver)
            .with_distributed_worker_plan_rewrite_handler(
                |event: WorkerPlanRewriteEvent<'_>| -> DfResult<WorkerPlanRewriteEventResponse> {
                    let plan = with_spilling(event.plan, event.session_config.options()).map_err(to_datafusion)?;
                    Ok(WorkerPlanRewriteEventResponse::new(plan))
                },
            )
            .build())
    }
}

/// Parses the settings of the coordinator's session from the headers.
fn requested(headers: &HeaderMap) -> Result<StageRequest> {
    let malformed = || Error::invalid("a stage without the settings of its session");
    let digits = headers.get(&REQUEST).ok_or_else(malformed)?.as_bytes();
    let digit = |byte: u8| (byte as char).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some((digit(*high)? << 4) | digit(*low)?),
        _ => None,
    };
    let bytes = digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>().ok_or_else(malformed)?;
    StageRequest::from_bytes(&bytes)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn settings_arrive_whole_or_are_refused() {
        let headers = |value: &'static str| HeaderMap::from_iter([(REQUEST.clone(), HeaderValue::from_static(value))]);
        assert_eq!(requested(&headers("")).unwrap(), StageRequest::default());
        for wrong in ["0", "0g", "ff"] {
            assert!(requested(&headers(wrong)).is_err(), "{wrong}");
        }
        assert!(requested(&HeaderMap::new()).is_err());
    }
}
