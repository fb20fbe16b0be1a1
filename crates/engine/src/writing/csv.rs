//! CSV that distinguishes NULL from the empty text: NULL is nothing (or the text of `null_value`),
//! the empty text is a pair of quotes.
//!
//! Arrow's writer writes both in the same way. So if a batch contains the empty text, a character
//! that the batch does not contain is written instead of it (or, if all fields are quoted, instead
//! of NULL), and replaced in the output.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::csv::{QuoteStyle, WriterBuilder};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use async_trait::async_trait;
use bytes::Bytes;
use datafusion::catalog::Session;
use datafusion::common::file_options::csv_writer::CsvWriterOptions;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{DataFusionError, Result as DfResult};
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::write::BatchSerializer;
use datafusion::datasource::file_format::write::demux::DemuxedStreamReceiver;
use datafusion::datasource::file_format::write::orchestration::spawn_writer_tasks_and_join;
use datafusion::datasource::physical_plan::{FileSink, FileSinkConfig};
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexRequirement;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use object_store::ObjectStore;
use pushdowndb_contract::Error;

use crate::error::to_datafusion;

/// Returns the plan that writes the rows of `input` in this format to the location of `config`.
pub(super) fn sink(
    input: Arc<dyn ExecutionPlan>,
    state: &dyn Session,
    format: &CsvFormat,
    config: FileSinkConfig,
    order: Option<LexRequirement>,
) -> DfResult<DataSinkExec> {
    let has_header = format.options().has_header.unwrap_or_else(|| state.config_options().catalog.has_header);
    let options = CsvWriterOptions::try_from(&format.options().clone().with_has_header(has_header))?;
    Ok(DataSinkExec::new(input, Arc::new(CsvSink { config, options }), order))
}

/// Writes CSV objects.
struct CsvSink {
    config: FileSinkConfig,
    options: CsvWriterOptions,
}

impl fmt::Debug for CsvSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CsvSink").finish_non_exhaustive()
    }
}

impl DisplayAs for CsvSink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CsvSink(to={})", self.config.original_url)
    }
}

#[async_trait]
impl FileSink for CsvSink {
    fn config(&self) -> &FileSinkConfig {
        &self.config
    }

    async fn spawn_writer_tasks_and_join(
        &self,
        context: &Arc<TaskContext>,
        demux: SpawnedTask<DfResult<()>>,
        streams: DemuxedStreamReceiver,
        store: Arc<dyn ObjectStore>,
    ) -> DfResult<u64> {
        let serializer = Arc::new(Serializer { builder: self.options.writer_options.clone() });
        let (compression, level) = (self.options.compression.into(), self.options.compression_level);
        spawn_writer_tasks_and_join(context, serializer, compression, level, store, demux, streams).await
    }
}

#[async_trait]
impl DataSink for CsvSink {
    fn schema(&self) -> &SchemaRef {
        self.config.output_schema()
    }

    async fn write_all(&self, rows: SendableRecordBatchStream, context: &Arc<TaskContext>) -> DfResult<u64> {
        FileSink::write_all(self, rows, context).await
    }
}

/// Encodes batches as text.
struct Serializer {
    builder: WriterBuilder,
}

impl BatchSerializer for Serializer {
    fn serialize(&self, batch: RecordBatch, initial: bool) -> DfResult<Bytes> {
        let builder = self.builder.clone().with_header(self.builder.header() && initial);
        let schema = batch.schema();
        let is_null_lost = schema.fields().len() == 1 && self.builder.null().is_empty();
        if is_null_lost && is_text(schema.field(0).data_type()) && batch.column(0).logical_null_count() > 0 {
            return Err(to_datafusion(Error::unsupported(format!(
                "the column '{}' is NULL in a row and there is no other: a record of CSV must hold something; say what \
                 means NULL with OPTIONS (null_value 'NULL')",
                schema.field(0).name()
            ))));
        }
        let plain = write(&batch, builder.clone())?;
        let quotes = char::from(self.builder.quote()).to_string().repeat(2);
        let stands_for_itself = |text: &str| ('\u{e000}'..='\u{f8ff}').find(|c| !text.contains(*c));
        let written = match self.builder.quote_style() {
            QuoteStyle::Necessary => {
                let Some(mark) = stands_for_itself(&plain) else { return Err(no_mark()) };
                match with_mark_for_empty(&batch, mark)? {
                    Some(marked) => write(&marked, builder)?.replace(mark, &quotes),
                    None => plain,
                }
            }
            QuoteStyle::Always | QuoteStyle::NonNumeric => {
                let Some(mark) = stands_for_itself(&plain) else { return Err(no_mark()) };
                let quote = char::from(self.builder.quote());
                let marked = write(&batch, builder.with_null(mark.to_string()))?;
                marked.replace(&format!("{quote}{mark}{quote}"), self.builder.null())
            }
            // Without quotes the two cannot be distinguished.
            _ => plain,
        };
        Ok(written.into())
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, of) => of.is_string(),
        data_type => data_type.is_string(),
    }
}

