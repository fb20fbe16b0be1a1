//! Serialized zones. For each column there is an Arrow IPC stream with one batch, which has one row
//! per zone. Each stream is preceded by its length in 4 bytes.
//!
//! The caller must return the bytes unchanged, and for the same version of the object.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use datafusion_common::ScalarValue;
use pushdowndb_contract::{BloomFilter, Error, ErrorKind, Fingerprint, Result};

use crate::error::{from_arrow, from_datafusion};
use crate::zones::store::Zones;
use crate::zones::zone::{KEY_VERSION, Known, MAX_OBJECT_BYTES, Zone};

/// The key of the schema metadata that names the column.
const COLUMN: &str = "column";

impl Zones {
    /// Serializes all zones.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let columns = self.lock().columns.clone();
        let mut bytes = Vec::new();
        for (key, zones) in columns.iter().filter(|(_, zones)| !zones.is_empty()) {
            let batch = batch(key, zones)?;
            let mut stream = Vec::new();
            let mut writer = StreamWriter::try_new(&mut stream, batch.schema_ref()).map_err(from_arrow)?;
            writer.write(&batch).and_then(|()| writer.finish()).map_err(from_arrow)?;
            drop(writer);
            let length = u32::try_from(stream.len()).map_err(|_| Error::internal("zones too large to keep"))?;
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&stream);
        }
        Ok(bytes)
    }

    /// Deserializes zones from the bytes of [`Self::to_bytes`].
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self> {
        let cut_off = || Error::new(ErrorKind::Corrupt, "saved zones are cut off");
        let mut known = Known::default();
        while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            let (stream, rest) = rest.split_at_checked(length).ok_or_else(cut_off)?;
            bytes = rest;
            for batch in StreamReader::try_new(stream, None).map_err(from_arrow)? {
                let (key, zones) = zones_of(&batch.map_err(from_arrow)?)?;
                if key.version() != KEY_VERSION {
                    continue;
                }
                known.bytes += zones.values().map(Zone::bytes).sum::<usize>();
                known.columns.insert(key, zones);
            }
        }
        if !bytes.is_empty() || known.bytes > MAX_OBJECT_BYTES {
            return Err(cut_off());
        }
        Ok(Self { known: known.into() })
    }
}

fn batch(key: &Fingerprint, zones: &BTreeMap<u64, Zone>) -> Result<RecordBatch> {
    let all = || zones.values();
    let scalars = |of: fn(&Zone) -> &ScalarValue| {
        ScalarValue::iter_to_array(all().map(|zone| of(zone).clone())).map_err(from_datafusion)
    };
    let (smallest, largest) = (scalars(|zone| &zone.smallest)?, scalars(|zone| &zone.largest)?);
    let keys: Vec<Option<Vec<u8>>> = all().map(|zone| zone.keys.as_ref().map(BloomFilter::to_bytes)).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("start", Arc::new(UInt64Array::from_iter_values(zones.keys().copied()))),
        ("end", Arc::new(UInt64Array::from_iter_values(all().map(|zone| zone.end)))),
        ("nulls", Arc::new(all().map(|zone| Some(zone.nulls)).collect::<BooleanArray>())),
        ("values", Arc::new(all().map(|zone| Some(zone.values)).collect::<BooleanArray>())),
        ("smallest", smallest),
        ("largest", largest),
        ("keys", Arc::new(BinaryArray::from_iter(keys))),
    ];
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    let schema = schema.with_metadata([(COLUMN.to_owned(), key.to_string())].into());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect()).map_err(from_arrow)
}

fn zones_of(batch: &RecordBatch) -> Result<(Fingerprint, BTreeMap<u64, Zone>)> {
    let strange = || Error::new(ErrorKind::Corrupt, "saved zones of another kind");
    let key = batch.schema_ref().metadata().get(COLUMN).and_then(|key| key.parse().ok()).ok_or_else(strange)?;
    let column = |name: &str| batch.column_by_name(name).filter(|column| column.len() == batch.num_rows());
    let number = |name: &str| column(name).and_then(|c| c.as_primitive_opt::<UInt64Type>()).ok_or_else(strange);
    let truth = |name: &str| column(name).and_then(|c| c.as_boolean_opt()).ok_or_else(strange);
    let (starts, ends, nulls, values) = (number("start")?, number("end")?, truth("nulls")?, truth("values")?);
    let smallest = column("smallest").ok_or_else(strange)?;
    let largest = column("largest").filter(|c| c.data_type() == smallest.data_type()).ok_or_else(strange)?;
    let keys = column("keys").filter(|c| *c.data_type() == DataType::Binary).ok_or_else(strange)?.as_binary::<i32>();
    let mut zones = BTreeMap::new();
    for row in 0..batch.num_rows() {
        let scalar = |column: &ArrayRef| ScalarValue::try_from_array(column, row).map_err(from_datafusion);
        let keys = keys.is_valid(row).then(|| BloomFilter::from_bytes(keys.value(row))).transpose()?;
        let zone = Zone {
            end: ends.value(row),
            nulls: nulls.value(row),
            smallest: scalar(smallest)?,
            largest: scalar(largest)?,
            values: values.value(row),
            keys,
        };
        zones.insert(starts.value(row), zone);
    }
    Ok((key, zones))
}
