//! Queries from chance: each has one answer, in one order where it has an order.

use arrow::datatypes::DataType;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::data::literal;

/// What settings a query is about.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Family {
    Rows,
    Scalar,
    Groups,
    Joins,
    TopK,
}

impl Family {
    pub const ALL: [Self; 5] = [Self::Rows, Self::Scalar, Self::Groups, Self::Joins, Self::TopK];

    /// The settings under which its queries run, beside the level.
    pub fn settings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Rows => &[("filter", "auto"), ("filter", "storage"), ("filter", "compute"), ("filter", "index")],
            Self::Scalar => &[("aggregate", "auto"), ("aggregate", "storage"), ("filter", "compute")],
            Self::Groups => &[
                ("group_by", "auto"),
                ("group_by", "compute"),
                ("group_by", "filtered"),
                ("group_by", "storage"),
                ("group_by", "hybrid"),
            ],
            Self::Joins => &[("join", "auto"), ("join", "baseline"), ("join", "filtered"), ("join", "bloom")],
            Self::TopK => &[("top_k", "auto"), ("top_k", "compute"), ("top_k", "sampling"), ("top_k", "storage")],
        }
    }
}

/// A query and how its answers compare.
pub struct Query {
    pub sql: String,
    pub check: Check,
}

pub enum Check {
    /// The same rows.
    Rows,
    /// The same rows in the same order.
    Ordered,
    /// As many rows, each of them one of this query's.
    Among(String),
}

const DECIMAL: DataType = DataType::Decimal128(15, 2);

/// The columns of facts that may be NULL.
static COLUMNS: [(&str, DataType); 9] = [
    ("p", DataType::Decimal128(38, 4)),
    ("k", DataType::Int64),
    ("e", DataType::Int64),
    ("n", DataType::Int32),
    ("m", DECIMAL),
    ("f", DataType::Float64),
    ("g", DataType::Utf8),
    ("d", DataType::Date32),
    ("b", DataType::Boolean),
];

/// Draws a query of this family over these facts and this dimension.
pub fn draw(rng: &mut StdRng, family: Family, facts: &str, dimension: &str) -> Query {
    let filter = if rng.random_bool(0.7) { format!(" WHERE {}", predicate(rng, 3)) } else { String::new() };
    let (sql, check) = match family {
        Family::Rows if rng.random_bool(0.15) => {
            let all = format!("SELECT id, g FROM {facts}{filter}");
            (format!("{all} LIMIT {}", rng.random_range(0..50)), Check::Among(all))
        }
        Family::Rows => {
            let columns = some(rng, &["id", "k", "e", "n", "m", "f", "g", "d", "b", "n + 1", "upper(g)", "m * 2"]);
            (format!("SELECT {columns} FROM {facts}{filter}"), Check::Rows)
        }
        Family::Scalar => (format!("SELECT {} FROM {facts}{filter}", aggregates(rng)), Check::Rows),
        Family::Groups => (groups(rng, facts, &filter), Check::Rows),
        Family::Joins => (join(rng, facts, dimension), Check::Rows),
        Family::TopK => (top_k(rng, facts, &filter), Check::Ordered),
    };
    Query { sql, check }
}

/// One to four of these, separated.
fn some(rng: &mut StdRng, of: &[&str]) -> String {
    let count = rng.random_range(1..5);
    of.choose_multiple(rng, count).copied().collect::<Vec<_>>().join(", ")
}

