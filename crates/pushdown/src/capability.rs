//! What a storage endpoint can do, per operation and type.
//!
//! Our own node advertises its profile in the `Server` header; for a foreign endpoint the profile is
//! declared (`OPTIONS (backend minio)`) or recognised, and an unknown endpoint gets plain reads. A profile
//! claims only what was tried against the real server (`crates/engine/tests`), because a wrong claim is a
//! wrong answer.

use std::fmt;
use std::str::FromStr;

use crate::limits;
use crate::{Error, Format, Result};

/// How much of a query storage may do.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// Plain reads: GET, ranged GET, HEAD, LIST.
    None,
    /// S3 Select: filter, projection and scalar aggregates over one object.
    Select,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Select => "select",
        })
    }
}

/// The kinds of endpoint we know.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Profile {
    /// No pushdown known: GCS, R2, Azure gateways, anything else.
    Plain,
    /// Our own node.
    PushdownDb,
    /// Amazon S3, for accounts that have S3 Select.
    Aws,
    /// MinIO.
    Minio,
    /// Ceph RGW.
    Ceph,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Self; 5] = [Self::Plain, Self::PushdownDb, Self::Aws, Self::Minio, Self::Ceph];

    /// The name used in `OPTIONS (backend …)` and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::PushdownDb => "pushdowndb",
            Self::Aws => "aws",
            Self::Minio => "minio",
            Self::Ceph => "ceph",
        }
    }

    /// Recognises an endpoint by its `Server` header.
    pub fn from_server_header(server: &str) -> Self {
        let server = server.to_ascii_lowercase();
        if server.starts_with("pushdowndb") {
            Self::PushdownDb
        } else if server.contains("minio") {
            Self::Minio
        } else if server.contains("ceph") {
            Self::Ceph
        } else {
            // `AmazonS3` too: AWS closed S3 Select to new customers, so it must be declared.
            Self::Plain
        }
    }

    /// What such an endpoint can do.
    pub fn capability(self) -> Capability {
        match self {
            Self::Plain => Capability { profile: self, select: None },
            Self::PushdownDb | Self::Aws => Capability { profile: self, select: Some(Dialect::standard()) },
            Self::Minio => Capability { profile: self, select: Some(Dialect::minio()) },
            Self::Ceph => Capability { profile: self, select: Some(Dialect::ceph()) },
        }
    }
}

impl FromStr for Profile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|p| p.name().eq_ignore_ascii_case(text)).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|p| p.name()).collect();
            Error::invalid(format!("unknown backend '{text}'; known are {}", known.join(", ")))
        })
    }
}

/// What one endpoint can do.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Capability {
    /// What kind of endpoint it is.
    pub profile: Profile,
    /// Its S3 Select, if it has one.
    pub select: Option<Dialect>,
}

impl Capability {
    /// The highest level this endpoint supports for objects of this format.
    pub fn level(&self, format: &Format) -> Level {
        match &self.select {
            Some(dialect) if dialect.reads(format) => Level::Select,
            _ => Level::None,
        }
    }
}

/// Which S3 Select SQL an endpoint evaluates, and how exactly.
///
/// Used twice: [`crate::classify`] decides by it what may be pushed, and the `select` crate renders by it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dialect {
    /// `CAST(text AS DECIMAL(p, s))` works and arithmetic on it is exact. Without it decimals are compared as
    /// doubles, which is exact up to 15 significant digits for comparison and never for arithmetic.
    pub decimals: bool,
    /// `CASE WHEN … END` works.
    pub case: bool,
    /// `LIKE` works with any number of wildcards; without it only with a single `%` and no `_`.
    pub like: bool,
    /// `NOT (x IN (…))`, `NOT (x LIKE …)` and negation in general follow three-valued logic.
    pub three_valued: bool,
    /// SUM and arithmetic over integers stay integers (MinIO goes through doubles).
    pub exact_sums: bool,
    /// String functions (LOWER, UPPER, SUBSTRING, CHAR_LENGTH, TRIM) count characters, not bytes.
    pub string_functions: bool,
    /// ScanRange gives each record to exactly one range.
    pub scan_range: bool,
    /// Parquet objects can be queried, with typed columns and exact results.
    pub parquet: bool,
    /// Compressed text that can be queried.
    pub gzip: bool,
    /// `ZSTD` text, which AWS does not know.
    pub zstd: bool,
    /// If-Match on the request itself is honoured, so that no HEAD afterwards is needed.
    pub if_match: bool,
    /// The longest expression in bytes.
    pub expression_bytes: usize,
}

impl Dialect {
    /// The documented dialect of AWS, which our node implements.
    pub fn standard() -> Self {
        Self {
            decimals: true,
            case: true,
            like: true,
            three_valued: true,
            exact_sums: true,
            string_functions: true,
            scan_range: true,
            parquet: true,
            gzip: true,
            zstd: false,
            if_match: false,
            expression_bytes: limits::SELECT_EXPRESSION_BYTES,
        }
    }

    /// MinIO as of 2026: no CASE, no DECIMAL, wrong NULL logic, sums in doubles, ScanRange cuts records.
    pub fn minio() -> Self {
        Self {
            decimals: false,
            case: false,
            like: false,
            three_valued: false,
            exact_sums: false,
            string_functions: false,
            scan_range: false,
            parquet: false,
            gzip: true,
            zstd: false,
            if_match: false,
            expression_bytes: limits::SELECT_EXPRESSION_BYTES,
        }
    }

    /// Ceph RGW: a request body of 4096 bytes, string functions on bytes.
    pub fn ceph() -> Self {
        Self {
            decimals: false,
            case: false,
            like: false,
            three_valued: false,
            exact_sums: false,
            string_functions: false,
            scan_range: false,
            parquet: false,
            gzip: false,
            zstd: false,
            if_match: false,
            // The body also holds the XML around the expression.
            expression_bytes: 2048,
        }
    }

    /// Whether objects of this format can be queried at all.
    pub fn reads(&self, format: &Format) -> bool {
        use crate::Compression;
        let compression = match format.compression() {
            Compression::None => true,
            Compression::Gzip | Compression::Bzip2 => self.gzip,
            Compression::Zstd => self.zstd,
        };
        compression && (self.parquet || !matches!(format, Format::Parquet))
    }
}
