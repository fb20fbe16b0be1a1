//! Measures scans: each round measures every contestant once, so that drift of the machine affects
//! all of them.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use pushdowndb_contract::{BloomFilter, Error, Key};

use super::DEFINITION;
use super::data::{Data, Table};
use super::definition::{Contestant, Definition, Query};
use super::record::{self, Setting};
use super::summary::{Summary, verdicts};
use crate::args::{Common, ScanArgs};
use crate::contestant::answer::Answer;
use crate::contestant::server::Servers;
use crate::contestant::task::{Measured, Task, Work, median_run};
use crate::contestant::{DataFormat, Kind, process};
use crate::journal::{Cell, Entry, Journal, Outcome};
use crate::machine::{self, Machine, first_line};
use crate::programs::{Programs, quoted};
use crate::record::date;
use crate::signals;

/// The number of keys in a Bloom filter, and its rate of false positives.
const KEYS: usize = 65_536;
const FALSE_POSITIVES: f64 = 0.01;

/// The name of the experiment in file names.
const NAME: &str = "scan";

/// Runs the experiment and writes its record.
pub async fn run(args: ScanArgs) -> Result<()> {
    let mut definition = match &args.definition {
        Some(file) => Definition::parse(&std::fs::read_to_string(file).with_context(|| file.display().to_string())?)?,
        None => Definition::parse(DEFINITION)?,
    };
    definition.scale = args.scale.unwrap_or(definition.scale);
    definition.runs = args.common.runs.unwrap_or(definition.runs);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    ensure!(cores >= 2, Error::unsupported("a server and its client need a core each, and this machine has one"));

    let out = args.common.out.clone().unwrap_or_else(|| PathBuf::from("experiment-scan"));
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let out = out.canonicalize()?;
    let mut run = Run::prepare(definition, &args, out)?;
    // A signal ends this future, so that servers are stopped.
    signals::during(run.rounds(&args.common.only)).await?;
    run.finish(args.common.record.as_deref())
}

/// A run of an experiment.
struct Run {
    definition: Definition,
    journal: Journal,
    data: Data,
    servers: Servers,
    programs: Programs,
    out: PathBuf,
    versions: Vec<String>,
    absent: Vec<String>,
    keys: Vec<i64>,
}

impl Run {
    /// Finds the contestants that are installed. Missing ones are left out, which the record
    /// mentions.
    fn prepare(mut definition: Definition, args: &ScanArgs, out: PathBuf) -> Result<Self> {
        let Common { data, program, .. } = &args.common;
        let programs = Programs::find(program.as_deref(), &out)?;
        let minio = args.minio.clone().or_else(cached_minio);
        let mut versions = vec![format!("pushdowndb {}", env!("CARGO_PKG_VERSION"))];
        let mut absent = Vec::new();
        definition.contestants.retain(|contestant| {
            let version = match contestant.kind {
                Kind::Node | Kind::Library | Kind::Engine | Kind::Inflate => return true,
                Kind::Datafusion => Some(format!("DataFusion {}", datafusion::DATAFUSION_VERSION)),
                Kind::Duckdb => programs.python_version("duckdb"),
                Kind::Polars => programs.python_version("polars"),
                Kind::Minio => minio.as_ref().and_then(|path| first_line(&format!("{} --version", quoted(path)))),
                Kind::Command => contestant.version.as_deref().and_then(first_line),
            };
            let present = version.is_some();
            match version {
                Some(version) => versions.push(version),
                None => absent.push(why_absent(contestant)),
            }
            present
        });
        for line in &absent {
            eprintln!("left out: {line}");
        }
        let path = out.join(format!("{NAME}.ndjson"));
        let journal = Journal::open(&path, NAME, definition.scale, &programs.build)?;
        let data = Data(data.clone().unwrap_or_else(|| out.join("data")));
        let servers = Servers::new(programs.measured.clone(), minio, out.join("servers"))?;
        // Keys of orders that exist from scale 0.35 on.
        let keys = (0..KEYS as i64).map(|n| 32 * n + 1).collect();
        Ok(Self { definition, journal, data, servers, programs, out, versions, absent, keys })
    }

