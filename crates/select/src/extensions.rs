//! What our node understands beyond the dialect of AWS, for requests that ask for it.
//!
//! GROUP BY, ORDER BY … LIMIT and BLOOM_CONTAINS. Without the header a statement that uses them is refused as AWS
//! refuses it, so that nobody comes to depend on them by accident.

/// The request header that turns the extensions on, with the value `on`.
pub const EXTENSIONS_HEADER: &str = "x-pushdowndb-select-extensions";

/// Whether a request may use the extensions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Extensions {
    /// As AWS has it.
    #[default]
    Off,
    /// With GROUP BY, ORDER BY … LIMIT and BLOOM_CONTAINS.
    On,
}

impl Extensions {
    /// By the value of [`EXTENSIONS_HEADER`], if the request has it.
    pub fn from_header(value: Option<&str>) -> Self {
        match value {
            Some(value) if value.trim().eq_ignore_ascii_case("on") => Self::On,
            _ => Self::Off,
        }
    }
}
