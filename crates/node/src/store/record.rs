//! The records of the index: JSON behind a byte of the format and a CRC32C.
//!
//! A reader refuses a format that it does not know instead of guessing, and a record that is not what was written.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::files::Segment;
use super::sums::crc32c;
use super::{ObjectMeta, Result, StoreError};

/// The format of the records in these tables. Format 2 added tags, settings of buckets, numbers and
/// checksums of parts, format 3 a checksum of the record and of the blocks of data files; records of formats 1 and 2
/// lack them and are read as they are.
const FORMAT: u8 = 3;
/// The checksum behind the byte of the format.
const SUM_BYTES: usize = 4;
const FORMATS: std::ops::RangeInclusive<u8> = 1..=FORMAT;

/// An object in the index.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(super) struct ObjectRecord {
    pub meta: ObjectMeta,
    /// The files that hold the bytes, in order; none for an empty object of no parts.
    pub segments: Vec<Segment>,
    /// The upload it was completed from, so that completing again gives the same answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<String>,
    /// The key whose account holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Its bytes were not what its ETag says when their checksums were to be made.
    #[serde(default, skip_serializing_if = "is_not")]
    pub damaged: bool,
}

fn is_not(flag: &bool) -> bool {
    !flag
}

/// The part of an [`ObjectRecord`] that names files.
#[derive(Deserialize)]
pub(super) struct Named {
    pub segments: Vec<Segment>,
}

pub(super) fn encode(record: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = vec![FORMAT, 0, 0, 0, 0];
    serde_json::to_writer(&mut bytes, record)
        .map_err(|error| StoreError::Corrupt(format!("a record cannot be written: {error}")))?;
    let (head, json) = bytes.split_at_mut(SUM_BYTES + 1);
    if let Some(place) = head.get_mut(1..) {
        place.copy_from_slice(&crc32c(json).to_le_bytes());
    }
    Ok(bytes)
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match bytes.split_first() {
        Some((&FORMAT, rest)) => match rest.split_first_chunk::<SUM_BYTES>() {
            Some((sum, json)) if crc32c(json) == u32::from_le_bytes(*sum) => serde_json::from_slice(json)
                .map_err(|error| StoreError::Corrupt(format!("a record of the index cannot be read: {error}"))),
            _ => Err(StoreError::Corrupt("a record of the index is not what was written".to_owned())),
        },
        Some((format, json)) if FORMATS.contains(format) => serde_json::from_slice(json)
            .map_err(|error| StoreError::Corrupt(format!("a record of the index cannot be read: {error}"))),
        Some((format, _)) => Err(StoreError::Corrupt(format!(
            "the index holds a record of format {format}; this version knows formats up to {FORMAT}"
        ))),
        None => Err(StoreError::Corrupt("the index holds an empty record".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BucketMeta, BucketSettings};
    use super::*;

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
