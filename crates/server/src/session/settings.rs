//! SET, SHOW and RESET: settings of PostgreSQL, and those of the engine that clients may change.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};

use super::SessionCore;
use crate::error::{PgError, code};
use crate::variables::seconds;

/// The engine's settings that clients may change. The others are left to the operator, since they
/// concern the memory, disk and processors that all sessions share.
const OF_THE_ENGINE: [&str; 16] = [
    "datafusion.explain.format",
    "pushdown.adaptive",
    "pushdown.aggregate",
    "pushdown.filter",
    "pushdown.group_by",
    "pushdown.join",
    "pushdown.level",
    "pushdown.max_bytes",
    "pushdown.max_usd",
    "pushdown.objective",
    "pushdown.query_timeout_s",
    "pushdown.retries",
    "pushdown.reuse",
    "pushdown.statistics",
    "pushdown.timeout_s",
    "pushdown.top_k",
];

/// The engine's setting that `timezone` sets.
const ENGINE_TIME_ZONE: &str = "datafusion.execution.time_zone";

/// The engine's setting that `statement_timeout` sets.
const ENGINE_TIMEOUT: &str = "pushdown.query_timeout_s";

impl SessionCore {
    /// Applies the settings from the start of the session to the engine.
    pub async fn apply_started_settings(&self) -> Result<(), PgError> {
        if let Some(zone) = self.variables.get("timezone").filter(|zone| zone != "UTC") {
            // Clients send the time zone of their machine, which the engine may not know.
            if self.set_engine(ENGINE_TIME_ZONE, &zone).await.is_err() {
                drop(self.variables.reset("timezone"));
            }
        }
        match self.variables.get("statement_timeout").filter(|timeout| timeout != "0") {
            Some(timeout) => self.set_timeout(&timeout).await,
            None => Ok(()),
        }
    }

    /// Sets a setting; `None` resets it to its default. Returns the name and the new value if
    /// clients of PostgreSQL track the setting.
    pub async fn set(&self, name: &str, value: Option<&str>) -> Result<Option<(&'static str, String)>, PgError> {
        let name = name.to_lowercase();
        if name.starts_with("pushdown.") || name.starts_with("datafusion.") {
            if !OF_THE_ENGINE.contains(&name.as_str()) {
                let message = format!("the setting {name} is the server's: clients cannot change it");
                return Err(PgError::new(code::DENIED, message)
                    .with_hint(format!("clients change: {}", OF_THE_ENGINE.join(", "))));
            }
            match value {
                Some(value) => self.set_engine(&name, value).await?,
                None => self.reset_engine(&name).await?,
            }
            return Ok(None);
        }
        match (name.as_str(), value) {
            ("timezone", Some(zone)) => self.set_engine(ENGINE_TIME_ZONE, zone).await?,
            ("timezone", None) => self.set_engine(ENGINE_TIME_ZONE, "UTC").await?,
            ("statement_timeout", value) => self.set_timeout(value.unwrap_or("0")).await?,
            ("role", Some(role)) if role != "none" && role != &*self.entry.user => {
                return Err(PgError::new(code::DENIED, format!("permission denied to set role \"{role}\"")));
            }
            _ => {}
        }
        let told = match value {
            Some(value) => self.variables.set(&name, value)?,
            None => self.variables.reset(&name)?,
        };
        if name == "application_name" {
            let application: Arc<str> = self.variables.get(&name).unwrap_or_default().into();
            self.entry.change(|activity| activity.application = application);
        }
        Ok(told)
    }

    async fn set_timeout(&self, timeout: &str) -> Result<(), PgError> {
        let invalid = || PgError::new(code::INVALID_VALUE, format!("statement_timeout cannot be '{timeout}'"));
        let seconds = seconds(timeout).ok_or_else(invalid)?;
        self.set_engine(ENGINE_TIMEOUT, &seconds.to_string()).await
    }

    async fn set_engine(&self, name: &str, value: &str) -> Result<(), PgError> {
        if name == ENGINE_TIME_ZONE && value.parse::<arrow::array::timezone::Tz>().is_err() {
            return Err(PgError::new(code::INVALID_VALUE, format!("there is no time zone '{value}'")));
        }
        let sql = format!("SET {name} = '{}'", value.replace('\'', "''"));
        let set = self.engine().execute(&sql).await;
        set.map(drop).map_err(|error| PgError { code: code::INVALID_VALUE, ..PgError::from(&error) })
    }

    async fn reset_engine(&self, name: &str) -> Result<(), PgError> {
        let reset = self.engine().execute(&format!("RESET {name}")).await;
        reset.map(drop).map_err(|error| PgError::from(&error))
    }

    /// Resets all settings to their defaults.
    pub async fn reset_all(&self) -> Result<(), PgError> {
        for name in OF_THE_ENGINE {
            self.reset_engine(name).await?;
        }
        self.set_engine(ENGINE_TIME_ZONE, "UTC").await?;
        // Sets the settings of the user, which a session starts with.
        for (name, value) in self.account.user.settings.clone() {
            if OF_THE_ENGINE.contains(&name.as_str()) {
                self.set_engine(&name, &value).await?;
            }
        }
        self.variables.reset_all();
        Ok(())
    }

    /// The value of a setting, as SHOW returns it.
    pub fn shown_value(&self, name: &str) -> Option<String> {
        let own = || self.engine().pushdown_settings().into_iter().find(|setting| setting.name == name);
        self.variables.get(name).or_else(|| own().map(|setting| setting.value))
    }

    /// The result of SHOW.
    pub fn show(&self, name: &str) -> Result<RecordBatch, PgError> {
        let value = self.shown_value(name);
        let value = value.ok_or_else(|| PgError::new(code::NO_OBJECT, format!("there is no setting {name}")))?;
        texts(&[(name, vec![value])])
    }

    /// The result of SHOW ALL.
    pub fn show_all(&self) -> Result<RecordBatch, PgError> {
        let mut all = self.variables.all();
        all.extend(self.engine().pushdown_settings().into_iter().map(|own| (own.name, own.value, own.help)));
        all.sort();
        let column = |value: fn(&(String, String, String)) -> &String| all.iter().map(value).cloned().collect();
        texts(&[("name", column(|s| &s.0)), ("setting", column(|s| &s.1)), ("description", column(|s| &s.2))])
    }
}

fn texts(columns: &[(&str, Vec<String>)]) -> Result<RecordBatch, PgError> {
    let columns = columns.iter().map(|(name, values)| {
        let array: ArrayRef = Arc::new(StringArray::from(values.clone()));
        (*name, array)
    });
    RecordBatch::try_from_iter(columns).map_err(|error| PgError::new("XX000", error.to_string()))
}
