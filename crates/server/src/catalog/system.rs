//! The part of `pg_catalog` that `datafusion-pg-catalog` lacks: sessions, settings, and the one
//! database.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::error::Result;

use super::attributes::Attributes;
use super::build::{Values, batch, empty, nulls, same, table};
use super::classes::{Classes, Relations};
use super::shown::Shown;
use super::tables::SessionTables;
use crate::activity::sessions::{Entry, Phase};

/// Shown instead of the query of another user.
const HIDDEN: &str = "<insufficient privilege>";

/// Empty tables that clients query and that `datafusion-pg-catalog` lacks, with their columns.
const EMPTY: [(&str, &[&str]); 14] = [
    ("pg_cursors", &["name", "statement", "is_holdable", "is_binary", "is_scrollable", "creation_time"]),
    ("pg_group", &["groname", "grosysid", "grolist"]),
    ("pg_locks", &["locktype", "database", "relation", "pid", "mode", "granted"]),
    ("pg_policies", &["schemaname", "tablename", "policyname", "permissive", "roles", "cmd", "qual", "with_check"]),
    ("pg_rules", &["schemaname", "tablename", "rulename", "definition"]),
    ("pg_sequences", &["schemaname", "sequencename", "sequenceowner", "data_type", "start_value", "last_value"]),
    ("pg_stat_user_indexes", &["relid", "indexrelid", "schemaname", "relname", "indexrelname", "idx_scan"]),
    ("pg_stats", &["schemaname", "tablename", "attname", "null_frac", "avg_width", "n_distinct"]),
    ("pg_user_mappings", &["umid", "srvid", "srvname", "umuser", "usename", "umoptions"]),
    ("pg_prepared_xacts", &["transaction", "gid", "prepared", "owner", "database"]),
    ("pg_indexes", &["schemaname", "tablename", "indexname", "tablespace", "indexdef"]),
    ("pg_shadow", &["usename", "usesysid", "usesuper", "passwd"]),
    ("pg_stat_replication", &["pid", "usesysid", "usename", "application_name", "state"]),
    ("pg_available_extensions", &["name", "default_version", "installed_version", "comment"]),
];

/// Tables that are generated here.
const MADE: [&str; 6] =
    ["pg_stat_activity", "pg_stat_database", "pg_settings", "pg_database", "pg_user", "pg_timezone_names"];

/// Columns of `pg_index` and `pg_constraint` that list columns and types. In
/// `datafusion-pg-catalog` they are text.
const LISTS: [&str; 6] = ["indkey", "indclass", "indcollation", "indoption", "conkey", "confkey"];

/// `pg_catalog` with the tables that are generated here.
pub(super) struct SystemSchema {
    inner: Arc<dyn SchemaProvider>,
    shown: Arc<Shown>,
    tables: Arc<SessionTables>,
    relations: Arc<Relations>,
}

impl fmt::Debug for SystemSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemSchema").finish_non_exhaustive()
    }
}

/// Microseconds since 1970.
fn micros(time: SystemTime) -> Option<i64> {
    i64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_micros()).ok()
}

impl SystemSchema {
    /// Adds tables to `inner`. Scans of `pg_class` fill `relations`.
    pub fn new(
        inner: Arc<dyn SchemaProvider>,
        shown: Arc<Shown>,
        tables: Arc<SessionTables>,
        relations: Arc<Relations>,
    ) -> Self {
        Self { inner, shown, tables, relations }
    }

    fn sessions(&self) -> Result<Arc<dyn TableProvider>> {
        let entries = self.shown.sessions.all();
        let rows = entries.len();
        let text =
            |value: &dyn Fn(&Entry) -> Option<String>| Values::Text(entries.iter().map(|entry| value(entry)).collect());
        let time = |value: &dyn Fn(&Entry) -> Option<SystemTime>| {
            Values::Instant(entries.iter().map(|entry| value(entry).and_then(micros)).collect())
        };
        let ports = entries.iter().map(|entry| Some(i32::from(entry.client.port()))).collect();
        let is_shown = |entry: &Entry| self.shown.is_admin || entry.user == self.shown.own.user;
        let waits = |entry: &Entry| (entry.activity().phase == Phase::Waiting).then(|| "Extension".to_owned());
        table(vec![
            ("datid", Values::Int(vec![Some(1); rows])),
            ("datname", text(&|entry| Some(entry.database.to_string()))),
            ("pid", Values::Int(entries.iter().map(|entry| Some(entry.pid)).collect())),
            ("leader_pid", Values::Int(vec![None; rows])),
            ("usesysid", Values::Int(vec![Some(10); rows])),
            ("usename", text(&|entry| Some(entry.user.to_string()))),
            ("application_name", text(&|entry| Some(entry.activity().application.to_string()))),
            ("client_addr", text(&|entry| Some(entry.client.ip().to_string()))),
            ("client_hostname", nulls(rows)),
            ("client_port", Values::Int(ports)),
            ("backend_start", time(&|entry| Some(entry.started))),
            ("xact_start", Values::Instant(vec![None; rows])),
            ("query_start", time(&|entry| entry.activity().query_start)),
            ("state_change", time(&|entry| Some(entry.activity().state_change))),
            ("wait_event_type", text(&waits)),
            ("wait_event", text(&|entry| waits(entry).map(|_| "Admission".to_owned()))),
            ("state", text(&|entry| Some(entry.activity().phase.name().to_owned()))),
            ("backend_xid", nulls(rows)),
            ("backend_xmin", nulls(rows)),
            ("query_id", nulls(rows)),
            (
                "query",
                text(&|entry| {
                    Some(if is_shown(entry) { entry.activity().query.to_string() } else { HIDDEN.to_owned() })
                }),
            ),
            ("backend_type", same("client backend", rows)),
        ])
    }

