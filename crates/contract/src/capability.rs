//! Capabilities of storage endpoints, by operation and type.
//!
//! A PushdownDB node advertises its profile in the `Server` header. For a foreign endpoint the
//! profile is declared (`OPTIONS (backend minio)`) or recognized; an unknown endpoint gets plain
//! reads. A profile claims only what was tested against the real server
//! (`docs/decisions/0004-minio-capability.md`), because a wrong claim leads to wrong results.

use std::fmt;
use std::str::FromStr;

use crate::limits;
use crate::{Compression, CsvOptions, Error, Format, JsonShape, Ragged, Result};

/// The most powerful operation that may be requested from storage.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Level {
    /// Plain reads: GET, ranged GET, HEAD, LIST.
    None,
    /// S3 Select: filter, projection and scalar aggregates over one object.
    Select,
    /// The fragment route of a PushdownDB node: a typed fragment over many objects, answered in
    /// Arrow.
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

/// Kinds of endpoint.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Profile {
    /// No pushdown: GCS, R2, Azure gateways, anything else.
    Plain,
    /// A PushdownDB node.
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

    /// Recognizes an endpoint by its `Server` header.
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

    /// Returns the capability of this kind of endpoint. The fragment route is not included: a node
    /// advertises its versions in its responses.
    pub fn capability(self) -> Capability {
        match self {
            Self::Plain => Capability { profile: self, select: None, fragment: None },
            Self::PushdownDb => Capability { profile: self, select: Some(Dialect::pushdowndb()), fragment: None },
            Self::Aws => Capability { profile: self, select: Some(Dialect::standard()), fragment: None },
            Self::Minio => Capability { profile: self, select: Some(Dialect::minio()), fragment: None },
            // The S3 Select of Ceph is untested, so nothing is claimed.
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

/// The capability of one endpoint.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Capability {
    /// The kind of endpoint.
    pub profile: Profile,
    /// Its S3 Select, if it has one.
    pub select: Option<Dialect>,
    /// The highest version of the fragment route that both sides speak; `None` if the endpoint does
    /// not have the route.
    pub fragment: Option<u32>,
}

/// The S3 Select SQL that an endpoint evaluates, and how exactly.
///
/// [`crate::classify`] uses it to decide what may be pushed, and the `select` crate to render SQL.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Dialect {
    /// True if the endpoint evaluates expressions as the engine does, including floats (total
    /// order, NaN), division and case mapping.
    pub same_evaluator: bool,
    /// True if `CAST(text AS DECIMAL(p, s))` works with exact arithmetic. Otherwise decimals are
    /// compared as doubles: exact up to 15 significant digits for comparisons, never for
    /// arithmetic.
    pub decimals: bool,
    /// True if `=` between doubles also holds for values that differ by less than 1e-6 (MinIO).
    /// Equality of decimals is then exact only up to 5 decimal places.
    pub equality_tolerance: bool,
    /// True if `CASE WHEN … END` works.
    pub case: bool,
    /// True if `LIKE` works with any pattern. Otherwise a pattern must not have a `_` after a `%`,
    /// since the endpoint's matcher does not backtrack, or an escape, since it ignores ESCAPE.
    pub like: bool,
    /// True if NULL follows three-valued logic and `NULLIF` yields NULL. Otherwise each comparison
    /// is guarded by a comparison with the text that means NULL.
    pub three_valued: bool,
    /// True if SUM and arithmetic over integers are exact (MinIO computes them in doubles).
    pub exact_sums: bool,
    /// True if CHAR_LENGTH, SUBSTRING, TRIM and `||` work and count characters, not bytes.
    pub string_functions: bool,
    /// True if ScanRange assigns each record to exactly one range.
    pub scan_range: bool,
    /// True if quoted fields may hold line ends.
    pub quoted_newlines: bool,
    /// True if newline-delimited JSON can be queried.
    pub json: bool,
    /// True if fields of JSON records can be projected without changes to their numbers. Otherwise
    /// only whole records are requested.
    pub json_projection: bool,
    /// True if Parquet objects can be queried, with typed columns and exact results.
    pub parquet: bool,
    /// True if text compressed with gzip or bzip2 can be queried.
    pub gzip: bool,
    /// True if text compressed with zstd can be queried, an extension of AWS's dialect.
    pub zstd: bool,
    /// True if If-Match is honored for the request, so that no HEAD request is needed afterwards.
    pub if_match: bool,
    /// The longest expression, in bytes.
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

    /// The dialect of a PushdownDB node: AWS's dialect with the engine's evaluator, zstd and
    /// If-Match.
    pub fn pushdowndb() -> Self {
        Self { same_evaluator: true, zstd: true, if_match: true, ..Self::standard() }
    }

    /// The dialect of MinIO, as tested in `docs/decisions/0004-minio-capability.md`.
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

    /// Returns whether objects of this `format` can be queried at all.
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
        // The request is XML 1.0, which cannot represent most control characters.
        let spelled = [Some(options.delimiter), options.quote, options.escape, options.comment, options.terminator]
            .into_iter()
            .flatten()
            .all(|byte| (0x20..0x7f).contains(&byte) || matches!(byte, b'\t' | b'\n' | b'\r'));
        // Fields missing from a short record are NULL, which needs three-valued logic.
        let ragged = self.three_valued || options.ragged == Ragged::Error;
        // Servers differ in the meaning of escapes and terminators.
        let plain = self.three_valued || (options.escape.is_none() && options.terminator.is_none());
        // S3 Select requests have single-byte delimiters and UTF-8 text.
        let usual = options.wide.is_none() && options.translation.is_none();
        usual && spelled && ragged && plain && (self.quoted_newlines || !options.newlines_in_values)
    }
}
