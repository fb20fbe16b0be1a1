//! A cache of Bloom filter results for small integers. Join keys are mostly dense from 1 on, and a
//! foreign key occurs many times. A lookup in the cache costs one load; a probe of the filter costs
//! a hash and several loads.
//!
//! The cache has two bits per number: whether the result is cached, and the result. Bits are in
//! blocks that are allocated on first use; all filters of the process share [`MAX_BLOCKS`] blocks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The cache covers the numbers from 0 up to this one, exclusive.
const NUMBERS: u64 = 8 * 1024 * 1024;

const PER_WORD: u64 = 32;

/// The number of words in a block, which takes 64 KiB.
const WORDS: usize = 8192;

const PER_BLOCK: u64 = WORDS as u64 * PER_WORD;

/// The maximum number of blocks of all filters; they take 64 MiB.
const MAX_BLOCKS: usize = 1024;

static BLOCKS: AtomicUsize = AtomicUsize::new(0);

const ASKED: u64 = 1;
const YES: u64 = 2;

/// The cached results of one filter.
#[derive(Debug)]
pub(crate) struct Answers([OnceLock<Option<Block>>; (NUMBERS / PER_BLOCK) as usize]);

#[derive(Debug)]
struct Block(Box<[AtomicU64]>);

impl Block {
    /// Allocates a block. Returns `None` if all blocks are in use.
    fn new() -> Option<Self> {
        let more = |blocks| (blocks < MAX_BLOCKS).then_some(blocks + 1);
        BLOCKS.fetch_update(Relaxed, Relaxed, more).ok()?;
        Some(Self((0..WORDS).map(|_| AtomicU64::new(0)).collect()))
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        BLOCKS.fetch_sub(1, Relaxed);
    }
}

impl Answers {
    pub(crate) fn new() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }

    /// Returns the cached result for `number`, or calls `ask` and caches its result.
    #[inline]
    pub(crate) fn of(&self, number: i64, ask: impl FnOnce() -> bool) -> bool {
        let number = number as u64;
        let block = self.0.get((number / PER_BLOCK) as usize).and_then(|block| block.get_or_init(Block::new).as_ref());
        let place = (number % PER_BLOCK / PER_WORD) as usize;
        let Some(word) = block.and_then(|block| block.0.get(place)) else { return ask() };
        let (known, shift) = (word.load(Relaxed), number % PER_WORD * 2);
        match known >> shift & (ASKED | YES) {
            0 => {
                let is_in = ask();
                // If two threads store at the same time, one result may be lost, but never changed.
                word.store(known | (ASKED | if is_in { YES } else { 0 }) << shift, Relaxed);
                is_in
            }
            answer => answer & YES != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_those_of_the_first_time() {
        let answers = Answers::new();
        let is_in = |number: i64| number % 3 == 0;
        let edges = [0, 31, 32, PER_BLOCK as i64 - 1, PER_BLOCK as i64, NUMBERS as i64 - 1];
        let numbers = (0..1000).chain(edges);
        for number in numbers.clone() {
            assert_eq!(answers.of(number, || is_in(number)), is_in(number), "{number}");
        }
        for number in numbers {
            assert_eq!(answers.of(number, || unreachable!("{number} is known")), is_in(number));
        }
        for number in [-1, i64::MIN, i64::MAX, NUMBERS as i64] {
            assert!(answers.of(number, || true) && !answers.of(number, || false), "{number} is not remembered");
        }
    }

    #[test]
    fn what_is_dropped_makes_room() {
        let before = || BLOCKS.load(Relaxed);
        let all: Vec<Answers> = (0..2 * MAX_BLOCKS).map(|_| Answers::new()).collect();
        assert!(all.iter().all(|answers| answers.of(7, || true)));
        assert!(before() <= MAX_BLOCKS, "{} blocks", before());
        // A filter without room in the cache is asked each time.
        assert!(!all.last().unwrap().of(7, || false));
        drop(all);
        assert!(before() < MAX_BLOCKS);
    }
}
