//! Finds one needle, and the delimiter that could split it, in a single pass.
//!
//! A candidate is a position where two or three bytes of the needle match at their distances; 64
//! positions are compared at a time. The bytes are chosen by their frequency in a sample of the
//! text: the `9` of a year is frequent in dates, the `q` of `requests` is rare in comments. The
//! delimiter is found in the same pass. Most quotes split nothing, which is checked for each quote.

#![allow(clippy::inline_always, reason = "what is not inlined into a kernel is compiled without its features")]

use crate::simd::{self, BLOCK, Kernel, Lanes};

/// The number of bytes of text from which frequencies are estimated, for each scan.
const SAMPLE_BYTES: usize = 4 * 1024;

/// The number of bytes at the start of a needle from which the compared bytes are chosen.
const MAX_COMPARED_BYTES: usize = 16;

/// A third byte is compared if two bytes match together in more than one in this number of blocks.
const MIN_BLOCKS_PER_PAIR: usize = 32;

/// The number of blocks that are compared before their hits are verified.
const GROUP_BLOCKS: usize = 512;

/// A byte of the needle: its distance from the first byte, and its value.
type Byte = (usize, u8);

/// The number of a block with hits, and the bit mask of its hits.
type Found = (usize, u64);

/// Finds positions where a needle may begin, and positions of a delimiter.
#[derive(Debug)]
pub(super) struct Probe {
    first: Byte,
    second: Byte,
    third: Option<Byte>,
    mark: Option<u8>,
    found: Vec<Found>,
}

impl Probe {
    /// Creates the probe for a needle of at least two bytes, in texts like `text`. Returns `None`
    /// if other methods are faster.
    pub(super) fn new(needle: &[u8], mark: Option<u8>, text: &[u8]) -> Option<Self> {
        if !simd::is_wide() {
            return None;
        }
        let sample = text.get(..SAMPLE_BYTES).unwrap_or(text);
        let bytes: Vec<Byte> = needle.iter().copied().enumerate().take(MAX_COMPARED_BYTES).collect();
        let places: Vec<(Byte, Vec<u64>)> =
            bytes.into_iter().map(|byte| (byte, simd::run(Places { byte, text: sample }))).collect();
        let pairs = places.iter().enumerate().flat_map(|(n, one)| places.iter().skip(n + 1).map(move |two| (one, two)));
        let (found, one, two) =
            pairs.map(|(one, two)| (in_common([&one.1, &two.1]), one, two)).min_by_key(|(found, ..)| *found)?;
        let (first, second) = (one.0, two.0);
        let others = places.iter().filter(|(byte, _)| *byte != first && *byte != second);
        let third =
            others.map(|(byte, places)| (in_common([&one.1, &two.1, places]), *byte)).min_by_key(|(found, _)| *found);
        let third = third.filter(|_| found as usize * MIN_BLOCKS_PER_PAIR * BLOCK > sample.len()).map(|(_, byte)| byte);
        Some(Self { first, second, third, mark, found: vec![(0, 0); GROUP_BLOCKS] })
    }

    /// Appends the positions in `text` for which `holds` returns true, ascending. It is called for
    /// every position of the needle, for every delimiter, and for some other positions.
    pub(super) fn find(&mut self, text: &[u8], mut holds: impl FnMut(usize) -> bool, into: &mut Vec<usize>) {
        let mut start = 0;
        loop {
            let rest = text.get(start..).unwrap_or_default();
            let (blocks, found) = match (self.third.is_some(), self.mark.is_some()) {
                (false, false) => simd::run(Compare::<false, false> { probe: self, text: rest }),
                (false, true) => simd::run(Compare::<false, true> { probe: self, text: rest }),
                (true, false) => simd::run(Compare::<true, false> { probe: self, text: rest }),
                (true, true) => simd::run(Compare::<true, true> { probe: self, text: rest }),
            };
            for (block, mut places) in self.found.iter().take(found).copied() {
                while places != 0 {
                    let at = start + block * BLOCK + places.trailing_zeros() as usize;
                    places &= places - 1;
                    if holds(at) {
                        into.push(at);
                    }
                }
            }
            start += blocks * BLOCK;
            if blocks < GROUP_BLOCKS {
                break;
            }
        }
        // The rest is too short for a block plus the largest distance.
        into.extend((start..text.len()).filter(|at| holds(*at)));
    }

