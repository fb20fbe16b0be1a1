//! Servers that are not ours, one for each test, stopped with it. What is not installed is skipped, loudly.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use pushdowndb_node::Credentials;
use tempfile::TempDir;

use crate::world::BUCKET;

/// What `.ci/minio` and `.ci/clouds` installed.
fn installed(path: &str, by: &str) -> Option<PathBuf> {
    let cache = std::env::var_os("PUSHDOWNDB_CACHE").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/pushdowndb")))?;
    let found = Some(cache.join(path)).filter(|path| path.exists());
    if found.is_none() {
        // Past the test harness, which swallows what tests print.
        let skipped = format!("SKIPPED: {path} is not installed; {by} does it\n");
        std::io::stderr().write_all(skipped.as_bytes()).unwrap();
    }
    found
}

/// A process that serves on a port of its own.
struct Server {
    process: Child,
    address: String,
}

impl Server {
    fn start<S: AsRef<OsStr>>(command: impl FnOnce(&str) -> Vec<S>) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let words = command(&address);
        let process = Command::new(&words[0])
            .args(&words[1..])
            .env("MINIO_ROOT_USER", "minioadmin")
            .env("MINIO_ROOT_PASSWORD", "minioadmin")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, address };
        let since = Instant::now();
        while TcpStream::connect(&server.address).is_err() {
            assert!(since.elapsed() < Duration::from_secs(60), "it does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// MinIO, with one bucket.
pub struct Minio {
    pub endpoint: String,
    _server: Server,
    _dir: TempDir,
}

impl Minio {
    pub fn keys() -> Credentials {
        Credentials { access_key_id: "minioadmin".into(), secret_access_key: "minioadmin".into() }
    }

    pub fn start() -> Option<Self> {
        let minio = installed("bin/minio", ".ci/minio")?;
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(BUCKET)).unwrap();
        let server = Server::start(|address| {
            let words = [minio.as_os_str(), "server".as_ref(), "--quiet".as_ref(), "--address".as_ref()];
            [&words[..], &[address.as_ref(), dir.path().as_os_str()]]
                .concat()
                .into_iter()
                .map(OsStr::to_owned)
                .collect()
        });
        Some(Self { endpoint: format!("http://{}", server.address), _server: server, _dir: dir })
    }

    pub fn client(&self) -> AmazonS3 {
        let keys = Self::keys();
        AmazonS3Builder::new()
            .with_endpoint(&self.endpoint)
            .with_allow_http(true)
            .with_region("us-east-1")
            .with_bucket_name(BUCKET)
            .with_access_key_id(keys.access_key_id)
            .with_secret_access_key(keys.secret_access_key)
            .build()
            .unwrap()
    }
}

/// Google Cloud Storage in memory, with one bucket.
pub struct Gcs {
    pub endpoint: String,
    _server: Server,
}

impl Gcs {
    pub fn start() -> Option<Self> {
        let gcs = installed("bin/gcs", ".ci/clouds")?;
        let server = Server::start(|address| vec![gcs.into_os_string(), address.into(), BUCKET.into()]);
        Some(Self { endpoint: format!("http://{}", server.address), _server: server })
    }

    pub fn client(&self) -> GoogleCloudStorage {
        let account = r#"{"disable_oauth": true, "client_email": "", "private_key": "", "private_key_id": ""}"#;
        GoogleCloudStorageBuilder::new()
            .with_service_account_key(account)
            .with_base_url(&self.endpoint)
            .with_bucket_name(BUCKET)
            .build()
            .unwrap()
    }
}

/// Azure Blob Storage in memory, with one container.
pub struct Azurite {
    pub endpoint: String,
    _server: Server,
}

impl Azurite {
    /// The account that Azurite knows, and its key, which is the same everywhere.
    pub const ACCOUNT: &str = "devstoreaccount1";
    pub const KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    /// A signature of that account for everything until 2099.
    pub const SAS: &str = "sv=2023-11-03&ss=b&srt=sco&sp=rwdlacupt&se=2099-01-01T00%3A00%3A00Z&spr=https%2Chttp\
                           &sig=V5ITQll4Z5YCJtUDgaIsNhicjYZW%2BCjUtJDTa%2B9%2F7SM%3D";

    pub fn start() -> Option<Self> {
        let main = installed("azurite/node_modules/azurite/dist/src/blob/main.js", ".ci/clouds")?;
        let server = Server::start(|address| {
            let port = address.rsplit(':').next().unwrap();
            let flags = ["--blobPort", port, "--inMemoryPersistence", "--silent", "--disableTelemetry"];
            [&["node".as_ref(), main.as_os_str()], &flags.map(OsStr::new)[..]]
                .concat()
                .into_iter()
                .map(OsStr::to_owned)
                .collect()
        });
        // Clients of objects make no containers.
        let target = format!("/{}/{BUCKET}?restype=container&{}", Self::ACCOUNT, Self::SAS);
        let head = format!("PUT {target} HTTP/1.1\r\nHost: {}\r\nContent-Length: 0\r\n", server.address);
        let mut stream = TcpStream::connect(&server.address).unwrap();
        stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
        Some(Self { endpoint: format!("http://{}/{}", server.address, Self::ACCOUNT), _server: server })
    }

    pub fn client(&self) -> MicrosoftAzure {
        MicrosoftAzureBuilder::new()
            .with_endpoint(self.endpoint.clone())
            .with_allow_http(true)
            .with_account(Self::ACCOUNT)
            .with_access_key(Self::KEY)
            .with_container_name(BUCKET)
            .build()
            .unwrap()
    }
}
