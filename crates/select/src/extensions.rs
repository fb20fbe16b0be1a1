//! Extensions of AWS's dialect on a PushdownDB node, for requests that turn them on.
//!
//! The extensions are GROUP BY, ORDER BY … LIMIT and BLOOM_CONTAINS. Without the header, a
//! statement that uses them is refused as AWS refuses it, so that clients do not come to depend on
//! them by accident.

/// The request header that turns the extensions on, with the value `on`.
pub const EXTENSIONS_HEADER: &str = "x-pushdowndb-select-extensions";

/// Whether the dialect of a request has the extensions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Extensions {
    /// The dialect of AWS.
    #[default]
    Off,
    /// The dialect of AWS with GROUP BY, ORDER BY … LIMIT and BLOOM_CONTAINS.
    On,
}

impl Extensions {
    /// Reads the `value` of [`EXTENSIONS_HEADER`]; `None` if the request does not have it.
    pub fn from_header(value: Option<&str>) -> Self {
        match value {
            Some(value) if value.trim().eq_ignore_ascii_case("on") => Self::On,
            _ => Self::Off,
        }
    }
}
