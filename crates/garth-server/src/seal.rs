//! Sealed cursors: positions that a client carries, but can neither read nor change. They are encrypted and
//! authenticated with a key that this process chose at random, so no other process can open them.

use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use garth_engine::Env;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::errors::Refusal;

/// Key that seals cursors, chosen when it is first needed.
#[derive(Debug, Default)]
pub(crate) struct SealingKey(OnceLock<LessSafeKey>);

impl SealingKey {
    /// Returns the sealed form of a position. It opens only with equal `parts`, which name the request and
    /// its caller.
    pub(crate) fn seal(&self, env: &Env, parts: &[&[u8]], position: &[u8]) -> Result<String, Refusal> {
        // A random number of 96 bits for each cursor: none occurs twice before billions of them.
        let number = env.random::<NONCE_LEN>()?;
        let mut sealed = position.to_vec();
        let (nonce, bound) = (Nonce::assume_unique_for_key(number), Aad::from(joined(parts)));
        let sealing = self.key(env)?.seal_in_place_separate_tag(nonce, bound, &mut sealed);
        let tag = sealing.map_err(|_| Refusal::internal().because("a cursor cannot be sealed"))?;
        Ok(URL_SAFE_NO_PAD.encode([&number[..], &sealed[..], tag.as_ref()].concat()))
    }

    /// Returns the position of a cursor that was sealed with equal `parts`.
    pub(crate) fn open(&self, env: &Env, parts: &[&[u8]], cursor: &str) -> Result<Vec<u8>, Refusal> {
        let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refused())?;
        let (number, sealed) = bytes.split_at_checked(NONCE_LEN).ok_or_else(refused)?;
        let nonce = Nonce::try_assume_unique_for_key(number).map_err(|_| refused())?;
        let (mut sealed, bound) = (sealed.to_vec(), Aad::from(joined(parts)));
        let opened = self.key(env)?.open_in_place(nonce, bound, &mut sealed).map_err(|_| refused())?;
        Ok(opened.to_vec())
    }

    fn key(&self, env: &Env) -> Result<&LessSafeKey, Refusal> {
        if let Some(key) = self.0.get() {
            return Ok(key);
        }
        let key = UnboundKey::new(&CHACHA20_POLY1305, &env.random::<32>()?)
            .map_err(|_| Refusal::internal().because("a key for cursors cannot be made"))?;
        // Of two requests at once, the first one decides.
        Ok(self.0.get_or_init(|| LessSafeKey::new(key)))
    }
}

/// Returns parts as one text, each after its length, so that different parts never give the same text.
fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let part = |part: &&[u8]| [&(part.len() as u64).to_le_bytes()[..], *part].concat();
    parts.iter().flat_map(part).collect()
}

fn refused() -> Refusal {
    let message = "\"cursor\" must be the `next_cursor` of an earlier page of the same request from the same server, \
        which may have restarted since; leave \"cursor\" out to start again";
    Refusal::validation(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_request_opens_a_sealed_cursor() {
        let (env, key) = (Env::system(), SealingKey::default());
        let parts: [&[u8]; 2] = [b"request", b"acme"];
        let position = b"the position";
        let cursor = key.seal(&env, &parts, position).unwrap();
        assert_eq!(key.open(&env, &parts, &cursor).unwrap(), position);
        assert_ne!(key.seal(&env, &parts, position).unwrap(), cursor);
        let others: [[&[u8]; 2]; 3] = [[b"request", b"other"], [b"requestacme", b""], [b"reques", b"tacme"]];
        for other in others {
            assert!(key.open(&env, &other, &cursor).is_err(), "{other:?}");
        }
        let another = SealingKey::default();
        let refused = another.open(&env, &parts, &cursor).unwrap_err();
        assert!(refused.message.contains("may have restarted"), "{}", refused.message);
    }

    #[test]
    fn changed_cursors_are_refused_and_show_nothing() {
        let (env, key) = (Env::system(), SealingKey::default());
        let cursor = key.seal(&env, &[], b"canary").unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(&cursor).unwrap();
        assert!(!bytes.windows(6).any(|part| part == b"canary"));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert!(key.open(&env, &[], &URL_SAFE_NO_PAD.encode(changed)).is_err(), "{at}");
            assert!(key.open(&env, &[], &URL_SAFE_NO_PAD.encode(&bytes[..at])).is_err(), "{at}");
        }
        for text in ["", "é", "a", "AAAA"] {
            assert!(key.open(&env, &[], text).is_err(), "{text}");
        }
    }
}
