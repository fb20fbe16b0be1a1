//! Tables and queries from chance: workers give the rows of one process.
//!
//! `PUSHDOWNDB_CASES=2000` runs more of them; a failure prints its seed, and `PUSHDOWNDB_SEED` of it
//! repeats the tables and queries it was found with.

use std::collections::BTreeMap;

use pushdowndb_engine::Engine;
use pushdowndb_testkit::seed::{SEED, fresh, number_from};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::cluster::{engine, named, ran_on_workers, workers};
use crate::data::Table;
use crate::queries::{Check, Family, Query, draw};
use crate::world::{Rows, World, differ, rows};

/// Queries over one pair of tables, two of each family.
const QUERIES: u64 = 10;

/// Queries that run by default.
const CASES: u64 = 60;

#[tokio::test(flavor = "multi_thread")]
async fn workers_give_the_rows_of_one_process() {
    let given = number_from(SEED);
    let first = given.unwrap_or_else(fresh);
    let cases = number_from("PUSHDOWNDB_CASES").unwrap_or(if given.is_some() { QUERIES } else { CASES });
    println!("PUSHDOWNDB_SEED={first}, {cases} queries");

    let world = World::node().await;
    let all = workers(&world, 3).await;
    let alone = world.engine("none").await;
    let mut engines = Vec::new();
    for (level, count) in [("none", 2), ("fragment", 3)] {
        engines.push((level, count, engine(&world, level, &named(&all[..count]), None).await));
    }
    let (mut failures, mut on_workers, mut answered) = (Vec::new(), 0, 0);
    for seed in first..first + cases.div_ceil(QUERIES) {
        let mut rng = StdRng::seed_from_u64(seed);
        let facts = Table::facts(&mut rng, format!("t{seed}"));
        let dimension = Table::dimension(&mut rng, format!("u{seed}"));
        for table in [&facts, &dimension] {
            table.put(&world).await;
            alone.execute(&table.declaration()).await.expect("a table");
            for (_, _, engine) in &engines {
                engine.execute(&table.declaration()).await.expect("a table");
            }
        }
        for at in 0..QUERIES {
            let family = Family::ALL[at as usize % Family::ALL.len()];
            let mut rng = StdRng::seed_from_u64(rng.random());
            let query = draw(&mut rng, family, &facts.name, &dimension.name);
            let (wanted, _) = rows(&alone, &query.sql).await.unwrap_or_else(|e| panic!("{}: {e}", query.sql));
            answered += usize::from(!wanted.is_empty());
            let among = match &query.check {
                Check::Among(all) => Some(rows(&alone, all).await.expect("rows").0),
                _ => None,
            };
            for (level, count, engine) in &engines {
                match problem(engine, &query, &wanted, among.as_ref()).await {
                    Ok(on) => on_workers += usize::from(on),
                    Err(problem) => failures.push(format!(
                        "PUSHDOWNDB_SEED={seed}: {} at {level} by {count} workers\n  {problem}",
                        query.sql
                    )),
                }
            }
        }
    }
    println!("{on_workers} of {} runs were on workers", cases * 2);
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(given.is_some() || answered as u64 > cases / 6, "only {answered} of {cases} queries have rows");
    assert!(given.is_some() || on_workers as u64 > cases / 2, "only {on_workers} runs were on workers");
}

/// Whether workers ran the query, or what is wrong with the answer.
async fn problem(engine: &Engine, query: &Query, wanted: &Rows, among: Option<&Rows>) -> Result<bool, String> {
    let (got, report) = rows(engine, &query.sql).await.map_err(|error| format!("fails: {error}"))?;
    let wrong = match (&query.check, among) {
        (Check::Rows, _) => differ(&got, wanted),
        (Check::Ordered, _) => (got != *wanted).then(|| format!("{got:?} instead of {wanted:?}")),
        (Check::Among(_), Some(all)) => strange(&got, wanted, all),
        _ => None,
    };
    wrong.map_or_else(|| Ok(ran_on_workers(&report)), Err)
}

/// How `got` is not as many of the rows `all` as `wanted` has.
fn strange(got: &Rows, wanted: &Rows, all: &Rows) -> Option<String> {
    let mut left: BTreeMap<_, usize> = BTreeMap::new();
    all.iter().for_each(|row| *left.entry(row).or_default() += 1);
    for row in got {
        match left.get_mut(row) {
            Some(count) if *count > 0 => *count -= 1,
            _ => return Some(format!("{row:?} is no row, or not so often")),
        }
    }
    (got.len() != wanted.len()).then(|| format!("{} rows instead of {}", got.len(), wanted.len()))
}
