//! The queries of `sql/tpch` by their names.

use anyhow::{Context, Result};

/// TPC-H, and the operators of the PushdownDB paper over its tables.
const TPCH: [(&str, &str); 31] = [
    ("op_filter_1em2", include_str!("../../../sql/tpch/op_filter_1em2.sql")),
    ("op_filter_1em4", include_str!("../../../sql/tpch/op_filter_1em4.sql")),
    ("op_filter_1em6", include_str!("../../../sql/tpch/op_filter_1em6.sql")),
    ("op_group_2", include_str!("../../../sql/tpch/op_group_2.sql")),
    ("op_group_32", include_str!("../../../sql/tpch/op_group_32.sql")),
    ("op_join_c450", include_str!("../../../sql/tpch/op_join_c450.sql")),
    ("op_join_c950", include_str!("../../../sql/tpch/op_join_c950.sql")),
    ("op_join_c950_o9203", include_str!("../../../sql/tpch/op_join_c950_o9203.sql")),
    ("op_topk_100", include_str!("../../../sql/tpch/op_topk_100.sql")),
    ("q01", include_str!("../../../sql/tpch/q01.sql")),
    ("q02", include_str!("../../../sql/tpch/q02.sql")),
    ("q03", include_str!("../../../sql/tpch/q03.sql")),
    ("q04", include_str!("../../../sql/tpch/q04.sql")),
    ("q05", include_str!("../../../sql/tpch/q05.sql")),
    ("q06", include_str!("../../../sql/tpch/q06.sql")),
    ("q07", include_str!("../../../sql/tpch/q07.sql")),
    ("q08", include_str!("../../../sql/tpch/q08.sql")),
    ("q09", include_str!("../../../sql/tpch/q09.sql")),
    ("q10", include_str!("../../../sql/tpch/q10.sql")),
    ("q11", include_str!("../../../sql/tpch/q11.sql")),
    ("q12", include_str!("../../../sql/tpch/q12.sql")),
    ("q13", include_str!("../../../sql/tpch/q13.sql")),
    ("q14", include_str!("../../../sql/tpch/q14.sql")),
    ("q15", include_str!("../../../sql/tpch/q15.sql")),
    ("q16", include_str!("../../../sql/tpch/q16.sql")),
    ("q17", include_str!("../../../sql/tpch/q17.sql")),
    ("q18", include_str!("../../../sql/tpch/q18.sql")),
    ("q19", include_str!("../../../sql/tpch/q19.sql")),
    ("q20", include_str!("../../../sql/tpch/q20.sql")),
    ("q21", include_str!("../../../sql/tpch/q21.sql")),
    ("q22", include_str!("../../../sql/tpch/q22.sql")),
];

/// The query with this name.
pub fn tpch(name: &str) -> Result<&'static str> {
    let found = TPCH.iter().find(|(known, _)| *known == name);
    found.map(|(_, text)| *text).with_context(|| format!("sql/tpch has no query '{name}'"))
}
