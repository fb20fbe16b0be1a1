//! The tables of the PushdownDB paper's experiments with groups (Section VI-C) and with Parquet
//! (Section IX).
//!
//! ```text
//! groups     g1 … g10: 2, 4, … 1024 groups of about equal size      v0 … v9: numbers to sum
//! skewed     z00 … z13: 100 groups each, sizes by Zipf's law        v0 … v9
//! floats_n   c0 … : n columns of doubles from 0 to 1, with four decimals
//! ```
//!
//! A cell is a hash of its table, column and row, so that rows do not depend on the pieces. Numbers
//! to sum are decimals, so that sums are exact in any order; their text has the paper's format.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use pushdowndb_contract::{Error, Result};

/// Tables of groups.
pub(crate) const GROUPS: [&str; 2] = ["groups", "skewed"];

/// Tables of doubles, ordered by their number of columns.
pub(crate) const FLOATS: [&str; 3] = ["floats_1", "floats_10", "floats_20"];

/// Rows at scale 1, as many as lineitem has: about 700 MB of CSV.
const GROUPS_ROWS: f64 = 6_000_000.0;

/// Rows at scale 1: 100 MB of CSV for each column, as in the paper.
const FLOATS_ROWS: f64 = 14_285_714.0;

/// Zipf's exponents of the columns of `skewed`, in tenths. 0 is uniform.
const SKEWS: [u32; 10] = [0, 2, 4, 6, 8, 9, 10, 11, 12, 13];

/// Groups of a column of `skewed`.
const SKEWED_GROUPS: u32 = 100;

/// Number of value columns beside the group columns.
const VALUES: usize = 10;

/// The factor for four decimals.
const ONE: u64 = 10_000;

/// Rows of a batch.
const BATCH_ROWS: u64 = 8192;

/// The contents of a column.
#[derive(Clone, Debug)]
enum Column {
    /// This number of groups of about the same size, counted from 0.
    Uniform(u64),
    /// Groups of decreasing size: the cumulative share of rows up to each group.
    Zipf(Vec<f64>),
    /// A decimal from 0 to 1000 with four decimals, exact.
    Decimal,
    /// A double from 0 to 1 with four decimals.
    Double,
}

impl Column {
    fn data_type(&self) -> DataType {
        match self {
            Self::Uniform(_) | Self::Zipf(_) => DataType::Int64,
            Self::Decimal => DataType::Decimal128(15, 4),
            Self::Double => DataType::Float64,
        }
    }

    /// The cells of these rows; `seed` is specific to the column.
    fn cells(&self, seed: u64, rows: std::ops::Range<u64>) -> Result<ArrayRef> {
        let hashes = rows.map(|row| mix(seed ^ mix(row)));
        Ok(match self {
            Self::Uniform(groups) => Arc::new(hashes.map(|hash| (hash % groups) as i64).collect::<Int64Array>()),
            Self::Zipf(up_to) => {
                let group = |hash: u64| {
                    // Uses 53 bits, the precision of a double.
                    let at = (hash >> 11) as f64 / (1u64 << 53) as f64;
                    up_to.partition_point(|share| *share <= at) as i64
                };
                Arc::new(hashes.map(group).collect::<Int64Array>())
            }
            Self::Decimal => {
                let cells: Decimal128Array = hashes.map(|hash| Some(i128::from(hash % (1000 * ONE)))).collect();
                Arc::new(cells.with_precision_and_scale(15, 4).map_err(bug)?)
            }
            Self::Double => Arc::new(hashes.map(|hash| (hash % ONE) as f64 / ONE as f64).collect::<Float64Array>()),
        })
    }
}

/// Returns the columns of a table; `None` if it is not one of these.
fn columns(table: &str) -> Option<Vec<(String, Column)>> {
    let values = (0..VALUES).map(|n| (format!("v{n}"), Column::Decimal));
    Some(match table {
        "groups" => (1..=10).map(|n| (format!("g{n}"), Column::Uniform(1 << n))).chain(values).collect(),
        "skewed" => SKEWS.iter().map(|skew| (format!("z{skew:02}"), zipf(*skew))).chain(values).collect(),
        _ => {
            let count: usize = table.strip_prefix("floats_")?.parse().ok()?;
            (0..count).map(|n| (format!("c{n}"), Column::Double)).collect()
        }
    })
}

