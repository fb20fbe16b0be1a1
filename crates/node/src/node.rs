//! A running node: starting, what it tells about itself, stopping.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use pushdown::{Error, Result};
use tokio::net::TcpListener;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::counters::Counting;
use crate::store::{FolderGateway, LocalStore, Store, StoreError};
use crate::{Backing, Counters, Credentials, NodeConfig, s3, server};

/// A node that is serving. Dropping it stops it without waiting.
#[derive(Debug)]
pub struct Node {
    address: SocketAddr,
    credentials: Credentials,
    credentials_file: Option<PathBuf>,
    counting: Arc<Counting>,
    /// Weak, so that a node that was told to stop lets go of its files.
    store: Weak<dyn Store>,
    stop: CancellationToken,
    stopped: CancellationToken,
}

/// Starts a node; it is bound and serving when this returns.
pub async fn start(config: NodeConfig) -> Result<Node> {
    let backing = config.backing.clone();
    let (limits, given) = (config.limits.clone(), config.credentials.clone());
    let opened = spawn_blocking(move || open(&backing, limits, given)).await;
    let opened = opened.map_err(|error| Error::internal("opening the store failed").with_source(error))??;

    let listener = TcpListener::bind(config.listen).await.map_err(|error| {
        Error::invalid(format!("cannot listen on {}; choose another --listen address", config.listen))
            .with_source(error)
    })?;
    let address =
        listener.local_addr().map_err(|error| Error::internal("the listener has no address").with_source(error))?;

    let counting = Arc::new(Counting::default());
    let Opened { store, credentials, credentials_file } = opened;
    let service = s3::service(Arc::clone(&store), &credentials, &config, Arc::clone(&counting));
    let weak = Arc::downgrade(&store);
    let (stop, stopped) = (CancellationToken::new(), CancellationToken::new());
    let serving = server::serve(listener, service, Arc::clone(&counting), config.limits, stop.clone());
    let done = stopped.clone();
    tokio::spawn(async move {
        // Says so even if serving panics.
        let _done = done.drop_guard();
        serving.await;
        released(store).await;
    });
    tracing::info!(%address, "serving");
    Ok(Node { address, credentials, credentials_file, counting, store: weak, stop, stopped })
}

struct Opened {
    store: Arc<dyn Store>,
    credentials: Credentials,
    credentials_file: Option<PathBuf>,
}

fn open(backing: &Backing, limits: crate::Limits, given: Option<Credentials>) -> Result<Opened> {
    match backing {
        Backing::Store(dir) => {
            let store = Arc::new(LocalStore::open(dir, limits)?);
            match given {
                Some(credentials) => Ok(Opened { store, credentials, credentials_file: None }),
                None => {
                    let file = dir.join("credentials.json");
                    let credentials = Credentials::load_or_create(&file)?;
                    Ok(Opened { store, credentials, credentials_file: Some(file) })
                }
            }
        }
        Backing::Gateway { url } if url.scheme() == "file" => {
            let dir = url
                .to_file_path()
                .map_err(|()| Error::invalid(format!("{url} names no folder of this machine; write file:///path")))?;
            let store = Arc::new(FolderGateway::open(&dir, limits)?);
            // Nothing is ever written into a served folder, so keys that were not given last as long as the node.
            let credentials = given.unwrap_or_else(Credentials::generate);
            Ok(Opened { store, credentials, credentials_file: None })
        }
        Backing::Gateway { url } => {
            Err(Error::unsupported(format!("cannot serve {url}: a gateway fronts a folder, file:///path")))
        }
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
    // Closing the index writes to disk.
    drop(spawn_blocking(move || drop(store)).await);
}

impl Node {
    /// Where it serves, as in `http://127.0.0.1:9000`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Who may use it.
    pub fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Where the credentials are kept, if the node keeps them.
    pub fn credentials_file(&self) -> Option<&Path> {
        self.credentials_file.as_deref()
    }

    /// What it has done so far.
    pub fn counters(&self) -> Counters {
        self.counting.read()
    }

    /// Makes a bucket if there is none of this name, as CreateBucket does for clients.
    pub async fn create_bucket(&self, bucket: &str) -> Result<()> {
        let store = self.store.upgrade().ok_or_else(|| Error::invalid("the node has stopped"))?;
        if !s3s::path::check_bucket_name(bucket) {
            return Err(Error::invalid(format!(
                "'{bucket}' is no bucket name: use 3 to 63 lower-case letters, digits, dots and dashes"
            )));
        }
        match store.create_bucket(bucket).await {
            Ok(()) | Err(StoreError::BucketExists(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
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

impl Drop for Node {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
