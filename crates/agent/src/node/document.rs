//! A TOML file that is being read: its complaints name the file and the line.

use super::NodeError;
use forebay_model::capacity::text::SizeText;
use forebay_model::capacity::{CapacityError, UNITS, parse_bytes};
use forebay_model::units::Bytes;
use serde::de::DeserializeOwned;
use std::fmt::Display;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// Largest file that is read, in bytes: thousands of servers fit.
const FILE_MAX: u64 = 4 << 20;
/// Longest name of an instance or a namespace, in bytes.
const NAME_MAX: usize = 64;

/// See the module.
pub(crate) struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    /// Reads a file.
    pub(crate) fn open(path: &Path) -> Result<Document, NodeError> {
        let failed = |source| NodeError::Read { path: path.to_owned(), source };
        let mut text = String::new();
        let file = File::open(path).map_err(failed)?;
        file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(failed)?;
        if text.len() as u64 > FILE_MAX {
            return Err(NodeError::TooLarge { path: path.to_owned(), limit_bytes: FILE_MAX });
        }
        Ok(Document { path: path.to_owned(), text })
    }

    #[cfg(test)]
    pub(crate) fn of_text(path: &Path, text: &str) -> Document {
        Document { path: path.to_owned(), text: text.to_owned() }
    }

    /// Its values.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, NodeError> {
        toml::from_str(&self.text)
            .map_err(|error| NodeError::Syntax { path: self.path.clone(), message: error.to_string() })
    }

    /// A complaint about a value.
    pub(crate) fn refuse<T: Display>(
        &self,
        key: &'static str,
        value: &Spanned<T>,
        problem: impl Into<String>,
    ) -> NodeError {
        self.refuse_at(value.span().start, key, value.get_ref().to_string(), problem)
    }

    /// A complaint about what begins at a byte of the text.
    pub(crate) fn refuse_at(
        &self,
        at: usize,
        key: &'static str,
        value: String,
        problem: impl Into<String>,
    ) -> NodeError {
        let before = self.text.get(..at).unwrap_or(&self.text);
        let line = 1 + before.matches('\n').count();
        NodeError::Value { path: self.path.clone(), line, key, value, problem: problem.into() }
    }

    /// An absolute path.
    pub(crate) fn path(&self, key: &'static str, value: &Spanned<String>) -> Result<PathBuf, NodeError> {
        let path = Path::new(value.get_ref());
        if path.is_absolute() && !value.get_ref().contains('\0') {
            Ok(path.to_owned())
        } else {
            Err(self.refuse(key, value, "an absolute path is needed"))
        }
    }

    /// A number of bytes with its unit.
    pub(crate) fn size(&self, key: &'static str, value: &Spanned<SizeText>) -> Result<Bytes, NodeError> {
        parse_bytes(&value.get_ref().0).map_err(|error| self.refuse(key, value, size_problem(&error)))
    }

    /// A number between two others.
    pub(crate) fn number<T: Copy + PartialOrd + Display>(
        &self,
        key: &'static str,
        value: &Spanned<T>,
        least: T,
        most: T,
    ) -> Result<T, NodeError> {
        let number = *value.get_ref();
        if number >= least && number <= most {
            Ok(number)
        } else {
            Err(self.refuse(key, value, format!("{least} to {most} is possible")))
        }
    }

    /// A name that is used in paths and messages.
    pub(crate) fn name(&self, key: &'static str, value: &Spanned<String>) -> Result<String, NodeError> {
        let name = value.get_ref();
        let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if !name.is_empty() && name.len() <= NAME_MAX && name.chars().all(fits) {
            Ok(name.clone())
        } else {
            let problem = format!("1 to {NAME_MAX} letters, digits, `-` and `_` are possible");
            Err(self.refuse(key, value, problem))
        }
    }

    /// The file.
    pub(crate) fn source(&self) -> &Path {
        &self.path
    }
}

fn size_problem(error: &CapacityError) -> String {
    match error {
        CapacityError::Fraction { integer: Some(integer), .. } => format!("{error}: write {integer}"),
        _ => format!("{error}: write a whole number and a unit of {UNITS}"),
    }
}
