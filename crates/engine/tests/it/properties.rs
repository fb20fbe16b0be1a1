//! Tables and queries from chance: every level and every strategy gives the rows of plain
//! DataFusion on the same files.
//!
//! `PUSHDOWNDB_CASES=5000` runs more of them; a failure prints its seed, and `PUSHDOWNDB_SEED` of
//! it repeats the tables and queries it was found with.

mod data;
mod queries;

use std::collections::BTreeMap;

use pushdowndb_engine::Engine;
use pushdowndb_testkit::seed::{SEED, fresh, number_from};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::oracle::Oracle;
use crate::world::{Rows, World, differ, rows};
use data::Table;
use queries::{Check, Family, Query};

/// Queries over one pair of tables, two of each family.
const QUERIES: u64 = 10;

/// Queries that run by default.
const CASES: u64 = 300;

/// How many failures are told.
const TOLD: usize = 12;

const STRATEGIES: [&str; 5] = ["filter", "aggregate", "group_by", "join", "top_k"];

#[tokio::test(flavor = "multi_thread")]
async fn every_strategy_gives_the_rows_of_plain_datafusion() {
    let given = number_from(SEED);
    let first = given.unwrap_or_else(fresh);
    // A seed that is given is that of one pair of tables, unless more are asked for.
    let cases = number_from("PUSHDOWNDB_CASES").unwrap_or(if given.is_some() { QUERIES } else { CASES });
    println!("PUSHDOWNDB_SEED={first}, {cases} queries");

    let world = World::node().await;
    let oracle = Oracle::new(&world);
    let engine = world.engine("auto").await;
    let mut failures = Vec::new();
    let mut ran: BTreeMap<Family, usize> = BTreeMap::new();
    let mut answered = 0;
    for seed in first..first + cases.div_ceil(QUERIES) {
        let mut rng = StdRng::seed_from_u64(seed);
        let facts = Table::facts(&mut rng, format!("t{seed}"));
        let dimension = Table::dimension(&mut rng, format!("u{seed}"));
        for table in [&facts, &dimension] {
            table.put(&world).await;
            oracle.execute(&table.declaration()).await;
            engine.execute(&table.declaration()).await.expect("a table");
        }
        // Objects that are cut often, seldom and never.
        let split = *[300, 5000, 16 << 20].choose(&mut rng).unwrap();
        set(&engine, "split_bytes", &split.to_string()).await;
        for at in 0..QUERIES {
            let family = Family::ALL[at as usize % Family::ALL.len()];
            let mut rng = StdRng::seed_from_u64(rng.random());
            let query = queries::draw(&mut rng, family, &facts.name, &dimension.name);
            let wanted = oracle.rows(&query.sql).await;
            answered += usize::from(!wanted.is_empty());
            let among = match &query.check {
                Check::Among(all) => Some(oracle.rows(all).await),
                _ => None,
            };
            for (level, setting, value) in settings(family) {
                arrange(&engine, level, setting, value).await;
                *ran.entry(family).or_default() += 1;
                if let Some(problem) = problem(&engine, &query, &wanted, among.as_ref()).await {
                    failures.push(format!(
                        "PUSHDOWNDB_SEED={seed}: {} at level={level}, {setting}={value}, split_bytes={split}\n  {problem}",
                        query.sql
                    ));
                }
            }
        }
    }
    println!("{ran:?}");
    assert!(given.is_some() || answered as u64 > cases / 3, "only {answered} of {cases} queries have rows");
    let told = failures.iter().take(TOLD).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} failures:\n{told}", failures.len());
}

/// Levels and strategies for queries of a family.
fn settings(family: Family) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let pushed = ["select", "fragment"].into_iter();
    let pushed =
        pushed.flat_map(move |level| family.settings().iter().map(move |(name, value)| (level, *name, *value)));
    std::iter::once(("none", "filter", "auto")).chain(pushed)
}

async fn set(engine: &Engine, name: &str, value: &str) {
    engine.execute(&format!("SET pushdown.{name} = '{value}'")).await.expect("a setting");
}

/// Sets one strategy and leaves the choice of all others to the engine.
async fn arrange(engine: &Engine, level: &str, setting: &str, value: &str) {
    set(engine, "level", level).await;
    for strategy in STRATEGIES {
        set(engine, strategy, if strategy == setting { value } else { "auto" }).await;
    }
}

/// What is wrong with our answer.
async fn problem(engine: &Engine, query: &Query, wanted: &Rows, among: Option<&Rows>) -> Option<String> {
    let got = match rows(engine, &query.sql).await {
        Ok((got, _)) => got,
        Err(error) => return Some(format!("fails: {error}")),
    };
    match (&query.check, among) {
        (Check::Rows, _) => differ(&got, wanted),
        (Check::Ordered, _) if got != *wanted => {
            let at = got.iter().zip(wanted).position(|(a, b)| a != b).unwrap_or(got.len().min(wanted.len()));
            Some(format!(
                "row {at} is {:?} instead of {:?}, {} rows of {}",
                got.get(at),
                wanted.get(at),
                got.len(),
                wanted.len()
            ))
        }
        (Check::Among(_), Some(all)) => {
            let mut left: BTreeMap<_, usize> = BTreeMap::new();
            all.iter().for_each(|row| *left.entry(row).or_default() += 1);
            let strange = got.iter().find(|row| match left.get_mut(row) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    false
                }
                _ => true,
            });
            match strange {
                Some(row) => Some(format!("{row:?} is no row, or not so often")),
                None if got.len() != wanted.len() => Some(format!("{} rows instead of {}", got.len(), wanted.len())),
                None => None,
            }
        }
        _ => None,
    }
}
