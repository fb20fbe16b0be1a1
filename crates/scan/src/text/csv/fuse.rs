//! Fuses casts into the decoder: `CAST(column AS type)` of a text column becomes a column of that
//! type.
//!
//! S3 Select requests have such casts, since all of its columns are text. To build the text only to
//! parse it again for each expression would dominate the cost. Instead, the field is decoded
//! directly as the type, by the rules of the cast ([`crate::values::parse`]). `CAST(NULLIF(column,
//! '') AS type)` makes empty fields NULL.
//!
//! A cast that may be skipped by CASE or COALESCE is not fused, because decoding would report
//! errors in values that are never evaluated.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field, Schema};
use pushdowndb_contract::{CsvOptions, DECLARED, Error, Expr, Format, Function, Literal, Result};

use crate::expr::coerce::casts_from_text;
use crate::prefilter::derive::Stored;
use crate::values::builders::{ColumnBuilder, builder};
use crate::values::nulls::{Nulls, Spelling};
use crate::zones::zone::{ZoneColumn, column_key};

#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct DecodedColumn {
    /// The number of the field in the record.
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

    /// Returns the identity of the column for zones, which includes everything that affects its
    /// values. Returns `None` if its type has no wire form.
    pub(crate) fn zoned(&self, options: &CsvOptions) -> Option<ZoneColumn> {
        let Self { field, name, data_type, nulls, spelling } = self;
        let Nulls { empty, quoted, text, allowed, empty_by_nullif } = nulls;
        let spelling = match spelling {
            Spelling::Declared => 0,
            Spelling::Inferred => 1,
            Spelling::Cast => 2,
        };
        let key = column_key().number(*field as u64).text(name).data_type(data_type).ok()?.number(spelling);
        let key = key.flag(*empty).flag(*quoted).optional(text.as_deref()).flag(*allowed).flag(*empty_by_nullif);
        let key = key.format(&Format::Csv(options.clone())).ok()?.finish();
        Some(ZoneColumn { key, field: Field::new(name, data_type.clone(), self.nullable()) })
    }

    /// Returns how values are spelled, if all spellings of a value share bytes.
    pub(crate) fn stored(&self) -> Option<Stored> {
        match &self.data_type {
            text if text.is_string() => Some(Stored::Text),
            // A cast accepts other spellings, too.
            DataType::Date32 if self.spelling != Spelling::Cast => Some(Stored::Date),
            number if number.is_integer() => Some(Stored::Integer),
            _ => None,
        }
    }

    /// Returns whether the array may contain NULL.
    pub(crate) fn nullable(&self) -> bool {
        self.nulls.allowed || self.nulls.empty_by_nullif
    }
}

/// Rewrites expressions to decoded columns, and collects these columns.
pub(crate) struct Fuser<'a> {
    schema: &'a Schema,
    options: &'a CsvOptions,
    pub(crate) decoded: Vec<DecodedColumn>,
    /// The index of each decoded column, by all properties in which columns may differ.
    places: HashMap<(usize, DataType, bool, bool), usize>,
}

impl<'a> Fuser<'a> {
    pub(crate) fn new(schema: &'a Schema, options: &'a CsvOptions) -> Self {
        Self { schema, options, decoded: vec![], places: HashMap::new() }
    }

    /// Rewrites `expr` to use [`Self::decoded`] instead of the object's columns.
    pub(crate) fn rewrite(&mut self, expr: &Expr) -> Result<Expr> {
        crate::expr::lower::check_depth(expr)?;
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

    /// Returns the text column under a cast that can be fused, and whether it is wrapped in
    /// `NULLIF(…, '')`.
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
            nulls: Nulls::new(&self.options.null, field.data_type(), field.is_nullable()),
            spelling: match self.options.inferred && !field.metadata().contains_key(DECLARED) {
                true => Spelling::Inferred,
                false => Spelling::Declared,
            },
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

#[cfg(test)]
mod tests {
    use pushdowndb_contract::NullRule;

    use super::*;

    /// If these keys change, all zones that nodes have saved are lost.
    #[test]
    fn keys_of_columns_in_zones_are_fixed() {
        let options = CsvOptions { null: NullRule::Text("-".to_owned()), ..CsvOptions::default() };
        let nulls = Nulls::new(&options.null, &DataType::Int64, true);
        let column = DecodedColumn {
            field: 3,
            name: "a".to_owned(),
            data_type: DataType::Int64,
            nulls,
            spelling: Spelling::Declared,
        };
        let key = |column: &DecodedColumn, options: &CsvOptions| column.zoned(options).unwrap().key.to_string();
        let first = key(&column, &options);
        assert_eq!(first, "1-563d6ae4a789e090119487407a0796fa");
        let cast = DecodedColumn { spelling: Spelling::Cast, ..column.clone() };
        let elsewhere = DecodedColumn { field: 4, ..column.clone() };
        let headless = CsvOptions { header: false, ..options.clone() };
        let others = [key(&cast, &options), key(&elsewhere, &options), key(&column, &headless)];
        assert!(others.iter().all(|other| *other != first), "{others:?}");
    }
}
