//! Bloom filters with a documented binary format, built from the keys on one side of a join and
//! probed with those on the other. Integer keys that lie close together form a bitmap instead
//! ([`NumberSet`]), which has no false positives and is probed with a single load.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | `PDBF` |
//! | 4 | version, 1 |
//! | 5 | k, the number of bits set for each key, 1 to 32 |
//! | 6..8 | 0 |
//! | 8.. | the bits, at least one byte; bit `i` has the value `1 << (i % 8)` in byte `i / 8` |
//!
//! A key ([`Key`]) is hashed as bytes. Integers, and decimals and doubles with an integral value,
//! are 8 bytes, little endian. Other decimals are text without trailing zeros (`1.5`), other
//! doubles the 8 bytes of their bits, text is UTF-8, and booleans are `true` and `false`. Dates are
//! hashed as the integer number of days, timestamps of microseconds, since 1970. NULL is never in a
//! filter. Keys that are compared with each other are cast to one type before they are hashed.
//!
//! ```text
//! fnv(bytes)  h = 0xcbf29ce484222325; for each byte: h = (h ^ byte) * 0x100000001b3
//! mix(x)      x ^= x >> 30; x *= 0xbf58476d1ce4e5b9; x ^= x >> 27; x *= 0x94d049bb133111eb;
//!             x ^= x >> 31
//! a = mix(fnv(key)); b = mix(a + 0x9e3779b97f4a7c15) | 1
//! several keys as one: h = fnv(the first), then for each other h = mix(h) ^ fnv(key), in place of
//! fnv(key)
//! the bits of a key: (a + i * b) % bits for i in 0..k          all arithmetic is modulo 2^64
//! ```

mod numbers;

use crate::decimal::decimal_text;
use crate::{Error, ErrorKind, Result, limits};

use numbers::{DecodeError, NumberSet};

const MAGIC: &[u8; 4] = b"PDBF";
const VERSION: u8 = 1;
const OF_NUMBERS: u8 = 2;
const OF_GAPS: u8 = 3;
const HEADER_BYTES: usize = 8;
const HASHES: std::ops::RangeInclusive<u8> = 1..=32;

/// The number of bytes that are sampled to estimate the share of set bits.
const SAMPLED_BYTES: usize = 64 * 1024;

/// The number of bits that are probed before the first branch.
const UNCONDITIONAL_PROBES: u8 = 3;

/// A value to insert into or look up in a filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Key<'a> {
    /// A truth value.
    Boolean(bool),
    /// A whole number; a date in days, a timestamp in microseconds.
    Int(i64),
    /// An unscaled value and its scale.
    Decimal(i128, i8),
    /// A double.
    Float(f64),
    /// Text.
    Text(&'a str),
}

impl Key<'_> {
    /// Returns the hash by which a filter stores the key. Equal keys have equal hashes, across
    /// types.
    pub fn hash(self) -> u64 {
        match self {
            Self::Boolean(value) => fnv(if value { b"true" } else { b"false" }),
            Self::Int(value) => fnv(&value.to_le_bytes()),
            Self::Decimal(value, scale) => match whole_decimal(value, scale) {
                Ok(whole) => fnv(&whole.to_le_bytes()),
                Err((value, scale)) => fnv(decimal_text(value, scale).as_bytes()),
            },
            Self::Float(value) => match whole_float(value) {
                Some(whole) => fnv(&whole.to_le_bytes()),
                None => {
                    let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
                    fnv(&bits.to_le_bytes())
                }
            },
            Self::Text(text) => fnv(text.as_bytes()),
        }
    }

    /// Returns the key as a 64-bit integer, if its value is one.
    fn whole(self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(value),
            Self::Decimal(value, scale) => whole_decimal(value, scale).ok(),
            Self::Float(value) => whole_float(value),
            Self::Boolean(_) | Self::Text(_) => None,
        }
    }
}

/// Combines the hash of the keys `before` with that of the `next` key.
pub fn and_key(before: u64, next: u64) -> u64 {
    mix(before) ^ next
}

