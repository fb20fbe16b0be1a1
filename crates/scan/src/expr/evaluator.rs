//! Evaluation of expressions on decoded batches.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch};
use arrow::compute::{concat, filter_record_batch, prep_null_mask_filter};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion_common::ScalarValue;
use datafusion_expr::ColumnarValue;
use datafusion_physical_expr::ScalarFunctionExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, InListExpr, IsNullExpr, Literal, NotExpr};
use pushdowndb_contract::{Error, Expr, Result};

use crate::error::{from_arrow, from_datafusion};
use crate::expr::bloom::Probe;
use crate::expr::functions::json::too_large;
use crate::expr::functions::like::Like;
use crate::expr::lower::{lower, lower_conjuncts};
use crate::expr::physical::Physical;
use crate::expr::weight::RowWeight;
use crate::expr::work::Work;
use crate::limits;
use crate::runtime::interrupt::check_interrupt;

/// A compiled expression or predicate over batches of one schema.
#[derive(Clone, Debug)]
pub struct Evaluator {
    /// The conjuncts of a predicate, or a single expression.
    exprs: Vec<Physical>,
    data_type: DataType,
    nullable: bool,
    /// The bytes of intermediate text per row; `None` if there is no intermediate text.
    weight: Option<Arc<RowWeight>>,
    work: Work,
}

impl Evaluator {
    /// Compiles an expression over columns of `schema`.
    pub fn expr(expr: &Expr, schema: &SchemaRef) -> Result<Self> {
        let lowered = lower(expr, schema)?;
        let data_type = lowered.data_type(schema).map_err(from_datafusion)?;
        let nullable = lowered.nullable(schema).map_err(from_datafusion)?;
        let weight = RowWeight::of([expr]).map(Arc::new);
        Ok(Self { exprs: vec![lowered], data_type, nullable, weight, work: Work::of([expr]) })
    }

    /// Compiles a condition over columns of `schema`.
    ///
    /// Conjuncts are evaluated from left to right, each only on the rows that passed those before
    /// it, so that `c <> '' AND CAST(c AS INT) > 5` does not fail on an empty `c`.
    pub fn predicate(expr: &Expr, schema: &SchemaRef) -> Result<Self> {
        let exprs = lower_conjuncts(expr, schema)?;
        let weight = RowWeight::of([expr]).map(Arc::new);
        Ok(Self { exprs, data_type: DataType::Boolean, nullable: true, weight, work: Work::of([expr]) })
    }

    /// The type of the result.
    pub fn data_type(&self) -> &DataType {
        &self.data_type
    }

    /// Returns whether evaluation cannot fail, so that conjuncts may be evaluated in any order.
    pub(crate) fn cannot_fail(&self) -> bool {
        self.exprs.iter().all(cannot_fail)
    }

    /// Returns the lowered conjuncts of a predicate.
    pub(crate) fn conjuncts(&self) -> &[Physical] {
        &self.exprs
    }

    /// Returns whether the expression is a plain column.
    pub(crate) fn is_column(&self) -> bool {
        matches!(self.exprs.as_slice(), [one] if one.is::<Column>())
    }

    /// Returns whether the result may be NULL.
    pub fn nullable(&self) -> bool {
        self.nullable
    }