    async fn rounds(&mut self, only: &[String]) -> Result<()> {
        let definition = self.definition.clone();
        let cells: Vec<(Cell, &Query, &Contestant, String)> = cells(&definition)
            .filter(|(cell, ..)| {
                let names = [cell.format.to_string(), cell.query.clone(), cell.contestant.clone()];
                only.iter().all(|group| group.split(',').any(|name| names.iter().any(|other| other == name)))
            })
            .collect();
        ensure!(!cells.is_empty(), Error::invalid("--only leaves nothing to measure"));
        let total = cells.len() * definition.runs as usize;
        let mut done = 0;
        for round in 0..definition.runs {
            for (cell, query, contestant, statement) in &cells {
                done += 1;
                if self.journal.has(cell, round) {
                    continue;
                }
                let what = format!("{}, {}, {}", cell.format, cell.query, cell.contestant);
                let scale = definition.scale * query.scale.get(&contestant.name).copied().unwrap_or(1.0);
                let table = self.data.lineitem(cell.format, scale).await?;
                let result = match self.measure(contestant, cell.format, &table, statement, scale).await {
                    Ok(measured) => {
                        let speed = table.bytes as f64 / 1e6 / measured.wall_s;
                        eprintln!("{done}/{total} {what}: {:.3} s CPU, {speed:.0} MB/s", measured.cpu_s);
                        Outcome::Measured(measured)
                    }
                    Err(error) => {
                        eprintln!("{done}/{total} {what}: {error:#}");
                        Outcome::Failed(format!("{error:#}"))
                    }
                };
                self.journal.add(Entry { cell: cell.clone(), round, bytes: table.bytes, result, measured_as: None })?;
            }
        }
        Ok(())
    }

    async fn measure(
        &mut self,
        contestant: &Contestant,
        format: DataFormat,
        table: &Table,
        statement: &str,
        scale: f64,
    ) -> Result<Measured> {
        if contestant.kind.is_server() {
            let key = format!("lineitem-{scale}.{format}");
            self.servers.store(contestant.kind, &table.file, &key).await?;
            let server = self.servers.start(contestant.kind, contestant.cores).await?;
            let statement = self.filled_in(statement)?;
            return median_run(contestant.asks, || server.select(&statement, format, &key)).await;
        }
        machine::warm(&table.file)?;
        if contestant.kind == Kind::Command {
            return command(statement, &table.file, contestant.cores);
        }
        let task = Task {
            kind: contestant.kind,
            format,
            file: table.file.clone(),
            statement: self.filled_in(statement)?,
            threads: contestant.cores,
            runs: contestant.asks,
            keys: self.keys.clone(),
        };
        self.in_a_process(contestant, &task)
    }

    /// Runs the task in a process of its own.
    fn in_a_process(&self, contestant: &Contestant, task: &Task) -> Result<Measured> {
        let (program, arguments): (&Path, &[&OsStr]) = match contestant.kind {
            Kind::Duckdb | Kind::Polars => (Path::new("python3"), &[self.programs.peers.as_os_str()]),
            _ => (&self.programs.own, &[OsStr::new("contestant")]),
        };
        let mut command = process::pinned(program, contestant.cores);
        command.args(arguments);
        process::ask(command, &Work::Local(task.clone()))
    }

    /// Replaces the placeholders for Bloom filters in a statement.
    fn filled_in(&self, statement: &str) -> Result<String> {
        let mut statement = statement.to_owned();
        if statement.contains("{bloom}") {
            let mut filter = BloomFilter::with_capacity(self.keys.len(), FALSE_POSITIVES);
            for key in &self.keys {
                filter.insert(Key::Int(*key));
            }
            statement = statement
                .replace("{bloom}", &base64::Engine::encode(&base64::prelude::BASE64_STANDARD, filter.to_bytes()));
        }
        if statement.contains("{bits}") {
            // The hash function is the one in the statement.
            let mut bits = vec![b'0'; KEYS];
            for key in &self.keys {
                if let Some(bit) = bits.get_mut(usize::try_from((key * 40_503 + 7) % 65_521)?) {
                    *bit = b'1';
                }
            }
            statement = statement.replace("{bits}", &String::from_utf8(bits)?);
        }
        Ok(statement)
    }

