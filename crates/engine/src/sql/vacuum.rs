//! `VACUUM TEMPORARY FILES`: deletes spilled data that queries of ended processes left.
//!
//! ```sql
//! VACUUM TEMPORARY FILES [OLDER THAN [INTERVAL] '2 hours']
//! ```

use std::time::Duration;

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;
use pushdowndb_contract::{Error, Result};

use super::words::Words;

const USAGE: &str = "VACUUM TEMPORARY FILES [OLDER THAN '2 hours']";

/// The age from which files in an object store are deleted, if the statement names none. Other
/// machines may use them: their manifests are written anew each hour.
const DEFAULT_AGE: Duration = Duration::from_secs(24 * 60 * 60);

/// A VACUUM statement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Vacuum {
    /// The age from which files in an object store are deleted.
    pub(crate) older_than: Duration,
}

/// Parses VACUUM; `None` for other statements.
pub(crate) fn parse(tokens: &[TokenWithSpan]) -> Result<Option<Vacuum>> {
    let mut words = Words::new(tokens, USAGE);
    if !words.takes(&["VACUUM"]) {
        return Ok(None);
    }
    if !words.takes(&["TEMPORARY", "FILES"]) {
        return Err(words.expected("TEMPORARY FILES"));
    }
    let mut older_than = DEFAULT_AGE;
    if words.takes(&["OLDER", "THAN"]) {
        words.takes(&["INTERVAL"]);
        let text = words.text("an age such as '2 hours'")?;
        older_than = humantime::parse_duration(&text).map_err(|error| {
            Error::invalid(format!("'{text}' is no age, such as '30 minutes' or '2 days': {error}"))
        })?;
    }
    words.end()?;
    Ok(Some(Vacuum { older_than }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse_with;

    #[test]
    fn ages_have_units() {
        let parse = |sql| parse_with(sql, parse);
        let vacuum = |seconds| Some(Vacuum { older_than: Duration::from_secs(seconds) });
        assert_eq!(parse("vacuum temporary files;").unwrap(), vacuum(86_400));
        assert_eq!(parse("VACUUM TEMPORARY FILES OLDER THAN '2 hours'").unwrap(), vacuum(7200));
        assert_eq!(parse("VACUUM TEMPORARY FILES OLDER THAN INTERVAL '0 s'").unwrap(), vacuum(0));
        assert_eq!(parse("SELECT 1").unwrap(), None);
        for wrong in ["VACUUM", "VACUUM t", "VACUUM TEMPORARY FILES OLDER", "VACUUM TEMPORARY FILES OLDER THAN 'x'"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
