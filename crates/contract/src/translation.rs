//! Text that is not UTF-8, or whose values are not spelled as SQL spells them.

/// The translation of a CSV object's text before its records are decoded.
///
/// Only a scan over plainly read bytes translates: S3 Select has no options for it, and a fragment
/// with a translation has no wire form. Translated text is read in one pass from its start.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Translation {
    /// The label of the encoding, as the WHATWG's Encoding Standard has them; `None` for UTF-8.
    pub encoding: Option<String>,
    /// The number of lines before the header, or the first record, that are left out.
    pub skip: u64,
    /// Fields with exactly one of these texts become empty fields, whatever quotes are around them.
    pub nulls: Vec<String>,
    /// The byte between the whole and the fractional digits of numbers; `None` for a point.
    pub decimal: Option<u8>,
    /// The byte between groups of digits of numbers; `None` if there is none.
    pub thousands: Option<u8>,
    /// The format of dates, in the directives of `strftime`; `None` for `YYYY-MM-DD`.
    pub date_format: Option<String>,
    /// The format of timestamps, likewise.
    pub timestamp_format: Option<String>,
    /// True if blanks around values of columns that are not text are left out.
    pub trims: bool,
    /// True if records that do not fit the columns are left out instead of being an error.
    pub ignores_errors: bool,
}

impl Translation {
    /// True if the text is read as it is.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// True if fields are looked at, rather than only the text as a whole.
    pub fn looks_at_fields(&self) -> bool {
        !self.nulls.is_empty() || self.spells_values() || self.ignores_errors
    }

    /// True if numbers, dates or timestamps are spelled differently, or have blanks around them.
    pub fn spells_values(&self) -> bool {
        let Self { decimal, thousands, date_format, timestamp_format, .. } = self;
        let formats = date_format.is_some() || timestamp_format.is_some();
        decimal.is_some() || thousands.is_some() || formats || self.trims
    }

    /// The names of the options in use, for messages.
    pub fn options(&self) -> Vec<&'static str> {
        let used = [
            ("encoding", self.encoding.is_some()),
            ("skip", self.skip > 0),
            ("nullstr", !self.nulls.is_empty()),
            ("decimal_separator", self.decimal.is_some()),
            ("thousands", self.thousands.is_some()),
            ("dateformat", self.date_format.is_some()),
            ("timestampformat", self.timestamp_format.is_some()),
            ("blanks around values", self.trims),
            ("ignore_errors", self.ignores_errors),
        ];
        used.into_iter().filter_map(|(name, is_used)| is_used.then_some(name)).collect()
    }
}
