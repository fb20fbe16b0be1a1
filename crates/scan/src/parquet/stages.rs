//! What decides whether a row is wanted, in stages: each decodes what it needs of the rows that passed those before.
//!
//! Conditions on one column come first, each a stage of its own, which may be answered from the column's dictionary
//! ([`super::dictionary`]); text comes after what is cheaper to decode; then conditions on several columns, then what
//! holds of the first rows in an order. Where a condition may fail on some rows, the order of the query is kept, all in
//! one stage.

use ::parquet::schema::types::ColumnDescPtr;
use arrow::array::{BooleanArray, RecordBatch, new_null_array};
use arrow::compute::and;
use arrow::datatypes::Schema;
use pushdown::{Expr, Result};

use super::Wanted;
use super::decode::{Columns, FileSchema};
use super::dictionary::{Answers, is_flat};
use super::pages::Pages;
use crate::errors::from_arrow;
use crate::evaluate::Evaluator;
use crate::output::{map_columns, record_batch};
use crate::top_k::LiveBound;
use crate::types::is_text;

/// A condition and the columns it reads.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) columns: Columns,
    /// The same by their index among all columns that are read.
    pub(super) indexes: Vec<usize>,
    predicate: Option<Evaluator>,
    /// What holds of the first rows in an order, if only those are wanted.
    bound: Option<LiveBound>,
    /// The only column, if its dictionary can answer.
    pub(super) flat: Option<(usize, ColumnDescPtr)>,
}

/// The stages that decide whether a row is `wanted`.
pub(super) fn stages(location: &str, wanted: &Wanted, schema: &Schema, file: &FileSchema) -> Result<Vec<Stage>> {
    let new = |predicate: Option<Expr>, first: bool| {
        let wanted = Wanted { predicate, first: wanted.first.clone().filter(|_| first) };
        Stage::new(location, &wanted, schema, file)
    };
    let mut stages = Vec::new();
    if let Some(predicate) = &wanted.predicate {
        let all = new(Some(predicate.clone()), false)?;
        if all.indexes.len() < 2 || !all.predicate.as_ref().is_some_and(Evaluator::cannot_fail) {
            stages.push(all);
        } else {
            let mut own: Vec<(usize, Vec<Expr>)> = Vec::new();
            let mut several = Vec::new();
            for conjunct in predicate.clone().into_conjuncts() {
                match conjunct.columns().as_slice() {
                    [column] => match own.iter_mut().find(|(known, _)| known == column) {
                        Some((_, conjuncts)) => conjuncts.push(conjunct),
                        None => own.push((*column, vec![conjunct])),
                    },
                    _ => several.push(conjunct),
                }
            }
            own.sort_by_key(|(column, _)| schema.fields().get(*column).is_some_and(|f| is_text(f.data_type())));
            for conjuncts in own.into_iter().map(|(_, conjuncts)| conjuncts).chain([several]) {
                if !conjuncts.is_empty() {
                    stages.push(new(Some(Expr::conjunction(conjuncts)), false)?);
                }
            }
        }
    }
    if wanted.first.is_some() {
        stages.push(new(None, true)?);
    }
    Ok(stages)
}

impl Stage {
    fn new(location: &str, wanted: &Wanted, schema: &Schema, file: &FileSchema) -> Result<Self> {
        let indexes = wanted.columns();
        let columns = Columns::new(location, schema.project(&indexes).map_err(from_arrow)?.into(), file)?;
        let mut place = |i| indexes.binary_search(&i).unwrap_or(usize::MAX);
        let predicate = wanted.predicate.as_ref().map(|predicate| map_columns(predicate, &mut place));
        let predicate = predicate.map(|predicate| Evaluator::predicate(&predicate, columns.schema())).transpose()?;
        let bound = wanted.first.as_ref().map(|first| first.learning_bound(columns.schema(), &mut place));
        let bound = bound.transpose()?.flatten();
        let flat = match columns.leaves.as_slice() {
            [leaf] if indexes.len() == 1 && bound.is_none() => {
                Some((*leaf, columns.descriptor(*leaf))).filter(|(_, column)| is_flat(column))
            }
            _ => None,
        };
        Ok(Self { columns, indexes, predicate, bound, flat })
    }

    /// Which rows of the batch pass, of those `asked` for.
    pub(super) fn matches(&self, batch: &RecordBatch, asked: Option<&BooleanArray>) -> Result<BooleanArray> {
        let mut passed = match &self.predicate {
            Some(predicate) => predicate.matches(batch)?,
            None => BooleanArray::from(vec![true; batch.num_rows()]),
        };
        if let Some(asked) = asked {
            passed = and(&passed, asked).map_err(from_arrow)?;
        }
        self.bound.as_ref().map_or(Ok(passed.clone()), |bound| bound.matches_among(batch, &passed))
    }

    /// What the dictionary of the only column says, if all its values are in there. `None` where that is not so, and
    /// where the condition fails on a value, which may be one of no row that counts.
    pub(super) fn answers(&self, pages: &Pages) -> Option<Answers> {
        let dictionary = pages.dictionary()?;
        if !pages.is_dictionary_only().ok()? {
            return None;
        }
        let predicate = self.predicate.as_ref()?;
        let values = self.columns.decode_dictionary(dictionary).ok()??;
        let values = predicate.matches(&values).ok()?;
        let schema = self.columns.schema();
        let nulls =
            schema.fields().iter().map(|field| field.is_nullable().then(|| new_null_array(field.data_type(), 1)));
        let null = match nulls.collect::<Option<Vec<_>>>() {
            Some(nulls) => {
                let null = record_batch(schema, nulls, 1).and_then(|batch| predicate.matches(&batch)).ok()?;
                !null.is_empty() && null.value(0)
            }
            // A NULL where none may be is an error, found when it is decoded.
            None if self.flat.as_ref().is_some_and(|(_, column)| column.max_def_level() > 0) => return None,
            None => false,
        };
        Some(Answers { values: values.values().iter().collect(), null })
    }
}
