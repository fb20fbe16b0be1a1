//! Contestants in this program over tables in a bucket: the engine with its settings, and plain
//! DataFusion.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use arrow::array::AsArray;
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions};
use pushdowndb_cluster::{Token, Workers};
use pushdowndb_cost::PriceBook;
use pushdowndb_engine::stages::Cluster;
use pushdowndb_engine::{Engine, EngineConfig, Report};

use super::answer::Answer;
use super::kind::{DataFormat, Kind};
use super::measure::measured;
use super::plain;
use super::task::{Measured, RemoteTask, Traffic};

/// Runs the task. The declaration of the tables is not measured, but finding their objects and
/// footers is.
pub async fn run(task: &RemoteTask) -> Result<Measured> {
    match task.kind {
        Kind::Engine => engine(task).await,
        Kind::Datafusion => datafusion(task).await,
        other => bail!("{other:?} does not run in this program"),
    }
}

/// Creates the engine with the settings and tables of the task.
async fn engine_of(task: &RemoteTask) -> Result<Engine> {
    let named = task.settings.iter().map(|(name, value)| (format!("pushdown.{name}"), value.clone()));
    let settings = std::iter::once(("pushdown.threads".to_owned(), task.threads.to_string())).chain(named).collect();
    let cache = Some(task.cache.clone());
    let cluster = task.workers_token.as_deref().map(workers).transpose()?;
    let engine = Engine::new(EngineConfig { settings, cache, cluster, ..EngineConfig::unrestricted() }).await?;
    for statement in engine.parse(&task.declarations)? {
        engine.run(&statement, |_| ()).await?.collect().await?;
    }
    Ok(engine)
}

/// Connects to the workers that accept the token in `file`.
fn workers(file: &Path) -> Result<Arc<dyn Cluster>> {
    Ok(Arc::new(Workers::new(Token::from_file(file)?, None)?))
}

/// Returns the plan of the last statement in a form that is equal for settings with the same
/// execution: without estimates, and with only those settings that matter at run time.
pub async fn plan(task: &RemoteTask) -> Result<String> {
    let engine = engine_of(task).await?;
    let statements = engine.parse(&task.statement)?;
    let (last, before) = statements.split_last().context("no statement")?;
    for statement in before {
        engine.run(statement, |_| ()).await?.collect().await?;
    }
    let explained = engine.execute(&format!("EXPLAIN {}", last.text)).await?.collect().await?;
    let settings = task.settings.iter().filter(|(name, _)| !STRATEGIES.contains(&name.as_str()));
    let mut canonical = format!("{settings:?}", settings = settings.collect::<Vec<_>>());
    for batch in &explained {
        let (kinds, plans) = (batch.column(0).as_string::<i32>(), batch.column(1).as_string::<i32>());
        for (_, plan) in kinds.iter().zip(plans).filter(|(kind, _)| *kind == Some("physical_plan")) {
            plan.into_iter().flat_map(str::lines).for_each(|line| canonical.extend(["\n", without_choices(line)]));
        }
    }
    Ok(canonical)
}

/// Settings that have no effect once a plan exists.
const STRATEGIES: [&str; 6] = ["level", "filter", "aggregate", "join", "group_by", "top_k"];

/// Removes the reasons for the choices, which come last, from the line of an operator.
fn without_choices(line: &str) -> &str {
    let choices = STRATEGIES.iter().flat_map(|operator| line.find(&format!(", {operator}=")));
    // The level is part of the description of a scan, not a choice.
    let choices = choices.filter(|at| !line.get(*at..).is_some_and(|rest| rest.starts_with(", level=")));
    line.get(..choices.min().unwrap_or(line.len())).unwrap_or(line)
}

async fn engine(task: &RemoteTask) -> Result<Measured> {
    let engine = engine_of(task).await?;
    let mut report: Option<Report> = None;
    let work = async {
        let mut rows = Vec::new();
        // The rows are those of the last statement; nearly all queries have only one.
        for statement in engine.parse(&task.statement)? {
            let mut result = engine.run(&statement, |_| ()).await?;
            rows.clear();
            while let Some(batch) = futures::StreamExt::next(&mut result).await {
                rows.push(batch?);
            }
            report = Some(result.report());
        }
        Ok(rows)
    };
    if let Some(start_ms) = task.start_ms {
        tokio::time::sleep(until(start_ms)).await;
    }
    let measured = measured(work, |batches| Answer::of_batches(&batches)).await?;
    Ok(Measured { traffic: report.map(|report| traffic(&report, &task.price_books)).transpose()?, ..measured })
}

/// Returns the time until the clock next reads `start_ms` milliseconds after a full second.
fn until(start_ms: u32) -> Duration {
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_millis());
    Duration::from_millis(u64::from((1000 + start_ms - now_ms) % 1000))
}

fn traffic(report: &Report, books: &[String]) -> Result<Traffic> {
    let usage = &report.usage;
    let bill = |book: &String| Ok((book.clone(), PriceBook::named_or_path(book)?.bill(usage).total()));
    Ok(Traffic {
        bytes: usage.bytes_network,
        requests: usage.requests.total(),
        storage_cpu_s: usage.storage_cpu_s,
        dollars: books.iter().map(bill).collect::<Result<_>>()?,
    })
}

/// DataFusion with its own readers.
async fn datafusion(task: &RemoteTask) -> Result<Measured> {
    let context = plain::context(Some(task.threads));
    for table in &task.tables {
        plain::open_bucket(&context, &table.url)?;
        let schema = pushdowndb_datagen::schema(&table.name)?;
        match task.format {
            DataFormat::Parquet => {
                context.register_parquet(&table.name, &table.url, ParquetReadOptions::default()).await?
            }
            DataFormat::Csv => {
                context.register_csv(&table.name, &table.url, CsvReadOptions::new().schema(&schema)).await?
            }
            other => bail!("{other} is not read from buckets here"),
        }
    }
    let statement = task.statement.trim().trim_end_matches(';');
    let work = async { Ok(context.sql(statement).await?.collect().await?) };
    measured(work, |batches| Answer::of_batches(&batches)).await
}
