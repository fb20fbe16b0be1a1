//! The node of a grid and the tables in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use pushdowndb_datagen::{Format, schema, schema_sql};

use super::definition::{Distance, Grid};
use super::trouble::{Harm, Trouble};
use crate::contestant::node;
use crate::contestant::process::{self, Running};
use crate::contestant::task::{Measured, RemoteTable, RemoteTask, Work};
use crate::contestant::{DataFormat, Kind};
use crate::link::Link;
use crate::programs::Programs;

/// Threads of other engines if the server is distant.
const FAR_THREADS: usize = 16;

/// The price books by which costs are computed.
pub const PRICE_BOOKS: [&str; 2] = ["paper", "paper-egress"];

/// Link, node and tables.
pub struct Storage {
    // Dropped in this order.
    /// The proxy that makes the node seem distant.
    proxy: Option<Running>,
    harm: Option<Harm>,
    node: Option<Running>,
    link: Link,
    trouble: Option<Trouble>,
    distance: Option<Distance>,
    /// The program that runs the node and generates data and indexes.
    program: String,
    /// The program that runs contestants.
    bench: String,
    peers: PathBuf,
    folder: PathBuf,
    store: PathBuf,
    /// The folder of the engine's statistics and endpoint profiles, the latter per link and
    /// trouble.
    cache: PathBuf,
    ready: BTreeSet<String>,
}

