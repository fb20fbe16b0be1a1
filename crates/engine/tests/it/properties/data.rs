//! Tables that are meant to be difficult: NULLs everywhere or nowhere, skew, duplicates, the ends
//! of types, strings that look like something else.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use crate::world::World;

/// Strings that text formats carry as one record each.
const STRINGS: [&str; 24] = [
    "a",
    "A",
    "b",
    "it's",
    "x,y",
    "p|q",
    "say \"hi\"",
    "\"",
    "ünï",
    "日本語",
    "100%",
    "_",
    " lead",
    "trail ",
    "NULL",
    "null",
    "0",
    "-1",
    "1e5",
    "true",
    "\\",
    "a\\b",
    "#c",
    "2001-01-01",
];

/// Strings that CSV without quoted line ends, or without empty values, cannot carry.
const OTHERS: [&str; 3] = ["", "two\nlines", "cr\rhere"];

/// Both ends of 64 bits but the very lowest, which is no literal of SQL, and what lies around
/// nothing.
const EXTREMES: [i64; 8] = [i64::MIN + 1, i64::MIN + 2, -1, 0, 1, 1 << 53, i64::MAX - 1, i64::MAX];

/// As many digits as a decimal has, and few.
const DECIMALS: [i128; 6] = [10_i128.pow(38) - 1, 1 - 10_i128.pow(38), 10_i128.pow(37), 10_000, -1, 0];

/// A table of some objects in one format.
pub struct Table {
    pub name: String,
    format: &'static str,
    columns: &'static str,
    objects: Vec<RecordBatch>,
}

impl Table {
    /// `id` numbers the rows; sums stay in range of their types, and sums of doubles are exact in
    /// any order.
    pub fn facts(rng: &mut StdRng, name: String) -> Self {
        let rows = *[0, 1, 2, 10, 100, 100, 400, 400].choose(rng).unwrap();
        let format = format(rng);
        let (keys, groups) = (rng.random_range(1..40), rng.random_range(1..STRINGS.len() + 1));
        // From uniform to a few keys having nearly all rows.
        let exponent = *[0.0, 0.5, 1.0, 1.3].choose(rng).unwrap();
        let mut ids: Vec<i64> = (0..rows).map(|id| id - 3).collect();
        ids.shuffle(rng);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(ids)),
            Arc::new(Int64Array::from(column(rng, rows, |rng| zipf(rng, keys, exponent) as i64 - 5))),
            Arc::new(Int64Array::from(column(rng, rows, extreme))),
            Arc::new(Int32Array::from(column(rng, rows, |rng| rng.random_range(-100..100)))),
            Arc::new(
                Decimal128Array::from(column(rng, rows, |rng| rng.random_range(-99_999..99_999)))
                    .with_precision_and_scale(15, 2)
                    .unwrap(),
            ),
            Arc::new(Float64Array::from(column(rng, rows, |rng| f64::from(rng.random_range(-400..400)) * 0.25))),
            Arc::new(StringArray::from(column(rng, rows, |rng| string(rng, groups, format)))),
            Arc::new(Date32Array::from(column(rng, rows, |rng| rng.random_range(-800..20_000)))),
            Arc::new(BooleanArray::from(column(rng, rows, |rng| rng.random()))),
            wide_decimals(rng, rows),
        ];
        let declared = "id BIGINT, k BIGINT, e BIGINT, n INT, m DECIMAL(15,2), f DOUBLE, g VARCHAR, d DATE, b BOOLEAN, \
                        p DECIMAL(38,4)";
        Self::new(rng, name, format, declared, columns)
    }

    /// The other side of joins.
    pub fn dimension(rng: &mut StdRng, name: String) -> Self {
        let rows = *[0, 1, 5, 30, 60].choose(rng).unwrap();
        let format = format(rng);
        let (keys, groups) = (rng.random_range(1..40), rng.random_range(1..STRINGS.len() + 1));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(column(rng, rows, |rng| rng.random_range(0..keys) as i64 - 5))),
            Arc::new(Int64Array::from(column(rng, rows, extreme))),
            Arc::new(StringArray::from(column(rng, rows, |rng| string(rng, groups, format)))),
            Arc::new(Int32Array::from(column(rng, rows, |rng| rng.random_range(-9..9)))),
            wide_decimals(rng, rows),
        ];
        Self::new(rng, name, format, "k BIGINT, e BIGINT, s VARCHAR, w INT, p DECIMAL(38,4)", columns)
    }

    fn new(rng: &mut StdRng, name: String, format: &'static str, columns: &'static str, arrays: Vec<ArrayRef>) -> Self {
        let fields: Vec<Field> = columns
            .split(", ")
            .zip(&arrays)
            .map(|(column, array)| Field::new(column.split(' ').next().unwrap(), array.data_type().clone(), true))
            .collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let whole = RecordBatch::try_new(schema, arrays).unwrap();
        let count = rng.random_range(1..4);
        let step = whole.num_rows().div_ceil(count).max(1);
        let slice = |at: usize| whole.slice(at.min(whole.num_rows()), step.min(whole.num_rows().saturating_sub(at)));
        let objects = (0..count).map(|object| slice(object * step)).collect();
        Self { name, format, columns, objects }
    }

    /// The statement that declares it, to us and to plain DataFusion.
    pub fn declaration(&self) -> String {
        let Self { name, format, columns, .. } = self;
        let options = if *format == "CSV" { "OPTIONS ('format.has_header' 'true')" } else { "" };
        format!("CREATE EXTERNAL TABLE {name} ({columns}) STORED AS {format} LOCATION 's3://data/{name}/' {options}")
    }

    pub async fn put(&self, world: &World) {
        for (number, rows) in self.objects.iter().enumerate() {
            let bytes = match self.format {
                "CSV" => csv(rows),
                "JSON" => json(rows),
                _ => parquet(rows),
            };
            let extension = self.format.to_lowercase();
            world.put(&format!("{}/{number}.{extension}", self.name), bytes).await;
        }
    }
}

