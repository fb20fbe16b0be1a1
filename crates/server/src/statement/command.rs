//! Statements that the session answers itself.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::copy::CopyOut;
use super::words::Words;
use crate::error::{PgError, code};

/// A statement, classified by what the session has to do for it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    Begin,
    Commit,
    Rollback,
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    /// SET; `None` is the default value.
    Set {
        name: String,
        value: Option<String>,
        is_local: bool,
    },
    /// RESET of one setting; `None` is all.
    Reset(Option<String>),
    Show(String),
    ShowAll,
    ShowQueries,
    Kill {
        pid: i32,
        and_end: bool,
    },
    DiscardAll,
    Prepare {
        name: String,
        query: String,
    },
    Execute {
        name: String,
        values: Vec<Option<String>>,
    },
    /// DEALLOCATE of one prepared statement; `None` is all.
    Deallocate(Option<String>),
    /// DECLARE of a cursor; `is_held` says whether it stays open after the transaction.
    Declare {
        name: String,
        query: String,
        is_held: bool,
    },
    /// FETCH from a cursor; `None` is all rows.
    Fetch {
        name: String,
        count: Option<u64>,
    },
    Move {
        name: String,
        count: Option<u64>,
    },
    /// CLOSE of one cursor; `None` is all.
    CloseCursor(Option<String>),
    Copy(CopyOut),
    /// A statement that has no effect here and does no harm. It is answered with this command tag.
    Ignored(&'static str),
    /// A statement for the engine.
    Query,
}

impl Command {
    /// Parses a statement.
    ///
    /// # Errors
    ///
    /// A statement for the session is malformed, or requests something that is not supported.
    pub fn parse(sql: &str) -> Result<Self, PgError> {
        let mut words = Words::new(sql);
        let first = match words.clone().keyword() {
            Some(first) => first,
            None => return Ok(Self::Query),
        };
        let read: fn(&mut Words) -> Option<Self> = match first.as_str() {
            "BEGIN" | "START" => begin,
            "COMMIT" | "END" => commit,
            "ROLLBACK" | "ABORT" => rollback,
            "SAVEPOINT" => |words| words.takes("SAVEPOINT").then(|| words.name()).flatten().map(Self::Savepoint),
            "RELEASE" => |words| {
                let _ = words.takes("RELEASE") && words.takes("SAVEPOINT");
                words.name().map(Self::Release)
            },
            "SET" => set,
            "RESET" => reset,
            "SHOW" => show,
            "KILL" => kill,
            "DISCARD" => discard,
            "PREPARE" => prepare,
            "EXECUTE" => execute,
            "DEALLOCATE" => deallocate,
            "DECLARE" => declare,
            "FETCH" => |words| fetch(words).map(|(name, count)| Self::Fetch { name, count }),
            "MOVE" => |words| fetch(words).map(|(name, count)| Self::Move { name, count }),
            "CLOSE" => |words| {
                words.takes("CLOSE");
                let is_all = words.takes("ALL");
                if is_all {
                    Some(Self::CloseCursor(None))
                } else {
                    words.name().map(|name| Self::CloseCursor(Some(name)))
                }
            },
            "COPY" => return CopyOut::parse(&mut words).map(|copy| copy.map_or(Self::Query, Self::Copy)),
            "LISTEN" => |words| ignored(words, "LISTEN"),
            "UNLISTEN" => |words| ignored(words, "UNLISTEN"),
            "NOTIFY" => |words| ignored(words, "NOTIFY"),
            "CHECKPOINT" => |words| ignored(words, "CHECKPOINT"),
            _ => return Ok(Self::Query),
        };
        let found = read(&mut words).filter(|found| *found == Self::Query || words.is_end());
        found.ok_or_else(|| PgError::new(code::SYNTAX, format!("this is not how {first} is written: {}", sql.trim())))
    }
}

fn ignored(words: &mut Words, tag: &'static str) -> Option<Command> {
    words.rest();
    Some(Command::Ignored(tag))
}

fn begin(words: &mut Words) -> Option<Command> {
    words.keyword();
    // Skips the transaction modes, which do not matter: no write of a transaction is ever hidden
    // from others.
    words.rest();
    Some(Command::Begin)
}

fn work(words: &mut Words) {
    let _ = words.takes("WORK") || words.takes("TRANSACTION");
}

fn commit(words: &mut Words) -> Option<Command> {
    words.keyword();
    work(words);
    words.takes_all(&["AND", "NO", "CHAIN"]);
    Some(Command::Commit)
}

