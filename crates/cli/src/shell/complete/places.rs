//! Files and objects that a statement names.

use std::path::Path;

use crate::shell::input::{Inside, State, state};

/// Maximum entries of a local folder that are read.
const MAX_ENTRIES: usize = 10_000;

/// The contents of the string that is still open at the end of `line`, which follows the lines
/// `pending`.
pub fn open_text<'a>(pending: &str, line: &'a str) -> Option<&'a str> {
    let before = format!("{pending}{line}");
    if state(&before) != State::Inside(Inside::Text) {
        return None;
    }
    line.rfind('\'').and_then(|at| line.get(at + 1..))
}

/// The strings of a statement that look like files.
pub fn addresses(statement: &str) -> Vec<&str> {
    let looks_like_one = |text: &&str| text.contains('/') || Path::new(text).extension().is_some();
    statement.split('\'').skip(1).step_by(2).filter(looks_like_one).collect()
}

/// The names in a local folder; folders end with `/`.
pub fn local(folder: &str) -> Vec<String> {
    let path = match folder.strip_prefix("~/").and_then(|rest| Some(dirs::home_dir()?.join(rest))) {
        Some(path) => path,
        None if folder.is_empty() => ".".into(),
        None => folder.into(),
    };
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let mut names: Vec<String> = entries
        .flatten()
        .take(MAX_ENTRIES)
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            // Links to folders are followed.
            let is_folder = entry.path().is_dir();
            Some(if is_folder { format!("{name}/") } else { name })
        })
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_are_open_are_places() {
        assert_eq!(open_text("", "select * from 'data/ta"), Some("data/ta"));
        assert_eq!(open_text("select 'a'\n", "from '"), Some(""));
        assert_eq!(open_text("", "select 'a' from t"), None);
        assert_eq!(open_text("", "select \"it's"), None);
    }

    #[test]
    fn files_of_a_statement_are_found() {
        let statement = "select 'x' from 's3://b/t/' join 'a.csv' on 'y'";
        assert_eq!(addresses(statement), ["s3://b/t/", "a.csv"]);
    }
}
