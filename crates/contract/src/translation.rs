//! Translation of text that is not UTF-8, or whose values are not spelled as in SQL.

/// The translation of a CSV object's text before its records are decoded.
///
/// Only a scan over plainly read bytes translates: S3 Select has no options for it, and a fragment
/// with a translation cannot be encoded for the fragment route. Translated text is read from its
/// start in one pass.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
pub struct Translation {
    /// The label of the encoding in the WHATWG's Encoding Standard; `None` for UTF-8.
    pub encoding: Option<String>,
    /// The number of lines to skip before the header or the first record.
    pub skip: u64,
    /// Fields with exactly one of these texts are treated as empty fields, whether or not they are
    /// quoted.
    pub nulls: Vec<String>,
    /// The decimal separator of numbers, one byte; `None` for a point.
    pub decimal: Option<u8>,
    /// The thousands separator of numbers, one byte; `None` if there is none.
    pub thousands: Option<u8>,
    /// The format of dates, in the directives of `strftime`; `None` for `YYYY-MM-DD`.
    pub date_format: Option<String>,
    /// The format of timestamps, in the directives of `strftime`; `None` for SQL's format.
    pub timestamp_format: Option<String>,
    /// True if white space around values is removed, except in text columns.
    pub trims: bool,
    /// True if records that do not match the columns are skipped instead of being an error.
    pub ignores_errors: bool,
}

impl Translation {
    /// Returns whether the text needs no translation.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns whether the translation has to parse fields, rather than only the text as a whole.
    pub fn looks_at_fields(&self) -> bool {
        !self.nulls.is_empty() || self.spells_values() || self.ignores_errors
    }

    /// Returns whether the spelling of numbers, dates or timestamps differs from SQL, or values
    /// have white space around them.
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
