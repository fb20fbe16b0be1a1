//! Functions of PostgreSQL that clients call and `datafusion-pg-catalog` lacks.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::build::instant;
use super::classes::Relations;
use super::shown::Shown;
use super::tables::SessionTables;
use crate::variables::SERVER_VERSION;

/// Computes the value of one row, as text, from the arguments' values as text.
type Compute = Arc<dyn Fn(&[Option<String>]) -> Result<Option<String>> + Send + Sync>;

/// A function that accepts any arguments and computes its value as text.
struct TextFunction {
    name: &'static str,
    returns: DataType,
    signature: Signature,
    compute: Compute,
}

impl fmt::Debug for TextFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextFunction").field("name", &self.name).finish_non_exhaustive()
    }
}

impl PartialEq for TextFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for TextFunction {}

impl Hash for TextFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for TextFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.returns.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let arrays = args.args.iter().map(|value| {
            let array = value.to_array(rows)?;
            Ok(cast(&array, &DataType::Utf8)?)
        });
        let arrays: Vec<ArrayRef> = arrays.collect::<Result<_>>()?;
        let values = (0..rows).map(|row| {
            let value = |array: &ArrayRef| {
                let array = array.as_string::<i32>();
                array.is_valid(row).then(|| array.value(row).to_owned())
            };
            (self.compute)(&arrays.iter().map(value).collect::<Vec<_>>())
        });
        let values: Vec<Option<String>> = values.collect::<Result<_>>()?;
        Ok(ColumnarValue::Array(cast(&(Arc::new(StringArray::from(values)) as ArrayRef), &self.returns)?))
    }
}

fn function(
    name: &'static str,
    returns: DataType,
    volatility: Volatility,
    compute: impl Fn(&[Option<String>]) -> Result<Option<String>> + Send + Sync + 'static,
) -> ScalarUDF {
    let any = TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]);
    let signature = Signature::new(any, volatility);
    ScalarUDF::from(TextFunction { name, returns, signature, compute: Arc::new(compute) })
}

/// A function that always returns the same value.
fn constant(name: &'static str, returns: DataType, value: Option<String>) -> ScalarUDF {
    function(name, returns, Volatility::Stable, move |_| Ok(value.clone()))
}

/// All functions, for one session.
pub(super) fn all(shown: &Arc<Shown>) -> Vec<ScalarUDF> {
    let text = |name, value: &str| constant(name, DataType::Utf8, Some(value.to_owned()));
    let null = |name| constant(name, DataType::Utf8, None);
    let is_true = |name| constant(name, DataType::Boolean, Some("true".to_owned()));
    let is_false = |name| constant(name, DataType::Boolean, Some("false".to_owned()));
    let int = |name, value: i64| constant(name, DataType::Int32, Some(value.to_string()));
    let own = &shown.own;
    let micros = |time: SystemTime| time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
    // The start of the session, as text that Arrow parses as a timestamp.
    let started = {
        let mut text = Vec::new();
        crate::values::calendar::timestamp(i64::try_from(micros(own.started)).unwrap_or_default(), true, &mut text);
        String::from_utf8(text).unwrap_or_default()
    };
    let version = format!("PostgreSQL {SERVER_VERSION} (PushdownDB {})", env!("CARGO_PKG_VERSION"));
    let mut all = vec![
        text("version", &version),
        text("session_user", &own.user),
        text("current_user", &own.user),
        text("current_role", &own.user),
        text("pg_get_userbyid", &own.user),
        text("current_catalog", &own.database),
        text("getdatabaseencoding", "UTF8"),
        text("pg_client_encoding", "UTF8"),
        int("pg_backend_pid", i64::from(own.pid)),
        int("inet_client_port", i64::from(own.client.port())),
        text("inet_client_addr", &own.client.ip().to_string()),
        int("pg_my_temp_schema", 0),
        int("txid_current", 1),
        int("pg_char_to_encoding", 6),
        constant("pg_postmaster_start_time", instant(), Some(started.clone())),
        constant("pg_conf_load_time", instant(), Some(started)),
    ];
    let truths = [
        "has_column_privilege",
        "has_function_privilege",
        "has_sequence_privilege",
        "has_tablespace_privilege",
        "has_type_privilege",
        "has_language_privilege",
        "has_foreign_data_wrapper_privilege",
        "has_server_privilege",
        "pg_has_role",
        "pg_function_is_visible",
        "pg_type_is_visible",
        "pg_operator_is_visible",
        "pg_collation_is_visible",
        "pg_opclass_is_visible",
        "pg_opfamily_is_visible",
        "pg_conversion_is_visible",
        "pg_statistics_obj_is_visible",
        "pg_ts_config_is_visible",
        "pg_ts_dict_is_visible",
        "pg_ts_parser_is_visible",
        "pg_ts_template_is_visible",
    ];
    all.extend(truths.map(is_true));
    all.extend(["pg_is_in_recovery", "pg_is_other_temp_schema", "pg_jit_available"].map(is_false));
    let nothing = [
        "obj_description",
        "col_description",
        "shobj_description",
        "pg_get_indexdef",
        "pg_get_triggerdef",
        "pg_get_ruledef",
        "pg_get_functiondef",
        "pg_get_function_arguments",
        "pg_get_function_result",
        "pg_get_function_identity_arguments",
        "pg_get_function_arg_default",
        "pg_get_function_sqlbody",
        "pg_get_serial_sequence",
        "pg_tablespace_location",
        "inet_server_addr",
        "txid_current_if_assigned",
        "pg_relation_filepath",
        "pg_stat_get_last_vacuum_time",
        "pg_current_wal_lsn",
        "pg_last_wal_receive_lsn",
        "pg_last_wal_replay_lsn",
        "pg_advisory_lock",
        "pg_advisory_unlock",
        "pg_advisory_unlock_all",
    ];
    all.extend(nothing.map(null));
    all.extend(
        ["pg_table_size", "pg_database_size", "pg_indexes_size", "pg_tablespace_size"]
            .map(|name| constant(name, DataType::Int64, Some("0".to_owned()))),
    );
    all.push(function("pg_size_pretty", DataType::Utf8, Volatility::Immutable, |values| {
        Ok(values.first().cloned().flatten().map(|bytes| format!("{bytes} bytes")))
    }));
    all.push(function("quote_literal", DataType::Utf8, Volatility::Immutable, |values| {
        Ok(values.first().cloned().flatten().map(|text| format!("'{}'", text.replace('\'', "''"))))
    }));
    let no_oid = ["to_regclass", "to_regnamespace", "to_regproc", "to_regrole", "to_regtype"];
    all.extend(no_oid.map(|name| constant(name, DataType::Int32, None)));
    all.push(constant("inet_server_port", DataType::Int32, None));
    all.extend(with_settings(shown));
    all.extend([stopping(shown, "pg_cancel_backend", false), stopping(shown, "pg_terminate_backend", true)]);
    all
}

