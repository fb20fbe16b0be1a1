//! Reads groups of records of the same shape, member by member.
//!
//! Most records of a text have the same keys in the same order, with values of the same kinds. The
//! commas of a group are found together ([`crate::text::json::commas`]). Then members are compared
//! across records: the key at an index is compared with the key there in each record, and the value
//! ends at the next comma. Records of another shape are read by [`crate::text::json::walk`].
//!
//! This is worth its code: without it, the instructions of the `json` cases of the scan benchmark
//! rise by 34 % (q1), 24 % (q6) and 16 % (top100); cases that read one or two columns do not
//! change.

#![allow(clippy::inline_always, reason = "what is not inlined into a kernel is compiled without its features")]

use std::ops::Range;

use crate::simd::{self, Kernel, Lanes};
use crate::text::json::commas::{Commas, GROUP_RECORDS};
use crate::text::json::numbers::Tokens;
use crate::text::json::value::{Value, number};
use crate::text::json::walk::{Walk, Whose, inside};

/// The maximum length of keys that are compared here, in bytes as written.
const KEY_BYTES: usize = 32;

const WORDS: usize = KEY_BYTES / 8;

/// If most records of a group differ repeatedly, the number of skipped groups doubles each time, up
/// to this power of two.
const MAX_BACKOFF_LOG2: u32 = 8;

#[derive(Clone, Debug)]
pub(crate) struct Shape {
    places: Vec<Place>,
    /// The number of quotes around keys and strings.
    quotes: u32,
}

/// A member of a shape.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The key with its quotes and colon, and a mask of its bytes.
    key: [u64; WORDS],
    mask: [u64; WORDS],
    key_bytes: usize,
    is_string: bool,
    whose: Whose,
}

impl Place {
    /// Returns `None` if the key is too long, including its quotes and colon.
    pub(crate) fn new(key: &[u8], whose: Whose, is_string: bool) -> Option<Self> {
        let (mut bytes, mut mask) = ([0; KEY_BYTES], [0; KEY_BYTES]);
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        mask.get_mut(..key.len())?.fill(u8::MAX);
        Some(Self { key: words(&bytes), mask: words(&mask), key_bytes: key.len(), is_string, whose })
    }
}

#[inline(always)]
fn words(bytes: &[u8; KEY_BYTES]) -> [u64; WORDS] {
    let (chunks, _) = bytes.as_chunks::<8>();
    let mut words = [0; WORDS];
    words.iter_mut().zip(chunks).for_each(|(word, chunk)| *word = u64::from_le_bytes(*chunk));
    words
}

/// The positions of the current member in each record of a group.
struct Members {
    starts: [u32; GROUP_RECORDS],
    /// The ends of the last members.
    ends: [u32; GROUP_RECORDS],
    /// The indexes of the next commas.
    commas: [u32; GROUP_RECORDS],
}

impl Shape {
    /// Returns the shape of the last record of a walk. Returns `None` if it was not plain, has no
    /// members, or has a key that is too long.
    pub(crate) fn of(walk: &Walk) -> Option<Self> {
        let places = walk.last_keys()?.iter().map(|key| Place::new(&key.bytes, key.whose, key.is_string));
        places.collect::<Option<_>>().map(Self::new)
    }

    pub(crate) fn new(places: Vec<Place>) -> Self {
        let strings = places.iter().filter(|place| place.is_string).count();
        let quotes = 2 * (places.len() + strings) as u32;
        Self { places, quotes }
    }

    /// Reads the values of up to [`GROUP_RECORDS`] records without escapes, whose commas are known.
    ///
    /// For each value, `take` gets the number of the record, the number of the member, and the
    /// range of the value in the text, for a string without its quotes. `takes` returns whether a
    /// member accepts values of a kind. Returns a mask of the records of another shape, whose
    /// values must be discarded.
    pub(crate) fn values(
        &self,
        text: &[u8],
        records: &[Range<usize>],
        commas: &Commas,
        takes: impl Fn(usize, Value) -> bool,
        take: impl FnMut(usize, usize, Range<usize>),
    ) -> u64 {
        simd::run(FindValues { shape: self, text, records, commas, takes, take })
    }
}

