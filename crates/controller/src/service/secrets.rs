//! The secrets of instances: nothing is stored but one secret of the controller, from which they follow.
//!
//! The file is made once, 0600, synced before it is used. A crash while it is made leaves a file of another name. Who
//! loses it makes the tokens of all living instances invalid; so a file of the wrong size is refused, not replaced. One that
//! others than its owner may use is refused too: it is no secret any more.

use super::store::{StoreError, sync_parent};
use crate::custody;
use crate::protocol::Secrets;
use forebay_model::ids::InstanceId;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const FILE: &str = "secret";
const BYTES: usize = 32;

/// See the module.
pub struct SecretStore([u8; BYTES]);

impl SecretStore {
    /// Reads the secret of a state directory, or makes it.
    ///
    /// # Errors
    /// [`StoreError::File`], [`StoreError::Custody`].
    pub fn open(directory: &Path) -> Result<SecretStore, StoreError> {
        let path = directory.join(FILE);
        let fail = |source| StoreError::File { path: path.clone(), source };
        match File::open(&path) {
            Ok(file) => {
                custody::secret_file(&path, &file)?;
                read(file).map(SecretStore).map_err(fail)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(&path).map(SecretStore).map_err(fail)
            }
            Err(error) => Err(fail(error)),
        }
    }

    /// The secrets of an instance.
    pub fn of(&self, instance: InstanceId) -> Secrets {
        let derive = |purpose: &str| {
            let mut hasher = blake3::Hasher::new_keyed(&self.0);
            hasher.update(purpose.as_bytes());
            hasher.update(&instance.0.to_le_bytes());
            hasher.finalize().to_hex().to_string()
        };
        Secrets { token: derive("forebay instance token "), seal: derive("forebay instance seal ") }
    }
}

fn read(file: File) -> io::Result<[u8; BYTES]> {
    let mut bytes = Vec::new();
    file.take(BYTES as u64 + 1).read_to_end(&mut bytes)?;
    bytes.try_into().map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it has not 32 bytes"))
}

fn make(path: &Path) -> io::Result<[u8; BYTES]> {
    let mut bytes = [0; BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let new = path.with_extension("new");
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
    file.write_all(&bytes)?;
    file.sync_all()?;
    std::fs::rename(&new, path)?;
    sync_parent(path)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn secrets_stay_and_differ() {
        let directory = tempfile::tempdir().unwrap();
        let store = SecretStore::open(directory.path()).unwrap();
        let again = SecretStore::open(directory.path()).unwrap();
        let (one, two) = (store.of(InstanceId(1)), store.of(InstanceId(2)));
        assert_eq!(one, again.of(InstanceId(1)));
        let all = [&one.token, &one.seal, &two.token, &two.seal];
        assert!(all.iter().all(|text| text.len() == 64));
        assert_eq!(all.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
        let path = directory.path().join(FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&path, b"short").unwrap();
        assert!(SecretStore::open(directory.path()).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"short");
    }

    #[test]
    fn what_others_may_have_read_is_no_secret() {
        let directory = tempfile::tempdir().unwrap();
        SecretStore::open(directory.path()).unwrap();
        let path = directory.path().join(FILE);
        for mode in [0o644, 0o604, 0o602] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let Err(StoreError::Custody(error)) = SecretStore::open(directory.path()) else {
                panic!("{mode:o}")
            };
            assert!(error.to_string().contains("chmod go="), "{error}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
        assert!(SecretStore::open(directory.path()).is_ok());
    }
}
