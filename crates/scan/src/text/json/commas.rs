//! Finding the ends of members, which are commas outside of strings, 64 bytes at a time.
//!
//! In text without escapes, a byte is inside a string if an odd number of quotes precedes it. A
//! prefix XOR of the quotes computes that for a block (Langdale and Lemire, "Parsing Gigabytes of
//! JSON per Second", VLDB Journal 2019, Section 3.1.1). So members are found without reading
//! values, and not one after the other.

#![allow(clippy::inline_always, reason = "what is not inlined into a kernel is compiled without its features")]

use std::ops::Range;

use crate::simd::{self, BLOCK, Kernel, Lanes};

/// The number of records that are read together. They are still in a cache when their members are
/// read.
pub(crate) const GROUP_RECORDS: usize = 64;

/// The maximum length of a record that is read here, in bytes, since memory grows with the record.
const MAX_RECORD_BYTES: usize = 256 * 1024;

/// The commas of a group of records.
#[derive(Default)]
pub(crate) struct Commas {
    /// The positions of the commas in the text, record after record, followed by spare space.
    places: Vec<u32>,
    /// The commas and quotes of each record.
    records: Vec<Record>,
}

/// The number of commas and quotes in a record.
#[derive(Clone, Copy)]
struct Record {
    /// The end of the record's commas among the positions.
    end: usize,
    quotes: u32,
}

/// The structure of a record without escapes.
#[derive(Clone, Copy)]
pub(crate) struct Structure<'a> {
    /// The positions of commas outside of strings, ascending.
    pub(crate) commas: &'a [u32],
    /// The index of the first of them among all commas, see [`Commas::place`].
    pub(crate) from: usize,
    pub(crate) quotes: u32,
}

impl Commas {
    /// Finds the commas of these records, and drops those of other records.
    pub(crate) fn find(&mut self, text: &[u8], records: &[Range<usize>]) {
        self.records.clear();
        simd::run(FindCommas { text, records, into: self });
    }

    /// Returns the structure of the record with this number; `None` if the record is too long.
    #[inline]
    pub(crate) fn of(&self, number: usize) -> Option<Structure<'_>> {
        let start = number.checked_sub(1).map_or(Some(0), |before| Some(self.records.get(before)?.end))?;
        let record = self.records.get(number).filter(|record| record.quotes != u32::MAX)?;
        Some(Structure { commas: self.places.get(start..record.end)?, from: start, quotes: record.quotes })
    }

    /// Returns the position of the comma with this index among all commas; arbitrary if there is
    /// none.
    #[inline]
    pub(crate) fn place(&self, number: usize) -> u32 {
        self.places.get(number).copied().unwrap_or_default()
    }
}

struct FindCommas<'a> {
    text: &'a [u8],
    records: &'a [Range<usize>],
    into: &'a mut Commas,
}

impl Kernel for FindCommas<'_> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Commas { places, records } = self.into;
        let mut end = 0;
        for record in self.records {
            let mut quotes = 0;
            // All ones inside a string.
            let mut inside = 0;
            let mut at = if record.len() > MAX_RECORD_BYTES { record.end } else { record.start };
            while at < record.end {
                let left = record.end - at;
                let rest = self.text.get(at..).unwrap_or_default();
                let mut last = [0; BLOCK];
                let block = rest.first_chunk().unwrap_or_else(|| {
                    last.iter_mut().zip(rest).for_each(|(to, byte)| *to = *byte);
                    &last
                });
                let valid = if left < BLOCK { (1u64 << left) - 1 } else { u64::MAX };
                let quoted = lanes.equal(block, b'"') & valid;
                let strings = lanes.prefix_xor(quoted) ^ inside;
                inside = (strings.cast_signed() >> 63).cast_unsigned();
                quotes += quoted.count_ones();
                let commas = lanes.equal(block, b',') & valid & !strings;
                if places.len() < end + BLOCK {
                    places.resize(2 * places.len() + BLOCK, 0);
                }
                if let Some(places) = places.get_mut(end..end + BLOCK) {
                    write_places(commas, at as u32, places);
                }
                end += commas.count_ones() as usize;
                at += BLOCK;
            }
            if record.len() > MAX_RECORD_BYTES {
                quotes = u32::MAX;
            }
            records.push(Record { end, quotes });
        }
    }
}

/// Writes the positions of the set bits, followed by arbitrary values.
#[inline(always)]
fn write_places(mut mask: u64, from: u32, places: &mut [u32]) {
    // Four at a time, which mostly takes one step: the number of bits cannot be predicted.
    for places in places.chunks_exact_mut(4) {
        for place in places {
            *place = from + mask.trailing_zeros();
            mask &= mask.wrapping_sub(1);
        }
        if mask == 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn commas_in_strings_are_left_out() {
        let mut random = StdRng::seed_from_u64(7);
        let mut next = |below: usize| random.random_range(0..below);
        let mut commas = Commas::default();
        for _ in 0..300 {
            let (mut text, mut records) = (Vec::new(), Vec::new());
            for _ in 0..=next(4) {
                let start = text.len();
                for _ in 0..next(300) {
                    text.push([b',', b',', b'"', b'x', b'-', b' '][next(6)]);
                }
                records.push(start..text.len());
                text.extend(vec![b','; next(3)]);
            }
            commas.find(&text, &records);
            for (number, record) in records.iter().enumerate() {
                let (mut expected, mut quotes) = (vec![], 0);
                for at in record.clone() {
                    quotes += u32::from(text[at] == b'"');
                    if text[at] == b',' && quotes % 2 == 0 {
                        expected.push(at as u32);
                    }
                }
                let found = commas.of(number).unwrap();
                assert_eq!((found.commas, found.quotes), (expected.as_slice(), quotes));
            }
            assert!(commas.of(records.len()).is_none());
        }
        commas.find(
            &vec![b','; MAX_RECORD_BYTES + 2],
            &[0..MAX_RECORD_BYTES + 1, MAX_RECORD_BYTES + 1..MAX_RECORD_BYTES + 2],
        );
        assert!(commas.of(0).is_none());
        assert_eq!(commas.of(1).unwrap().commas, [MAX_RECORD_BYTES as u32 + 1]);
    }
}
