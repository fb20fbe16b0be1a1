//! Selectivity of predicates, by the bounds of row groups.
//!
//! Values are assumed to be spread evenly between the bounds of each row group, so that sorted and
//! clustered data is estimated right. Conditions on several columns are assumed to be independent
//! within a row group (Selinger et al., Access Path Selection, 1979, Table 1).

use arrow::datatypes::{DataType, SchemaRef};
use pushdowndb_contract::{CompareOp, Expr, Literal};

use crate::statistics::Footers;

/// Assumed selectivity of an equality without statistics, by Selinger et al.
const DEFAULT_EQUAL_SELECTIVITY: f64 = 0.1;
/// Assumed selectivity of a range without statistics, by Selinger et al.
const DEFAULT_RANGE_SELECTIVITY: f64 = 1.0 / 3.0;
/// Assumed selectivity of a pattern without statistics, by Selinger et al.
const DEFAULT_PATTERN_SELECTIVITY: f64 = 0.1;

impl Footers {
    /// Estimates the share of the rows that pass the predicate.
    pub(in crate::statistics) fn selectivity(&self, predicate: &Expr, schema: &SchemaRef) -> f64 {
        let rows: f64 = self.groups.iter().sum();
        if rows <= 0.0 {
            return 1.0;
        }
        let kept =
            self.groups.iter().enumerate().map(|(group, rows)| rows * self.selectivity_of(predicate, schema, group));
        kept.sum::<f64>() / rows
    }

    /// Returns the share of the row groups that bounds do not rule out for the predicate.
    pub(in crate::statistics) fn groups_kept(&self, predicate: &Expr, schema: &SchemaRef) -> f64 {
        let all = predicate.conjuncts();
        let is_kept = |group: &usize| all.iter().all(|expr| self.selectivity_of(expr, schema, *group) > 0.0);
        (0..self.groups.len()).filter(is_kept).count() as f64 / self.groups.len().max(1) as f64
    }

    /// Estimates the share of the rows of one row group that pass the predicate.
    fn selectivity_of(&self, predicate: &Expr, schema: &SchemaRef, group: usize) -> f64 {
        let kept = |expr: &Expr| self.selectivity_of(expr, schema, group);
        match predicate {
            Expr::Literal(Literal::Boolean(true)) => 1.0,
            Expr::Literal(Literal::Boolean(false) | Literal::Null) => 0.0,
            // The two ends of a range are not independent: the shares below one end and above the
            // other are subtracted.
            Expr::And(all) => self.conjunction(all, schema, group),
            Expr::Or(any) => 1.0 - any.iter().map(|expr| 1.0 - kept(expr)).product::<f64>(),
            Expr::Not(expr) => 1.0 - kept(expr),
            Expr::IsNull(expr) => {
                column_of(expr).and_then(|column| self.null_share(column)).unwrap_or(DEFAULT_EQUAL_SELECTIVITY)
            }
            Expr::Compare(op, left, right) => {
                let (column, op, value) = match (column_of(left), number(right), column_of(right), number(left)) {
                    (Some(column), Some(value), ..) => (column, *op, value),
                    (_, _, Some(column), Some(value)) => (column, op.swap(), value),
                    _ => return self.unknown(*op, left, right, schema),
                };
                self.compared(column, op, value, schema, group)
            }
            Expr::InList { expr, list, negated } => {
                let equal = match column_of(expr) {
                    Some(column) => self.equal(column, schema),
                    None => DEFAULT_EQUAL_SELECTIVITY,
                };
                let within = (equal * list.len() as f64).min(1.0);
                if *negated { 1.0 - within } else { within }
            }
            Expr::Bloom { keys, filter } => {
                let of_rows = || self.rows.max(1.0);
                let values = keys.iter().map(|key| {
                    let column = column_of(key)?;
                    self.distinct_of(column, schema.fields().get(column)?.data_type())
                });
                let values = values.product::<Option<f64>>().unwrap_or_else(of_rows).clamp(1.0, of_rows());
                (filter.about_keys() / values + filter.false_positives()).min(1.0)
            }
            Expr::Like { negated: true, .. } => 1.0 - DEFAULT_PATTERN_SELECTIVITY,
            Expr::Like { .. } => DEFAULT_PATTERN_SELECTIVITY,
            _ => DEFAULT_RANGE_SELECTIVITY,
        }
    }