fn format(rng: &mut StdRng) -> &'static str {
    ["CSV", "CSV", "JSON", "PARQUET"].choose(rng).unwrap()
}

/// Values of which some, none or nearly all are NULL.
fn column<T>(rng: &mut StdRng, rows: i64, mut value: impl FnMut(&mut StdRng) -> T) -> Vec<Option<T>> {
    let nulls = *[0.0, 0.0, 0.1, 0.5, 0.95, 1.0].choose(rng).unwrap();
    (0..rows).map(|_| (!rng.random_bool(nulls)).then(|| value(rng))).collect()
}

/// Of 64 bits, the very lowest too.
fn extreme(rng: &mut StdRng) -> i64 {
    if rng.random_ratio(1, 9) { i64::MIN } else { *EXTREMES.choose(rng).unwrap() }
}

fn wide_decimals(rng: &mut StdRng, rows: i64) -> ArrayRef {
    let values = column(rng, rows, |rng| *DECIMALS.choose(rng).unwrap());
    Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, 4).unwrap())
}

/// Below `end`, by Zipf's law with this exponent: 0 is uniform.
fn zipf(rng: &mut StdRng, end: usize, exponent: f64) -> usize {
    let weight = |rank: usize| 1.0 / ((rank + 1) as f64).powf(exponent);
    let mut left = rng.random::<f64>() * (0..end).map(weight).sum::<f64>();
    (0..end)
        .find(|rank| {
            left -= weight(*rank);
            left <= 0.0
        })
        .unwrap_or(end - 1)
}

/// Below `end`, the first of them often.
fn skewed(rng: &mut StdRng, end: usize) -> usize {
    (rng.random::<f64>().powi(3) * end as f64) as usize
}

fn string(rng: &mut StdRng, most: usize, format: &str) -> String {
    if format != "CSV" && rng.random_bool(0.1) {
        return (*OTHERS.choose(rng).unwrap()).to_owned();
    }
    if rng.random_bool(0.01) {
        return "long ".repeat(200);
    }
    STRINGS[skewed(rng, most)].to_owned()
}

fn csv(rows: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = arrow::csv::WriterBuilder::new().with_header(true).build(&mut bytes);
    writer.write(rows).unwrap();
    drop(writer);
    bytes
}

fn json(rows: &RecordBatch) -> Vec<u8> {
    let mut writer = arrow::json::LineDelimitedWriter::new(Vec::new());
    writer.write(rows).unwrap();
    writer.finish().unwrap();
    writer.into_inner()
}

fn parquet(rows: &RecordBatch) -> Vec<u8> {
    // Several row groups, several pages each.
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(64))
        .set_data_page_row_count_limit(20)
        .set_write_batch_size(10)
        .build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, rows.schema(), Some(properties)).unwrap();
    writer.write(rows).unwrap();
    writer.close().unwrap();
    bytes
}

/// A literal of SQL of this type, mostly one that occurs.
pub fn literal(rng: &mut StdRng, kind: &DataType) -> String {
    match kind {
        DataType::Boolean => if rng.random() { "TRUE" } else { "FALSE" }.to_owned(),
        DataType::Int32 => rng.random_range(-100..100).to_string(),
        DataType::Int64 if rng.random_bool(0.2) => EXTREMES.choose(rng).unwrap().to_string(),
        DataType::Int64 => rng.random_range(-6..40).to_string(),
        DataType::Decimal128(38, _) => {
            ["1.0000", "-0.0001", "0", "999999999999999999999999999999999.9999"].choose(rng).unwrap().to_string()
        }
        DataType::Decimal128(..) => format!("{:.2}", f64::from(rng.random_range(-99_999..99_999)) / 100.0),
        DataType::Float64 => format!("{:.2}", f64::from(rng.random_range(-400..400)) * 0.25),
        DataType::Date32 => {
            let day = chrono::NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
            format!("DATE '{}'", day + chrono::Duration::days(rng.random_range(-800..20_000)))
        }
        _ => format!("'{}'", STRINGS.choose(rng).unwrap().replace('\'', "''")),
    }
}