/// The kernel of [`Shape::values`].
struct FindValues<'a, Takes, Take> {
    shape: &'a Shape,
    text: &'a [u8],
    records: &'a [Range<usize>],
    commas: &'a Commas,
    takes: Takes,
    take: Take,
}

impl<Takes: Fn(usize, Value) -> bool, Take: FnMut(usize, usize, Range<usize>)> Kernel for FindValues<'_, Takes, Take> {
    type Output = u64;

    #[inline(always)]
    fn run<L: Lanes>(self, _: L) -> u64 {
        let Self { shape: Shape { places, quotes }, text, records, commas, takes, mut take } = self;
        let mut members = Members { starts: [0; GROUP_RECORDS], ends: [0; GROUP_RECORDS], commas: [0; GROUP_RECORDS] };
        let mut odd = 0u64;
        let lanes = members.starts.iter_mut().zip(&mut members.ends).zip(&mut members.commas);
        for (number, (record, ((start, end), comma))) in records.iter().zip(lanes).enumerate() {
            let structure = commas
                .of(number)
                .filter(|structure| structure.quotes == *quotes && structure.commas.len() + 1 == places.len());
            match structure.and_then(|structure| Some((inside(text, record)?, structure.from))) {
                Some((inner, from)) => (*start, *end, *comma) = (inner.start as u32, inner.end as u32, from as u32),
                None => odd |= 1 << number,
            }
        }
        if odd.count_ones() as usize == records.len() {
            return odd;
        }
        let last = places.len().saturating_sub(1);
        for (number, place) in places.iter().enumerate() {
            let Members { starts, ends, commas: next } = &mut members;
            if number < last {
                // A member ends where the next one begins.
                let mut place_ends = [0; GROUP_RECORDS];
                for (end, next) in place_ends.iter_mut().zip(next.iter_mut()) {
                    *end = commas.place(*next as usize);
                    *next += 1;
                }
                odd |= place.values(text, records.len(), starts, &place_ends, &takes, &mut take);
                starts.iter_mut().zip(&place_ends).for_each(|(start, end)| *start = end + 1);
            } else {
                odd |= place.values(text, records.len(), starts, ends, &takes, &mut take);
            }
        }
        odd
    }
}

impl Place {
    /// Reads the values of the members with these ends. Returns a mask of the records that differ.
    /// This uses loops, since closures are not always inlined before the functions that they call.
    #[inline(always)]
    fn values(
        &self,
        text: &[u8],
        count: usize,
        starts: &[u32; GROUP_RECORDS],
        ends: &[u32; GROUP_RECORDS],
        takes: &impl Fn(usize, Value) -> bool,
        take: &mut impl FnMut(usize, usize, Range<usize>),
    ) -> u64 {
        let members =
            starts.iter().zip(ends).map(|(start, end)| (*start as usize, *end as usize)).take(count).enumerate();
        let mut odd = 0;
        match self.whose {
            Whose::Several => odd = u64::MAX,
            Whose::Nobodys if self.is_string => {
                for (record, (start, end)) in members {
                    odd |= u64::from(self.string(text, start, end).is_none()) << record;
                }
            }
            Whose::Nobodys => {
                for (record, (start, end)) in members {
                    let first = self.value(text, start, end).and_then(|from| text.get(from));
                    let is_value = matches!(first, Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n'));
                    odd |= u64::from(!is_value) << record;
                }
            }
            Whose::Members(member) if self.is_string => {
                if !takes(member, Value::Text) {
                    return u64::MAX;
                }
                for (record, (start, end)) in members {
                    match self.string(text, start, end) {
                        Some(string) => take(record, member, string),
                        None => odd |= 1 << record,
                    }
                }
            }
            Whose::Members(member) => {
                let mut tokens = Tokens::default();
                for (record, (start, end)) in members.clone() {
                    match self.value(text, start, end) {
                        Some(from) => tokens.put(record, text, from, end),
                        None => odd |= 1 << record,
                    }
                }
                let (integers, others) = tokens.numbers();
                let if_taken = |value, these| if takes(member, value) { these } else { 0 };
                let usual = if_taken(Value::Integer, integers) | if_taken(Value::Number, others);
                for (record, (start, end)) in members {
                    let from = start + self.key_bytes;
                    if odd >> record & 1 == 1 {
                        continue;
                    }
                    let is_taken =
                        usual >> record & 1 == 1 || unusual(text, from, end).is_some_and(|value| takes(member, value));
                    if is_taken {
                        take(record, member, from..end);
                    } else {
                        odd |= 1 << record;
                    }
                }
            }
        }
        odd
    }

    /// Returns the start of the value of the member at `start..end`, if it has this key and a
    /// value.
    #[inline(always)]
    fn value(&self, text: &[u8], start: usize, end: usize) -> Option<usize> {
        let found = words(text.get(start..)?.first_chunk()?);
        let mut differs = 0;
        for ((found, key), mask) in found.iter().zip(&self.key).zip(&self.mask) {
            differs |= (found ^ key) & mask;
        }
        let from = start + self.key_bytes;
        (differs == 0 && from < end).then_some(from)
    }

    /// Returns the range without quotes, if the value is a string.
    #[inline(always)]
    fn string(&self, text: &[u8], start: usize, end: usize) -> Option<Range<usize>> {
        let from = self.value(text, start, end)?;
        let is_string = from + 1 < end && text.get(from) == Some(&b'"') && text.get(end - 1) == Some(&b'"');
        is_string.then_some(from + 1..end - 1)
    }
}

/// Returns the kind of a number with an uncommon spelling.
#[inline(never)]
fn unusual(text: &[u8], from: usize, end: usize) -> Option<Value> {
    number(text.get(from..)?, text.get(from..end)?)
}

/// Decides when reading records as a group pays.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// The number of groups to skip.
    left: u32,
    /// The number of consecutive groups in which most records differed.
    lost: u32,
}