/// Returns a column by Zipf's law: the n-th group has a share of the rows proportional to n to the
/// power of minus `tenths` / 10.
fn zipf(tenths: u32) -> Column {
    let weights = (1..=SKEWED_GROUPS).map(|n| f64::from(n).powf(-f64::from(tenths) / 10.0));
    let sums: Vec<f64> = weights
        .scan(0.0, |sum, weight| {
            *sum += weight;
            Some(*sum)
        })
        .collect();
    let total = sums.last().copied().unwrap_or(1.0);
    // The last share is 1, so that every row has a group.
    Column::Zipf(sums.iter().map(|sum| sum / total).collect())
}

/// Returns the schema of a table, if it is one of these. No column holds NULL.
pub(crate) fn schema(table: &str) -> Option<SchemaRef> {
    let fields: Vec<Field> =
        columns(table)?.iter().map(|(name, column)| Field::new(name, column.data_type(), false)).collect();
    Some(Arc::new(Schema::new(fields)))
}

/// Returns the rows of a table at a `scale`; 0 if it is not one of these.
pub(crate) fn row_count(table: &str, scale: f64) -> u64 {
    let rows = match table {
        _ if GROUPS.contains(&table) => GROUPS_ROWS,
        _ if FLOATS.contains(&table) => FLOATS_ROWS,
        _ => 0.0,
    };
    (rows * scale) as u64
}

/// Generates the rows of a piece of a table in order: number `index` of `of` pieces.
pub(crate) fn batches(
    table: &str,
    scale: f64,
    index: u32,
    of: u32,
) -> Result<impl Iterator<Item = Result<RecordBatch>> + Send + use<>> {
    let columns = columns(table).ok_or_else(|| Error::internal(format!("no synthetic table '{table}'")))?;
    let schema = schema(table).ok_or_else(|| Error::internal(format!("no synthetic table '{table}'")))?;
    let seed = table.bytes().fold(0, |seed, byte| mix(seed ^ u64::from(byte)));
    let at = |index: u32| row_count(table, scale) * u64::from(index) / u64::from(of.max(1));
    let (start, end) = (at(index), at(index + 1));
    let starts = (0..(end - start).div_ceil(BATCH_ROWS)).map(move |n| start + n * BATCH_ROWS);
    Ok(starts.map(move |start| {
        let rows = start..(start + BATCH_ROWS).min(end);
        let cells = columns.iter().zip(0u64..).map(|((_, column), n)| column.cells(mix(seed ^ mix(n)), rows.clone()));
        RecordBatch::try_new(Arc::clone(&schema), cells.collect::<Result<_>>()?).map_err(bug)
    }))
}

/// The mixing function of SplitMix64 (Steele, Lea and Flood, 2014), after one step of its counter.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

fn bug(error: arrow::error::ArrowError) -> Error {
    Error::internal("generated rows do not have the declared types").with_source(error)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::compute::concat_batches;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn all(table: &str, of: u32) -> RecordBatch {
        let rows: Vec<_> =
            (0..of).flat_map(|index| batches(table, 0.02, index, of).unwrap()).map(|batch| batch.unwrap()).collect();
        concat_batches(&schema(table).unwrap(), &rows).unwrap()
    }

    /// The number of rows in each group of a column.
    fn sizes(rows: &RecordBatch, column: &str, groups: usize) -> Vec<usize> {
        let mut sizes = vec![0; groups];
        for group in rows.column_by_name(column).unwrap().as_primitive::<Int64Type>().values() {
            sizes[usize::try_from(*group).unwrap()] += 1;
        }
        sizes
    }

    #[test]
    fn pieces_in_order_are_the_table() {
        for table in ["groups", "skewed", "floats_10"] {
            assert_eq!(all(table, 7), all(table, 1), "{table}");
            assert_eq!(all(table, 1).num_rows() as u64, row_count(table, 0.02));
        }
    }

    #[test]
    fn groups_are_of_about_equal_size() {
        let rows = all("groups", 1);
        assert_eq!(rows.num_columns(), 20);
        for (column, groups) in [("g1", 2), ("g5", 32)] {
            let expected = rows.num_rows() / groups;
            let sizes = sizes(&rows, column, groups);
            assert!(sizes.iter().all(|size| size.abs_diff(expected) < expected / 10), "{column}: {sizes:?}");
        }
    }

    /// The paper: "θ = 1.3 means 59 % of rows belong to the four largest groups".
    #[test]
    fn skew_is_the_papers() {
        let rows = all("skewed", 1);
        let largest = |column| sizes(&rows, column, 100)[..4].iter().sum::<usize>() as f64 / rows.num_rows() as f64;
        assert!((largest("z13") - 0.59).abs() < 0.01, "{}", largest("z13"));
        assert!((largest("z00") - 0.04).abs() < 0.005, "{}", largest("z00"));
    }
}
