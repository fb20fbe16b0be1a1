//! What a storage endpoint can do, per operation and type.
//!
//! Our own node advertises its profile in the `Server` header; for a foreign endpoint the profile is
//! declared (`OPTIONS (backend minio)`) or recognised, and an unknown endpoint gets plain reads. A profile
//! claims only what was tried against the real server (`docs/decisions/0004-minio-capabilities.md`), because
//! a wrong claim is a wrong answer.

use std::fmt;
use std::str::FromStr;

use crate::limits;
use crate::{Compression, CsvOptions, Error, Format, JsonShape, Ragged, Result};

/// How much of a query storage may do.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// Plain reads: GET, ranged GET, HEAD, LIST.
    None,
    /// S3 Select: filter, projection and scalar aggregates over one object.
    Select,
    /// The fragment route of our own node: a typed fragment over many objects, Arrow back.
    Fragment,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Select => "select",
            Self::Fragment => "fragment",
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

    /// What such an endpoint can do, as far as its kind tells: which version of the fragment route a node speaks,
    /// it says in its answers.
    pub fn capability(self) -> Capability {
        match self {
            Self::Plain => Capability { profile: self, select: None, fragment: None },
            Self::PushdownDb => Capability { profile: self, select: Some(Dialect::pushdowndb()), fragment: None },
            Self::Aws => Capability { profile: self, select: Some(Dialect::standard()), fragment: None },
            Self::Minio => Capability { profile: self, select: Some(Dialect::minio()), fragment: None },
            // It has a Select of its own, but nothing of it has been tried: claim nothing.
            Self::Ceph => Capability { profile: self, select: None, fragment: None },
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
    /// The version of the fragment route that it speaks and we do; `None` where there is no route.
    pub fragment: Option<u32>,
}

/// Which S3 Select SQL an endpoint evaluates, and how exactly.
///
/// Used twice: [`crate::classify`] decides by it what may be pushed, and the `select` crate renders by it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dialect {
    /// It evaluates with the engine's own evaluator: what it accepts means exactly the same, also for floats
    /// (total order, NaN), division and case mapping.
    pub same_evaluator: bool,
    /// `CAST(text AS DECIMAL(p, s))` works and arithmetic on it is exact. Without it decimals are compared as
    /// doubles, which is exact up to 15 significant digits for comparison and never for arithmetic.
    pub decimals: bool,
    /// `=` between doubles also holds for neighbours closer than 1e-6 (MinIO), so that equality of decimals is
    /// exact only up to 5 decimal places.
    pub equality_tolerance: bool,
    /// `CASE WHEN … END` works.
    pub case: bool,
    /// `LIKE` works with any pattern; without it only with patterns that have no `_` after a `%`, because the
    /// matcher never backtracks, and nothing escaped, because it ignores ESCAPE.
    pub like: bool,
    /// NULL follows three-valued logic and `NULLIF` yields it. Without it every comparison is guarded by a
    /// comparison with the text that means NULL, evaluated before it.
    pub three_valued: bool,
    /// SUM and arithmetic over integers stay integers (MinIO goes through doubles).
    pub exact_sums: bool,
    /// CHAR_LENGTH, SUBSTRING, TRIM and `||` work and count characters, not bytes.
    pub string_functions: bool,
    /// ScanRange gives each record to exactly one range.
    pub scan_range: bool,
    /// Quoted fields may hold line ends.
    pub quoted_newlines: bool,
    /// Newline-delimited JSON can be queried.
    pub json: bool,
    /// Fields of JSON records can be projected without changing their numbers; without it only whole records
    /// are asked for.
    pub json_projection: bool,
    /// Parquet objects can be queried, with typed columns and exact results.
    pub parquet: bool,
    /// Text compressed with gzip or bzip2 can be queried.
    pub gzip: bool,
    /// `ZSTD` text, which AWS does not know.
    pub zstd: bool,
    /// If-Match on the request itself is honoured, so that no HEAD afterwards is needed.
    pub if_match: bool,
    /// The longest expression in bytes.
    pub expression_bytes: usize,
}

impl Dialect {
    /// The documented dialect of AWS.
    pub fn standard() -> Self {
        Self {
            same_evaluator: false,
            decimals: true,
            equality_tolerance: false,
            case: true,
            like: true,
            three_valued: true,
            exact_sums: true,
            string_functions: true,
            scan_range: true,
            quoted_newlines: true,
            json: true,
            json_projection: true,
            parquet: true,
            gzip: true,
            zstd: false,
            if_match: false,
            expression_bytes: limits::SELECT_EXPRESSION_BYTES,
        }
    }

    /// Our own node: the documented dialect, evaluated by the engine's own evaluator, and If-Match.
    pub fn pushdowndb() -> Self {
        Self { same_evaluator: true, zstd: true, if_match: true, ..Self::standard() }
    }

    /// MinIO, as tried in `docs/decisions/0004-minio-capabilities.md`.
    pub fn minio() -> Self {
        Self {
            same_evaluator: false,
            decimals: false,
            equality_tolerance: true,
            case: false,
            like: false,
            three_valued: false,
            exact_sums: false,
            string_functions: false,
            scan_range: false,
            quoted_newlines: false,
            json: false,
            json_projection: false,
            parquet: false,
            gzip: true,
            zstd: true,
            if_match: false,
            expression_bytes: limits::SELECT_EXPRESSION_BYTES,
        }
    }

    /// Whether objects of this format can be queried at all.
    pub fn reads(&self, format: &Format) -> bool {
        let compression = match format.compression() {
            Compression::None => true,
            Compression::Gzip | Compression::Bzip2 => self.gzip,
            Compression::Zstd => self.zstd,
        };
        compression
            && match format {
                Format::Csv(options) => self.reads_csv(options),
                Format::Json(options) => self.json && options.shape == JsonShape::Lines,
                Format::Parquet => self.parquet,
            }
    }

    fn reads_csv(&self, options: &CsvOptions) -> bool {
        // The request is XML 1.0, which cannot spell most control characters.
        let spelled = [Some(options.delimiter), options.quote, options.escape, options.comment, options.terminator]
            .into_iter()
            .flatten()
            .all(|byte| (0x20..0x7f).contains(&byte) || matches!(byte, b'\t' | b'\n' | b'\r'));
        // A short record has NULL fields, which only three-valued logic keeps apart.
        let ragged = self.three_valued || options.ragged == Ragged::Error;
        // Our own kind of escape and terminator are not what every server means by them.
        let plain = self.three_valued || (options.escape.is_none() && options.terminator.is_none());
        spelled && ragged && plain && (self.quoted_newlines || !options.newlines_in_values)
    }
}
