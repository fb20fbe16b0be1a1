//! Contestants that are servers: a PushdownDB node and MinIO, started for one measurement and
//! queried with S3 Select over HTTP.
//!
//! Each measurement has its own server, so that no cache is warm and the peak of memory belongs to
//! it. The result is the CPU time of the whole server while it answers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::StreamExt;
use http::header;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::buffered::BufWriter;
use object_store::client::{ClientOptions, HttpClient, HttpConnector, ReqwestConnector};
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use pushdowndb_engine::{ConnectionConfig, Engine, EngineConfig};
use pushdowndb_select::{EXTENSIONS_HEADER, Event, EventDecoder, error_from_response};
use tokio::io::AsyncWriteExt;

use super::answer::Answer;
use super::kind::{DataFormat, Kind};
use super::node::{self, KEY_ID, SECRET, free_port};
use super::process::{Running, pinned};
use super::task::Measured;
use crate::machine;

const BUCKET: &str = "experiment";
const REGION: &str = "us-east-1";

/// Maximum time until a server answers.
const START: Duration = Duration::from_secs(60);
/// A server has started when it uses less CPU time than this during [`QUIET_FOR`].
const QUIET_CPU_S: f64 = 0.01;
const QUIET_FOR: Duration = Duration::from_millis(200);

/// The servers of an experiment.
#[derive(Debug)]
pub struct Servers {
    /// The program that serves the node.
    node: PathBuf,
    /// The binary of MinIO.
    minio: Option<PathBuf>,
    /// The folder for their stores and logs.
    folder: PathBuf,
    /// The files that were stored, as store folder joined with key.
    stored: HashSet<PathBuf>,
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    process: Running,
    endpoint: String,
    /// Created before anything is measured, since loading its certificates takes longer than some
    /// answers.
    client: HttpClient,
}

impl Servers {
    /// Creates the servers of these binaries, with a `folder` for their stores.
    pub fn new(node: PathBuf, minio: Option<PathBuf>, folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { node, minio, folder, stored: HashSet::new() })
    }

    /// Stores the file as an object on a server of this `kind` unless it is stored already, and
    /// reads it into the page cache.
    pub async fn store(&mut self, kind: Kind, file: &Path, key: &str) -> Result<()> {
        let store = self.folder.join(name(kind));
        if !self.stored.contains(&store.join(key)) {
            self.start(kind, 1).await?.put(file, key).await?;
            self.stored.insert(store.join(key));
        }
        machine::warm(&store)
    }

    /// Starts a server on the first `cores`, with the objects that were stored for its kind before.
    pub async fn start(&self, kind: Kind, cores: usize) -> Result<Server> {
        let listen = format!("127.0.0.1:{}", free_port()?);
        let binary = match kind {
            Kind::Minio => self.minio.as_ref().context("there is no binary of MinIO")?,
            _ => &self.node,
        };
        let name = name(kind);
        let store = self.folder.join(name);
        std::fs::create_dir_all(&store).with_context(|| store.display().to_string())?;
        let mut command = match kind {
            Kind::Minio => {
                let mut minio = pinned(binary, cores);
                minio.arg("server").arg(&store).args(["--address", &listen]);
                minio.env("MINIO_ROOT_USER", KEY_ID).env("MINIO_ROOT_PASSWORD", SECRET);
                minio.env("MINIO_API_SELECT_PARQUET", "on");
                minio
            }
            _ => node::serve(pinned(binary, cores), &store, &listen),
        };
        let process = node::spawn(&mut command, &self.folder.join(format!("{name}.log")))?;
        let options = ClientOptions::new().with_allow_http(true).with_timeout_disabled();
        let client = ReqwestConnector::default().connect(&options)?;
        let mut server = Server { process, endpoint: format!("http://{listen}"), client };
        server.ready(&listen).await.with_context(|| format!("{name}: see {name}.log in {}", self.folder.display()))?;
        Ok(server)
    }
}

/// Returns the name of the folder of a kind of server.
fn name(kind: Kind) -> &'static str {
    if kind == Kind::Minio { "minio" } else { "node" }
}

