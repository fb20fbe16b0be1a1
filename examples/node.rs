//! A storage node in a program, an S3 client that writes to it, and an engine that has it filter.
//!
//! ```text
//! cargo run --release --example node
//! ```

use object_store::ObjectStoreExt;
use object_store::aws::AmazonS3Builder;
use pushdowndb_engine::{ConnectionConfig, Engine, EngineConfig};
use pushdowndb_node::{NodeConfig, start};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let node = start(NodeConfig::store(folder.path())).await?;
    let keys = node.credentials();
    let connection = ConnectionConfig {
        endpoint: Some(node.endpoint()),
        region: Some("us-east-1".to_owned()),
        access_key_id: Some(keys.access_key_id.clone()),
        secret_access_key: Some(keys.secret_access_key.clone()),
        ..ConnectionConfig::default()
    };
    let engine = Engine::new(EngineConfig { connection, ..EngineConfig::unrestricted() }).await?;
    engine.create_bucket("s3://shop/").await?;

    // Any client of S3 will do.
    let client = AmazonS3Builder::new()
        .with_endpoint(node.endpoint())
        .with_allow_http(true)
        .with_bucket_name("shop")
        .with_access_key_id(&keys.access_key_id)
        .with_secret_access_key(&keys.secret_access_key)
        .build()?;
    let sales: String = (0..100_000).map(|n| format!("{n},item {},{}\n", n % 100, n % 1000)).collect();
    client.put(&"sales.csv".into(), format!("id,item,price\n{sales}").into()).await?;

    // Declared, so that its types need not be read from its rows.
    let declare = "CREATE EXTERNAL TABLE sales (id BIGINT NOT NULL, item VARCHAR NOT NULL, price BIGINT NOT NULL) \
                   STORED AS CSV LOCATION 's3://shop/sales.csv' OPTIONS ('format.has_header' 'true')";
    engine.execute(declare).await?.collect().await?;

    // The rows are the same whether the engine or the node filters; the bytes are not.
    for side in ["compute", "storage"] {
        engine.execute(&format!("SET pushdown.filter = '{side}'")).await?.collect().await?;
        let mut result = engine.execute("SELECT item, price FROM sales WHERE id = 4711").await?;
        let rows: usize = result.collect().await?.iter().map(|batch| batch.num_rows()).sum();
        println!("filter={side}: {rows} row, {} bytes over the network", result.report().usage.bytes_network);
    }
    node.shutdown().await;
    Ok(())
}