    /// Evaluates the expression for each row.
    ///
    /// # Errors
    ///
    /// Returns an error if a value cannot be computed, the values take too much memory, or the task
    /// was interrupted.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        check_interrupt()?;
        let pieces = self.pieces(batch);
        if pieces.len() < 2 {
            return self.evaluate_at_once(batch);
        }
        let (mut bytes, mut values) = (0, Vec::with_capacity(pieces.len()));
        for piece in pieces {
            check_interrupt()?;
            let value = self.evaluate_at_once(&piece)?;
            bytes += value.get_array_memory_size();
            if bytes > limits::MAX_VALUE_BYTES {
                return Err(too_large());
            }
            values.push(value);
        }
        let values: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
        concat(&values).map_err(from_arrow)
    }

    /// Returns slices of the batch to be evaluated one after the other; empty if the batch can be
    /// evaluated as a whole.
    fn pieces(&self, batch: &RecordBatch) -> Vec<RecordBatch> {
        let at_once = |batch: &RecordBatch| {
            let rows = batch.num_rows();
            self.weight.as_ref().map_or(rows, |weight| weight.rows_at_once(batch)).max(1)
        };
        if self.work.fits(batch) && at_once(batch) >= batch.num_rows() {
            return Vec::new();
        }
        let in_steps = |piece: RecordBatch| {
            let (rows, step) = (piece.num_rows(), at_once(&piece));
            (0..rows).step_by(step).map(move |first| piece.slice(first, step.min(rows - first)))
        };
        self.work.pieces(batch).into_iter().flat_map(in_steps).collect()
    }

    fn evaluate_at_once(&self, batch: &RecordBatch) -> Result<ArrayRef> {
        match self.exprs.as_slice() {
            [one] => one.evaluate(batch).and_then(|v| v.into_array(batch.num_rows())).map_err(from_datafusion),
            _ => Ok(Arc::new(self.matches_at_once(batch)?)),
        }
    }

    /// Returns for each row whether the predicate is TRUE. The result has no NULLs.
    pub fn matches(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        check_interrupt()?;
        let pieces = self.pieces(batch);
        if pieces.len() < 2 {
            return self.matches_at_once(batch);
        }
        let mut all = BooleanBufferBuilder::new(batch.num_rows());
        for piece in pieces {
            check_interrupt()?;
            all.append_buffer(self.matches_at_once(&piece)?.values());
        }
        Ok(BooleanArray::new(all.finish(), None))
    }

    fn matches_at_once(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let rows = batch.num_rows();
        let mut passed: Option<BooleanArray> = None;
        for expr in &self.exprs {
            let Some(before) = passed.take() else {
                passed = Some(condition(expr.evaluate(batch).map_err(from_datafusion)?, rows)?);
                continue;
            };
            let count = before.true_count();
            if count == 0 {
                return Ok(before);
            }
            // A comparison of all rows costs less than filtering first, so that is done only for
            // expressions that may fail.
            let now = if count == rows || is_comparison(expr) {
                expr.evaluate(batch)
            } else {
                expr.evaluate_selection(batch, &before)
            };
            let now = condition(now.map_err(from_datafusion)?, rows)?;
            passed = Some(if count == rows { now } else { arrow::compute::and(&before, &now).map_err(from_arrow)? });
        }
        Ok(passed.unwrap_or_else(|| BooleanArray::from(vec![true; rows])))
    }

    /// Returns the rows for which the predicate is TRUE.
    pub fn filter(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let matches = self.matches(batch)?;
        if matches.true_count() == batch.num_rows() {
            return Ok(batch.clone());
        }
        filter_record_batch(batch, &matches).map_err(from_arrow)
    }
}

/// Returns whether the expression cannot fail. Comparisons, logic, Bloom filters and lists cannot;
/// casts and arithmetic can.
fn cannot_fail(expr: &Physical) -> bool {
    (is_probe(expr) || compares(expr)) && expr.children().into_iter().all(cannot_fail)
}

/// Returns whether `expr` probes a Bloom filter or a long list, which costs more than a comparison.
fn is_probe(expr: &Physical) -> bool {
    let call = expr.downcast_ref::<ScalarFunctionExpr>();
    call.is_some_and(|call| call.fun().inner().is::<Probe>())
}

fn is_like(expr: &Physical) -> bool {
    let call = expr.downcast_ref::<ScalarFunctionExpr>();
    call.is_some_and(|call| call.fun().inner().is::<Like>())
}

fn is_comparison(expr: &Physical) -> bool {
    compares(expr) && expr.children().into_iter().all(is_comparison)
}

/// Returns whether `expr` consists of comparisons and logic.
fn compares(expr: &Physical) -> bool {
    match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) => !binary.op().is_numerical_operators(),
        None => {
            expr.is::<Column>()
                || expr.is::<Literal>()
                || expr.is::<NotExpr>()
                || expr.is::<IsNullExpr>()
                || expr.is::<InListExpr>()
                || is_like(expr)
        }
    }
}

/// Converts the value of a condition. NULL becomes FALSE.
fn condition(value: ColumnarValue, rows: usize) -> Result<BooleanArray> {
    match value {
        ColumnarValue::Scalar(value) => {
            let held = matches!(value, ScalarValue::Boolean(Some(true)));
            Ok(BooleanArray::from(vec![held; rows]))
        }
        ColumnarValue::Array(array) => {
            let array = array.as_boolean_opt().ok_or_else(|| Error::internal("a condition that is not Boolean"))?;
            Ok(if array.null_count() > 0 { prep_null_mask_filter(array) } else { array.clone() })
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, Schema};
    use pushdowndb_contract::BloomFilter;

    use super::*;

    #[test]
    fn what_is_looked_up_cannot_fail_wherever_it_stands() {
        let fields = vec![Field::new("k", DataType::Int64, true), Field::new("s", DataType::Utf8, true)];
        let schema = Arc::new(Schema::new(fields));
        let key = || Box::new(Expr::Column(0));
        let list = || Expr::InList { expr: key(), list: (0..100).map(Expr::int).collect(), negated: false };
        let filter = Arc::new(BloomFilter::with_capacity(1, 0.1));
        let fails = Expr::compare(
            pushdowndb_contract::CompareOp::Eq,
            Expr::Cast(Box::new(Expr::Column(1)), DataType::Int64),
            Expr::int(1),
        );
        for (predicate, cannot) in [
            (list(), true),
            (Expr::Or(vec![list(), Expr::IsNull(key())]), true),
            (Expr::Not(Box::new(list())), true),
            (Expr::Or(vec![Expr::Bloom { keys: vec![*key()], filter }, list()]), true),
            (Expr::Or(vec![list(), fails]), false),
        ] {
            assert_eq!(Evaluator::predicate(&predicate, &schema).unwrap().cannot_fail(), cannot, "{predicate:?}");
        }
    }
}
