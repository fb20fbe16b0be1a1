//! A running node: starting, what it tells about itself, stopping.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pushdown::{Error, Result};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::admission::{Admission, Connections};
use crate::answer::Answers;
use crate::counters::Counting;
use crate::health::{Health, Load};
use crate::host::Host;
use crate::keyring::KeysInUse;
use crate::memory::{NodeMemory, fitting, least_memory_bytes};
use crate::metrics::{Durations, Metrics, Sources};
use crate::scans::Scans;
use crate::server::Entrance;
use crate::store::{BucketSettings, GatewayStore, Grant, LocalStore, Store, StoreError};
use crate::tls::Tls;
use crate::zones::ZoneCache;
use crate::{Backing, Counters, Credentials, Keyring, Limits, NodeConfig, s3};

/// Connections to the address for administration: a few readers of metrics and health.
const ADMIN_CONNECTIONS: usize = 64;

/// How long the last writes may take when a node stops.
const LAST_WORK: Duration = Duration::from_secs(3);

/// How often what scans learned is written to disk.
const ZONES_SAVED: Duration = Duration::from_secs(30);

/// A node that is serving. Dropping it stops it without waiting.
pub struct Node {
    address: SocketAddr,
    admin_address: Option<SocketAddr>,
    tls: Option<Arc<Tls>>,
    keys: KeysInUse,
    credentials_file: Option<PathBuf>,
    counting: Arc<Counting>,
    /// Weak, so that a node that was told to stop lets go of its files.
    store: Weak<dyn Store>,
    stop: CancellationToken,
    stopped: CancellationToken,
}

