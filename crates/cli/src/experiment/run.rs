//! Measuring cell after cell: in each round every contestant once, so that a drift of the machine hits all of them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use pushdown::{BloomFilter, Error, Key};

use super::answer::Answer;
use super::args::ScanArgs;
use super::data::{self, Data, Table};
use super::definition::{Contestant, DataFormat, Definition, Kind, Query};
use super::journal::{Cell, Entry, Journal, Outcome};
use super::machine::{Machine, first_line};
use super::record::{self, Setting, date};
use super::server::Servers;
use super::summary::{Summary, verdicts};
use super::task::{Measured, Task, Work, asked};
use super::{PEERS, PLOT, process};
use crate::interrupt::Interrupts;
use crate::print;

/// How many keys a Bloom filter is built of, and the share of false positives.
const KEYS: usize = 65_536;
const FALSE_POSITIVES: f64 = 0.01;

/// Runs the experiment `name` and writes its record.
pub async fn run(name: &str, definition: &str, args: ScanArgs) -> Result<()> {
    let mut definition = match &args.definition {
        Some(file) => Definition::parse(&std::fs::read_to_string(file).with_context(|| file.display().to_string())?)?,
        None => Definition::parse(definition)?,
    };
    definition.scale = args.scale.unwrap_or(definition.scale);
    definition.runs = args.runs.unwrap_or(definition.runs);
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    ensure!(cores >= 2, Error::unsupported("a server and its client need a core each, and this machine has one"));

    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("experiment-{name}")));
    std::fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let out = out.canonicalize()?;
    let mut run = Run::prepare(name, definition, &args, out).await?;
    // Servers are stopped on the way out.
    Interrupts::all()?.during(run.rounds(&args.only)).await?;
    run.finish(name, args.record.as_deref())
}

/// A run of an experiment.
struct Run {
    definition: Definition,
    journal: Journal,
    data: Data,
    servers: Servers,
    peers: PathBuf,
    binary: PathBuf,
    out: PathBuf,
    versions: Vec<String>,
    absent: Vec<String>,
    keys: Vec<i64>,
}

