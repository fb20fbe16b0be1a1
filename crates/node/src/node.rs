//! A running node: start, state and shutdown.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use pushdowndb_contract::{Error, Result};
use pushdowndb_tls::Tls;
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::admin::{Capacity, Durations, Health, MetricSources, Metrics};
use crate::admission::{Admission, Connections, NodeMemory, fit_to_memory, min_memory_bytes};
use crate::keys::ActiveKeys;
use crate::scans::{ScanScheduler, ZoneCache};
use crate::server::{Listener, Middleware};
use crate::store::{BucketSettings, GatewayStore, Grant, LocalStore, Store, StoreError};
use crate::telemetry::LiveCounters;
use crate::{Counters, Credentials, Keyring, Limits, NodeConfig, Storage, s3};

/// The protocols that a node offers by ALPN, as S3 does; HTTP/2 would need its own limits.
const PROTOCOLS: &[&[u8]] = &[b"http/1.1"];

/// Maximum connections to the administration address.
const MAX_ADMIN_CONNECTIONS: usize = 64;

/// Maximum time for the last writes when a node stops.
const MAX_LAST_WRITES: Duration = Duration::from_secs(3);

/// Interval at which zones are saved to disk.
const ZONE_SAVE_INTERVAL: Duration = Duration::from_secs(30);

/// A node that is serving. Dropping it stops it without waiting.
pub struct Node {
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    tls: Option<Arc<Tls>>,
    keys: ActiveKeys,
    credentials_file: Option<PathBuf>,
    counting: Arc<LiveCounters>,
    /// Weak, so that a stopping node closes its files.
    store: Weak<dyn Store>,
    stop: CancellationToken,
    stopped: CancellationToken,
}

/// Starts a node; it is bound and serving when this returns.
///
/// The future is boxed: otherwise each program and test that starts a node would compile the
/// server once more.
pub fn start(config: NodeConfig) -> BoxFuture<'static, Result<Node>> {
    async move {
        let limits = fit_to_memory(&config.limits, matches!(config.storage, Storage::Gateway(_)));
        let config = NodeConfig { limits, ..config };
        let least = min_memory_bytes(&config.limits);
        if config.limits.memory_bytes < least {
            let message = format!("a node with these limits needs {} MiB of memory", least.div_ceil(1 << 20));
            return Err(Error::invalid(message));
        }
        // Listens before anything is written: if the address is in use, no store is created.
        let (listener, address) = listen(config.listen, "--listen").await?;
        let admin = match config.admin_listen {
            Some(address) => Some(listen(address, "--admin-listen").await?),
            None => None,
        };
        let admin_address = admin.as_ref().map(|(_, address)| *address);

        let (asked, files) = (config.clone(), config.tls.clone());
        let opened =
            spawn_blocking(move || Ok((open(&asked)?, files.map(|files| Tls::load(files, PROTOCOLS)).transpose()?)))
                .await;
        let opened: Result<_> =
            opened.map_err(|error| Error::internal("opening the store failed").with_source(error))?;
        let (Opened { store, keyring, credentials_file }, tls) = opened?;
        let tls = tls.map(Arc::new);

        let keys = ActiveKeys::new(keyring, config.credentials.clone());
        let counting = Arc::new(LiveCounters::default());
        let durations = Durations::default();
        let limits = config.limits.clone();
        let zones = match &config.storage {
            Storage::Store(dir) => Some(dir.join("zones")),
            Storage::Gateway(_) => None,
        };
        let memory = Arc::new(NodeMemory::new(&limits));
        let scans = ScanScheduler::new(&limits, Arc::clone(&memory), ZoneCache::new(limits.zone_bytes, zones))
            .map_err(|error| Error::internal("cannot start the threads of scans").with_source(error))?;
        let scans = Arc::new(scans);
        let connections =
            Connections::new(limits.connections, limits.peer_share(limits.connections), limits.peer_unproven());
        let admission = Admission::new(&limits);
        let sources = MetricSources {
            connections: Arc::clone(&connections),
            admission: Arc::clone(&admission),
            counting: Arc::clone(&counting),
            scans: Arc::downgrade(&scans),
            store: Arc::downgrade(&store),
            memory: memory.budget().clone(),
            limits: limits.clone(),
        };
        let capacity = Capacity {
            connections: Arc::clone(&connections),
            admission: Arc::clone(&admission),
            scans: Arc::downgrade(&scans),
        };
        let health = Health::new(Metrics::new(sources, &durations), admin.is_some(), Arc::downgrade(&store), capacity);
        let service =
            s3::service(Arc::clone(&store), &keys, &config, Arc::clone(&counting), Arc::clone(&scans), memory);
        let middleware =
            Middleware::new(service, Arc::clone(&health), Arc::clone(&counting), durations, admission, limits.clone());

        let admin = admin.map(|(listener, _)| Listener {
            listener,
            tls: None,
            middleware: middleware.for_administration(),
            counting: Arc::default(),
            connections: Connections::new(MAX_ADMIN_CONNECTIONS, MAX_ADMIN_CONNECTIONS, MAX_ADMIN_CONNECTIONS),
            limits: Limits { shutdown: Duration::ZERO, ..limits.clone() },
        });
        let drain_delay = limits.drain_delay;
        let s3 =
            Listener { listener, tls: tls.clone(), middleware, counting: Arc::clone(&counting), connections, limits };
        let (stop, stopped) = (CancellationToken::new(), CancellationToken::new());
        let weak_store = Arc::downgrade(&store);
        let servers = Servers { s3, admin, health, drain_delay, scans, store };
        tokio::spawn(servers.run(stop.clone(), stopped.clone()));
        tracing::info!(%address, "serving");
        Ok(Node { address, admin_address, tls, keys, credentials_file, counting, store: weak_store, stop, stopped })
    }
    .boxed()
}

