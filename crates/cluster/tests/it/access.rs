//! Who may use workers, what they are told, and what queries on them may take.

use std::process::Command;

use pushdowndb_cluster::{TlsFiles, WorkerConfig, Workers, serve};
use pushdowndb_contract::ErrorKind;
use pushdowndb_datagen::Format;
use pushdowndb_engine::{AccessPolicy, Engine, EngineConfig};

use crate::cluster::{TOKEN, config, connection, engine, engine_with, named, ran_on_workers, token, workers};
use crate::world::{World, assert_same, failure, rows};

const SQL: &str = "SELECT l_returnflag, count(*), sum(l_quantity) FROM lineitem GROUP BY l_returnflag";

#[tokio::test(flavor = "multi_thread")]
async fn callers_need_the_token() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let all = workers(&world, 2).await;
    let settings = [("workers", named(&all)), ("distribute", "always".to_owned())];
    let settings: Vec<(&str, &str)> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let strange = engine_with(&world, "another-token-than-theirs", &settings, Some("csv")).await;
    let error = failure(&strange, SQL).await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(error.to_string().contains("refuses the token") && error.to_string().contains(&all[0].url()), "{error}");
    // A program without a token for workers says so.
    let none = world.engine_with("none", "csv").await;
    none.execute(&format!("SET pushdown.workers = '{}'", named(&all))).await.unwrap();
    let error = failure(&none, SQL).await;
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    none.execute("RESET pushdown.workers").await.unwrap();
    rows(&none, SQL).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_under_a_policy_cannot_name_workers() {
    let world = World::node().await;
    let cluster = Workers::new(token(TOKEN), None).unwrap();
    let config = EngineConfig {
        access: AccessPolicy::nothing().and_read("s3://").unwrap(),
        connection: connection(&world.endpoint),
        cluster: Some(std::sync::Arc::new(cluster)),
        ..EngineConfig::default()
    };
    let engine = Engine::new(config).await.unwrap();
    let error = failure(&engine, "SET pushdown.workers = 'http://127.0.0.1:1'").await;
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    engine.execute("SET pushdown.workers = ''").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_speak_tls() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]);
    openssl.args(["-subj", "/CN=worker", "-addext", "subjectAltName=IP:127.0.0.1"]);
    // The program makes authorities otherwise, which are no certificates of servers.
    openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    openssl.arg("-keyout").arg(file("key.pem")).arg("-out").arg(file("cert.pem"));
    assert!(openssl.output().expect("openssl").status.success());
    let files = TlsFiles { certificate: file("cert.pem"), key: file("key.pem") };
    let mut all = Vec::new();
    for _ in 0..2 {
        let tls =
            WorkerConfig { tls: Some(files.clone()), authorities: Some(file("cert.pem")), ..config(&world.endpoint) };
        all.push(serve(tls).await.unwrap());
    }
    let (want, _) = rows(&world.engine_with("none", "csv").await, SQL).await.unwrap();
    let trusting = Workers::new(token(TOKEN), Some(&file("cert.pem"))).unwrap();
    let settings = [("pushdown.workers", named(&all)), ("pushdown.distribute", "always".to_owned())];
    let config = EngineConfig {
        connection: connection(&world.endpoint),
        settings: settings.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        cluster: Some(std::sync::Arc::new(trusting)),
        ..EngineConfig::unrestricted()
    };
    let engine = Engine::new(config).await.unwrap();
    let script = engine.read_text(&world.url("csv/schema.sql")).await.unwrap();
    for statement in engine.parse(&script).unwrap() {
        engine.run(&statement, |_| ()).await.unwrap();
    }
    let (got, report) = rows(&engine, SQL).await.unwrap();
    assert!(ran_on_workers(&report), "{:?}", report.usage.strategies);
    assert_same("over TLS", &got, &want);
    assert!(all[0].reload_certificate().await.unwrap());
    // Without their authorities, and as plain text.
    for address in [named(&all), named(&all).replace("https", "http")] {
        let engine = engine_with(&world, TOKEN, &[("workers", &address), ("distribute", "always")], Some("csv")).await;
        let error = failure(&engine, SQL).await;
        assert!(error.to_string().contains("workers"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_stages_and_small_queries_stay() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let all = workers(&world, 2).await;
    let several = engine(&world, "fragment", &named(&all), Some("csv")).await;
    let (plan, _) = rows(&several, &format!("EXPLAIN {SQL}")).await.unwrap();
    let plan = &plan.iter().find(|row| row[0] == "physical_plan").unwrap()[1];
    for shown in ["Stage 1", "tasks=2", "NetworkShuffleExec", "RemoteScanExec"] {
        assert!(plan.contains(shown), "{shown} in {plan}");
    }
    // What a scan took is what its shares took together.
    let mut result = several.execute(SQL).await.unwrap();
    result.collect().await.unwrap();
    let (profile, report) = (result.profile().unwrap(), result.report());
    let scans: u64 = profile.operators().iter().filter_map(|o| Some(o.scan.as_ref()?.usage.bytes_network)).sum();
    assert!(scans > 0, "{profile:?}");
    assert_eq!(scans + profile.planning.bytes_network, report.usage.bytes_network);
    let (analyzed, _) = rows(&several, &format!("EXPLAIN ANALYZE {SQL}")).await.unwrap();
    assert!(analyzed.iter().flatten().any(|line| line.contains("lineitem")), "{analyzed:?}");
    several.execute("SET pushdown.distribute = 'auto'").await.unwrap();
    let (_, report) = rows(&several, SQL).await.unwrap();
    assert!(!ran_on_workers(&report), "{:?}", report.usage.strategies);
    assert!(
        report.usage.strategies.iter().any(|told| told.contains("without workers")),
        "{:?}",
        report.usage.strategies
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn caps_hold_on_workers() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let all = workers(&world, 2).await;
    let several = engine(&world, "none", &named(&all), Some("csv")).await;
    several.execute("SET pushdown.statistics = 'none'").await.unwrap();
    several.execute("SET pushdown.max_bytes = 100000").await.unwrap();
    let error = failure(&several, SQL).await;
    assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
    several.execute("RESET pushdown.max_bytes").await.unwrap();
    let (_, report) = rows(&several, SQL).await.unwrap();
    assert!(ran_on_workers(&report));
    // Errors of a worker's scan keep their kind.
    let store = world.store();
    object_store::ObjectStoreExt::put(&store, &"bad/a.csv".into(), "k,v\n1,2\n".into()).await.unwrap();
    object_store::ObjectStoreExt::put(&store, &"bad/b.csv".into(), "k,v\n1,x\n".into()).await.unwrap();
    let declared = format!(
        "CREATE EXTERNAL TABLE bad (k BIGINT, v BIGINT) STORED AS CSV LOCATION '{}' OPTIONS ('format.has_header' 'true')",
        world.url("bad/")
    );
    several.execute(&declared).await.unwrap();
    let error = failure(&several, "SELECT k, sum(v) FROM bad GROUP BY k").await;
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(error.to_string().contains("b.csv"), "{error}");
}
