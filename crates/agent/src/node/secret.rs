//! Reading a secret: the token of an instance, the seal of its servers.
//!
//! The file is opened once, and everything is asked of the open file: nobody can put another in its place between the check
//! and the reading. It must be a regular file of the user who reads it, or of root, that nobody else may use.

use super::NodeError;
use forebay_wire::proof::{SECRET_MAX, SECRET_MIN, Secret};
use rustix::fs::{FileType, Mode, OFlags};
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Permission bits of others than the owner.
const OTHERS: u32 = 0o077;

/// Reads a secret. One line end at its end is not part of it, so that it can be made with an editor or with `base64`.
pub fn read_secret(path: &Path) -> Result<Secret, NodeError> {
    let failed = |source| NodeError::Read { path: path.to_owned(), source };
    // Without waiting, so that a fifo is found to be one.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
    check(path, &file)?;
    let mut bytes = Vec::new();
    File::from(file).take(SECRET_MAX as u64 + 2).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
    }
    let secret = Secret::new(&bytes).map_err(|bad| NodeError::Unusable {
        path: path.to_owned(),
        problem: format!(
            "it holds {} bytes, {SECRET_MIN} to {SECRET_MAX} are needed; make one with: \
             (umask 077; head -c 32 /dev/urandom | base64 > FILE)",
            bad.length
        ),
    });
    bytes.fill(0);
    secret
}

/// Refuses what others could read or change.
fn check(path: &Path, file: &OwnedFd) -> Result<(), NodeError> {
    let stat = rustix::fs::fstat(file)
        .map_err(|errno| NodeError::Read { path: path.to_owned(), source: errno.into() })?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        let problem = "it is no regular file".into();
        return Err(NodeError::Unusable { path: path.to_owned(), problem });
    }
    let (me, owner) = (rustix::process::geteuid().as_raw(), stat.st_uid);
    if owner != me && owner != 0 {
        return Err(NodeError::Foreign { path: path.to_owned(), owner, expected: me });
    }
    if stat.st_mode & OTHERS != 0 {
        return Err(NodeError::Exposed { path: path.to_owned(), mode: stat.st_mode & 0o7777 });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_wire::message::{ConnectionKind, Role, SessionId};
    use forebay_wire::proof::Transcript;
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
            let secret = read_secret(&path).unwrap();
            assert_eq!(proof(&secret), proof(&Secret::new(b"0123456789abcdef0123456789abcdef").unwrap()));
        }
        let (_directory, path) = file(b"0123456789abcdef0123456789abcdef\n\n", 0o600);
        assert_ne!(
            proof(&read_secret(&path).unwrap()),
            proof(&Secret::new(b"0123456789abcdef0123456789abcdef").unwrap())
        );
    }

    /// What can be seen of a secret.
    fn proof(secret: &Secret) -> [u8; 32] {
        let transcript = Transcript {
            version: 1,
            instance: "i",
            namespace: "n",
            role: Role::Client,
            kind: ConnectionKind::Data,
            session: SessionId([3; 16]),
            client_nonce: [1; 32],
            server_nonce: [2; 32],
            boot: 7,
        };
        transcript.client(secret)
    }

    #[test]
    fn a_secret_that_others_may_use_is_refused() {
        for mode in [0o640, 0o604, 0o620, 0o602, 0o610, 0o601] {
            let (_directory, path) = file(b"0123456789abcdef0123456789abcdef", mode);
            let error = read_secret(&path).unwrap_err();
            assert!(matches!(error, NodeError::Exposed { mode: found, .. } if found == mode), "{error}");
            assert!(error.to_string().contains("chmod 600"), "{error}");
        }
    }

    #[test]
    fn what_is_no_secret_is_refused() {
        let (directory, short) = file(b"short\n", 0o600);
        assert!(read_secret(&short).unwrap_err().to_string().contains("holds 5 bytes"));
        let (_directory, long) = file(&[b'x'; SECRET_MAX + 1], 0o600);
        assert!(matches!(read_secret(&long).unwrap_err(), NodeError::Unusable { .. }));
        let error = read_secret(directory.path()).unwrap_err();
        assert!(error.to_string().contains("no regular file"), "{error}");
        let error = read_secret(&directory.path().join("absent")).unwrap_err();
        assert!(error.to_string().contains("No such file"), "{error}");
    }
}
