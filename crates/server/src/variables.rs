//! Settings of PostgreSQL that clients set and query.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::error::{PgError, code};

/// The version of PostgreSQL in `server_version`, by which clients choose their queries.
pub(crate) const SERVER_VERSION: &str = "16.4";

/// Which values a setting accepts.
#[derive(Clone, Copy)]
enum Rule {
    /// Any value, since the setting has no effect here.
    Any,
    /// One of these values, in any case.
    OneOf(&'static [&'static str]),
    /// Only its default.
    Fixed,
}

use Rule::{Any, Fixed, OneOf};

/// The settings: name, default, rule, and whether a change is sent to clients as ParameterStatus.
const KNOWN: [(&str, &str, Rule, bool); 49] = [
    ("application_name", "", Any, true),
    ("array_nulls", "on", Any, false),
    ("backslash_quote", "safe_encoding", Any, false),
    ("bytea_output", "hex", OneOf(&["hex"]), false),
    ("client_encoding", "UTF8", OneOf(&["utf8", "utf-8", "unicode"]), true),
    ("client_min_messages", "notice", Any, false),
    ("datestyle", "ISO, MDY", OneOf(&["iso", "iso, mdy", "iso, dmy", "iso, ymd", "iso,mdy", "iso,dmy"]), true),
    ("default_transaction_deferrable", "off", Any, false),
    ("default_transaction_isolation", "read committed", Any, false),
    ("default_transaction_read_only", "off", Any, false),
    ("enable_hashjoin", "on", Any, false),
    ("enable_mergejoin", "on", Any, false),
    ("enable_nestloop", "on", Any, false),
    ("enable_seqscan", "on", Any, false),
    ("extra_float_digits", "1", Any, false),
    ("from_collapse_limit", "8", Any, false),
    ("geqo", "on", Any, false),
    ("idle_in_transaction_session_timeout", "0", Any, false),
    ("idle_session_timeout", "0", Any, false),
    ("in_hot_standby", "off", Fixed, true),
    ("integer_datetimes", "on", Fixed, true),
    ("intervalstyle", "postgres", OneOf(&["postgres"]), true),
    ("is_superuser", "off", Fixed, true),
    ("jit", "off", Any, false),
    ("join_collapse_limit", "8", Any, false),
    ("lc_collate", "C.UTF-8", Fixed, false),
    ("lc_ctype", "C.UTF-8", Fixed, false),
    ("lc_messages", "C.UTF-8", Any, false),
    ("lc_monetary", "C.UTF-8", Any, false),
    ("lc_numeric", "C.UTF-8", Any, false),
    ("lc_time", "C.UTF-8", Any, false),
    ("lock_timeout", "0", Any, false),
    ("max_identifier_length", "63", Fixed, false),
    ("max_index_keys", "32", Fixed, false),
    ("max_parallel_workers_per_gather", "2", Any, false),
    ("role", "none", Any, false),
    ("row_security", "on", Any, false),
    ("search_path", "\"$user\", public", Any, false),
    ("server_encoding", "UTF8", Fixed, true),
    ("server_version", SERVER_VERSION, Fixed, true),
    ("server_version_num", "160004", Fixed, false),
    ("standard_conforming_strings", "on", OneOf(&["on", "true", "1"]), true),
    ("statement_timeout", "0", Any, false),
    ("synchronous_commit", "on", Any, false),
    ("timezone", "UTC", Any, true),
    ("transaction_isolation", "read committed", Any, false),
    ("transaction_read_only", "off", Any, false),
    ("wal_level", "replica", Fixed, false),
    ("work_mem", "4MB", Any, false),
];

/// The spelling of a setting's name in messages to clients.
fn reported_name(name: &str) -> &str {
    match name {
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        "timezone" => "TimeZone",
        other => other,
    }
}

/// The settings of one session, which its catalogue shares.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedVariables(Arc<RwLock<BTreeMap<String, String>>>);

impl SharedVariables {
    /// The value of a setting; `None` if there is no such setting.
    pub fn get(&self, name: &str) -> Option<String> {
        let name = name.to_lowercase();
        let set = self.0.read().get(&name).cloned();
        set.or_else(|| known(&name).map(|(_, default, ..)| (*default).to_owned()))
    }

