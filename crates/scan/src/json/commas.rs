//! Where the members of records end: the commas that are in no string, found 64 bytes at a time.
//!
//! In text without escapes a byte is in a string if an odd number of quotes comes before it, which a prefix XOR of the
//! quotes tells for all bytes of a block (Langdale and Lemire, "Parsing Gigabytes of JSON per Second", VLDB Journal 2019,
//! section 3.1.1). Where a member ends is known so without its value being read, and members need not be found
//! one after the other.

#![allow(clippy::inline_always, reason = "what is not inlined into a kernel is compiled without its features")]

use std::ops::Range;

use crate::simd::{self, BLOCK, Kernel, Lanes};

/// As many records are looked at together, so that they are still in the cache when their members are.
pub(super) const TOGETHER: usize = 64;

/// Longer records are not looked at: what is kept of a record grows with it.
const LONGEST: usize = 256 * 1024;

/// The commas of a few records.
#[derive(Default)]
pub(super) struct Commas {
    /// Where they are in the text, record after record; and room for more.
    places: Vec<u32>,
    /// What there is of each record.
    records: Vec<Record>,
}

/// What was found in a record.
#[derive(Clone, Copy)]
struct Record {
    /// Where its commas end in the places.
    end: usize,
    quotes: u32,
}

/// The structure of a record without escapes.
#[derive(Clone, Copy)]
pub(super) struct Structure<'a> {
    /// Where in the text a comma is that is in no string, ascending.
    pub(super) commas: &'a [u32],
    /// Which of all is the first of them, see [`Commas::place`].
    pub(super) from: usize,
    /// How many quotes there are.
    pub(super) quotes: u32,
}

impl Commas {
    /// Looks at these records of the text, and no longer at those before.
    pub(super) fn find(&mut self, text: &[u8], records: &[Range<usize>]) {
        self.records.clear();
        simd::run(FindCommas { text, records, into: self });
    }

    /// What was found in the record with this number, `None` if it is too long.
    #[inline]
    pub(super) fn of(&self, number: usize) -> Option<Structure<'_>> {
        let start = number.checked_sub(1).map_or(Some(0), |before| Some(self.records.get(before)?.end))?;
        let record = self.records.get(number).filter(|record| record.quotes != u32::MAX)?;
        Some(Structure { commas: self.places.get(start..record.end)?, from: start, quotes: record.quotes })
    }

    /// Where in the text the comma with this number is, of those of all records; anywhere if there is none.
    #[inline]
    pub(super) fn place(&self, number: usize) -> u32 {
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
            // All ones within a string.
            let mut inside = 0;
            let mut at = if record.len() > LONGEST { record.end } else { record.start };
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
            if record.len() > LONGEST {
                quotes = u32::MAX;
            }
            records.push(Record { end, quotes });
        }
    }
}

/// Writes where the bits are, and zeros or what else after them.
#[inline(always)]
fn write_places(mut mask: u64, from: u32, places: &mut [u32]) {
    // In steps, whose number is mostly one: how many bits there are is not foreseen by the processor.
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
        commas.find(&vec![b','; LONGEST + 2], &[0..LONGEST + 1, LONGEST + 1..LONGEST + 2]);
        assert!(commas.of(0).is_none());
        assert_eq!(commas.of(1).unwrap().commas, [LONGEST as u32 + 1]);
    }
}
