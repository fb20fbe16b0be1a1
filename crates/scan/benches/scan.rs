//! How fast scans are, over lineitem in memory: the statements of `experiments/scan.toml` as a node
//! would run them.
//!
//! ```text
//! cargo bench --workspace --bench scan                  everything
//! cargo bench --workspace --bench scan -- csv/q6        some of it
//! scripts/instructions.py                               instructions of each, against those on record
//! ```
//! For the script, `SCAN_DATA=DIR` alone writes the objects there and names the cases; with
//! `SCAN_ONCE=csv/q6` as well it runs that case once in [`counted`], whose instructions are
//! counted.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use divan::Bencher;
use divan::counter::BytesCount;
use futures::TryStreamExt;
use object_store::memory::InMemory as Store;
use object_store::{ObjectStore, ObjectStoreExt};
use pushdowndb_contract::{
    BloomFilter, Compression, CsvOptions, Format, Fragment, JsonOptions, JsonShape, Key, NullRule, Ragged,
};
use pushdowndb_datagen::{Destination, Options, generate, schema};
use pushdowndb_scan::{InMemory, ScanCounters, ScanOptions, scan};
use pushdowndb_select::{Extensions, InputColumns, parse};
use tokio::runtime::{Builder, Runtime};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const DEFINITION: &str = include_str!("../../../experiments/scan.toml");
/// `json` is `ndjson` with declared columns, as tables have them, rather than the records of S3
/// Select.
const FORMATS: [&str; 5] = ["csv", "gzip", "json", "ndjson", "parquet"];
/// What is timed: 600,000 rows.
const SCALE: f64 = 0.1;
/// What is counted, which is fifty times slower: 6,000 rows.
const SMALL_SCALE: f64 = 0.001;
/// The same keys as the experiment's.
const KEYS: i64 = 65_536;

fn main() -> Result<()> {
    let Ok(folder) = std::env::var("SCAN_DATA") else {
        divan::main();
        return Ok(());
    };
    let folder = PathBuf::from(folder);
    match std::env::var("SCAN_ONCE") {
        Ok(name) => once(&name, &folder),
        Err(_) => prepare(&folder),
    }
}

#[divan::bench(args = cases().keys().map(String::as_str))]
fn lineitem(bencher: Bencher, name: &str) {
    let case = &cases()[name];
    let runtime = runtime().unwrap();
    bencher.counter(BytesCount::new(case.text_bytes)).bench_local(|| case.run(&runtime).unwrap());
}

/// Writes the objects and names the cases.
fn prepare(folder: &Path) -> Result<()> {
    for format in FORMATS {
        let (object, _) = object(format, SMALL_SCALE)?;
        std::fs::write(folder.join(format), &object)?;
        cases_of(format, &object, 0)?.keys().for_each(|name| println!("{name}"));
    }
    Ok(())
}

/// Runs a case once.
fn once(name: &str, folder: &Path) -> Result<()> {
    let (format, _) = name.split_once('/').ok_or("a case is FORMAT/QUERY")?;
    let object = std::fs::read(folder.join(format))?.into();
    let cases = cases_of(format, &object, 0)?;
    let rows = counted(cases.get(name).ok_or("no such case")?, &runtime()?)?;
    println!("{rows} rows");
    Ok(())
}

/// Whose instructions are counted.
#[inline(never)]
fn counted(case: &Case, runtime: &Runtime) -> Result<usize> {
    case.run(runtime)
}

/// One thread, so that counts repeat.
fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// A statement over an object.
struct Case {
    fragment: Arc<Fragment>,
    object: Bytes,
    /// What speed is told in: bytes of text before compression, of Parquet those of the file.
    text_bytes: usize,
}

impl Case {
    fn run(&self, runtime: &Runtime) -> Result<usize> {
        let reader = Arc::new(InMemory::new("lineitem", self.object.clone()).with_piece_bytes(1024 * 1024));
        let (options, counters) = (ScanOptions::default(), Arc::new(ScanCounters::default()));
        runtime.block_on(async {
            let batches = scan(Arc::clone(&self.fragment), reader, None, options, counters)?;
            Ok(batches.try_fold(0, |rows, batch| async move { Ok(rows + batch.num_rows()) }).await?)
        })
    }
}

/// All cases by name.
fn cases() -> &'static BTreeMap<String, Case> {
    static CASES: OnceLock<BTreeMap<String, Case>> = OnceLock::new();
    CASES.get_or_init(|| {
        let of = |format| {
            let (object, text_bytes) = object(format, SCALE)?;
            cases_of(format, &object, text_bytes)
        };
        FORMATS.into_iter().flat_map(|format| of(format).unwrap()).collect()
    })
}

