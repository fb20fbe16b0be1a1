//! Filtering by the stages of a plan, in an order that is determined by measurements.
//!
//! For one group in a while, every stage runs on all of its records, which shows the selectivity of
//! each stage. Stages are then ordered by cost per dropped row (Hellerstein, "Practical Predicate
//! Placement", Section 2.1: rank). Fields are cut in two steps: first the fields of the stages that
//! drop most rows, for all records, and then the other fields for the remaining records.
//!
//! The order determines on which rows a condition is evaluated, and so which errors occur. The rule
//! (decision 0010) is that a scan fails only if it fails in the order of the query. If a group
//! fails in another order, it is processed again in the order of the query.

use arrow::array::ArrayRef;
use pushdowndb_contract::Result;

use crate::batch::record_batch;
use crate::error::from_arrow;
use crate::runtime::interrupt::Steps;
use crate::text::csv::cut::{Cells, Record, Shape, Text, cut_fields};
use crate::text::csv::dialect::Dialect;
use crate::text::csv::errors::Place;
use crate::text::csv::fuse::DecodedColumn;
use crate::text::csv::plan::Stage;
use crate::values::builders::ColumnBuilder;
use crate::values::fields::FieldColumn;

/// Selectivity is measured on one in this number of groups.
const SAMPLE_GROUPS: u64 = 128;

/// Fields are cut in two steps if at most this fraction of the rows passes the first stages.
const EARLY_RANK_SELECTIVITY: f64 = 0.3;

/// The cost of building a column, relative to comparing a number.
const COLUMN_COST: f64 = 6.0;

/// The cost of reading a field, in bytes that could be read in the same time.
pub(crate) const STEPS_PER_FIELD: usize = 16;

/// The stages of a plan and their measurements.
pub(crate) struct Stages {
    stages: Vec<Stage>,
    /// The builders of the columns of each stage, which are emptied after every group.
    builders: Vec<Vec<Box<dyn ColumnBuilder>>>,
    written: Order,
    /// The measured order, if it differs from the order of the query.
    found: Option<Order>,
    groups: u64,
    steps: Steps,
}

/// An order of stages, and the fields that are cut for it.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Order {
    stages: Vec<usize>,
    /// The number of stages that run before the `further` fields are cut.
    early: usize,
    /// The fields that are cut for all records, ascending, and those that are cut for the records
    /// that pass the early stages.
    first: Vec<usize>,
    further: Vec<usize>,
}

/// The records of a group, and the fields that were cut from them.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) records: Vec<Record>,
    /// Fields of all records.
    first: Cells,
    /// Fields of some records.
    further: Cells,
    /// Scratch space for the rows that pass a stage.
    kept: Vec<u32>,
}

/// The rows of a group that passed.
pub(crate) struct Passed {
    /// The records for which further fields were cut; their cells are in [`Group::further`].
    further_of: Option<Vec<u32>>,
    /// The indexes of the passed rows among the rows with cells; `None` if all of them passed.
    rows: Option<Vec<u32>>,
    pub(crate) count: usize,
}

/// A function that gets the columns that the first stage decodes for all records.
pub(crate) type Observe<'a> = &'a mut dyn FnMut(&[Record], &[ArrayRef]) -> Result<()>;

impl Stages {
    pub(crate) fn new(stages: Vec<Stage>, output: &[DecodedColumn]) -> Result<Self> {
        let builders = stages.iter().map(|stage| stage.columns.iter().map(DecodedColumn::builder).collect());
        let builders = builders.collect::<Result<_>>()?;
        let written = Order::new(&stages, output, (0..stages.len()).collect(), stages.len());
        Ok(Self { stages, builders, written, found: None, groups: 0, steps: Steps::default() })
    }

    /// Returns the rows of the group that pass, after cutting the fields that the output needs.
    /// `observe` gets the columns of the query's first condition (in the order of the query),
    /// decoded for all records of the group.
    pub(crate) fn run(
        &mut self,
        group: &mut Group,
        output: &[DecodedColumn],
        place: Place<'_>,
        observe: Option<Observe<'_>>,
    ) -> Result<Passed> {
        if observe.is_none() && !self.stages.is_empty() {
            self.groups += 1;
            if self.groups % SAMPLE_GROUPS == 1
                && let Ok(rates) = self.sample(group, place)
            {
                let found = self.by_rank(&rates, output);
                self.found = (found != self.written).then_some(found);
            }
            if let Some(found) = self.found.take() {
                let passed = self.run_in(&found, group, place, None);
                self.found = Some(found);
                if passed.is_ok() {
                    return passed;
                }
            }
        }
        let written = self.written.clone();
        self.run_in(&written, group, place, observe)
    }

