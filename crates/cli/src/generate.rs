//! `generate`: benchmark data into a folder or a bucket, with a progress bar.

use std::time::Instant;

use anyhow::Result;
use pushdowndb_contract::{Error, ErrorKind};
use pushdowndb_datagen::{DataSet, Options, generate_over};
use pushdowndb_engine::{Engine, EngineConfig};

use crate::args::Generate;
use crate::interrupt::Interrupts;
use crate::print::units;
use crate::session::connection_config;
use crate::{destination, exit_code, progress};

/// Generates a set of tables. Ctrl-C leaves only complete objects behind.
pub async fn generate(what: Generate) -> Result<()> {
    let (set, args) = match what {
        Generate::Tpch(args) => (DataSet::Tpch, args),
        Generate::Groups(args) => (DataSet::Groups, args),
        Generate::Floats(args) => (DataSet::Floats, args),
    };
    let connection = connection_config(&args.connection);
    let engine = Engine::new(EngineConfig { connection, ..EngineConfig::unrestricted() }).await?;
    let mut destinations = Vec::with_capacity(args.to.len());
    for place in &args.to {
        if args.create_bucket && destination::bucket(place).is_some() {
            engine.create_bucket(place).await?;
        }
        destinations.push(destination::open(place, &engine)?);
    }
    let first = destinations.first().map(|first| (first.url.clone(), first.endpoint.clone()));
    let (place, endpoint) = first.unwrap_or_default();
    let at = endpoint.map(|endpoint| format!("@{endpoint}")).unwrap_or_default();
    let options = Options { scale: args.scale, format: args.format, parts: args.parts, overwrite: args.overwrite };
    let started = Instant::now();
    let bar = progress::bar("{elapsed_precise} {bar:40.cyan/dim} {percent:>3}% {msg}");
    let generated = generate_over(set, options, &destinations, args.replicas, |progress| {
        bar.set_length(progress.rows_expected.max(1));
        bar.set_position(progress.rows.min(progress.rows_expected));
        bar.set_message(format!("{} rows, {}", units::count(progress.rows), units::bytes(progress.bytes)));
    });
    let summary = Interrupts::all()?.during(async { Ok(generated.await?) }).await;
    bar.finish_and_clear();
    engine.settle().await;
    let summary = summary.map_err(|error| {
        match (exit_code::kind(&error), args.to.iter().find_map(|place| destination::bucket(place))) {
            (Some(ErrorKind::NotFound), Some(bucket)) => {
                let message = format!("the bucket s3://{bucket} does not exist; make it, or pass --create-bucket");
                Error::new(ErrorKind::NotFound, message).into()
            }
            _ => error,
        }
    })?;
    let rows = summary.rows.iter().map(|(_, rows)| rows).sum();
    eprintln!(
        "{} rows, {} in {} objects at {}, {}",
        units::count(rows),
        units::bytes(summary.bytes),
        units::count(summary.objects),
        match destinations.len() {
            0 | 1 => place.clone(),
            places => format!("{places} places"),
        },
        units::duration(started.elapsed()),
    );
    eprintln!(
        "next: pushdowndb{} -f {}/schema.sql{at} -c 'SELECT count(*) FROM {}'",
        args.connection.typed(),
        place.trim_end_matches('/'),
        set.tables().last().copied().unwrap_or_default()
    );
    Ok(())
}