    /// Writes and prints the record. Fails on wrong answers, and on failures of PushdownDB.
    fn finish(self, record: Option<&Path>) -> Result<()> {
        let summary = Summary::of(&self.definition, self.journal.entries());
        let verdicts = verdicts(&self.definition, &summary);
        let now = std::time::SystemTime::now();
        let machine = Machine::here();
        let stem = format!("{}-{}-{NAME}", date(now, "%F"), machine.slug());
        let setting = Setting {
            machine,
            date: date(now, "%F"),
            versions: self.versions,
            absent: self.absent,
            scale: self.definition.scale,
        };
        let markdown = record::markdown(&self.definition, &setting, &summary, &verdicts);
        let folder = record.unwrap_or(&self.out);
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let file = folder.join(format!("{stem}.csv"));
        std::fs::write(&file, record::csv(&self.definition, &setting, &summary, &verdicts))?;
        writeln!(std::io::stdout().lock(), "{}", markdown.trim_end())?;
        eprintln!("\nwritten to {}", file.display());
        ensure!(summary.wrong.is_empty(), Error::internal(format!("wrong answers: {}", summary.wrong.join("; "))));
        let ours =
            self.definition.contestants.iter().filter(|contestant| {
                matches!(contestant.kind, Kind::Node | Kind::Library | Kind::Engine | Kind::Inflate)
            });
        let ours: Vec<&str> = ours.map(|contestant| contestant.name.as_str()).collect();
        if let Some((cell, why)) = summary.failures.iter().find(|(cell, _)| ours.contains(&cell.contestant.as_str())) {
            bail!(Error::internal(format!("{}, {}, {} failed: {why}", cell.format, cell.query, cell.contestant)));
        }
        Ok(())
    }
}

/// Returns all cells in order, with their queries.
fn cells(definition: &Definition) -> impl Iterator<Item = (Cell, &Query, &Contestant, String)> {
    definition.formats.iter().flat_map(move |format| {
        definition.queries.iter().flat_map(move |query| {
            definition.contestants.iter().filter_map(move |contestant| {
                let statement = query.statement(contestant, *format)?.to_owned();
                let cell = Cell { format: *format, query: query.name.clone(), contestant: contestant.name.clone() };
                Some((cell, query, contestant, statement))
            })
        })
    })
}

/// Runs a shell command over the file. Its time includes the start of the process, about a
/// millisecond.
fn command(statement: &str, file: &Path, cores: usize) -> Result<Measured> {
    let (cpu, wall) = (process::cpu_of_ended()?, Instant::now());
    let mut child = process::pinned("sh", cores);
    child.arg("-c").arg(statement).arg(file).stdin(Stdio::null());
    let output = child.output()?;
    let (cpu_s, wall_s) = (process::cpu_of_ended()? - cpu, wall.elapsed().as_secs_f64());
    if !output.status.success() {
        bail!("{}", process::why_failed(&output));
    }
    Ok(Measured { cpu_s, wall_s, peak_bytes: None, answer: Answer::of_csv(&output.stdout)?, traffic: None })
}

fn why_absent(contestant: &Contestant) -> String {
    let name = &contestant.name;
    match contestant.kind {
        Kind::Minio => format!("{name}: give its binary with --minio, or build one with .ci/minio"),
        Kind::Duckdb | Kind::Polars => format!("{name}: python3 cannot import it; pip install {name} pyarrow"),
        _ => format!("{name}: `{}` does not run", contestant.version.as_deref().unwrap_or_default()),
    }
}

/// The MinIO binary that `.ci/minio` builds.
fn cached_minio() -> Option<PathBuf> {
    let folder = std::env::var_os("PUSHDOWNDB_CACHE")
        .map(PathBuf::from)
        .or_else(|| Some(dirs::home_dir()?.join(".cache/pushdowndb")))?;
    Some(folder.join("bin/minio")).filter(|path| path.exists())
}