fn rollback(words: &mut Words) -> Option<Command> {
    words.keyword();
    work(words);
    if words.takes("TO") {
        words.takes("SAVEPOINT");
        return words.name().map(Command::RollbackTo);
    }
    words.takes_all(&["AND", "NO", "CHAIN"]);
    Some(Command::Rollback)
}

fn set(words: &mut Words) -> Option<Command> {
    words.takes("SET");
    let is_local = words.takes("LOCAL");
    if words.takes("TRANSACTION") || words.takes_all(&["SESSION", "CHARACTERISTICS"]) || words.takes("CONSTRAINTS") {
        words.rest();
        return Some(Command::Ignored("SET"));
    }
    words.takes("SESSION");
    if words.takes_all(&["TIME", "ZONE"]) {
        words.takes("INTERVAL");
        let value = words.value()?;
        let is_default = ["local", "default"].contains(&value.to_ascii_lowercase().as_str());
        return Some(Command::Set { name: "timezone".to_owned(), value: (!is_default).then_some(value), is_local });
    }
    if words.takes("NAMES") {
        return Some(Command::Set { name: "client_encoding".to_owned(), value: words.value(), is_local });
    }
    if words.takes("ROLE") || words.takes("AUTHORIZATION") {
        let value = words.value()?;
        return Some(Command::Set { name: "role".to_owned(), value: Some(value), is_local });
    }
    let name = words.dotted_name()?;
    if !words.takes_mark(&Token::Eq) && !words.takes("TO") {
        return None;
    }
    if words.takes("DEFAULT") {
        return Some(Command::Set { name, value: None, is_local });
    }
    let mut value = words.value()?;
    while words.takes_mark(&Token::Comma) {
        value = format!("{value}, {}", words.value()?);
    }
    // Skips a unit or suffix of the value, as in `5 s`.
    Some(Command::Set { name, value: Some(value), is_local })
}

fn reset(words: &mut Words) -> Option<Command> {
    words.takes("RESET");
    if words.takes("ALL") {
        return Some(Command::Reset(None));
    }
    if words.takes_all(&["TIME", "ZONE"]) {
        return Some(Command::Reset(Some("timezone".to_owned())));
    }
    if words.takes_all(&["SESSION", "AUTHORIZATION"]) {
        return Some(Command::Ignored("RESET"));
    }
    words.dotted_name().map(|name| Command::Reset(Some(name)))
}

fn show(words: &mut Words) -> Option<Command> {
    words.takes("SHOW");
    if words.takes("QUERIES") {
        return Some(Command::ShowQueries);
    }
    if words.takes_all(&["TIME", "ZONE"]) {
        return Some(Command::Show("timezone".to_owned()));
    }
    if words.takes_all(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
        return Some(Command::Show("transaction_isolation".to_owned()));
    }
    if words.takes("ALL") {
        return Some(Command::ShowAll);
    }
    match words.clone().keyword()?.as_str() {
        // These are statements for the engine.
        "TABLES" | "COLUMNS" | "FUNCTIONS" | "INDEXES" | "DATABASES" | "SCHEMAS" | "VIEWS" => Some(Command::Query),
        _ => words.dotted_name().map(Command::Show),
    }
}

fn kill(words: &mut Words) -> Option<Command> {
    words.takes("KILL");
    let and_end = words.takes("CONNECTION");
    let _ = and_end || words.takes("QUERY");
    let pid = i32::try_from(words.integer()?).ok()?;
    Some(Command::Kill { pid, and_end })
}

fn discard(words: &mut Words) -> Option<Command> {
    words.takes("DISCARD");
    match words.keyword()?.as_str() {
        "ALL" => Some(Command::DiscardAll),
        "PLANS" => Some(Command::Ignored("DISCARD PLANS")),
        "SEQUENCES" => Some(Command::Ignored("DISCARD SEQUENCES")),
        "TEMP" | "TEMPORARY" => Some(Command::Ignored("DISCARD TEMP")),
        _ => None,
    }
}

fn prepare(words: &mut Words) -> Option<Command> {
    words.takes("PREPARE");
    let name = words.name()?;
    // Skips the types of the parameters, which are inferred from the statement.
    words.parenthesized();
    if !words.takes("AS") {
        return None;
    }
    let query = words.rest();
    Some(Command::Prepare { name, query })
}

