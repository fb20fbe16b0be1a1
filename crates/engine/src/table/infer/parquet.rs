//! The schema in a Parquet object's footer: one ranged GET of its tail, a second if the footer is longer.

use arrow::datatypes::Schema;
use object_store::ObjectStore;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaDataReader;
use pushdown::{Error, ErrorKind, Result};

use crate::table::DataObject;

/// Holds the footer of all but the widest files.
const TAIL_BYTES: u64 = 64 * 1024;

/// A footer claimed to be longer than this is taken for damage and not fetched.
const FOOTER_LIMIT: u64 = 256 * 1024 * 1024;

/// The columns as Arrow sees them.
pub(super) async fn schema(store: &dyn ObjectStore, object: &DataObject, address: &str) -> Result<Schema> {
    let damaged = |error: ParquetError| {
        Error::new(ErrorKind::Corrupt, format!("{address}: is no Parquet object, or it is cut off")).with_source(error)
    };
    let mut tail = TAIL_BYTES.min(object.size);
    loop {
        let bytes = object.fetch(store, object.size - tail..object.size, address).await?;
        let mut reader = ParquetMetaDataReader::new();
        match reader.try_parse_sized(&bytes, object.size) {
            Ok(()) => {
                let metadata = reader.finish().map_err(damaged)?;
                let file = metadata.file_metadata();
                return parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata()).map_err(damaged);
            }
            Err(ParquetError::NeedMoreData(needed))
                if tail < needed as u64 && needed as u64 <= object.size.min(FOOTER_LIMIT) =>
            {
                tail = needed as u64;
            }
            Err(error) => return Err(damaged(error)),
        }
    }
}
