//! Resolution of names and paths to columns of the fragment's schema.
//!
//! CSV columns are all Utf8 and are found by position or, if there is a header, by name. For JSON,
//! the columns are the paths that the statement refers to, collected here. For Parquet, they are
//! the columns of its schema and the values nested inside them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use pushdowndb_contract::{Expr, NamedExpr, limits};

use super::input::InputColumns;
use crate::SelectError;
use crate::ast::{Name, Step};

/// The columns of an input to which a statement refers.
pub(super) struct Columns<'a> {
    input: &'a InputColumns,
    alias: Option<&'a Name>,
    fields: Vec<Field>,
    /// Indexes in `fields` by path.
    paths: HashMap<String, usize>,
}

impl<'a> Columns<'a> {
    pub(super) fn new(input: &'a InputColumns, alias: Option<&'a Name>) -> Self {
        let fields = match input {
            InputColumns::Csv { names: Some(names), .. } => names.iter().map(|name| csv_field(name)).collect(),
            InputColumns::Csv { names: None, count, .. } => (1..=*count).map(|n| csv_field(&format!("_{n}"))).collect(),
            InputColumns::Json(_) => Vec::new(),
            InputColumns::Parquet(schema) => schema.fields().iter().map(|field| field.as_ref().clone()).collect(),
        };
        Self { input, alias, fields, paths: HashMap::new() }
    }

    /// Returns the columns of `*`. A JSON record is a single token with the path `$`.
    pub(super) fn all(&mut self) -> Vec<NamedExpr> {
        if let InputColumns::Json(_) = self.input {
            let index = self.path("$".to_owned(), Some("$".to_owned()));
            return vec![NamedExpr { expr: Expr::Column(index), name: "_1".to_owned() }];
        }
        let column =
            |(index, field): (usize, &Field)| NamedExpr { expr: Expr::Column(index), name: field.name().clone() };
        // Nested values that other clauses use are not part of `*`.
        let count = match self.input {
            InputColumns::Parquet(schema) => schema.fields().len(),
            _ => self.fields.len(),
        };
        self.fields.iter().take(count).enumerate().map(column).collect()
    }

    pub(super) fn into_schema(self) -> SchemaRef {
        Arc::new(Schema::new(self.fields))
    }

    /// Returns a column that no record has, for MISSING as an output.
    pub(super) fn missing(&mut self) -> Expr {
        Expr::Column(match self.input {
            InputColumns::Json(_) => {
                // A name with a control character, which no real record has.
                self.path("MISSING".to_owned(), Some("\"\u{1}MISSING\"".to_owned()))
            }
            InputColumns::Csv { .. } => self.nth(limits::COLUMNS),
            InputColumns::Parquet(_) => {
                self.fields.push(Field::new("\u{1}MISSING", DataType::Null, true));
                self.fields.len() - 1
            }
        })
    }

    /// Returns the index of the column at a path and its type; the type is `None` for a JSON token.
    pub(super) fn find(&mut self, steps: &[Step]) -> Result<(usize, Option<DataType>), SelectError> {
        let path = without_alias(steps, self.alias);
        if let InputColumns::Json(_) = self.input {
            let is_row = matches!(steps, [Step::Name(name)] if is_row(name, self.alias));
            return Ok((self.json(if is_row { &[] } else { path }), None));
        }
        let name = match path {
            [Step::Name(name)] => name,
            _ if matches!(self.input, InputColumns::Parquet(_)) => return self.nested(path),
            [Step::Name(table), Step::Name(_), ..] => {
                return Err(SelectError::new("InvalidTableAlias", format!("no table is called \"{}\"", table.text)));
            }
            _ => {
                let message = format!("{}: only JSON and Parquet have values inside values", path_text(path));
                return Err(SelectError::new("InvalidKeyPath", message));
            }
        };
        let index = match self.named(name)? {
            Some(index) => index,
            None => self.positional(name)?,
        };
        Ok((index, self.fields.get(index).map(|field| field.data_type().clone())))
    }

