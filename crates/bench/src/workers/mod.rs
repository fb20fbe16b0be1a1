//! `workers`: whole queries on one process and on several workers, each with a share of a core.
//!
//! ```text
//! definition   queries, numbers of workers and shares, as data
//! share        control groups that bound CPU time
//! processes    the node with the tables, the workers, the process that plans
//! results      the record, and a table of it
//! ```

mod definition;
mod processes;
mod results;
mod share;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use pushdowndb_contract::Error;

use self::definition::Definition;
use self::processes::Processes;
use self::results::Results;
use crate::args::WorkersArgs;
use crate::machine::Machine;
use crate::programs::Programs;
use crate::record::write_csv;
use crate::signals;

/// Runs the measurements and writes the record.
pub async fn run(args: WorkersArgs) -> Result<()> {
    let mut definition = Definition::parse(include_str!("../../../../experiments/workers.toml"))?;
    definition.scale = args.scale.unwrap_or(definition.scale);
    definition.runs = args.common.runs.unwrap_or(definition.runs);
    let out = args.common.out.clone().unwrap_or_else(|| PathBuf::from("experiments-out"));
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let out = out.canonicalize()?;
    let programs = Programs::find(args.common.program.as_deref(), &out)?;
    let data = args.common.data.clone().unwrap_or_else(|| out.join("workers"));
    let mut results = Results::default();
    let measuring = async {
        for count in &definition.workers {
            let name = count.to_string();
            let queries: Vec<&String> =
                definition.queries.iter().filter(|query| args.common.takes(&[query, &name])).collect();
            if queries.is_empty() {
                continue;
            }
            let processes = Processes::start(&programs, &definition, *count, !args.no_shares, (&out, &data))?;
            for round in 0..=definition.runs {
                for query in &queries {
                    let (measured, workers_cpu_s) = processes.ask(query, &definition)?;
                    // The first run only warms up: it reads footers and statistics.
                    if round > 0 {
                        eprintln!("{query} on {count}, run {round}: {:.2} s", measured.wall_s);
                        results.add(*count, query, measured, workers_cpu_s);
                    }
                }
            }
        }
        anyhow::Ok(())
    };
    signals::during(measuring).await?;
    ensure!(!results.is_empty(), Error::invalid("--only leaves nothing to measure"));
    let machine = Machine::here();
    let share = match args.no_shares {
        true => "all processes share the machine".to_owned(),
        false => format!("{} of a core for each process, the node has the rest", definition.share),
    };
    let about = format!("{machine}; {}; scale {}; {share}", programs.build, definition.scale);
    print!("{}", results.table());
    write_csv(&args.common.record.clone().unwrap_or(out), &machine, "workers", &results.csv(&about))?;
    let wrong = results.wrong();
    ensure!(wrong.is_empty(), "wrong answers: {}", wrong.join("; "));
    Ok(())
}
