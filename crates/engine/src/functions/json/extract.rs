//! Functions of a JSON document and a path in it.
//!
//! | function | of a value `v` at the path |
//! | --- | --- |
//! | `json_extract(doc, path)`, `doc -> path` | `v` as JSON |
//! | `json_extract_string(doc, path)`, `doc ->> path` | `v` as text: of a string without quotes; NULL for null |
//! | `json_extract_all(doc, path)` | all values at a path with `*`, as a list of JSON |
//! | `json_extract_all_text(doc, path)` | the same as texts |
//! | `json_exists(doc, path)` | whether there is one |
//! | `json_keys(doc[, path])` | the keys of an object |
//! | `json_array_length(doc[, path])` | the number of elements, 0 unless it is an array |
//! | `json_type(doc[, path])` | `OBJECT`, `ARRAY`, `VARCHAR`, `BIGINT`, `UBIGINT`, `DOUBLE`, `BOOLEAN`, `NULL` |
//! | `json_valid(text)` | whether the text is JSON |
//! | `json(doc)`, `try_json(text)` | the document without blanks; an error or NULL for other text |
//!
//! A document is JSON text, or any other value, which is converted like by `to_json`.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Int64Builder, ListBuilder, StringArray, StringBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::encode::encoded;
use super::path::{Step, find, find_all, parse};
use super::text::{compact, document, elements, entries, unquoted};
use crate::error::to_datafusion;

/// Returns the functions of this module.
pub(super) fn functions() -> Vec<ScalarUDF> {
    let all = [
        Asked::Json,
        Asked::Text,
        Asked::All,
        Asked::AllText,
        Asked::Exists,
        Asked::Keys,
        Asked::Length,
        Asked::Type,
        Asked::Valid,
        Asked::Checked,
        Asked::TryChecked,
    ];
    all.map(function).into()
}

/// Returns `json_extract`.
pub(super) fn json_extract() -> ScalarUDF {
    function(Asked::Json)
}

fn function(asked: Asked) -> ScalarUDF {
    let aliases = asked.aliases().iter().map(|alias| (*alias).to_owned()).collect();
    ScalarUDF::from(JsonFunction { asked, aliases, signature: Signature::user_defined(Volatility::Immutable) })
}

/// What a function returns.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
enum Asked {
    Json,
    Text,
    All,
    AllText,
    Exists,
    Keys,
    Length,
    Type,
    Valid,
    Checked,
    TryChecked,
}

impl Asked {
    fn name(self) -> &'static str {
        match self {
            Self::Json => "json_extract",
            Self::Text => "json_extract_string",
            Self::All => "json_extract_all",
            Self::AllText => "json_extract_all_text",
            Self::Exists => "json_exists",
            Self::Keys => "json_keys",
            Self::Length => "json_array_length",
            Self::Type => "json_type",
            Self::Valid => "json_valid",
            Self::Checked => "json",
            Self::TryChecked => "try_json",
        }
    }

    fn aliases(self) -> &'static [&'static str] {
        match self {
            Self::Json => &["json_extract_path"],
            Self::Text => &["json_extract_path_text", "json_value"],
            Self::Keys => &["json_object_keys"],
            _ => &[],
        }
    }

    /// Returns the minimum and maximum number of arguments.
    fn arguments(self) -> (usize, usize) {
        match self {
            Self::Json | Self::Text | Self::All | Self::AllText | Self::Exists => (2, 2),
            Self::Keys | Self::Length | Self::Type => (1, 2),
            Self::Valid | Self::Checked | Self::TryChecked => (1, 1),
        }
    }

    fn result_type(self) -> DataType {
        match self {
            Self::Json | Self::Text | Self::Type | Self::Checked | Self::TryChecked => DataType::Utf8,
            Self::Exists | Self::Valid => DataType::Boolean,
            Self::Keys | Self::All | Self::AllText => DataType::new_list(DataType::Utf8, true),
            Self::Length => DataType::Int64,
        }
    }
}

#[derive(Debug, Eq, Hash, PartialEq)]
struct JsonFunction {
    asked: Asked,
    aliases: Vec<String>,
    signature: Signature,
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => value.is_string(),
        other => other.is_string() || other.is_null(),
    }
}

