//! Times without seconds, `TIMESTAMP '2026-01-01 12:00'`, which DataFusion 55.2 does not read.

use datafusion::sql::sqlparser::ast::{DataType, Expr, TypedString, Value, ValueWithSpan};

/// Adds the seconds to a constant that is a timestamp.
pub(super) fn add_seconds(expr: &mut Expr) {
    let is_time = |data_type: &DataType| matches!(data_type, DataType::Timestamp(..) | DataType::Datetime(_));
    let text = match expr {
        Expr::TypedString(TypedString { data_type, value, .. }) if is_time(data_type) => &mut value.value,
        Expr::Cast { expr, data_type, .. } if is_time(data_type) => match expr.as_mut() {
            Expr::Value(ValueWithSpan { value, .. }) => value,
            _ => return,
        },
        _ => return,
    };
    if let Value::SingleQuotedString(text) = text
        && let Some(complete) = with_seconds(text)
    {
        *text = complete;
    }
}

/// Returns the text with seconds, if it is a date with hours and minutes.
pub(crate) fn with_seconds(text: &str) -> Option<String> {
    let shape = "0000-00-00 00:00";
    let fits = |(shape, found): (char, char)| match shape {
        '0' => found.is_ascii_digit(),
        ' ' => matches!(found, ' ' | 'T'),
        other => found == other,
    };
    let trimmed = text.trim();
    let is_time = trimmed.len() == shape.len() && shape.chars().zip(trimmed.chars()).all(fits);
    is_time.then(|| format!("{trimmed}:00"))
}

#[cfg(test)]
mod tests {
    use super::with_seconds;

    #[test]
    fn seconds_are_added_to_minutes_alone() {
        assert_eq!(with_seconds("2026-01-01 12:00").as_deref(), Some("2026-01-01 12:00:00"));
        assert_eq!(with_seconds("2026-01-01T12:30").as_deref(), Some("2026-01-01T12:30:00"));
        for other in ["2026-01-01", "2026-01-01 12:00:01", "2026-01-01 1:00", "x"] {
            assert_eq!(with_seconds(other), None, "{other}");
        }
    }
}
