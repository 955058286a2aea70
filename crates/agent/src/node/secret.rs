//! A secret in a file: the token of an instance, the seal of its servers.
//!
//! The file is opened once, and everything is asked of the open file: nobody can put another in its place between the check
//! and the reading. It must be a regular file of the user who reads it, or of root, that nobody else may use.

use super::NodeError;
use rustix::fs::{FileType, Mode, OFlags};
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Fewest bytes, so that none is taken that can be guessed.
pub const SECRET_MIN: usize = 32;
/// Most bytes.
pub const SECRET_MAX: usize = 4096;

/// Permission bits of others than the owner.
const OTHERS: u32 = 0o077;

/// Bytes that nobody else may see; never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

impl Secret {
    /// Reads one. One line end at its end is not part of it, so that it can be made with an editor or with `echo`.
    pub fn read(path: &Path) -> Result<Secret, NodeError> {
        let failed = |source| NodeError::Read { path: path.to_owned(), source };
        // Without waiting, so that a fifo is found to be one.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        let stat = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?;
        let unusable = |problem: &str| NodeError::Unusable { path: path.to_owned(), problem: problem.into() };
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(unusable("it is no regular file"));
        }
        let (me, owner) = (rustix::process::geteuid().as_raw(), stat.st_uid);
        if owner != me && owner != 0 {
            return Err(NodeError::Foreign { path: path.to_owned(), owner, expected: me });
        }
        if stat.st_mode & OTHERS != 0 {
            return Err(NodeError::Exposed { path: path.to_owned(), mode: stat.st_mode & 0o7777 });
        }
        let mut bytes = Vec::new();
        File::from(file).take(SECRET_MAX as u64 + 2).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.ends_with(b"\n") {
            bytes.pop();
        }
        if !(SECRET_MIN..=SECRET_MAX).contains(&bytes.len()) {
            let problem = format!(
                "it holds {} bytes, {SECRET_MIN} to {SECRET_MAX} are needed; make one with: \
                 (umask 077; head -c 32 /dev/urandom | base64 > FILE)",
                bytes.len()
            );
            return Err(unusable(&problem));
        }
        Ok(Secret(bytes))
    }

    /// Its bytes, for the one who proves that he knows them.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    fn file(content: &[u8], mode: u32) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("secret");
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        (directory, path)
    }

    #[test]
    fn a_secret_of_the_owner_alone_is_read_without_its_line_end() {
        for mode in [0o600, 0o400] {
            let (_directory, path) = file(b"0123456789abcdef0123456789abcdef\n", mode);
            let secret = Secret::read(&path).unwrap();
            assert_eq!(secret.bytes(), b"0123456789abcdef0123456789abcdef");
            assert_eq!(format!("{secret:?}"), "Secret(32 bytes)");
        }
    }

    #[test]
    fn a_secret_that_others_may_use_is_refused() {
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601] {
            let (_directory, path) = file(b"0123456789abcdef0123456789abcdef", mode);
            let error = Secret::read(&path).unwrap_err();
            assert!(matches!(error, NodeError::Exposed { mode: found, .. } if found == mode), "{error}");
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        let (directory, short) = file(b"short\n", 0o600);
        assert!(Secret::read(&short).unwrap_err().to_string().contains("holds 5 bytes"));
        let (_directory, long) = file(&[b'x'; SECRET_MAX + 1], 0o600);
        assert!(matches!(Secret::read(&long).unwrap_err(), NodeError::Unusable { .. }));
        let error = Secret::read(directory.path()).unwrap_err();
        assert!(error.to_string().contains("no regular file"), "{error}");
        let error = Secret::read(&directory.path().join("absent")).unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }
}
