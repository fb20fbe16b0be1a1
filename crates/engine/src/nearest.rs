//! Suggestions for misspelled names.

use datafusion::common::utils::datafusion_strsim::levenshtein;

/// Maximum edit distance of a suggestion.
const MAX_DISTANCE: usize = 3;

/// Returns the name in `known` that is most similar to the misspelled `name`; `None` if no name is
/// similar.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let all = known.into_iter().map(|known| (levenshtein(known, name), known));
    // A few letters turn any short name into any other.
    let is_like =
        |distance: usize, known: &str| distance <= MAX_DISTANCE && 2 * distance <= known.len().max(name.len());
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
