//! A cache of small objects: each is read whole once, and later queries send no request.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use pushdowndb_contract::{Error, Result};
use pushdowndb_scan::ObjectReader;

/// One version of an object: its address and its ETag.
pub(crate) type Version = (String, String);

/// A cache of objects in all stores of a session; it evicts the least recently read.
#[derive(Default)]
pub(crate) struct KeptObjects(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// The objects, with the number of their last read.
    objects: HashMap<Version, (u64, Bytes)>,
    /// The versions by the number of their last read.
    order: BTreeMap<u64, Version>,
    bytes: u64,
    reads: u64,
}

impl fmt::Debug for KeptObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptObjects").field("bytes", &self.0.lock().bytes).finish_non_exhaustive()
    }
}

impl Kept {
    fn touch(&mut self, version: &Version) -> Option<Bytes> {
        self.reads += 1;
        let (last, bytes) = self.objects.get_mut(version)?;
        self.order.remove(last);
        *last = self.reads;
        self.order.insert(self.reads, version.clone());
        Some(bytes.clone())
    }
}

impl KeptObjects {
    fn get(&self, version: &Version) -> Option<Bytes> {
        self.0.lock().touch(version)
    }

    /// Caches an object. `budget` bounds the bytes of all cached objects.
    fn put(&self, version: Version, bytes: Bytes, budget: u64) {
        let mut kept = self.0.lock();
        if bytes.len() as u64 > budget || kept.touch(&version).is_some() {
            return;
        }
        let read = kept.reads;
        kept.bytes += bytes.len() as u64;
        kept.order.insert(read, version.clone());
        kept.objects.insert(version, (read, bytes));
        while kept.bytes > budget {
            let Some((_, oldest)) = kept.order.pop_first() else { break };
            if let Some((_, gone)) = kept.objects.remove(&oldest) {
                kept.bytes -= gone.len() as u64;
            }
        }
    }
}

/// Reads the whole object when a part is read for the first time, and later parts from memory.
#[derive(Debug)]
pub(crate) struct KeptReader {
    pub(crate) reader: Arc<dyn ObjectReader>,
    pub(crate) kept: Arc<KeptObjects>,
    pub(crate) version: Version,
    /// Upper bound on the bytes of all cached objects.
    pub(crate) budget: u64,
}

impl KeptReader {
    fn whole(&self) -> BoxFuture<'static, Result<Bytes>> {
        let (kept, version, budget) = (Arc::clone(&self.kept), self.version.clone(), self.budget);
        let reader = Arc::clone(&self.reader);
        async move {
            if let Some(bytes) = kept.get(&version) {
                return Ok(bytes);
            }
            let read = reader.read_ranges(vec![0..reader.size()]).await?.pop().unwrap_or_default();
            kept.put(version, read.clone(), budget);
            Ok(read)
        }
        .boxed()
    }
}

fn part(whole: &Bytes, range: Range<u64>, location: &str) -> Result<Bytes> {
    let inside = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
    match inside.filter(|(start, end)| start <= end && *end <= whole.len()) {
        Some((start, end)) => Ok(whole.slice(start..end)),
        None => Err(Error::internal(format!("{location}: a read past the end of the object"))),
    }
}

impl ObjectReader for KeptReader {
    fn location(&self) -> &str {
        self.reader.location()
    }

    fn size(&self) -> u64 {
        self.reader.size()
    }

    fn stream(&self, range: Range<u64>) -> BoxStream<'static, Result<Bytes>> {
        let (whole, location) = (self.whole(), self.location().to_owned());
        stream::once(async move { part(&whole.await?, range, &location) }).boxed()
    }

    fn read_ranges(&self, ranges: Vec<Range<u64>>) -> BoxFuture<'static, Result<Vec<Bytes>>> {
        let (whole, location) = (self.whole(), self.location().to_owned());
        async move {
            let whole = whole.await?;
            ranges.into_iter().map(|range| part(&whole, range, &location)).collect()
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_objects_read_last_are_kept() {
        let kept = KeptObjects::default();
        let version = |name: &str| (name.to_owned(), "e".to_owned());
        let put = |name: &str| kept.put(version(name), Bytes::from(vec![0; 40]), 100);
        put("a");
        put("b");
        put("b");
        assert!(kept.get(&version("a")).is_some());
        put("c");
        assert!(kept.get(&version("b")).is_none(), "not read for longest");
        assert!(kept.get(&version("a")).is_some() && kept.get(&version("c")).is_some());
        assert!(kept.get(&("a".to_owned(), "f".to_owned())).is_none(), "another version");
        kept.put(version("large"), Bytes::from(vec![0; 101]), 100);
        assert!(kept.get(&version("large")).is_none());
        assert_eq!(kept.0.lock().bytes, 80);
    }
}
