//! Plain DataFusion over the TPC-H tables of a bucket or folder: the baseline that level `none` is held against.
//!
//! ```text
//! plain_datafusion s3://bucket/ csv sql/tpch/q06.sql
//! ```
//! Credentials and endpoint come from the `AWS_*` variables. Prints the number of rows.

use std::sync::Arc;

use datafusion::prelude::{CsvReadOptions, ParquetReadOptions, SessionConfig, SessionContext};
use object_store::ClientOptions;
use object_store::aws::AmazonS3Builder;
use url::Url;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [location, format, query] = arguments.as_slice() else {
        return Err("usage: plain_datafusion LOCATION csv|parquet QUERY.sql".into());
    };
    let mut config = SessionConfig::new();
    config.options_mut().sql_parser.parse_float_as_decimal = true;
    let context = SessionContext::new_with_config(config);
    let location = location.trim_end_matches('/');
    if let Some(bucket) = location.strip_prefix("s3://").and_then(|rest| rest.split('/').next()) {
        let options = ClientOptions::new().with_allow_http(true).with_timeout_disabled();
        let store = AmazonS3Builder::from_env().with_bucket_name(bucket).with_client_options(options).build()?;
        context.register_object_store(&Url::parse(&format!("s3://{bucket}"))?, Arc::new(store));
    }
    for name in pushdowndb_tpchgen::TABLES {
        let schema = pushdowndb_tpchgen::schema(name)?;
        let folder = format!("{location}/{name}/");
        match format.as_str() {
            "csv" => context.register_csv(name, folder, CsvReadOptions::new().schema(&schema)).await?,
            "parquet" => context.register_parquet(name, folder, ParquetReadOptions::default()).await?,
            other => return Err(format!("'{other}' is not csv or parquet").into()),
        }
    }
    let rows = context.sql(&std::fs::read_to_string(query)?.replace(';', "")).await?.collect().await?;
    println!("{} rows", rows.iter().map(|batch| batch.num_rows()).sum::<usize>());
    Ok(())
}
