//! A small lexer for the end of a statement, which knows only quotes and comments.

/// The state of the lexer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Between statements: nothing but space and comments so far.
    Empty,
    /// In a statement.
    Statement,
    /// After the `;` that ended the last statement.
    Complete,
    /// In a quoted text, a quoted name, or a comment.
    Inside(Inside),
}

/// The construct that must be closed before a `;` counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Inside {
    /// `'…'`
    Text,
    /// `"…"`
    Name,
    /// `/* … */`, this deep
    Comment(u32),
}

/// The state at the end of the text.
pub fn state(text: &str) -> State {
    let mut state = State::Empty;
    let mut before_comment = state;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = chars.peek().copied();
        state = match state {
            // A doubled quote closes and opens again, which comes to the same.
            State::Inside(Inside::Text) => {
                if c == '\'' {
                    State::Statement
                } else {
                    state
                }
            }
            State::Inside(Inside::Name) => {
                if c == '"' {
                    State::Statement
                } else {
                    state
                }
            }
            State::Inside(Inside::Comment(depth)) => match (c, next) {
                ('*', Some('/')) => {
                    chars.next();
                    if depth > 1 { State::Inside(Inside::Comment(depth - 1)) } else { before_comment }
                }
                ('/', Some('*')) => {
                    chars.next();
                    State::Inside(Inside::Comment(depth + 1))
                }
                _ => state,
            },
            State::Empty | State::Statement | State::Complete => match (c, next) {
                ('-', Some('-')) => {
                    for skipped in chars.by_ref() {
                        if skipped == '\n' {
                            break;
                        }
                    }
                    state
                }
                ('/', Some('*')) => {
                    chars.next();
                    before_comment = state;
                    State::Inside(Inside::Comment(1))
                }
                ('\'', _) => State::Inside(Inside::Text),
                ('"', _) => State::Inside(Inside::Name),
                (';', _) if state == State::Statement => State::Complete,
                (';', _) => state,
                (c, _) if c.is_whitespace() => state,
                _ => State::Statement,
            },
        };
    }
    state
}

/// Words that are commands though they have no backslash, as people type them.
pub const WORDS: [&str; 3] = ["quit", "exit", "help"];

/// True if the text is one of the shell's own commands, which end with their line.
pub fn is_command(text: &str) -> bool {
    let text = text.trim();
    text.starts_with('\\') || WORDS.iter().any(|word| text.trim_end_matches(';').eq_ignore_ascii_case(word))
}

/// True if the text can be run: a command, or statements of which the last is closed by `;`.
pub fn is_complete(text: &str) -> bool {
    is_command(text) || matches!(state(text), State::Empty | State::Complete)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_end_at_their_semicolon() {
        for complete in [
            "select 1;",
            "select ';';",
            "select 1; -- done",
            "select 1; /* done */ ",
            "select 1; select 2;",
            "select 'it''s;';",
            "select \"a;b\";",
            "/* a /* b */ ; */ select 1;",
            "",
            "-- nothing",
            "\\d lineitem",
            "quit",
            "EXIT;",
            "select 1 -- ; not here\n;",
        ] {
            assert!(is_complete(complete), "{complete}");
        }
        for open in [
            "select 1",
            "select ';",
            "select \";",
            "select 1 -- ;",
            "select 1 /* ;",
            "select 1; select 2",
            "select 1; /* still",
            "select 'it''s;",
            "quit now",
        ] {
            assert!(!is_complete(open), "{open}");
        }
    }
}