fn aggregates(rng: &mut StdRng) -> String {
    let calls = [
        "count(*)",
        "count(k)",
        "count(g)",
        "sum(n)",
        "sum(m)",
        "sum(f)",
        "avg(n)",
        "avg(m)",
        "min(e)",
        "max(e)",
        "min(g)",
        "max(g)",
        "min(d)",
        "max(d)",
        "min(m)",
        "max(f)",
        "sum(n * 2 + 1)",
        "sum(CASE WHEN n > 0 THEN n ELSE 0 END)",
        "min(p)",
        "max(p)",
        "count(p)",
        "count(DISTINCT k)",
        "count(DISTINCT g)",
        "count(DISTINCT p)",
        "count(*) FILTER (WHERE n > 0)",
        "sum(m) FILTER (WHERE b)",
        "avg(n) FILTER (WHERE g IS NOT NULL)",
        "min(e) FILTER (WHERE n < 0)",
        "max(p) FILTER (WHERE k > 100)",
        "count(DISTINCT n) FILTER (WHERE b)",
    ];
    // DISTINCT of several, which is left to the aggregate above.
    if rng.random_bool(0.1) {
        return some(rng, &["count(DISTINCT k)", "count(DISTINCT g)", "sum(DISTINCT n)", "max(e)", "min(d)"]);
    }
    some(rng, &calls)
}

fn groups(rng: &mut StdRng, facts: &str, filter: &str) -> String {
    let keys = ["g", "k", "e", "b", "d", "n", "n % 5", "m", "p", "CASE WHEN n > 0 THEN 'up' ELSE g END"];
    let mut keys: Vec<&str> = keys.choose_multiple(rng, 2).copied().collect();
    keys.truncate(rng.random_range(1..3));
    let keys = keys.join(", ");
    if rng.random_bool(0.15) {
        return format!("SELECT DISTINCT {keys} FROM {facts}{filter}");
    }
    let having = match rng.random_range(0..4) {
        0 => " HAVING count(*) > 1",
        1 => " HAVING sum(n) > 0",
        _ => "",
    };
    let by = match rng.random_range(0..8) {
        0 => format!("ROLLUP ({keys})"),
        1 => format!("CUBE ({keys})"),
        2 => format!("GROUPING SETS (({keys}), ())"),
        _ => keys.clone(),
    };
    format!("SELECT {keys}, {} FROM {facts}{filter} GROUP BY {by}{having}", aggregates(rng))
}

fn join(rng: &mut StdRng, facts: &str, dimension: &str) -> String {
    let on = *[
        "t.k = u.k",
        "t.k = u.k",
        "t.e = u.e",
        "t.g = u.s",
        "t.p = u.p",
        "t.n = u.w",
        "t.k = u.k AND t.g = u.s",
        "t.k = u.k AND t.e = u.e",
        "t.e = u.e AND t.n = u.w AND t.p = u.p",
        "t.k + 1 = u.k",
        "t.k = u.k - 3 AND t.e = u.e",
        "2 - t.k = u.k",
        "t.n + 1 = u.k",
    ]
    .choose(rng)
    .unwrap();
    let mut tests = vec![predicate(rng, 2)];
    tests.push(format!("u.w {} {}", comparison(rng), rng.random_range(-9..9)));
    tests.shuffle(rng);
    tests.truncate(rng.random_range(0..3));
    // Columns of facts are named alone; these are in both tables.
    let qualified = |test: &str| -> String {
        test.split(' ')
            .map(|word| if matches!(word, "k" | "e" | "p") { format!("t.{word}") } else { word.to_owned() })
            .collect::<Vec<_>>()
            .join(" ")
    };
    let tests: Vec<String> = tests.iter().map(|test| qualified(test)).collect();
    let inner: Vec<&str> = tests.iter().map(String::as_str).filter(|test| test.starts_with("u.")).collect();
    let outer: Vec<&str> = tests.iter().map(String::as_str).filter(|test| !test.starts_with("u.")).collect();
    let and = |start: &str, tests: &[&str]| match tests {
        [] => String::new(),
        tests => format!(" {start} {}", tests.join(" AND ")),
    };
    let all: Vec<&str> = tests.iter().map(String::as_str).collect();
    match rng.random_range(0..9_usize) {
        0 => format!(
            "SELECT t.id FROM {facts} t WHERE t.k IN (SELECT k FROM {dimension} u{}){}",
            and("WHERE", &inner),
            and("AND", &outer)
        ),
        1 => format!(
            "SELECT t.id FROM {facts} t WHERE t.k NOT IN (SELECT k FROM {dimension} u{}){}",
            and("WHERE", &inner),
            and("AND", &outer)
        ),
        kind @ (2 | 3) => {
            let not = if kind == 2 { "" } else { "NOT " };
            format!(
                "SELECT t.id FROM {facts} t WHERE {not}EXISTS (SELECT 1 FROM {dimension} u WHERE {on}{}){}",
                and("AND", &inner),
                and("AND", &outer)
            )
        }
        4 => format!(
            "SELECT u.s, count(*), sum(t.n), min(t.d) FROM {facts} t JOIN {dimension} u ON {on}{} GROUP BY u.s",
            and("WHERE", &all)
        ),
        kind => {
            let join = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"][kind - 5];
            format!("SELECT t.id, t.k, u.s, u.w FROM {facts} t {join} {dimension} u ON {on}{}", and("WHERE", &all))
        }
    }
}