/// The functions that take the `oid` of a relation.
pub(super) fn of_relations(relations: &Arc<Relations>, tables: &Arc<SessionTables>) -> [ScalarUDF; 2] {
    let number = |values: &[Option<String>]| values.first()?.as_deref()?.parse::<i32>().ok();
    let (seen, named, tables) = (Arc::clone(relations), Arc::clone(relations), Arc::clone(tables));
    [
        function("pg_table_is_visible", DataType::Boolean, Volatility::Stable, move |values| {
            Ok(number(values).map(|number| seen.is_visible(number).to_string()))
        }),
        function("pg_get_viewdef", DataType::Utf8, Volatility::Stable, move |values| {
            Ok(number(values).and_then(|number| tables.view_definition(&named.name(number)?)))
        }),
    ]
}

/// `current_setting` and `set_config`.
fn with_settings(shown: &Arc<Shown>) -> [ScalarUDF; 2] {
    let failed = |message: String| DataFusionError::Plan(message);
    let (reads, writes) = (Arc::clone(shown), Arc::clone(shown));
    [
        function("current_setting", DataType::Utf8, Volatility::Stable, move |values| {
            let Some(name) = values.first().cloned().flatten() else { return Ok(None) };
            let is_optional = values.get(1).cloned().flatten().is_some_and(|flag| flag.starts_with('t'));
            let own = || reads.engine.pushdown_settings().into_iter().find(|setting| setting.name == name);
            match reads.variables.get(&name).or_else(|| own().map(|setting| setting.value)) {
                None if !is_optional => Err(failed(format!("there is no setting {name}"))),
                found => Ok(found),
            }
        }),
        function("set_config", DataType::Utf8, Volatility::Volatile, move |values| {
            let value = |place: usize| values.get(place).cloned().flatten();
            let (Some(name), Some(value)) = (value(0), value(1)) else { return Ok(None) };
            writes.variables.set(&name, &value).map_err(|error| failed(error.message))?;
            Ok(Some(value))
        }),
    ]
}

/// A function that cancels the queries of another session or, with `and_end`, terminates the
/// session.
fn stopping(shown: &Arc<Shown>, name: &'static str, and_end: bool) -> ScalarUDF {
    let shown = Arc::clone(shown);
    function(name, DataType::Boolean, Volatility::Volatile, move |values| {
        let Some(pid) = values.first().cloned().flatten().and_then(|pid| pid.parse().ok()) else { return Ok(None) };
        let stopped = shown.sessions.stop(pid, &shown.own.user, shown.is_admin, and_end);
        stopped.map(|found| Some(found.to_string())).map_err(|error| DataFusionError::External(Box::new(error)))
    })
}
