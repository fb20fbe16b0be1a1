//! The records of the index: a format byte, a CRC32C, JSON.
//!
//! An unknown format or a wrong checksum is an error.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::store::disk::checksums::crc32c;
use crate::store::disk::data_files::Segment;
use crate::store::{ObjectMeta, Result, StoreError};

/// The current format of records. Format 2 added tags, bucket settings, and numbers and checksums
/// of parts; format 3 added checksums of records and of the blocks of data files. Older records are
/// read without these.
const FORMAT: u8 = 3;
/// The size of the checksum after the format byte.
const CHECKSUM_BYTES: usize = 4;
const FORMATS: std::ops::RangeInclusive<u8> = 1..=FORMAT;

/// An object in the index.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct ObjectRecord {
    pub meta: ObjectMeta,
    /// The data files in order; empty for an empty object that was not uploaded in parts.
    pub segments: Vec<Segment>,
    /// The upload that the object was completed from, so that a repeated completion returns the
    /// same result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// The access key that is charged for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Whether its bytes did not match its ETag when the checksums were backfilled.
    #[serde(default, skip_serializing_if = "is_not")]
    pub damaged: bool,
}

fn is_not(flag: &bool) -> bool {
    !flag
}

/// The part of an [`ObjectRecord`] that refers to files.
#[derive(Deserialize)]
pub(crate) struct RecordSegments {
    pub segments: Vec<Segment>,
}

pub(crate) fn encode(record: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = vec![FORMAT, 0, 0, 0, 0];
    serde_json::to_writer(&mut bytes, record)
        .map_err(|error| StoreError::Corrupt(format!("a record cannot be written: {error}")))?;
    let (head, json) = bytes.split_at_mut(CHECKSUM_BYTES + 1);
    if let Some(place) = head.get_mut(1..) {
        place.copy_from_slice(&crc32c(json).to_le_bytes());
    }
    Ok(bytes)
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => match rest.split_first_chunk::<CHECKSUM_BYTES>() {
            Some((sum, json)) if crc32c(json) == u32::from_le_bytes(*sum) => parse(json),
            _ => Err(StoreError::Corrupt("a record of the index is not what was written".to_owned())),
        },
        Some((format, json)) if FORMATS.contains(format) => parse(json),
        Some((format, _)) => Err(StoreError::Corrupt(format!(
            "the index holds a record of format {format}; this version knows formats up to {FORMAT}"
        ))),
        None => Err(StoreError::Corrupt("the index holds an empty record".to_owned())),
    }
}

/// Parses JSON. UTF-8 is validated once for the record instead of once for each string.
fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T> {
    let unreadable =
        |error: &dyn std::fmt::Display| StoreError::Corrupt(format!("a record of the index cannot be read: {error}"));
    let json = std::str::from_utf8(json).map_err(|error| unreadable(&error))?;
    serde_json::from_str(json).map_err(|error| unreadable(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{BucketMeta, BucketSettings};

    #[test]
    fn records_of_format_1_are_read_and_later_ones_refused() {
        let old = br#"{"meta":{"size":3,"etag":"x","modified_ms":1,"parts":[3]},"segments":[]}"#;
        let with = |format: u8| [&[format], old.as_slice()].concat();
        let read: ObjectRecord = decode(&with(1)).unwrap();
        assert_eq!((read.meta.size, read.meta.parts.len(), read.meta.tags.len()), (3, 1, 0));
        assert_eq!(decode::<ObjectRecord>(&encode(&read).unwrap()).unwrap(), read);
        assert_eq!(decode::<ObjectRecord>(&with(2)).unwrap(), read);
        assert!(decode::<ObjectRecord>(&with(4)).unwrap_err().to_string().contains("format 4"));
        let bucket = decode::<BucketMeta>(b"\x01{\"name\":\"b\",\"created_ms\":5}").unwrap();
        assert_eq!(bucket.settings, BucketSettings::default());
    }

    #[test]
    fn no_bit_of_a_record_changes_unnoticed() {
        let record = ObjectRecord { meta: ObjectMeta { size: 8000, ..ObjectMeta::default() }, ..old() };
        let bytes = encode(&record).unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut wrong = bytes.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            assert!(decode::<ObjectRecord>(&wrong).is_err(), "bit {bit}");
        }
    }

    fn old() -> ObjectRecord {
        ObjectRecord { meta: ObjectMeta::default(), segments: Vec::new(), upload: None, writer: None, damaged: false }
    }
}
