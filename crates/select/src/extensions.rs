//! Extensions of AWS's dialect on a PushdownDB node, for requests that ask for them.
//!
//! GROUP BY, ORDER BY … LIMIT and BLOOM_CONTAINS. Without the header a statement that uses them is
//! refused as by AWS, so that clients do not depend on them by accident.

/// The request header that turns the extensions on, with the value `on`.
pub const EXTENSIONS_HEADER: &str = "x-pushdowndb-select-extensions";

/// The dialect of a request.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Extensions {
    /// The dialect of AWS.
    #[default]
    Off,
    /// The dialect of AWS with GROUP BY, ORDER BY … LIMIT and BLOOM_CONTAINS.
    On,
}

impl Extensions {
    /// Reads the `value` of [`EXTENSIONS_HEADER`], if the request has it.
    pub fn from_header(value: Option<&str>) -> Self {
        match value {
            Some(value) if value.trim().eq_ignore_ascii_case("on") => Self::On,
            _ => Self::Off,
        }
    }
}
