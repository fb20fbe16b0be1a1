//! `disks`: a table over several nodes, each with a disk of a bounded rate, behind one bus.
//!
//! The figures of Active Disks: the engine reads everything over the bus (traditional), or the nodes
//! filter, aggregate and look keys up beside their disks (active).
//!
//! ```text
//! definition   queries, series, rates and the paper's figures, as data
//! nodes        nodes with bounded disks, and tables over them
//! results      measurements, the record, and tables of them
//! simulation   what more nodes would do, by the rates of a record
//! ```

mod definition;
mod nodes;
mod results;
mod simulation;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use pushdowndb_contract::Error;

use self::definition::{Definition, Disks};
use self::nodes::Nodes;
use self::results::{Cell, Results};
use crate::args::DisksArgs;
use crate::link::Link;
use crate::machine::Machine;
use crate::programs::Programs;
use crate::record::write_csv;
use crate::signals;

/// Runs the measurements and writes their record, or simulates more nodes from a record.
pub async fn run(args: DisksArgs) -> Result<()> {
    let mut definition = Definition::parse(include_str!("../../../../experiments/disks.toml"))?;
    if let Some(record) = &args.simulate {
        let text = fs::read_to_string(record).with_context(|| record.display().to_string())?;
        print!("{}", simulation::tables(&Results::read(&text).with_context(|| record.display().to_string())?)?);
        return Ok(());
    }
    definition.scale = args.scale.unwrap_or(definition.scale);
    definition.runs = args.common.runs.unwrap_or(definition.runs);
    let out = args.common.out.clone().unwrap_or_else(|| PathBuf::from("experiments-out"));
    fs::create_dir_all(&out).with_context(|| out.display().to_string())?;
    let out = out.canonicalize()?;
    let programs = Programs::find(args.common.program.as_deref(), &out)?;
    if !args.loopback
        && let Some(why) = Link::missing()
    {
        return Err(Error::unsupported(format!("{why}; --loopback measures without a bus")).into());
    }
    let data = args.common.data.clone().unwrap_or_else(|| out.join("disks"));
    let only = |names: &[&str]| args.common.takes(names);
    let mut results = Results::default();
    let measuring = async {
        for disks in definition.disks() {
            if only(&[disks.name.as_str()]) || definition.queries.iter().any(|query| only(&[&query.name, &disks.name]))
            {
                measure(&definition, &disks, &args, &programs, (&out, &data), &only, &mut results)?;
            }
        }
        anyhow::Ok(())
    };
    signals::during(measuring).await?;
    ensure!(!results.cells.is_empty(), Error::invalid("--only leaves nothing to measure"));
    let machine = Machine::here();
    let about = format!(
        "{machine}; {}; scale {}, {} MB/s a disk, {} MB/s for the bus",
        programs.build,
        definition.scale,
        definition.disk_mb_per_s,
        if args.loopback { 0 } else { definition.bus_mb_per_s },
    );
    print!("{}", results.tables(&definition));
    write_csv(&args.common.record.clone().unwrap_or(out), &machine, "disks", &results.csv(&about))?;
    let wrong = results.wrong();
    ensure!(wrong.is_empty(), "wrong answers: {}", wrong.join("; "));
    Ok(())
}

/// Measures every query by every series over `disks`, in rounds.
fn measure(
    definition: &Definition,
    disks: &Disks,
    args: &DisksArgs,
    programs: &Programs,
    (out, data): (&Path, &Path),
    only: &dyn Fn(&[&str]) -> bool,
    results: &mut Results,
) -> Result<()> {
    let link = if args.loopback { Link::loopback()? } else { Link::up()? };
    let nodes = Nodes::start(link, programs, disks, definition, out, data)?;
    // Plans all queries first, so that learning about tables and nodes is not measured.
    for query in &definition.queries {
        nodes.explain(query)?;
    }
    nodes.shape(if args.loopback { 0 } else { definition.bus_mb_per_s })?;
    for round in 0..definition.runs {
        for query in &definition.queries {
            for series in &definition.series {
                if !only(&[&query.name, &series.name, &disks.name]) {
                    continue;
                }
                let measured = nodes.ask(query, series)?;
                eprintln!(
                    "{}, {}, {}, run {}: {:.2} s, {:.2} s CPU",
                    disks.name,
                    query.name,
                    series.name,
                    round + 1,
                    measured.wall_s,
                    measured.cpu_s
                );
                let cell = Cell {
                    disks: disks.name.clone(),
                    nodes: disks.rates.len(),
                    query: query.name.clone(),
                    series: series.name.clone(),
                };
                results.add(cell, measured);
            }
        }
    }
    Ok(())
}
