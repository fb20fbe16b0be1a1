//! Fingerprints identify a value across processes, versions of this program and compilers.
//!
//! Caches on disk, and caches that several scans share, use fingerprints as keys. `Debug` output
//! and `DefaultHasher` would not do: a renamed field or another compiler changes them silently. A
//! fingerprint is the hash of fields that are written one by one, each with its length. Options,
//! types, expressions and fragments are written in their wire form ([`crate::wire`]), whose meaning
//! never changes.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::Error;

/// The length of the hash, in bytes. It is a prefix of SHA-256, long enough to make collisions
/// infeasible even for chosen values.
const HASH_BYTES: usize = 16;

/// The identity of a value of one kind: a version and a hash, formatted as `1-` and 32 hex digits.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Fingerprint {
    version: u8,
    hash: [u8; HASH_BYTES],
}

impl Fingerprint {
    /// Starts the fingerprint of a value of `kind`. Raise `version` when the written fields change,
    /// or when the meaning of what is cached under the fingerprint changes.
    pub fn builder(kind: &str, version: u8) -> FingerprintBuilder {
        FingerprintBuilder { version, hasher: Sha256::new() }.text(kind).number(u64::from(version))
    }

    /// The version with which the fingerprint was built.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Returns the first eight bytes of the hash as a number, for choices that every process has to
    /// make alike.
    pub fn to_number(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.hash;
        u64::from_be_bytes([a, b, c, d, e, f, g, h])
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.version)?;
        self.hash.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = Error;

    /// Parses the format that [`fmt::Display`] writes.
    fn from_str(text: &str) -> Result<Self, Error> {
        let read = || {
            let (version, digits) = text.split_once('-')?;
            let hash = u128::from_str_radix(digits, 16).ok()?.to_be_bytes();
            Some(Self { version: version.parse().ok()?, hash })
        };
        let found = read().filter(|found| found.to_string() == text);
        found.ok_or_else(|| Error::invalid(format!("'{text}' is no fingerprint: a version, '-' and 32 hex digits")))
    }
}

/// Collects the fields of a value for a [`Fingerprint`]. The order of the fields matters.
#[derive(Clone, Debug)]
#[must_use]
pub struct FingerprintBuilder {
    version: u8,
    hasher: Sha256,
}

impl FingerprintBuilder {
    /// Writes `bytes` preceded by their length, so that adjacent fields cannot be confused.
    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.hasher.update((bytes.len() as u64).to_le_bytes());
        self.hasher.update(bytes);
        self
    }

    /// Writes a text.
    pub fn text(self, text: &str) -> Self {
        self.bytes(text.as_bytes())
    }

    /// Writes a number.
    pub fn number(self, number: u64) -> Self {
        self.bytes(&number.to_le_bytes())
    }

    /// Writes a truth value.
    pub fn flag(self, flag: bool) -> Self {
        self.bytes(&[u8::from(flag)])
    }

    /// Writes `bytes` that may be absent. Absent bytes differ from empty ones.
    pub fn optional(self, bytes: Option<&[u8]>) -> Self {
        let builder = self.flag(bytes.is_some());
        match bytes {
            Some(bytes) => builder.bytes(bytes),
            None => builder,
        }
    }

    /// Returns the fingerprint of the written fields.
    pub fn finish(self) -> Fingerprint {
        let mut hash = [0; HASH_BYTES];
        hash.iter_mut().zip(self.hasher.finalize()).for_each(|(to, byte)| *to = byte);
        Fingerprint { version: self.version, hash }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::{CompareOp, CsvOptions, Expr, Format, Fragment, JsonOptions, Literal, NullRule};

    fn builder() -> FingerprintBuilder {
        Fingerprint::builder("test", 1)
    }

    fn fragment() -> Fragment {
        let options = CsvOptions { null: NullRule::Text("-".to_owned()), inferred: true, ..CsvOptions::default() };
        let path = |name: &str| [("path".to_owned(), name.to_owned()), ("b".to_owned(), "2".to_owned())].into();
        let fields = vec![
            Field::new("a", DataType::Int64, true).with_metadata(path("x.y")),
            Field::new("b", DataType::Decimal128(15, 2), false),
        ];
        let predicate = Expr::compare(CompareOp::Lt, Expr::Column(0), Expr::Literal(Literal::Int64(7)));
        Fragment {
            predicate: Some(predicate),
            limit: Some(3),
            ..Fragment::all(Format::Csv(options), Arc::new(Schema::new(fields)))
        }
    }

    /// Fixed values. If one of them changes, caches on disk are lost, and `version` must be raised.
    #[test]
    fn fingerprints_are_these_whatever_the_compiler() {
        let all = builder().bytes(b"ab").text("c").number(7).flag(true).optional(None).optional(Some(b"d"));
        assert_eq!(all.finish().to_string(), "1-f007cb3698915dd425677dffcfbc09f5");
        let of_contract = builder().fragment(&fragment()).unwrap().finish();
        assert_eq!(of_contract.to_string(), "1-171c76b30592eaf6e4deafea16e72096");
        let json = builder().format(&Format::Json(JsonOptions::default())).unwrap();
        let of_parts = json.data_type(&DataType::Date32).unwrap().finish();
        assert_eq!(of_parts.to_string(), "1-cffc68616439a37309bfd807b41b0173");
    }

    #[test]
    fn other_fields_have_other_fingerprints() {
        let all = [
            builder(),
            builder().text(""),
            builder().text("ab"),
            builder().text("a").text("b"),
            builder().text("b").text("a"),
            builder().flag(true),
            builder().number(0),
            builder().optional(None),
            builder().optional(Some(b"")),
            Fingerprint::builder("test", 2),
            Fingerprint::builder("other", 1),
            builder().fragment(&fragment()).unwrap(),
            builder().fragment(&Fragment { limit: Some(4), ..fragment() }).unwrap(),
        ]
        .map(FingerprintBuilder::finish);
        for (at, one) in all.iter().enumerate() {
            assert!(all.iter().skip(at + 1).all(|other| other != one), "{at}");
        }
        assert_eq!(all[0], builder().finish());
    }

    #[test]
    fn a_fingerprint_is_read_as_it_is_written() {
        let one = Fingerprint::builder("test", 9).text("a").finish();
        assert_eq!((one.to_string().parse::<Fingerprint>().unwrap(), one.version()), (one, 9));
        assert!(one.to_string().starts_with(&format!("9-{:016x}", one.to_number())));
        for bad in ["", "1", "1-", "1-ab", "-00112233445566778899aabbccddeeff", "1-+0112233445566778899aabbccddeeff"] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }
}
