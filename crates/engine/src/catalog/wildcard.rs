//! Globs of locations: `*` and `?` within a folder, `**` across folders, `[a-z]` and `{a,b}`.

use glob::{MatchOptions, Pattern};
use pushdowndb_contract::{Error, Result};

/// Maximum number of patterns that the braces of one glob may expand to.
const MAX_BRACE_PATTERNS: usize = 1024;

/// The glob of a location, matched against paths below the prefix.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Glob {
    /// As it was written.
    pub(super) text: String,
    patterns: Vec<Pattern>,
}

impl Glob {
    const SHELL: MatchOptions =
        MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: false };

    fn parse(text: &str) -> Result<Self> {
        let mut alternatives = Vec::new();
        expand_braces(text, &mut alternatives)?;
        let patterns = alternatives
            .iter()
            .map(|one| {
                Pattern::new(one)
                    .map_err(|e| Error::invalid(format!("the pattern '{one}' is malformed")).with_source(e))
            })
            .collect::<Result<_>>()?;
        Ok(Self { text: text.to_owned(), patterns })
    }

    /// Whether all matches lie in one folder.
    pub(super) fn is_of_one_folder(&self) -> bool {
        self.patterns.iter().all(|p| !p.as_str().contains(['/'])) && !self.crosses()
    }

    fn crosses(&self) -> bool {
        self.text.contains("**")
    }

    /// Whether a path below the prefix matches.
    pub(super) fn matches(&self, below: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.matches_with(below, Self::SHELL))
    }
}

/// Splits `path` into a prefix and a glob, which begins with the first segment that holds a
/// wildcard.
pub(super) fn split_glob(path: &str) -> Result<(&str, Option<Glob>)> {
    let is_open = |segment: &str| segment.contains(['*', '?', '[']) || segment.contains('{') && segment.contains('}');
    let mut start = 0;
    for segment in path.split('/') {
        if is_open(segment) {
            let (prefix, glob) = path.split_at(start);
            return Ok((prefix, Some(Glob::parse(glob)?)));
        }
        start += segment.len() + 1;
    }
    Ok((path, None))
}

/// Expands braces: `a{b,c{d,e}}` -> `ab`, `acd`, `ace`. Braces without a partner stand for
/// themselves.
fn expand_braces(text: &str, into: &mut Vec<String>) -> Result<()> {
    let Some((before, inside, after)) = first_braces(text) else {
        if into.len() == MAX_BRACE_PATTERNS {
            return Err(Error::invalid(format!("the braces stand for more than {MAX_BRACE_PATTERNS} patterns")));
        }
        into.push(text.to_owned());
        return Ok(());
    };
    for choice in inside {
        expand_braces(&format!("{before}{choice}{after}"), into)?;
    }
    Ok(())
}

/// The first balanced pair of braces: the text before, its choices, the text after.
fn first_braces(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    let open = text.find('{')?;
    let (before, rest) = (text.get(..open)?, text.get(open + 1..)?);
    let (mut depth, mut start, mut choices) = (0_usize, 0, Vec::new());
    for (at, c) in rest.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth == 0 => {
                choices.push(rest.get(start..at)?);
                start = at + 1;
            }
            '}' => {
                choices.push(rest.get(start..at)?);
                return Some((before, choices, rest.get(at + 1..)?));
            }
            _ => {}
        }
    }
    None
}
