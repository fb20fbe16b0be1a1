//! SQL text: parsed, bound to an input of any format, and run.

use std::sync::{Arc, LazyLock};

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch, StringArray,
};
use arrow::datatypes::SchemaRef;
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use pushdowndb_contract::{CsvOptions, JsonOptions, JsonShape};
use pushdowndb_scan::{ScanOptions, output_schema};
use pushdowndb_select::{Extensions, InputColumns, parse};

use crate::choices::Choices;
use crate::scans::{Reading, read};

const CSV: &[u8] =
    b"id,name,price,day,flag\n1,apple,1.50,2024-01-31,true\n-2,\"b,\"\"c\",,2024-02-29T12:00:00Z,false\n\
    9223372036854775807,\xc3\xb6l,1e300,x,\n4\n";

const JSON: &[u8] =
    b"{\"id\":1,\"name\":\"apple\",\"price\":1.50,\"tags\":[\"a\",{\"b\":2}]}\n{\"ID\":null,\"day\":\"2024-01-31T\"}\n\
    [1,2]\n{\"s\":{\"id\":-9223372036854775808},\"flag\":true,\"price\":1e400}\n";

static PARQUET: LazyLock<(SchemaRef, Bytes)> = LazyLock::new(|| {
    let prices = Decimal128Array::from(vec![Some(150), None, Some(-1), Some(i128::MAX >> 64)]);
    let columns: [(&str, ArrayRef); 6] = [
        ("id", Arc::new(Int64Array::from(vec![Some(1), None, Some(i64::MAX), Some(i64::MIN)]))),
        ("name", Arc::new(StringArray::from(vec![Some("apple"), Some(""), None, Some("öl")]))),
        ("price", Arc::new(prices.with_precision_and_scale(30, 2).expect("a decimal"))),
        ("ratio", Arc::new(Float64Array::from(vec![Some(0.5), Some(f64::NAN), None, Some(f64::INFINITY)]))),
        ("day", Arc::new(Date32Array::from(vec![Some(19_000), None, Some(-1), Some(i32::MAX)]))),
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, None]))),
    ];
    let batch = RecordBatch::try_from_iter(columns).expect("a batch");
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).expect("a writer");
    writer.write(&batch).expect("written");
    (batch.schema(), writer.into_inner().expect("closed").into())
});

pub fn run(input: &[u8]) {
    let mut choices = Choices::new(input);
    let mut flag = choices.flags();
    let (extensions, named, shape) = (flag(), flag(), flag());
    let format = choices.byte() % 3;
    let sql = String::from_utf8_lossy(choices.rest());
    let Ok(statement) = parse(&sql) else { return };
    let _ = (statement.columns(), statement.selects_all());
    let (columns, bytes): (InputColumns, &[u8]) = match format {
        0 => {
            let names = ["id", "name", "price", "day", "flag"].map(str::to_owned).to_vec();
            let options = CsvOptions { header: true, ..CsvOptions::default() };
            (InputColumns::Csv { options, names: named.then_some(names), count: 5 }, CSV)
        }
        1 => {
            let shape = if shape { JsonShape::Document } else { JsonShape::Lines };
            (InputColumns::Json(JsonOptions { shape, raw_tokens: true, ..JsonOptions::default() }), JSON)
        }
        _ => (InputColumns::Parquet(Arc::clone(&PARQUET.0)), &PARQUET.1),
    };
    let extensions = if extensions { Extensions::On } else { Extensions::Off };
    let Ok(fragment) = statement.bind_with(&columns, extensions) else { return };
    if output_schema(&fragment).is_err() {
        return;
    }
    let batches =
        |batch_rows| Reading { options: ScanOptions { batch_rows, ..ScanOptions::default() }, ..Reading::default() };
    let (few, many) = (read(&fragment, bytes, &batches(1)), read(&fragment, bytes, &batches(100)));
    // These may differ between two runs: the clock advances, and sums of doubles depend on their
    // order.
    let lower = sql.to_ascii_lowercase();
    let varies = ["utcnow", "sum", "avg"].iter().any(|name| lower.contains(name));
    if let (Ok(few), Ok(many), false) = (&few, &many, varies) {
        assert_eq!(few, many, "{sql}");
    }
}
