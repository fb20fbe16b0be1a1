//! Fields of records in a block of text.

use std::borrow::Cow;

/// The range of a field in the block, and whether the field must be unquoted or is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    start: u32,
    /// The end of the range. [`RAW`] is set if the bytes must be unquoted.
    end: u32,
}

const RAW: u32 = 1 << 31;

impl Span {
    /// A missing field, which is NULL.
    pub(crate) const MISSING: Self = Self { start: u32::MAX, end: u32::MAX };

    /// Creates the span of a field that is used as it is. Blocks are far smaller than 2 GiB, see
    /// [`crate::limits`].
    #[inline]
    pub(crate) fn plain(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// Creates the span of a field that contains quotes or escapes. It starts with the opening
    /// quote.
    #[inline]
    pub(crate) fn raw(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 | RAW }
    }

    /// Returns whether the record does not have the field.
    #[inline]
    pub(crate) fn is_missing(self) -> bool {
        self.start == u32::MAX
    }

    /// Returns the start of the field in the block.
    pub(crate) fn start(self) -> usize {
        self.start as usize
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldBytes<'a> {
    pub(crate) bytes: &'a [u8],
    /// The 16 bytes from the start of the field, whatever its length, if there are that many in the
    /// block.
    pub(crate) ahead: Option<&'a [u8; 16]>,
}

impl<'a> From<&'a [u8]> for FieldBytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, ahead: bytes.first_chunk() }
    }
}

/// The quoting rules for [`Span::raw`] fields.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quoting {
    pub(crate) quote: u8,
    pub(crate) escape: Option<u8>,
}

impl Quoting {
    /// Unquotes `raw`, which must start with a quote. Within quotes, a doubled quote or an escaped
    /// character stands for itself. Bytes after the closing quote are copied.
    pub(crate) fn unquote(self, raw: &[u8], into: &mut Vec<u8>) {
        into.clear();
        let mut bytes = raw.iter().copied().skip(1).peekable();
        let mut quoted = true;
        while let Some(byte) = bytes.next() {
            if !quoted {
                into.push(byte);
            } else if byte == self.quote {
                match bytes.next_if_eq(&self.quote) {
                    Some(quote) => into.push(quote),
                    None => quoted = false,
                }
            } else if Some(byte) == self.escape {
                into.extend(bytes.next());
            } else {
                into.push(byte);
            }
        }
    }
}

/// One column of a group of records: a strided view of their spans.
#[derive(Clone, Copy)]
pub(crate) struct FieldColumn<'a> {
    /// The text in which spans are ranges.
    pub(crate) data: &'a [u8],
    /// The spans of the rows, `stride` for each row.
    pub(crate) spans: &'a [Span],
    pub(crate) stride: usize,
    /// The index of the column among the spans of a row.
    pub(crate) column: usize,
    /// The indexes of the rows; `None` for all rows.
    pub(crate) rows: Option<&'a [u32]>,
    pub(crate) quoting: Quoting,
}

