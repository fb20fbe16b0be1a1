//! Fusing casts into the decoder: `CAST(column AS type)` over a text column becomes a column of that type.
//!
//! This is what S3 Select sends, whose columns are all text. Building the text only to parse it again for each
//! expression costs more than everything else, so the field is decoded as the type at once, with the same rules
//! as the cast ([`crate::text::values`]). `CAST(NULLIF(column, '') AS type)` makes empty fields NULL.
//!
//! A cast that CASE or COALESCE may never reach is left alone: decoding would report values that nobody looked at.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field, Schema};
use pushdown::{CsvOptions, Error, Expr, Function, Literal, Result};

use crate::evaluate::coerce::casts_from_text;
use crate::matcher::Stored;
use crate::pruning::zones::ZoneColumn;
use crate::text::columns::{ColumnBuilder, Nulls, Spelling, builder};

/// A column as it is decoded: which field, as what.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DecodedColumn {
    /// The field's number in the record.
    pub(crate) field: usize,
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    pub(crate) nulls: Nulls,
    pub(crate) spelling: Spelling,
}

impl DecodedColumn {
    pub(crate) fn builder(&self) -> Result<Box<dyn ColumnBuilder>> {
        builder(&self.data_type, self.nulls.clone(), self.spelling)
    }

    /// The column as zones know it: by all that decides its values.
    pub(crate) fn zoned(&self, options: &CsvOptions) -> ZoneColumn {
        ZoneColumn {
            key: format!("{self:?} {options:?}").into(),
            field: Field::new(&self.name, self.data_type.clone(), self.nullable()),
        }
    }

    /// How values stand in the text, if every spelling of one has bytes in common.
    pub(crate) fn stored(&self) -> Option<Stored> {
        match &self.data_type {
            text if text.is_string() => Some(Stored::Text),
            // A cast takes other spellings, too.
            DataType::Date32 if self.spelling == Spelling::Declared => Some(Stored::Date),
            number if number.is_integer() => Some(Stored::Integer),
            _ => None,
        }
    }

    /// Whether the array may hold NULL.
    pub(crate) fn nullable(&self) -> bool {
        self.nulls.allowed || self.nulls.empty_by_nullif
    }
}

/// Collects the columns that expressions need while rewriting the expressions to them.
pub(crate) struct Fuser<'a> {
    schema: &'a Schema,
    options: &'a CsvOptions,
    pub(crate) decoded: Vec<DecodedColumn>,
    /// Where each of them is, by what they differ in.
    places: HashMap<(usize, DataType, bool, bool), usize>,
}

impl<'a> Fuser<'a> {
    pub(crate) fn new(schema: &'a Schema, options: &'a CsvOptions) -> Self {
        Self { schema, options, decoded: vec![], places: HashMap::new() }
    }

    /// `expr` over [`Self::decoded`] instead of the object's columns.
    pub(crate) fn rewrite(&mut self, expr: &Expr) -> Result<Expr> {
        crate::evaluate::lower::check_depth(expr)?;
        self.walk(expr.clone(), true)
    }

    fn walk(&mut self, expr: Expr, eager: bool) -> Result<Expr> {
        match expr {
            Expr::Column(index) => self.column(index),
            Expr::Cast(inner, to) => match self.castable(&inner, &to).filter(|_| eager) {
                Some((index, nullif)) => self.cast_column(index, to, nullif),
                None => Ok(Expr::Cast(Box::new(self.walk(*inner, eager)?), to)),
            },
            Expr::Case { branches, otherwise } => {
                let branches = branches
                    .into_iter()
                    .enumerate()
                    .map(|(i, (when, then))| Ok((self.walk(when, eager && i == 0)?, self.walk(then, false)?)))
                    .collect::<Result<_>>()?;
                let otherwise = otherwise.map(|e| self.walk(*e, false).map(Box::new)).transpose()?;
                Ok(Expr::Case { branches, otherwise })
            }
            Expr::Call(Function::Coalesce, args) => {
                let args = args.into_iter().enumerate().map(|(i, arg)| self.walk(arg, eager && i == 0));
                Ok(Expr::Call(Function::Coalesce, args.collect::<Result<_>>()?))
            }
            other => other.map_children(&mut |child| self.walk(child, eager)),
        }
    }

    /// The text column under a cast that can be fused, and whether it goes through `NULLIF(…, '')`.
    fn castable(&self, inner: &Expr, to: &DataType) -> Option<(usize, bool)> {
        let (column, nullif) = match inner {
            Expr::Column(index) => (*index, false),
            Expr::Call(Function::NullIf, args) => match args.as_slice() {
                [Expr::Column(index), Expr::Literal(Literal::Utf8(text))] if text.is_empty() => (*index, true),
                _ => return None,
            },
            _ => return None,
        };
        let is_text_column = self.schema.fields().get(column).is_some_and(|f| f.data_type().is_string());
        (is_text_column && casts_from_text(to)).then_some((column, nullif))
    }

    fn column(&mut self, index: usize) -> Result<Expr> {
        let column = self.declared(index)?;
        Ok(self.index_of(column))
    }

    fn cast_column(&mut self, index: usize, to: DataType, nullif: bool) -> Result<Expr> {
        let mut column = self.declared(index)?;
        column.data_type = to;
        column.spelling = Spelling::Cast;
        column.nulls.empty_by_nullif = nullif;
        Ok(self.index_of(column))
    }

    fn declared(&self, index: usize) -> Result<DecodedColumn> {
        let field =
            self.schema.fields().get(index).ok_or_else(|| {
                Error::internal(format!("column {index} of a table of {}", self.schema.fields().len()))
            })?;
        Ok(DecodedColumn {
            field: index,
            name: field.name().clone(),
            data_type: field.data_type().clone(),
            nulls: Nulls::new(&self.options.null, field.is_nullable()),
            spelling: Spelling::Declared,
        })
    }

    fn index_of(&mut self, column: DecodedColumn) -> Expr {
        let is_cast = column.spelling == Spelling::Cast;
        let key = (column.field, column.data_type.clone(), is_cast, column.nulls.empty_by_nullif);
        let decoded = &mut self.decoded;
        Expr::Column(*self.places.entry(key).or_insert_with(|| {
            decoded.push(column);
            decoded.len() - 1
        }))
    }
}
