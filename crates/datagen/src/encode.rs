//! Encoding of pieces of a table.
//!
//! Pieces are encoded independently, so that many cores can work on one object, and concatenated in
//! order; a piece of Parquet is a row group.

use std::io::Write;
use std::sync::Arc;

use arrow::csv::WriterBuilder as CsvWriter;
use arrow::json::LineDelimitedWriter as JsonWriter;
use bytes::Bytes;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, ArrowWriter, compute_leaves};
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use pushdowndb_contract::{Error, Result};

use crate::format::Format;
use crate::rows::{Piece, batches};
use crate::tables::schema;

/// An encoded piece, as the threads that share the work produce it.
pub(crate) struct EncodedPiece {
    pub rows: u64,
    body: Body,
}

enum Body {
    Text(Vec<u8>),
    RowGroup(Vec<ArrowColumnChunk>),
}

/// Encodes pieces. It is shared by the threads that work on one object.
pub(crate) enum PieceEncoder {
    Text(Format),
    Parquet(ArrowRowGroupWriterFactory),
}

/// Writes one object by joining its pieces.
pub(crate) enum ObjectEncoder {
    Text,
    Parquet(Box<SerializedFileWriter<Vec<u8>>>),
}

/// Creates the encoder of pieces and the writer for one object of a table.
pub(crate) fn object(table: &str, format: Format) -> Result<(Arc<PieceEncoder>, ObjectEncoder)> {
    if format != Format::Parquet {
        return Ok((Arc::new(PieceEncoder::Text(format)), ObjectEncoder::Text));
    }
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let (file, row_groups) = ArrowWriter::try_new(Vec::new(), schema(table)?, Some(properties))
        .and_then(ArrowWriter::into_serialized_writer)
        .map_err(failed)?;
    Ok((Arc::new(PieceEncoder::Parquet(row_groups)), ObjectEncoder::Parquet(Box::new(file))))
}

impl PieceEncoder {
    /// Generates and encodes a piece. `first` says whether it is the first of its object.
    pub fn encode(&self, piece: Piece, first: bool) -> Result<EncodedPiece> {
        let mut rows = 0;
        let body = match self {
            Self::Text(format) => {
                let mut out = Vec::new();
                rows = encode_text(*format, piece, first, &mut out)?;
                Body::Text(out)
            }
            Self::Parquet(row_groups) => {
                let schema = schema(piece.table)?;
                let mut writers = row_groups.create_column_writers(0).map_err(failed)?;
                for batch in batches(piece)? {
                    let batch = batch?;
                    rows += batch.num_rows() as u64;
                    let columns = schema.fields().iter().zip(batch.columns());
                    for (writer, (field, column)) in writers.iter_mut().zip(columns) {
                        for leaf in compute_leaves(field, column).map_err(failed)? {
                            writer.write(&leaf).map_err(failed)?;
                        }
                    }
                }
                let chunks = writers.into_iter().map(|writer| writer.close()).collect::<Result<_, _>>();
                Body::RowGroup(chunks.map_err(failed)?)
            }
        };
        Ok(EncodedPiece { rows, body })
    }
}

fn encode_text(format: Format, piece: Piece, first: bool, out: &mut Vec<u8>) -> Result<u64> {
    let mut rows = 0;
    if format == Format::Csv {
        if first {
            let names: Vec<_> = schema(piece.table)?.fields().iter().map(|f| f.name().clone()).collect();
            writeln!(out, "{}", names.join(",")).map_err(failed)?;
        }
        let mut writer = CsvWriter::new().with_header(false).build(out);
        for batch in batches(piece)? {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            writer.write(&batch).map_err(failed)?;
        }
    } else {
        let mut writer = JsonWriter::new(out);
        for batch in batches(piece)? {
            let batch = batch?;
            rows += batch.num_rows() as u64;
            writer.write(&batch).map_err(failed)?;
        }
        writer.finish().map_err(failed)?;
    }
    Ok(rows)
}

impl ObjectEncoder {
    /// Adds the next piece and returns the bytes that are finished.
    pub fn add(&mut self, piece: EncodedPiece) -> Result<Bytes> {
        match (self, piece.body) {
            (Self::Text, Body::Text(text)) => Ok(text.into()),
            (Self::Parquet(file), Body::RowGroup(columns)) => {
                let mut row_group = file.next_row_group().map_err(failed)?;
                for column in columns {
                    column.append_to_row_group(&mut row_group).map_err(failed)?;
                }
                row_group.close().map_err(failed)?;
                file.flush().map_err(failed)?;
                Ok(std::mem::take(file.inner_mut()).into())
            }
            _ => Err(Error::internal("a piece of one format in an object of another")),
        }
    }

    /// Returns the bytes that end the object.
    pub fn finish(self) -> Result<Bytes> {
        match self {
            Self::Text => Ok(Bytes::new()),
            Self::Parquet(file) => Ok(file.into_inner().map_err(failed)?.into()),
        }
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::internal("generated rows could not be encoded").with_source(error)
}
