//! Nodes with bounded disks behind a link, and TPC-H over them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use object_store::memory::InMemory;
use pushdowndb_datagen::{DataSet, Destination, schema_sql_of};

use super::definition::{Definition, Disks, Query, Series};
use crate::contestant::process::{self, Running, listens};
use crate::contestant::task::{Measured, RemoteTask, Work};
use crate::contestant::{DataFormat, Kind};
use crate::link::Link;
use crate::programs::Programs;

const KEY_ID: &str = "experiment-key";
const SECRET: &str = "experiment-secret-key";
const BUCKET: &str = "data";
const PREFIX: &str = "t";

/// A node must listen within this time.
const START: Duration = Duration::from_secs(60);

/// Nodes that run.
pub struct Nodes {
    // Ended in this order.
    running: Vec<Running>,
    link: Link,
    program: String,
    bench: String,
    cache: PathBuf,
    declarations: String,
}

impl Nodes {
    /// Starts nodes without a bound on their disks to make the data, then with one.
    pub fn start(
        link: Link,
        programs: &Programs,
        disks: &Disks,
        definition: &Definition,
        out: &Path,
        data: &Path,
    ) -> Result<Self> {
        let text = |path: &Path| path.to_str().map(str::to_owned).context("the path of a program is not text");
        let folder = data.join(format!("{}-{}-{}", disks.name, definition.scale, definition.parts));
        let mut nodes = Self {
            running: vec![],
            link,
            program: text(&programs.measured)?,
            bench: text(&programs.own)?,
            cache: out.join(format!("cache-disks-{}", disks.name)),
            declarations: String::new(),
        };
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        nodes.declarations = nodes.declare(disks, definition)?;
        let done = folder.join("done");
        if !done.exists() {
            nodes.serve(disks, &folder, false)?;
            eprintln!("generating scale {} over {} nodes", definition.scale, disks.rates.len());
            nodes.generate(disks, definition)?;
            fs::write(&done, "")?;
        }
        nodes.serve(disks, &folder, true)?;
        Ok(nodes)
    }

    /// Caps the bus.
    pub fn shape(&self, mb_per_s: u32) -> Result<()> {
        self.link.shape(mb_per_s)
    }

    /// Plans a query, so that the tables' statistics are known.
    pub fn explain(&self, query: &Query) -> Result<()> {
        let level = Series { name: String::new(), settings: [("level".to_owned(), "fragment".to_owned())].into() };
        let explained = Query { statement: format!("EXPLAIN {}", query.statement), ..query.clone() };
        self.ask(&explained, &level).map(drop)
    }

    /// Runs a query.
    pub fn ask(&self, query: &Query, series: &Series) -> Result<Measured> {
        let task = RemoteTask {
            kind: Kind::Engine,
            format: DataFormat::Csv,
            declarations: self.declarations.clone(),
            tables: vec![],
            statement: query.statement.clone(),
            settings: series.settings.clone(),
            threads: 1,
            start_ms: None,
            cache: self.cache.clone(),
            price_books: vec!["paper".to_owned()],
            workers_token: None,
        };
        let mut command = self.link.unpinned(&self.bench);
        command.arg("contestant");
        process::ask(self.with_credentials(command), &Work::Remote(task))
            .with_context(|| format!("{}, {}", query.name, series.name))
    }

    fn port(&self, node: usize) -> Result<u16> {
        let number = u16::try_from(node).ok().and_then(|number| self.link.port().checked_add(number));
        number.context("no port is left")
    }

    fn endpoint(&self, node: usize) -> Result<String> {
        Ok(format!("http://{}:{}", self.link.host(), self.port(node)?))
    }

    /// Starts a node for each disk, in place of those that run.
    fn serve(&mut self, disks: &Disks, folder: &Path, bounded: bool) -> Result<()> {
        self.running.clear();
        for (number, rate) in disks.rates.iter().enumerate() {
            let store = folder.join(number.to_string());
            fs::create_dir_all(&store)?;
            let log = File::create(folder.join(format!("{number}.log")))?;
            let mut command = self.link.beside_node(&self.program);
            let address = format!("{}:{}", self.link.host(), self.port(number)?);
            command.arg("serve").arg("--store").arg(&store).args(["--listen", &address, "--log", "warn"]);
            // One processor beside each disk, and nothing else that reads from it.
            command.args(["--scan-threads", "1", "--scrub-rate", "0"]);
            if bounded {
                command.args(["--disk-rate", &format!("{}", u64::from(*rate) * 1_000_000)]);
            }
            command.env("PUSHDOWNDB_ACCESS_KEY_ID", KEY_ID).env("PUSHDOWNDB_SECRET_ACCESS_KEY", SECRET);
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            self.running.push(Running::spawn(&mut command)?);
        }
        let started = Instant::now();
        for number in 0..disks.rates.len() {
            let port = self.port(number)?;
            let Some(node) = self.running.get_mut(number) else { bail!("a node is missing") };
            while !listens(node.id(), port) {
                let log = folder.join(format!("{number}.log"));
                ensure!(!node.has_ended(), "a node ended at once: see {}", log.display());
                ensure!(started.elapsed() < START, "a node does not listen: see {}", log.display());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// Makes the tables.
    fn generate(&self, disks: &Disks, definition: &Definition) -> Result<()> {
        let mut command = self.with_credentials(self.link.unpinned(&self.program));
        command.args(["generate", "tpch", "--scale", &definition.scale.to_string(), "--create-bucket"]);
        command.args(["--parts", &definition.parts.to_string(), "--overwrite"]);
        command.args(["--replicas", &disks.replicas().to_string()]);
        for node in 0..disks.rates.len() {
            command.args(["--to", &format!("s3://{BUCKET}/{PREFIX}/@{}", self.endpoint(node)?)]);
        }
        ended_well(&mut command)
    }

    /// The statements that declare the tables.
    fn declare(&self, disks: &Disks, definition: &Definition) -> Result<String> {
        let place = |node| {
            Ok(Destination {
                // Not used: the nodes are out of this process's reach.
                store: Arc::new(InMemory::new()),
                prefix: PREFIX.into(),
                url: format!("s3://{BUCKET}/{PREFIX}"),
                endpoint: Some(self.endpoint(node)?),
            })
        };
        let places = (0..disks.rates.len()).map(place).collect::<Result<Vec<_>>>()?;
        Ok(schema_sql_of(DataSet::Tpch, definition.options(), &places, disks.replicas())?)
    }

    fn with_credentials(&self, mut command: Command) -> Command {
        let endpoint = format!("http://{}", self.link.address());
        for (name, value) in [
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ENDPOINT_URL", &endpoint),
        ] {
            command.env(name, value);
        }
        command
    }
}

fn ended_well(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().context("preparing tables")?;
    if !output.status.success() {
        bail!("preparing tables: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}
