//! What is decoded of a CSV record, and when.
//!
//! Conjuncts of the predicate that read the same columns form a stage, which runs on the rows that passed those before
//! it ([`super::stages`]) and decodes only its own columns. What is left decodes the output columns. Where only the
//! first rows of an order are wanted, the last stage is what is known of them by now.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use pushdown::{CsvOptions, Expr, Fragment, Output, Result};

use super::fuse::{DecodedColumn, Fuser};
use super::tokenize::Dialect;
use crate::ScanOptions;
use crate::evaluate::Evaluator;
use crate::interrupt::check_interrupt;
use crate::matcher::{Marks, Matcher};
use crate::output::{columns_of, map_output, place, renumber};
use crate::pruning::zones::{ZoneColumn, decides, wants_keys};
use crate::row_filter::RowCondition;
use crate::text::compare::{FieldCondition, field_condition};
use crate::top_k::{FirstRows, Threshold};

/// The plan of a scan.
pub(crate) struct CsvPlan {
    /// Conditions, as they are written.
    pub(crate) stages: Vec<Stage>,
    /// The columns that the first of them decodes.
    observed: Vec<DecodedColumn>,
    /// The columns that come out.
    pub(crate) output: Vec<DecodedColumn>,
    /// Their schema.
    pub(crate) schema: SchemaRef,
    /// What a row must fulfil, over all columns that are decoded at any stage.
    condition: Option<Expr>,
    decoded: Vec<DecodedColumn>,
}

/// Columns, and a condition on them.
pub(crate) struct Stage {
    pub(crate) columns: Vec<DecodedColumn>,
    pub(crate) schema: SchemaRef,
    condition: RowCondition,
    /// The same condition where it can be decided from the fields of the one column.
    pub(crate) by_field: Option<Box<dyn FieldCondition>>,
}

impl CsvPlan {
    /// The plan for a fragment, and the fragment's output rewritten to the columns that come out.
    pub(crate) fn new(fragment: &Fragment, options: &CsvOptions, threshold: &Arc<Threshold>) -> Result<(Self, Output)> {
        let mut fuser = Fuser::new(&fragment.schema, options);
        if let Some(predicate) = &fragment.predicate {
            crate::evaluate::lower::check_depth(predicate)?;
        }
        let conjuncts = fragment.predicate.clone().map_or_else(Vec::new, Expr::into_conjuncts);
        let conjuncts = conjuncts.iter().map(|c| fuser.rewrite(c)).collect::<Result<Vec<_>>>()?;
        let output = map_output(&fragment.output, &mut |expr| fuser.rewrite(expr))?;
        let first = FirstRows::of(fragment, threshold);
        let first = first.map(|first| first.with_key(|key| fuser.rewrite(key))).transpose()?;
        let decoded = fuser.decoded;
        let condition = (!conjuncts.is_empty()).then(|| Expr::conjunction(conjuncts.clone()));

        let mut stages: Vec<(Vec<usize>, Vec<Expr>)> = Vec::new();
        for conjunct in conjuncts {
            let columns = conjunct.columns();
            match stages.last_mut() {
                Some((last, all)) if *last == columns => all.push(conjunct),
                _ => stages.push((columns, vec![conjunct])),
            }
        }
        let observed = stages.first().map_or_else(Vec::new, |(columns, _)| pick(&decoded, columns));
        let mut stages: Vec<Stage> =
            stages.into_iter().map(|(columns, all)| Stage::new(&decoded, &columns, all)).collect::<Result<_>>()?;
        if let Some(first) = first {
            stages.extend(Stage::live(&decoded, &first)?);
        }

        let columns = columns_of(&output);
        let output = map_output(&output, &mut |expr| Ok(renumber(expr, &columns)))?;
        let columns = pick(&decoded, &columns);
        Ok((Self { stages, observed, schema: schema_of(&columns), output: columns, condition, decoded }, output))
    }

    /// The predicate and the columns it reads, as zones know them.
    pub(crate) fn zoned(&self, options: &CsvOptions) -> Option<(&Expr, Vec<ZoneColumn>)> {
        Some((self.condition.as_ref()?, self.decoded.iter().map(|column| column.zoned(options)).collect()))
    }

    /// The columns that the first stage decodes of all records, each with whether its keys are of use; none of them if
    /// no zone of any could be.
    pub(crate) fn observed(&self, options: &CsvOptions) -> Vec<(ZoneColumn, bool)> {
        let Some(condition) = &self.condition else { return vec![] };
        let schema = schema_of(&self.decoded);
        let mut any = false;
        let observed = self.observed.iter().take_while(|_| check_interrupt().is_ok()).map(|column| {
            let place = self.decoded.iter().position(|other| other == column);
            let zoned = column.zoned(options);
            any |= place.is_some_and(|place| decides(condition, place, &schema));
            let keys = place.is_some_and(|place| wants_keys(condition, place, &zoned.field));
            (zoned, keys)
        });
        let observed: Vec<_> = observed.collect();
        if any { observed } else { vec![] }
    }

    /// What finds the records that may pass before they are cut.
    pub(crate) fn matcher(&self, dialect: &Dialect, scan: &ScanOptions) -> Option<Matcher> {
        let terminator = dialect.cut_at()?;
        let quoting = dialect.quoting;
        let quote = quoting.map(|quoting| quoting.quote);
        let marks = Marks::csv(terminator, dialect.delimiter, quote, quoting.and_then(|quoting| quoting.escape));
        let stored = |column: usize| self.decoded.get(column).and_then(DecodedColumn::stored);
        Matcher::new(self.condition.as_ref()?, &stored, marks, scan.matching, Arc::clone(&scan.learned))
    }
}

impl Stage {
    fn new(decoded: &[DecodedColumn], columns: &[usize], conjuncts: Vec<Expr>) -> Result<Self> {
        let predicate = renumber(&Expr::conjunction(conjuncts), columns);
        let columns = pick(decoded, columns);
        let schema = schema_of(&columns);
        let predicate = Evaluator::predicate(&predicate, &schema)?;
        let by_field = match columns.as_slice() {
            [one] => field_condition(predicate.conjuncts(), &one.data_type, &one.nulls, one.spelling)?,
            _ => None,
        };
        Ok(Self { condition: RowCondition::Predicate(predicate), schema, columns, by_field })
    }

    /// What is known of the first rows by now.
    fn live(decoded: &[DecodedColumn], first: &FirstRows) -> Result<Option<Self>> {
        let places = first.key.columns();
        let columns = pick(decoded, &places);
        let schema = schema_of(&columns);
        let bound = first.bound(&schema, &mut |i| place(&places, i))?;
        Ok(bound.map(|bound| Self { condition: RowCondition::Live(bound), schema, columns, by_field: None }))
    }

    /// Which rows it holds for. No row of the result is NULL.
    pub(crate) fn matches(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        self.condition.matches(batch)
    }
}

fn pick(decoded: &[DecodedColumn], columns: &[usize]) -> Vec<DecodedColumn> {
    columns.iter().filter_map(|i| decoded.get(*i).cloned()).collect()
}

fn schema_of(columns: &[DecodedColumn]) -> SchemaRef {
    let fields: Vec<Field> = columns.iter().map(|c| Field::new(&c.name, c.data_type.clone(), c.nullable())).collect();
    Arc::new(Schema::new(fields))
}
