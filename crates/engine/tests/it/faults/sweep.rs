//! Every operator at both levels, with a fault at every message of every answer.
//!
//! A first run counts the answers and their messages. Then, for each message, one fault of each
//! sort strikes there, once or from there on. The rows are those of level none, or the query fails
//! with an error that is the server's.
//!
//! What is drawn is told as `PUSHDOWNDB_SEED`, which repeats it; `PUSHDOWNDB_CASES=n` runs n faults
//! a message and sort of request.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use pushdowndb_contract::{ErrorKind, Result};
use pushdowndb_engine::{Engine, Report};
use pushdowndb_testkit::seed::{number_from, seed};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use super::proxy::{Fault, Kind, Proxy, Seen};
use crate::world::{Rows, World, differ, gave_up, rows, rows_in_spite};

/// Queries under way at once: they wait more than they work.
const AT_ONCE: usize = 16;

/// What is told of failures.
const TOLD: usize = 8;

/// An operator: the settings that make it run in storage, and a query.
#[derive(Clone, Copy, Debug)]
pub struct Operator {
    pub name: &'static str,
    /// Where it is pushed.
    pub levels: &'static [&'static str],
    pub settings: &'static [(&'static str, &'static str)],
    pub sql: &'static str,
}

const BOTH: [&str; 2] = ["select", "fragment"];

/// What is pushed.
pub const OPERATORS: [Operator; 9] = [
    Operator {
        name: "scan",
        levels: &BOTH,
        settings: &[("filter", "storage")],
        sql: "SELECT id, s FROM t WHERE n % 3 = 1",
    },
    Operator {
        name: "scan of Parquet",
        levels: &BOTH,
        settings: &[("filter", "storage")],
        sql: "SELECT id, s FROM p WHERE n % 3 = 1",
    },
    Operator {
        name: "aggregate",
        levels: &BOTH,
        settings: &[("aggregate", "storage")],
        sql: "SELECT count(*), sum(n), min(id), max(n) FROM t WHERE id > 100",
    },
    Operator {
        name: "group-by",
        levels: &BOTH,
        settings: &[("group_by", "storage")],
        sql: "SELECT g, count(*), sum(n), min(id) FROM t GROUP BY g",
    },
    Operator {
        name: "hybrid group-by",
        levels: &BOTH,
        settings: &[("group_by", "hybrid")],
        sql: "SELECT g, count(*), sum(n) FROM t GROUP BY g HAVING count(*) > 1",
    },
    Operator {
        name: "join",
        levels: &BOTH,
        settings: &[("join", "bloom")],
        sql: "SELECT t.id, u.name FROM u JOIN t ON u.g = t.g WHERE u.name < 'name 4'",
    },
    Operator {
        name: "top-k by sample",
        levels: &BOTH,
        settings: &[("top_k", "sampling")],
        sql: "SELECT id, n FROM t ORDER BY n DESC, id LIMIT 25",
    },
    Operator {
        name: "top-k in storage",
        levels: &["fragment"],
        settings: &[("top_k", "storage")],
        sql: "SELECT id, n FROM t ORDER BY n DESC, id LIMIT 25",
    },
    Operator {
        name: "index",
        levels: &BOTH,
        settings: &[("filter", "index")],
        sql: "SELECT id, s, n FROM t WHERE code IN (3, 1007, 2500, 2501, 4999) AND n >= 0",
    },
];

/// Rows of the larger table, in as many objects.
const ROWS: u64 = 5000;
const OBJECTS: u64 = 5;

/// The tables that the operators are about, and an index on one of them.
pub async fn tables(world: &World) {
    for object in 0..OBJECTS {
        let of_object = (0..ROWS).filter(|id| id % OBJECTS == object);
        let line = |id: u64| {
            // A few large groups, many small ones, and rows without any.
            let g = match id % 7 {
                0 => String::new(),
                1..5 => (id % 3).to_string(),
                _ => (id % 40).to_string(),
            };
            format!("{id},{},{g},{},\"text, {id}\"\n", id * 7919 % 4001, id * 31 % ROWS)
        };
        let text: String = std::iter::once("id,n,g,code,s\n".to_owned()).chain(of_object.map(line)).collect();
        world.put(&format!("t/{object}.csv"), text).await;
    }
    let line = |g: u64| format!("{g},name {}\n", g * 13 % 40);
    world.put("u/1.csv", std::iter::once("g,name\n".to_owned()).chain((0..40).map(line)).collect::<String>()).await;
    let engine = engine(world, "none", &[]).await;
    for object in 0..2 {
        let copy = format!(
            "COPY (SELECT * FROM t WHERE id % 2 = {object}) TO '{}'",
            world.url(&format!("p/{object}.parquet"))
        );
        rows(&engine, &copy).await.expect("a copy");
    }
    engine.execute("CREATE INDEX ON t (code)").await.expect("an index");
}

