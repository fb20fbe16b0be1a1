//! `SET`, `RESET` and `SHOW`: the settings of a session.

use std::sync::{Arc, PoisonError};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::common::config::{ConfigExtension, ExtensionOptions};
use datafusion::logical_expr::{LogicalPlan, ResetVariable, SetVariable, Statement as LogicalStatement};
use datafusion::sql::sqlparser::tokenizer::Token;
use pushdown::{Error, Result};

use super::{Engine, Settings, doors};
use crate::access::Access;
use crate::error::from_datafusion;
use crate::nearest::nearest;
use crate::settings::{PRICE_BOOK, PushdownOptions};
use crate::words::Words;

/// Short names for settings of DataFusion that users look for.
const ALIASES: [(&str, &str); 2] = [
    ("pushdown.threads", "datafusion.execution.target_partitions"),
    ("pushdown.memory", "datafusion.runtime.memory_limit"),
];

/// A setting, as the shell shows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Setting {
    /// Its name in SET.
    pub name: String,
    /// Its value now.
    pub value: String,
    /// What it does.
    pub help: String,
}

impl Engine {
    /// The settings of this project: their values and what they do.
    pub fn pushdown_settings(&self) -> Vec<Setting> {
        let settings = self.settings();
        let entries = settings.config.options().entries();
        let runtime = settings.runtime.config_entries();
        let value_of = |name: &str| {
            entries.iter().chain(&runtime).find(|e| e.key == name).and_then(|e| e.value.clone()).unwrap_or_default()
        };
        let own = PushdownOptions::of(settings.config.options()).entries();
        let mut all: Vec<Setting> = own
            .iter()
            .map(|entry| Setting {
                name: format!("{}.{}", PushdownOptions::PREFIX, entry.key),
                value: entry.value.clone().unwrap_or_default(),
                help: entry.description.trim().to_owned(),
            })
            .collect();
        all.extend(ALIASES.iter().map(|(alias, name)| Setting {
            name: (*alias).to_owned(),
            value: value_of(name),
            help: format!("Another name for {name}"),
        }));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        all
    }

    /// Runs SET or RESET, held to this access, and takes over what it changed in the statement's state. One goes after the other, from what the
    /// one before left: of two at the same time none is lost.
    pub(super) async fn change_settings(&self, plan: LogicalPlan, access: &Access) -> Result<()> {
        let plan = doors::checked_setting(access, plan)?;
        let name = match &plan {
            LogicalPlan::Statement(LogicalStatement::SetVariable(set)) => set.variable.clone(),
            LogicalPlan::Statement(LogicalStatement::ResetVariable(reset)) => reset.variable.clone(),
            _ => String::new(),
        };
        if is_ours(&name) {
            self.own_setting(&name)?;
        }
        let _turn = self.setting.lock().await;
        let prices_before = self.settings().prices;
        let context = self.begin()?.context();
        context.execute_logical_plan(plan).await.map_err(|error| from_datafusion(error).context(&name))?;
        let config = context.copied_config();
        let options = PushdownOptions::of(config.options());
        options.check()?;
        let prices = match name.eq_ignore_ascii_case(PRICE_BOOK) {
            true => Arc::new(doors::price_book(access, &options.price_book)?),
            false => prices_before,
        };
        let runtime = doors::spilling(access, context.runtime_env())?;
        let mut settings = self.settings.write().unwrap_or_else(PoisonError::into_inner);
        *settings = Settings { config, runtime, prices };
        Ok(())
    }

    /// Names and values, in the columns that DataFusion has for those of its own.
    pub(super) fn show(&self, shown: &Shown) -> Result<RecordBatch> {
        let own = |setting: Setting| (setting.name, Some(setting.value));
        let mut all = match shown {
            Shown::One(name) => vec![own(self.own_setting(name)?)],
            Shown::All => self.pushdown_settings().into_iter().map(own).collect(),
        };
        if let Shown::All = shown {
            let Settings { config, runtime, .. } = self.settings();
            let others = config.options().entries().into_iter().chain(runtime.config_entries());
            // Ours are among them, but without what their names begin with.
            all.extend(others.filter(|entry| entry.key.contains('.')).map(|entry| (entry.key, entry.value)));
            all.sort();
        }
        let (names, values): (Vec<String>, Vec<Option<String>>) = all.into_iter().unzip();
        let columns: [(&str, ArrayRef); 2] =
            [("name", Arc::new(StringArray::from(names))), ("value", Arc::new(StringArray::from(values)))];
        RecordBatch::try_from_iter(columns).map_err(|error| Error::internal("settings as rows").with_source(error))
    }

