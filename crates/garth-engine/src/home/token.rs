//! Tokens of keys: their text form, issue and derivation, and the hash that keeps them off the disk.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::env::Env;
use crate::error::Result;
use crate::model::hex;

/// Bytes of the public id of a key; 64 random bits make ids distinct without a check.
const ID_BYTES: usize = 8;
/// Bytes of the secret of a key: 256 bits.
const SECRET_BYTES: usize = 32;

/// Complete token of a key, `garth_<id>.<secret>`: shown to its creator, stored nowhere.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Returns the token in clear, to show or send it. Never log it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

/// Request with an idempotency key that creates a key. The token of the new key is derived from it, so that a
/// repeat by the same caller shows the token again. The token of the caller is never stored.
#[derive(Clone, Debug)]
pub struct KeyOrigin {
    token: Secret,
    idempotency_key: String,
    request_hash: [u8; 32],
}

impl KeyOrigin {
    /// Returns the origin of a request: the token of its caller, its idempotency key, and a hash of all that
    /// it asks for.
    pub fn new(token: &str, idempotency_key: impl Into<String>, request_hash: [u8; 32]) -> Self {
        Self { token: Secret(token.to_owned()), idempotency_key: idempotency_key.into(), request_hash }
    }

    /// Returns the hash of the request.
    pub const fn request_hash(&self) -> [u8; 32] {
        self.request_hash
    }
}

/// Random secret of a home. It keys the hashes of tokens, so that a stolen hash cannot be tried without it,
/// and other keys are derived from it.
pub struct Hasher([u8; 32]);

/// Stored hash of a secret.
pub type SecretHash = [u8; 32];

/// New token.
pub struct Issued {
    /// Public id of the key.
    pub id: String,
    /// Complete token.
    pub secret: Secret,
    /// Hash to store.
    pub hash: SecretHash,
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher(hidden)")
    }
}

impl Hasher {
    /// Returns the secret of a home from its stored form.
    pub fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// Returns the key for [`Home::sealing_key`](super::Home::sealing_key). It tells nothing about the secret.
    pub fn sealing_key(&self) -> [u8; 32] {
        blake3::derive_key("garth sealing key 1", &self.0)
    }

    /// Returns the hash of a token. It covers the id too: a hash moved to the row of another id opens
    /// nothing.
    fn hash(&self, token: &str) -> SecretHash {
        *blake3::keyed_hash(&self.0, token.as_bytes()).as_bytes()
    }

    fn issued(&self, id: &[u8], secret: &[u8]) -> Issued {
        let id = hex(id);
        let token = format!("garth_{id}.{}", hex(secret));
        let hash = self.hash(&token);
        Issued { id, secret: Secret(token), hash }
    }

    /// Creates a random token.
    ///
    /// # Errors
    /// `Io` if the system has no random bytes.
    pub fn issue(&self, env: &Env) -> Result<Issued> {
        Ok(self.issued(&env.random::<ID_BYTES>()?, &env.random::<SECRET_BYTES>()?))
    }

    /// Derives the token of a request with an idempotency key, so that a repeat shows the token again though
    /// it is stored nowhere. `folder` is that of the account, empty for the home.
    ///
    /// Both the token of the caller and the secret of the home are part of the input. Nothing on the disk
    /// leads to the new token without the first, so a stolen backup does not. A token that has leaked does
    /// not without the second, so its successor stays secret.
    pub fn derive(&self, origin: &KeyOrigin, folder: &str) -> Issued {
        let mut material = blake3::Hasher::new_derive_key("garth key 1");
        let parts = [origin.token.reveal(), folder, &origin.idempotency_key].map(str::as_bytes);
        for part in std::iter::once(&self.0[..]).chain(parts) {
            // With its length, so that different parts never have the same input.
            material.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let (mut id, mut secret) = ([0; ID_BYTES], [0; SECRET_BYTES]);
        let mut output = material.finalize_xof();
        output.fill(&mut id);
        output.fill(&mut secret);
        self.issued(&id, &secret)
    }

    /// Returns true if the token has this hash. Takes the same time for any token and hash, and for no hash,
    /// so that an unknown id cannot be distinguished from a wrong secret.
    pub fn verify(&self, token: &str, stored: Option<&SecretHash>) -> bool {
        let dummy = SecretHash::default();
        let same = self.hash(token).ct_eq(stored.unwrap_or(&dummy));
        bool::from(same) && stored.is_some()
    }
}

/// Returns the public id of a token; `None` unless it has exactly the form of a token.
pub fn token_id(token: &str) -> Option<&str> {
    let (id, secret) = token.strip_prefix("garth_")?.split_once('.')?;
    (is_hex(id, ID_BYTES) && is_hex(secret, SECRET_BYTES)).then_some(id)
}

fn is_hex(text: &str, bytes: usize) -> bool {
    text.len() == 2 * bytes && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Whoever has a token and guesses the idempotency key still lacks the secret of the home.
    #[test]
    fn token_and_idempotency_key_alone_derive_nothing() {
        let origin = KeyOrigin::new("token", "rotate-1", [0; 32]);
        let derive = |key: [u8; 32]| Hasher::new(key).derive(&origin, "");
        let (one, other) = (derive([7; 32]), derive([8; 32]));
        assert_ne!(one.id, other.id);
        assert_ne!(one.secret.reveal(), other.secret.reveal());
        assert_eq!(derive([7; 32]).secret.reveal(), one.secret.reveal());
    }

    #[test]
    fn sealing_key_depends_on_the_secret_alone() {
        let keys = [1, 2].map(|secret| Hasher::new([secret; 32]).sealing_key());
        assert_eq!(keys[0], Hasher::new([1; 32]).sealing_key());
        assert!(keys[0] != keys[1] && keys[0] != [1; 32]);
    }

    #[test]
    fn derived_token_depends_on_caller_account_and_key() {
        let hasher = Hasher::new([7; 32]);
        let derive = |token: &str, folder: &str, key: &str| {
            let issued = hasher.derive(&KeyOrigin::new(token, key, [0; 32]), folder);
            assert_eq!(token_id(issued.secret.reveal()), Some(&*issued.id));
            assert!(hasher.verify(issued.secret.reveal(), Some(&issued.hash)));
            issued.secret.reveal().to_owned()
        };
        let all = [
            derive("token", "folder", "key"),
            derive("Token", "folder", "key"),
            derive("token", "", "key"),
            derive("token", "folder", "key2"),
            // The same letters, divided in other ways.
            derive("tokenf", "older", "key"),
            derive("token", "folderk", "ey"),
        ];
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
        assert_eq!(derive("token", "folder", "key"), all[0]);
    }
}
