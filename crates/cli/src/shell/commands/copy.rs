//! `\copy`, as in psql. The shell and the engine are one program here, so it becomes COPY or
//! INSERT.

use anyhow::Result;
use pushdowndb_contract::Error;

use super::arguments::quoted_for_sql;

/// Returns the statement for `\copy` with this argument: `TABLE TO FILE`, `(QUERY) TO FILE`, or
/// `TABLE [(COLUMNS)] FROM FILE`. Quotes around the file are optional.
pub fn statement(argument: &str) -> Result<String> {
    let wrong = || {
        let message =
            "\\copy takes TABLE TO FILE, (QUERY) TO FILE or TABLE FROM FILE, as in \\copy (SELECT 1) TO out.csv";
        anyhow::Error::from(Error::invalid(message))
    };
    let (at, word) = direction(argument).ok_or_else(wrong)?;
    let subject = argument.get(..at).unwrap_or_default().trim();
    let rest = argument.get(at + word.len()..).unwrap_or_default().trim();
    let (file, options) = file(rest).ok_or_else(wrong)?;
    if subject.is_empty() {
        return Err(wrong());
    }
    let file = quoted_for_sql(&file);
    match word.eq_ignore_ascii_case("TO") {
        true => Ok(format!("COPY {subject} TO {file} {options}").trim_end().to_owned()),
        false if subject.starts_with('(') => Err(wrong()),
        false if options.is_empty() => Ok(format!("INSERT INTO {subject} SELECT * FROM {file}")),
        false => Ok(format!("COPY {subject} FROM {file} {options}")),
    }
}

/// The first word TO or FROM outside of parentheses and quotes, and its position.
fn direction(text: &str) -> Option<(usize, &str)> {
    let (mut depth, mut quote, mut start) = (0_usize, None, None);
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        if let Some(open) = quote {
            quote = Some(open).filter(|open| *open != c);
            continue;
        }
        if c.is_alphanumeric() || c == '_' {
            start.get_or_insert(at);
            continue;
        }
        if let Some(word) = start.take().filter(|_| depth == 0).and_then(|from| Some((from, text.get(from..at)?)))
            && ["TO", "FROM"].iter().any(|known| word.1.eq_ignore_ascii_case(known))
        {
            return Some(word);
        }
        match c {
            '\'' | '"' => quote = Some(c),
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The file at the beginning of `text`, and the rest of `text`.
fn file(text: &str) -> Option<(String, &str)> {
    let (file, rest) = match text.strip_prefix('\'') {
        Some(quoted) => {
            let end = quoted.find('\'')?;
            (quoted.get(..end)?, quoted.get(end + 1..)?)
        }
        None => text.split_once(char::is_whitespace).unwrap_or((text, "")),
    };
    (!file.is_empty()).then(|| (file.to_owned(), rest.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_becomes_a_statement() {
        for (argument, expected) in [
            ("t TO out.csv", "COPY t TO 'out.csv'"),
            (
                "(SELECT 'a to b' FROM (SELECT 1) x) to 's3://b/o.parquet'",
                "COPY (SELECT 'a to b' FROM (SELECT 1) x) TO 's3://b/o.parquet'",
            ),
            ("t TO 'a b.csv' STORED AS CSV", "COPY t TO 'a b.csv' STORED AS CSV"),
            ("t from in.csv", "INSERT INTO t SELECT * FROM 'in.csv'"),
            ("t (a, b) FROM 'in.csv'", "INSERT INTO t (a, b) SELECT * FROM 'in.csv'"),
        ] {
            assert_eq!(statement(argument).unwrap(), expected, "{argument}");
        }
        for argument in ["", "t", "t TO", "TO x.csv", "(SELECT 1) FROM x.csv"] {
            assert!(statement(argument).is_err(), "{argument}");
        }
    }
}