    fn conjunction(&self, all: &[Expr], schema: &SchemaRef, group: usize) -> f64 {
        let mut kept = 1.0;
        // For each column the share outside of the range.
        let mut cut: Vec<(usize, f64)> = Vec::new();
        for expr in all {
            let share = self.selectivity_of(expr, schema, group);
            let ranged = match expr {
                // Only comparisons with a number make a range.
                Expr::Compare(op, left, right) if !matches!(op, CompareOp::Eq | CompareOp::NotEq) => {
                    let of = |column, value| column_of(column).filter(|_| number(value).is_some());
                    of(left, right).or_else(|| of(right, left)).filter(|column| {
                        let known = self.column(*column).and_then(|column| column.ranges.get(group)?.as_ref());
                        known.is_some()
                    })
                }
                _ => None,
            };
            match ranged {
                Some(column) => match cut.iter_mut().find(|(other, _)| *other == column) {
                    Some((_, dropped)) => *dropped += 1.0 - share,
                    None => cut.push((column, 1.0 - share)),
                },
                None => kept *= share,
            }
        }
        cut.iter().map(|(_, dropped)| (1.0 - dropped).max(0.0)).product::<f64>() * kept
    }

    /// Estimates the share of a row group's rows that pass a comparison of a column with `value`.
    fn compared(&self, column: usize, op: CompareOp, value: f64, schema: &SchemaRef, group: usize) -> f64 {
        let range = self.column(column).and_then(|column| *column.ranges.get(group)?);
        let Some((least, greatest)) = range else {
            return match op {
                CompareOp::Eq => self.equal(column, schema),
                CompareOp::NotEq => 1.0 - self.equal(column, schema),
                _ => DEFAULT_RANGE_SELECTIVITY,
            };
        };
        let inside = (least..=greatest).contains(&value);
        let equal = if inside { self.equal(column, schema) } else { 0.0 };
        // Whole numbers fill their range: of 1 to 10, three tenths are below 4.
        let step = match schema.fields().get(column).map(|field| field.data_type()) {
            Some(data_type) if data_type.is_integer() || matches!(data_type, DataType::Date32) => 1.0,
            _ => 0.0,
        };
        let width = greatest - least + step;
        let below = if width > 0.0 { ((value - least) / width).clamp(0.0, 1.0) } else { f64::from(least < value) };
        let up_to = if step > 0.0 {
            ((value - least + step) / width).clamp(0.0, 1.0)
        } else {
            below.max(f64::from(width <= 0.0 && least <= value))
        };
        match op {
            CompareOp::Eq => equal,
            CompareOp::NotEq => 1.0 - equal,
            CompareOp::Lt => below,
            CompareOp::LtEq => up_to,
            CompareOp::Gt => 1.0 - up_to,
            CompareOp::GtEq => 1.0 - below,
        }
    }

    /// Estimates the share of rows that have a given value of a column.
    fn equal(&self, column: usize, schema: &SchemaRef) -> f64 {
        let data_type = schema.fields().get(column).map(|field| field.data_type());
        let distinct = data_type.and_then(|data_type| self.distinct_of(column, data_type));
        distinct.map_or(DEFAULT_EQUAL_SELECTIVITY, |distinct| 1.0 / distinct.max(1.0))
    }

    /// Estimates the share of rows that pass a comparison other than that of a column with a
    /// number: with a text, of two columns, or of an expression.
    fn unknown(&self, op: CompareOp, left: &Expr, right: &Expr, schema: &SchemaRef) -> f64 {
        let equal = match (column_of(left), column_of(right)) {
            (Some(column), None) | (None, Some(column)) => self.equal(column, schema),
            _ => DEFAULT_EQUAL_SELECTIVITY,
        };
        match op {
            CompareOp::Eq => equal,
            CompareOp::NotEq => 1.0 - equal,
            _ => DEFAULT_RANGE_SELECTIVITY,
        }
    }
}

/// Returns the column of an expression that keeps the column's order: the column itself, or a cast
/// of it.
fn column_of(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Column(column) => Some(*column),
        Expr::Cast(inner, _) => column_of(inner),
        _ => None,
    }
}

/// Converts a constant to a number on the scale of [`numbers`].
fn number(expr: &Expr) -> Option<f64> {
    match expr {
        Expr::Literal(Literal::Int64(value)) => Some(*value as f64),
        Expr::Literal(Literal::Float64(value)) => Some(*value),
        Expr::Literal(Literal::Decimal(value, _, scale)) => Some(*value as f64 / 10_f64.powi(i32::from(*scale))),
        Expr::Literal(Literal::Date(days)) => Some(f64::from(*days)),
        Expr::Literal(Literal::Timestamp(micros, _)) => Some(*micros as f64),
        Expr::Cast(inner, to) if to.is_numeric() => number(inner),
        _ => None,
    }
}
