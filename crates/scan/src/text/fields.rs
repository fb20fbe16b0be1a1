//! Where the fields of records lie in a block of text.

use std::borrow::Cow;

/// One field: its bytes in the block, whether they still hold quotes to take out, or that it is missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Span {
    start: u32,
    /// The end, with [`RAW`] set if the bytes are as written and must be unquoted first.
    end: u32,
}

const RAW: u32 = 1 << 31;

impl Span {
    /// A field that the record does not have: NULL.
    pub(crate) const MISSING: Self = Self { start: u32::MAX, end: u32::MAX };

    /// Bytes that are the field. Blocks are far below 2 GiB, see [`crate::limits`].
    #[inline]
    pub(crate) fn plain(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// Bytes from the opening quote on, with quotes or escapes inside.
    #[inline]
    pub(crate) fn raw(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 | RAW }
    }

    /// Whether the record does not have the field.
    #[inline]
    pub(crate) fn is_missing(self) -> bool {
        self.start == u32::MAX
    }

    /// Where the field starts in the block.
    pub(crate) fn start(self) -> usize {
        self.start as usize
    }
}

/// The bytes of one field.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldBytes<'a> {
    pub(crate) bytes: &'a [u8],
    /// 16 bytes from where the field begins, if there are so many: looked at without asking how long the field is.
    pub(crate) ahead: Option<&'a [u8; 16]>,
}

impl<'a> From<&'a [u8]> for FieldBytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self { bytes, ahead: bytes.first_chunk() }
    }
}

/// How to take the quotes out of a [`Span::raw`] field.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quoting {
    pub(crate) quote: u8,
    pub(crate) escape: Option<u8>,
}

impl Quoting {
    /// The field that `raw`, which starts with a quote, spells: within quotes a doubled quote or an escaped
    /// character stands for itself; what follows the closing quote is taken as it is.
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
    /// The text that spans point into.
    pub(crate) data: &'a [u8],
    /// Row after row, `stride` spans each.
    pub(crate) spans: &'a [Span],
    pub(crate) stride: usize,
    /// Which of the spans of a row.
    pub(crate) column: usize,
    /// Which rows; `None` for all.
    pub(crate) rows: Option<&'a [u32]>,
    pub(crate) quoting: Quoting,
}

impl<'a> FieldColumn<'a> {
    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.map_or(self.spans.len() / self.stride.max(1), <[u32]>::len)
    }

    /// The field of a row.
    #[inline(always)]
    pub(crate) fn span(&self, row: usize) -> Span {
        let row = match self.rows {
            None => row,
            Some(rows) => rows.get(row).map_or(usize::MAX, |row| *row as usize),
        };
        self.spans.get(row.wrapping_mul(self.stride).wrapping_add(self.column)).copied().unwrap_or(Span::MISSING)
    }

    /// The bytes of a field, `None` if it is missing. `scratch` holds those that must be unquoted.
    #[inline(always)]
    pub(crate) fn bytes<'s>(&self, span: Span, scratch: &'s mut Vec<u8>) -> Option<&'s [u8]>
    where
        'a: 's,
    {
        if span.end & RAW == 0 {
            // Spans lie within the block they were cut from.
            return self.data.get(span.start as usize..span.end as usize);
        }
        self.unquoted(span, scratch)
    }

    /// [`Self::bytes`], with what comes after them.
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

    /// How long a field is that stands as it is, and 16 bytes from where it begins.
    #[inline(always)]
    pub(crate) fn ahead(&self, span: Span) -> Option<(usize, &'a [u8; 16])> {
        let ahead = self.data.get(span.start as usize..).and_then(<[u8]>::first_chunk)?;
        (span.end & RAW == 0).then(|| ((span.end - span.start) as usize, ahead))
    }

    /// The eight bytes up to the end of a field that stands as it is, and how long it is.
    #[inline(always)]
    pub(crate) fn ending(&self, span: Span) -> Option<(&'a [u8; 8], usize)> {
        // The end of a field with quotes, and of one that is missing, is beyond any text.
        let end = span.end as usize;
        let ending = self.data.get(end.checked_sub(8)?..end)?.first_chunk()?;
        Some((ending, end.wrapping_sub(span.start as usize)))
    }

    /// Appends the bytes of a field that [`Self::bytes`] gave.
    #[inline(always)]
    pub(crate) fn copy(&self, span: Span, field: &[u8], into: &mut Vec<u8>) {
        // Copying a fixed number of bytes and cutting off the rest takes no call; most fields are short.
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

    /// The field as text for a message, shortened.
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

/// Text for a message: at most 64 characters.
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
