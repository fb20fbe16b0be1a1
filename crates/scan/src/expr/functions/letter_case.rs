//! Upper and lower case of long texts, processed in pieces so that the work can be interrupted.

use crate::runtime::interrupt::Steps;

/// The approximate size of a piece, in bytes.
const PIECE_BYTES: usize = 64 * 1024;

/// Returns the pieces of a text, until `steps` run out.
fn pieces<'a>(text: &'a str, steps: &mut Steps) -> impl Iterator<Item = &'a str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at_checked(rest.floor_char_boundary(PIECE_BYTES))?;
        rest = after;
        // Converting a character costs about as much as reading sixteen bytes.
        (!piece.is_empty() && steps.go_on(16 * piece.len())).then_some(piece)
    })
}

pub(crate) fn upper(text: &str, steps: &mut Steps) -> String {
    let mut upper = String::with_capacity(text.len());
    pieces(text, steps).for_each(|piece| upper.push_str(&piece.to_uppercase()));
    upper
}

/// Returns the text in lower case. Only the form of a sigma depends on its context: it is different
/// at the end of a word.
pub(crate) fn lower(text: &str, steps: &mut Steps) -> String {
    const SIGMA: char = 'Σ';
    let mut lower = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(piece) = text.get(at..).and_then(|rest| rest.get(..rest.floor_char_boundary(PIECE_BYTES))) {
        if piece.is_empty() || !steps.go_on(16 * piece.len()) {
            break;
        }
        match piece.find(SIGMA) {
            None => {
                lower.push_str(&piece.to_lowercase());
                at += piece.len();
            }
            Some(sigma) => {
                lower.push_str(&piece.get(..sigma).unwrap_or_default().to_lowercase());
                let (before, after) = text.split_at_checked(at + sigma).unwrap_or_default();
                let after = after.get(SIGMA.len_utf8()..).unwrap_or_default();
                let mut letter = |c: char| steps.go_on(64).then(|| kind(c));
                let is_letter = |kind: Option<Kind>| kind == Some(Kind::Letter);
                // A sigma is a letter, which ends both searches, so each character is examined at
                // most twice.
                let follows =
                    is_letter(before.chars().rev().map_while(&mut letter).find(|kind| *kind != Kind::Ignored));
                let precedes = is_letter(after.chars().map_while(&mut letter).find(|kind| *kind != Kind::Ignored));
                lower.push(if follows && !precedes { 'ς' } else { 'σ' });
                at += sigma + SIGMA.len_utf8();
            }
        }
    }
    lower
}

/// The effect of a character on an adjacent sigma.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Kind {
    /// A letter with case.
    Letter,
    /// A character that is skipped: the next one decides.
    Ignored,
    Other,
}

/// Determines the kind by the form that the standard library gives to a sigma before the character.
fn kind(c: char) -> Kind {
    let is_last = |text: [char; 4]| {
        let lower = text.iter().collect::<String>().to_lowercase();
        lower.chars().nth(1) == Some('ς')
    };
    match (is_last(['a', 'Σ', c, ' ']), is_last(['a', 'Σ', c, 'a'])) {
        (false, _) => Kind::Letter,
        (true, false) => Kind::Ignored,
        (true, true) => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    #[test]
    fn every_sigma_is_as_in_a_whole_text() {
        let mut random = StdRng::seed_from_u64(3);
        let characters: Vec<char> = "Σσaʰ.' \u{301}".chars().collect();
        for _ in 0..2_000 {
            let length = random.random_range(0..14);
            let text: String = (0..length).map(|_| characters[random.random_range(0..characters.len())]).collect();
            assert_eq!(lower(&text, &mut Steps::default()), text.to_lowercase(), "{text:?}");
        }
        let long = format!("{}Σ{}Σ.a Σ", "ÄÖ".repeat(PIECE_BYTES), "\u{301}".repeat(PIECE_BYTES));
        assert_eq!(lower(&long, &mut Steps::default()), long.to_lowercase());
        assert_eq!(upper(&long, &mut Steps::default()), long.to_uppercase());
    }
}
