//! How both ends of a connection show that they know the secret of the instance, without sending it.
//!
//! Each makes a mac, keyed by the secret, over everything that was said before: a recorded handshake is of no use for
//! another connection, because both nonces are in it, and a mac of one side is none of the other. The connection itself is
//! neither encrypted nor signed: who can change packets on the way can do harm; it belongs into a trusted network.
//! Pure: any thread.

use crate::message::{ConnectionKind, Role, SessionId};
use std::fmt;

/// Fewest bytes of a secret.
pub const SECRET_MIN: usize = 32;
/// Most bytes of a secret.
pub const SECRET_MAX: usize = 4096;

const HANDSHAKE: &str = "forebay 2026 handshake of a connection";

/// A token or a seal. It is never shown, and is overwritten when dropped.
#[derive(Clone)]
pub struct Secret(Box<[u8]>);

/// Bytes that cannot be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret of {length} bytes: {SECRET_MIN} to {SECRET_MAX} are needed")]
pub struct BadSecret {
    /// How many there are.
    pub length: usize,
}

impl Secret {
    /// The secret of these bytes, of which there have to be enough.
    pub fn new(bytes: &[u8]) -> Result<Secret, BadSecret> {
        if (SECRET_MIN..=SECRET_MAX).contains(&bytes.len()) {
            Ok(Secret(bytes.into()))
        } else {
            Err(BadSecret { length: bytes.len() })
        }
    }

    /// A key for one purpose.
    pub(crate) fn key(&self, purpose: &'static str) -> [u8; 32] {
        blake3::derive_key(purpose, &self.0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.fill(0);
        // Otherwise nobody would see the zeros, and they need not be written.
        std::hint::black_box(&self.0);
    }
}

/// All that was said in a handshake before the macs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript<'a> {
    /// The version that the server chose.
    pub version: u8,
    /// Name of the instance.
    pub instance: &'a str,
    /// Name of the namespace.
    pub namespace: &'a str,
    /// Who the client is.
    pub role: Role,
    /// What the connection is for.
    pub kind: ConnectionKind,
    /// The session.
    pub session: SessionId,
    /// The client's nonce.
    pub client_nonce: [u8; 32],
    /// The server's nonce.
    pub server_nonce: [u8; 32],
    /// The server process.
    pub boot: u64,
}

impl Transcript<'_> {
    /// What the client sends.
    pub fn client(&self, secret: &Secret) -> [u8; 32] {
        *self.mac(secret, b"client").as_bytes()
    }

    /// What the server sends.
    pub fn server(&self, secret: &Secret) -> [u8; 32] {
        *self.mac(secret, b"server").as_bytes()
    }

    /// The client sent this; compared in constant time.
    pub fn is_client(&self, secret: &Secret, mac: &[u8; 32]) -> bool {
        self.mac(secret, b"client") == *mac
    }

    /// The server sent this; compared in constant time.
    pub fn is_server(&self, secret: &Secret, mac: &[u8; 32]) -> bool {
        self.mac(secret, b"server") == *mac
    }

    fn mac(&self, secret: &Secret, side: &[u8; 6]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&secret.key(HANDSHAKE));
        hasher.update(side);
        hasher.update(&[self.version, self.role as u8, self.kind as u8]);
        for text in [self.instance, self.namespace] {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(&self.session.0);
        hasher.update(&self.client_nonce);
        hasher.update(&self.server_nonce);
        hasher.update(&self.boot.to_le_bytes());
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcript() -> Transcript<'static> {
        Transcript {
            version: 1,
            instance: "i",
            namespace: "n",
            role: Role::Client,
            kind: ConnectionKind::Data,
            session: SessionId([3; 16]),
            client_nonce: [1; 32],
            server_nonce: [2; 32],
            boot: 7,
        }
    }

    #[test]
    fn a_mac_is_good_for_its_secret_its_side_and_its_connection_only() {
        let secret = Secret::new(&[9; 32]).unwrap();
        let mac = transcript().client(&secret);
        assert!(transcript().is_client(&secret, &mac));
        assert!(!transcript().is_server(&secret, &mac));
        assert!(!transcript().is_client(&Secret::new(&[8; 32]).unwrap(), &mac));
        let others = [
            Transcript { version: 2, ..transcript() },
            Transcript { instance: "in", namespace: "", ..transcript() },
            Transcript { role: Role::Peer, ..transcript() },
            Transcript { kind: ConnectionKind::Metadata, ..transcript() },
            Transcript { session: SessionId([4; 16]), ..transcript() },
            Transcript { client_nonce: [4; 32], ..transcript() },
            Transcript { server_nonce: [4; 32], ..transcript() },
            Transcript { boot: 8, ..transcript() },
        ];
        for other in others {
            assert!(!other.is_client(&secret, &mac), "{other:?}");
        }
    }

    #[test]
    fn a_secret_is_long_enough_and_never_shown() {
        assert_eq!(Secret::new(&[1; 31]).unwrap_err(), BadSecret { length: 31 });
        assert_eq!(format!("{:?}", Secret::new(&[65; 40]).unwrap()), "Secret(..)");
    }
}
