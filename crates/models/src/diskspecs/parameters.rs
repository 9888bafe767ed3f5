//! The parameters of one block: asked for by name, with the place of what is wrong, and a look at
//! what nobody asked for.

use std::cell::RefCell;
use std::collections::BTreeSet;

use super::{Block, DiskspecsError, Value};

pub(super) struct Parameters<'a> {
    block: &'a Block,
    asked: RefCell<BTreeSet<&'a str>>,
    missing: RefCell<BTreeSet<String>>,
}

impl<'a> Parameters<'a> {
    pub(super) fn of(block: &'a Block) -> Parameters<'a> {
        Parameters { block, asked: RefCell::default(), missing: RefCell::default() }
    }

    fn find(&self, name: &str) -> Option<(&'a Value, &'a super::syntax::Place)> {
        let found = self.block.parameters.iter().find(|parameter| parameter.name == name);
        if found.is_none() {
            self.missing.borrow_mut().insert(name.to_owned());
        }
        let found = found?;
        self.asked.borrow_mut().insert(&found.name);
        Some((&found.value, &found.place))
    }

    /// An error about parameter `name`, or about the block when it is not there.
    pub(super) fn error(&self, name: &str, problem: &str) -> DiskspecsError {
        let place = self.find(name).map_or(&self.block.place, |(_, place)| place);
        place.error(format!("`{name}`: {problem}"))
    }

    pub(super) fn word(&self, name: &str) -> Result<Option<&'a str>, DiskspecsError> {
        match self.find(name) {
            None => Ok(None),
            Some((Value::Word(word), _)) => Ok(Some(word)),
            Some(_) => Err(self.error(name, "expected a word")),
        }
    }

    /// A number between `low` and `high`.
    pub(super) fn number(
        &self,
        name: &str,
        low: f64,
        high: f64,
    ) -> Result<Option<f64>, DiskspecsError> {
        let Some(word) = self.word(name)? else { return Ok(None) };
        match word.parse::<f64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(Some(number)),
            Ok(number) => {
                Err(self.error(name, &format!("{number} is not between {low} and {high}")))
            }
            Err(_) => Err(self.error(name, &format!("`{word}` is not a number"))),
        }
    }

    /// A number that must be there.
    pub(super) fn needed(&self, name: &str, low: f64, high: f64) -> Result<f64, DiskspecsError> {
        let number = self.number(name, low, high)?;
        number.ok_or_else(|| self.error(name, "missing"))
    }

    /// A whole number, 0 when it is not there.
    pub(super) fn count(&self, name: &str, high: u64) -> Result<u64, DiskspecsError> {
        let number = self.number(name, 0.0, high as f64)?.unwrap_or(0.0);
        if number.fract() != 0.0 {
            return Err(self.error(name, &format!("{number} is not a whole number")));
        }
        Ok(number as u64)
    }

    /// A whole number that must be there and is at least 1.
    pub(super) fn needed_count(&self, name: &str, high: u64) -> Result<u64, DiskspecsError> {
        self.needed(name, 1.0, high as f64)?;
        self.count(name, high)
    }

    /// Milliseconds; 0 when they are not there.
    pub(super) fn ms(&self, name: &str) -> Result<f64, DiskspecsError> {
        Ok(self.number(name, 0.0, 10_000.0)?.unwrap_or(0.0))
    }

    pub(super) fn flag(&self, name: &str) -> Result<bool, DiskspecsError> {
        Ok(self.number(name, -1.0, 2.0)?.unwrap_or(0.0) > 0.0)
    }

    pub(super) fn block(&self, name: &str) -> Result<Option<&'a Block>, DiskspecsError> {
        match self.find(name) {
            None => Ok(None),
            Some((Value::Block(block), _)) => Ok(Some(block)),
            Some(_) => Err(self.error(name, "expected a block")),
        }
    }

    pub(super) fn list(&self, name: &str) -> Result<&'a [Value], DiskspecsError> {
        match self.find(name) {
            None => Ok(&[]),
            Some((Value::List(values), _)) => Ok(values),
            Some(_) => Err(self.error(name, "expected a list")),
        }
    }

    /// A list of numbers between `low` and `high`.
    pub(super) fn numbers(
        &self,
        name: &str,
        low: f64,
        high: f64,
    ) -> Result<Vec<f64>, DiskspecsError> {
        let number = |value: &Value| match value {
            Value::Word(word) => match word.parse::<f64>() {
                Ok(number) if (low..=high).contains(&number) => Ok(number),
                _ => {
                    Err(self.error(name, &format!("`{word}` is not a number from {low} to {high}")))
                }
            },
            _ => Err(self.error(name, "expected numbers")),
        };
        self.list(name)?.iter().map(number).collect()
    }

    /// The names asked for so far that are not there.
    pub(super) fn missing(&self) -> Vec<String> {
        self.missing.borrow().iter().map(|name| format!("`{name}`")).collect()
    }

    /// The parameters that nobody asked for.
    pub(super) fn left_over(&self) -> impl Iterator<Item = &'a str> {
        let asked = self.asked.borrow().clone();
        let names = self.block.parameters.iter().map(|parameter| parameter.name.as_str());
        names.filter(move |name| !asked.contains(name))
    }
}