/// Returns the decimal as an integer if it is one, and otherwise without trailing zeros.
fn whole_decimal(mut value: i128, mut scale: i8) -> std::result::Result<i64, (i128, i8)> {
    while scale > 0 && value % 10 == 0 {
        value /= 10;
        scale -= 1;
    }
    let whole = if scale <= 0 {
        10_i128.checked_pow(u32::from(scale.unsigned_abs())).and_then(|power| value.checked_mul(power))
    } else {
        None
    };
    whole.and_then(|whole| i64::try_from(whole).ok()).ok_or((value, scale))
}

fn whole_float(value: f64) -> Option<i64> {
    let whole = value as i64;
    // The cast also turns -0 into 0.
    (whole as f64 == value && whole != i64::MAX).then_some(whole)
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn mix(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A set of keys with false positives and no false negatives.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BloomFilter(Form);

#[derive(Clone, Debug, Eq, PartialEq)]
enum Form {
    Hashed(Hashed),
    Numbers(NumberSet),
}

/// A bit array in which the hashes of the keys are set.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Hashed {
    hashes: u8,
    bits: Vec<u8>,
    positions: Positions,
}

/// Maps hashes to bit positions in a filter of `count` bits.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Positions {
    count: u64,
    /// `(2^64 - 1) / count`, rounded down. It replaces a division, which takes 20 to 40 cycles, by
    /// a multiplication, which takes three.
    inverse: u64,
}

impl Positions {
    fn of(bits: &[u8]) -> Self {
        let count = (bits.len() as u64 * 8).max(2);
        Self { count, inverse: u64::MAX / count }
    }

    /// Returns `x % count`. The quotient computed with the inverse is exact or one too small,
    /// because the inverse is too small by at most 1 and `x` is less than 2^64 (Granlund and
    /// Montgomery 1994, Section 4).
    fn of_bit(self, x: u64) -> usize {
        let quotient = (u128::from(x) * u128::from(self.inverse)) >> 64;
        let rest = x.wrapping_sub((quotient as u64).wrapping_mul(self.count));
        let rest = if rest >= self.count { rest - self.count } else { rest };
        rest as usize
    }
}

impl BloomFilter {
    /// Creates an empty filter for `keys` keys with a rate of `false_positives`. Both are clamped.
    pub fn with_capacity(keys: usize, false_positives: f64) -> Self {
        let rate = if false_positives.is_finite() { false_positives.clamp(1e-9, 0.5) } else { 0.01 };
        let bits_per_key = -rate.ln() / (std::f64::consts::LN_2 * std::f64::consts::LN_2);
        let bytes = (keys.max(1) as f64 * bits_per_key / 8.0).ceil();
        let bytes = (bytes as usize).clamp(8, limits::BLOOM_FILTER_BYTES - HEADER_BYTES);
        let hashes = (-rate.log2()).round() as u8;
        Self::of(hashes.clamp(*HASHES.start(), *HASHES.end()), vec![0; bytes])
    }

    fn of(hashes: u8, bits: Vec<u8>) -> Self {
        Self(Form::Hashed(Hashed { hashes, positions: Positions::of(&bits), bits }))
    }

    /// Creates an exact filter of `numbers`, without false positives. Returns `None` if there are
    /// no numbers or the encoded filter would take more than `max_bytes` bytes.
    pub fn of_numbers(numbers: impl Iterator<Item = i64> + Clone, max_bytes: usize) -> Option<Self> {
        NumberSet::of(numbers, max_bytes.min(limits::BLOOM_FILTER_BYTES - HEADER_BYTES))
            .map(|set| Self(Form::Numbers(set)))
    }

    /// Returns whether a bitmap of `bitmap_bytes` may be encoded in as few as `bytes` bytes.
    pub fn holds_numbers(bitmap_bytes: usize, bytes: usize) -> bool {
        NumberSet::fits(bitmap_bytes, bytes)
    }

    /// True if the filter is a set of integers.
    pub fn is_of_numbers(&self) -> bool {
        matches!(self.0, Form::Numbers(_))
    }