/// A session with the tables. One request follows the other, so that their order is always the
/// same.
pub async fn engine(world: &World, level: &str, settings: &[(&str, &str)]) -> Engine {
    let engine = world.engine(level).await;
    let in_order = [("requests", "1"), ("threads", "1"), ("split_bytes", "20000"), ("statistics", "none")];
    for (name, value) in in_order.iter().chain(settings) {
        engine.execute(&format!("SET pushdown.{name} = '{value}'")).await.expect("a setting");
    }
    let columns = "id BIGINT NOT NULL, n BIGINT NOT NULL, g BIGINT, code BIGINT, s VARCHAR";
    for (name, columns, format) in
        [("t", columns, "CSV"), ("p", columns, "PARQUET"), ("u", "g BIGINT, name VARCHAR", "CSV")]
    {
        let header = if format == "CSV" { "'format.has_header' 'true', " } else { "" };
        let declare = format!(
            "CREATE EXTERNAL TABLE {name} ({columns}) STORED AS {format} LOCATION '{}' \
             OPTIONS ({header}'backend' 'pushdowndb')",
            world.url(&format!("{name}/"))
        );
        engine.execute(&declare).await.expect("a table");
    }
    engine
}

/// How many rounds, or other counts, are asked for.
pub fn cases(default: usize) -> usize {
    number_from("PUSHDOWNDB_CASES").map_or(default, |cases| cases as usize)
}

/// One run of an operator with a fault.
#[derive(Clone, Debug)]
struct Case {
    operator: Operator,
    level: &'static str,
    /// Which request it strikes, by its place.
    request: usize,
    fault: Fault,
    /// Whether it strikes every request from then on that pushes something.
    stays: bool,
    /// What the engine may hold back; with little, rows leave early.
    buffer_bytes: &'static str,
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_any_message_of_any_operator_gives_right_rows_or_an_error() {
    let mut random = StdRng::seed_from_u64(seed());
    let world = World::node().await;
    tables(&world).await;
    let mut cases_of = Vec::new();
    for operator in OPERATORS {
        let plain = rows(&engine(&world, "none", &[]).await, operator.sql).await.expect("rows").0;
        assert!(!plain.is_empty(), "{}", operator.name);
        let plain = Arc::new(plain);
        for level in operator.levels {
            let seen = clean(&world, operator, level, &plain).await;
            let all = draw(&mut random, operator, level, &seen);
            println!("{} at {level}: {:?}, {} faults", operator.name, seen.answers, all.len());
            cases_of.extend(all.into_iter().map(|case| (case, Arc::clone(&plain))));
        }
    }
    let count = cases_of.len();
    let world = &world;
    let run = |(case, plain): (Case, Arc<Rows>)| async move { (case.strike(world, &plain).await, case) };
    let outcomes: Vec<_> = stream::iter(cases_of).map(run).buffer_unordered(AT_ONCE).collect().await;
    let wrong: Vec<_> = outcomes.iter().filter_map(|(outcome, case)| Some((outcome.as_ref().err()?, case))).collect();
    let errors = outcomes.iter().filter(|(outcome, _)| matches!(outcome, Ok(Outcome::Failed))).count();
    let given_up = outcomes.iter().filter(|(outcome, _)| matches!(outcome, Ok(Outcome::GaveUp))).count();
    println!("{count} faults: {errors} errors, {given_up} read plainly");
    let told: Vec<_> = wrong.iter().take(TOLD).map(|(what, case)| format!("{case:?}: {what}")).collect();
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), told.join("\n"));
    assert!(given_up > 0 && errors > 0 && errors < count / 4, "{errors} errors, {given_up} read plainly of {count}");
}

/// The operator without a fault: it gives the rows, and everything that can be spoiled is known.
async fn clean(world: &World, operator: Operator, level: &str, plain: &Rows) -> Seen {
    let proxy = Proxy::start(&world.endpoint, |_, _| None, || {}).await;
    let engine = engine(&World::at(proxy.endpoint()), level, operator.settings).await;
    let (got, report) = rows(&engine, operator.sql).await.unwrap_or_else(|e| panic!("{operator:?} at {level}: {e}"));
    assert_eq!(differ(&got, plain), None, "{operator:?} at {level}");
    let seen = proxy.seen();
    let pushed = if level == "select" { Kind::Select } else { Kind::Fragment };
    let is_pushed = seen.answers.iter().any(|(kind, _)| *kind == pushed);
    // What S3 Select cannot say is computed, and what needs no storage is not asked of it.
    assert!(is_pushed, "{operator:?} at {level} asks storage: {:?}, {:?}", seen.answers, report.usage.strategies);
    seen
}