/// Starts a node; it is bound and serving when this returns.
pub async fn start(config: NodeConfig) -> Result<Node> {
    let limits = fitting(&config.limits, matches!(config.backing, Backing::Gateway(_)));
    let config = NodeConfig { limits, ..config };
    let least = least_memory_bytes(&config.limits);
    if config.limits.memory_bytes < least {
        let message = format!("a node with these limits needs {} MiB of memory", least.div_ceil(1 << 20));
        return Err(Error::invalid(message));
    }
    // Before anything is written: of an address that is taken no store is made.
    let (listener, address) = listen(config.listen, "--listen").await?;
    let admin = match config.admin_listen {
        Some(address) => Some(listen(address, "--admin-listen").await?),
        None => None,
    };
    let admin_address = admin.as_ref().map(|(_, address)| *address);

    let (asked, files) = (config.clone(), config.tls.clone());
    let opened = spawn_blocking(move || Ok((open(&asked)?, files.map(Tls::load).transpose()?))).await;
    let opened: Result<_> = opened.map_err(|error| Error::internal("opening the store failed").with_source(error))?;
    let (Opened { store, keyring, credentials_file }, tls) = opened?;
    let tls = tls.map(Arc::new);

    let keys = KeysInUse::new(keyring, config.credentials.clone());
    let counting = Arc::new(Counting::default());
    let durations = Durations::default();
    let limits = config.limits.clone();
    let zones = match &config.backing {
        Backing::Store(dir) => Some(dir.join("zones")),
        Backing::Gateway(_) => None,
    };
    let memory = Arc::new(NodeMemory::new(&limits));
    let scans = Scans::new(&limits, Arc::clone(&memory), ZoneCache::new(limits.zone_bytes, zones))
        .map_err(|error| Error::internal("cannot start the threads of scans").with_source(error))?;
    let scans = Arc::new(scans);
    let connections =
        Connections::new(limits.connections, limits.peer_share(limits.connections), limits.peer_unproven());
    let admission = Admission::new(&limits);
    let sources = Sources {
        connections: Arc::clone(&connections),
        admission: Arc::clone(&admission),
        counting: Arc::clone(&counting),
        scans: Arc::downgrade(&scans),
        store: Arc::downgrade(&store),
        memory: memory.budget().clone(),
        limits: limits.clone(),
    };
    let load = Load {
        connections: Arc::clone(&connections),
        admission: Arc::clone(&admission),
        scans: Arc::downgrade(&scans),
    };
    let health = Health::new(Metrics::new(sources, &durations), admin.is_some(), Arc::downgrade(&store), load);
    let service = s3::service(Arc::clone(&store), &keys, &config, Arc::clone(&counting), Arc::clone(&scans), memory);
    let host = if config.tells_load { Host::watch(Arc::downgrade(&scans)) } else { None };
    let answers =
        Answers::new(service, Arc::clone(&health), Arc::clone(&counting), durations, admission, limits.clone(), host);

    let (stop, stopped) = (CancellationToken::new(), CancellationToken::new());
    let (weak, closing, done) = (Arc::downgrade(&store), stop.clone(), stopped.clone());
    let admin = admin.map(|(listener, _)| Entrance {
        listener,
        tls: None,
        answers: answers.for_administration(),
        counting: Arc::default(),
        connections: Connections::new(ADMIN_CONNECTIONS, ADMIN_CONNECTIONS, ADMIN_CONNECTIONS),
        limits: Limits { shutdown: Duration::ZERO, ..limits.clone() },
    });
    let entrance = Entrance {
        listener,
        tls: tls.clone(),
        answers,
        counting: Arc::clone(&counting),
        connections,
        limits: limits.clone(),
    };
    tokio::spawn(async move {
        // Says so even if serving panics.
        let _done = done.drop_guard();
        let over = CancellationToken::new();
        let closing = async move {
            closing.cancelled().await;
            health.drain();
            tokio::time::sleep(limits.drain_delay).await;
        };
        let serving = async {
            entrance.serve(closing).await;
            over.cancel();
        };
        // Health and metrics are there until the last request is through.
        let administration = async {
            if let Some(admin) = admin {
                admin.serve(over.cancelled()).await;
            }
        };
        tokio::select! {
            _ = async { tokio::join!(serving, administration) } => {}
            () = save_zones(&scans) => {}
        }
        let last = spawn_blocking(move || scans.zones().save());
        // A thread that a file system does not let go must not keep the node; what scans learned may be lost.
        drop(timeout(LAST_WORK, last).await);
        released(store).await;
    });
    tracing::info!(%address, "serving");
    Ok(Node { address, admin_address, tls, keys, credentials_file, counting, store: weak, stop, stopped })
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
    match &config.backing {
        Backing::Store(dir) => {
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
        Backing::Gateway(gateway) => {
            // Nothing of ours is kept behind a gateway, so keys that were not given last as long as the node.
            let keyring = given.unwrap_or_else(|| Keyring::one(Credentials::generate()));
            let store = Arc::new(GatewayStore::open(gateway, limits)?);
            Ok(Opened { store, keyring, credentials_file: None })
        }
    }
}

/// Keeps what scans learned, now and then, for as long as the node serves.
async fn save_zones(scans: &Arc<Scans>) {
    loop {
        tokio::time::sleep(ZONES_SAVED).await;
        let scans = Arc::clone(scans);
        drop(spawn_blocking(move || scans.zones().save()).await);
    }
}

/// Waits until the last disk task has let go of the store, so that it can be opened again.
async fn released(store: Arc<dyn Store>) {
    for _ in 0..1000 {
        if Arc::strong_count(&store) == 1 && store.is_idle() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Closing the index writes to disk, which a kill at any moment may prevent as well.
    drop(timeout(LAST_WORK, spawn_blocking(move || drop(store))).await);
}

impl Node {
    /// Where it serves, as in `http://127.0.0.1:9000`.
    pub fn endpoint(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.address)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address for administration, if it has one.
    pub fn admin_address(&self) -> Option<SocketAddr> {
        self.admin_address
    }

    /// Who may use it: the first of the keys it was started with.
    pub fn credentials(&self) -> &Credentials {
        self.keys.first()
    }

    /// Where the credentials are kept, if the node keeps them.
    pub fn credentials_file(&self) -> Option<&Path> {
        self.credentials_file.as_deref()
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.counting.read()
    }

    /// Reads the certificate files again, for connections from now on. An error leaves the old certificate.
    pub async fn reload_certificate(&self) -> Result<()> {
        let Some(tls) = self.tls.clone() else { return Ok(()) };
        spawn_blocking(move || tls.reload())
            .await
            .map_err(|error| Error::internal("reading the certificate failed").with_source(error))?
    }

    /// These keys, and the pair of [`NodeConfig::credentials`], for requests from now on.
    pub fn replace_keyring(&self, keyring: Keyring) {
        self.keys.replace(keyring);
    }

    /// Makes a bucket if there is none of this name, as CreateBucket does for clients.
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

    /// Tells the node to stop without waiting for it: it is no longer ready, and closes after its delay.
    pub fn begin_shutdown(&self) {
        self.stop.cancel();
    }

    /// Stops accepting, lets requests under way finish for a while, and closes the store.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.stopped.cancelled().await;
    }

    /// Returns when the node no longer serves.
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
