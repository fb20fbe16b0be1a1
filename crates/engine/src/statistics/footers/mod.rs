//! Statistics from the footers of Parquet objects: rows, the bytes of each column, and the bounds
//! of each column in each row group.

pub(crate) mod selectivity;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, SchemaRef};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::Encoding;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use pushdowndb_scan::parquet_schema;
use serde::{Deserialize, Serialize};

/// Summary of some objects' footers.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Footers {
    /// Rows of the objects.
    rows: f64,
    /// Bytes of the objects.
    bytes: f64,
    /// The rows of each row group.
    groups: Vec<f64>,
    /// Statistics of each column of the table's objects; `None` if no footer describes the column.
    columns: Vec<Option<Column>>,
}

/// Statistics of a column.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
struct Column {
    /// Bytes in the objects, as stored.
    stored: f64,
    /// Bytes once decompressed.
    decompressed: f64,
    nulls: f64,
    chunks: u64,
    /// Number of distinct values, as the sum over the row groups and as the maximum of one row
    /// group; `None` if unknown.
    distinct: Option<(f64, f64)>,
    /// The least and greatest value of each row group, as numbers; `None` if they are unknown.
    ranges: Vec<Option<(f64, f64)>>,
}

impl Footers {
    /// Creates empty statistics of a table whose objects have the columns of `schema`.
    pub(super) fn new(schema: &SchemaRef) -> Self {
        Self { columns: vec![None; schema.fields().len()], ..Self::default() }
    }

    /// Adds the footer of an object of `bytes` bytes. A footer that does not match the schema adds
    /// rows, but no columns.
    pub(super) fn add(&mut self, schema: &SchemaRef, footer: &ParquetMetaData, bytes: u64) {
        let before = self.groups.len();
        self.bytes += bytes as f64;
        self.groups.extend(footer.row_groups().iter().map(|group| group.num_rows().max(0) as f64));
        self.rows = self.groups.iter().sum();
        let descriptor = footer.file_metadata().schema_descr();
        let Ok(arrow) = parquet_schema("a table's object", footer) else { return };
        for (field, column) in schema.fields().iter().zip(&mut self.columns) {
            let Some(leaf) = (0..descriptor.num_columns()).find(|leaf| {
                let path = descriptor.column(*leaf);
                path.path().parts().first() == Some(field.name())
            }) else {
                continue;
            };
            let column = column.get_or_insert_default();
            column.ranges.resize(before, None);
            for group in footer.row_groups() {
                column.add(group.column(leaf));
            }
            let converter = StatisticsConverter::try_new(field.name(), &arrow, descriptor);
            let bounds = converter.ok().and_then(|converter| {
                let groups = footer.row_groups();
                let (least, greatest) =
                    (converter.row_group_mins(groups).ok()?, converter.row_group_maxes(groups).ok()?);
                Some((numbers(&least)?, numbers(&greatest)?))
            });
            match bounds {
                Some((least, greatest)) => {
                    column.ranges.extend(least.into_iter().zip(greatest).map(|(least, greatest)| least.zip(greatest)))
                }
                None => column.ranges.resize(self.groups.len(), None),
            }
        }
    }

    /// Returns the mean bytes of a row.
    pub(super) fn row_bytes(&self) -> f64 {
        self.bytes / self.rows.max(1.0)
    }

    /// Returns the share of the objects' bytes that `columns` take; `None` if it is unknown.
    pub(super) fn stored_share(&self, columns: &[usize]) -> Option<f64> {
        let stored: Option<f64> = columns.iter().map(|column| Some(self.column(*column)?.stored)).sum();
        Some((stored? / self.bytes.max(1.0)).min(1.0))
    }

    /// Estimates the number of byte ranges that `columns`, in ascending order, occupy in the row
    /// groups of objects with `bytes` bytes in total, if ranges at most `gap` bytes apart are
    /// joined.
    pub(super) fn stretches(&self, columns: &[usize], bytes: f64, gap: f64) -> Option<f64> {
        let groups = self.groups.len().max(1) as f64;
        let mut of_a_group = 0.0;
        let mut last: Option<usize> = None;
        for column in columns {
            self.column(*column)?;
            let between = last.map(|last| last + 1..*column).map(|between| {
                between.filter_map(|other| self.column(other)).map(|other| other.stored / groups).sum::<f64>()
            });
            if between.is_none_or(|between| between > gap) {
                of_a_group += 1.0;
            }
            last = Some(*column);
        }
        Some(of_a_group * groups * bytes / self.bytes.max(1.0))
    }

