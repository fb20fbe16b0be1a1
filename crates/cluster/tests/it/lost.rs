//! Workers that are killed while queries run: right rows or one clear error, never both.

use std::process::Child;
use std::time::{Duration, Instant};

use pushdowndb_contract::ErrorKind;
use pushdowndb_datagen::Format;
use pushdowndb_engine::Engine;
use pushdowndb_testkit::process::{kill, spawn_until, this_test_binary};
use pushdowndb_testkit::seed::{number_from, seed};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::cluster::{config, engine, named, ran_on_workers, workers};
use crate::world::{World, assert_same, queries, rows, rows_in_spite};

/// Where a worker in a process of its own finds the endpoint.
const ENDPOINT: &str = "PUSHDOWNDB_TEST_ENDPOINT";

/// Queries during which a worker is killed, by default.
const KILLS: u64 = 12;

/// A worker in a process of its own, until it is killed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "a worker of other tests"]
async fn worker_process() {
    let endpoint = std::env::var(ENDPOINT).expect("an endpoint");
    let worker = pushdowndb_cluster::serve(config(&endpoint)).await.expect("a worker");
    println!("serving stages on {}", worker.url());
    std::future::pending::<()>().await;
}

fn start(world: &World) -> (Child, String) {
    let mut command = this_test_binary("lost::worker_process");
    spawn_until(command.env(ENDPOINT, &world.endpoint), "serving stages on ")
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_workers_cost_no_row() {
    let mut rng = StdRng::seed_from_u64(seed());
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let lasting = workers(&world, 1).await;
    let alone = world.engine_with("none", "csv").await;
    let names = ["q01", "q03", "q05", "q10", "q18", "op_join_c950"];
    let all: Vec<_> = queries().into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect();
    let (mut right, mut failed) = (0, 0);
    for round in 0..number_from("PUSHDOWNDB_CASES").unwrap_or(KILLS) {
        let (mut process, address) = start(&world);
        let several = engine(&world, "none", &format!("{},{address}", named(&lasting)), Some("csv")).await;
        let (name, sql) = &all[round as usize % all.len()];
        let began = Instant::now();
        let (want, _) = rows(&alone, sql).await.expect("rows");
        let most = began.elapsed().as_micros() as u64 * 2;
        let delay = Duration::from_micros(rng.random_range(0..most.max(1)));
        let killer = std::thread::spawn(move || {
            std::thread::sleep(delay);
            kill(&mut process);
        });
        match rows_in_spite(&several, sql).await {
            Ok((got, _)) => {
                assert_same(&format!("{name}, a worker killed after {delay:?}"), &got, &want);
                right += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{name}: {error}");
                assert!(error.to_string().contains(&address), "{name} killed after {delay:?}: {error}");
                failed += 1;
            }
        }
        killer.join().expect("the killer");
    }
    println!("{right} right, {failed} failed");
    assert!(right > failed, "{right} right, {failed} failed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_is_gone_is_left_out() {
    let world = World::node().await;
    world.tpch("csv", Format::Csv).await;
    let lasting = workers(&world, 2).await;
    let (mut process, address) = start(&world);
    let several = engine(&world, "none", &format!("{},{address}", named(&lasting)), Some("csv")).await;
    let sql = "SELECT l_returnflag, count(*), sum(l_quantity) FROM lineitem GROUP BY l_returnflag";
    let (want, report) = rows(&several, sql).await.expect("rows");
    assert!(ran_on_workers(&report) && told(&report.usage.strategies, &address), "{:?}", report.usage.strategies);
    kill(&mut process);
    let (got, report) = rows(&several, sql).await.expect("rows");
    assert_same("without one of three", &got, &want);
    let strategies = &report.usage.strategies;
    assert!(ran_on_workers(&report), "{strategies:?}");
    assert!(strategies.iter().any(|told| told.contains("left out") && told.contains(&address)), "{strategies:?}");
    drop(lasting);
    assert_none_answers(&several, sql).await;
}

fn told(strategies: &[String], text: &str) -> bool {
    strategies.iter().any(|told| told.contains(text))
}

async fn assert_none_answers(engine: &Engine, sql: &str) {
    let error = rows(engine, sql).await.expect_err("no worker is left");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("no worker of pushdown.workers answers"), "{error}");
}