impl Storage {
    /// Starts a node behind the link. Its log is in `folder`, its objects are in `store`.
    pub fn start(link: Link, programs: &Programs, folder: PathBuf, store: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&store).with_context(|| store.display().to_string())?;
        let text = |path: &Path| path.to_str().map(str::to_owned).context("the path of a program is not text");
        let (program, bench, peers) = (text(&programs.measured)?, text(&programs.own)?, programs.peers.clone());
        let (proxy, harm, node, trouble, distance) = (None, None, None, None, None);
        let (cache, ready) = (folder.join("cache"), BTreeSet::new());
        let mut storage =
            Self { proxy, harm, node, link, trouble, distance, program, bench, peers, folder, store, cache, ready };
        storage.learn_apart(0)?;
        storage.restart(None)?;
        Ok(storage)
    }

    /// Applies a cap, a trouble and a distance.
    pub fn condition(&mut self, mb_per_s: u32, trouble: Option<Trouble>, distance: Option<Distance>) -> Result<()> {
        if self.trouble != trouble {
            self.restart(trouble)?;
        }
        if self.distance != distance {
            self.proxy = distance.map(|distance| self.begin_proxy(distance)).transpose()?;
            self.distance = distance;
        }
        self.learn_apart(mb_per_s)?;
        self.link.shape(mb_per_s)
    }

    /// Switches to a cache folder for the rates of this link, since one endpoint is used with many
    /// links. With trouble or a distance, the folder starts with the rates of the same link without
    /// them.
    fn learn_apart(&mut self, mb_per_s: u32) -> Result<()> {
        let all = std::path::absolute(self.folder.join("cache"))?;
        let trouble = self.trouble.map_or_else(String::new, |trouble| format!("-{trouble:?}").to_lowercase());
        let distance = self.distance.map_or_else(String::new, |distance| format!("-{}ms", distance.first_ms));
        self.cache = all.join(format!("{mb_per_s}{trouble}{distance}"));
        let (shared, own) = (all.join("statistics"), self.cache.join("statistics"));
        std::fs::create_dir_all(&shared)?;
        std::fs::create_dir_all(&self.cache)?;
        if !own.exists() {
            std::os::unix::fs::symlink(shared, own)?;
        }
        let [well, rates] = [all.join(mb_per_s.to_string()), self.cache.clone()].map(|cache| cache.join("rates.json"));
        if well.exists() && !rates.exists() {
            std::fs::copy(well, rates)?;
        }
        Ok(())
    }

    fn restart(&mut self, trouble: Option<Trouble>) -> Result<()> {
        (self.harm, self.node) = (None, None);
        let log = self.folder.join("node.log");
        let mut command = node::serve(self.link.at_node(&self.program), &self.store, &self.link.address());
        command.args(trouble.map_or(&[][..], Trouble::arguments));
        let mut node = node::spawn(&mut command, &log)?;
        node::wait(&mut node, self.link.port(), &log)?;
        self.harm = trouble.map(|trouble| trouble.begin(&self.link, node.id())).transpose()?;
        (self.node, self.trouble) = (Some(node), trouble);
        Ok(())
    }

    /// Starts the proxy on the node's side. It needs no core of its own, since it mostly waits.
    fn begin_proxy(&self, distance: Distance) -> Result<Running> {
        let mut command = self.link.beside_node(&self.bench);
        command.args(["latency", "--listen", &self.link.far_address(), "--to", &self.link.address()]);
        command.args(["--first", &format!("{}ms", distance.first_ms)]);
        command.args(["--mbps", &distance.connection_mb_per_s.to_string()]);
        let log = self.folder.join("proxy.log");
        let mut proxy = node::spawn(&mut command, &log)?;
        node::wait(&mut proxy, self.link.far_port(), &log)?;
        Ok(proxy)
    }

    /// Makes sure that the tables of a grid exist in a format, with its indexes.
    pub fn prepare(&mut self, grid: &Grid, format: DataFormat) -> Result<()> {
        let bucket = bucket(grid, format);
        let indexes = format!("{bucket} {:?}", grid.indexes);
        let done = self.store.join(format!("{bucket}.done"));
        if !done.exists() {
            eprintln!("generating {} at scale {} as {format}", grid.data.set().name(), grid.scale);
            let mut command = self.with_credentials(self.link.unpinned(&self.program));
            command.args(["generate", grid.data.set().name(), "--scale", &grid.scale.to_string()]);
            command.args(["--format", &format.to_string(), "--to", &format!("s3://{bucket}/")]);
            node::prepare(command.args(["--create-bucket", "--overwrite"]), "generating tables")?;
            std::fs::write(&done, "")?;
        }
        if !self.ready.contains(&indexes) {
            for index in &grid.indexes {
                let statement = format!("CREATE INDEX IF NOT EXISTS ON {index}");
                let mut command = self.with_credentials(self.link.unpinned(&self.program));
                command.args(["-f", &format!("s3://{bucket}/schema.sql"), "-c", &statement]);
                node::prepare(&mut command, &statement)?;
            }
            self.ready.insert(indexes);
        }
        Ok(())
    }

    /// Runs a query in a contestant of this kind, on the engine's side and core.
    pub fn ask(&self, question: Question<'_>) -> Result<Measured> {
        let command = match question.kind {
            Kind::Duckdb | Kind::Polars => {
                let mut command = self.link.at_engine("python3");
                command.arg(&self.peers);
                command
            }
            _ => self.contestant(),
        };
        process::ask(self.with_credentials(command), &Work::Remote(self.task(question)?))
    }

    /// Returns the engine's plan of a question.
    pub fn plan(&self, question: Question<'_>) -> Result<String> {
        process::ask(self.with_credentials(self.contestant()), &Work::Plan(self.task(question)?))
    }

    fn contestant(&self) -> Command {
        let mut command = self.link.at_engine(&self.bench);
        command.arg("contestant");
        command
    }

    fn task(&self, question: Question<'_>) -> Result<RemoteTask> {
        let Question { grid, format, kind, statement, settings, round } = question;
        let bucket = bucket(grid, format);
        let extension = file_format(format)?.extension();
        let tables = grid.data.set().tables().iter().map(|table| {
            let columns = schema(table)?;
            let columns = columns
                .fields()
                .iter()
                .map(|field| (field.name().clone(), pushdowndb_engine::sql_type(field.data_type())));
            let url = format!("s3://{bucket}/{table}/{table}.{extension}");
            Ok(RemoteTable { name: (*table).to_owned(), url, columns: columns.collect() })
        });
        Ok(RemoteTask {
            kind,
            format,
            declarations: declarations(grid, format)?,
            tables: tables.collect::<Result<_>>()?,
            statement,
            settings,
            // Engines whose threads wait for their reads need several threads.
            threads: if self.distance.is_some() && kind != Kind::Engine { FAR_THREADS } else { 1 },
            start_ms: self.trouble.and_then(|trouble| trouble.start_ms(round)),
            cache: self.cache.clone(),
            price_books: PRICE_BOOKS.map(str::to_owned).to_vec(),
            workers_token: None,
        })
    }

    fn with_credentials(&self, command: Command) -> Command {
        let address = if self.distance.is_some() { self.link.far_address() } else { self.link.address() };
        node::with_credentials(command, &address)
    }
}

/// A query for a contestant.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    pub grid: &'a Grid,
    pub format: DataFormat,
    pub kind: Kind,
    pub statement: String,
    /// The engine's settings.
    pub settings: BTreeMap<String, String>,
    pub round: u32,
}

/// Returns the bucket for a grid's tables. All queries of a table use its indexes, so tables with
/// indexes have a bucket of their own.
fn bucket(grid: &Grid, format: DataFormat) -> String {
    let scale = grid.scale.to_string().replace('.', "-");
    let indexed = if grid.indexes.is_empty() { "" } else { "-indexed" };
    format!("{}-{format}-{scale}{indexed}", grid.data.set().name())
}

fn declarations(grid: &Grid, format: DataFormat) -> Result<String> {
    Ok(schema_sql(grid.data.set(), &format!("s3://{}", bucket(grid, format)), file_format(format)?, grid.scale)?)
}

fn file_format(format: DataFormat) -> Result<Format> {
    match format {
        DataFormat::Csv => Ok(Format::Csv),
        DataFormat::Ndjson => Ok(Format::Json),
        DataFormat::Parquet => Ok(Format::Parquet),
        DataFormat::Gzip => bail!("tables in buckets are not compressed here"),
    }
}