    /// Estimates the mean bytes of a value of the column, as text or as Arrow sends them.
    pub(super) fn value_bytes(&self, column: usize, data_type: &DataType) -> Option<f64> {
        let of_type = super::width::column_bytes(data_type) as f64;
        let column = self.column(column)?;
        // A dictionary hides the lengths of texts; other texts are stored with four bytes of
        // length.
        Some(match data_type.is_string() && column.distinct.is_none() {
            true => (column.decompressed / self.rows.max(1.0) - 4.0).max(1.0),
            false => of_type,
        })
    }

    pub(super) fn null_share(&self, column: usize) -> Option<f64> {
        Some((self.column(column)?.nulls / self.rows.max(1.0)).min(1.0))
    }

    /// Returns the least and the greatest value of a column, as numbers; `None` if a row group has
    /// no bounds.
    pub(super) fn range(&self, column: usize) -> Option<(f64, f64)> {
        let ranges = self.column(column)?.ranges.iter().copied().collect::<Option<Vec<_>>>()?;
        let least = ranges.iter().map(|(least, _)| *least).fold(f64::INFINITY, f64::min);
        let greatest = ranges.iter().map(|(_, greatest)| *greatest).fold(f64::NEG_INFINITY, f64::max);
        (least <= greatest).then_some((least, greatest))
    }

    /// Estimates the number of distinct values of a column. There are at most as many as whole
    /// numbers, or days, between its bounds.
    pub(super) fn distinct_of(&self, column: usize, data_type: &DataType) -> Option<f64> {
        let counted = self.counted(column);
        let whole = data_type.is_integer() || matches!(data_type, DataType::Date32);
        let between = self.range(column).filter(|_| whole).map(|(least, greatest)| greatest - least + 1.0);
        let all = Some(self.rows);
        [counted, between, all].into_iter().flatten().min_by(f64::total_cmp)
    }

    /// Estimates the number of distinct values from the row groups' dictionaries. If row groups
    /// each span the whole range, they are assumed to have the same values; if their ranges are
    /// disjoint, different ones.
    fn counted(&self, column: usize) -> Option<f64> {
        let (sum, most) = self.column(column)?.distinct?;
        let Some((least, greatest)) = self.range(column).filter(|(least, greatest)| greatest > least) else {
            return Some(most);
        };
        let ranges = self.column(column)?.ranges.iter().flatten();
        let overlap = ranges.map(|(from, to)| to - from).sum::<f64>() / (greatest - least);
        Some((sum / overlap.max(f64::MIN_POSITIVE)).clamp(most, sum))
    }

    fn column(&self, column: usize) -> Option<&Column> {
        self.columns.get(column)?.as_ref()
    }
}

impl Column {
    fn add(&mut self, chunk: &ColumnChunkMetaData) {
        self.stored += chunk.compressed_size().max(0) as f64;
        self.decompressed += chunk.uncompressed_size().max(0) as f64;
        let nulls = chunk.statistics().and_then(|statistics| statistics.null_count_opt());
        self.nulls += nulls.unwrap_or(0) as f64;
        let before = if self.chunks == 0 { Some((0.0, 0.0)) } else { self.distinct };
        self.chunks += 1;
        self.distinct = before.zip(dictionary_values(chunk)).map(|((sum, most), own)| (sum + own, f64::max(most, own)));
    }
}

/// Estimates the number of values in a column chunk's dictionary from its size. Returns `None` if
/// some values are stored outside of it.
fn dictionary_values(chunk: &ColumnChunkMetaData) -> Option<f64> {
    let (dictionary, data) = (chunk.dictionary_page_offset()?, chunk.data_page_offset());
    let is_dictionary = |encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    let some_plain = match chunk.page_encoding_stats_mask() {
        Some(of_data_pages) => of_data_pages.encodings().any(|encoding| !is_dictionary(encoding)),
        // Without page statistics, check for an encoding other than that of the dictionary.
        None => chunk
            .encodings()
            .any(|encoding| !is_dictionary(encoding) && !matches!(encoding, Encoding::RLE | Encoding::PLAIN)),
    };
    if some_plain {
        return None;
    }
    let shrunk = chunk.uncompressed_size().max(1) as f64 / chunk.compressed_size().max(1) as f64;
    let bytes = (data - dictionary).max(0) as f64 * shrunk;
    let width = match chunk.column_type() {
        parquet::basic::Type::BOOLEAN => 1.0,
        parquet::basic::Type::INT32 | parquet::basic::Type::FLOAT => 4.0,
        parquet::basic::Type::INT64 | parquet::basic::Type::DOUBLE => 8.0,
        parquet::basic::Type::INT96 => 12.0,
        // Texts that repeat are short; their length takes four bytes.
        parquet::basic::Type::BYTE_ARRAY => 14.0,
        parquet::basic::Type::FIXED_LEN_BYTE_ARRAY => chunk.column_descr().type_length().max(1).into(),
    };
    Some((bytes / width).ceil().max(1.0))
}