    fn run_in(
        &mut self,
        order: &Order,
        group: &mut Group,
        place: Place<'_>,
        mut observe: Option<Observe<'_>>,
    ) -> Result<Passed> {
        group.cut_first(&order.first, place)?;
        let mut passed = Passed { further_of: None, rows: None, count: group.records.len() };
        for (step, stage) in order.stages.iter().enumerate() {
            if step == order.early {
                passed = group.cut_further(&order.further, passed, place)?;
            }
            if passed.count == 0 {
                return Ok(passed);
            }
            let (Some(stage), Some(builders)) = (self.stages.get(*stage), self.builders.get_mut(*stage)) else {
                continue;
            };
            stage.run(builders, group, &mut passed, place, observe.take(), &mut self.steps)?;
        }
        if order.stages.len() <= order.early && !order.further.is_empty() && passed.count > 0 {
            passed = group.cut_further(&order.further, passed, place)?;
        }
        Ok(passed)
    }

    /// Returns for each stage the fraction of the group's rows that pass it alone.
    fn sample(&mut self, group: &mut Group, place: Place<'_>) -> Result<Vec<f64>> {
        group.cut_first(&self.written.first, place)?;
        let count = group.records.len();
        let steps = &mut self.steps;
        let rates = self.stages.iter().zip(&mut self.builders).map(|(stage, builders)| {
            let mut passed = Passed { further_of: None, rows: None, count };
            stage.run(builders, group, &mut passed, place, None, steps)?;
            Ok(passed.count as f64 / count.max(1) as f64)
        });
        rates.collect()
    }

    /// Orders the stages by rank, and decides which fields to cut early.
    fn by_rank(&self, rates: &[f64], output: &[DecodedColumn]) -> Order {
        let rate = |stage: usize| rates.get(stage).copied().unwrap_or(1.0);
        let rank = |stage: &usize| {
            let cost = self.stages.get(*stage).map_or(0.0, Stage::cost);
            cost / (1.0 - rate(*stage)).max(1e-6)
        };
        let mut order: Vec<usize> = (0..self.stages.len()).collect();
        order.sort_by(|a, b| rank(a).total_cmp(&rank(b)));
        let left = order.iter().scan(1.0, |left, stage| {
            *left *= rate(*stage);
            Some(*left)
        });
        let left: Vec<f64> = left.collect();
        let early = match left.iter().position(|left| *left <= EARLY_RANK_SELECTIVITY) {
            Some(step) => step + 1,
            // If most rows pass all stages, all fields are cut in one step.
            None if left.last().is_some_and(|left| *left > 0.5) => usize::MAX,
            None => order.len(),
        };
        Order::new(&self.stages, output, order, early)
    }
}

impl Order {
    fn new(stages: &[Stage], output: &[DecodedColumn], order: Vec<usize>, early: usize) -> Self {
        let fields = |columns: &mut dyn Iterator<Item = &DecodedColumn>| {
            let mut fields: Vec<usize> = columns.map(|column| column.field).collect();
            fields.sort_unstable();
            fields.dedup();
            fields
        };
        let of_stages = |from: usize, to: usize| {
            let chosen = order.iter().skip(from).take(to.saturating_sub(from));
            chosen.filter_map(|stage| stages.get(*stage)).flat_map(|stage| &stage.columns)
        };
        if stages.is_empty() || early > order.len() {
            let first = fields(&mut of_stages(0, order.len()).chain(output));
            return Self { early: usize::MAX, first, further: vec![], stages: order };
        }
        let first = fields(&mut of_stages(0, early));
        let further = fields(&mut of_stages(early, order.len()).chain(output));
        Self { early, first, further, stages: order }
    }
}

impl Stage {
    fn cost(&self) -> f64 {
        match &self.by_field {
            Some(condition) => condition.cost(),
            None => COLUMN_COST * self.columns.len() as f64,
        }
    }

