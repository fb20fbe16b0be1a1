//! The arguments of commands.

use anyhow::Result;
use pushdowndb_contract::Error;

/// An argument without its quotes.
pub fn unquoted(text: &str) -> &str {
    let text = text.trim();
    let inner = |quote| text.strip_prefix(quote).and_then(|t: &str| t.strip_suffix(quote));
    inner('\'').or_else(|| inner('"')).unwrap_or(text)
}

/// Quotes a text as an SQL string.
pub fn quoted_for_sql(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Converts an argument to the name of a table in SQL: an address becomes a quoted name, other
/// names stay as they are.
pub fn table_name(argument: &str) -> String {
    let bare = unquoted(argument);
    let is_address = bare.contains(['/', '*']) || argument.starts_with('\'');
    if is_address { format!("\"{}\"", bare.replace('"', "\"\"")) } else { argument.to_owned() }
}

/// Returns an argument without its quotes. An empty argument is an error, which says that `what` is
/// needed.
pub fn needed<'a>(argument: &'a str, what: &str) -> Result<&'a str> {
    let argument = unquoted(argument);
    if argument.is_empty() { Err(Error::invalid(format!("this needs {what}")).into()) } else { Ok(argument) }
}

/// Returns and prints the new value of a switch. An empty argument toggles it.
pub fn switch(name: &str, argument: &str, now: bool) -> Result<bool> {
    let next = match argument.to_ascii_lowercase().as_str() {
        "" => !now,
        "on" | "true" => true,
        "off" | "false" => false,
        other => return Err(Error::invalid(format!("{name} {other}: on or off")).into()),
    };
    eprintln!("{name} {}", if next { "on" } else { "off" });
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_lose_their_quotes() {
        assert_eq!(unquoted(" 'a b' "), "a b");
        assert_eq!(unquoted("\"x\""), "x");
        assert_eq!(unquoted("it's"), "it's");
        assert_eq!(table_name("lineitem"), "lineitem");
        assert_eq!(table_name("s3://b/x.csv"), "\"s3://b/x.csv\"");
        assert_eq!(quoted_for_sql("it's"), "'it''s'");
    }

    #[test]
    fn switches_toggle_without_an_argument() {
        assert!(switch("\\x", "", false).unwrap());
        assert!(!switch("\\x", "off", true).unwrap());
        assert!(switch("\\x", "maybe", true).is_err());
    }
}