/// A fault for each message of each answer and for its end, and one for each request that is not
/// answered at all.
fn draw(random: &mut StdRng, operator: Operator, level: &'static str, seen: &Seen) -> Vec<Case> {
    let mut all = Vec::new();
    for (request, (kind, messages)) in seen.answers.iter().enumerate() {
        for _ in 0..cases(1) {
            for at in 0..*messages {
                let fault = match (kind, random.random_range(0..6)) {
                    // Plain bytes have no checksum of their own: that is the transport's.
                    (Kind::Get, _) | (_, 0) => Fault::Break { messages: at, bytes: 0 },
                    (_, 1) => Fault::Break { messages: at, bytes: random.random_range(1..2000) },
                    (_, 2) => Fault::End { messages: at, bytes: *[0, 7, 500].choose(random).expect("one") },
                    (Kind::Fragment, 3) => Fault::Omit { message: at },
                    (Kind::Fragment, 4) => Fault::Repeat { message: at },
                    _ => Fault::Damage { message: at, bit: random.random_range(0..1 << 20) },
                };
                // Splits of text that S3 Select cannot hold back are read plainly, where nothing
                // tells damage.
                let is_untold = level == "select" && matches!(fault, Fault::Damage { .. });
                let buffer_bytes = if random.random_bool(0.2) && !is_untold { "1" } else { "33554432" };
                let stays = random.random_bool(0.3);
                all.push(Case { operator, level, request, fault, stays, buffer_bytes });
            }
            let status = ["500 Internal Server Error", "503 Slow Down", "501 Not Implemented", "403 Forbidden"];
            let fault = Fault::Refuse(status.choose(random).expect("one"));
            all.push(Case { operator, level, request, fault, stays: random.random(), buffer_bytes: "33554432" });
        }
    }
    all
}

/// How a query with a fault may end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Mended,
    GaveUp,
    Failed,
}

impl Case {
    async fn strike(&self, world: &World, plain: &Rows) -> std::result::Result<Outcome, String> {
        let (request, fault, stays) = (self.request, self.fault, self.stays);
        let strikes = move |place, kind| place == request || (stays && place > request && kind != Kind::Get);
        let plan = move |place, kind| strikes(place, kind).then_some(fault);
        let proxy = Proxy::start(&world.endpoint, plan, || {}).await;
        let settings: Vec<_> =
            self.operator.settings.iter().copied().chain([("buffer_bytes", self.buffer_bytes)]).collect();
        let engine = engine(&World::at(proxy.endpoint()), self.level, &settings).await;
        let outcome = judge(rows_in_spite(&engine, self.operator.sql).await, plain)?;
        if proxy.seen().spoiled == 0 {
            return Err("the fault was not met".to_owned());
        }
        // Where nothing had to leave early and plain reads work, storage is not needed for the
        // rows.
        if outcome == Outcome::Failed && self.buffer_bytes != "1" && !self.strikes_a_get(&proxy) {
            return Err("it failed though plain reads work".to_owned());
        }
        Ok(outcome)
    }

    fn strikes_a_get(&self, proxy: &Proxy) -> bool {
        proxy.seen().answers.get(self.request).is_some_and(|(kind, _)| *kind == Kind::Get)
    }
}

/// Right rows, or an error that is not the engine's own.
fn judge(answer: Result<(Rows, Report)>, plain: &Rows) -> std::result::Result<Outcome, String> {
    match answer {
        Ok((got, report)) => match differ(&got, plain) {
            Some(problem) => Err(format!("WRONG ROWS: {problem}")),
            None if report.usage.strategies.iter().any(|told| gave_up(told)) => Ok(Outcome::GaveUp),
            None => Ok(Outcome::Mended),
        },
        Err(error) => match error.kind() {
            ErrorKind::Unavailable | ErrorKind::Corrupt | ErrorKind::Throttled | ErrorKind::Denied => {
                Ok(Outcome::Failed)
            }
            ErrorKind::Unsupported if error.message().contains("were passed on") => Ok(Outcome::Failed),
            kind => Err(format!("an unclear error, {kind:?}: {error}")),
        },
    }
}
