//! Nodes with rate-limited disks behind a link, and TPC-H tables on them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use pushdowndb_datagen::{DataSet, schema_sql_of};

use super::definition::{Definition, Disks, Query, Series};
use crate::contestant::node;
use crate::contestant::process::{self, Running};
use crate::contestant::task::{Measured, RemoteTask, Work};
use crate::contestant::{DataFormat, Kind};
use crate::link::Link;
use crate::programs::Programs;

const BUCKET: &str = "data";
const PREFIX: &str = "t";

/// Nodes that run.
pub struct Nodes {
    // Dropped in this order.
    running: Vec<Running>,
    link: Link,
    program: String,
    bench: String,
    cache: PathBuf,
    declarations: String,
}

impl Nodes {
    /// Starts nodes without a rate limit to generate the data, then restarts them with a limit.
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

    /// Caps the rate of the bus.
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

    /// Starts a node for each disk, after stopping those that run.
    fn serve(&mut self, disks: &Disks, folder: &Path, bounded: bool) -> Result<()> {
        self.running.clear();
        for (number, rate) in disks.rates.iter().enumerate() {
            let store = folder.join(number.to_string());
            fs::create_dir_all(&store)?;
            let address = format!("{}:{}", self.link.host(), self.port(number)?);
            let mut command = node::serve(self.link.beside_node(&self.program), &store, &address);
            // One scan thread per disk, and no background reads.
            command.args(["--scan-threads", "1", "--scrub-rate", "0"]);
            if bounded {
                command.args(["--disk-rate", &format!("{}", u64::from(*rate) * 1_000_000)]);
            }
            self.running.push(node::spawn(&mut command, &log(folder, number))?);
        }
        let ports = (0..disks.rates.len()).map(|number| self.port(number)).collect::<Result<Vec<_>>>()?;
        for (number, (node, port)) in self.running.iter_mut().zip(ports).enumerate() {
            node::wait(node, port, &log(folder, number))?;
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
        node::prepare(&mut command, "generating tables")
    }

    /// The statements that declare the tables.
    fn declare(&self, disks: &Disks, definition: &Definition) -> Result<String> {
        let url = format!("s3://{BUCKET}/{PREFIX}");
        let place = |node| Ok(node::declared(PREFIX, &url, Some(self.endpoint(node)?)));
        let places = (0..disks.rates.len()).map(place).collect::<Result<Vec<_>>>()?;
        Ok(schema_sql_of(DataSet::Tpch, definition.options(), &places, disks.replicas())?)
    }

    fn with_credentials(&self, command: Command) -> Command {
        node::with_credentials(command, &self.link.address())
    }
}

fn log(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("{number}.log"))
}
