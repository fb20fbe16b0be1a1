//! The node with the tables, the workers, and the process that plans.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use pushdowndb_datagen::{DataSet, schema_sql_of};

use super::definition::Definition;
use super::share::Share;
use crate::contestant::node::{self, free_port};
use crate::contestant::process::{self, Running};
use crate::contestant::task::{Measured, RemoteTask, Work};
use crate::contestant::{DataFormat, Kind};
use crate::programs::Programs;
use crate::queries::tpch;

const LOCATION: &str = "s3://data/t";

/// The processes for one number of workers.
pub struct Processes {
    // Dropped in this order.
    workers: Vec<(Running, u16)>,
    _node: Running,
    shares: Vec<Share>,
    program: String,
    bench: String,
    out: PathBuf,
    /// The address of the node.
    address: String,
    declarations: String,
    token: PathBuf,
}

impl Processes {
    /// Starts a node with the tables in `data`, which are generated if they are missing, and
    /// `count` workers; none if `count` is 1. Without `bounded`, CPU shares are not limited.
    pub fn start(
        programs: &Programs,
        definition: &Definition,
        count: usize,
        bounded: bool,
        (out, data): (&Path, &Path),
    ) -> Result<Self> {
        let text = |path: &Path| path.to_str().map(str::to_owned).context("the path of a program is not text");
        let program = text(&programs.measured)?;
        let store = data.join(format!("{}-{}", definition.scale, definition.parts));
        fs::create_dir_all(&store).with_context(|| store.display().to_string())?;
        let port = free_port()?;
        let address = format!("127.0.0.1:{port}");
        let mut serve = node::serve(Command::new(&program), &store.join("store"), &address);
        serve.args(["--scrub-rate", "0"]);
        let node = started(&mut serve, port, &out.join("node.log"))?;
        let token = out.join("token");
        fs::write(&token, "token-of-the-workers-of-this-experiment\n")?;
        let mut processes = Self {
            workers: vec![],
            _node: node,
            shares: vec![],
            program,
            bench: text(&programs.own)?,
            out: out.to_owned(),
            address,
            declarations: declarations(definition)?,
            token,
        };
        let done = store.join("done");
        if !done.exists() {
            eprintln!("generating scale {}", definition.scale);
            processes.generate(definition)?;
            fs::write(&done, "")?;
        }
        if bounded {
            processes.shares =
                (0..=count).map(|n| Share::new(&format!("workers-{n}"), definition.share)).collect::<Result<_>>()?;
        }
        let workers = if count > 1 { count } else { 0 };
        for number in 1..=workers {
            let port = free_port()?;
            let mut command = processes.command(number, &processes.program);
            command.args(["worker", "--listen", &format!("127.0.0.1:{port}"), "--log", "warn", "--token-file"]);
            command.arg(&processes.token);
            let log = out.join(format!("worker-{number}.log"));
            processes.workers.push((started(&mut command, port, &log)?, port));
        }
        Ok(processes)
    }

    /// Runs a query. Returns the measurement and the workers' CPU seconds.
    pub fn ask(&self, query: &str, definition: &Definition) -> Result<(Measured, f64)> {
        let mut settings = definition.settings.clone();
        let urls: Vec<String> = self.workers.iter().map(|(_, port)| format!("http://127.0.0.1:{port}")).collect();
        settings.insert("workers".to_owned(), urls.join(","));
        let task = RemoteTask {
            kind: Kind::Engine,
            format: DataFormat::Parquet,
            declarations: self.declarations.clone(),
            tables: vec![],
            statement: tpch(query)?.to_owned(),
            settings,
            threads: 1,
            start_ms: None,
            cache: self.out.join("cache-workers"),
            price_books: vec!["paper".to_owned()],
            workers_token: Some(self.token.clone()),
        };
        let mut command = self.command(0, &self.bench);
        command.arg("contestant");
        let before = self.cpu()?;
        let measured = process::ask(command, &Work::Remote(task)).with_context(|| query.to_owned())?;
        Ok((measured, self.cpu()? - before))
    }

    /// CPU seconds of all workers.
    fn cpu(&self) -> Result<f64> {
        self.workers.iter().map(|(worker, _)| worker.cpu()).sum()
    }

    /// A command that reaches the node and runs in the share with this `number`, if there is one.
    fn command(&self, number: usize, program: &str) -> Command {
        let command = self.shares.get(number).map(|share| share.command(program));
        node::with_credentials(command.unwrap_or_else(|| Command::new(program)), &self.address)
    }

    fn generate(&self, definition: &Definition) -> Result<()> {
        let mut command = self.command(usize::MAX, &self.program);
        command.args(["generate", "tpch", "--scale", &definition.scale.to_string(), "--create-bucket"]);
        command.args(["--parts", &definition.parts.to_string(), "--format", "parquet", "--overwrite"]);
        command.args(["--to", &format!("{LOCATION}/")]);
        node::prepare(&mut command, "generating tables")
    }
}

/// The statements that declare the tables.
fn declarations(definition: &Definition) -> Result<String> {
    let place = node::declared("t", LOCATION, None);
    Ok(schema_sql_of(DataSet::Tpch, definition.options(), &[place], 1)?)
}

/// Starts a server and waits until it listens.
fn started(command: &mut Command, port: u16, log: &Path) -> Result<Running> {
    let mut running = node::spawn(command, log)?;
    node::wait(&mut running, port, log)?;
    Ok(running)
}
