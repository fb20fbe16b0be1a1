//! The name that was probably meant.

use datafusion::common::utils::datafusion_strsim::levenshtein;

/// More letters may not differ.
const FARTHEST: usize = 3;

/// The one of these names that is most like a name that is none of them, if one is like it.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let all = known.into_iter().map(|known| (levenshtein(known, name), known));
    // Of short names everything is a few letters away.
    let is_like = |distance: usize, known: &str| distance <= FARTHEST && 2 * distance <= known.len().max(name.len());
    all.min().filter(|(distance, known)| is_like(*distance, known)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_is_told_from_another_name() {
        assert_eq!(nearest("lineitm", ["orders", "lineitem"]), Some("lineitem"));
        assert_eq!(nearest("xy", ["ab", "part"]), None);
    }
}
