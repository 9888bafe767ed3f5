//! The syntax of DiskSim's parameter files: blocks of `name = value` pairs.
//!
//! ```text
//! file   := { "source" PATH | "instantiate" LIST "as" NAME | "topology" ... | block }
//! block  := KIND NAME? "{" { PARAMETER "=" value [","] } "}"
//! value  := NUMBER | WORD | LIST | block | "source" PATH
//! LIST   := "[" { value [","] } "]"
//! ```
//!
//! Parameters are several words, with dots and brackets: everything up to the `=`. A `#` begins a
//! comment. `source` puts in another file: its first block where a value is wanted.

use std::io;

/// Reads the file that a path in a parameter file names, which is relative to the file it stands in.
pub type Load<'a> = dyn FnMut(&str) -> io::Result<String> + 'a;

/// A parameter file that cannot be read. The message names the file and the line.
#[derive(Debug, thiserror::Error)]
#[error("{file}, line {line}: {problem}")]
pub struct DiskspecsError {
    /// The file; a sourced file has its name in the `source` line.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// The problem, with the name of the parameter.
    pub problem: String,
}

/// A block: a drive, a zone, a bus.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) place: Place,
    pub(super) parameters: Vec<Parameter>,
}

#[derive(Clone, Debug)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) value: Value,
    pub(super) place: Place,
}

#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A number, a name, or a path.
    Word(String),
    List(Vec<Value>),
    Block(Block),
}

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: usize,
}

impl Place {
    pub(super) fn error(&self, problem: impl Into<String>) -> DiskspecsError {
        DiskspecsError { file: self.file.clone(), line: self.line, problem: problem.into() }
    }
}

/// How deep files may source each other, and blocks and lists be nested.
const DEPTH_MAX: usize = 32;

/// How many files may be sourced in all: each may name the next many times.
const FILES_MAX: u32 = 1000;

/// Reads a file and what it sources: its blocks, in order.
pub(super) fn read(file: &str, load: &mut Load<'_>) -> Result<Vec<Block>, DiskspecsError> {
    let mut files = 0;
    let mut counted = |path: &str| {
        files += 1;
        if files > FILES_MAX {
            return Err(std::io::Error::other(format!("more than {FILES_MAX} files are sourced")));
        }
        load(path)
    };
    read_at(file, &Place { file: file.into(), line: 0 }, 0, &mut counted)
}

fn read_at(
    file: &str,
    named_at: &Place,
    depth: usize,
    load: &mut Load<'_>,
) -> Result<Vec<Block>, DiskspecsError> {
    if depth > DEPTH_MAX {
        return Err(
            named_at.error(format!("`{file}` is sourced too deep; a file may source itself"))
        );
    }
    let text = load(file).map_err(|error| named_at.error(format!("reading `{file}`: {error}")))?;
    let mut parser = Parser { file, rest: &text, line: 1, depth, load };
    parser.blocks()
}

struct Parser<'a, 'l> {
    file: &'a str,
    rest: &'a str,
    line: usize,
    depth: usize,
    load: &'a mut Load<'l>,
}

