//! Pages of keys, the same for every store: prefix, delimiter, resumption.
//!
//! The cost depends on the page, not on the bucket: a common prefix is returned at its first key,
//! and the cursor then seeks past it.

use super::{ObjectMeta, Result};

/// Where a listing starts.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) enum Start {
    /// At the first key.
    #[default]
    Beginning,
    /// After this key.
    AfterKey(Vec<u8>),
    /// After every key with this prefix.
    AfterPrefix(Vec<u8>),
}

/// What to list.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListQuery {
    pub prefix: Vec<u8>,
    /// Groups keys that contain it after the prefix under a common prefix; empty disables grouping.
    pub delimiter: Vec<u8>,
    pub start: Start,
    pub limit: usize,
}

/// An entry of a listing.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Listed {
    Object(Vec<u8>, Box<ObjectMeta>),
    Prefix(Vec<u8>),
}

/// A page of a listing, in byte order of the keys.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ListPage {
    pub entries: Vec<Listed>,
    /// Where the next page starts, if there is one.
    pub next: Option<Start>,
}

/// An ordered cursor over the keys of a bucket.
pub(crate) trait Cursor {
    /// Moves to the first key that is not less than `at`.
    fn seek(&mut self, at: &[u8]) -> Result<()>;
    /// Returns the current key and moves on.
    fn next(&mut self) -> Result<Option<(Vec<u8>, ObjectMeta)>>;
}

/// Lists one page.
pub(crate) fn list(cursor: &mut dyn Cursor, query: &ListQuery) -> Result<ListPage> {
    let mut page = ListPage::default();
    if query.limit == 0 {
        return Ok(page);
    }
    let start = match &query.start {
        Start::Beginning => Vec::new(),
        Start::AfterKey(key) => [key.as_slice(), &[0]].concat(),
        Start::AfterPrefix(prefix) => match successor(prefix) {
            Some(start) => start,
            None => return Ok(page),
        },
    };
    cursor.seek(start.as_slice().max(&query.prefix))?;
    while let Some((key, meta)) = cursor.next()? {
        let Some(rest) = key.strip_prefix(query.prefix.as_slice()) else { break };
        if page.entries.len() == query.limit {
            page.next = page.entries.last().map(|last| match last {
                Listed::Object(key, _) => Start::AfterKey(key.clone()),
                Listed::Prefix(prefix) => Start::AfterPrefix(prefix.clone()),
            });
            break;
        }
        match find(rest, &query.delimiter) {
            None => page.entries.push(Listed::Object(key, Box::new(meta))),
            Some(at) => {
                let end = query.prefix.len() + at + query.delimiter.len();
                let common = key.get(..end).unwrap_or(&key).to_vec();
                let after = successor(&common);
                page.entries.push(Listed::Prefix(common));
                match after {
                    Some(after) => cursor.seek(&after)?,
                    None => break,
                }
            }
        }
    }
    Ok(page)
}

/// The first position of `needle` in `hay`; an empty needle is not found.
pub(super) fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    if needle.is_empty() { None } else { hay.windows(needle.len()).position(|window| window == needle) }
}

/// The smallest key that is greater than every key with this prefix; `None` if there is none.
pub(super) fn successor(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut next = prefix.get(..=last)?.to_vec();
    if let Some(byte) = next.last_mut() {
        *byte += 1;
    }
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Keys {
        keys: Vec<&'static str>,
        at: usize,
        steps: usize,
    }

    impl Cursor for Keys {
        fn seek(&mut self, at: &[u8]) -> Result<()> {
            self.at = self.keys.partition_point(|key| key.as_bytes() < at);
            Ok(())
        }
        fn next(&mut self) -> Result<Option<(Vec<u8>, ObjectMeta)>> {
            self.steps += 1;
            self.at += 1;
            let meta = ObjectMeta::default();
            Ok(self.keys.get(self.at - 1).map(|key| (key.as_bytes().to_vec(), meta)))
        }
    }

    fn page(keys: &[&'static str], query: &ListQuery) -> (Vec<String>, Option<Start>) {
        let mut keys = keys.to_vec();
        keys.sort_unstable();
        let page = list(&mut Keys { keys, at: 0, steps: 0 }, query).unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let entries = page.entries.into_iter().map(|entry| match entry {
            Listed::Object(key, _) => text(key),
            Listed::Prefix(prefix) => format!("[{}]", text(prefix)),
        });
        (entries.collect(), page.next)
    }

    #[test]
    fn rolls_up_and_resumes() {
        let keys = ["a", "a/b", "a/c", "a0", "b/c/d", "b/e", "c"];
        let mut query = ListQuery { delimiter: b"/".to_vec(), limit: 2, ..ListQuery::default() };
        let (first, next) = page(&keys, &query);
        assert_eq!(first, ["a", "[a/]"]);
        query.start = next.unwrap();
        let (second, next) = page(&keys, &query);
        assert_eq!(second, ["a0", "[b/]"]);
        query.start = next.unwrap();
        assert_eq!(page(&keys, &query), (vec!["c".to_owned()], None));
        query = ListQuery { prefix: b"b/".to_vec(), delimiter: b"/".to_vec(), limit: 9, ..ListQuery::default() };
        assert_eq!(page(&keys, &query).0, ["[b/c/]", "b/e"]);
        query = ListQuery { start: Start::AfterKey(b"a/b".to_vec()), limit: 2, ..ListQuery::default() };
        assert_eq!(page(&keys, &query).0, ["a/c", "a0"]);
    }

    #[test]
    fn a_common_prefix_costs_one_step() {
        let keys: Vec<&'static str> =
            (0..5000).map(|i| &*Box::leak(format!("d{}/{i:05}", i % 2).into_boxed_str())).collect();
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        let mut cursor = Keys { keys: sorted, at: 0, steps: 0 };
        let query = ListQuery { delimiter: b"/".to_vec(), limit: 1000, ..ListQuery::default() };
        assert_eq!(list(&mut cursor, &query).unwrap().entries.len(), 2);
        assert_eq!(cursor.steps, 3);
    }

    #[test]
    fn successors() {
        assert_eq!(successor(b"a/"), Some(b"a0".to_vec()));
        assert_eq!(successor(&[b'a', 0xFF]), Some(b"b".to_vec()));
        assert_eq!(successor(&[0xFF]), None);
        assert_eq!(successor(b""), None);
    }
}
