//! The queries, and their memory limits.

use super::answer::Checked;

/// A query that needs more memory than its limit.
#[derive(Clone, Copy, Debug)]
pub struct Query {
    pub name: &'static str,
    /// A description of what it spills, for the tables.
    pub about: &'static str,
    pub sql: &'static str,
    pub operator: Operator,
    /// The memory limit at scale 1, in bytes. Its ratio to the data that the operator holds is that
    /// of Databend's measurement: 1.5 GB for 2.9 GiB.
    pub memory_bytes: u64,
    /// How answers are compared.
    pub checked: Checked,
}

/// The operator that spills.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operator {
    Sort,
    Aggregate,
    Join,
}

/// The memory limit of the query `seed` at scale 1.
pub const SEED_MEMORY_BYTES: u64 = 15_000_000;

/// All queries; the first one is the query of Databend's measurement.
pub const QUERIES: [Query; 4] = [
    Query {
        name: "seed",
        about: "a sort of all of customer, of which the keys arrive in order",
        sql: "SELECT * FROM customer ORDER BY c_custkey, c_nationkey",
        operator: Operator::Sort,
        memory_bytes: SEED_MEMORY_BYTES,
        checked: Checked { column: "c_custkey", in_order: true },
    },
    Query {
        name: "sort",
        about: "a sort of wide rows of lineitem, of which the keys arrive in no order",
        sql: "SELECT * FROM lineitem WHERE l_shipdate >= DATE '1998-01-01' \
              ORDER BY l_extendedprice, l_orderkey, l_linenumber",
        operator: Operator::Sort,
        memory_bytes: 58_000_000,
        checked: Checked { column: "l_orderkey", in_order: true },
    },
    Query {
        name: "groups",
        about: "an aggregate with a group for each seven rows of lineitem",
        sql: "SELECT l_partkey, l_suppkey, count(*) AS parts, sum(l_quantity) AS quantity, \
              max(l_extendedprice) AS price FROM lineitem GROUP BY l_partkey, l_suppkey",
        operator: Operator::Aggregate,
        memory_bytes: 30_000_000,
        checked: Checked { column: "l_partkey", in_order: false },
    },
    Query {
        name: "join",
        about: "a join of lineitem with orders, which is the smaller side",
        sql: "SELECT l_shipmode, count(*) AS items, max(o_comment) AS comment, sum(l_extendedprice) AS price \
              FROM orders JOIN lineitem ON o_orderkey = l_orderkey GROUP BY l_shipmode",
        operator: Operator::Join,
        memory_bytes: 60_000_000,
        checked: Checked { column: "items", in_order: false },
    },
];