impl<'a> Parser<'a, '_> {
    fn blocks(&mut self) -> Result<Vec<Block>, DiskspecsError> {
        let mut blocks = Vec::new();
        while self.peek().is_some() {
            let place = self.place();
            match self.word()? {
                "source" => {
                    let path = self.path()?;
                    blocks.extend(read_at(path, &place, self.depth + 1, self.load)?);
                }
                "instantiate" => {
                    self.list(0)?;
                    self.word()?;
                    self.word()?;
                }
                "topology" => self.topology()?,
                kind => blocks.push(self.block(kind, place, 0)?),
            }
        }
        Ok(blocks)
    }

    /// What follows a block's kind.
    fn block(&mut self, kind: &str, place: Place, depth: usize) -> Result<Block, DiskspecsError> {
        let name = match self.peek() {
            Some('{') => String::new(),
            _ => self.word()?.to_owned(),
        };
        self.expect('{')?;
        let mut parameters = Vec::new();
        while !self.take('}') {
            if self.peek().is_none() {
                return Err(place.error(format!("the block `{kind} {name}` has no end `}}`")));
            }
            let place = self.place();
            let name = self.parameter_name()?;
            let value = self.value(&name, depth + 1)?;
            self.take(',');
            parameters.push(Parameter { name, value, place });
        }
        Ok(Block { kind: kind.into(), name, place, parameters })
    }

    fn value(&mut self, name: &str, depth: usize) -> Result<Value, DiskspecsError> {
        if depth > DEPTH_MAX {
            return Err(self.error(format!("`{name}` is nested too deep")));
        }
        if self.peek() == Some('[') {
            return Ok(Value::List(self.list(depth)?));
        }
        let place = self.place();
        let word = self.value_word(name)?;
        if word == "source" {
            let path = self.path()?;
            let blocks = read_at(path, &place, self.depth + 1, self.load)?;
            let first = blocks.into_iter().next();
            return first
                .map(Value::Block)
                .ok_or_else(|| place.error(format!("`{path}` has no block for `{name}`")));
        }
        // A block has a `{` next, or behind its name; another word before the comma is a mistake.
        match self.peek() {
            Some('{') => Ok(Value::Block(self.block(word, place, depth)?)),
            Some(',' | '}' | ']') | None => Ok(Value::Word(word.into())),
            Some(_) if self.block_follows() => Ok(Value::Block(self.block(word, place, depth)?)),
            Some(_) => Ok(Value::Word(word.into())),
        }
    }

    /// Whether what follows is a name and a `{`.
    fn block_follows(&mut self) -> bool {
        self.skip_space();
        let name_end = self.rest.find(|c: char| !is_word(c)).unwrap_or(self.rest.len());
        let behind = self.rest.get(name_end..).unwrap_or("");
        name_end > 0 && behind.trim_start().starts_with('{')
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Value>, DiskspecsError> {
        let opened = self.place();
        self.expect('[')?;
        let mut values = Vec::new();
        while !self.take(']') {
            if self.peek().is_none() {
                return Err(opened.error("the list that begins here has no end `]`"));
            }
            values.push(self.value("an element", depth + 1)?);
            self.take(',');
        }
        Ok(values)
    }

    /// Skips a `topology`: nested lists with words between them.
    fn topology(&mut self) -> Result<(), DiskspecsError> {
        let opened = self.place();
        let mut depth = 0;
        loop {
            match self.next() {
                Some('[') => depth += 1,
                Some(']') if depth == 1 => return Ok(()),
                Some(']') if depth > 1 => depth -= 1,
                Some(']') | None => {
                    return Err(opened.error("the topology that begins here has no end `]`"));
                }
                Some(_) => {}
            }
        }
    }

    fn parameter_name(&mut self) -> Result<String, DiskspecsError> {
        self.skip_space();
        let place = self.place();
        let end = self.rest.find(['=', '{', '}', '[', ']', ',']);
        let (name, behind) = end.map_or((self.rest, ""), |end| self.rest.split_at(end));
        if !behind.starts_with('=') || name.trim().is_empty() {
            let shown: String = name.trim().chars().take(40).collect();
            return Err(place.error(format!("expected `parameter = value` at `{shown}`")));
        }
        self.advance(name.len() + 1);
        Ok(name.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    fn value_word(&mut self, name: &str) -> Result<&'a str, DiskspecsError> {
        self.word().map_err(|error| DiskspecsError {
            problem: format!("no value for `{name}`: {}", error.problem),
            ..error
        })
    }

    fn word(&mut self) -> Result<&'a str, DiskspecsError> {
        self.skip_space();
        let end = self.rest.find(|c: char| !is_word(c)).unwrap_or(self.rest.len());
        if end == 0 {
            let found = self.rest.chars().next();
            let found = found.map_or("the end of the file".into(), |c| format!("`{c}`"));
            return Err(self.error(format!("expected a word, found {found}")));
        }
        let word = self.rest.get(..end).unwrap_or("");
        self.advance(end);
        Ok(word)
    }

    fn path(&mut self) -> Result<&'a str, DiskspecsError> {
        self.word()
    }

    fn expect(&mut self, wanted: char) -> Result<(), DiskspecsError> {
        if self.take(wanted) {
            return Ok(());
        }
        let found = self.peek().map_or("the end of the file".into(), |c| format!("`{c}`"));
        Err(self.error(format!("expected `{wanted}`, found {found}")))
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.advance(wanted.len_utf8());
        }
        found
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_space();
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.advance(next.len_utf8());
        Some(next)
    }

    fn skip_space(&mut self) {
        loop {
            let space = self.rest.len() - self.rest.trim_start().len();
            self.advance(space);
            if !self.rest.starts_with('#') {
                return;
            }
            let end = self.rest.find('\n').unwrap_or(self.rest.len());
            self.advance(end);
        }
    }

    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }

    fn place(&mut self) -> Place {
        self.skip_space();
        Place { file: self.file.into(), line: self.line }
    }

    fn error(&mut self, problem: impl Into<String>) -> DiskspecsError {
        self.place().error(problem)
    }
}

/// Whether a number, a name or a path may have `c`.
fn is_word(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '{' | '}' | '[' | ']' | ',' | '=' | '#')
}