    /// The setting of ours that has this name.
    fn own_setting(&self, name: &str) -> Result<Setting> {
        let own = self.pushdown_settings();
        own.iter().find(|setting| setting.name.eq_ignore_ascii_case(name)).cloned().ok_or_else(|| {
            let hint = nearest(name, own.iter().map(|setting| setting.name.as_str()));
            let hint = hint.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            Error::invalid(format!("there is no setting {name}{hint}"))
        })
    }
}

/// What a SHOW is about.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Shown {
    /// A setting of ours.
    One(String),
    All,
}

/// What `SHOW pushdown.x` and `SHOW ALL` are about; `None` of other statements. DataFusion shows its own settings, and ours only
/// without what their names begin with.
pub(super) fn shown(sql: &str) -> Result<Option<Shown>> {
    let Some(mut words) = Words::of(sql, "show", "SHOW ALL or SHOW pushdown.SETTING") else { return Ok(None) };
    if !words.takes(&["show"]) {
        return Ok(None);
    }
    if words.takes(&["all"]) {
        return Ok(words.end().is_ok().then_some(Shown::All));
    }
    if !(words.takes(&[PushdownOptions::PREFIX]) && words.takes_mark(&Token::Period)) {
        return Ok(None);
    }
    let name = words.name("a setting")?;
    words.end()?;
    Ok(Some(Shown::One(format!("{}.{name}", PushdownOptions::PREFIX))))
}

/// SET and RESET without our short names, and without RESET of settings of ours: DataFusion knows how to reset its own only.
pub(super) fn as_datafusion_knows_it(plan: LogicalPlan) -> LogicalPlan {
    let known = |name: String| {
        let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(&name));
        alias.map_or(name, |(_, known)| (*known).to_owned())
    };
    let LogicalPlan::Statement(statement) = plan else { return plan };
    LogicalPlan::Statement(match statement {
        LogicalStatement::SetVariable(SetVariable { variable, value }) => {
            LogicalStatement::SetVariable(SetVariable { variable: known(variable), value })
        }
        LogicalStatement::ResetVariable(ResetVariable { variable }) => {
            let variable = known(variable);
            match default_of(&variable) {
                Some(value) => LogicalStatement::SetVariable(SetVariable { variable, value }),
                None => LogicalStatement::ResetVariable(ResetVariable { variable }),
            }
        }
        other => other,
    })
}

/// The value that a setting of ours has in a new session.
fn default_of(name: &str) -> Option<String> {
    let own = is_ours(name).then(|| PushdownOptions::default().entries())?;
    let key = name.get(PushdownOptions::PREFIX.len() + 1..)?;
    own.into_iter().find(|entry| entry.key.eq_ignore_ascii_case(key))?.value
}

fn is_ours(name: &str) -> bool {
    let prefix = name.split_once('.').map(|(prefix, _)| prefix);
    prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(PushdownOptions::PREFIX))
}

/// What was wrong with a statement that cannot be read: a SET whose value lacks its quotes, or what was said of it.
pub(super) fn with_quotes(sql: &str, error: Error) -> Error {
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
    use super::*;

    #[test]
    fn a_value_without_quotes_gets_a_hint() {
        let hinted = |sql| with_quotes(sql, Error::invalid("wrong")).message().to_owned();
        let hint = hinted("set pushdown.price_book = paper-egress;");
        assert!(hint.ends_with("needs quotes: SET pushdown.price_book = 'paper-egress'"), "{hint}");
        for other in ["SELECT a = b-c", "SET pushdown.level = 'no", "SET a", "SET a =", "UPDATE t SET a = b-c"] {
            assert_eq!(hinted(other), "wrong", "{other}");
        }
    }

    #[test]
    fn what_datafusion_cannot_show_is_shown_here() {
        assert_eq!(shown("SHOW pushdown.level;").unwrap(), Some(Shown::One("pushdown.level".to_owned())));
        assert_eq!(shown("show all").unwrap(), Some(Shown::All));
        for other in [
            "SHOW ALL VERBOSE",
            "SHOW TABLES",
            "SHOW datafusion.catalog.location",
            "SELECT 'show pushdown.level'",
            "SHOW pushdown",
        ] {
            assert_eq!(shown(other).unwrap(), None, "{other}");
        }
        assert!(shown("SHOW pushdown.level or so").is_err());
    }

    #[test]
    fn settings_of_ours_have_a_value_to_go_back_to() {
        assert_eq!(default_of("pushdown.level").as_deref(), Some("auto"));
        assert_eq!(default_of("PUSHDOWN.Split_Bytes").as_deref(), Some("16777216"));
        assert_eq!((default_of("pushdown.levle"), default_of("datafusion.catalog.location")), (None, None));
    }
}
