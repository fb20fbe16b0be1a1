//! DataFusion with its own readers: the baseline that level `none` is compared with.

use std::sync::Arc;

use anyhow::{Context, Result};
use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionConfig, SessionContext};
use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use url::Url;

use crate::args::PlainArgs;

/// Creates a context that uses a number of `threads`, by default one per core.
pub fn context(threads: Option<usize>) -> SessionContext {
    let mut config = SessionConfig::new();
    if let Some(threads) = threads {
        config = config.with_target_partitions(threads);
    }
    // As in PushdownDB; otherwise decimals would be compared with doubles.
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    SessionContext::new_with_config(config)
}

/// Registers the bucket of an `s3://` location with `context`. The `AWS_*` variables configure the
/// connection.
pub fn open_bucket(context: &SessionContext, location: &str) -> Result<()> {
    let url = Url::parse(location).with_context(|| location.to_owned())?;
    let bucket = url.host_str().with_context(|| format!("{location} names no bucket"))?;
    let options = ClientOptions::new().with_allow_http(true).with_timeout_disabled();
    let store = AmazonS3Builder::from_env().with_bucket_name(bucket).with_client_options(options).build()?;
    context.register_object_store(&Url::parse(&format!("s3://{bucket}"))?, Arc::new(store));
    Ok(())
}

/// Runs a query over the TPC-H tables of a folder or bucket and prints the number of rows.
pub async fn plain(args: &PlainArgs) -> Result<()> {
    let query = std::fs::read_to_string(&args.query).with_context(|| args.query.display().to_string())?;
    let context = context(None);
    let location = args.location.trim_end_matches('/');
    if location.starts_with("s3://") {
        open_bucket(&context, location)?;
    }
    for name in pushdowndb_datagen::TABLES {
        let schema = pushdowndb_datagen::schema(name)?;
        let folder = format!("{location}/{name}/");
        match args.format.as_str() {
            "csv" => context.register_csv(name, folder, CsvReadOptions::new().schema(&schema)).await?,
            _ => context.register_parquet(name, folder, ParquetReadOptions::default()).await?,
        }
    }
    let rows = context.sql(&query.replace(';', "")).await?.collect().await?;
    println!("{} rows", rows.iter().map(|batch| batch.num_rows()).sum::<usize>());
    Ok(())
}