impl ScalarUDFImpl for JsonFunction {
    fn name(&self) -> &str {
        self.asked.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let (least, most) = self.asked.arguments();
        let [document, path @ ..] = types else { return plan_err!("{} takes a document", self.name()) };
        if !(least..=most).contains(&types.len()) {
            return plan_err!("{} takes {most} arguments, not {}", self.name(), types.len());
        }
        let document = if is_text(document) { DataType::Utf8 } else { document.clone() };
        let path = match path.first() {
            None => return Ok(vec![document]),
            Some(path) if is_text(path) => DataType::Utf8,
            Some(path) if path.is_integer() => DataType::Int64,
            Some(path) => return plan_err!("{} takes one path, a text or a whole number, not {path}", self.name()),
        };
        Ok(vec![document, path])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.asked.result_type())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), self.asked.result_type(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let (documents, path) = match args.args.as_slice() {
            [documents] => (documents, None),
            [documents, path] => (documents, Some(path)),
            all => return exec_err!("{} of {} values", self.name(), all.len()),
        };
        // A function of constants is computed for one row.
        let all_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if all_constant { 1 } else { args.number_rows };
        let documents = documents.to_array(rows)?;
        let documents =
            if is_text(documents.data_type()) { cast(&documents, &DataType::Utf8)? } else { encoded(&documents)? };
        let paths = Paths::of(path, rows)?;
        let result = self.asked.of_all(documents.as_string::<i32>(), paths)?;
        if all_constant {
            return Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// The paths of the rows: the root, one path for all rows, or a column of paths.
enum Paths {
    Root,
    One(Option<Vec<Step>>),
    Each(ArrayRef),
}

impl Paths {
    fn of(path: Option<&ColumnarValue>, rows: usize) -> Result<Self> {
        Ok(match path {
            None => Self::Root,
            Some(ColumnarValue::Scalar(path)) => Self::One(steps(&path.to_array()?, 0)?),
            Some(path @ ColumnarValue::Array(_)) => Self::Each(path.to_array(rows)?),
        })
    }
}

/// Returns the steps of the path in this row; `None` if it is NULL.
fn steps(paths: &ArrayRef, row: usize) -> Result<Option<Vec<Step>>> {
    if paths.is_null(row) {
        return Ok(None);
    }
    match paths.data_type() {
        DataType::Int64 => Ok(Some(vec![Step::At(paths.as_primitive::<Int64Type>().value(row))])),
        DataType::Utf8 => parse(paths.as_string::<i32>().value(row)).map(Some).map_err(to_datafusion),
        other => exec_err!("a path is a text or a whole number, not {other}"),
    }
}

impl Asked {
    fn of_all(self, documents: &StringArray, paths: Paths) -> Result<ArrayRef> {
        let found = |row: usize| -> Result<Option<&str>> {
            if documents.is_null(row) {
                return Ok(None);
            }
            let document = document(documents.value(row)).map_err(to_datafusion)?;
            Ok(match &paths {
                Paths::Root => Some(document),
                Paths::One(path) => path.as_ref().and_then(|path| find(document, path)),
                Paths::Each(paths) => steps(paths, row)?.and_then(|path| find(document, &path)),
            })
        };
        let rows = 0..documents.len();
        Ok(match self {
            Self::Json | Self::Checked | Self::Text | Self::Type => {
                let mut texts = StringBuilder::new();
                for row in rows {
                    match (self, found(row)?) {
                        (_, None) => texts.append_null(),
                        (Self::Type, Some(value)) => texts.append_value(type_of(value)),
                        (Self::Text, Some("null")) => texts.append_null(),
                        (Self::Text, Some(value)) if value.starts_with('"') => texts.append_value(unquoted(value)),
                        (_, Some(value)) => texts.append_value(compact(value)),
                    }
                }
                Arc::new(texts.finish())
            }
            Self::All | Self::AllText => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for row in rows {
                    if documents.is_null(row) {
                        lists.append(false);
                        continue;
                    }
                    let document = document(documents.value(row)).map_err(to_datafusion)?;
                    let found = match &paths {
                        Paths::Root => vec![document],
                        Paths::One(path) => path.as_ref().map(|path| find_all(document, path)).unwrap_or_default(),
                        Paths::Each(paths) => {
                            steps(paths, row)?.map(|path| find_all(document, &path)).unwrap_or_default()
                        }
                    };
                    for value in found {
                        match (self, value) {
                            (Self::AllText, "null") => lists.values().append_null(),
                            (Self::AllText, value) if value.starts_with('"') => {
                                lists.values().append_value(unquoted(value));
                            }
                            (_, value) => lists.values().append_value(compact(value)),
                        }
                    }
                    lists.append(true);
                }
                Arc::new(lists.finish())
            }
            Self::TryChecked => {
                let all = documents.iter().map(|text| text.and_then(|text| document(text).ok()).map(compact));
                Arc::new(all.collect::<StringArray>())
            }
            Self::Valid => {
                let mut valid = BooleanBuilder::new();
                documents.iter().for_each(|text| valid.append_option(text.map(|text| document(text).is_ok())));
                Arc::new(valid.finish())
            }
            Self::Exists => {
                let mut exists = BooleanBuilder::new();
                for row in rows {
                    let found = found(row)?.is_some();
                    exists.append_option(documents.is_valid(row).then_some(found));
                }
                Arc::new(exists.finish())
            }
            Self::Length => {
                let mut lengths = Int64Builder::new();
                for row in rows {
                    let length = found(row)?.map(|value| elements(value).map_or(0, Iterator::count));
                    lengths.append_option(length.and_then(|length| i64::try_from(length).ok()));
                }
                Arc::new(lengths.finish())
            }
            Self::Keys => {
                let mut lists = ListBuilder::new(StringBuilder::new());
                for row in rows {
                    let value = found(row)?;
                    for (key, _) in value.and_then(entries).into_iter().flatten() {
                        lists.values().append_value(key);
                    }
                    lists.append(value.is_some());
                }
                Arc::new(lists.finish())
            }
        })
    }
}

/// Returns DuckDB's name for the type of a valid value.
fn type_of(value: &str) -> &'static str {
    match value.as_bytes().first() {
        Some(b'{') => "OBJECT",
        Some(b'[') => "ARRAY",
        Some(b'"') => "VARCHAR",
        Some(b't' | b'f') => "BOOLEAN",
        Some(b'n') => "NULL",
        _ if value.parse::<u64>().is_ok() => "UBIGINT",
        _ if value.parse::<i64>().is_ok() => "BIGINT",
        _ => "DOUBLE",
    }
}
