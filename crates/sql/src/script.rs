//! Scripts: SQL text that comes line by line, divided into statements; and what a statement needs of a store.

use datafusion::sql::sqlparser::ast::Statement as SqlStatement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// Divides text into statements at semicolons that are not in quotes or comments. A line that begins with a
/// backslash between two statements is a statement by itself.
#[derive(Debug, Default)]
pub struct Script {
    /// Text since the last complete statement, from `start` on.
    pending: String,
    start: usize,
    /// How much of that text was looked at, in bytes, and the state there.
    scanned: usize,
    state: State,
}

/// Where in the text the scan is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Plain,
    /// In a quoted text or name that this character ends.
    Quoted(char),
    /// In an escape string, `E'...'`: a backslash takes its next character into the text.
    Escaped,
    /// In a text between two of these tags, such as `$$` or `$tag$`.
    Dollar(String),
    LineComment,
    /// In so many nested comments.
    BlockComment(u32),
}

impl State {
    /// Whether what `rest` begins with depends on text that has not come yet.
    fn needs_more(&self, rest: &str) -> bool {
        match self {
            State::Plain => match rest.strip_prefix('$') {
                // It may become the tag of a quoted text.
                Some(name) => name.chars().all(|letter| letter.is_alphanumeric() || letter == '_'),
                None => matches!(rest, "-" | "/"),
            },
            State::Dollar(tag) => rest.len() < tag.len() && tag.starts_with(rest),
            State::BlockComment(_) => matches!(rest, "/" | "*"),
            // A quote may be doubled.
            State::Escaped => matches!(rest, "\\" | "'"),
            State::Quoted(_) | State::LineComment => false,
        }
    }
}

/// The words of a statement, without the comments before it.
pub(crate) fn words(statement: &str) -> impl Iterator<Item = &str> {
    let is_between = |letter: char| !letter.is_alphanumeric() && letter != '_';
    without_comments(statement).split(is_between).filter(|word| !word.is_empty())
}

/// What a statement needs of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// To read, at most.
    Reading,
    /// Nothing of what is not there: it drops what may be missing.
    Nothing,
    /// A table to be, which may be the first.
    Creating,
    /// To write to what is there.
    Writing,
}

/// What a statement needs of a store, as far as its words tell; of one that cannot be parsed, to write.
#[must_use]
pub fn need(statement: &str) -> Need {
    let word: String = words(statement).next().unwrap_or_default().to_lowercase();
    if without_comments(statement).starts_with('\\') || READING.contains(&word.as_str()) {
        return Need::Reading;
    }
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, statement).unwrap_or_default();
    match &parsed[..] {
        [SqlStatement::CreateTable(_)] => Need::Creating,
        [SqlStatement::Drop { if_exists: true, .. }] => Need::Nothing,
        [SqlStatement::Copy { to: true, .. }] => Need::Reading,
        _ => Need::Writing,
    }
}

/// Why a statement cannot be parsed, if it cannot.
#[must_use]
pub fn syntax_error(statement: &str) -> Option<String> {
    let parsed = Parser::parse_sql(&PostgreSqlDialect {}, statement);
    parsed.err().map(|error| error.to_string())
}

/// Words that statements begin with that only read.
const READING: [&str; 8] =
    ["select", "with", "values", "explain", "show", "describe", "desc", "table"];

impl Script {
    /// An empty script.
    #[must_use]
    pub fn new() -> Script {
        Script::default()
    }

    /// Adds text, usually a line with its end; gives the statements that it completes, without their semicolons.
    pub fn push(&mut self, text: &str) -> Vec<String> {
        self.pending.push_str(text);
        let mut statements = Vec::new();
        while let Some(statement) = self.next_statement() {
            if !is_empty(&statement) {
                statements.push(statement);
            }
        }
        // Once for all of them: a line may have many.
        self.pending.drain(..self.start);
        self.start = 0;
        statements
    }

    fn text(&self) -> &str {
        self.pending.get(self.start..).unwrap_or_default()
    }