    /// Decodes a filter.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let invalid = |why: String| Error::invalid(format!("is no Bloom filter: {why}"));
        if bytes.len() > limits::BLOOM_FILTER_BYTES {
            return Err(invalid(format!("it has more than {} bytes", limits::BLOOM_FILTER_BYTES)));
        }
        match bytes {
            [b'P', b'D', b'B', b'F', VERSION, hashes, 0, 0, bits @ ..] if !bits.is_empty() => {
                if !HASHES.contains(hashes) {
                    return Err(invalid(format!("{hashes} bits for each key; 1 to 32 are known")));
                }
                Ok(Self::of(*hashes, bits.to_vec()))
            }
            [b'P', b'D', b'B', b'F', form @ (OF_NUMBERS | OF_GAPS), 0, 0, 0, rest @ ..] => {
                let set = if *form == OF_GAPS { NumberSet::from_gaps(rest) } else { NumberSet::from_bits(rest) };
                set.map(|set| Self(Form::Numbers(set))).map_err(|why| match why {
                    DecodeError::Malformed => invalid("it is cut off, or its numbers lie too far apart".to_owned()),
                    DecodeError::NoMemory => Error::new(ErrorKind::Throttled, "other requests hold too many numbers"),
                })
            }
            [b'P', b'D', b'B', b'F', version, ..] if !(VERSION..=OF_GAPS).contains(version) => {
                Err(invalid(format!("version {version} is unknown, {VERSION} to {OF_GAPS} are known")))
            }
            [b'P', b'D', b'B', b'F', ..] => Err(invalid("it is cut off".to_owned())),
            _ => Err(invalid("it does not start with PDBF".to_owned())),
        }
    }

    /// Encodes the filter.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.size_bytes());
        bytes.extend_from_slice(MAGIC);
        match &self.0 {
            Form::Hashed(filter) => {
                bytes.extend_from_slice(&[VERSION, filter.hashes, 0, 0]);
                bytes.extend_from_slice(&filter.bits);
            }
            Form::Numbers(set) => {
                bytes.extend_from_slice(&[if set.is_gaps() { OF_GAPS } else { OF_NUMBERS }, 0, 0, 0]);
                set.write(&mut bytes);
            }
        }
        bytes
    }

    /// The encoded size in bytes.
    pub fn size_bytes(&self) -> usize {
        HEADER_BYTES
            + match &self.0 {
                Form::Hashed(filter) => filter.bits.len(),
                Form::Numbers(set) => set.size_bytes(),
            }
    }

    /// Bits set for each key; 0 for a set of integers.
    pub fn hashes(&self) -> u8 {
        match &self.0 {
            Form::Hashed(filter) => filter.hashes,
            Form::Numbers(_) => 0,
        }
    }

    /// Estimates the number of keys from the share of set bits (Swamidass and Baldi 2007).
    pub fn about_keys(&self) -> f64 {
        match &self.0 {
            Form::Hashed(filter) => {
                let bits = filter.bits.len() as f64 * 8.0;
                let empty = (1.0 - filter.fill()).max(1.0 / bits);
                -bits / f64::from(filter.hashes) * empty.ln()
            }
            Form::Numbers(set) => set.count() as f64,
        }
    }

    /// Returns the probability that an absent key appears to be present.
    pub fn false_positives(&self) -> f64 {
        match &self.0 {
            Form::Hashed(filter) => filter.fill().powi(i32::from(filter.hashes)),
            Form::Numbers(_) => 0.0,
        }
    }

    /// Inserts `key`.
    pub fn insert(&mut self, key: Key<'_>) {
        self.insert_hash(key.hash());
    }

    /// Inserts a key by its [`Key::hash`].
    pub fn insert_hash(&mut self, hash: u64) {
        match &mut self.0 {
            Form::Hashed(filter) => filter.insert(hash),
            Form::Numbers(_) => debug_assert!(false, "a set of numbers is made of all of them"),
        }
    }

    /// Returns whether `key` may be in the set; `false` means that it certainly is not.
    pub fn contains(&self, key: Key<'_>) -> bool {
        match &self.0 {
            Form::Hashed(filter) => filter.contains(key.hash()),
            Form::Numbers(set) => key.whole().is_some_and(|number| set.contains(number)),
        }
    }

    /// Returns whether the key with this [`Key::hash`] may be in the set. Always true for a set of
    /// integers, which cannot be probed by hash.
    pub fn contains_hash(&self, hash: u64) -> bool {
        match &self.0 {
            Form::Hashed(filter) => filter.contains(hash),
            Form::Numbers(_) => true,
        }
    }
}

