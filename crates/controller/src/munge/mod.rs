//! MUNGE credentials: who sent a request over the network, as the machines' common key proves.
//!
//! `libmunge.so.2` is loaded when the first credential is needed, so nothing depends on it where everything goes over a
//! Unix socket. Its calls talk to munged over a socket and block for milliseconds; any thread may make them.

mod library;

use library::{Context, Library};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Longest life of a credential; an older one is refused whatever it says itself.
pub const MAX_AGE_S: i64 = 60;
/// Longest payload and credential that is looked at.
pub const MAX_CREDENTIAL: usize = 64 * 1024;

/// Why there is no credential, or none that is believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MungeError {
    /// The library is missing.
    #[error(
        "MUNGE cannot be used: {reason}; install the package munge, or use the Unix socket of the controller"
    )]
    NoLibrary {
        /// Why.
        reason: String,
    },
    /// The daemon does not answer.
    #[error("munged does not answer{}: {reason}; start it, or correct its socket", at(.socket))]
    NoDaemon {
        /// Its socket, if another than the default one.
        socket: Option<PathBuf>,
        /// Why.
        reason: String,
    },
    /// The credential was used before.
    #[error("the credential was used before")]
    Replayed,
    /// The credential is too old.
    #[error("the credential is too old: are the clocks of the machines the same?")]
    Expired,
    /// The credential is from the future.
    #[error("the credential is from the future: are the clocks of the machines the same?")]
    FromTheFuture,
    /// It is for somebody else.
    #[error("the credential is for somebody else")]
    Unauthorized,
    /// It was made with another key, or by nobody.
    #[error("the credential is not valid ({reason}): has every machine the same munge.key?")]
    Invalid {
        /// Why.
        reason: String,
    },
    /// It is too long to be looked at.
    #[error("a credential or its content is longer than {MAX_CREDENTIAL} bytes")]
    TooLong,
}

fn at(socket: &Option<PathBuf>) -> String {
    socket.as_ref().map(|socket| format!(" at {}", socket.display())).unwrap_or_default()
}

/// What a credential said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Who made it.
    pub uid: u32,
    /// Group of who made it.
    pub gid: u32,
    /// What was put into it.
    pub payload: Vec<u8>,
    /// When it was made, by the clock of its machine; seconds since the epoch.
    pub encoded_at: i64,
    /// When it was read, by the clock here.
    pub decoded_at: i64,
}

/// A way to munged.
#[derive(Clone, Debug, Default)]
pub struct Munge {
    socket: Option<PathBuf>,
}

impl Munge {
    /// The munged at this socket; `None` is the usual one.
    pub fn new(socket: Option<&Path>) -> Munge {
        Munge { socket: socket.map(Path::to_owned) }
    }

    /// Whether the library is there and munged answers.
    ///
    /// # Errors
    /// [`MungeError::NoLibrary`], [`MungeError::NoDaemon`].
    pub fn check(&self) -> Result<(), MungeError> {
        self.encode(b"", None).map(drop)
    }

    /// A credential of the calling user with this payload; with `only_for`, only this uid can read it.
    ///
    /// # Errors
    /// [`MungeError`].
    pub fn encode(&self, payload: &[u8], only_for: Option<u32>) -> Result<String, MungeError> {
        if payload.len() > MAX_CREDENTIAL / 2 {
            return Err(MungeError::TooLong);
        }
        let context = self.context()?;
        context.set_ttl(MAX_AGE_S as i32)?;
        if let Some(uid) = only_for {
            context.set_uid_restriction(uid)?;
        }
        context.encode(payload).map_err(|error| self.named(error))
    }

    /// Reads a credential. It can be read once.
    ///
    /// # Errors
    /// [`MungeError`]; nothing that is in a credential that is not believed is given out.
    pub fn decode(&self, credential: &str) -> Result<Decoded, MungeError> {
        if credential.len() > MAX_CREDENTIAL {
            return Err(MungeError::TooLong);
        }
        let decoded = self.context()?.decode(credential).map_err(|error| self.named(error))?;
        if decoded.decoded_at - decoded.encoded_at > MAX_AGE_S {
            return Err(MungeError::Expired);
        }
        Ok(decoded)
    }

    fn context(&self) -> Result<Context<'static>, MungeError> {
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(Library::load).as_ref();
        let library = library.map_err(|reason| MungeError::NoLibrary { reason: reason.clone() })?;
        Context::new(library, self.socket.as_deref())
    }

    /// The error, with the socket that was tried.
    fn named(&self, error: MungeError) -> MungeError {
        match error {
            MungeError::NoDaemon { reason, .. } => {
                MungeError::NoDaemon { socket: self.socket.clone(), reason }
            }
            other => other,
        }
    }
}
