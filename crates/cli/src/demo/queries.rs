//! The queries of the demonstration: the paper's operators, and three of TPC-H.

/// A query with a name.
pub struct Query {
    /// The name in the table.
    pub name: &'static str,
    /// A short description.
    pub about: &'static str,
    /// The query.
    pub sql: &'static str,
}

/// The queries in the order of the table.
pub const QUERIES: [Query; 8] = [
    Query {
        name: "selective filter",
        about: "one row in ten thousand of lineitem",
        sql: include_str!("../../../../sql/tpch/op_filter_1em4.sql"),
    },
    Query {
        name: "scalar aggregate",
        about: "one row about the lines shipped by air",
        sql: "SELECT count(*) AS lines, sum(l_extendedprice) AS price, max(l_shipdate) AS last FROM lineitem WHERE l_shipmode = 'AIR';",
    },
    Query {
        name: "group-by",
        about: "four sums for each of 32 groups of lineitem",
        sql: include_str!("../../../../sql/tpch/op_group_32.sql"),
    },
    Query {
        name: "join",
        about: "the orders of one customer in two hundred",
        sql: include_str!("../../../../sql/tpch/op_join_c950.sql"),
    },
    Query {
        name: "top-k",
        about: "the cheapest hundred of lineitem",
        sql: include_str!("../../../../sql/tpch/op_topk_100.sql"),
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
