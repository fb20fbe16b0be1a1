//! Names and paths to columns of the fragment's schema.
//!
//! CSV columns are all Utf8, by position and perhaps by header. JSON has the columns that the statement
//! asks for, collected here as they come up. Parquet has those of its schema.

use std::collections::HashMap;

use arrow_schema::{DataType, Field, SchemaRef};
use pushdown::{Expr, NamedExpr, limits};

use super::{InputColumns, schema_of};
use crate::SelectError;
use crate::ast::{Name, Step};

/// The columns of an input, and those that a statement needs of it.
pub(super) struct Columns<'a> {
    input: &'a InputColumns,
    alias: Option<&'a Name>,
    fields: Vec<Field>,
    /// JSON: the columns asked for so far, by path and by whether case matters.
    paths: HashMap<(String, bool), usize>,
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

    /// What `*` selects. A JSON record is one token under the path `$`.
    pub(super) fn all(&mut self) -> Vec<NamedExpr> {
        if let InputColumns::Json(_) = self.input {
            let index = self.path("$".to_owned(), HashMap::from([("path".to_owned(), "$".to_owned())]), true);
            return vec![NamedExpr { expr: Expr::Column(index), name: "_1".to_owned() }];
        }
        let column =
            |(index, field): (usize, &Field)| NamedExpr { expr: Expr::Column(index), name: field.name().clone() };
        self.fields.iter().enumerate().map(column).collect()
    }

    pub(super) fn into_schema(self) -> SchemaRef {
        schema_of(self.fields)
    }

    /// The column at a path, and its type; `None` for a raw token of JSON.
    pub(super) fn find(&mut self, steps: &[Step]) -> Result<(usize, Option<DataType>), SelectError> {
        let path = without_alias(steps, self.alias);
        if let InputColumns::Json(_) = self.input {
            return Ok((self.json(path), None));
        }
        let name = match path {
            [Step::Name(name)] => name,
            [Step::Name(table), Step::Name(_), ..] => {
                return Err(SelectError::new("InvalidTableAlias", format!("no table is called \"{}\"", table.text)));
            }
            _ => {
                let message = format!("{}: only JSON has values inside values", path_text(path));
                return Err(SelectError::new("InvalidKeyPath", message));
            }
        };
        let index = match self.named(name)? {
            Some(index) => index,
            None => self.positional(name)?,
        };
        Ok((index, self.fields.get(index).map(|field| field.data_type().clone())))
    }

    fn named(&self, name: &Name) -> Result<Option<usize>, SelectError> {
        if matches!(self.input, InputColumns::Csv { names: None, .. }) {
            return Ok(None);
        }
        let mut found = self.fields.iter().enumerate().filter(|(_, field)| name.means(field.name()));
        match (found.next(), found.next()) {
            (Some((_, a)), Some((_, b))) => Err(SelectError::new(
                "AmbiguousFieldName",
                format!("\"{}\" is \"{}\" or \"{}\": write the name in double quotes", name.text, a.name(), b.name()),
            )),
            (found, _) => Ok(found.map(|(index, _)| index)),
        }
    }

    /// `_N` of a CSV record.
    fn positional(&mut self, name: &Name) -> Result<usize, SelectError> {
        let unknown = || {
            let known: Vec<_> = self.fields.iter().take(20).map(|field| field.name().as_str()).collect();
            let message = format!("no column is called \"{}\"; there are {}", name.text, known.join(", "));
            SelectError::new("EvaluatorBindingDoesNotExist", message)
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
        // Records may be longer than the first one; what they lack is missing.
        for n in self.fields.len() + 1..=position {
            self.fields.push(csv_field(&format!("_{n}")));
        }
        Ok(position - 1)
    }

    fn json(&mut self, path: &[Step]) -> usize {
        let any_case = path.iter().any(|step| matches!(step, Step::Name(name) if !name.exact));
        let (text, nested) = match path {
            [] => ("$".to_owned(), true),
            [Step::Name(name)] => (name.text.clone(), false),
            path => (path_text(path), true),
        };
        let mut metadata = HashMap::new();
        if nested {
            metadata.insert("path".to_owned(), text.clone());
        }
        if any_case {
            metadata.insert("ignore_case".to_owned(), "true".to_owned());
        }
        self.path(text, metadata, !any_case)
    }

    fn path(&mut self, text: String, metadata: HashMap<String, String>, exact: bool) -> usize {
        let fields = &mut self.fields;
        *self.paths.entry((text.clone(), exact)).or_insert_with(|| {
            fields.push(Field::new(text, DataType::Utf8, true).with_metadata(metadata));
            fields.len() - 1
        })
    }
}

fn csv_field(name: &str) -> Field {
    // Short records lack fields.
    Field::new(name, DataType::Utf8, true)
}

/// The path inside a record: without the alias of the table, or `S3Object`, or `_1` where nothing is named.
pub(super) fn without_alias<'a>(steps: &'a [Step], alias: Option<&Name>) -> &'a [Step] {
    let is_row = |name: &Name| match alias {
        Some(alias) if alias.exact => name.text == alias.text,
        Some(alias) => name.means(&alias.text),
        None => name.text == "_1" && !name.exact,
    };
    match steps {
        [Step::Name(name), rest @ ..] if !rest.is_empty() && (is_row(name) || name.means("s3object")) => rest,
        all => all,
    }
}

/// A path as `a.b[0]`; names that would be read as something else are in double quotes.
pub(super) fn path_text(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        match step {
            Step::Index(index) => text.push_str(&format!("[{index}]")),
            Step::Name(name) => {
                if !text.is_empty() {
                    text.push('.');
                }
                if !name.text.is_empty() && name.text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-')) {
                    text.push_str(&name.text);
                } else {
                    text.push_str(&format!("\"{}\"", name.text.replace('"', "\"\"")));
                }
            }
        }
    }
    text
}