impl Hashed {
    /// Returns the share of set bits. It is measured on a prefix, since hashes spread the bits
    /// evenly.
    fn fill(&self) -> f64 {
        let part = self.bits.get(..SAMPLED_BYTES).unwrap_or(&self.bits);
        f64::from(numbers::ones(part)) / (part.len() as f64 * 8.0)
    }

    fn insert(&mut self, hash: u64) {
        let bits = BitsOf::key(hash);
        for i in 0..self.hashes {
            let position = self.positions.of_bit(bits.number(i));
            if let Some(byte) = self.bits.get_mut(position / 8) {
                *byte |= 1 << (position % 8);
            }
        }
    }

    fn contains(&self, hash: u64) -> bool {
        let bits = BitsOf::key(hash);
        let is_set = |i| {
            let position = self.positions.of_bit(bits.number(i));
            self.bits.get(position / 8).is_some_and(|byte| byte >> (position % 8) & 1 != 0)
        };
        // The first probes do not branch: in a half-full filter such a branch is unpredictable.
        let first = (0..self.hashes.min(UNCONDITIONAL_PROBES)).fold(true, |all, i| all & is_set(i));
        first && (UNCONDITIONAL_PROBES..self.hashes).all(is_set)
    }
}

/// Generates the bit positions of one key.
#[derive(Clone, Copy)]
struct BitsOf {
    a: u64,
    b: u64,
}

impl BitsOf {
    fn key(hash: u64) -> Self {
        let a = mix(hash);
        Self { a, b: mix(a.wrapping_add(0x9e37_79b9_7f4a_7c15)) | 1 }
    }