/// Converts bounds to numbers: days of dates, microseconds of timestamps, or the numbers
/// themselves. Returns `None` for other types.
fn numbers(bounds: &ArrayRef) -> Option<Vec<Option<f64>>> {
    let plain = match bounds.data_type() {
        DataType::Date32 => cast(bounds, &DataType::Int32).ok()?,
        DataType::Timestamp(_, zone) => {
            let micros = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, zone.clone());
            cast(&cast(bounds, &micros).ok()?, &DataType::Int64).ok()?
        }
        other if other.is_numeric() => ArrayRef::clone(bounds),
        _ => return None,
    };
    let numbers = cast(&plain, &DataType::Float64).ok()?;
    let numbers = numbers.as_primitive_opt::<Float64Type>()?;
    Some((0..numbers.len()).map(|row| numbers.is_valid(row).then(|| numbers.value(row))).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Date32Array, Decimal128Array, RecordBatch, StringArray};
    use arrow::datatypes::{Field, Schema};
    use bytes::Bytes;
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::ParquetMetaDataReader;
    use parquet::file::properties::WriterProperties;

    use pushdowndb_contract::{CompareOp, Expr, Literal};

    use super::*;

    /// Two row groups of 1000 rows: days 0 to 999 and 1000 to 1999, a price of 0.00 to 9.99, one of
    /// four flags, a text that never repeats.
    fn footers() -> (Footers, SchemaRef) {
        let schema = Arc::new(Schema::new(vec![
            Field::new("day", DataType::Date32, false),
            Field::new("price", DataType::Decimal128(9, 2), false),
            Field::new("flag", DataType::Utf8, true),
            Field::new("note", DataType::Utf8, false),
        ]));
        let rows = 0..2000_i32;
        let price = Decimal128Array::from_iter_values(rows.clone().map(|row| i128::from(row * 7919 % 1000)));
        let flags: StringArray = rows.clone().map(|row| ["a", "b", "c"].get(row as usize % 4).copied()).collect();
        let notes = StringArray::from_iter_values(rows.clone().map(|row| format!("note number {row:028}")));
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![
                Arc::new(Date32Array::from_iter_values(rows)),
                Arc::new(price.with_precision_and_scale(9, 2).unwrap()),
                Arc::new(flags),
                Arc::new(notes),
            ],
        )
        .unwrap();
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(1000))
            .set_column_dictionary_enabled("note".into(), false)
            .build();
        written(&batch, properties)
    }

    /// Statistics from the footer of a file with these rows.
    fn written(batch: &RecordBatch, properties: WriterProperties) -> (Footers, SchemaRef) {
        let schema = batch.schema();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, Arc::clone(&schema), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        let file = Bytes::from(file);
        let footer = ParquetMetaDataReader::new().parse_and_finish(&file).unwrap();
        let mut footers = Footers::new(&schema);
        footers.add(&schema, &footer, file.len() as u64);
        (footers, schema)
    }

    fn near(got: f64, want: f64) -> bool {
        (got - want).abs() < 0.01
    }

    #[test]
    fn columns_side_by_side_are_read_together() {
        let (footers, _) = footers();
        let stretches = |columns: &[usize], bytes: f64, gap| footers.stretches(columns, bytes, gap).unwrap();
        let all = footers.bytes;
        assert_eq!((stretches(&[0, 1], all, 0.0), stretches(&[0, 3], all, 0.0)), (2.0, 4.0), "of two row groups");
        assert_eq!((stretches(&[0, 3], all, all), stretches(&[0, 3], all * 3.0, 0.0)), (2.0, 12.0));
        assert_eq!((stretches(&[], all, 0.0), footers.stretches(&[7], all, 0.0)), (0.0, None));
    }

    #[test]
    fn keys_of_a_join_are_a_share_of_the_columns_values() {
        let (footers, schema) = footers();
        let kept = |columns: &[usize], count: i64| {
            let mut filter = pushdowndb_contract::BloomFilter::with_capacity(count as usize, 0.01);
            (0..count).for_each(|key| filter.insert(pushdowndb_contract::Key::Int(key)));
            let keys = columns.iter().map(|column| Expr::Column(*column)).collect();
            footers.selectivity(&Expr::Bloom { keys, filter: Arc::new(filter) }, &schema)
        };
        assert!((kept(&[0], 200) - 0.11).abs() < 0.02, "{} of 2000 days", kept(&[0], 200));
        assert!(kept(&[0], 0) < 0.001);
        assert_eq!(kept(&[0], 20_000), 1.0);
        assert!((kept(&[0, 2], 200) - 0.11).abs() < 0.02, "no more combinations than rows");
    }

    #[test]
    fn ranges_are_measured_row_group_by_row_group() {
        let (footers, schema) = footers();
        let day = |op, value| Expr::compare(op, Expr::Column(0), Expr::Literal(Literal::Date(value)));
        assert!(near(footers.selectivity(&day(CompareOp::Lt, 1500), &schema), 0.75));
        assert!(near(footers.selectivity(&day(CompareOp::GtEq, 5000), &schema), 0.0));
        let month = day(CompareOp::GtEq, 100).and(day(CompareOp::Lt, 300));
        assert!(near(footers.selectivity(&month, &schema), 0.1), "{}", footers.selectivity(&month, &schema));
        let cheap = Expr::compare(CompareOp::Lt, Expr::Column(1), Expr::Literal(Literal::Decimal(250, 9, 2)));
        assert!(near(footers.selectivity(&cheap, &schema), 0.25));
        assert!(near(footers.selectivity(&month.clone().and(cheap), &schema), 0.025));
        assert!(near(footers.groups_kept(&month, &schema), 0.5), "the other row group has later days");
        // Once with the column on each side: a comparison of two columns does not limit either
        // range.
        for (left, right) in [(0, 1), (1, 0)] {
            let columns = Expr::compare(CompareOp::Gt, Expr::Column(left), Expr::Column(right));
            let kept = footers.selectivity(&month.clone().and(columns), &schema);
            assert!(near(kept, 0.1 / 3.0), "{kept}");
        }
    }

    #[test]
    fn values_are_counted_by_their_dictionary() {
        let (footers, schema) = footers();
        let flags = footers.distinct_of(2, schema.field(2).data_type()).unwrap();
        assert!((1.0..=4.0).contains(&flags), "{flags}, in truth three");
        assert_eq!(footers.distinct_of(0, schema.field(0).data_type()), Some(2000.0));
        assert_eq!(footers.distinct_of(3, schema.field(3).data_type()), Some(2000.0), "no more than rows");
        assert!(near(footers.null_share(2).unwrap(), 0.25));
        assert!(near(footers.selectivity(&Expr::IsNull(Box::new(Expr::Column(2))), &schema), 0.25));
    }

    /// A dictionary that grew too large holds only some values.
    #[test]
    fn values_outside_of_a_dictionary_are_not_taken_for_none() {
        let field = |name, data_type| Field::new(name, data_type, false);
        let schema = Arc::new(Schema::new(vec![field("key", DataType::Utf8), field("number", DataType::Float64)]));
        let rows = 0..20_000;
        let keys = StringArray::from_iter_values(rows.clone().map(|row| format!("key number {row:09}")));
        let numbers = arrow::array::Float64Array::from_iter_values(rows.map(f64::from));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(keys), Arc::new(numbers)]).unwrap();
        let properties = WriterProperties::builder()
            .set_dictionary_page_size_limit(8192)
            .set_data_page_row_count_limit(500)
            .set_write_batch_size(100)
            .build();
        let (footers, schema) = written(&batch, properties);
        let distinct = |column: usize| footers.distinct_of(column, schema.field(column).data_type());
        assert_eq!((distinct(0), distinct(1)), (Some(20_000.0), Some(20_000.0)));
        let width = footers.value_bytes(0, &DataType::Utf8).unwrap();
        assert!((19.0..22.0).contains(&width), "{width}, in truth twenty");
    }

    #[test]
    fn columns_have_their_share_of_the_bytes() {
        let (footers, schema) = footers();
        let all = footers.stored_share(&[0, 1, 2, 3]).unwrap();
        let note = footers.stored_share(&[3]).unwrap();
        assert!(all <= 1.0 && note > 0.5 && note < all, "{note} of {all}");
        let width = footers.value_bytes(3, schema.field(3).data_type()).unwrap();
        assert!(near(width, 40.0) || (39.0..45.0).contains(&width), "{width}");
    }
}
