//! A Bloom filter in bytes that anybody can build: of the keys on one side of a join, probed on the other.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0..4 | `PDBF` |
//! | 4 | version, 1 |
//! | 5 | k, the number of bits set for each key, 1 to 32 |
//! | 6..8 | 0 |
//! | 8.. | the bits, at least one byte; bit `i` is bit `i % 8` (of value `1 << (i % 8)`) of byte `i / 8` |
//!
//! A key is hashed as bytes ([`Key`]): whole numbers, also decimals and doubles that are whole, as 8 bytes little
//! endian; other decimals as text without zeros at the end (`1.5`); other doubles as the 8 bytes of their bits; text
//! as UTF-8; truth values as `true` and `false`; dates as whole numbers of days, timestamps of microseconds, since
//! 1970. NULL is in no filter. Keys of one comparison are brought to one type before they are hashed.
//!
//! ```text
//! fnv(bytes)  h = 0xcbf29ce484222325; for each byte: h = (h ^ byte) * 0x100000001b3
//! mix(x)      x ^= x >> 30; x *= 0xbf58476d1ce4e5b9; x ^= x >> 27; x *= 0x94d049bb133111eb; x ^= x >> 31
//! a = mix(fnv(key)); b = mix(a + 0x9e3779b97f4a7c15) | 1
//! several keys as one: h = fnv(the first), then for each other h = mix(h) ^ fnv(key), in the place of fnv(key)
//! the bits of a key: (a + i * b) % bits for i in 0..k          all arithmetic is modulo 2^64
//! ```

use crate::{Error, Result, limits};

const MAGIC: &[u8; 4] = b"PDBF";
const VERSION: u8 = 1;
const HEADER_BYTES: usize = 8;
const HASHES: std::ops::RangeInclusive<u8> = 1..=32;

/// What is put into a filter and looked for in it.
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
    /// The hash that a filter is made of. Equal keys have equal hashes, also those of different types.
    pub fn hash(self) -> u64 {
        match self {
            Self::Boolean(value) => fnv(if value { b"true" } else { b"false" }),
            Self::Int(value) => fnv(&value.to_le_bytes()),
            Self::Decimal(value, scale) => decimal_hash(value, scale),
            Self::Float(value) => {
                let whole = value as i64;
                // Also turns -0 into 0.
                if whole as f64 == value && whole != i64::MAX {
                    fnv(&whole.to_le_bytes())
                } else {
                    let bits = if value.is_nan() { f64::NAN.to_bits() } else { value.to_bits() };
                    fnv(&bits.to_le_bytes())
                }
            }
            Self::Text(text) => fnv(text.as_bytes()),
        }
    }
}

/// The hash of several keys as one: that of those before, and the next one's.
pub fn and_key(before: u64, next: u64) -> u64 {
    mix(before) ^ next
}

fn decimal_hash(mut value: i128, mut scale: i8) -> u64 {
    while scale > 0 && value % 10 == 0 {
        value /= 10;
        scale -= 1;
    }
    let whole = if scale <= 0 {
        10_i128.checked_pow(u32::from(scale.unsigned_abs())).and_then(|power| value.checked_mul(power))
    } else {
        None
    };
    match whole.map(i64::try_from) {
        Some(Ok(whole)) => fnv(&whole.to_le_bytes()),
        _ => fnv(crate::expr::decimal_text(value, scale).as_bytes()),
    }
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

/// A set of keys that may claim to hold a key it does not, and never denies one it does.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BloomFilter {
    hashes: u8,
    bits: Vec<u8>,
}

impl BloomFilter {
    /// Room for so many keys at a share of false positives, both brought within bounds.
    pub fn with_capacity(keys: usize, false_positives: f64) -> Self {
        let rate = if false_positives.is_finite() { false_positives.clamp(1e-9, 0.5) } else { 0.01 };
        let bits_per_key = -rate.ln() / (std::f64::consts::LN_2 * std::f64::consts::LN_2);
        let bytes = (keys.max(1) as f64 * bits_per_key / 8.0).ceil();
        let bytes = (bytes as usize).clamp(8, limits::BLOOM_FILTER_BYTES - HEADER_BYTES);
        let hashes = (-rate.log2()).round() as u8;
        Self { hashes: hashes.clamp(*HASHES.start(), *HASHES.end()), bits: vec![0; bytes] }
    }

    /// Reads a filter.
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
                Ok(Self { hashes: *hashes, bits: bits.to_vec() })
            }
            [b'P', b'D', b'B', b'F', version, ..] if *version != VERSION => {
                Err(invalid(format!("version {version} is unknown, {VERSION} is known")))
            }
            [b'P', b'D', b'B', b'F', ..] => Err(invalid("it is cut off".to_owned())),
            _ => Err(invalid("it does not start with PDBF".to_owned())),
        }
    }

    /// The filter in bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.bits.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&[VERSION, self.hashes, 0, 0]);
        bytes.extend_from_slice(&self.bits);
        bytes
    }

    /// How many bytes it has.
    pub fn size_bytes(&self) -> usize {
        HEADER_BYTES + self.bits.len()
    }

    /// How many bits each key sets.
    pub fn hashes(&self) -> u8 {
        self.hashes
    }

    /// Puts a key in.
    pub fn insert(&mut self, key: Key<'_>) {
        self.insert_hash(key.hash());
    }

    /// Puts a key in by its [`Key::hash`].
    pub fn insert_hash(&mut self, hash: u64) {
        for bit in self.positions(hash) {
            if let Some(byte) = self.bits.get_mut(bit / 8) {
                *byte |= 1 << (bit % 8);
            }
        }
    }

    /// Whether the key may be in it; if not, it certainly is not.
    pub fn contains(&self, key: Key<'_>) -> bool {
        self.contains_hash(key.hash())
    }

    /// The same by its [`Key::hash`].
    pub fn contains_hash(&self, hash: u64) -> bool {
        self.positions(hash).all(|bit| self.bits.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0))
    }

    fn positions(&self, hash: u64) -> impl Iterator<Item = usize> + use<> {
        let a = mix(hash);
        let b = mix(a.wrapping_add(0x9e37_79b9_7f4a_7c15)) | 1;
        let count = self.bits.len() as u64 * 8;
        (0..u64::from(self.hashes)).map(move |i| (a.wrapping_add(i.wrapping_mul(b)) % count.max(1)) as usize)
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

    /// Whoever builds filters elsewhere depends on every bit of this.
    #[test]
    fn the_format_is_fixed() {
        assert_eq!(Key::Text("abc").hash(), 0xe71f_a219_0541_574b);
        let mut filter = BloomFilter { hashes: 3, bits: vec![0; 4] };
        filter.insert(Key::Text("abc"));
        filter.insert(Key::Int(42));
        let bytes = filter.to_bytes();
        assert_eq!(bytes[..8], *b"PDBF\x01\x03\x00\x00");
        assert_eq!(bytes[8..], *FIXED);
    }

    /// From the description above, in Python.
    const FIXED: &[u8; 4] = &[0, 73, 18, 0];

    #[test]
    fn other_bytes_are_refused() {
        for bytes in
            [&b""[..], b"PDBF", b"PDBF\x01\x03\0\0", b"PDBF\x02\x03\0\0x", b"PDBF\x01\x00\0\0x", b"xxxxxxxxxxxx"]
        {
            assert!(BloomFilter::from_bytes(bytes).is_err(), "{bytes:?}");
        }
        let large = vec![0; limits::BLOOM_FILTER_BYTES + 1];
        assert!(BloomFilter::from_bytes(&large).is_err());
    }
}
