//! Servers that are not ours, one for each test, stopped with it. What is not installed is skipped,
//! loudly.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use object_store::aws::AmazonS3;
use object_store::azure::{MicrosoftAzure, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorage, GoogleCloudStorageBuilder};
use pushdowndb_node::Credentials;
use pushdowndb_testkit::process::{Server, installed};
use pushdowndb_testkit::s3;
use tempfile::TempDir;

use crate::world::BUCKET;

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
            let mut command = Command::new(minio);
            command.args(["server", "--quiet", "--address", address]).arg(dir.path());
            let Credentials { access_key_id, secret_access_key } = Self::keys();
            command.env("MINIO_ROOT_USER", access_key_id).env("MINIO_ROOT_PASSWORD", secret_access_key);
            command
        });
        Some(Self { endpoint: format!("http://{}", server.address), _server: server, _dir: dir })
    }

    pub fn client(&self) -> AmazonS3 {
        let keys = Self::keys();
        s3::bucket(&self.endpoint, BUCKET, (&keys.access_key_id, &keys.secret_access_key)).build().unwrap()
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
        let server = Server::start(|address| {
            let mut command = Command::new(gcs);
            command.args([address, BUCKET]);
            command
        });
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
            let mut command = Command::new("node");
            command.arg(main).args(["--blobPort", port, "--inMemoryPersistence", "--silent", "--disableTelemetry"]);
            command
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