fn no_mark() -> DataFusionError {
    to_datafusion(Error::unsupported("text that holds each of the characters for private use cannot be written as CSV"))
}

fn write(batch: &RecordBatch, builder: WriterBuilder) -> DfResult<String> {
    let mut text = Vec::with_capacity(4096);
    builder.build(&mut text).write(batch)?;
    String::from_utf8(text).map_err(|error| DataFusionError::External(Box::new(error)))
}

/// Returns the batch with `mark` in place of empty texts; `None` if there are none.
fn with_mark_for_empty(batch: &RecordBatch, mark: char) -> DfResult<Option<RecordBatch>> {
    let mark = mark.to_string();
    let (mut fields, mut columns, mut any) = (Vec::new(), Vec::<ArrayRef>::new(), false);
    for (field, values) in batch.schema().fields().iter().zip(batch.columns()) {
        let text = if is_text(field.data_type()) { Some(cast(values, &DataType::Utf8)?) } else { None };
        match text.as_ref().map(|text| text.as_string::<i32>()) {
            Some(text) if text.iter().any(|value| value == Some("")) => {
                let marked = text.iter().map(|value| value.map(|value| if value.is_empty() { &mark } else { value }));
                any = true;
                columns.push(Arc::new(marked.collect::<StringArray>()));
                fields.push(Arc::new(field.as_ref().clone().with_data_type(DataType::Utf8)));
            }
            _ => {
                columns.push(Arc::clone(values));
                fields.push(Arc::clone(field));
            }
        }
    }
    if !any {
        return Ok(None);
    }
    Ok(Some(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?))
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Field;

    use super::*;

    fn batch() -> RecordBatch {
        let text = StringArray::from(vec![Some("a"), Some(""), None, Some("\"\""), Some("\u{e000}")]);
        let numbers = Int64Array::from(vec![Some(1), None, None, Some(4), Some(5)]);
        let schema = Schema::new(vec![Field::new("t", DataType::Utf8, true), Field::new("n", DataType::Int64, true)]);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(text), Arc::new(numbers)]).unwrap()
    }

    fn written(builder: WriterBuilder, batch: RecordBatch) -> DfResult<String> {
        let bytes = Serializer { builder }.serialize(batch, true)?;
        Ok(String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[test]
    fn null_is_nothing_and_the_empty_text_a_pair_of_quotes() {
        let plain = written(WriterBuilder::new(), batch()).unwrap();
        assert_eq!(plain, "t,n\na,1\n\"\",\n,\n\"\"\"\"\"\",4\n\u{e000},5\n");
        let quoted = written(WriterBuilder::new().with_quote_style(QuoteStyle::Always), batch()).unwrap();
        assert_eq!(quoted, "\"t\",\"n\"\n\"a\",\"1\"\n\"\",\n,\n\"\"\"\"\"\",\"4\"\n\"\u{e000}\",\"5\"\n");
        let named = WriterBuilder::new().with_null("NA".to_owned()).with_quote(b'\'').with_header(false);
        assert_eq!(written(named, batch()).unwrap(), "a,1\n'',NA\nNA,NA\n\"\",4\n\u{e000},5\n");
    }

    #[test]
    fn a_null_alone_is_refused() {
        let one = batch().project(&[0]).unwrap();
        let error = written(WriterBuilder::new(), one.clone()).unwrap_err().to_string();
        assert!(error.contains("null_value"), "{error}");
        assert!(written(WriterBuilder::new(), one.slice(0, 2)).unwrap().ends_with("a\n\"\"\n"));
        assert!(written(WriterBuilder::new().with_null("NA".to_owned()), one).unwrap().contains("NA\n"));
        // In columns other than text a pair of quotes is NULL.
        assert!(written(WriterBuilder::new(), batch().project(&[1]).unwrap()).is_ok());
    }
}
