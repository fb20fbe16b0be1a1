//! Contestants in this program over a local file: the scan library, the engine, DataFusion,
//! inflate.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::prelude::{CsvReadOptions, JsonReadOptions, ParquetReadOptions};
use futures::TryStreamExt;
use pushdowndb_contract::{Compression, CsvOptions, JsonOptions, JsonShape, NullRule, Ragged};
use pushdowndb_engine::{Engine, EngineConfig};
use pushdowndb_scan::{LocalFile, ObjectReader, ScanCounters, ScanOptions, parquet_metadata, parquet_schema, scan};
use pushdowndb_select::{Extensions, InputColumns, parse};
use tempfile::NamedTempFile;

use super::answer::Answer;
use super::kind::{DataFormat, Kind};
use super::measure::measured;
use super::plain;
use super::task::{Measured, Task, median_run};

/// Runs the task.
pub async fn run(task: &Task) -> Result<Measured> {
    match task.kind {
        Kind::Library => library(task).await,
        Kind::Engine => engine(task).await,
        Kind::Datafusion => datafusion(task).await,
        Kind::Inflate => inflate(task),
        other => bail!("{other:?} does not run in this program"),
    }
}

/// Runs the statement of S3 Select as a node would, but without the node.
async fn library(task: &Task) -> Result<Measured> {
    let work = async {
        let file = Arc::new(LocalFile::open(&task.file, task.file.to_string_lossy().as_ref())?);
        let input = input_columns(task, file.as_ref()).await?;
        let statement = parse(&task.statement).map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let fragment = statement.bind_with(&input, Extensions::On).map_err(|error| anyhow::anyhow!("{error:?}"))?;
        let rows = scan(Arc::new(fragment), file, None, ScanOptions::default(), Arc::new(ScanCounters::default()))?;
        Ok(rows.try_collect::<Vec<RecordBatch>>().await?)
    };
    measured(work, |batches| Answer::of_batches(&batches)).await
}

/// Returns the columns as a node would determine them.
async fn input_columns(task: &Task, file: &LocalFile) -> Result<InputColumns> {
    let compression = if task.format == DataFormat::Gzip { Compression::Gzip } else { Compression::None };
    Ok(match task.format {
        DataFormat::Csv | DataFormat::Gzip => {
            let null = NullRule::Never;
            let options =
                CsvOptions { header: true, null, ragged: Ragged::Lenient, compression, ..CsvOptions::default() };
            let schema = pushdowndb_datagen::schema("lineitem")?;
            let names: Vec<String> = schema.fields().iter().map(|field| field.name().clone()).collect();
            InputColumns::Csv { options, count: names.len(), names: Some(names) }
        }
        DataFormat::Ndjson => {
            let from = Vec::new();
            InputColumns::Json(JsonOptions {
                shape: JsonShape::Lines,
                compression,
                raw_tokens: true,
                from,
                ..JsonOptions::default()
            })
        }
        DataFormat::Parquet => {
            let metadata = parquet_metadata(file as &dyn ObjectReader, u64::MAX).await?;
            InputColumns::Parquet(Arc::new(parquet_schema(file.location(), &metadata)?))
        }
    })
}

/// Runs SQL in the engine, which pushes nothing down for a local file but uses its statistics.
async fn engine(task: &Task) -> Result<Measured> {
    let settings = vec![("pushdown.threads".to_owned(), task.threads.to_string())];
    let engine = Engine::new(EngineConfig { settings, ..EngineConfig::unrestricted() }).await?;
    let keys = keys_file(&task.keys)?;
    let location = keys.path().display();
    let create_keys = format!(
        "CREATE EXTERNAL TABLE keys (k BIGINT NOT NULL) STORED AS CSV LOCATION '{location}' \
         OPTIONS ('format.has_header' 'false')"
    );
    for statement in [create_table(task)?, create_keys] {
        engine.execute(&statement).await?.collect().await?;
    }
    let ask = || {
        let work = async { Ok(engine.execute(&task.statement).await?.collect().await?) };
        measured(work, |batches| Answer::of_batches(&batches))
    };
    median_run(task.runs, ask).await
}

fn create_table(task: &Task) -> Result<String> {
    let schema = pushdowndb_datagen::schema("lineitem")?;
    let columns: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| format!("{} {} NOT NULL", field.name(), pushdowndb_engine::sql_type(field.data_type())))
        .collect();
    let format = match task.format {
        DataFormat::Csv | DataFormat::Gzip => "CSV",
        DataFormat::Ndjson => "JSON",
        DataFormat::Parquet => "PARQUET",
    };
    let options = match task.format {
        DataFormat::Csv => " OPTIONS ('format.has_header' 'true')",
        DataFormat::Gzip => " OPTIONS ('format.has_header' 'true', 'format.compression' 'gzip')",
        DataFormat::Ndjson | DataFormat::Parquet => "",
    };
    let location = task.file.display().to_string().replace('\'', "''");
    let columns = columns.join(", ");
    Ok(format!("CREATE EXTERNAL TABLE lineitem ({columns}) STORED AS {format} LOCATION '{location}'{options}"))
}

/// Writes the keys to a CSV file: as SQL they would take more memory than the query.
fn keys_file(keys: &[i64]) -> Result<NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix("pushdowndb-keys-").suffix(".csv").tempfile()?;
    let text: String = keys.iter().map(|key| format!("{key}\n")).collect();
    file.write_all(text.as_bytes())?;
    Ok(file)
}

/// Runs the SQL in DataFusion, with its own readers and one partition per core.
async fn datafusion(task: &Task) -> Result<Measured> {
    let context = plain::context(Some(task.threads));
    let schema = pushdowndb_datagen::schema("lineitem")?;
    let file = task.file.to_string_lossy();
    let extension = task.file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let extension = format!(".{extension}");
    match task.format {
        DataFormat::Csv => context.register_csv("lineitem", file, CsvReadOptions::new().schema(&schema)).await?,
        DataFormat::Gzip => {
            let options = CsvReadOptions::new().schema(&schema).file_extension(&extension);
            let options = options.file_compression_type(FileCompressionType::GZIP);
            context.register_csv("lineitem", file, options).await?;
        }
        DataFormat::Ndjson => {
            let options = JsonReadOptions::default().schema(&schema).file_extension(&extension);
            context.register_json("lineitem", file, options).await?;
        }
        DataFormat::Parquet => context.register_parquet("lineitem", file, ParquetReadOptions::default()).await?,
    }
    let keys: ArrayRef = Arc::new(Int64Array::from(task.keys.clone()));
    context.register_batch("keys", RecordBatch::try_from_iter([("k", keys)])?)?;
    let work = async { Ok(context.sql(&task.statement).await?.collect().await?) };
    measured(work, |batches| Answer::of_batches(&batches)).await
}

/// Decompresses the file in one thread and drops the bytes.
fn inflate(task: &Task) -> Result<Measured> {
    let work = async { decompressed_bytes(&task.file) };
    futures::executor::block_on(measured(work, |_| Ok(Answer::Nothing)))
}

fn decompressed_bytes(file: &Path) -> Result<u64> {
    let file = File::open(file).with_context(|| file.display().to_string())?;
    let mut stream = flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 20, file));
    let (mut buffer, mut total) = (vec![0; 1 << 20], 0);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(total),
            bytes => total += bytes as u64,
        }
    }
}
