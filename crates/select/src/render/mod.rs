//! Rendering of a typed fragment as S3 Select SQL with the same meaning on the raw text.
//!
//! CSV columns are addressed by position, `s._6`, so that the names in a header do not matter; the
//! request has `FileHeaderInfo` IGNORE or NONE. The column types and the NULL rule of the table
//! become explicit: `CAST(NULLIF(s._6, '') AS DECIMAL(15,2))`. Dates stay text, since `YYYY-MM-DD`
//! sorts as text. A column that is only returned is not cast.
//!
//! The SQL of a predicate is TRUE for exactly the rows for which the predicate is. For a backend
//! without three-valued logic, each comparison that may meet NULL gets a guard, `(s._6 != '' AND
//! …)`. The guard relies on AND being evaluated from left to right, and the predicate must be in
//! the form that [`pushdowndb_contract::classify`] returns.

mod condition;
mod value;

use arrow_schema::{DataType, Field};
use pushdowndb_contract::{
    AggregateCall, AggregateFunction, CsvOptions, Dialect, Error, Expr, Format, Fragment, NamedExpr, NullRule, Output,
    Result,
};

use crate::OutputSerialization;

/// Renders a fragment as SQL for a backend.
///
/// A fragment without output columns selects a constant, so that rows can still be counted. Returns
/// an `Unsupported` error if the dialect lacks a construct or the SQL would be too long.
pub fn render(fragment: &Fragment, dialect: &Dialect) -> Result<String> {
    refuse_bytes(fragment)?;
    let by_name = OutputSerialization::of(fragment) == OutputSerialization::Json;
    let renderer = Renderer { fragment, dialect, by_name };
    let sql = renderer.statement()?;
    if sql.len() > dialect.expression_bytes {
        return Err(Error::unsupported(format!(
            "the SQL for storage would have {} bytes; at most {} are allowed",
            sql.len(),
            dialect.expression_bytes
        )));
    }
    if let Some(c) =
        sql.chars().find(|c| (*c < ' ' && !matches!(c, '\t' | '\n' | '\r')) || *c >= '\u{fffe}' && *c <= '\u{ffff}')
    {
        return Err(Error::unsupported(format!("a request to storage cannot carry the character {c:?}")));
    }
    Ok(sql)
}

/// Refuses to return binary columns: the backend would return them as text where they are valid
/// text, and in base64 otherwise, without saying which.
fn refuse_bytes(fragment: &Fragment) -> Result<()> {
    let outputs: Vec<&Expr> = match &fragment.output {
        Output::Rows(columns) => columns.iter().map(|column| &column.expr).collect(),
        Output::Aggregate { calls, .. } => {
            let valued = calls.iter().filter(|call| call.function != AggregateFunction::Count);
            valued.filter_map(|call| call.argument.as_ref()).collect()
        }
    };
    let mut columns =
        outputs.into_iter().flat_map(Expr::columns).filter_map(|index| fragment.schema.fields().get(index));
    match columns.find(|field| holds_bytes(field.data_type())) {
        Some(field) => Err(unsupported(&format!("the bytes of {}", field.name()))),
        None => Ok(()),
    }
}

fn holds_bytes(data_type: &DataType) -> bool {
    use DataType::{
        Binary, BinaryView, Dictionary, FixedSizeBinary, FixedSizeList, LargeBinary, LargeList, LargeListView, List,
        ListView, Map, Struct,
    };
    match data_type {
        Binary | BinaryView | LargeBinary | FixedSizeBinary(_) => true,
        List(inner)
        | ListView(inner)
        | LargeList(inner)
        | LargeListView(inner)
        | FixedSizeList(inner, _)
        | Map(inner, _) => holds_bytes(inner.data_type()),
        Struct(members) => members.iter().any(|member| holds_bytes(member.data_type())),
        Dictionary(_, values) => holds_bytes(values),
        _ => false,
    }
}

struct Renderer<'a> {
    fragment: &'a Fragment,
    dialect: &'a Dialect,
    /// True if the result is JSON, whose values are matched by name.
    by_name: bool,
}

