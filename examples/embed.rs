//! The engine embedded in a program: one query over a folder or bucket, its rows, and its cost.
//!
//! ```text
//! cargo run --release --example embed -- s3://bucket/logs/ "SELECT count(*) FROM 's3://bucket/logs/'"
//! ```
//! SQL may read the location that is named first and nothing else. The `AWS_*` variables say how to
//! reach S3.

use arrow::util::pretty::pretty_format_batches;
use pushdowndb_engine::{AccessPolicy, Engine, EngineConfig};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [location, query] = arguments.as_slice() else { return Err("usage: embed LOCATION QUERY".into()) };
    let access = AccessPolicy::nothing().and_read(location)?;
    let engine = Engine::new(EngineConfig { access, ..EngineConfig::default() }).await?;
    let mut result = engine.execute(query).await?;
    println!("{}", pretty_format_batches(&result.collect().await?)?);
    let report = result.report();
    println!("{} bytes over the network, {:.6} dollars", report.usage.bytes_network, report.bill.total());
    Ok(())
}
