//! An object of a table: which version of it a query reads, where it lies, and its own columns.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use chrono::{DateTime, Utc};
use datafusion::common::ScalarValue;
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta, ObjectStore};
use pushdowndb_contract::{Error, ErrorKind, FingerprintBuilder, Result};

use super::stores;
use crate::error::from_object_store;
use crate::without_ranges;

/// An object of a table, as it was when the query was planned.
#[derive(Clone, Debug, PartialEq)]
pub struct DataObject {
    /// The key in the bucket, or the path. In a table of several stores the number of the store comes
    /// first: `1/t/a.csv`.
    pub path: Path,
    /// The size in bytes.
    pub size: u64,
    /// The ETag that every request must confirm; `None` if the store has none.
    pub etag: Option<String>,
    /// The time of the last write.
    pub last_modified: DateTime<Utc>,
    /// The values of the table's partition columns, in their order.
    pub partition_values: Vec<ScalarValue>,
    /// The object's own columns, if they are not the table's ([`super::ObjectColumns`]).
    pub columns: Option<Arc<super::ObjectColumns>>,
    /// The numbers of other stores of the table that hold the same bytes under the same key.
    pub replicas: Vec<usize>,
}

impl From<ObjectMeta> for DataObject {
    fn from(meta: ObjectMeta) -> Self {
        Self {
            path: meta.location,
            size: meta.size,
            etag: meta.e_tag,
            last_modified: meta.last_modified,
            partition_values: Vec::new(),
            columns: None,
            replicas: Vec::new(),
        }
    }
}

impl DataObject {
    /// Returns the object as store number `store` holds it, with its other stores as replicas;
    /// `None` if that store does not hold it.
    pub(crate) fn in_store(&self, store: usize) -> Option<Self> {
        let (own, key) = stores::number_and_key(&self.path)?;
        let others = self.replicas.iter().copied().filter(|replica| *replica != store);
        match own == store {
            true => Some(self.clone()),
            false if !self.replicas.contains(&store) => None,
            false => {
                let replicas = std::iter::once(own).chain(others).collect();
                Some(Self { path: stores::numbered(store, &key).ok()?, replicas, ..self.clone() })
            }
        }
    }

    /// Whether a replacement of the object cannot be detected, since a manifest lists it without an
    /// ETag.
    pub(crate) fn has_no_version(&self) -> bool {
        self.etag.is_none() && self.last_modified == DateTime::UNIX_EPOCH
    }

    /// Adds the path, size, ETag and time of the last write to a fingerprint, which then differs
    /// between versions of the object.
    pub(crate) fn add_to(&self, fingerprint: FingerprintBuilder) -> FingerprintBuilder {
        let written_ns = self.last_modified.timestamp_nanos_opt().unwrap_or_default();
        fingerprint
            .text(self.path.as_ref())
            .number(self.size)
            .optional(self.etag.as_deref().map(str::as_bytes))
            .number(written_ns.cast_unsigned())
    }

    /// Reads a range of the object as it was listed; `address` is for messages.
    pub(crate) async fn fetch(&self, store: &dyn ObjectStore, range: Range<u64>, address: &str) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let options = GetOptions { if_match: self.etag.clone(), ..GetOptions::default() };
        let fetched = async {
            let found = without_ranges::get(store, &self.path, range, options).await?;
            let mut pieces = without_ranges::bytes(found);
            let mut whole = BytesMut::new();
            while let Some(piece) = pieces.try_next().await? {
                whole.extend_from_slice(&piece);
            }
            Ok(whole.freeze())
        };
        fetched.await.map_err(|error: object_store::Error| match error {
            object_store::Error::Precondition { .. } => {
                let message = format!("{address}: was replaced while it was looked at; run it again");
                Error::new(ErrorKind::Conflict, message)
            }
            error => from_object_store(error).context(address),
        })
    }
}
