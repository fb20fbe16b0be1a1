//! Every TPC-H query and every operator query, at every level, on every format, row for row.

use pushdowndb_datagen::Format;

use crate::oracle::Oracle;
use crate::world::{World, assert_same, queries, rows};

async fn agrees(world: &World, format: Format, path: &str) {
    world.tpch(path, format).await;
    let oracle = Oracle::tpch(world, path, format).await;
    let none = world.engine_with("none", path).await;
    let select = world.engine_with("select", path).await;
    let fragment = world.engine_with("fragment", path).await;
    let (mut pushed, mut in_fragments) = (0, 0);
    for (name, sql) in queries() {
        let want = oracle.rows(&sql).await;
        let (plain, report) = rows(&none, &sql).await.unwrap_or_else(|e| panic!("{name} at none: {e}"));
        assert_same(&format!("{name} on {path} at none"), &plain, &want);
        assert_eq!(report.usage.requests.select, 0, "{name}: level none sends no S3 Select");
        let (got, report) = rows(&select, &sql).await.unwrap_or_else(|e| panic!("{name} at select: {e}"));
        assert_same(&format!("{name} on {path} at select"), &got, &want);
        let fell_back: Vec<_> = report.usage.strategies.iter().filter(|s| s.contains("fell back")).collect();
        assert!(fell_back.is_empty(), "{name}: {fell_back:?}");
        pushed += usize::from(report.usage.requests.select > 0);
        let (got, report) = rows(&fragment, &sql).await.unwrap_or_else(|e| panic!("{name} at fragment: {e}"));
        assert_same(&format!("{name} on {path} at fragment"), &got, &want);
        let fell_back: Vec<_> = report.usage.strategies.iter().filter(|s| s.contains("fell back")).collect();
        assert!(fell_back.is_empty(), "{name}: {fell_back:?}");
        in_fragments += usize::from(report.usage.requests.fragment > 0);
    }
    assert!(pushed >= 20, "only {pushed} queries on {path} pushed anything");
    assert!(!world.is_ours() || in_fragments >= 25, "only {in_fragments} queries on {path} sent fragments");
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_on_the_node() {
    agrees(&World::node().await, Format::Csv, "csv").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_on_the_node() {
    agrees(&World::node().await, Format::Parquet, "parquet").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn json_on_the_node() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    world.tpch("json", Format::Json).await;
    let oracle = Oracle::tpch(&world, "csv", Format::Csv).await;
    for level in ["none", "select", "fragment"] {
        let engine = world.engine_with(level, "json").await;
        for (name, sql) in queries() {
            let (got, _) = rows(&engine, &sql).await.unwrap_or_else(|e| panic!("{name} at {level}: {e}"));
            assert_same(&format!("{name} on JSON at {level}"), &got, &oracle.rows(&sql).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn csv_on_minio() {
    let Some(world) = crate::minio::world().await else { return };
    agrees(&world, Format::Csv, "csv").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn parquet_on_minio() {
    let Some(world) = crate::minio::world().await else { return };
    // What MinIO cannot do on Parquet is read plainly; the rows are the same either way.
    world.tpch("parquet", Format::Parquet).await;
    let oracle = Oracle::tpch(&world, "parquet", Format::Parquet).await;
    for level in ["none", "select"] {
        let engine = world.engine_with(level, "parquet").await;
        for (name, sql) in queries() {
            let (got, _) = rows(&engine, &sql).await.unwrap_or_else(|e| panic!("{name} at {level}: {e}"));
            assert_same(&format!("{name} on MinIO's Parquet at {level}"), &got, &oracle.rows(&sql).await);
        }
    }
}
