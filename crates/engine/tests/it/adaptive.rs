//! Storage and plain reads share a scan, and its rows are the same.

use crate::world::{World, assert_same, rows};

/// Four objects of nine megabytes each: enough for each to be a request of its own.
async fn table(world: &World) -> String {
    for part in 0..4_i64 {
        let mut csv = String::from("id,kind,amount,note\n");
        let mut id = part;
        while csv.len() < 9 << 20 {
            let (kind, amount) = (id * 7919 % 40, id % 1000);
            let note = if id % 1000 == 7 { "rare" } else { "a common note and nothing to look for" };
            csv.push_str(&format!("{id},{kind},{amount}.25,{note}\n"));
            id += 4;
        }
        world.put(&format!("t/{part}.csv"), csv).await;
    }
    format!(
        "CREATE EXTERNAL TABLE t (id BIGINT NOT NULL, kind BIGINT, amount DECIMAL(9,2), note VARCHAR) STORED AS CSV \
         LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        world.url("t/")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn storage_and_plain_reads_share_a_scan() {
    let world = World::node().await;
    let declare = table(&world).await;
    let settings = |level, adaptive| {
        let own = [("pushdown.level", level), ("pushdown.adaptive", adaptive), ("pushdown.requests", "1")];
        // The same choices every time.
        [own.as_slice(), &[("pushdown.group_by", "storage"), ("pushdown.statistics", "none")]].concat()
    };
    let local = world.engine_configured(&settings("none", "auto")).await;
    local.execute(&declare).await.expect("a table");
    for level in ["fragment", "select"] {
        let both = world.engine_configured(&settings(level, "both")).await;
        let storage = world.engine_configured(&settings(level, "none")).await;
        for engine in [&both, &storage] {
            engine.execute(&declare).await.expect("a table");
        }
        for sql in [
            "SELECT count(*), sum(amount), min(id), max(note), avg(amount) FROM t WHERE id % 3 <> 1",
            "SELECT kind, count(*), sum(amount), avg(amount) FROM t GROUP BY kind",
            "SELECT id, amount FROM t WHERE note = 'rare'",
        ] {
            let (want, _) = rows(&local, sql).await.expect("rows");
            let (got, shared) = rows(&both, sql).await.expect("rows");
            assert_same(&format!("{level}: {sql}"), &got, &want);
            let pushed = shared.usage.requests.fragment + shared.usage.requests.select;
            let told =
                shared.usage.strategies.iter().any(|told| told.contains("some splits are read plainly meanwhile"));
            // By S3 Select the operator above has asked for rows from storage.
            let settled = level == "select" && sql.contains("GROUP BY");
            assert!(
                settled || told && pushed > 0 && shared.usage.requests.get > 0,
                "{level}: {sql}: {:?}",
                shared.usage
            );

            let (got, report) = rows(&storage, sql).await.expect("rows");
            assert_same(&format!("{level}, storage alone: {sql}"), &got, &want);
            assert!(settled || report.usage.bytes_network < shared.usage.bytes_network, "{level}: {sql}");
        }
    }
}
