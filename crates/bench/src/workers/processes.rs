//! The node with the tables, the workers, and the process that plans.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use object_store::memory::InMemory;
use pushdowndb_datagen::{DataSet, Destination, schema_sql_of};

use super::definition::Definition;
use super::share::Share;
use crate::contestant::process::{self, Running, listens};
use crate::contestant::task::{Measured, RemoteTask, Work};
use crate::contestant::{DataFormat, Kind};
use crate::programs::Programs;
use crate::queries::tpch;

const KEY_ID: &str = "experiment-key";
const SECRET: &str = "experiment-secret-key";
const LOCATION: &str = "s3://data/t";

/// A server must listen within this time.
const START: Duration = Duration::from_secs(60);

/// The processes of one number of workers.
pub struct Processes {
    // Ended in this order.
    workers: Vec<(Running, u16)>,
    _node: Running,
    shares: Vec<Share>,
    program: String,
    bench: String,
    out: PathBuf,
    endpoint: String,
    declarations: String,
    token: PathBuf,
}

impl Processes {
    /// Starts a node over the tables in `data`, which are made if they are not there, and as many
    /// workers as `count`; none for one process. Without `bounded`, all take what they can.
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
        let endpoint = format!("http://127.0.0.1:{port}");
        let mut serve = Command::new(&program);
        serve.arg("serve").arg("--store").arg(store.join("store"));
        serve.args(["--listen", &format!("127.0.0.1:{port}"), "--log", "warn", "--scrub-rate", "0"]);
        serve.env("PUSHDOWNDB_ACCESS_KEY_ID", KEY_ID).env("PUSHDOWNDB_SECRET_ACCESS_KEY", SECRET);
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
            endpoint,
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

    /// Runs a query, and returns what was measured and the workers' CPU seconds.
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

    /// A command with the share `number`, if there are shares, that reaches the node.
    fn command(&self, number: usize, program: &str) -> Command {
        let command = self.shares.get(number).map(|share| share.command(program));
        let mut command = command.unwrap_or_else(|| Command::new(program));
        for (name, value) in [
            ("AWS_ACCESS_KEY_ID", KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ENDPOINT_URL", &self.endpoint),
        ] {
            command.env(name, value);
        }
        command
    }

    fn generate(&self, definition: &Definition) -> Result<()> {
        let mut command = self.command(usize::MAX, &self.program);
        command.args(["generate", "tpch", "--scale", &definition.scale.to_string(), "--create-bucket"]);
        command.args(["--parts", &definition.parts.to_string(), "--format", "parquet", "--overwrite"]);
        command.args(["--to", &format!("{LOCATION}/")]);
        let output = command.stdin(Stdio::null()).output().context("making tables")?;
        ensure!(output.status.success(), "making tables: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }
}

/// The statements that declare the tables.
fn declarations(definition: &Definition) -> Result<String> {
    // The store is not used.
    let place =
        Destination { store: Arc::new(InMemory::new()), prefix: "t".into(), url: LOCATION.to_owned(), endpoint: None };
    Ok(schema_sql_of(DataSet::Tpch, definition.options(), &[place], 1)?)
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Starts a server and waits until it listens.
fn started(command: &mut Command, port: u16, log: &Path) -> Result<Running> {
    let file = File::create(log).with_context(|| log.display().to_string())?;
    let mut running = Running::spawn(command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file))?;
    let began = Instant::now();
    while !listens(running.id(), port) {
        if running.has_ended() || began.elapsed() > START {
            bail!("a server does not listen: see {}", log.display());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(running)
}
