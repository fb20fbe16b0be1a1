//! Settings of joins, and keys of types that are not collected.

use crate::world::{World, rows};

#[tokio::test(flavor = "multi_thread")]
async fn bad_settings_are_refused() {
    let world = World::node().await;
    let engine = world.engine("auto").await;
    let error = crate::world::failure(&engine, "SET pushdown.join = 'hash'").await;
    assert!(error.message().contains("auto, baseline, filtered, bloom"), "{error}");
}

/// A join has a key of a type that is not collected beside one that is.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_cannot_be_collected_does_not_hinder_one_that_can() {
    let world = World::node().await;
    let engine = world.engine("none").await;
    for (name, rows_of) in [("few", 5), ("many", 4_000)] {
        let to = world.url(&format!("mixed/{name}.parquet"));
        let sql = format!(
            "COPY (SELECT value AS id, CAST(concat('h', value % 7) AS BYTEA) AS h, \
             struct(value % 3) AS s FROM generate_series(1, {rows_of})) TO '{to}' STORED AS PARQUET"
        );
        rows(&engine, &sql).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    let (few, many) = (world.url("mixed/few.parquet"), world.url("mixed/many.parquet"));
    for keys in ["few.id = many.id AND few.h = many.h", "few.id = many.id AND few.s = many.s"] {
        let sql = format!("SELECT count(*), sum(many.id) FROM '{few}' few JOIN '{many}' many ON {keys}");
        for level in ["none", "fragment"] {
            for join in ["filtered", "bloom", "auto"] {
                let engine = world.engine_configured(&[("pushdown.level", level), ("pushdown.join", join)]).await;
                let (got, _) =
                    rows(&engine, &sql).await.unwrap_or_else(|e| panic!("{sql} with {join} at {level}: {e}"));
                assert_eq!(got, [["5", "15"]], "{sql} with {join} at {level}");
            }
        }
    }
}
