//! Tables about whole objects: `read_text`, `read_blob`, `parquet_schema`, `parquet_metadata`. The
//! objects are read when the table is resolved, and held in memory for the statement.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, StringArray, TimestampMicrosecondArray};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::schema::types::Type;
use pushdowndb_contract::{Error, ErrorKind, Result};
use pushdowndb_scan::limits::MAX_FOOTER_BYTES;

use crate::catalog::{DataObject, TableLocation, Whole, listing};
use crate::context::QueryContext;
use crate::endpoints::query_meters;

/// Maximum total size of the objects that are read as texts or bytes.
const MAX_BYTES: u64 = 256 * 1024 * 1024;

/// Named columns of one length.
type Columns = Vec<(&'static str, ArrayRef)>;

/// Returns the columns of the table of the objects at `location`.
///
/// # Errors
///
/// Returns an error if there is no object, if the objects are too large, or if one is not of the
/// expected format.
pub(crate) async fn columns(query: &QueryContext, location: &TableLocation, whole: Whole) -> Result<Columns> {
    let backend = query.backends.backend(location.store().as_ref())?;
    let meters = query_meters(&query.meter);
    let store = backend.store(&meters)?;
    let objects = listing::addressed(store.as_ref(), location).await?;
    if objects.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, format!("{location}: there are no objects")));
    }
    if matches!(whole, Whole::ParquetSchema | Whole::ParquetMetadata) {
        let mut footers = Vec::with_capacity(objects.len());
        for (address, meta) in objects {
            let object = DataObject::from(meta);
            let footer = backend.read_footer(&object, &meters, &query.options, MAX_FOOTER_BYTES).await;
            footers.push((address.clone(), footer.map_err(|error| error.context(address))?));
        }
        return Ok(match whole {
            Whole::ParquetSchema => schemas(&footers),
            _ => chunks(&footers),
        });
    }
    let bytes: u64 = objects.iter().map(|(_, meta)| meta.size).sum();
    if bytes > MAX_BYTES {
        return Err(Error::unsupported(format!(
            "{location}: the objects have {bytes} bytes, and read_text and read_blob take {MAX_BYTES} at most; narrow \
             the location"
        )));
    }
    let mut contents = Vec::with_capacity(objects.len());
    for (address, meta) in &objects {
        let object = DataObject::from(meta.clone());
        contents.push(object.fetch(store.as_ref(), 0..object.size, address).await?);
    }
    let content: ArrayRef = match whole {
        Whole::Text => {
            let text = |((address, _), bytes): (&(String, _), &bytes::Bytes)| {
                let text = std::str::from_utf8(bytes).map(str::to_owned);
                text.map_err(|_| Error::invalid(format!("{address}: is not UTF-8; read_blob reads bytes")))
            };
            let texts = objects.iter().zip(&contents).map(text).collect::<Result<Vec<_>>>()?;
            Arc::new(StringArray::from(texts))
        }
        _ => Arc::new(BinaryArray::from_iter_values(&contents)),
    };
    let size = |size: u64| i64::try_from(size).unwrap_or(i64::MAX);
    let written = objects.iter().map(|(_, meta)| meta.last_modified.timestamp_micros());
    Ok(vec![
        ("filename", text(objects.iter().map(|(address, _)| Some(address.clone())))),
        ("content", content),
        ("size", Arc::new(Int64Array::from_iter_values(objects.iter().map(|(_, meta)| size(meta.size))))),
        ("last_modified", Arc::new(TimestampMicrosecondArray::from_iter_values(written).with_timezone("UTC"))),
    ])
}