    fn settings(&self) -> Result<Arc<dyn TableProvider>> {
        let mut all = self.shown.variables.all();
        let own = self.shown.engine.pushdown_settings();
        all.extend(own.into_iter().map(|setting| (setting.name, setting.value, setting.help)));
        all.sort();
        let rows = all.len();
        let text = |value: &dyn Fn(&(String, String, String)) -> &String| {
            Values::Text(all.iter().map(|setting| Some(value(setting).clone())).collect())
        };
        table(vec![
            ("name", text(&|setting| &setting.0)),
            ("setting", text(&|setting| &setting.1)),
            ("unit", nulls(rows)),
            ("category", same("PushdownDB", rows)),
            ("short_desc", text(&|setting| &setting.2)),
            ("extra_desc", nulls(rows)),
            ("context", same("user", rows)),
            ("vartype", same("string", rows)),
            ("source", same("session", rows)),
            ("min_val", nulls(rows)),
            ("max_val", nulls(rows)),
            ("enumvals", nulls(rows)),
            ("boot_val", nulls(rows)),
            ("reset_val", text(&|setting| &setting.1)),
            ("sourcefile", nulls(rows)),
            ("sourceline", Values::Int(vec![None; rows])),
            ("pending_restart", Values::Bool(vec![Some(false); rows])),
        ])
    }

    fn database(&self) -> Result<Arc<dyn TableProvider>> {
        table(vec![
            ("oid", Values::Int(vec![Some(1)])),
            ("datname", same(&self.shown.own.database, 1)),
            ("datdba", Values::Int(vec![Some(10)])),
            ("encoding", Values::Int(vec![Some(6)])),
            ("datlocprovider", same("c", 1)),
            ("datistemplate", Values::Bool(vec![Some(false)])),
            ("datallowconn", Values::Bool(vec![Some(true)])),
            ("datconnlimit", Values::Int(vec![Some(-1)])),
            ("datlastsysoid", Values::Int(vec![Some(16383)])),
            ("datfrozenxid", Values::Int(vec![Some(1)])),
            ("datminmxid", Values::Int(vec![Some(1)])),
            ("dattablespace", Values::Int(vec![Some(1663)])),
            ("datcollate", same("C.UTF-8", 1)),
            ("datctype", same("C.UTF-8", 1)),
            ("daticulocale", nulls(1)),
            ("daticurules", nulls(1)),
            ("datcollversion", nulls(1)),
            ("datacl", Values::NoLists(1)),
        ])
    }

    fn statistics(&self) -> Result<Arc<dyn TableProvider>> {
        const COUNTS: [&str; 13] = [
            "xact_commit",
            "xact_rollback",
            "blks_read",
            "blks_hit",
            "tup_returned",
            "tup_fetched",
            "tup_inserted",
            "tup_updated",
            "tup_deleted",
            "conflicts",
            "temp_files",
            "temp_bytes",
            "deadlocks",
        ];
        let sessions = i32::try_from(self.shown.sessions.all().len()).ok();
        let mut columns = vec![
            ("datid", Values::Int(vec![Some(1)])),
            ("datname", same(&self.shown.own.database, 1)),
            ("numbackends", Values::Int(vec![sessions])),
        ];
        // Statistics that do not exist for tables in object storage are NULL.
        columns.extend(COUNTS.map(|name| (name, Values::Int(vec![None]))));
        columns.push(("stats_reset", Values::Instant(vec![None])));
        table(columns)
    }

