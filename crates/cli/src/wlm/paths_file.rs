//! The file with the job's variables that `paths` writes and Slurm reads.
//!
//! Slurm counts the `=` in the file and takes so many lines; a line without one is logged as wrong and costs a variable.
//! So each variable is one line with exactly one `=`. Written beside its place and renamed: Slurm never reads half of it,
//! and a call that was killed leaves at most a file of its own, which the next one replaces.

use std::io;
use std::path::{Path, PathBuf};

/// Why the file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum PathsFileError {
    /// A variable that Slurm would misread.
    #[error("variable {name:?} cannot be handed to Slurm: its name or value has a line break or = in it")]
    Variable {
        /// Its name.
        name: String,
    },
    /// The file system said no.
    #[error("cannot write {path}: {source}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// The text of the file.
///
/// # Errors
/// [`PathsFileError::Variable`]
pub fn text(variables: &[(String, String)]) -> Result<String, PathsFileError> {
    let mut text = String::new();
    for (name, value) in variables {
        let bad = |text: &str| text.contains(['=', '\n', '\0']);
        if name.is_empty() || bad(name) || bad(value) {
            return Err(PathsFileError::Variable { name: name.clone() });
        }
        text.push_str(&format!("{name}={value}\n"));
    }
    Ok(text)
}

/// Writes the file.
///
/// # Errors
/// [`PathsFileError`]
pub fn write(path: &Path, variables: &[(String, String)]) -> Result<(), PathsFileError> {
    let text = text(variables)?;
    let failed = |source| PathsFileError::File { path: path.to_owned(), source };
    let name = path.file_name().ok_or_else(|| failed(io::ErrorKind::InvalidFilename.into()))?;
    let mut beside = std::ffi::OsString::from(".");
    beside.push(name);
    beside.push(format!(".{}", std::process::id()));
    let beside = path.with_file_name(beside);
    let written = std::fs::write(&beside, text).and_then(|()| std::fs::rename(&beside, path));
    written.map_err(|source| {
        // The rename may have failed; what the name leads to now is this call's own.
        let _ = std::fs::remove_file(&beside);
        failed(source)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, value: &str) -> (String, String) {
        (name.into(), value.into())
    }

    #[test]
    fn one_line_for_each_variable() {
        let variables = [variable("DW_JOB_STRIPED", "/mnt/7_striped_scratch/"), variable("B", "a b")];
        assert_eq!(text(&variables).unwrap(), "DW_JOB_STRIPED=/mnt/7_striped_scratch/\nB=a b\n");
        assert_eq!(text(&[]).unwrap(), "");
    }

    #[test]
    fn what_slurm_would_misread_is_refused() {
        for bad in [variable("A", "a=b"), variable("A", "a\nb"), variable("", "a"), variable("A=", "a")] {
            assert!(text(&[bad]).is_err());
        }
    }

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("path");
        write(&path, &[variable("A", "1")]).unwrap();
        write(&path, &[variable("A", "2")]).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "A=2\n");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        let error = write(&directory.path().join("no/path"), &[]).unwrap_err().to_string();
        assert!(error.contains("no/path: No such file"), "{error}");
    }
}