impl Server {
    async fn ready(&mut self, address: &str) -> Result<()> {
        let started = Instant::now();
        while tokio::net::TcpStream::connect(address).await.is_err() {
            ensure!(!self.process.has_ended(), "it ended at once");
            ensure!(started.elapsed() < START, "it does not answer");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let mut before = self.process.cpu()?;
        while started.elapsed() < START {
            tokio::time::sleep(QUIET_FOR).await;
            let now = self.process.cpu()?;
            if now - before < QUIET_CPU_S {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Stores a file as an object unless one of its size is there.
    async fn put(&self, file: &Path, key: &str) -> Result<()> {
        let connection = ConnectionConfig {
            endpoint: Some(self.endpoint.clone()),
            region: Some(REGION.to_owned()),
            access_key_id: Some(KEY_ID.to_owned()),
            secret_access_key: Some(SECRET.to_owned()),
            ..ConnectionConfig::default()
        };
        let engine = Engine::new(EngineConfig { connection, ..EngineConfig::unrestricted() }).await?;
        let url = format!("s3://{BUCKET}/");
        let (store, key) = (engine.store(&url)?.0, Key::from(key));
        let size = file.metadata().with_context(|| file.display().to_string())?.len();
        if store.head(&key).await.is_ok_and(|found| found.size == size) {
            return Ok(());
        }
        engine.create_bucket(&url).await?;
        let mut from = tokio::fs::File::open(file).await?;
        let mut into = BufWriter::new(store as Arc<dyn ObjectStore>, key);
        tokio::io::copy(&mut from, &mut into).await?;
        Ok(into.shutdown().await?)
    }

    /// Runs a statement over an object.
    pub async fn select(&self, statement: &str, format: DataFormat, key: &str) -> Result<Measured> {
        let (cpu, wall) = (self.process.cpu()?, Instant::now());
        let csv = self.answer(statement, format, key).await?;
        let (cpu_s, wall_s) = (self.process.cpu()? - cpu, wall.elapsed().as_secs_f64());
        Ok(Measured {
            cpu_s,
            wall_s,
            peak_bytes: self.process.peak_bytes(),
            answer: Answer::of_csv(&csv)?,
            traffic: None,
        })
    }

    async fn answer(&self, statement: &str, format: DataFormat, key: &str) -> Result<Vec<u8>> {
        let url = format!("{}/{BUCKET}/{key}?select&select-type=2", self.endpoint);
        let mut request = http::Request::post(url)
            .header(header::CONTENT_TYPE, "application/xml")
            .header(EXTENSIONS_HEADER, "on")
            .body(request_xml(statement, format).into())?;
        let credential = AwsCredential { key_id: KEY_ID.to_owned(), secret_key: SECRET.to_owned(), token: None };
        AwsAuthorizer::new(&credential, "s3", REGION).authorize(&mut request, None);
        let response = self.client.execute(request).await?;
        let status = response.status();
        let mut body = response.into_body().bytes_stream();
        if !status.is_success() {
            let mut text = Vec::new();
            while let Some(piece) = body.next().await {
                text.extend_from_slice(&piece?);
            }
            return Err(error_from_response(status.as_u16(), &text).into());
        }
        let (mut frames, mut rows) = (EventDecoder::default(), Vec::new());
        while let Some(piece) = body.next().await {
            frames.feed(&piece?);
            while let Some(event) = frames.next()? {
                match event {
                    Event::Records(bytes) => rows.extend_from_slice(&bytes),
                    Event::End => return Ok(rows),
                    Event::Cont | Event::Progress(_) | Event::Stats(_) => {}
                }
            }
        }
        bail!("the answer has no end")
    }
}

/// Returns a Select request in which column names come from the header, as all clients request it.
fn request_xml(statement: &str, format: DataFormat) -> String {
    let input = match format {
        DataFormat::Csv => "<CSV><FileHeaderInfo>USE</FileHeaderInfo></CSV>",
        DataFormat::Gzip => "<CompressionType>GZIP</CompressionType><CSV><FileHeaderInfo>USE</FileHeaderInfo></CSV>",
        DataFormat::Ndjson => "<JSON><Type>LINES</Type></JSON>",
        DataFormat::Parquet => "<Parquet></Parquet>",
    };
    let statement = statement.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
         <SelectObjectContentRequest xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Expression>{statement}</Expression><ExpressionType>SQL</ExpressionType>\
         <InputSerialization>{input}</InputSerialization>\
         <OutputSerialization><CSV></CSV></OutputSerialization></SelectObjectContentRequest>"
    )
}
