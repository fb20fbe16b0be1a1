//! Paths into JSON: a key, a position, `$.a.b[0]` or `/a/b/0`.

use pushdowndb_contract::{Error, Result};

use super::text::{elements, entries};

/// One step into a value.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum Step {
    /// The value of this key of an object.
    Key(String),
    /// The element at this position of an array, from 0; from the end if it is negative.
    At(i64),
    /// A step of a JSON pointer: a key of an object or a position in an array.
    Either(String),
    /// All elements of an array, `[*]`.
    Elements,
    /// All values of an object, `.*`.
    Members,
}

/// Parses a `path` in DuckDB's syntax. Text that begins with neither `$` nor `/` is a key.
///
/// # Errors
///
/// Returns an error if the path is malformed.
pub(super) fn parse(path: &str) -> Result<Vec<Step>> {
    if let Some(pointer) = path.strip_prefix('/') {
        let steps = pointer.split('/').map(|step| Step::Either(step.replace("~1", "/").replace("~0", "~")));
        return Ok(steps.collect());
    }
    let Some(mut rest) = path.strip_prefix('$') else { return Ok(vec![Step::Key(path.to_owned())]) };
    let mut steps = Vec::new();
    let wrong = |what: &str| Error::invalid(format!("the JSON path '{path}': {what}"));
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let (key, after) = match after.strip_prefix('"') {
                Some(quoted) => quoted.split_once('"').ok_or_else(|| wrong("a quote is not closed"))?,
                None => after.split_at(after.find(['.', '[']).unwrap_or(after.len())),
            };
            match key {
                "" => return Err(wrong("a key is missing behind a dot")),
                "*" => steps.push(Step::Members),
                key => steps.push(Step::Key(key.to_owned())),
            }
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (at, after) = after.split_once(']').ok_or_else(|| wrong("a bracket is not closed"))?;
            let at = at.strip_prefix('#').filter(|at| !at.is_empty()).unwrap_or(at);
            if at == "*" {
                steps.push(Step::Elements);
                rest = after;
                continue;
            }
            steps.push(Step::At(at.parse().map_err(|_| wrong("brackets take a whole number"))?));
            rest = after;
        } else {
            return Err(wrong("a dot or a bracket is missing"));
        }
    }
    Ok(steps)
}

/// Whether `steps` may lead to several values.
pub(super) fn is_about_all(steps: &[Step]) -> bool {
    steps.iter().any(|step| matches!(step, Step::Elements | Step::Members))
}

/// Returns the value of a valid `document` that `steps` lead to; of several, the first.
pub(super) fn find<'a>(document: &'a str, steps: &[Step]) -> Option<&'a str> {
    if is_about_all(steps) {
        return find_all(document, steps).first().copied();
    }
    steps.iter().try_fold(document, one)
}

/// Returns the values of a valid `document` that `steps` lead to, in their order.
pub(super) fn find_all<'a>(document: &'a str, steps: &[Step]) -> Vec<&'a str> {
    let mut found = vec![document];
    for step in steps {
        found = match step {
            Step::Elements => found.into_iter().filter_map(elements).flatten().collect(),
            Step::Members => found.into_iter().filter_map(entries).flatten().map(|(_, value)| value).collect(),
            step => found.into_iter().filter_map(|value| one(value, step)).collect(),
        };
    }
    found
}

/// Returns the value that a `step` to a single value leads to.
fn one<'a>(value: &'a str, step: &Step) -> Option<&'a str> {
    match step {
        Step::Key(key) => of_key(value, key),
        Step::At(at) => at_position(value, *at),
        Step::Either(step) if value.starts_with('[') => at_position(value, step.parse().ok().filter(|at| *at >= 0)?),
        Step::Either(step) => of_key(value, step),
        Step::Elements | Step::Members => None,
    }
}

fn of_key<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    entries(object)?.find(|(own, _)| own == key).map(|(_, value)| value)
}

fn at_position(array: &str, at: i64) -> Option<&str> {
    let before = match usize::try_from(at) {
        Ok(at) => at,
        Err(_) => elements(array)?.count().checked_sub(usize::try_from(at.unsigned_abs()).ok()?)?,
    };
    elements(array)?.nth(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_values() {
        let document = r#"{"a": {"b c": [5, {"d": 6}]}, "e.f": 7, "$": 8, "0": 9}"#;
        for (path, value) in [
            ("e.f", Some("7")),
            ("$", Some(document)),
            ("$.a.\"b c\"[0]", Some("5")),
            ("$.a.\"b c\"[-1].d", Some("6")),
            ("$.a.\"b c\"[#-1].d", Some("6")),
            ("$.a.\"b c\"[2]", None),
            ("$.a[0]", None),
            ("/a/b c/1/d", Some("6")),
            ("/0", Some("9")),
            ("a/b", None),
            ("$.\"$\"", Some("8")),
        ] {
            assert_eq!(find(document, &parse(path).unwrap()), value, "{path}");
        }
        let lists = r#"{"a": [{"b": 1}, {"c": 2}, {"b": 3}]}"#;
        assert_eq!(find_all(lists, &parse("$.a[*].b").unwrap()), ["1", "3"]);
        assert_eq!(find_all(lists, &parse("$.a[*].*").unwrap()), ["1", "2", "3"]);
        assert_eq!(find_all(lists, &parse("$.x[*]").unwrap()), Vec::<&str>::new());
        for (path, said) in [("$a", "a dot"), ("$[x]", "whole"), ("$.", "key")] {
            let error = parse(path).unwrap_err().to_string();
            assert!(error.contains(said), "{path}: {error}");
        }
    }
}