fn execute(words: &mut Words) -> Option<Command> {
    words.takes("EXECUTE");
    let name = words.name()?;
    let mut values = Vec::new();
    if words.takes_mark(&Token::LParen) {
        while !words.takes_mark(&Token::RParen) {
            if !values.is_empty() && !words.takes_mark(&Token::Comma) {
                return None;
            }
            values.push(if words.takes("NULL") { None } else { Some(words.value()?) });
        }
    }
    Some(Command::Execute { name, values })
}

fn deallocate(words: &mut Words) -> Option<Command> {
    words.takes("DEALLOCATE");
    words.takes("PREPARE");
    if words.takes("ALL") {
        return Some(Command::Deallocate(None));
    }
    words.name().map(|name| Command::Deallocate(Some(name)))
}

fn declare(words: &mut Words) -> Option<Command> {
    words.takes("DECLARE");
    let name = words.name()?;
    // Skips options: rows are read forward only, whatever they say.
    for option in ["BINARY", "ASENSITIVE", "INSENSITIVE", "NO", "SCROLL"] {
        words.takes(option);
    }
    if !words.takes("CURSOR") {
        return None;
    }
    let is_held = words.takes_all(&["WITH", "HOLD"]);
    words.takes_all(&["WITHOUT", "HOLD"]);
    if !words.takes("FOR") {
        return None;
    }
    let query = words.rest();
    Some(Command::Declare { name, query, is_held })
}

fn fetch(words: &mut Words) -> Option<(String, Option<u64>)> {
    words.keyword();
    words.takes("FORWARD");
    let count = if words.takes("ALL") {
        None
    } else if words.takes("NEXT") {
        Some(1)
    } else {
        match words.peek() {
            Some(Token::Number(..)) => Some(u64::try_from(words.integer()?).ok()?),
            _ => Some(1),
        }
    };
    let _ = words.takes("FROM") || words.takes("IN");
    words.name().map(|name| (name, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(sql: &str) -> Command {
        Command::parse(sql).unwrap()
    }

    #[test]
    fn statements_of_the_session_are_found() {
        let set = |name: &str, value: &str| Command::Set {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            is_local: false,
        };
        assert_eq!(parsed("begin transaction isolation level repeatable read, read only"), Command::Begin);
        assert_eq!(parsed("START TRANSACTION READ ONLY"), Command::Begin);
        assert_eq!(parsed("end"), Command::Commit);
        assert_eq!(parsed("ROLLBACK TO SAVEPOINT \"S 1\""), Command::RollbackTo("S 1".to_owned()));
        assert_eq!(parsed("SET extra_float_digits = 3"), set("extra_float_digits", "3"));
        assert_eq!(parsed("SET search_path TO a, \"B\""), set("search_path", "a, B"));
        assert_eq!(parsed("SET pushdown.level = 'none';"), set("pushdown.level", "none"));
        assert_eq!(parsed("SET TIME ZONE 'Europe/Berlin'"), set("timezone", "Europe/Berlin"));
        assert_eq!(parsed("set session characteristics as transaction read only"), Command::Ignored("SET"));
        assert_eq!(parsed("SHOW transaction isolation level"), Command::Show("transaction_isolation".to_owned()));
        assert_eq!(parsed("show tables"), Command::Query);
        assert_eq!(parsed("KILL CONNECTION 7"), Command::Kill { pid: 7, and_end: true });
        assert_eq!(parsed("FETCH FORWARD 100 FROM c"), Command::Fetch { name: "c".to_owned(), count: Some(100) });
        let declared = parsed("DECLARE \"c\" NO SCROLL CURSOR WITHOUT HOLD FOR SELECT 'x'");
        let (name, query) = ("c".to_owned(), "SELECT 'x'".to_owned());
        assert_eq!(declared, Command::Declare { name, query, is_held: false });
        let executed = Command::Execute { name: "p".to_owned(), values: vec![Some("-1".to_owned()), None] };
        assert_eq!(parsed("EXECUTE p(-1, NULL)"), executed);
        assert_eq!(parsed("DISCARD ALL"), Command::DiscardAll);
        assert_eq!(parsed("-- note\nSELECT 1"), Command::Query);
        assert_eq!(parsed("(SELECT 1)"), Command::Query);
    }

    #[test]
    fn malformed_ones_are_refused() {
        for sql in ["SET x", "KILL", "KILL x", "FETCH", "DECLARE c FOR SELECT 1", "COMMIT now", "PREPARE p SELECT 1"] {
            assert_eq!(Command::parse(sql).unwrap_err().code, code::SYNTAX, "{sql}");
        }
    }
}
