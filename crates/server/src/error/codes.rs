//! The SQLSTATE code of an error, by its kind and, where that is too general, by its text.

use pushdowndb_contract::{Error, ErrorKind};

/// Codes of errors that the server itself detects.
pub(crate) mod code {
    pub const PROTOCOL: &str = "08P01";
    pub const UNSUPPORTED: &str = "0A000";
    pub const INVALID_VALUE: &str = "22023";
    pub const NO_TRANSACTION: &str = "25P01";
    pub const IN_TRANSACTION: &str = "25001";
    pub const FAILED_TRANSACTION: &str = "25P02";
    pub const NO_STATEMENT: &str = "26000";
    pub const INVALID_AUTHORIZATION: &str = "28000";
    pub const INVALID_PASSWORD: &str = "28P01";
    pub const NO_CURSOR: &str = "34000";
    pub const NO_SAVEPOINT: &str = "3B001";
    pub const DENIED: &str = "42501";
    pub const SYNTAX: &str = "42601";
    pub const NO_OBJECT: &str = "42704";
    pub const DUPLICATE_CURSOR: &str = "42P03";
    pub const DUPLICATE_STATEMENT: &str = "42P05";
    pub const TOO_MANY_CONNECTIONS: &str = "53300";
    pub const LIMIT: &str = "53400";
    pub const CANCELLED: &str = "57014";
    pub const SHUTDOWN: &str = "57P01";
}

/// The code of an error, whose text is `message`.
pub(super) fn code_of(error: &Error, message: &str) -> &'static str {
    match error.kind() {
        ErrorKind::Invalid => invalid(message),
        ErrorKind::Unsupported if message.contains("Unsupported SQL type") => code::NO_OBJECT,
        ErrorKind::Unsupported => code::UNSUPPORTED,
        // A file or object does not exist, or its folder or bucket.
        ErrorKind::NotFound => "58P01",
        ErrorKind::Denied => code::DENIED,
        // The client may try again.
        ErrorKind::Conflict => "40001",
        ErrorKind::Limit if message.contains("query_timeout_s") => code::CANCELLED,
        ErrorKind::Limit if message.contains("pushdown.memory") || message.contains("they may have") => "53200",
        ErrorKind::Limit => "54000",
        ErrorKind::Throttled => "53000",
        ErrorKind::Unavailable => "58030",
        ErrorKind::Corrupt => "XX001",
        ErrorKind::Cancelled => code::CANCELLED,
        _ => "XX000",
    }
}

/// Parts of messages about wrong queries, in lower case, and their codes. The first match counts.
const CODES: [(&str, &str); 60] = [
    ("divide by zero", "22012"),
    ("division by zero", "22012"),
    ("out of range", "22003"),
    ("overflow", "22003"),
    ("beyond postgresql's range", "22003"),
    ("too large", "22003"),
    ("can't cast value", "22003"),
    ("there is no table", "42P01"),
    ("already exists", "42P07"),
    ("exists already", "42P07"),
    ("no field named", "42703"),
    ("ambiguous", "42702"),
    ("invalid function", "42883"),
    ("no function", "42883"),
    ("failed to match any signature", "42883"),
    ("does not take", "42883"),
    ("cannot coerce arithmetic expression", "42883"),
    ("value of date type", "22007"),
    ("value of time type", "22007"),
    ("value of timestamp", "22007"),
    ("invalid input syntax for type interval", "22007"),
    ("error parsing", "22007"),
    ("cannot cast string", "22P02"),
    ("cannot cast value", "22P02"),
    ("cannot parse", "22P02"),
    ("is no text value", "22P02"),
    ("is no binary value", "22P03"),
    ("must be in the group by", "42803"),
    ("must stand in group by", "42803"),
    ("aggregate functions are not allowed", "42803"),
    ("cannot be resolved from available columns", "42803"),
    ("there is no setting", code::NO_OBJECT),
    ("returned more than one row", "21000"),
    ("the subquery should only return one column", code::SYNTAX),
    ("different number of columns", code::SYNTAX),
    ("inconsistent data length across values", code::SYNTAX),
    ("order by column out of bounds", "42P10"),
    ("limit must be", "2201W"),
    ("offset must be", "2201X"),
    ("expected limit to be", "42804"),
    ("expected offset to be", "42804"),
    ("non-boolean predicate", "42804"),
    ("duplicate qualified field name", "42712"),
    ("specified more than once", "42712"),
    ("duplicate unqualified field name", "42701"),
    ("was not provided a value", "42P02"),
    ("negative count not allowed", "22011"),
    ("sqrt takes a number", "2201F"),
    ("ln takes a positive number", "2201E"),
    ("log takes a positive number", "2201E"),
    ("log10 takes a positive number", "2201E"),
    ("log2 takes a positive number", "2201E"),
    ("regex parse error", "2201B"),
    ("unsupported date_trunc granularity", code::INVALID_VALUE),
    ("date part", code::INVALID_VALUE),
    ("step cannot be zero", code::INVALID_VALUE),
    ("expected:", code::SYNTAX),
    ("expected temporary files", code::SYNTAX),
    ("this is not sql", code::SYNTAX),
    ("unterminated", code::SYNTAX),
];

/// The code for an error in the query.
fn invalid(message: &str) -> &'static str {
    let lower = message.to_lowercase();
    // A message of DataFusion: `Table 'x' doesn't exist.`
    if lower.ends_with("doesn't exist.") && (lower.starts_with("table '") || lower.starts_with("view '")) {
        return "42P01";
    }
    CODES.iter().find(|(part, _)| lower.contains(part)).map_or("42000", |(_, code)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_query_did_wrong_is_told_apart() {
        for (message, expected) in [
            ("there is no table t; declare it", "42P01"),
            ("Table 't' doesn't exist.", "42P01"),
            ("Divide by zero error", "22012"),
            ("Expected: an expression, found: FROM", "42601"),
            ("Cannot cast string '2024-13-01' to value of DATE type", "22007"),
            ("Cannot cast string 'x' to value of INT type", "22P02"),
            ("sum does not take VARCHAR", "42883"),
            ("something else", "42000"),
        ] {
            assert_eq!(code_of(&Error::invalid(message), message), expected, "{message}");
        }
        let message = "Unsupported SQL type NOSUCHTYPE";
        assert_eq!(code_of(&Error::new(ErrorKind::Unsupported, message), message), "42704");
    }
}
