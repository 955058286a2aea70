//! The client nodes of a job, as the workload manager writes them to a file.
//!
//! Slurm writes one node name a line (`--nodehostnamefile`); built for native Cray machines it writes node numbers with
//! ranges (`--nidlistfile`), which stand for `nid00012` and the like. Pure but for [`NodeFile::read`].

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;

/// Most bytes of the file: 65,536 names of 64 characters.
const FILE_BYTES_MAX: u64 = 4 << 20;
/// Most nodes of a job.
const NODES_MAX: usize = 65_536;

/// How the nodes are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Names.
    Names,
    /// Numbers and ranges of numbers.
    Numbers,
}

/// The file that was named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeFile {
    /// Where.
    pub path: PathBuf,
    /// How.
    pub form: Form,
}

/// Why the nodes cannot be told.
#[derive(Debug, thiserror::Error)]
pub enum NodeFileError {
    /// It cannot be read.
    #[error("cannot read the node list {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Too long.
    #[error("the node list {path} has more than {NODES_MAX} nodes", path = path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
    },
    /// No node in it.
    #[error("the node list {path} names no node", path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// Something that is no node.
    #[error("the node list {path} has {word:?} in it, which is no node", path = path.display())]
    Word {
        /// The file.
        path: PathBuf,
        /// What was found.
        word: String,
    },
}

impl NodeFile {
    /// The names, in the order of the file.
    ///
    /// # Errors
    /// [`NodeFileError`]
    pub fn read(&self) -> Result<Vec<String>, NodeFileError> {
        let path = || self.path.clone();
        let mut text = Vec::new();
        let read =
            File::open(&self.path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text));
        read.map_err(|source| NodeFileError::File { path: path(), source })?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(NodeFileError::TooMany { path: path() });
        }
        let text = String::from_utf8_lossy(&text);
        match nodes(&text, self.form) {
            Err(word) => Err(NodeFileError::Word { path: path(), word: word.to_owned() }),
            Ok(nodes) if nodes.is_empty() => Err(NodeFileError::Empty { path: path() }),
            Ok(nodes) if nodes.len() > NODES_MAX => Err(NodeFileError::TooMany { path: path() }),
            Ok(nodes) => Ok(nodes),
        }
    }
}

/// The nodes of a text, or the word that is none.
fn nodes(text: &str, form: Form) -> Result<Vec<String>, &str> {
    let mut nodes = Vec::new();
    let words =
        text.split(|c: char| c.is_whitespace() || c == ',' || c == '\0').filter(|word| !word.is_empty());
    for word in words {
        match form {
            Form::Names => nodes.push(word.to_owned()),
            Form::Numbers => {
                let (first, last) = range(word).ok_or(word)?;
                nodes.extend((first..=last).take(NODES_MAX + 1).map(|nid| format!("nid{nid:05}")));
            }
        }
        if nodes.len() > NODES_MAX {
            break;
        }
    }
    Ok(nodes)
}

/// `7` or `7-9`.
fn range(word: &str) -> Option<(u32, u32)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_one_a_line() {
        assert_eq!(nodes("n1\nn2\n", Form::Names), Ok(vec!["n1".into(), "n2".into()]));
        assert_eq!(nodes("n1", Form::Names), Ok(vec!["n1".into()]));
        assert_eq!(nodes("\n\n", Form::Names), Ok(vec![]));
    }

    #[test]
    fn numbers_and_ranges() {
        let expected: Vec<String> = ["nid00009", "nid00010", "nid00011", "nid00100"].map(String::from).into();
        assert_eq!(nodes("9-11\n100\n", Form::Numbers), Ok(expected));
        assert_eq!(nodes("9-\n", Form::Numbers), Err("9-"));
        assert_eq!(nodes("11-9", Form::Numbers), Err("11-9"));
        assert!(nodes("0-4294967295", Form::Numbers).unwrap().len() <= NODES_MAX + 1);
    }
}
