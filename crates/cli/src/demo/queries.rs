//! The queries of the demonstration: the paper's operators that storage can run, and three of TPC-H.

/// A query with a name.
pub struct Query {
    /// What the table calls it.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// The query.
    pub sql: &'static str,
}

/// In the order they are shown.
pub const QUERIES: [Query; 6] = [
    Query {
        name: "selective filter",
        about: "one row in ten thousand of lineitem",
        sql: include_str!("../../../../sql/tpch/op_filter_1em4.sql"),
    },
    Query {
        name: "projection",
        about: "two of lineitem's sixteen columns",
        sql: "SELECT l_orderkey, l_quantity FROM lineitem;",
    },
    Query {
        name: "scalar aggregate",
        about: "one row about the lines shipped by air",
        sql: "SELECT count(*) AS lines, sum(l_extendedprice) AS price, max(l_shipdate) AS last FROM lineitem WHERE l_shipmode = 'AIR';",
    },
    Query {
        name: "TPC-H Q1",
        about: "groups over nearly all rows, seven columns",
        sql: include_str!("../../../../sql/tpch/q01.sql"),
    },
    Query {
        name: "TPC-H Q6",
        about: "one sum over two rows in a hundred",
        sql: include_str!("../../../../sql/tpch/q06.sql"),
    },
    Query {
        name: "TPC-H Q14",
        about: "one month of lineitem joined with part",
        sql: include_str!("../../../../sql/tpch/q14.sql"),
    },
];
