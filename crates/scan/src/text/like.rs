//! Patterns of LIKE that are pieces of text with any runs between them, matched on bytes.

use memchr::memmem::Finder;

/// A pattern without `_`: what the text begins with, what it holds in this order, and what it ends with.
#[derive(Debug)]
pub(crate) struct Pattern {
    first: Vec<u8>,
    inner: Vec<Finder<'static>>,
    /// `None` if there is no `%`: the text is `first`.
    last: Option<Vec<u8>>,
}

impl Pattern {
    /// The pattern in Arrow's form: `%` is any run, `_` any character, a backslash takes the meaning from one of these or
    /// a backslash after it. `None` if it asks for more than pieces.
    pub(crate) fn new(pattern: &str) -> Option<Self> {
        let mut pieces = vec![Vec::new()];
        let mut bytes = pattern.bytes().peekable();
        while let Some(byte) = bytes.next() {
            match byte {
                b'%' => pieces.push(vec![]),
                b'_' => return None,
                // What a backslash before anything else means is left to Arrow.
                b'\\' => pieces.last_mut()?.push(bytes.next_if(|next| matches!(next, b'%' | b'_' | b'\\'))?),
                other => pieces.last_mut()?.push(other),
            }
        }
        let mut pieces = pieces.into_iter();
        let first = pieces.next()?;
        let last = pieces.next_back();
        let inner = pieces.filter(|piece| !piece.is_empty()).map(|piece| Finder::new(&piece).into_owned()).collect();
        Some(Self { first, inner, last })
    }

    /// Whether the text, which is UTF-8, is like it.
    #[inline]
    pub(crate) fn matches(&self, text: &[u8]) -> bool {
        let Some(last) = &self.last else { return text == self.first };
        let Some(rest) = text.strip_prefix(self.first.as_slice()) else { return false };
        let Some(mut rest) = rest.strip_suffix(last.as_slice()) else { return false };
        for piece in &self.inner {
            let Some(at) = piece.find(rest) else { return false };
            rest = rest.get(at + piece.needle().len()..).unwrap_or_default();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{BooleanArray, Scalar, StringArray};

    #[test]
    fn patterns_match_as_arrow_has_them() {
        let texts = ["", "a", "ab", "abab", "ba", "a%b", "aéb", "aab", "b", "aXbXab", "\\", "a\\b", "xaby"];
        let patterns = [
            "", "%", "%%", "a", "a%", "%a", "%a%", "a%b", "ab%ab", "%ab%", "%a%b%", "a%%b", "%ab%ab%", "%é%", "a\\%b",
            "\\\\", "%\\\\%", "ab%b",
        ];
        for pattern in patterns {
            let ours = Pattern::new(pattern).unwrap_or_else(|| panic!("{pattern}"));
            let ours: BooleanArray = texts.iter().map(|text| Some(ours.matches(text.as_bytes()))).collect();
            let scalar = Scalar::new(StringArray::from(vec![pattern]));
            let arrow = arrow::compute::like(&StringArray::from(texts.to_vec()), &scalar).unwrap();
            assert_eq!(ours, arrow, "{pattern}");
        }
        for other in ["a_", "_", "a\\b", "a\\"] {
            assert!(Pattern::new(other).is_none(), "{other}");
        }
    }
}
