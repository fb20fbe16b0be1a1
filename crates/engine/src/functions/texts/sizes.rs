//! Sizes in human-readable form.

use std::sync::Arc;

use datafusion::arrow::array::{AsArray, StringArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::plan_err;
use datafusion::logical_expr::ScalarUDF;

use super::super::simple::Simple;

/// Returns the function `format_bytes`.
pub(super) fn function() -> Arc<ScalarUDF> {
    let format_bytes = Simple {
        name: "format_bytes",
        takes: |types| match types {
            [own] if own.is_numeric() || own.is_null() => Ok(vec![DataType::Int64]),
            _ => plan_err!("format_bytes takes a number of bytes"),
        },
        returns: |_| Ok(DataType::Utf8),
        compute: |args, _| {
            let [sizes] = args else { return plan_err!("format_bytes takes one number") };
            let texts = sizes.as_primitive::<Int64Type>().iter().map(|size| size.map(size_text));
            Ok(Arc::new(texts.collect::<StringArray>()))
        },
        simplify: None,
    };
    format_bytes.function()
}

/// Returns the size in the largest power of 1024 that leaves a whole part: `1.5 MiB`.
fn size_text(bytes: i64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let sign = if bytes < 0 { "-" } else { "" };
    let size = bytes.unsigned_abs();
    let unit = |power: u32| 1_u64.checked_shl(10 * power);
    let Some((power, name)) = (1..).zip(UNITS).take_while(|(power, _)| unit(*power).is_some_and(|u| size >= u)).last()
    else {
        return format!("{sign}{size} {}", if size == 1 { "byte" } else { "bytes" });
    };
    let one = unit(power).unwrap_or(1);
    // Tenths are cut off, as DuckDB does.
    format!("{sign}{}.{} {name}", size / one, size % one * 10 / one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_one_decimal() {
        for (bytes, text) in [(0, "0 bytes"), (1, "1 byte"), (1023, "1023 bytes"), (1024, "1.0 KiB")] {
            assert_eq!(size_text(bytes), text);
        }
        assert_eq!(size_text(1_234_567), "1.1 MiB");
        assert_eq!(size_text(-1536), "-1.5 KiB");
        assert_eq!(size_text(i64::MAX), "7.9 EiB");
    }
}
