//! LIKE patterns as lists of parts, independent of the escape character.
//!
//! In [`crate::Expr`] the escape character is a backslash; in S3 Select there is none unless the
//! statement names one. [`LikePart`]s preserve the meaning across that difference.

/// One element of a LIKE pattern.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LikePart {
    /// This character.
    Char(char),
    /// `_`: any one character.
    AnyChar,
    /// `%`: any run of characters, also the empty one.
    AnyRun,
}

/// Parses a pattern. Returns `None` if the escape character precedes anything but a wildcard or
/// itself.
///
/// Without an escape character, every character other than a wildcard stands for itself.
pub fn like_parts(pattern: &str, escape: Option<char>) -> Option<Vec<LikePart>> {
    let mut parts = Vec::with_capacity(pattern.len());
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        parts.push(match c {
            c if Some(c) == escape => match rest.next()? {
                escaped if escaped == '%' || escaped == '_' || escaped == c => LikePart::Char(escaped),
                _ => return None,
            },
            '%' => LikePart::AnyRun,
            '_' => LikePart::AnyChar,
            c => LikePart::Char(c),
        });
    }
    Some(parts)
}

/// Formats a pattern. `escape` is written before characters that would otherwise be parsed as
/// wildcards or escapes.
pub fn like_pattern(parts: &[LikePart], escape: Option<char>) -> String {
    let mut pattern = String::with_capacity(parts.len());
    for part in parts {
        match part {
            LikePart::AnyRun => pattern.push('%'),
            LikePart::AnyChar => pattern.push('_'),
            LikePart::Char(c) => {
                if let Some(escape) = escape
                    && (matches!(c, '%' | '_') || *c == escape)
                {
                    pattern.push(escape);
                }
                pattern.push(*c);
            }
        }
    }
    pattern
}

/// Rewrites a pattern with this `escape` so that the escape character is a backslash. Returns
/// `None` if the escape character precedes an ordinary character.
pub fn like_with_backslash(pattern: &str, escape: Option<char>) -> Option<String> {
    Some(like_pattern(&like_parts(pattern, escape)?, Some('\\')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_come_apart_and_together() {
        let parts = like_parts(r"50\%_%\\", Some('\\')).unwrap();
        assert_eq!(parts[2], LikePart::Char('%'));
        assert_eq!(parts[3], LikePart::AnyChar);
        assert_eq!(parts[4], LikePart::AnyRun);
        assert_eq!(parts[5], LikePart::Char('\\'));
        assert_eq!(like_pattern(&parts, Some('\\')), r"50\%_%\\");
        assert_eq!(like_pattern(&parts, Some('!')), r"50!%_%\");
        assert_eq!(like_parts(r"a\b", Some('\\')), None);
        assert_eq!(like_parts(r"a\", Some('\\')), None);
        assert_eq!(like_parts(r"a\", None).unwrap().len(), 2);
    }
}