    /// Returns the blocks of the text, shifted by the distance of a byte.
    fn blocks(text: &[u8], (distance, _): Byte) -> &[[u8; BLOCK]] {
        text.get(distance..).unwrap_or_default().as_chunks().0
    }
}

/// Finds the positions in the text at whose distance a byte occurs, as bit masks of 64 positions.
struct Places<'a> {
    byte: Byte,
    text: &'a [u8],
}

impl Kernel for Places<'_> {
    type Output = Vec<u64>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Vec<u64> {
        let Self { byte, text } = self;
        let blocks = Probe::blocks(text, byte);
        let mut places = Vec::with_capacity(blocks.len());
        for block in blocks {
            places.push(lanes.equal(block, byte.1));
        }
        places
    }
}

/// Returns the number of positions that occur in all of these masks.
fn in_common<const N: usize>(all: [&[u64]; N]) -> u32 {
    let blocks = all.iter().map(|places| places.len()).min().unwrap_or(0);
    let common = |block: usize| all.iter().filter_map(|places| places.get(block)).fold(u64::MAX, |all, own| all & own);
    (0..blocks).map(|block| common(block).count_ones()).sum()
}

/// Compares the next blocks of the text. Returns the number of blocks compared, and of those with
/// hits. Hits are rare and cannot be predicted, so they are recorded without a branch.
///
/// `THIRD` and `MARK` say whether there is a third byte and a delimiter.
struct Compare<'a, const THIRD: bool, const MARK: bool> {
    probe: &'a mut Probe,
    text: &'a [u8],
}

impl<const THIRD: bool, const MARK: bool> Kernel for Compare<'_, THIRD, MARK> {
    type Output = (usize, usize);

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> (usize, usize) {
        let Self { probe: Probe { first, second, third, mark, found }, text } = self;
        let (first, second, third, mark) = (*first, *second, third.unwrap_or(*first), mark.unwrap_or_default());
        let of = |byte| Probe::blocks(text, byte);
        let blocks = of((0, 0)).iter().zip(of(first)).zip(of(second)).zip(of(third)).take(GROUP_BLOCKS);
        let (mut compared, mut count) = (0, 0);
        for (((here, a), b), c) in blocks {
            let two = [(a, first.1), (b, second.1)];
            let places = lanes.all_or(two, THIRD.then_some((c, third.1)), MARK.then_some((here, mark)));
            if let Some(found) = found.get_mut(count) {
                *found = (compared, places);
            }
            count += usize::from(places != 0);
            compared += 1;
        }
        (compared, count)
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn all_places_of_the_needle_and_the_mark_are_asked_for() {
        let mut random = StdRng::seed_from_u64(3);
        let mut next = |below: usize| random.random_range(0..below);
        for round in 0..400 {
            let text: Vec<u8> =
                (0..next(if round % 50 == 0 { 100_000 } else { 700 })).map(|_| b"aab\"-1"[next(6)]).collect();
            let needle: Vec<u8> =
                (0..2 + next(if round % 9 == 0 { 40 } else { 4 })).map(|_| b"aab1"[next(4)]).collect();
            let mark = [None, Some(b'"')][next(2)];
            let Some(mut probe) = Probe::new(&needle, mark, &text) else { continue };
            for third in [probe.third, None] {
                probe.third = third;
                let is_wanted = |at: usize| text[at..].starts_with(&needle) || Some(text[at]) == mark;
                let mut found = vec![];
                probe.find(&text, is_wanted, &mut found);
                let expected: Vec<usize> = (0..text.len()).filter(|at| is_wanted(*at)).collect();
                assert_eq!(found, expected, "{} in {}", needle.escape_ascii(), text.escape_ascii());
            }
        }
    }

    #[test]
    fn the_bytes_that_tell_most_are_compared() {
        if !simd::is_wide() {
            return;
        }
        let dates: String =
            (0..2000).map(|n| format!("{}-{:02}-{:02}|", 1992 + n % 7, 1 + n % 12, 1 + n % 28)).collect();
        let probe = Probe::new(b"1995-09-", Some(b'"'), dates.as_bytes()).unwrap();
        let compared = [Some(probe.first), Some(probe.second), probe.third];
        assert!(compared.contains(&Some((3, b'5'))) && compared.contains(&Some((6, b'9'))), "{compared:?}");
    }
}