impl<'a> FieldColumn<'a> {
    /// Returns the number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.map_or(self.spans.len() / self.stride.max(1), <[u32]>::len)
    }

    #[inline(always)]
    pub(crate) fn span(&self, row: usize) -> Span {
        let row = match self.rows {
            None => row,
            Some(rows) => rows.get(row).map_or(usize::MAX, |row| *row as usize),
        };
        self.spans.get(row.wrapping_mul(self.stride).wrapping_add(self.column)).copied().unwrap_or(Span::MISSING)
    }

    /// Returns the bytes of a field; `None` if it is missing. `scratch` is used for unquoted bytes.
    #[inline(always)]
    pub(crate) fn bytes<'s>(&self, span: Span, scratch: &'s mut Vec<u8>) -> Option<&'s [u8]>
    where
        'a: 's,
    {
        if span.end & RAW == 0 {
            // A span lies within the block from which it was cut.
            return self.data.get(span.start as usize..span.end as usize);
        }
        self.unquoted(span, scratch)
    }

    /// Returns whether an empty field at `span` is a pair of quotes.
    pub(crate) fn is_quoted(&self, span: Span) -> bool {
        let before = || span.start().checked_sub(1).and_then(|before| self.data.get(before));
        // In text without quotes, the quote has this default value.
        let quote = Some(&self.quoting.quote).filter(|quote| **quote != Quoting::default().quote);
        span.end & RAW != 0 || quote.is_some() && before() == quote
    }

    /// Like [`Self::bytes`], together with the bytes from the start of the field.
    #[inline(always)]
    pub(crate) fn field<'s>(&self, span: Span, scratch: &'s mut Vec<u8>) -> Option<FieldBytes<'s>>
    where
        'a: 's,
    {
        if span.end & RAW == 0 {
            let bytes = self.data.get(span.start as usize..span.end as usize)?;
            let ahead = self.data.get(span.start as usize..).and_then(<[u8]>::first_chunk);
            return Some(FieldBytes { bytes, ahead });
        }
        self.unquoted(span, scratch).map(FieldBytes::from)
    }

    /// Returns the length of a field that is used as it is, and 16 bytes from its start.
    #[inline(always)]
    pub(crate) fn ahead(&self, span: Span) -> Option<(usize, &'a [u8; 16])> {
        let ahead = self.data.get(span.start as usize..).and_then(<[u8]>::first_chunk)?;
        (span.end & RAW == 0).then(|| ((span.end - span.start) as usize, ahead))
    }

    /// Returns the last eight bytes up to the end of a field that is used as it is, and its length.
    #[inline(always)]
    pub(crate) fn ending(&self, span: Span) -> Option<(&'a [u8; 8], usize)> {
        // The end of a quoted or missing field is greater than any position in the text.
        let end = span.end as usize;
        let ending = self.data.get(end.checked_sub(8)?..end)?.first_chunk()?;
        Some((ending, end.wrapping_sub(span.start as usize)))
    }

    /// Appends the bytes of a field, as returned by [`Self::bytes`].
    #[inline(always)]
    pub(crate) fn copy(&self, span: Span, field: &[u8], into: &mut Vec<u8>) {
        // Most fields are short: copying a fixed number of bytes and truncating needs no function
        // call.
        let start = span.start as usize;
        if field.len() <= 16
            && span.end & RAW == 0
            && let Some(chunk) = self.data.get(start..start + 16)
        {
            let length = into.len() + field.len();
            into.extend_from_slice(chunk);
            into.truncate(length);
        } else {
            into.extend_from_slice(field);
        }
    }

    #[inline(never)]
    fn unquoted<'s>(&self, span: Span, scratch: &'s mut Vec<u8>) -> Option<&'s [u8]> {
        if span.is_missing() {
            return None;
        }
        self.quoting.unquote(self.raw(span), scratch);
        Some(scratch)
    }

    fn raw(&self, span: Span) -> &'a [u8] {
        self.data.get(span.start as usize..(span.end & !RAW) as usize).unwrap_or_default()
    }

    /// Returns the field as text for an error, shortened.
    pub(crate) fn shown(&self, span: Span) -> String {
        let mut scratch = Vec::new();
        let bytes = if span.is_missing() {
            &[]
        } else if span.end & RAW == 0 {
            self.raw(span)
        } else {
            self.quoting.unquote(self.raw(span), &mut scratch);
            scratch.as_slice()
        };
        shorten(&String::from_utf8_lossy(bytes)).into_owned()
    }
}

/// Shortens text for an error to at most 64 characters.
pub(crate) fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(64) {
        Some((at, _)) => Cow::Owned(format!("{}…", &text[..at])),
        None => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_taken_out_as_csv_has_them() {
        let mut into = Vec::new();
        for (raw, escape, field) in [
            (r#""a""b""#, None, r#"a"b"#),
            (r#""a"b"c"#, None, r#"ab"c"#),
            (r#""a\"b""#, Some(b'\\'), r#"a"b"#),
            (r#""a\\""#, Some(b'\\'), r"a\"),
            (r#""""#, None, ""),
        ] {
            Quoting { quote: b'"', escape }.unquote(raw.as_bytes(), &mut into);
            assert_eq!(into, field.as_bytes(), "{raw}");
        }
    }
}
