//! Connections to workers: authenticated, with metrics of what arrives and errors that name the
//! worker.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest, GetWorkerInfoResponse,
    SetPlanRequest, WorkerChannel, WorkerToCoordinatorMsg,
};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue, Request, Response};
use parking_lot::Mutex;
use pushdowndb_contract::{Error, Result};
use pushdowndb_engine::stages::ScanUsages;
use tonic::body::Body;
use tonic::codegen::Service;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};
use url::Url;

use crate::error::{of_worker, to_datafusion};
use crate::token::Token;

/// Maximum time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval of keep-alive pings on an idle connection, and the time limit for their answers: a
/// machine that vanishes does not close its connections.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections to workers by address, opened when they are first used.
#[derive(Clone)]
pub(crate) struct Channels(Arc<Inner>);

struct Inner {
    token: Token,
    /// The certificate authorities that certificates of workers are checked against.
    authorities: Option<Certificate>,
    channels: Mutex<HashMap<Url, Channel>>,
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels").finish_non_exhaustive()
    }
}

impl Channels {
    /// Creates connections that send `token`. Certificates are checked against the authorities in
    /// the PEM file `authorities`. Blocks.
    pub(crate) fn new(token: Token, authorities: Option<&Path>) -> Result<Self> {
        let read = |path: &Path| {
            let pem = std::fs::read(path)
                .map_err(|error| Error::invalid(format!("the authorities of workers: {}: {error}", path.display())))?;
            Ok::<_, Error>(Certificate::from_pem(pem))
        };
        let authorities = authorities.map(read).transpose()?;
        Ok(Self(Arc::new(Inner { token, authorities, channels: Mutex::default() })))
    }

    /// A client of the worker at `url`.
    pub(crate) fn client(&self, url: &Url) -> Result<Box<dyn WorkerChannel>> {
        let mut channels = self.0.channels.lock();
        let channel = match channels.get(url) {
            Some(channel) => channel.clone(),
            None => {
                let channel = self.endpoint(url)?.connect_lazy();
                channels.insert(url.clone(), channel.clone());
                channel
            }
        };
        let authorized = Authorized { channel, header: self.0.token.header().clone() };
        Ok(create_worker_client(BoxCloneSyncChannel::new(authorized)))
    }

    fn endpoint(&self, url: &Url) -> Result<Endpoint> {
        let invalid = |error: tonic::transport::Error| {
            Error::invalid(format!("pushdown.workers: {url} cannot be reached")).with_source(error)
        };
        let mut endpoint = Endpoint::from_shared(url.to_string()).map_err(invalid)?;
        if url.scheme() == "https" {
            let Some(authorities) = self.0.authorities.clone() else {
                return Err(Error::invalid(format!(
                    "pushdown.workers: {url}: give the authorities of the workers' certificates, --workers-ca FILE"
                )));
            };
            endpoint = endpoint.tls_config(ClientTlsConfig::new().ca_certificate(authorities)).map_err(invalid)?;
        }
        Ok(endpoint
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_adaptive_window(true)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true))
    }
}

/// A channel that adds the token to its requests.
#[derive(Clone)]
struct Authorized {
    channel: Channel,
    header: HeaderValue,
}

impl Service<Request<Body>> for Authorized {
    type Response = Response<Body>;
    type Error = tonic::transport::Error;
    type Future = <Channel as Service<Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
        Service::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().insert(AUTHORIZATION, self.header.clone());
        Service::call(&mut self.channel, request)
    }
}

/// Creates clients whose errors name their worker, and which add the metrics of tasks to those of
/// the query.
#[derive(Clone, Debug)]
pub(crate) struct WatchedChannels {
    pub(crate) channels: Channels,
    /// `None` on a worker, since only the coordinator counts.
    pub(crate) usages: Option<Arc<ScanUsages>>,
}

#[async_trait]
impl ChannelResolver for WatchedChannels {
    async fn get_worker_client_for_url(&self, url: &Url) -> DfResult<Box<dyn WorkerChannel>> {
        let client = self.channels.client(url).map_err(to_datafusion)?;
        Ok(Box::new(Watched { client, url: url.clone(), usages: self.usages.clone() }))
    }
}

struct Watched {
    client: Box<dyn WorkerChannel>,
    url: Url,
    usages: Option<Arc<ScanUsages>>,
}

#[async_trait]
impl WorkerChannel for Watched {
    async fn coordinator_channel(
        &mut self,
        headers: HeaderMap,
        request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> DfResult<BoxStream<'static, DfResult<WorkerToCoordinatorMsg>>> {
        let answered = self.client.coordinator_channel(headers, request, messages, metrics, context).await;
        let answers = answered.map_err(|error| of_worker(&self.url, error))?;
        let (url, usages) = (self.url.clone(), self.usages.clone());
        let watched = answers.map(move |answer| match answer {
            Ok(answer) => {
                if let (WorkerToCoordinatorMsg::TaskMetrics(task), Some(usages)) = (&answer, &usages) {
                    usages.add(&task.pre_order_plan_metrics);
                }
                Ok(answer)
            }
            Err(error) => Err(of_worker(&url, error)),
        });
        Ok(watched.boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> DfResult<Vec<BoxStream<'static, DfResult<RecordBatch>>>> {
        let partitions = self.client.execute_task(headers, request, metrics, context).await;
        let partitions = partitions.map_err(|error| of_worker(&self.url, error))?;
        let named = |rows: BoxStream<'static, DfResult<RecordBatch>>| {
            let url = self.url.clone();
            rows.map(move |batch| batch.map_err(|error: DataFusionError| of_worker(&url, error))).boxed()
        };
        Ok(partitions.into_iter().map(named).collect())
    }

    async fn get_worker_info(&mut self, request: GetWorkerInfoRequest) -> DfResult<GetWorkerInfoResponse> {
        self.client.get_worker_info(request).await
    }
}
