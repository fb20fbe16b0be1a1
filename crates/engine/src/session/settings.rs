//! The settings of a session: `SET`, `RESET` and `SHOW`.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::common::config::{ConfigExtension, ExtensionOptions};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, Statement as LogicalStatement};
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use futures::future::BoxFuture;
use pushdowndb_contract::{Error, Result};

use super::{Engine, Settings, access_checks, memory};
use crate::access::Access;
use crate::error::from_datafusion;
use crate::nearest::nearest;
use crate::settings::{PRICE_BOOK, PushdownOptions, SPILL_LOCATION};
use crate::sql::show::Shown;
use crate::sql::syntax::settings::{ALIASES, REPLACED, is_ours};

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
    /// Returns the settings `pushdown.*` and aliases of others, with their values.
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

    /// Runs SET or RESET, if `access` permits it, and applies the changed settings. Changes are
    /// serialized, so that none is lost.
    pub(crate) fn change_settings<'a>(&'a self, plan: LogicalPlan, access: &'a Access) -> BoxFuture<'a, Result<()>> {
        async move {
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
            let before = self.settings();
            // Not the state of a statement, whose configuration has values of its own.
            let state = SessionStateBuilder::new_from_existing(self.template.clone())
                .with_config(before.config.clone())
                .with_runtime_env(Arc::clone(&before.runtime));
            let context = SessionContext::new_with_state(state.build());
            context.execute_logical_plan(plan).await.map_err(|error| from_datafusion(error).context(&name))?;
            let config = context.copied_config();
            let options = PushdownOptions::of(config.options());
            options.check()?;
            let prices = match name.eq_ignore_ascii_case(PRICE_BOOK) {
                true => Arc::new(access_checks::price_book(access, &options.price_book)?),
                false => before.prices,
            };
            if name.eq_ignore_ascii_case(SPILL_LOCATION) {
                self.spilling.check(&options)?;
            }
            let memory = match options.memory == PushdownOptions::of(before.config.options()).memory {
                true => before.memory,
                false => memory::pool(options.memory),
            };
            let mut settings = self.settings.write();
            *settings = Settings { config, runtime: context.runtime_env(), memory, prices };
            Ok(())
        }
        .boxed()
    }

    /// Returns the names and values that SHOW asks for, in the columns of DataFusion's own SHOW.
    pub(crate) fn show(&self, shown: &Shown) -> Result<RecordBatch> {
        let own = |setting: Setting| (setting.name, Some(setting.value));
        let mut all = match shown {
            Shown::One(name) => vec![own(self.own_setting(name)?)],
            Shown::All => self.pushdown_settings().into_iter().map(own).collect(),
        };
        if let Shown::All = shown {
            let Settings { config, runtime, .. } = self.settings();
            let others = config.options().entries().into_iter().chain(runtime.config_entries());
            let is_replaced = |key: &str| REPLACED.iter().any(|(name, _)| *name == key);
            // DataFusion lists the settings `pushdown.*`, too, but without their prefix.
            let others = others.filter(|entry| entry.key.contains('.') && !is_replaced(&entry.key));
            all.extend(others.map(|entry| (entry.key, entry.value)));
            all.sort();
        }
        let (names, values): (Vec<String>, Vec<Option<String>>) = all.into_iter().unzip();
        let columns: [(&str, ArrayRef); 2] =
            [("name", Arc::new(StringArray::from(names))), ("value", Arc::new(StringArray::from(values)))];
        RecordBatch::try_from_iter(columns).map_err(|error| Error::internal("settings as rows").with_source(error))
    }

    /// Returns the setting or alias of this name that [`Self::pushdown_settings`] lists.
    fn own_setting(&self, name: &str) -> Result<Setting> {
        let own = self.pushdown_settings();
        own.iter().find(|setting| setting.name.eq_ignore_ascii_case(name)).cloned().ok_or_else(|| {
            let hint = nearest(name, own.iter().map(|setting| setting.name.as_str()));
            let hint = hint.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            Error::invalid(format!("there is no setting {name}{hint}"))
        })
    }
}
