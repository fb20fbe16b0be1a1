//! Whether a query is about the server's catalog, and the command tags of statements.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::words::Words;

/// Functions that PostgreSQL has and the engine lacks, besides those that begin with `pg_`.
const FUNCTIONS: [&str; 34] = [
    "array_lower",
    "array_upper",
    "col_description",
    "current_database",
    "current_schema",
    "current_schemas",
    "current_setting",
    "format_type",
    "generate_subscripts",
    "getdatabaseencoding",
    "has_any_column_privilege",
    "has_column_privilege",
    "has_database_privilege",
    "has_function_privilege",
    "has_schema_privilege",
    "has_sequence_privilege",
    "has_table_privilege",
    "inet_client_addr",
    "inet_client_port",
    "inet_server_addr",
    "inet_server_port",
    "obj_description",
    "parse_ident",
    "quote_ident",
    "set_config",
    "shobj_description",
    "to_regclass",
    "to_regnamespace",
    "to_regproc",
    "to_regrole",
    "to_regtype",
    "txid_current",
    "txid_current_if_assigned",
    "version",
];

/// Functions that are called without parentheses.
const VALUES: [&str; 6] =
    ["current_catalog", "current_role", "current_schema", "current_user", "session_user", "system_user"];

/// Types that refer to objects of the catalog.
const TYPES: [&str; 6] = ["regclass", "regtype", "regproc", "regprocedure", "regnamespace", "regrole"];

/// Whether a query is about the server's catalog: it names a table or a function of `pg_catalog`,
/// or the `information_schema`.
pub(crate) fn is_about_catalogue(sql: &str) -> bool {
    let words = Words::new(sql);
    let marks: Vec<&Token> = words.marks().collect();
    let word = |at: usize| match marks.get(at) {
        Some(Token::Word(word)) => Some((word.value.to_ascii_lowercase(), word.quote_style.is_some())),
        _ => None,
    };
    let is_query = word(0).is_none_or(|(first, _)| {
        ["select", "with", "values", "table", "explain", "show", "describe"].contains(&first.as_str())
    });
    is_query
        && (0..marks.len()).any(|at| {
            let Some((name, is_quoted)) = word(at) else { return false };
            let after_point = at > 0 && marks.get(at - 1) == Some(&&Token::Period);
            let before_point = marks.get(at + 1) == Some(&&Token::Period);
            let is_call = marks.get(at + 1) == Some(&&Token::LParen);
            let is_cast = at > 0 && marks.get(at - 1) == Some(&&Token::DoubleColon);
            // A column of a table is not a name of the catalog.
            let is_own =
                !after_point || matches!(word(at.saturating_sub(2)), Some((schema, _)) if schema == "pg_catalog");
            (before_point && matches!(name.as_str(), "pg_catalog" | "information_schema"))
                || (is_own && name.starts_with("pg_") && (is_call || is_relation(&marks, at)))
                || (is_own && is_call && FUNCTIONS.contains(&name.as_str()))
                || (is_own && !is_quoted && !is_call && VALUES.contains(&name.as_str()))
                || (is_cast && TYPES.contains(&name.as_str()))
        })
}

/// Whether the name at `at` is in the position of a table: after FROM, JOIN or a comma.
fn is_relation(marks: &[&Token], at: usize) -> bool {
    match at.checked_sub(1).and_then(|before| marks.get(before)) {
        Some(Token::Word(before)) => {
            ["from", "join", "table", "describe"].contains(&before.value.to_ascii_lowercase().as_str())
        }
        Some(Token::Comma | Token::LParen) => true,
        _ => false,
    }
}

/// The command tag of a statement that the engine has run. The number of rows is added to `SELECT`.
pub(crate) fn tag(sql: &str) -> &'static str {
    let mut words = Words::new(sql);
    let first = words.keyword().unwrap_or_default();
    match first.as_str() {
        "CREATE" => {
            words.takes_all(&["OR", "REPLACE"]);
            for word in ["LOCAL", "TEMPORARY", "TEMP"] {
                words.takes_all(&[word]);
            }
            match words.keyword().unwrap_or_default().as_str() {
                "VIEW" => "CREATE VIEW",
                "SCHEMA" => "CREATE SCHEMA",
                "INDEX" => "CREATE INDEX",
                "FUNCTION" => "CREATE FUNCTION",
                "DATABASE" => "CREATE DATABASE",
                _ => "CREATE TABLE",
            }
        }
        "DROP" => match words.keyword().unwrap_or_default().as_str() {
            "VIEW" => "DROP VIEW",
            "SCHEMA" => "DROP SCHEMA",
            "INDEX" => "DROP INDEX",
            "FUNCTION" => "DROP FUNCTION",
            _ => "DROP TABLE",
        },
        "COPY" => "COPY",
        "INSERT" => "INSERT 0",
        "UPDATE" => "UPDATE",
        "DELETE" => "DELETE",
        "ANALYZE" => "ANALYZE",
        "VACUUM" => "VACUUM",
        "SET" | "RESET" => "SET",
        _ => "SELECT",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn catalogue_queries_are_told_from_others() {
        for sql in [
            "SELECT * FROM pg_catalog.pg_class",
            "select relname from pg_class c join pg_namespace n on true",
            "SELECT c.oid FROM pg_catalog.pg_class c WHERE pg_catalog.pg_table_is_visible(c.oid)",
            "SELECT version()",
            "select pg_catalog.version()",
            "SELECT current_user",
            "SELECT current_schema()",
            "SELECT 'x'::regclass::oid",
            "SELECT * FROM information_schema.tables",
            "SHOW pg_x; SELECT pg_backend_pid()",
            "WITH x AS (SELECT 1) SELECT * FROM x, pg_type",
        ] {
            assert!(is_about_catalogue(sql), "{sql}");
        }
        for sql in [
            "SELECT 1",
            "SELECT version FROM releases",
            "SELECT t.pg_price FROM t",
            "SELECT pg_price FROM 's3://b/pg_class.csv'",
            "SELECT 'pg_catalog.pg_class'",
            "SELECT t.version() FROM t",
            "COPY (SELECT 1) TO 's3://b/pg_x'",
            "CREATE VIEW v AS SELECT * FROM pg_class",
        ] {
            assert!(!is_about_catalogue(sql), "{sql}");
        }
    }

    #[test]
    fn statements_have_the_tags_of_postgres() {
        assert_eq!(tag("create or replace view v as select 1"), "CREATE VIEW");
        assert_eq!(tag("CREATE EXTERNAL TABLE t STORED AS CSV"), "CREATE TABLE");
        assert_eq!(tag("WITH a AS (SELECT 1) SELECT * FROM a"), "SELECT");
        assert_eq!(tag("COPY t TO 'x'"), "COPY");
    }
}