    /// Sets a setting. Returns the name and value to send as ParameterStatus, if clients track the
    /// setting.
    ///
    /// # Errors
    ///
    /// There is no such setting, or it does not accept the value.
    pub fn set(&self, name: &str, value: &str) -> Result<Option<(&'static str, String)>, PgError> {
        let name = name.to_lowercase();
        let Some((known, default, rule, is_reported)) = known(&name) else {
            return Err(PgError::new(code::NO_OBJECT, format!("there is no setting {name}")));
        };
        let value = value.trim();
        let is_taken = match rule {
            Any => true,
            OneOf(values) => values.iter().any(|one| one.eq_ignore_ascii_case(value)),
            Fixed => value.eq_ignore_ascii_case(default),
        };
        if !is_taken {
            let message = format!("the setting {name} cannot be '{value}' here: it is {default}");
            return Err(PgError::new(code::INVALID_VALUE, message));
        }
        // The value is another spelling of the default.
        let kept = match rule {
            OneOf(_) if *known != "datestyle" => (*default).to_owned(),
            OneOf(_) => format!(
                "ISO, {}",
                value
                    .rsplit([',', ' '])
                    .next()
                    .filter(|v| v.len() == 3 && !v.eq_ignore_ascii_case("iso"))
                    .unwrap_or("MDY")
                    .to_uppercase()
            ),
            _ => value.chars().take(1000).collect(),
        };
        self.0.write().insert(name, kept.clone());
        Ok(is_reported.then(|| (reported_name(known), kept)))
    }

    /// Sets a setting to its default.
    pub fn reset(&self, name: &str) -> Result<Option<(&'static str, String)>, PgError> {
        let name = name.to_lowercase();
        let Some((known, default, _, is_reported)) = known(&name) else {
            return Err(PgError::new(code::NO_OBJECT, format!("there is no setting {name}")));
        };
        self.0.write().remove(&name);
        Ok(is_reported.then(|| (reported_name(known), (*default).to_owned())))
    }

    /// Sets all settings to their defaults, except `application_name`.
    pub fn reset_all(&self) {
        self.0.write().retain(|name, _| name == "application_name");
    }

    /// Names, values and help texts of all settings.
    pub fn all(&self) -> Vec<(String, String, String)> {
        KNOWN.iter().map(|(name, ..)| ((*name).to_owned(), self.get(name).unwrap_or_default(), String::new())).collect()
    }

    /// The settings to send as ParameterStatus at the start of a session.
    pub fn reported(&self) -> Vec<(&'static str, String)> {
        let reported = KNOWN.iter().filter(|(.., is_reported)| *is_reported);
        reported.map(|(name, ..)| (reported_name(name), self.get(name).unwrap_or_default())).collect()
    }
}

fn known(name: &str) -> Option<&'static (&'static str, &'static str, Rule, bool)> {
    KNOWN.iter().find(|(known, ..)| *known == name)
}

/// Parses a duration in the syntax of PostgreSQL, in milliseconds unless it has a unit: `1500`,
/// `5s`, `2min`. Returns whole seconds, rounded up.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim() {
        "" | "ms" => number,
        "s" => number.checked_mul(1000)?,
        "min" => number.checked_mul(60_000)?,
        "h" => number.checked_mul(3_600_000)?,
        "d" => number.checked_mul(86_400_000)?,
        _ => return None,
    };
    Some(millis.div_ceil(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_take_what_they_can_be() {
        let variables = SharedVariables::default();
        assert_eq!(variables.get("server_version").as_deref(), Some(SERVER_VERSION));
        assert_eq!(variables.set("Application_Name", "x").unwrap(), Some(("application_name", "x".to_owned())));
        assert_eq!(variables.set("client_encoding", "utf-8").unwrap(), Some(("client_encoding", "UTF8".to_owned())));
        assert_eq!(variables.set("client_encoding", "LATIN1").unwrap_err().code, code::INVALID_VALUE);
        assert_eq!(variables.set("DateStyle", "ISO, DMY").unwrap(), Some(("DateStyle", "ISO, DMY".to_owned())));
        assert_eq!(variables.set("DateStyle", "ISO").unwrap(), Some(("DateStyle", "ISO, MDY".to_owned())));
        assert_eq!(variables.set("extra_float_digits", "3").unwrap(), None);
        assert_eq!(variables.set("no_such", "3").unwrap_err().code, code::NO_OBJECT);
        variables.reset_all();
        assert_eq!(variables.get("application_name").as_deref(), Some("x"));
        assert_eq!(variables.get("extra_float_digits").as_deref(), Some("1"));
    }

    #[test]
    fn durations_have_units() {
        let read = ["0", "1", "1000", "5s", "2min", "1 h", "x", "5 weeks", "99999999999999999999"].map(seconds);
        assert_eq!(read, [Some(0), Some(1), Some(1), Some(5), Some(120), Some(3600), None, None, None]);
    }
}