impl Run {
    /// Finds out who is there; contestants that are not are left out, and said to be.
    async fn prepare(name: &str, mut definition: Definition, args: &ScanArgs, out: PathBuf) -> Result<Self> {
        let binary = std::env::current_exe()?;
        let peers = out.join("peers.py");
        std::fs::write(&peers, PEERS)?;
        let minio = args.minio.clone().or_else(cached_minio);
        let mut versions = vec![format!("pushdowndb {}", env!("CARGO_PKG_VERSION"))];
        let mut absent = Vec::new();
        let shell = |path: &Path| format!("'{}'", path.display().to_string().replace('\'', "'\\''"));
        let python = first_line(&format!("python3 {} versions | tr '\\n' ' '", shell(&peers))).unwrap_or_default();
        definition.contestants.retain(|contestant| {
            let version = match contestant.kind {
                Kind::Node | Kind::Library | Kind::Engine | Kind::Inflate => return true,
                Kind::Datafusion => Some(format!("DataFusion {}", datafusion::DATAFUSION_VERSION)),
                Kind::Duckdb => version_in(&python, "duckdb"),
                Kind::Polars => version_in(&python, "polars"),
                Kind::Minio => minio.as_ref().and_then(|path| first_line(&format!("{} --version", shell(path)))),
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
        let build = build_of(&binary)?;
        let journal = Journal::open(&out.join(format!("{name}.ndjson")), name, definition.scale, &build)?;
        let data = Data(args.data.clone().unwrap_or_else(|| out.join("data")));
        let servers = Servers::new(binary.clone(), minio, out.join("servers"))?;
        // Keys of orders that exist from scale 0.35 on.
        let keys = (0..KEYS as i64).map(|n| 32 * n + 1).collect();
        Ok(Self { definition, journal, data, servers, peers, binary, out, versions, absent, keys })
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
            return asked(contestant.asks, || server.select(&statement, format, &key)).await;
        }
        data::warm(&table.file)?;
        if contestant.kind == Kind::Command {
            return command(statement, &table.file, contestant.cores);
        }
        let task = Task {
            kind: contestant.kind,
            format,
            file: table.file.clone(),
            statement: self.filled_in(statement)?,
            threads: contestant.cores,
            asks: contestant.asks,
            keys: self.keys.clone(),
        };
        self.in_a_process(contestant, &task)
    }

    /// Runs the task in a process of its own.
    fn in_a_process(&self, contestant: &Contestant, task: &Task) -> Result<Measured> {
        let (program, arguments): (&Path, &[&OsStr]) = match contestant.kind {
            Kind::Duckdb | Kind::Polars => (Path::new("python3"), &[self.peers.as_os_str()]),
            _ => (&self.binary, &[OsStr::new("experiment"), OsStr::new("contestant")]),
        };
        let mut command = process::pinned(program, contestant.cores);
        command.args(arguments);
        process::ask(command, &Work::Local(task.clone()))
    }

    /// The statement with its Bloom filters.
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
            // The hash is the one in the statement.
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

    /// Writes the record and prints it. Wrong answers, and contestants of ours that failed, fail the run.
    fn finish(self, name: &str, record: Option<&Path>) -> Result<()> {
        let summary = Summary::of(&self.definition, self.journal.entries());
        let verdicts = verdicts(&self.definition, &summary);
        let now = std::time::SystemTime::now();
        let machine = Machine::here();
        let stem = format!("{}-{}-{name}", date(now, "%F"), machine.slug());
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
        std::fs::write(folder.join(format!("{stem}.csv")), record::csv(&summary))?;
        std::fs::write(folder.join(format!("{stem}.md")), &markdown)?;
        plot(&folder.join(format!("{stem}.csv")), &folder.join(format!("{stem}.svg")));
        print::say(markdown.trim_end())?;
        eprintln!("\nwritten to {}", folder.join(format!("{stem}.md")).display());
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

/// All cells in the order they are measured, with what is asked in each.
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

/// A command of the shell over the file. Only here the start of the process counts: a millisecond.
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

/// Which build of ours is measured.
pub fn build_of(binary: &Path) -> Result<String> {
    Ok(binary.metadata().and_then(|meta| meta.modified()).map(|time| format!("built {}", date(time, "%FT%T")))?)
}

/// A picture of the figures; a record is as good without it.
pub fn plot(csv: &Path, svg: &Path) {
    let mut python = Command::new("python3");
    python.arg("-c").arg(PLOT).arg(csv).arg(svg).stdin(Stdio::null());
    let why = match python.output() {
        Ok(output) if output.status.success() => return,
        Ok(output) => String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or_default().to_owned(),
        Err(error) => error.to_string(),
    };
    eprintln!("no picture, which needs Python with matplotlib: {why}");
}

/// `name VERSION` among the words that `peers.py versions` prints.
fn version_in(words: &str, name: &str) -> Option<String> {
    let mut words = words.split_whitespace();
    words.find(|word| *word == name)?;
    Some(format!("{name} {}", words.next()?))
}

fn why_absent(contestant: &Contestant) -> String {
    let name = &contestant.name;
    match contestant.kind {
        Kind::Minio => format!("{name}: give its binary with --minio, or build one with .ci/minio"),
        Kind::Duckdb | Kind::Polars => format!("{name}: python3 cannot import it; pip install {name} pyarrow"),
        _ => format!("{name}: `{}` does not run", contestant.version.as_deref().unwrap_or_default()),
    }
}

/// The MinIO that `.ci/minio` builds.
fn cached_minio() -> Option<PathBuf> {
    let folder = std::env::var_os("PUSHDOWNDB_CACHE")
        .map(PathBuf::from)
        .or_else(|| Some(dirs::home_dir()?.join(".cache/pushdowndb")))?;
    Some(folder.join("bin/minio")).filter(|path| path.exists())
}