/// The cases of a format over this object.
fn cases_of(format: &str, object: &Bytes, text_bytes: usize) -> Result<BTreeMap<String, Case>> {
    let definition: toml::Table = DEFINITION.parse()?;
    let mut cases = BTreeMap::new();
    for query in definition["query"].as_array().ok_or("no queries")? {
        let statements = query["statement"].as_table().ok_or("no statements")?;
        let columns_of = if format == "json" { "parquet" } else { format };
        let statement = statements.get(&format!("select-{columns_of}")).or_else(|| statements.get("select"));
        let Some(statement) = statement.and_then(|statement| statement.as_str()) else { continue };
        let bound =
            parse(&filled_in(statement)).and_then(|parsed| parsed.bind_with(&columns(columns_of)?, Extensions::On));
        let mut fragment = bound.map_err(|error| format!("{statement}: {error:?}"))?;
        if format == "json" {
            fragment.format = Format::Json(JsonOptions::default());
        }
        let fragment = Arc::new(fragment);
        let name = format!("{format}/{}", query["name"].as_str().ok_or("no name")?);
        cases.insert(name, Case { fragment, object: object.clone(), text_bytes });
    }
    Ok(cases)
}

/// The table in a format, and the bytes it has without compression.
fn object(format: &str, scale: f64) -> Result<(Bytes, usize)> {
    let kind = match format {
        "csv" | "gzip" => pushdowndb_datagen::Format::Csv,
        "json" | "ndjson" => pushdowndb_datagen::Format::Json,
        _ => pushdowndb_datagen::Format::Parquet,
    };
    let store: Arc<dyn ObjectStore> = Arc::new(Store::new());
    let destination = Destination {
        store: Arc::clone(&store),
        prefix: object_store::path::Path::default(),
        url: "memory:".to_owned(),
        endpoint: None,
    };
    let options = Options { scale, format: kind, parts: 1, overwrite: false };
    let plain = runtime()?.block_on(async {
        generate(options, &destination, |_| {}).await?;
        let found: Vec<_> = store.list(Some(&"lineitem".into())).try_collect().await?;
        let place = found.into_iter().next().ok_or("no object")?.location;
        Ok::<_, Box<dyn Error>>(store.get(&place).await?.bytes().await?)
    })?;
    let text_bytes = plain.len();
    if format != "gzip" {
        return Ok((plain, text_bytes));
    }
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut encoder, &plain)?;
    Ok((encoder.finish()?.into(), text_bytes))
}

/// What a node knows of the columns of lineitem.
fn columns(format: &str) -> std::result::Result<InputColumns, pushdowndb_select::SelectError> {
    let lineitem = schema("lineitem").unwrap();
    let compression = if format == "gzip" { Compression::Gzip } else { Compression::None };
    Ok(match format {
        "parquet" => InputColumns::Parquet(lineitem),
        "ndjson" => {
            let from = Vec::new();
            InputColumns::Json(JsonOptions {
                shape: JsonShape::Lines,
                compression,
                raw_tokens: true,
                from,
                ..JsonOptions::default()
            })
        }
        _ => {
            let null = NullRule::Never;
            let options =
                CsvOptions { header: true, null, ragged: Ragged::Lenient, compression, ..CsvOptions::default() };
            let names: Vec<String> = lineitem.fields().iter().map(|field| field.name().clone()).collect();
            InputColumns::Csv { options, count: names.len(), names: Some(names) }
        }
    })
}

/// The statement with its Bloom filters, as `crates/cli/src/experiment/run.rs` fills them in.
fn filled_in(statement: &str) -> String {
    let keys = || (0..KEYS).map(|n| 32 * n + 1);
    let mut statement = statement.to_owned();
    if statement.contains("{bloom}") {
        let mut filter = BloomFilter::with_capacity(KEYS as usize, 0.01);
        keys().for_each(|key| filter.insert(Key::Int(key)));
        statement = statement.replace("{bloom}", &BASE64_STANDARD.encode(filter.to_bytes()));
    }
    if statement.contains("{bits}") {
        let mut bits = vec!['0'; KEYS as usize];
        keys().for_each(|key| bits[((key * 40_503 + 7) % 65_521) as usize] = '1');
        statement = statement.replace("{bits}", &bits.into_iter().collect::<String>());
    }
    statement
}
