//! Plain reads of an object that several stores hold.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use pushdowndb_contract::{Error, Result};
use pushdowndb_scan::ObjectReader;

use crate::endpoints::fleet::moves_on;
use crate::endpoints::node::Node;

/// An object in one of the stores that hold it.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) reader: Arc<dyn ObjectReader>,
    /// The node that records failures of this replica.
    pub(crate) node: Option<Arc<Node>>,
}

/// Reads an object from the first of its replicas that answers; a read that breaks off goes on at
/// the next one, from the byte it has reached.
pub(crate) struct ReplicatedReader {
    replicas: Arc<[Replica]>,
    location: String,
    size: u64,
    bytes_per_request: u64,
}

impl fmt::Debug for ReplicatedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplicatedReader").field("location", &self.location).finish_non_exhaustive()
    }
}

impl ReplicatedReader {
    /// Creates a reader that tries `replicas` in this order.
    pub(crate) fn new(replicas: Vec<Replica>) -> Self {
        let first = replicas.first().map(|replica| &replica.reader);
        Self {
            location: first.map(|reader| reader.location().to_owned()).unwrap_or_default(),
            size: first.map_or(0, |reader| reader.size()),
            bytes_per_request: first.map_or(0, |reader| reader.bytes_per_request()),
            replicas: replicas.into(),
        }
    }
}

/// Returns whether to go on with the next replica after number `at` failed with `error`. If so,
/// records the failure.
fn goes_on(replicas: &[Replica], at: usize, error: &Error) -> bool {
    let is_gone = moves_on(error) && at + 1 < replicas.len();
    if is_gone {
        replicas.get(at).and_then(|replica| replica.node.as_ref()).inspect(|node| node.failed());
        tracing::debug!(%error, "another replica is read");
    }
    is_gone
}

fn none() -> Error {
    Error::internal("an object without a replica")
}

impl ObjectReader for ReplicatedReader {
    fn location(&self) -> &str {
        &self.location
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn bytes_per_request(&self) -> u64 {
        self.bytes_per_request
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let state = (Arc::clone(&self.replicas), 0, range, None::<BoxStream<'static, Result<Bytes>>>);
        stream::try_unfold(state, |(replicas, mut at, mut range, mut body)| async move {
            loop {
                if range.is_empty() {
                    return Ok(None);
                }
                let reading = match body.as_mut() {
                    Some(reading) => reading,
                    None => body.insert(replicas.get(at).ok_or_else(none)?.reader.stream(range.clone())),
                };
                match reading.next().await {
                    Some(Ok(bytes)) => {
                        range.start = range.end.min(range.start + bytes.len() as u64);
                        return Ok(Some((bytes, (replicas, at, range, body))));
                    }
                    Some(Err(error)) if goes_on(&replicas, at, &error) => {
                        (at, body) = (at + 1, None);
                    }
                    Some(Err(error)) => return Err(error),
                    None => return Ok(None),
                }
            }
        })
        .boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let replicas = Arc::clone(&self.replicas);
        async move {
            let mut at = 0;
            loop {
                let reader = &replicas.get(at).ok_or_else(none)?.reader;
                match reader.read_ranges(ranges.clone()).await {
                    Err(error) if goes_on(&replicas, at, &error) => at += 1,
                    read => return read,
                }
            }
        }
        .boxed()
    }
}
