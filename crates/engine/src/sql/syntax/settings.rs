//! `SET` and `RESET` of the settings `pushdown.*`, rewritten to what DataFusion can plan.
//!
//! | written | rewritten to |
//! | --- | --- |
//! | `SET pushdown.threads = 4` | `SET datafusion.execution.target_partitions = 4` |
//! | `SET threads = 4`, `SET memory_limit = '1G'`, `SET TimeZone = 'UTC'` | `SET pushdown.…` |
//! | `SET datafusion.runtime.memory_limit = '1G'` | `SET pushdown.memory = '1G'` |
//! | `RESET pushdown.level` | `SET pushdown.level = 'auto'`: DataFusion resets its own settings only |

use datafusion::common::config::{ConfigExtension, ExtensionOptions};
use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{Expr, Ident, ObjectName, Set, Statement as SqlStatement, Value};
use pushdowndb_contract::Error;

use crate::settings::PushdownOptions;

/// Short names of settings of DataFusion that users look for.
pub(crate) const ALIASES: [(&str, &str); 7] = [
    ("pushdown.threads", "datafusion.execution.target_partitions"),
    // Their names in DuckDB and PostgreSQL.
    ("threads", "datafusion.execution.target_partitions"),
    ("worker_threads", "datafusion.execution.target_partitions"),
    ("timezone", "datafusion.execution.time_zone"),
    ("memory_limit", "pushdown.memory"),
    ("max_memory", "pushdown.memory"),
    ("temp_directory", "pushdown.spill_disk"),
];

/// Settings of DataFusion that settings `pushdown.*` replace.
pub(crate) const REPLACED: [(&str, &str); 3] = [
    ("datafusion.runtime.memory_limit", "pushdown.memory"),
    ("datafusion.runtime.temp_directory", "pushdown.spill_disk"),
    ("datafusion.runtime.max_temp_directory_size", "pushdown.spill_disk_bytes"),
];

/// Rewrites a SET or RESET of a setting `pushdown.*` or of a short name.
pub(super) fn rewrite(statement: &mut Statement) {
    match statement {
        Statement::Statement(set) => {
            if let SqlStatement::Set(Set::SingleAssignment { variable, .. }) = set.as_mut()
                && let Some(name) = alias(variable)
            {
                *variable = name;
            }
        }
        Statement::Reset(ResetStatement::Variable(variable)) => {
            if let Some(name) = alias(variable) {
                *variable = name;
            }
            if let Some(value) = default_of(&written(variable)) {
                *statement = Statement::Statement(Box::new(SqlStatement::Set(Set::SingleAssignment {
                    scope: None,
                    hivevar: false,
                    variable: variable.clone(),
                    values: vec![Expr::value(Value::SingleQuotedString(value))],
                })));
            }
        }
        _ => {}
    }
}

/// Returns the name under which the setting `name` is stored: the full name of a short one, and the
/// replacement of one of DataFusion's that is replaced.
pub(crate) fn full_name(name: &str) -> &str {
    let mut all = ALIASES.iter().chain(&REPLACED);
    all.find(|(other, _)| other.eq_ignore_ascii_case(name)).map_or(name, |(_, full)| full)
}

fn alias(name: &ObjectName) -> Option<ObjectName> {
    let name = written(name);
    let full = full_name(&name);
    (full != name).then(|| ObjectName::from(full.split('.').map(Ident::new).collect::<Vec<_>>()))
}

fn written(name: &ObjectName) -> String {
    let parts = name.0.iter().map(|part| part.as_ident().map_or("", |ident| ident.value.as_str()));
    parts.collect::<Vec<_>>().join(".")
}

/// Returns the default of the setting `name`, if it is one of `pushdown.*`.
fn default_of(name: &str) -> Option<String> {
    let own = is_ours(name).then(|| PushdownOptions::default().entries())?;
    let key = name.get(PushdownOptions::PREFIX.len() + 1..)?;
    own.into_iter().find(|entry| entry.key.eq_ignore_ascii_case(key))?.value
}

/// Returns whether `name` is that of a setting `pushdown.*`.
pub(crate) fn is_ours(name: &str) -> bool {
    let prefix = name.split_once('.').map(|(prefix, _)| prefix);
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PushdownOptions::PREFIX))
}

/// Returns the hint to quote the value if `sql` is a SET whose value has no quotes, else `error`.
pub(crate) fn hint_quotes(sql: &str, error: Error) -> Error {
    let Some((name, value)) = sql.trim().trim_end_matches(';').split_once('=') else { return error };
    let mut words = name.split_whitespace();
    let (Some(set), Some(name), None) = (words.next(), words.next(), words.next()) else { return error };
    let value = value.trim();
    if !set.eq_ignore_ascii_case("set") || value.is_empty() || value.contains(['\'', '"']) {
        return error;
    }
    Error::new(error.kind(), format!("a value that is no number or word needs quotes: SET {name} = '{value}'"))
}

#[cfg(test)]
mod tests {
    use datafusion::sql::parser::DFParser;

    use super::*;

    #[test]
    fn a_value_without_quotes_gets_a_hint() {
        let hinted = |sql| hint_quotes(sql, Error::invalid("wrong")).message().to_owned();
        let hint = hinted("set pushdown.price_book = paper-egress;");
        assert!(hint.ends_with("needs quotes: SET pushdown.price_book = 'paper-egress'"), "{hint}");
        for other in ["SELECT a = b-c", "SET pushdown.level = 'no", "SET a", "SET a =", "UPDATE t SET a = b-c"] {
            assert_eq!(hinted(other), "wrong", "{other}");
        }
    }

    #[test]
    fn settings_of_ours_have_a_value_to_go_back_to() {
        assert_eq!(default_of("pushdown.level").as_deref(), Some("auto"));
        assert_eq!(default_of("PUSHDOWN.Split_Bytes").as_deref(), Some("16777216"));
        assert_eq!((default_of("pushdown.levle"), default_of("datafusion.catalog.location")), (None, None));
    }

    #[test]
    fn short_names_and_resets_are_rewritten() {
        for (sql, expected) in [
            ("SET Pushdown.Threads = 4", "SET datafusion.execution.target_partitions = 4"),
            ("RESET pushdown.threads", "RESET datafusion.execution.target_partitions"),
            ("RESET datafusion.runtime.memory_limit", "SET pushdown.memory = 'auto'"),
            ("SET datafusion.runtime.temp_directory = '/tmp'", "SET pushdown.spill_disk = '/tmp'"),
            ("RESET pushdown.level", "SET pushdown.level = 'auto'"),
            ("RESET pushdown.levle", "RESET pushdown.levle"),
            ("SET pushdown.level = none", "SET pushdown.level = none"),
        ] {
            let mut statement = DFParser::parse_sql(sql).unwrap().pop_front().unwrap();
            rewrite(&mut statement);
            assert_eq!(statement.to_string(), expected);
        }
    }
}