impl Renderer<'_> {
    fn statement(&self) -> Result<String> {
        let fragment = self.fragment;
        let grouped = matches!(&fragment.output, Output::Aggregate { groups, .. } if !groups.is_empty());
        if grouped || !fragment.order.is_empty() || fragment.project.is_some() {
            return Err(unsupported("GROUP BY and ORDER BY"));
        }
        let mut sql = format!("SELECT {} FROM S3Object s", self.output()?);
        match &fragment.predicate {
            None => {}
            Some(Expr::And(all)) if all.is_empty() => {}
            Some(predicate) => {
                sql.push_str(" WHERE ");
                sql.push_str(&self.predicate(predicate)?);
            }
        }
        if let Some(limit) = fragment.limit {
            sql.push_str(&format!(" LIMIT {limit}"));
        }
        Ok(sql)
    }

    fn output(&self) -> Result<String> {
        let columns: Vec<String> = match &self.fragment.output {
            Output::Rows(columns) if columns.is_empty() => vec!["1".to_owned()],
            Output::Rows(columns) => {
                let whole = matches!(self.fragment.format, Format::Json(_)) && !self.dialect.json_projection;
                // Only `s.*` shows a field of a record that is not among the columns.
                let whole = whole || self.fragment.refuses_surplus();
                if whole && columns.iter().all(|column| matches!(column.expr, Expr::Column(_))) {
                    return Ok("s.*".to_owned());
                }
                columns.iter().map(|column| self.column_of_result(column)).collect::<Result<_>>()?
            }
            Output::Aggregate { calls, .. } => calls.iter().map(|call| self.aggregate(call)).collect::<Result<_>>()?,
        };
        Ok(columns.join(", "))
    }

    fn column_of_result(&self, column: &NamedExpr) -> Result<String> {
        Ok(match &column.expr {
            Expr::Column(index) => {
                let name = self.field(*index)?.name();
                self.named(self.raw(*index)?, name, &column.name)
            }
            other => self.named(self.value(other)?, "", &column.name),
        })
    }

    fn aggregate(&self, call: &AggregateCall) -> Result<String> {
        let sql = match (&call.function, &call.argument) {
            (AggregateFunction::Count, None) => "COUNT(*)".to_owned(),
            (AggregateFunction::Mean | AggregateFunction::SquaredDeviations, _) => {
                return Err(unsupported("the state of STDDEV and VARIANCE"));
            }
            (function, None) => return Err(Error::internal(format!("{} without an argument", function.sql()))),
            (AggregateFunction::Count, Some(Expr::Column(index))) => match self.field(*index)?.is_nullable() {
                true if self.dialect.three_valued => format!("COUNT({})", self.guarded(*index)?),
                true => return Err(unsupported("COUNT of a column that may be NULL")),
                false => "COUNT(*)".to_owned(),
            },
            (function, Some(argument)) => format!("{}({})", function.sql(), self.value(argument)?),
        };
        Ok(self.named(sql, "", &call.name))
    }

    /// Appends `AS name` if results are matched by name. Results in CSV are matched by position.
    fn named(&self, sql: String, own: &str, name: &str) -> String {
        match &self.fragment.format {
            Format::Csv(_) if !self.by_name => sql,
            _ if own == name => sql,
            _ if self.dialect.three_valued => format!("{sql} AS {}", quoted(name, '"')),
            _ => format!("{sql} AS {}", quoted(name, '\'')),
        }
    }

    fn csv(&self) -> Option<&CsvOptions> {
        match &self.fragment.format {
            Format::Csv(options) => Some(options),
            _ => None,
        }
    }

    fn field(&self, index: usize) -> Result<&Field> {
        self.fragment
            .schema
            .fields()
            .get(index)
            .map(|field| field.as_ref())
            .ok_or_else(|| Error::internal(format!("no column has the index {index}")))
    }

    /// Renders the column as the object stores it: in CSV, text without a type.
    fn raw(&self, index: usize) -> Result<String> {
        let name = self.field(index)?.name();
        Ok(match self.csv() {
            Some(_) => format!("s._{}", index + 1),
            None => format!("s.{}", quoted(name, '"')),
        })
    }

    /// Returns the texts that mean NULL in this column.
    fn null_texts(&self, index: usize) -> Result<Vec<&str>> {
        if !self.field(index)?.is_nullable() {
            return Ok(Vec::new());
        }
        Ok(match self.csv().map(|options| &options.null) {
            None | Some(NullRule::Never) => Vec::new(),
            Some(NullRule::Empty) => vec![""],
            Some(NullRule::Text(text)) => vec!["", text],
        })
    }

    /// Renders the raw column, with texts that mean NULL replaced by NULL.
    fn guarded(&self, index: usize) -> Result<String> {
        let texts = if self.dialect.three_valued { self.null_texts(index)? } else { Vec::new() };
        let raw = self.raw(index)?;
        Ok(texts.into_iter().fold(raw, |sql, text| format!("NULLIF({sql}, {})", quoted(text, '\''))))
    }
}

/// Returns `text` in quotes, with quotes inside doubled.
fn quoted(text: &str, quote: char) -> String {
    let doubled = format!("{quote}{quote}");
    format!("{quote}{}{quote}", text.replace(quote, &doubled))
}

fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("{what} cannot be asked of this storage"))
}

/// Returns the type to which text has to be cast; `None` for types that stay text.
fn cast_type(data_type: &DataType, dialect: &Dialect) -> Result<Option<String>> {
    Ok(Some(match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Date32 => return Ok(None),
        DataType::Boolean => "BOOL".to_owned(),
        DataType::Float64 => "FLOAT".to_owned(),
        DataType::Decimal128(precision, scale) if *scale >= 0 => match dialect.decimals {
            true => format!("DECIMAL({precision},{scale})"),
            false => "FLOAT".to_owned(),
        },
        integer if integer.is_integer() && *integer != DataType::UInt64 => "INT".to_owned(),
        other => return Err(unsupported(&format!("a value of type {other}"))),
    }))
}

#[cfg(test)]
mod tests;