fn top_k(rng: &mut StdRng, facts: &str, filter: &str) -> String {
    let mut keys: Vec<&str> = ["k", "e", "n", "m", "f", "g", "d", "p"].choose_multiple(rng, 2).copied().collect();
    keys.truncate(rng.random_range(1..3));
    let order = |rng: &mut StdRng| *["", " DESC", " NULLS FIRST", " DESC NULLS LAST"].choose(rng).unwrap();
    let keys: Vec<String> = keys.iter().map(|key| format!("{key}{}", order(rng))).collect();
    let offset = if rng.random_bool(0.3) { format!(" OFFSET {}", rng.random_range(0..30)) } else { String::new() };
    let limit = rng.random_range(1..60);
    // The last key makes the order total.
    format!(
        "SELECT id, {} FROM {facts}{filter} ORDER BY {}, id LIMIT {limit}{offset}",
        some(rng, &["k", "g", "m", "d"]),
        keys.join(", ")
    )
}

fn comparison(rng: &mut StdRng) -> &'static str {
    ["=", "<>", "<", "<=", ">", ">="].choose(rng).unwrap()
}

/// A predicate on facts; its words are separated so that they can be qualified.
fn predicate(rng: &mut StdRng, depth: u32) -> String {
    if depth > 0 && rng.random_bool(0.5) {
        let (a, b) = (predicate(rng, depth - 1), predicate(rng, depth - 1));
        return match rng.random_range(0..5) {
            0 | 1 => format!("( {a} AND {b} )"),
            2 | 3 => format!("( {a} OR {b} )"),
            _ => format!("NOT ( {a} )"),
        };
    }
    let (column, kind) = COLUMNS.choose(rng).unwrap();
    let (one, two) = (literal(rng, kind), literal(rng, kind));
    let not = if rng.random_bool(0.3) { "NOT " } else { "" };
    match rng.random_range(0..10) {
        0 => format!("{column} IS {not}NULL"),
        1 => format!("{column} {not}IN ( {one} , {two} )"),
        2 if *kind != DataType::Boolean => format!("{column} {not}BETWEEN {one} AND {two}"),
        3 => format!("n % 3 {} {}", comparison(rng), rng.random_range(-2..3)),
        4 => format!("g {not}LIKE '{}'", ["%a%", "x%", "_", "%\"%", "%\\%", "_1%", "%ü%"].choose(rng).unwrap()),
        5 => format!("coalesce( n , 7 ) {} {}", comparison(rng), rng.random_range(-100..100)),
        6 => format!("char_length( g ) {} {}", comparison(rng), rng.random_range(0..8)),
        7 => format!("( {column} IS {not}DISTINCT FROM {one} )"),
        8 => format!("n * 2 {} m", comparison(rng)),
        _ => format!("{column} {} {one}", comparison(rng)),
    }
}