/// The listeners of a node, and the state that is closed when they have ended.
struct Servers {
    s3: Listener,
    admin: Option<Listener>,
    health: Arc<Health>,
    drain_delay: Duration,
    scans: Arc<ScanScheduler>,
    store: Arc<dyn Store>,
}

impl Servers {
    /// Serves until `stop` is cancelled and requests in progress have ended; then closes the store
    /// and cancels `stopped`.
    async fn run(self, stop: CancellationToken, stopped: CancellationToken) {
        let Self { s3, admin, health, drain_delay, scans, store } = self;
        // Fires even if serving panics.
        let _stopped = stopped.drop_guard();
        let s3_ended = CancellationToken::new();
        let closing = async move {
            stop.cancelled().await;
            health.drain();
            tokio::time::sleep(drain_delay).await;
        };
        let serving = async {
            s3.serve(closing).await;
            s3_ended.cancel();
        };
        // Health and metrics stay available until the last request has ended.
        let administration = async {
            if let Some(admin) = admin {
                admin.serve(s3_ended.cancelled()).await;
            }
        };
        tokio::select! {
            _ = async { tokio::join!(serving, administration) } => {}
            () = save_zones(&scans) => {}
        }
        let last = spawn_blocking(move || scans.zones().save());
        // A thread blocked by a file system must not keep the node; unsaved zones may be lost.
        drop(timeout(MAX_LAST_WRITES, last).await);
        close_store(store).await;
    }
}

async fn listen(address: SocketAddr, flag: &str) -> Result<(TcpListener, SocketAddr)> {
    let cannot =
        |error| Error::invalid(format!("cannot listen on {address}; choose another {flag} address")).with_source(error);
    let listener = TcpListener::bind(address).await.map_err(cannot)?;
    let address =
        listener.local_addr().map_err(|error| Error::internal("the listener has no address").with_source(error))?;
    Ok((listener, address))
}

struct Opened {
    store: Arc<dyn Store>,
    keyring: Keyring,
    credentials_file: Option<PathBuf>,
}