    fn number(self, i: u8) -> u64 {
        self.a.wrapping_add(u64::from(i).wrapping_mul(self.b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_is_found() {
        let mut filter = BloomFilter::with_capacity(1000, 0.01);
        for key in 0..1000 {
            filter.insert(Key::Int(key));
        }
        let read = BloomFilter::from_bytes(&filter.to_bytes()).unwrap();
        assert_eq!(read, filter);
        assert!((0..1000).all(|key| read.contains(Key::Int(key))));
        let wrong = (1000..101_000).filter(|key| read.contains(Key::Int(*key))).count();
        assert!((500..2000).contains(&wrong), "{wrong} of 100,000 for a rate of 0.01");
    }

    #[test]
    fn how_full_it_is_tells_how_many_keys_it_holds() {
        for (keys, room) in [(0_u32, 10), (1, 1), (1000, 1000), (1000, 10_000), (200_000, 100_000)] {
            let mut filter = BloomFilter::with_capacity(room, 0.01);
            (0..keys).for_each(|key| filter.insert(Key::Int(i64::from(key))));
            let (found, other) = (filter.about_keys(), filter.false_positives());
            assert!((found - f64::from(keys)).abs() <= f64::from(keys) * 0.05 + 1.0, "{found} of {keys}");
            let wrong = (-10_000..0).filter(|key| filter.contains(Key::Int(*key))).count() as f64 / 10_000.0;
            assert!((wrong - other).abs() < 0.02, "{other} of {wrong}");
        }
    }

    #[test]
    fn equal_keys_of_different_types_are_equal() {
        let same = [Key::Int(5), Key::Decimal(500, 2), Key::Decimal(5, 0), Key::Float(5.0)];
        assert!(same.iter().all(|key| key.hash() == same[0].hash()));
        assert_eq!(Key::Float(-0.0).hash(), Key::Int(0).hash());
        assert_eq!(Key::Decimal(150, 2).hash(), Key::Decimal(15, 1).hash());
        assert_eq!(Key::Decimal(7, -2).hash(), Key::Int(700).hash());
        assert_ne!(Key::Text("5").hash(), Key::Int(5).hash());
        let [one, two] = [1, 2].map(|key| Key::Int(key).hash());
        assert_ne!(and_key(one, two), and_key(two, one));
        assert_ne!(and_key(one, one), and_key(two, two));
    }

    #[test]
    fn places_are_remainders() {
        for bytes in [1, 2, 3, 5, 8, 1000, 4097, 1 << 20] {
            let positions = Positions::of(&vec![0; bytes]);
            let count = bytes as u64 * 8;
            let near = [0, 1, count - 1, count, count + 1, u64::MAX - count, u64::MAX - 1, u64::MAX];
            let multiples = (1..200).flat_map(|i| [u64::MAX / 199 * i / count * count, u64::MAX / 199 * i]);
            for x in near.into_iter().chain(multiples.flat_map(|x| [x.wrapping_sub(1), x, x.wrapping_add(1)])) {
                assert_eq!(positions.of_bit(x) as u64, x % count, "{x} % {count}");
            }
        }
    }

    #[test]
    fn a_set_of_numbers_holds_equal_keys_of_any_type_and_nothing_else() {
        let filter = BloomFilter::of_numbers([7, -3, 60].into_iter(), 100).unwrap();
        assert_eq!(filter.to_bytes(), *b"PDBF\x03\0\0\0\xfd\xff\xff\xff\xff\xff\xff\xff\x08\0\0\0\x09\x34");
        let bits = b"PDBF\x02\0\0\0\xfd\xff\xff\xff\xff\xff\xff\xff\x01\x04\0\0\0\0\0\x80";
        let from_bits = BloomFilter::from_bytes(bits).unwrap();
        assert_eq!((from_bits.to_bytes(), from_bits.about_keys()), (bits.to_vec(), 3.0));
        let read = BloomFilter::from_bytes(&filter.to_bytes()).unwrap();
        assert_eq!((&read, read.size_bytes()), (&filter, filter.to_bytes().len()));
        assert_eq!(from_bits, filter, "the same set");
        let held = [Key::Int(7), Key::Decimal(-300, 2), Key::Decimal(6, -1), Key::Float(60.0)];
        assert!(held.iter().all(|key| read.contains(*key)));
        let others =
            [Key::Int(8), Key::Int(i64::MIN), Key::Decimal(71, 1), Key::Float(7.5), Key::Text("7"), Key::Boolean(true)];
        assert!(!others.iter().any(|key| read.contains(*key)));
        assert_eq!((read.about_keys(), read.false_positives(), read.hashes()), (3.0, 0.0, 0));
    }

    /// Other implementations depend on this format, bit for bit.
    #[test]
    fn the_format_is_fixed() {
        assert_eq!(Key::Text("abc").hash(), 0xe71f_a219_0541_574b);
        let mut filter = BloomFilter::of(3, vec![0; 4]);
        filter.insert(Key::Text("abc"));
        filter.insert(Key::Int(42));
        let bytes = filter.to_bytes();
        assert_eq!(bytes[..8], *b"PDBF\x01\x03\x00\x00");
        assert_eq!(bytes[8..], *FIXED);
    }

    /// These bytes were computed by a Python program from the description of this module.
    const FIXED: &[u8; 4] = &[0, 73, 18, 0];

    #[test]
    fn other_bytes_are_refused() {
        for bytes in
            [&b""[..], b"PDBF", b"PDBF\x01\x03\0\0", b"PDBF\x04\x03\0\0x", b"PDBF\x01\x00\0\0x", b"xxxxxxxxxxxx"]
        {
            assert!(BloomFilter::from_bytes(bytes).is_err(), "{bytes:?}");
        }
        let last = b"PDBF\x02\0\0\0\xf8\xff\xff\xff\xff\xff\xff\x7f";
        assert!(BloomFilter::from_bytes(&[&last[..], b"\x80"].concat()).is_ok(), "up to the greatest number");
        assert!(BloomFilter::from_bytes(&[&last[..], b"\x80\0"].concat()).is_err(), "beyond it");
        assert!(BloomFilter::from_bytes(last).is_err(), "no bits");
        assert!(BloomFilter::from_bytes(b"PDBF\x02\x03\0\0\0\0\0\0\0\0\0\0x").is_err(), "numbers have no hashes");
        let large = vec![0; limits::BLOOM_FILTER_BYTES + 1];
        assert!(BloomFilter::from_bytes(&large).is_err());
    }
}
