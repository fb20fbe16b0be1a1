//! `spill`: measures sorts, an aggregate and a join with less memory than data, compared with
//! Databend's former implementation and its published figures, DataFusion and DuckDB.
//!
//! All contestants but DuckDB are DataFusion with the same scans, threads and memory pool; they
//! differ in the operators that spill.
//!
//! ```text
//! queries      the queries and their memory
//! data         the tables
//! place        where spilled data goes
//! counted      a client of an object store that counts
//! before       the sort that Databend had: a block is spilled as it comes, and found by LIST
//! operators    the operators of a contestant in a plan
//! contestants  runs a query by a contestant
//! duckdb       DuckDB, in a process of its own
//! threads      a runtime with a number of threads
//! answer       whether contestants agree
//! measure      what is measured, and on what
//! results      medians, wrong answers
//! report       tables and the record
//! ```

mod answer;
mod before;
mod contestants;
mod counted;
mod data;
mod duckdb;
mod measure;
mod operators;
mod place;
mod queries;
mod report;
mod results;
mod threads;

use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};

use self::contestants::Contestant;
use self::measure::Work;
use self::place::Place;
use self::queries::{QUERIES, Query, SEED_MEMORY_BYTES};
use self::report::Setting;
use self::results::{Cell, Results};
use crate::args::SpillArgs;
use crate::machine::{self, Machine};
use crate::record::date;
use crate::signals;

/// The size of an uploaded part: the default of [`pushdowndb_spill::files::QueryOptions`].
const PART_BYTES: f64 = 8_388_608.0;

/// The size of a block of the sort by blocks: Databend needed 965 operations for 2.9 GiB.
const BLOCK_BYTES: f64 = 3e6;

/// The memory of the query `seed` at scale 10, relative to which a model scales its sizes.
const MODELED_MEMORY_BYTES: f64 = 10.0 * SEED_MEMORY_BYTES as f64;

/// Runs the measurements, prints tables, and writes the record.
pub async fn run(args: SpillArgs) -> Result<()> {
    let place = Place::parse(&args.to)?;
    place.ensure_empty().await?;
    fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let out = std::path::absolute(&args.out)?;
    let (mut absent, mut versions) = (Vec::new(), versions());
    let contestants: Vec<Contestant> = Contestant::ALL
        .into_iter()
        .filter(|contestant| *contestant != Contestant::DuckDb || has_duckdb(&place, &mut absent, &mut versions))
        .collect();
    let mut results = Results { cells: cells(&args, &contestants) };
    ensure!(!results.cells.is_empty(), "--only leaves nothing to measure");
    let tables = data::tables(&args.data.clone().unwrap_or_else(|| out.join("data")), args.scale).await?;
    for table in data::TABLES {
        machine::warm(&tables.join(table))?;
    }
    let measuring = measure(&args, &place, &out, &tables, &mut results);
    signals::during(measuring).await?;
    let setting = Setting {
        machine: Machine::here(),
        date: date(SystemTime::now(), "%F"),
        versions,
        scale: args.scale,
        threads: usize::from(args.threads),
        place: args.to.clone(),
        absent,
    };
    print!("{}", report::tables(&setting, &results, args.markdown));
    let record = args.record.clone().unwrap_or(out);
    fs::create_dir_all(&record).with_context(|| record.display().to_string())?;
    let record = record.join(format!("spill-{}.csv", place.name()));
    fs::write(&record, report::csv(&setting, &results)).with_context(|| record.display().to_string())?;
    eprintln!("written to {}", record.display());
    let wrong = results.wrong();
    ensure!(wrong.is_empty(), "wrong answers: {}", wrong.join("; "));
    Ok(())
}

/// Whether DuckDB can be measured. If not, the reason is added to `absent`.
fn has_duckdb(place: &Place, absent: &mut Vec<String>, versions: &mut Vec<String>) -> bool {
    if !matches!(place, Place::Disk) {
        absent.push("duckdb, which spills to disk alone".to_owned());
        return false;
    }
    match duckdb::version() {
        Ok(version) => versions.push(format!("DuckDB {version}")),
        Err(error) => absent.push(format!("duckdb, which needs Python with duckdb, numpy and pyarrow: {error:#}")),
    }
    absent.is_empty()
}

fn versions() -> Vec<String> {
    let own = concat!("pushdowndb ", env!("CARGO_PKG_VERSION")).to_owned();
    vec![own, format!("DataFusion {}", datafusion::DATAFUSION_VERSION)]
}

/// The cells to measure.
fn cells(args: &SpillArgs, contestants: &[Contestant]) -> Vec<Cell> {
    let factor = args.memory.map_or(args.scale, |memory| memory as f64 / SEED_MEMORY_BYTES as f64);
    let is_wanted = |query: &Query, contestant: &Contestant| {
        let names = [query.name, contestant.name()];
        contestant.takes(query.operator)
            && args.only.iter().all(|group| group.split(',').any(|name| names.contains(&name)))
    };
    let cell = |query: Query, contestant| {
        let memory = (query.memory_bytes as f64 * factor).round() as u64;
        Cell { query, memory, contestant, runs: Vec::new(), failed: None }
    };
    let all = QUERIES.iter().flat_map(|query| contestants.iter().map(move |contestant| (*query, *contestant)));
    all.filter(|(query, contestant)| is_wanted(query, contestant))
        .map(|(query, contestant)| cell(query, contestant))
        .collect()
}

/// Measures every cell, in rounds, so that drift of the machine affects all contestants.
async fn measure(
    args: &SpillArgs,
    place: &Place,
    out: &std::path::Path,
    tables: &std::path::Path,
    results: &mut Results,
) -> Result<()> {
    let (total, mut done) = (results.cells.len() * args.runs as usize, 0);
    for _ in 0..args.runs {
        for cell in &mut results.cells {
            done += 1;
            let seed_memory = cell.memory as f64 / cell.query.memory_bytes as f64 * SEED_MEMORY_BYTES as f64;
            let model = if args.model { (seed_memory / MODELED_MEMORY_BYTES).min(1.0) } else { 1.0 };
            let work = Work {
                query: cell.query,
                memory: cell.memory,
                threads: usize::from(args.threads),
                tables: tables.to_owned(),
                place: place.clone(),
                disk: PathBuf::from(out).join("spilled"),
                part_bytes: (PART_BYTES * model) as usize,
                block_bytes: (BLOCK_BYTES * model) as usize,
                fan_in: usize::try_from(args.fan_in)?,
            };
            let (contestant, what) = (cell.contestant, format!("{}, {}", cell.query.name, cell.contestant.name()));
            let result = tokio::task::spawn_blocking(move || contestant.run(&work)).await?;
            match result {
                Ok(measured) => {
                    eprintln!("{done}/{total} {what}: {:.2} s, {:.2} s CPU", measured.wall_s, measured.cpu_s);
                    cell.runs.push(measured);
                }
                Err(error) => {
                    eprintln!("{done}/{total} {what}: {error:#}");
                    cell.failed = Some(format!("{error:#}"));
                }
            }
        }
    }
    if results.cells.iter().all(|cell| cell.runs.is_empty()) {
        bail!("nothing could be measured");
    }
    Ok(())
}
