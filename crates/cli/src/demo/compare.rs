//! Compares two results: the same rows in any order, floats to 1e-12, everything else exactly.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

/// A value in the form in which it is compared.
#[derive(Debug)]
enum Value {
    Text(String),
    Float(f64),
}

/// Compares results; the error names the first difference.
pub fn same_rows(left: &[RecordBatch], right: &[RecordBatch]) -> Result<(), String> {
    let unreadable = |e: ArrowError| e.to_string();
    let (left, right) = (sorted(left).map_err(unreadable)?, sorted(right).map_err(unreadable)?);
    if left.len() != right.len() {
        return Err(format!("{} rows and {}", left.len(), right.len()));
    }
    for ((_, left), (_, right)) in left.iter().zip(&right) {
        if left.len() != right.len() || !left.iter().zip(right).all(|(a, b)| same(a, b)) {
            return Err(format!("{left:?} and {right:?}"));
        }
    }
    Ok(())
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b || (a - b).abs() <= 1e-12 * a.abs().max(b.abs()),
        _ => false,
    }
}

/// Returns the rows in an order independent of their arrival. Floats, which are rounded for this,
/// only break ties.
fn sorted(batches: &[RecordBatch]) -> Result<Vec<(String, Vec<Value>)>, ArrowError> {
    let options = FormatOptions::new().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let formatters: Vec<_> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options)).collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            let mut values = Vec::with_capacity(formatters.len());
            let (mut key, mut floats) = (String::new(), String::new());
            for (column, formatter) in batch.columns().iter().zip(&formatters) {
                if column.data_type() == &DataType::Float64 && column.is_valid(row) {
                    let value = column.as_primitive::<Float64Type>().value(row);
                    floats.push_str(&format!("{value:.6e}|"));
                    values.push(Value::Float(value));
                } else {
                    let text = formatter.value(row).try_to_string()?;
                    key.push_str(&text);
                    key.push('|');
                    values.push(Value::Text(text));
                }
            }
            rows.push((key + &floats, values));
        }
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Float64Array, Int64Array};

    use super::*;

    fn batch(keys: &[i64], values: &[f64]) -> RecordBatch {
        let keys: ArrayRef = Arc::new(Int64Array::from(keys.to_vec()));
        let values: ArrayRef = Arc::new(Float64Array::from(values.to_vec()));
        RecordBatch::try_from_iter([("k", keys), ("v", values)]).unwrap()
    }

    #[test]
    fn order_and_batches_do_not_matter_but_rows_do() {
        let left = [batch(&[1, 2, 3], &[0.1, 0.2, 0.3])];
        let right = [batch(&[3], &[0.3]), batch(&[2, 1], &[0.2 + 1e-16, 0.1])];
        assert_eq!(same_rows(&left, &right), Ok(()));
        assert!(same_rows(&left, &right[..1]).unwrap_err().contains("3 rows and 1"));
        assert!(same_rows(&left, &[batch(&[1, 2, 3], &[0.1, 0.2, 0.4])]).is_err());
        assert!(same_rows(&left, &[batch(&[1, 2, 4], &[0.1, 0.2, 0.3])]).is_err());
    }
}