    /// The text at the end of the script, which needs no semicolon.
    pub fn rest(&mut self) -> Vec<String> {
        let Script { pending, .. } = std::mem::take(self);
        if is_empty(&pending) { Vec::new() } else { vec![pending.trim().to_owned()] }
    }

    /// The text of the statement that is not complete.
    #[must_use]
    pub fn pending(&self) -> &str {
        self.text()
    }

    /// Whether no statement is begun.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.state == State::Plain && is_empty(self.text())
    }

    fn next_statement(&mut self) -> Option<String> {
        if self.scanned == 0 {
            self.start += self.text().len() - self.text().trim_start().len();
            let begins = self.text().len() - without_comments(self.text()).len();
            if self.text().get(begins..).is_some_and(|rest| rest.starts_with('\\')) {
                self.start += begins;
                let end = self.text().find('\n')?;
                return Some(self.take(end));
            }
        }
        let end = self.scan()?;
        Some(self.take(end))
    }

    /// Takes `end` bytes as a statement, and leaves out the byte behind it.
    fn take(&mut self, end: usize) -> String {
        let statement = self.text().get(..end).unwrap_or_default().trim().to_owned();
        self.start = (self.start + end + 1).min(self.pending.len());
        (self.scanned, self.state) = (0, State::Plain);
        statement
    }

    /// Goes on to the semicolon that ends the statement, or to the end of the text.
    fn scan(&mut self) -> Option<usize> {
        let mut at = self.scanned;
        while let Some(rest) = self.pending.get(self.start + at..) {
            let Some(letter) = rest.chars().next() else { break };
            if self.state.needs_more(rest) {
                break;
            }
            let mut step = letter.len_utf8();
            match &mut self.state {
                State::Plain => match letter {
                    ';' => return Some(at),
                    '\'' if follows_escape(
                        self.pending.get(self.start..self.start + at).unwrap_or_default(),
                    ) =>
                    {
                        self.state = State::Escaped;
                    }
                    '\'' | '"' | '`' => self.state = State::Quoted(letter),
                    '-' if rest.starts_with("--") => self.state = State::LineComment,
                    '/' if rest.starts_with("/*") => {
                        self.state = State::BlockComment(1);
                        step = 2;
                    }
                    '$' => {
                        if let Some(tag) = dollar_tag(rest) {
                            step = tag.len();
                            self.state = State::Dollar(tag.to_owned());
                        }
                    }
                    _ => {}
                },
                // A doubled quote ends the text and begins another: for the scan that is the same.
                State::Quoted(quote) if *quote == letter => self.state = State::Plain,
                State::Quoted(_) => {}
                State::Escaped => match letter {
                    '\\' => {
                        let next = rest.chars().nth(1);
                        step += next.map_or(0, char::len_utf8);
                    }
                    '\'' if rest.starts_with("''") => step = 2,
                    '\'' => self.state = State::Plain,
                    _ => {}
                },
                State::Dollar(tag) => {
                    if rest.starts_with(tag.as_str()) {
                        step = tag.len();
                        self.state = State::Plain;
                    }
                }
                State::LineComment if letter == '\n' => self.state = State::Plain,
                State::LineComment => {}
                State::BlockComment(depth) => {
                    if rest.starts_with("/*") {
                        *depth += 1;
                        step = 2;
                    } else if rest.starts_with("*/") {
                        step = 2;
                        *depth -= 1;
                        if *depth == 0 {
                            self.state = State::Plain;
                        }
                    }
                }
            }
            at += step;
        }
        self.scanned = at;
        None
    }
}

/// Whether text ends with the `E` of an escape string, which is not the end of a name.
fn follows_escape(text: &str) -> bool {
    let mut before = text.chars().rev();
    let is_name = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
    matches!(before.next(), Some('e' | 'E')) && !before.next().is_some_and(is_name)
}

/// The tag that a dollar-quoted text begins with: `$$`, or `$name$`.
fn dollar_tag(text: &str) -> Option<&str> {
    let inner = text.strip_prefix('$')?;
    let end = inner.find('$')?;
    let name = inner.get(..end)?;
    let is_name = !name.starts_with(|letter: char| letter.is_ascii_digit())
        && name.chars().all(|letter| letter.is_alphanumeric() || letter == '_');
    if is_name { text.get(..end + 2) } else { None }
}