fn open(config: &NodeConfig) -> Result<Opened> {
    let limits = config.limits.clone();
    let given = match (&config.keyring, &config.credentials) {
        (Some(keyring), Some(credentials)) => Some(keyring.clone().with(credentials.clone())),
        (Some(keyring), None) => Some(keyring.clone()),
        (None, credentials) => credentials.clone().map(Keyring::one),
    };
    match &config.storage {
        Storage::Store(dir) => {
            let store = Arc::new(LocalStore::open(dir, limits)?);
            match given {
                Some(keyring) => Ok(Opened { store, keyring, credentials_file: None }),
                None => {
                    let file = dir.join("credentials.json");
                    let keyring = Keyring::one(Credentials::load_or_create(&file)?);
                    Ok(Opened { store, keyring, credentials_file: Some(file) })
                }
            }
        }
        Storage::Gateway(gateway) => {
            // Nothing is stored for a gateway, so generated keys last as long as the node.
            let keyring = given.unwrap_or_else(|| Keyring::one(Credentials::generate()));
            let store = Arc::new(GatewayStore::open(gateway, limits)?);
            Ok(Opened { store, keyring, credentials_file: None })
        }
    }
}

/// Saves zones periodically while the node serves.
async fn save_zones(scans: &Arc<ScanScheduler>) {
    loop {
        tokio::time::sleep(ZONE_SAVE_INTERVAL).await;
        let scans = Arc::clone(scans);
        drop(spawn_blocking(move || scans.zones().save()).await);
    }
}

/// Waits until the last disk task has released the store, so that it can be opened again.
async fn close_store(store: Arc<dyn Store>) {
    for _ in 0..1000 {
        if Arc::strong_count(&store) == 1 && store.is_idle() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Closing the index writes to disk; a kill at any moment is safe as well.
    drop(timeout(MAX_LAST_WRITES, spawn_blocking(move || drop(store))).await);
}

impl Node {
    /// The URL of the node, such as `http://127.0.0.1:9000`.
    pub fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The administration address, if there is one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// The first of the keys that it was started with.
    pub fn credentials(&self) -> &Credentials {
        self.keys.first()
    }

    /// The file of generated credentials, if there is one.
    pub fn credentials_file(&self) -> Option<&Path> {
        self.credentials_file.as_deref()
    }

    /// The current counters.
    pub fn counters(&self) -> Counters {
        self.counting.read()
    }

    /// Reads the certificate files again, for new connections. An error keeps the old certificate.
    pub async fn reload_certificate(&self) -> Result<()> {
        let Some(tls) = self.tls.clone() else { return Ok(()) };
        spawn_blocking(move || tls.reload())
            .await
            .map_err(|error| Error::internal("reading the certificate failed").with_source(error))?
    }

    /// Replaces the keys for new requests; [`NodeConfig::credentials`] stay valid.
    pub fn replace_keyring(&self, keyring: Keyring) {
        self.keys.replace(keyring);
    }

    /// Creates a bucket, as CreateBucket does, unless it exists.
    pub async fn create_bucket(&self, bucket: &str) -> Result<()> {
        let store = self.store.upgrade().ok_or_else(|| Error::invalid("the node has stopped"))?;
        if !s3s::path::check_bucket_name(bucket) {
            return Err(Error::invalid(format!(
                "'{bucket}' is no bucket name: use 3 to 63 lower-case letters, digits, dots and dashes"
            )));
        }
        match store.create_bucket(bucket, BucketSettings::default(), Grant::node()).await {
            Ok(()) | Err(StoreError::BucketExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Starts a shutdown without waiting: the node is no longer ready, and closes after its drain
    /// delay.
    pub fn begin_shutdown(&self) {
        self.stop.cancel();
    }

    /// Stops accepting, lets requests in progress finish within a time limit, and closes the store.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.stopped.cancelled().await;
    }

    /// Waits until the node has stopped.
    pub async fn stopped(&self) {
        self.stopped.cancelled().await;
    }
}

impl std::fmt::Debug for Node {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Node").field("address", &self.address).field("keys", &self.keys.now()).finish_non_exhaustive()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
