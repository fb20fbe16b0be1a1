//! The settings of a session: `SET`, `RESET` and `SHOW`.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::common::config::{ConfigExtension, ExtensionOptions};
use datafusion::logical_expr::{LogicalPlan, Statement as LogicalStatement};
use pushdowndb_contract::{Error, Result};

use super::{Engine, Settings, access_checks};
use crate::access::Access;
use crate::error::from_datafusion;
use crate::nearest::nearest;
use crate::settings::{PRICE_BOOK, PushdownOptions};
use crate::sql::show::Shown;
use crate::sql::syntax::settings::{ALIASES, is_ours};

/// A setting and its value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Setting {
    /// The name in SET.
    pub name: String,
    /// The present value.
    pub value: String,
    /// One line of help.
    pub help: String,
}

impl Engine {
    /// The settings `pushdown.*`, with their values.
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

    /// Runs SET or RESET, as far as `access` permits, and takes over the changed settings. Changes
    /// run one after the other, so that none is lost.
    pub(crate) async fn change_settings(&self, plan: LogicalPlan, access: &Access) -> Result<()> {
        let plan = access_checks::checked_setting(access, plan)?;
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
        let context = self.begin("")?.context();
        context.execute_logical_plan(plan).await.map_err(|error| from_datafusion(error).context(&name))?;
        let config = context.copied_config();
        let options = PushdownOptions::of(config.options());
        options.check()?;
        let prices = match name.eq_ignore_ascii_case(PRICE_BOOK) {
            true => Arc::new(access_checks::price_book(access, &options.price_book)?),
            false => prices_before,
        };
        let runtime = access_checks::spilling(access, context.runtime_env())?;
        let mut settings = self.settings.write();
        *settings = Settings { config, runtime, prices };
        Ok(())
    }

    /// The names and values that SHOW asks for, in the columns of DataFusion's own SHOW.
    pub(crate) fn show(&self, shown: &Shown) -> Result<RecordBatch> {
        let own = |setting: Setting| (setting.name, Some(setting.value));
        let mut all = match shown {
            Shown::One(name) => vec![own(self.own_setting(name)?)],
            Shown::All => self.pushdown_settings().into_iter().map(own).collect(),
        };
        if let Shown::All = shown {
            let Settings { config, runtime, .. } = self.settings();
            let others = config.options().entries().into_iter().chain(runtime.config_entries());
            // DataFusion lists ours too, but without their prefix.
            all.extend(others.filter(|entry| entry.key.contains('.')).map(|entry| (entry.key, entry.value)));
            all.sort();
        }
        let (names, values): (Vec<String>, Vec<Option<String>>) = all.into_iter().unzip();
        let columns: [(&str, ArrayRef); 2] =
            [("name", Arc::new(StringArray::from(names))), ("value", Arc::new(StringArray::from(values)))];
        RecordBatch::try_from_iter(columns).map_err(|error| Error::internal("settings as rows").with_source(error))
    }

    /// The setting of ours with this name.
    fn own_setting(&self, name: &str) -> Result<Setting> {
        let own = self.pushdown_settings();
        own.iter().find(|setting| setting.name.eq_ignore_ascii_case(name)).cloned().ok_or_else(|| {
            let hint = nearest(name, own.iter().map(|setting| setting.name.as_str()));
            let hint = hint.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            Error::invalid(format!("there is no setting {name}{hint}"))
        })
    }
}
