//! Values between Arrow and PostgreSQL's formats.
//!
//! ```text
//! types       PostgreSQL's types of columns and parameters
//! cells       the values of one column of a batch, in either format
//! text        the text format of numbers, lists and bytes
//! calendar    dates, times and intervals in text
//! numeric     decimals in the binary format
//! parameters  values of parameters, from either format
//! ```

pub(crate) mod calendar;
pub(crate) mod cells;
pub(crate) mod numeric;
pub(crate) mod parameters;
pub(crate) mod text;
pub(crate) mod types;

/// The format of a value on the wire.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Format {
    /// Text in UTF-8.
    Text,
    /// PostgreSQL's binary format of the type.
    Binary,
}

impl Format {
    /// The format with this code on the wire; `None` for unknown codes.
    pub fn of_code(code: i16) -> Option<Self> {
        match code {
            0 => Some(Self::Text),
            1 => Some(Self::Binary),
            _ => None,
        }
    }

    /// The code of the format on the wire.
    pub fn code(self) -> i16 {
        match self {
            Self::Text => 0,
            Self::Binary => 1,
        }
    }
}
