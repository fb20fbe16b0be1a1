//! Contestants over tables in a bucket that run inside this binary: our engine with its settings, and plain DataFusion.

use std::sync::Arc;

use anyhow::{Context, Result, bail};
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionConfig, SessionContext};
use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use pushdowndb_cost::PriceBook;
use pushdowndb_engine::{Engine, EngineConfig, Report};
use url::Url;

use super::answer::Answer;
use super::contestant::measured;
use super::definition::{DataFormat, Kind};
use super::task::{Measured, RemoteTask, Traffic};

/// Does the task. Declaring the tables is not measured, finding their objects and footers is.
pub async fn run(task: &RemoteTask) -> Result<Measured> {
    match task.kind {
        Kind::Engine => engine(task).await,
        Kind::Datafusion => datafusion(task).await,
        other => bail!("{other:?} does not run in this binary"),
    }
}

async fn engine(task: &RemoteTask) -> Result<Measured> {
    let named = task.settings.iter().map(|(name, value)| (format!("pushdown.{name}"), value.clone()));
    let settings = std::iter::once(("pushdown.threads".to_owned(), task.threads.to_string())).chain(named).collect();
    let cache = Some(task.cache.clone());
    let engine = Engine::new(EngineConfig { settings, cache, ..EngineConfig::default() }).await?;
    for statement in engine.parse(&task.declarations)? {
        engine.execute(&statement.text).await?.collect().await?;
    }
    let mut report: Option<Report> = None;
    let work = async {
        let mut rows = Vec::new();
        // The rows are those of the last statement, which is the only one of nearly all queries.
        for statement in engine.parse(&task.statement)? {
            let mut result = engine.execute(&statement.text).await?;
            rows.clear();
            while let Some(batch) = futures::StreamExt::next(&mut result).await {
                rows.push(batch?);
            }
            report = Some(result.report());
        }
        Ok(rows)
    };
    let measured = measured(work, |batches| Answer::of_batches(&batches)).await?;
    Ok(Measured { traffic: report.map(|report| traffic(&report, &task.price_books)).transpose()?, ..measured })
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

/// DataFusion with its own readers, as `crates/engine/examples/plain_datafusion.rs` has it.
async fn datafusion(task: &RemoteTask) -> Result<Measured> {
    let mut config = SessionConfig::new().with_target_partitions(task.threads);
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let context = SessionContext::new_with_config(config);
    for table in &task.tables {
        let url = Url::parse(&table.url).with_context(|| table.url.clone())?;
        let bucket = url.host_str().context("a table without a bucket")?;
        let options = ClientOptions::new().with_allow_http(true).with_timeout_disabled();
        let store = AmazonS3Builder::from_env().with_bucket_name(bucket).with_client_options(options).build()?;
        context.register_object_store(&Url::parse(&format!("s3://{bucket}"))?, Arc::new(store));
        let schema = pushdowndb_tpchgen::schema(&table.name)?;
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