/// Whether nothing but spaces and comments is there.
fn is_empty(text: &str) -> bool {
    without_comments(text).is_empty()
}

/// The text from its first word on, after spaces and comments.
fn without_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        if let Some(comment) = rest.strip_prefix("--") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after).trim_start();
        } else if let Some(comment) = rest.strip_prefix("/*") {
            match comment.split_once("*/") {
                Some((inner, after)) if !inner.contains("/*") => rest = after.trim_start(),
                // A comment in a comment, or one that does not end: the parser judges.
                _ => return rest,
            }
        } else {
            return rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The statements of `text`, however it is cut into pieces.
    fn check(text: &str, expected: &[&str]) {
        for piece in [1, 2, 7, text.len().max(1)] {
            let mut script = Script::new();
            let mut found = Vec::new();
            let letters: Vec<char> = text.chars().collect();
            for part in letters.chunks(piece) {
                found.extend(script.push(&part.iter().collect::<String>()));
            }
            found.extend(script.rest());
            assert_eq!(found, expected, "{text:?} in pieces of {piece}");
        }
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes_and_comments() {
        check("select 1; select 2;", &["select 1", "select 2"]);
        check(
            "select ';', \"a;b\", 'it''s;'; select 2",
            &["select ';', \"a;b\", 'it''s;'", "select 2"],
        );
        check("select 1\n  + 2;\n", &["select 1\n  + 2"]);
        check(";;\n;", &[]);
        check("", &[]);
        check("select $$a;b$$; x", &["select $$a;b$$", "x"]);
        check("select $1; y", &["select $1", "y"]);
    }

    #[test]
    fn backslashes_take_quotes_into_escape_strings_alone() {
        let text = r"insert into log values (E'it\'s; delete from t; --'); select 2";
        check(text, &[r"insert into log values (E'it\'s; delete from t; --')", "select 2"]);
        check(r"select e'a\\'; x", &[r"select e'a\\'", "x"]);
        check(r"select e'a''\';b'; x", &[r"select e'a''\';b'", "x"]);
        check(r"select 'a\'; x", &[r"select 'a\'", "x"]);
        check(r"select type'a\'; x", &[r"select type'a\'", "x"]);
        check("select e'x'", &["select e'x'"]);
    }

    #[test]
    fn comments_hold_no_statements() {
        check("-- first; not\nselect 1;", &["-- first; not\nselect 1"]);
        check(
            "select /* a; /* b; */ c; */ 1; select 2",
            &["select /* a; /* b; */ c; */ 1", "select 2"],
        );
        check("select 1; -- the end", &["select 1"]);
        check("/* nothing */", &[]);
    }

    #[test]
    fn a_backslash_line_is_a_statement() {
        let mut script = Script::new();
        assert_eq!(script.push("\\d lineitem\nselect 1"), ["\\d lineitem"]);
        assert!(!script.is_empty());
        assert_eq!(script.push(";\n"), ["select 1"]);
        assert!(script.is_empty());
        assert_eq!(script.push("-- tables\n\\d\nselect 2;"), ["\\d", "select 2"]);
        assert_eq!(script.push("\\q"), Vec::<String>::new());
        assert_eq!(script.rest(), ["\\q"]);
    }

    proptest::proptest! {
        /// Whatever the text, no letter of a statement is lost, and nothing panics.
        #[test]
        fn letters_are_kept(text in "[a-z;'\"$*/ \\\\\\n-]{0,60}") {
            let mut script = Script::new();
            let mut found = script.push(&text);
            found.extend(script.rest());
            let letters = |text: &str| text.chars().filter(char::is_ascii_lowercase).count();
            let kept: usize = found.iter().map(|statement| letters(statement)).sum();
            // Comments after the last statement, and empty statements, are left out.
            proptest::prop_assert!(kept <= letters(&text));
            if !text.contains("--") && !text.contains("/*") {
                proptest::prop_assert_eq!(kept, letters(&text));
            }
        }
    }
}