fn text(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

fn number(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

/// Returns a row for each node of the schemas, as DuckDB's `parquet_schema` does.
fn schemas(footers: &[(String, Arc<ParquetMetaData>)]) -> Columns {
    let mut nodes: Vec<(&str, &Type)> = Vec::new();
    for (address, footer) in footers {
        let mut rest = vec![footer.file_metadata().schema_descr().root_schema()];
        while let Some(node) = rest.pop() {
            nodes.push((address, node));
            if node.is_group() {
                rest.extend(node.get_fields().iter().rev().map(Arc::as_ref));
            }
        }
    }
    let all = || nodes.iter().map(|(_, node)| *node);
    let leaf = |node: &Type| match node {
        Type::PrimitiveType { physical_type, type_length, .. } => Some((*physical_type, *type_length)),
        Type::GroupType { .. } => None,
    };
    let decimal = |node: &Type| match node {
        Type::PrimitiveType { precision, scale, .. } if *precision > 0 => {
            Some((i64::from(*precision), i64::from(*scale)))
        }
        _ => None,
    };
    let children = |node: &Type| node.is_group().then(|| i64::try_from(node.get_fields().len()).unwrap_or(i64::MAX));
    let logical = |node: &Type| node.get_basic_info().logical_type_ref().map(|own| format!("{own:?}"));
    let repetition = |node: &Type| {
        let info = node.get_basic_info();
        info.has_repetition().then(|| info.repetition().to_string())
    };
    let length = |node: &Type| leaf(node).map(|(_, length)| i64::from(length)).filter(|length| *length > 0);
    let field_id = |node: &Type| {
        let info = node.get_basic_info();
        info.has_id().then(|| i64::from(info.id()))
    };
    vec![
        ("file_name", text(nodes.iter().map(|(address, _)| Some((*address).to_owned())))),
        ("name", text(all().map(|node| Some(node.name().to_owned())))),
        ("type", text(all().map(|node| leaf(node).map(|(physical, _)| physical.to_string())))),
        ("type_length", number(all().map(length))),
        ("repetition_type", text(all().map(repetition))),
        ("num_children", number(all().map(children))),
        ("converted_type", text(all().map(converted))),
        ("scale", number(all().map(|node| decimal(node).map(|(_, scale)| scale)))),
        ("precision", number(all().map(|node| decimal(node).map(|(precision, _)| precision)))),
        ("field_id", number(all().map(field_id))),
        ("logical_type", text(all().map(logical))),
    ]
}

/// Returns the converted type, which older writers use.
fn converted(node: &Type) -> Option<String> {
    let converted = node.get_basic_info().converted_type();
    (converted != parquet::basic::ConvertedType::NONE).then(|| converted.to_string())
}

/// Returns the name of the codec, without its level.
fn codec(chunk: &ColumnChunkMetaData) -> String {
    let codec = format!("{:?}", chunk.compression());
    codec.split('(').next().unwrap_or_default().to_owned()
}

/// Returns a row for each column chunk, with those columns of DuckDB's `parquet_metadata` that
/// apply here.
fn chunks(footers: &[(String, Arc<ParquetMetaData>)]) -> Columns {
    let mut rows = Vec::new();
    for (address, footer) in footers {
        for (group_number, group) in footer.row_groups().iter().enumerate() {
            for (column_number, chunk) in group.columns().iter().enumerate() {
                rows.push((address.as_str(), group_number, group, column_number, chunk));
            }
        }
    }
    let place = |number: usize| i64::try_from(number).ok();
    let bound = |bytes: Option<&[u8]>, physical: parquet::basic::Type| {
        use parquet::basic::Type as Physical;
        let bytes = bytes?;
        Some(match physical {
            Physical::BOOLEAN => (bytes.first()? != &0).to_string(),
            Physical::INT32 => i32::from_le_bytes(bytes.try_into().ok()?).to_string(),
            Physical::INT64 => i64::from_le_bytes(bytes.try_into().ok()?).to_string(),
            Physical::FLOAT => f32::from_le_bytes(bytes.try_into().ok()?).to_string(),
            Physical::DOUBLE => f64::from_le_bytes(bytes.try_into().ok()?).to_string(),
            _ => std::str::from_utf8(bytes).ok()?.to_owned(),
        })
    };
    let least = rows
        .iter()
        .map(|(.., chunk)| bound(chunk.statistics().and_then(|own| own.min_bytes_opt()), chunk.column_type()));
    let greatest = rows
        .iter()
        .map(|(.., chunk)| bound(chunk.statistics().and_then(|own| own.max_bytes_opt()), chunk.column_type()));
    let nulls = rows.iter().map(|(.., chunk)| {
        chunk.statistics().and_then(|own| own.null_count_opt()).and_then(|count| i64::try_from(count).ok())
    });
    let encodings = rows.iter().map(|(.., chunk)| {
        let names: Vec<String> = chunk.encodings().map(|encoding| encoding.to_string()).collect();
        Some(names.join(", "))
    });
    vec![
        ("file_name", text(rows.iter().map(|(address, ..)| Some((*address).to_owned())))),
        ("row_group_id", number(rows.iter().map(|(_, number, ..)| place(*number)))),
        ("row_group_num_rows", number(rows.iter().map(|(_, _, group, ..)| Some(group.num_rows())))),
        ("row_group_bytes", number(rows.iter().map(|(_, _, group, ..)| Some(group.total_byte_size())))),
        ("column_id", number(rows.iter().map(|(_, _, _, number, _)| place(*number)))),
        ("num_values", number(rows.iter().map(|(.., chunk)| Some(chunk.num_values())))),
        ("path_in_schema", text(rows.iter().map(|(.., chunk)| Some(chunk.column_path().string())))),
        ("type", text(rows.iter().map(|(.., chunk)| Some(chunk.column_type().to_string())))),
        ("stats_min_value", text(least)),
        ("stats_max_value", text(greatest)),
        ("stats_null_count", number(nulls)),
        ("compression", text(rows.iter().map(|(.., chunk)| Some(codec(chunk))))),
        ("encodings", text(encodings)),
        ("total_compressed_size", number(rows.iter().map(|(.., chunk)| Some(chunk.compressed_size())))),
        ("total_uncompressed_size", number(rows.iter().map(|(.., chunk)| Some(chunk.uncompressed_size())))),
    ]
}
