//! Sealed cursors: positions that a client carries, but can neither read nor change. They are encrypted and
//! authenticated with the sealing key of the home, so that every server of the home opens them, and nobody
//! else.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use garth_engine::Env;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::errors::Refusal;

/// Bytes of the random number of a cursor.
const NUMBER: usize = 24;

/// Key that seals cursors.
pub(crate) struct SealingKey([u8; 32]);

impl std::fmt::Debug for SealingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealingKey(hidden)")
    }
}

impl SealingKey {
    /// Returns the sealing key of a home.
    pub(crate) const fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// Returns the sealed form of a position. It opens only with equal `parts`, which name the request and
    /// its caller.
    pub(crate) fn seal(&self, env: &Env, parts: &[&[u8]], position: &[u8]) -> Result<String, Refusal> {
        let number = env.random::<NUMBER>()?;
        let mut sealed = position.to_vec();
        let bound = Aad::from(joined(parts));
        let sealing = self.key_of(number)?.seal_in_place_separate_tag(nonce(), bound, &mut sealed);
        let tag = sealing.map_err(|_| Refusal::internal().because("a cursor cannot be sealed"))?;
        Ok(URL_SAFE_NO_PAD.encode([&number[..], &sealed[..], tag.as_ref()].concat()))
    }

    /// Returns the position of a cursor that was sealed with equal `parts`.
    pub(crate) fn open(&self, parts: &[&[u8]], cursor: &str) -> Result<Vec<u8>, Refusal> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
        let (number, sealed) = bytes.split_first_chunk::<NUMBER>().ok_or_else(refused)?;
        let (mut sealed, bound) = (sealed.to_vec(), Aad::from(joined(parts)));
        let opened = self.key_of(*number)?.open_in_place(nonce(), bound, &mut sealed);
        Ok(opened.map_err(|_| refused())?.to_vec())
    }

    /// Returns the key of one cursor. The home has its key for ever and on every server: random nonces of 96
    /// bits under it would meet at last, keys derived from 192 random bits do not.
    fn key_of(&self, number: [u8; NUMBER]) -> Result<LessSafeKey, Refusal> {
        let key = blake3::keyed_hash(&self.0, &number);
        let key = UnboundKey::new(&CHACHA20_POLY1305, key.as_bytes())
            .map_err(|_| Refusal::internal().because("a key for cursors cannot be made"))?;
        Ok(LessSafeKey::new(key))
    }
}

/// Returns the only nonce of a key, which seals one cursor.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

/// Returns parts as one text, each after its length, so that different parts never give the same text.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let part = |part: &&[u8]| [&(part.len() as u64).to_le_bytes()[..], *part].concat();
    parts.iter().flat_map(part).collect()
}

fn refused() -> Refusal {
    let message = "\"cursor\" must be the `next_cursor` of an earlier page of the same request; leave \"cursor\" out \
        to start again";
    Refusal::validation(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; 32] = [7; 32];

    #[test]
    fn only_the_same_request_opens_a_sealed_cursor() {
        let (env, key) = (Env::system(), SealingKey::new(KEY));
        let parts: [&[u8]; 2] = [b"request", b"acme"];
        let position = b"the position";
        let cursor = key.seal(&env, &parts, position).unwrap();
        // Another server of the same home.
        assert_eq!(SealingKey::new(KEY).open(&parts, &cursor).unwrap(), position);
        assert_ne!(key.seal(&env, &parts, position).unwrap(), cursor);
        let others: [[&[u8]; 2]; 3] = [[b"request", b"other"], [b"requestacme", b""], [b"reques", b"tacme"]];
        for other in others {
            assert!(key.open(&other, &cursor).is_err(), "{other:?}");
        }
        let refused = SealingKey::new([8; 32]).open(&parts, &cursor).unwrap_err();
        assert!(refused.message.contains("leave \"cursor\" out"), "{}", refused.message);
    }

    #[test]
    fn changed_cursors_are_refused_and_show_nothing() {
        let (env, key) = (Env::system(), SealingKey::new(KEY));
        let cursor = key.seal(&env, &[], b"canary").unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"canary"));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(key.open(&[], &URL_SAFE_NO_PAD.encode(changed)).is_err(), "{at}");
            assert!(key.open(&[], &URL_SAFE_NO_PAD.encode(&bytes[..at])).is_err(), "{at}");
        }
        for text in ["", "é", "a", "AAAA"] {
            assert!(key.open(&[], text).is_err(), "{text}");
        }
    }
}
