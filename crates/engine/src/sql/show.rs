//! `SHOW ALL` and `SHOW pushdown.x`: DataFusion would show these settings without their prefix.

use datafusion::common::config::ConfigExtension;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use pushdowndb_contract::Result;

use super::words::Words;
use crate::settings::PushdownOptions;

/// The settings that a SHOW asks for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Shown {
    /// A setting `pushdown.*`.
    One(String),
    /// All settings, including DataFusion's.
    All,
}

/// Parses `SHOW pushdown.x` and `SHOW ALL`; `None` for other statements, among them SHOW of
/// DataFusion's settings.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<Option<Shown>> {
    let mut words = Words::new(tokens, "SHOW ALL or SHOW pushdown.SETTING");
    if words.takes(&["SHOW", "ALL"]) {
        return Ok(words.end().is_ok().then_some(Shown::All));
    }
    if !(words.takes(&["SHOW", PushdownOptions::PREFIX]) && words.takes_mark(&Token::Period)) {
        return Ok(None);
    }
    let name = words.name("a setting")?;
    words.end()?;
    Ok(Some(Shown::One(format!("{}.{name}", PushdownOptions::PREFIX))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse_with;

    #[test]
    fn settings_of_ours_are_shown_here() {
        let parse = |sql| parse_with(sql, parse);
        assert_eq!(parse("SHOW pushdown.level;").unwrap(), Some(Shown::One("pushdown.level".to_owned())));
        assert_eq!(parse("show all").unwrap(), Some(Shown::All));
        for other in [
            "SHOW ALL VERBOSE",
            "SHOW TABLES",
            "SHOW datafusion.catalog.location",
            "SELECT 'show pushdown.level'",
            "SHOW pushdown",
        ] {
            assert_eq!(parse(other).unwrap(), None, "{other}");
        }
        assert!(parse("SHOW pushdown.level or so").is_err());
    }
}
