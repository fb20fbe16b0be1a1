//! Splits input lines into statements and commands, with a small lexer that finds the end of a
//! statement and recognizes only quotes and comments.

/// The state of the lexer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Between statements: only whitespace and comments so far.
    Empty,
    /// In a statement.
    Statement,
    /// After the `;` that ended the last statement.
    Complete,
    /// In a string, a quoted name, or a comment.
    Inside(Inside),
}

/// What must be closed before a `;` counts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Inside {
    /// `'…'`
    Text,
    /// `"…"`
    Name,
    /// `/* … */`, nested this deeply
    Comment(u32),
}

/// The state of the lexer at the end of `text`.
pub fn state(text: &str) -> State {
    text.split_inclusive('\n').fold(Lexer::default(), Lexer::fed).state
}

/// The state of the lexer between two lines.
#[derive(Clone, Copy, Debug)]
pub struct Lexer {
    /// The state at the end of what was read.
    pub state: State,
    /// The state to return to after the open comment.
    before_comment: State,
}

impl Default for Lexer {
    fn default() -> Self {
        Self { state: State::Empty, before_comment: State::Empty }
    }
}

impl Lexer {
    /// Reads another `line`, including its line end.
    #[must_use]
    pub fn fed(self, line: &str) -> Self {
        let Self { mut state, mut before_comment } = self;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            let next = chars.peek().copied();
            state = match state {
                // A doubled quote ends the string and starts it again, which leaves the state
                // unchanged.
                State::Inside(Inside::Text) if c == '\'' => State::Statement,
                State::Inside(Inside::Name) if c == '"' => State::Statement,
                State::Inside(Inside::Text | Inside::Name) => state,
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
                    ('-', Some('-')) => break,
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
        Self { state, before_comment }
    }
}

/// A unit of input that a line has completed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Unit {
    /// Statements, each with its semicolon, except that the last one of a script may lack it.
    Sql {
        /// The text of the statements.
        text: String,
        /// Number of lines before the first of them.
        lines_before: usize,
    },
    /// A command of the shell.
    Command(String),
}

/// Collects lines until they form statements or commands.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    /// The lines of the open statement.
    pub pending: String,
    lexer: Lexer,
    lines_before: usize,
    lines: usize,
}

impl Lines {
    /// True if no statement is open.
    pub fn is_empty(&self) -> bool {
        self.lexer.state == State::Empty
    }

    /// The state in which the next line begins.
    pub fn state(&self) -> State {
        self.lexer.state
    }

    /// Whether the next line begins inside quotes or a comment.
    fn is_inside(&self) -> bool {
        matches!(self.lexer.state, State::Inside(_))
    }

    /// Replaces the open statement.
    pub fn set(&mut self, pending: String) {
        self.lexer = pending.split_inclusive('\n').fold(Lexer::default(), Lexer::fed);
        self.pending = pending;
        self.lines_before = self.lines;
    }

    /// Removes and returns the open statement.
    pub fn take(&mut self) -> String {
        let taken = std::mem::take(&mut self.pending);
        self.set(String::new());
        taken
    }

    /// Adds a line. Returns the command in this line, or the statements that it completes, if any.
    ///
    /// A backslash at the start of a line begins a command, unless the line is inside of quotes or
    /// a comment. A statement that is open stays open.
    pub fn push(&mut self, line: &str) -> Option<Unit> {
        self.lines += 1;
        let is_command = match self.is_empty() {
            true => is_command(line),
            false => !self.is_inside() && line.trim_start().starts_with('\\'),
        };
        if is_command {
            // An empty line takes the place of the command, so that line numbers stay right.
            match self.is_empty() {
                true => self.set(String::new()),
                false => self.pending.push('\n'),
            }
            return Some(Unit::Command(line.trim().to_owned()));
        }
        self.pending.push_str(line);
        self.pending.push('\n');
        self.lexer = self.lexer.fed(line).fed("\n");
        matches!(self.lexer.state, State::Complete).then(|| self.finish()).flatten()
    }

    /// Returns the remaining statements, the last of which may lack its semicolon.
    pub fn finish(&mut self) -> Option<Unit> {
        let lines_before = self.lines_before;
        let text = self.take();
        (state(&text) != State::Empty).then_some(Unit::Sql { text, lines_before })
    }
}

/// Splits a script into statements and commands, in order. The statements between two commands form
/// one unit.
pub fn units(script: &str) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut lines = Lines::default();
    for line in script.lines() {
        add(&mut units, lines.push(line));
    }
    add(&mut units, lines.finish());
    units
}

/// Adds a unit. Statements are appended to the unit of statements before them.
fn add(units: &mut Vec<Unit>, unit: Option<Unit>) {
    let Some(unit) = unit else { return };
    if let Unit::Sql { text, .. } = &unit
        && let Some(Unit::Sql { text: before, .. }) = units.last_mut()
    {
        before.push_str(text);
        return;
    }
    units.push(unit);
}

/// Words that are commands even without a backslash.
const WORDS: [&str; 3] = ["quit", "exit", "help"];

/// Whether the text is a command of the shell, which ends with its line: `\d`, `quit`, or `.tables`
/// as in other shells.
fn is_command(text: &str) -> bool {
    let text = text.trim();
    let is_dotted = || {
        let mut chars = text.chars();
        chars.next() == Some('.') && chars.next().is_some_and(|c| c.is_ascii_alphabetic())
    };
    text.starts_with('\\')
        || is_dotted()
        || WORDS.iter().any(|word| text.trim_end_matches(';').eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_complete(text: &str) -> bool {
        is_command(text) || matches!(state(text), State::Empty | State::Complete)
    }

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

    #[test]
    fn lines_become_statements_and_commands() {
        let sql = |text: &str, lines_before| Unit::Sql { text: text.to_owned(), lines_before };
        let command = |text: &str| Unit::Command(text.to_owned());
        let script =
            "\\timing on\n-- first\nselect 1;\nselect 2; select\n  \\x\n3;\nselect '\n\\x\n';\n.tables\nselect 4";
        let expected = [
            command("\\timing on"),
            // The open statement stays open while the command runs.
            sql("-- first\nselect 1;\n", 1),
            command("\\x"),
            sql("select 2; select\n\n3;\nselect '\n\\x\n';\n", 3),
            command(".tables"),
            sql("select 4\n", 10),
        ];
        assert_eq!(units(script), expected);
        assert_eq!(units("-- nothing\n\n"), []);
    }
}