impl Patience {
    /// Returns whether the next records should be read as a group.
    pub(crate) fn looks(&mut self) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                false
            }
            None => true,
        }
    }

    /// Records that `odd` of the `of` records in a group had another shape. Returns whether most
    /// had the same shape.
    pub(crate) fn found(&mut self, odd: usize, of: usize) -> bool {
        let alike = 2 * odd <= of;
        self.lost = if alike { 0 } else { (self.lost + 1).min(MAX_BACKOFF_LOG2) };
        // After the first such group, none is skipped: the shape may have been that of an odd
        // record.
        self.left = if self.lost > 1 { 1 << self.lost } else { 0 };
        alike
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::text::json::plain::PlainRecords;
    use crate::text::json::typed::TypedRecords;
    use crate::text::json::walk::Walk;
    use crate::values::nulls::Spelling;

    fn looked_at(text: &str, as_in: &str) -> (bool, Vec<String>) {
        let mut walk = Walk::default();
        let inner = as_in.get(1..as_in.len() - 1).unwrap();
        let whose = |key: &[u8]| Whose::of([b"\"a\"", b"\"s\""].iter().map(|name| name.as_slice() == key));
        walk.members(inner.as_bytes(), 8, &whose, &mut |_, _, _| Some(())).unwrap();
        let (records, mut commas) = ([0..text.len()], Commas::default());
        let padded = format!("{text}\n{}", " ".repeat(KEY_BYTES));
        commas.find(padded.as_bytes(), &records);
        let mut values = Vec::new();
        let shape = Shape::of(&walk).unwrap();
        let odd = shape.values(
            padded.as_bytes(),
            &records,
            &commas,
            |_, _| true,
            |_, number, range| {
                values.push(format!("{number} {}", &padded[range]));
            },
        );
        (odd & 1 == 0, values)
    }

    #[test]
    fn only_what_is_alike_is_looked_at() {
        let as_in = r#"{"a":1,"x":2.5,"s":"t","y":"u"}"#;
        let (alike, values) = looked_at(r#"{"a":-17.25,"x":null,"s":"a,b:{","y":""}"#, as_in);
        assert!(alike);
        assert_eq!(values, ["0 -17.25", "1 a,b:{"]);
        for odd in [
            r#"{"a":1,"x":2.5,"s":"t","y":"u","z":1}"#,
            r#"{"a":1,"x":2.5,"s":"t"}"#,
            r#"{"a":1,"x":2.5,"s":"t","a":"u"}"#,
            r#"{"a":1,"x":2.5,"y":"u","s":"t"}"#,
            r#"{"a": 1,"x":2.5,"s":"t","y":"u"}"#,
            r#"{"a":1,"x":[2,5],"s":"t"}"#,
            r#"{"a":1,"x":{"s":1,"b":"t"},"y":"u"}"#,
            r#"{"a":"1","x":2.5,"s":"t","y":"u"}"#,
            r#"{"a":1,"x":2.5,"s":7,"y":"u"}"#,
            r#"{"a":1,"x":,"s":"t","y":"u"}"#,
            r#"{"a":1,"x":2.5,"s":"t","y":"u" "v"}"#,
            r#"{"a":1,"x":2.5,"s":"t"w,"y":"u"}"#,
            r#"{"a":01,"x":2.5,"s":"t","y":"u"}"#,
            r#"{"a":1.,"x":2.5,"s":"t","y":"u"}"#,
            r#"{"a":null,"x":2.5,"s":"t","y":"u"}"#,
            r#"["a":1,"x":2.5,"s":"t","y":"u"]"#,
            "{}",
        ] {
            assert!(!looked_at(odd, as_in).0, "{odd}");
        }
    }

    /// Groups in which most records are alike must be read like the exact reader reads them.
    #[test]
    fn records_that_are_alike_mean_what_they_mean_when_they_are_parsed() {
        let fields = [
            ("i", DataType::Int64),
            ("d", DataType::Decimal128(12, 2)),
            ("t", DataType::Utf8),
            ("y", DataType::Date32),
        ];
        let fields: Vec<Field> = fields.map(|(name, data_type)| Field::new(name, data_type, true)).into();
        let schema = Arc::new(Schema::new(fields));
        let mut random = StdRng::seed_from_u64(5);
        let mut next = |n: usize| random.random_range(0..n);
        for round in 0..300 {
            let mut plain = PlainRecords::new(&schema, Spelling::Declared).unwrap().unwrap();
            let exact = TypedRecords::new(&schema, Spelling::Declared).unwrap();
            for _ in 0..3 {
                let (mut text, mut records) = (String::new(), Vec::new());
                for _ in 0..next(300) {
                    let start = text.len();
                    let (i, d, t) = (next(1_000_000), next(100_000_000), ["", "a,b", "é", "{[:"][next(4)]);
                    let (tens, cents) = (d / 100, d % 100);
                    let day = 1 + next(28);
                    // From no odd records to all.
                    let odd = if next(300) < round { next(7) } else { 7 };
                    text += &match odd {
                        0 => format!(r#"{{"i":{i},"d":{tens}.{cents:02},"t":"{t}","u":[1],"y":"1994-02-{day:02}"}}"#),
                        1 => format!(r#"{{"i":{i},"d":null,"t":"{t}","u":true,"y":"1994-02-{day:02}"}}"#),
                        2 => format!(r#"{{"i":{i},"i":{i},"t":"{t}","u":true,"y":"1994-02-{day:02}"}}"#),
                        3 => format!(r#"{{"d":{tens}.{cents:02},"i":{i},"t":"{t}","u":1,"y":"1994-02-{day:02}"}}"#),
                        4 => format!(r#"{{"i":{i},"d":{tens}.{cents:02},"t":"\"{t}","u":0,"y":"1994-02-{day:02}"}}"#),
                        5 => format!(r#"{{"i":{i} ,"d": {tens}.{cents:02},"t":"{t}","u":0,"y":"1994-02-{day:02}" }}"#),
                        6 => format!(r#"{{"u":{{"i":{i},"d":1}},"t":"{t}"}}"#),
                        _ => format!(r#"{{"i":-{i},"d":{tens}.{cents:02},"t":"{t}","u":1e3,"y":"1994-02-{day:02}"}}"#),
                    };
                    records.push(start..text.len());
                    text.push('\n');
                }
                let expected = exact.decode(text.as_bytes(), &records).map_err(|bad| bad.record);
                let found = plain.decode(text.as_bytes(), &records).map_err(|bad| bad.record);
                assert_eq!(expected, found, "{text}");
            }
        }
    }

    #[test]
    fn patience_ends_and_returns() {
        let mut patience = Patience::default();
        let mut looked = 0;
        for _ in 0..1_000 {
            if patience.looks() {
                looked += 1;
                patience.found(64, 64);
            }
        }
        assert!((2..30).contains(&looked), "{looked}");
        while !patience.looks() {}
        assert!(patience.found(0, 64) && patience.looks() && !patience.found(64, 64) && patience.looks());
    }
}