    /// A table of `datafusion-pg-catalog` without its rows, which describe PostgreSQL's own tables,
    /// and with lists where PostgreSQL has lists.
    async fn without_rows(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(table) = self.inner.table(name).await? else { return Ok(None) };
        let before = table.schema();
        let fields = before.fields().iter().map(|field| {
            let is_list = LISTS.contains(&field.name().as_str());
            let list = || Field::new(field.name(), DataType::new_list(DataType::Int32, true), true);
            if is_list { Arc::new(list()) } else { Arc::clone(field) }
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Ok(Some(Arc::new(MemTable::try_new(schema, vec![vec![]])?)))
    }

    fn users(&self) -> Result<Arc<dyn TableProvider>> {
        let names = self.shown.roles();
        let rows = names.len();
        table(vec![
            ("usename", Values::Text(names.iter().cloned().map(Some).collect())),
            ("usesysid", Values::Int(vec![Some(10); rows])),
            ("usecreatedb", Values::Bool(vec![Some(false); rows])),
            ("usesuper", Values::Bool(vec![Some(false); rows])),
            ("userepl", Values::Bool(vec![Some(false); rows])),
            ("usebypassrls", Values::Bool(vec![Some(false); rows])),
            ("passwd", same("********", rows)),
            ("valuntil", nulls(rows)),
            ("useconfig", nulls(rows)),
        ])
    }
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.inner.table_names();
        names.extend(MADE.into_iter().chain(EMPTY.iter().map(|(name, _)| *name)).map(ToOwned::to_owned));
        names.sort();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match name {
            "pg_stat_activity" => self.sessions().map(Some),
            "pg_settings" => self.settings().map(Some),
            "pg_database" => self.database().map(Some),
            "pg_user" => self.users().map(Some),
            "pg_stat_database" => self.statistics().map(Some),
            "pg_index" | "pg_constraint" => self.without_rows(name).await,
            "pg_class" => Classes::over(&self.inner, &self.relations).await,
            "pg_attribute" => Attributes::over(&self.inner, &self.tables).await,
            "pg_timezone_names" => {
                let columns = vec![
                    ("name", same("UTC", 1)),
                    ("abbrev", same("UTC", 1)),
                    ("utc_offset", same("00:00:00", 1)),
                    ("is_dst", Values::Bool(vec![Some(false)])),
                ];
                table(columns).map(Some)
            }
            _ => match EMPTY.iter().find(|(table, _)| *table == name) {
                Some((_, columns)) => empty(columns).map(Some),
                None => self.inner.table(name).await,
            },
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        MADE.contains(&name) || EMPTY.iter().any(|(table, _)| *table == name) || self.inner.table_exist(name)
    }
}

/// Returns the result of `SHOW QUERIES`: one row for each session that runs a query or waits to,
/// with its cost so far.
pub(crate) fn queries(shown: &Shown) -> Result<datafusion::arrow::array::RecordBatch> {
    let entries = shown.sessions.all();
    let running: Vec<_> = (entries.iter().map(|entry| (entry, entry.activity())))
        .filter(|(_, activity)| matches!(activity.phase, Phase::Active | Phase::Waiting))
        .collect();
    let now = SystemTime::now();
    let text = |value: &dyn Fn(usize) -> Option<String>| Values::Text((0..running.len()).map(value).collect());
    let at = |row: usize| running.get(row);
    let usage =
        |row: usize| at(row).and_then(|(_, activity)| activity.context.as_ref()).map(|context| context.report());
    let seconds = |row: usize| {
        let start = at(row)?.1.query_start?;
        Some(format!("{:.1}", now.duration_since(start).unwrap_or_default().as_secs_f64()))
    };
    batch(vec![
        ("pid", Values::Int(running.iter().map(|(entry, _)| Some(entry.pid)).collect())),
        ("user", text(&|row| at(row).map(|(entry, _)| entry.user.to_string()))),
        (
            "state",
            text(&|row| {
                at(row).map(|(_, activity)| {
                    if activity.phase == Phase::Waiting { "waiting" } else { "running" }.to_owned()
                })
            }),
        ),
        ("seconds", text(&seconds)),
        ("bytes_network", text(&|row| usage(row).map(|report| report.usage.bytes_network.to_string()))),
        ("usd", text(&|row| usage(row).map(|report| format!("{:.6}", report.bill.total())))),
        (
            "query",
            text(&|row| {
                at(row).map(|(entry, activity)| {
                    let is_shown = shown.is_admin || entry.user == shown.own.user;
                    if is_shown { activity.query.to_string() } else { HIDDEN.to_owned() }
                })
            }),
        ),
    ])
}