    /// Narrows `passed` to the rows for which the condition holds.
    fn run(
        &self,
        builders: &mut [Box<dyn ColumnBuilder>],
        group: &mut Group,
        passed: &mut Passed,
        place: Place<'_>,
        observe: Option<Observe<'_>>,
        steps: &mut Steps,
    ) -> Result<()> {
        let mut kept = std::mem::take(&mut group.kept);
        match (&self.by_field, self.columns.as_slice(), &observe) {
            (Some(condition), [column], None) => {
                let fields = group.fields(column.field, passed, place);
                condition.select(&fields, &mut kept, steps).map_err(|bad| place.bad_field(column, &fields, &bad))?;
                steps.did(passed.count * STEPS_PER_FIELD)?;
            }
            _ => {
                let arrays = self.decode(builders, group, passed, place, steps);
                if arrays.is_err() {
                    // The values decoded before the bad field belong to no group, and columns may
                    // have different lengths.
                    builders.iter_mut().for_each(|builder| drop(builder.finish()));
                }
                let arrays = arrays?;
                if let Some(observe) = observe {
                    observe(&group.records, &arrays)?;
                }
                let matches = self.matches(&record_batch(&self.schema, arrays, passed.count)?)?;
                kept.clear();
                kept.extend(matches.values().set_indices_u32());
            }
        }
        if let Some(before) = &passed.rows {
            kept.iter_mut().for_each(|row| *row = before.get(*row as usize).copied().unwrap_or(u32::MAX));
        }
        passed.count = kept.len();
        group.kept = passed.rows.replace(kept).unwrap_or_default();
        Ok(())
    }

    fn decode(
        &self,
        builders: &mut [Box<dyn ColumnBuilder>],
        group: &Group,
        passed: &Passed,
        place: Place<'_>,
        steps: &mut Steps,
    ) -> Result<Vec<ArrayRef>> {
        let arrays = self.columns.iter().zip(builders).map(|(column, builder)| {
            let fields = group.fields(column.field, passed, place);
            builder.append(&fields).map_err(|bad| place.bad_field(column, &fields, &bad))?;
            steps.did(passed.count * STEPS_PER_FIELD)?;
            builder.finish().map_err(from_arrow)
        });
        arrays.collect()
    }
}

impl Group {
    pub(crate) fn clear(&mut self) {
        self.records.clear();
    }

    fn cut_first(&mut self, fields: &[usize], place: Place<'_>) -> Result<()> {
        let records = self.records.iter().copied();
        self.first.cut(fields, records, place)
    }

    /// Cuts further fields of the rows that passed. Returns a selection of only those rows.
    fn cut_further(&mut self, fields: &[usize], passed: Passed, place: Place<'_>) -> Result<Passed> {
        let count = passed.count;
        let rows = match passed.rows {
            Some(rows) => rows,
            None => (0..u32::try_from(self.records.len()).unwrap_or(u32::MAX)).collect(),
        };
        let records = rows.iter().map(|row| self.records.get(*row as usize).copied().unwrap_or_default());
        self.further.cut(fields, records, place)?;
        Ok(Passed { further_of: Some(rows), rows: None, count })
    }

    /// Returns one field of the rows that passed.
    pub(crate) fn fields<'a>(&'a self, field: usize, passed: &'a Passed, place: Place<'a>) -> FieldColumn<'a> {
        let cells = if passed.further_of.is_some() { &self.further } else { &self.first };
        FieldColumn {
            data: place.text.padded,
            spans: &cells.spans,
            stride: cells.fields.len(),
            column: cells.fields.binary_search(&field).unwrap_or_default(),
            rows: passed.rows.as_deref(),
            quoting: place.dialect.quoting.unwrap_or_default(),
        }
    }

    /// Returns the records of the rows that passed.
    pub(crate) fn records_of<'a>(&'a self, passed: &'a Passed) -> impl Iterator<Item = Record> + 'a {
        let at = |rows: &Option<Vec<u32>>, row: usize| match rows {
            Some(rows) => rows.get(row).map_or(usize::MAX, |row| *row as usize),
            None => row,
        };
        let record = move |row: usize| {
            let record = at(&passed.further_of, at(&passed.rows, row));
            self.records.get(record).copied().unwrap_or_default()
        };
        (0..passed.count).map(record)
    }
}

impl Cells {
    fn cut(
        &mut self,
        fields: &[usize],
        records: impl ExactSizeIterator<Item = Record>,
        place: Place<'_>,
    ) -> Result<()> {
        self.spans.clear();
        if self.fields != fields {
            self.fields = fields.to_vec();
        }
        let (dialect, shape): (&Dialect, &Shape) = (place.dialect, place.shape);
        let text: Text<'_> = place.text;
        cut_fields(dialect, text, records, shape, self).map_err(|stopped| place.stopped(stopped))
    }
}
