//! The plan of a CSV scan: which fields are decoded, and in which stage.
//!
//! Conjuncts of the predicate that read the same columns form a stage. It decodes only its own
//! columns, for the rows that passed earlier stages ([`crate::text::csv::stages`]). The output
//! columns are decoded for the rows that passed all stages. With an ORDER BY … LIMIT, the last
//! stage is the current bound of the first rows.

use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch};
use arrow::datatypes::{Field, Schema, SchemaRef};
use pushdowndb_contract::{CsvOptions, Expr, Fragment, Output, Result};

use crate::expr::columns::{columns_of, map_output, place, renumber};
use crate::expr::evaluator::Evaluator;
use crate::operators::row_filter::RowCondition;
use crate::operators::top_k::live::FirstRows;
use crate::operators::top_k::threshold::Threshold;
use crate::prefilter::sample::Prefilter;
use crate::prefilter::search::RecordDelimiters;
use crate::runtime::interrupt::check_interrupt;
use crate::source::SourceOptions;
use crate::text::csv::dialect::Dialect;
use crate::text::csv::fuse::{DecodedColumn, Fuser};
use crate::text::predicate::condition::field_condition;
use crate::text::predicate::wanted::FieldCondition;
use crate::zones::search::{decides, wants_keys};
use crate::zones::zone::ZoneColumn;

pub(crate) struct CsvPlan {
    /// The conditions, in the order in which they are written.
    pub(crate) stages: Vec<Stage>,
    pub(crate) columns: CsvColumns,
    /// The output of the fragment, over the output columns.
    pub(crate) output: Output,
}

pub(crate) struct CsvColumns {
    /// The columns that the first stage decodes.
    observed: Vec<DecodedColumn>,
    /// The output columns.
    pub(crate) output: Vec<DecodedColumn>,
    /// The schema of the output columns.
    pub(crate) schema: SchemaRef,
    /// The predicate over all decoded columns.
    condition: Option<Expr>,
    decoded: Vec<DecodedColumn>,
}

/// A condition, and the columns that it reads.
pub(crate) struct Stage {
    pub(crate) columns: Vec<DecodedColumn>,
    pub(crate) schema: SchemaRef,
    condition: RowCondition,
    /// The same condition, if it can be decided from the fields of its only column.
    pub(crate) by_field: Option<Box<dyn FieldCondition>>,
}

impl CsvPlan {
    pub(crate) fn new(fragment: &Fragment, options: &CsvOptions, threshold: &Arc<Threshold>) -> Result<Self> {
        let mut fuser = Fuser::new(&fragment.schema, options);
        if let Some(predicate) = &fragment.predicate {
            crate::expr::lower::check_depth(predicate)?;
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
        let columns = CsvColumns { observed, schema: schema_of(&columns), output: columns, condition, decoded };
        Ok(Self { stages, columns, output })
    }
}

impl CsvColumns {
    /// Returns the predicate and its columns, with their identities for zones.
    pub(crate) fn zoned(&self, options: &CsvOptions) -> Option<(&Expr, Vec<ZoneColumn>)> {
        let columns = self.decoded.iter().map(|column| column.zoned(options)).collect::<Option<_>>()?;
        Some((self.condition.as_ref()?, columns))
    }

    /// Returns the columns that the first stage decodes for all records, each with whether its keys
    /// are useful. Returns none if zones of these columns could never exclude records.
    pub(crate) fn observed(&self, options: &CsvOptions) -> Vec<(ZoneColumn, bool)> {
        let Some(condition) = &self.condition else { return vec![] };
        let schema = schema_of(&self.decoded);
        let mut any = false;
        let observed = self.observed.iter().take_while(|_| check_interrupt().is_ok()).map(|column| {
            let place = self.decoded.iter().position(|other| other == column);
            let zoned = column.zoned(options)?;
            any |= place.is_some_and(|place| decides(condition, place, &schema));
            let keys = place.is_some_and(|place| wants_keys(condition, place, &zoned.field));
            Some((zoned, keys))
        });
        let observed = observed.collect::<Option<Vec<_>>>().unwrap_or_default();
        if any { observed } else { vec![] }
    }

    pub(crate) fn matcher(&self, dialect: &Dialect, scan: &SourceOptions) -> Option<Prefilter> {
        let terminator = dialect.cut_at()?;
        let quoting = dialect.quoting;
        let quote = quoting.map(|quoting| quoting.quote);
        let marks =
            RecordDelimiters::csv(terminator, dialect.delimiter, quote, quoting.and_then(|quoting| quoting.escape));
        let stored = |column: usize| self.decoded.get(column).and_then(DecodedColumn::stored);
        Prefilter::new(self.condition.as_ref()?, &stored, marks, scan.matching, Arc::clone(&scan.verdict))
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

    /// Creates a stage for the current bound of the first rows.
    fn live(decoded: &[DecodedColumn], first: &FirstRows) -> Result<Option<Self>> {
        let places = first.key.columns();
        let columns = pick(decoded, &places);
        let schema = schema_of(&columns);
        let bound = first.bound(&schema, &mut |i| place(&places, i))?;
        Ok(bound.map(|bound| Self { condition: RowCondition::Live(bound), schema, columns, by_field: None }))
    }

    /// Returns for each row whether the condition holds. The result has no NULLs.
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