    /// Returns a value nested inside a Parquet column, as a column named by its path.
    fn nested(&mut self, path: &[Step]) -> Result<(usize, Option<DataType>), SelectError> {
        let invalid = |message: String| SelectError::new("InvalidKeyPath", message);
        let [Step::Name(root), rest @ ..] = path else {
            return Err(invalid(format!("{}: a path starts with a column", path_text(path))));
        };
        let Some(index) = self.named(root)? else {
            return Err(SelectError::new(
                "InvalidTableAlias",
                format!("no table or column is called \"{}\"", root.text),
            ));
        };
        let Some(field) = self.fields.get(index).cloned() else {
            return Err(invalid(format!("{}: there is no such column", path_text(path))));
        };
        let mut resolved = exact_name(field.name());
        let mut data_type = field.data_type().clone();
        for step in rest {
            let not_there = || invalid(format!("{}: nothing of that name or place is in {resolved}", path_text(path)));
            (resolved, data_type) = match (step, &data_type) {
                (Step::Name(name), DataType::Struct(members)) => {
                    let mut found = members.iter().filter(|member| name.means(member.name()));
                    match (found.next(), found.next()) {
                        (Some(a), Some(b)) => return Err(ambiguous(name, a.name(), b.name())),
                        (Some(member), None) => {
                            (format!("{resolved}.{}", exact_name(member.name())), member.data_type().clone())
                        }
                        (None, _) => return Err(not_there()),
                    }
                }
                (Step::Name(name), DataType::Map(entries, _)) => match entries.data_type() {
                    DataType::Struct(members) if members.len() == 2 => {
                        let value = members.get(1).map_or(DataType::Null, |value| value.data_type().clone());
                        (format!("{resolved}.{}", exact_name(&name.text)), value)
                    }
                    _ => return Err(not_there()),
                },
                (
                    Step::Index(place),
                    DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _),
                ) => (format!("{resolved}[{place}]"), element.data_type().clone()),
                _ => return Err(not_there()),
            };
        }
        if let Some(found) = self.paths.get(&resolved) {
            return Ok((*found, Some(data_type)));
        }
        let metadata = HashMap::from([("path".to_owned(), resolved.clone())]);
        self.fields.push(Field::new(path_text(path), data_type.clone(), true).with_metadata(metadata));
        self.paths.insert(resolved, self.fields.len() - 1);
        Ok((self.fields.len() - 1, Some(data_type)))
    }

    fn named(&self, name: &Name) -> Result<Option<usize>, SelectError> {
        if matches!(self.input, InputColumns::Csv { names: None, .. }) {
            return Ok(None);
        }
        let mut found = self.fields.iter().enumerate().filter(|(_, field)| name.means(field.name()));
        match (found.next(), found.next()) {
            (Some((_, a)), Some((_, b))) => Err(ambiguous(name, a.name(), b.name())),
            (found, _) => Ok(found.map(|(index, _)| index)),
        }
    }

    /// Returns column `_N` of a CSV record.
    fn positional(&mut self, name: &Name) -> Result<usize, SelectError> {
        let unknown = || {
            let known: Vec<_> = self.fields.iter().take(20).map(|field| field.name().as_str()).collect();
            let message = format!("no column is called \"{}\"; there are {}", name.text, known.join(", "));
            let by_header = matches!(self.input, InputColumns::Csv { names: Some(_), .. });
            SelectError::new(if by_header { "MissingHeaderName" } else { "EvaluatorBindingDoesNotExist" }, message)
        };
        let position = match (self.input, name.text.strip_prefix('_')) {
            (InputColumns::Csv { .. }, Some(digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                digits.parse::<usize>().map_err(|_| unknown())?
            }
            _ => return Err(unknown()),
        };
        if position == 0 || position > limits::COLUMNS {
            let message = format!("{}: columns are _1 to _{}", name.text, limits::COLUMNS);
            return Err(SelectError::new("InvalidColumnIndex", message));
        }
        Ok(self.nth(position))
    }

    /// Returns the column at a `position`, counted from 1, in a CSV record. Records may have more
    /// fields than the first one; fields that a record lacks are missing.
    fn nth(&mut self, position: usize) -> usize {
        for n in self.fields.len() + 1..=position {
            self.fields.push(csv_field(&format!("_{n}")));
        }
        position.saturating_sub(1)
    }

    /// Returns the column for a path in a JSON record; the empty path is the record itself.
    fn json(&mut self, path: &[Step]) -> usize {
        match path {
            [Step::Name(name)] if name.exact => self.path(name.text.clone(), None),
            [Step::Name(name)] => self.path(name.text.clone(), Some(path_text(path))),
            path => self.path(path_text(path), Some(path_text(path))),
        }
    }

    /// Returns the column with this name and path; equal paths get the same column.
    fn path(&mut self, name: String, path: Option<String>) -> usize {
        let key = path.clone().unwrap_or_else(|| exact_name(&name));
        let fields = &mut self.fields;
        *self.paths.entry(key).or_insert_with(|| {
            let field = Field::new(name, DataType::Utf8, true);
            fields.push(match path {
                Some(path) => field.with_metadata(HashMap::from([("path".to_owned(), path)])),
                None => field,
            });
            fields.len() - 1
        })
    }
}

fn ambiguous(name: &Name, a: &str, b: &str) -> SelectError {
    let message = format!("\"{}\" is \"{a}\" or \"{b}\": write the name in double quotes", name.text);
    SelectError::new("AmbiguousFieldName", message)
}

fn exact_name(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn csv_field(name: &str) -> Field {
    // A record may have fewer fields than there are columns.
    Field::new(name, DataType::Utf8, true)
}

/// Returns whether the name refers to the whole row: it is the table's alias, or `_1` if there is
/// no alias.
fn is_row(name: &Name, alias: Option<&Name>) -> bool {
    match alias {
        Some(alias) if alias.exact => name.text == alias.text,
        Some(alias) => name.means(&alias.text),
        None => name.text == "_1" && !name.exact,
    }
}

/// Returns the path inside a record: `steps` without a leading alias or `S3Object`.
pub(super) fn without_alias<'a>(steps: &'a [Step], alias: Option<&Name>) -> &'a [Step] {
    match steps {
        [Step::Name(name), rest @ ..] if !rest.is_empty() && (is_row(name, alias) || name.means("s3object")) => rest,
        all => all,
    }
}

/// Formats a path as `a."B"[0]`. A bare name is matched ignoring case, a name in double quotes
/// exactly.
pub(super) fn path_text(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Index(index) => text.push_str(&format!("[{index}]")),
            Step::Name(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                let plain =
                    !name.text.is_empty() && name.text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'));
                if plain && !name.exact && name.text != "$" {
                    text.push_str(&name.text);
                } else {
                    text.push_str(&exact_name(&name.text));
                }
            }
        }
    }
    text
}
