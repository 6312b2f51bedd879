//! Cursors of pages. Only a cursor that the same call returned is accepted; a truncated or invented one is
//! refused, so that it cannot shift a page.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};

use crate::errors::Refusal;

/// Bytes of the digest before the position. It detects mistakes; it is not a signature.
const CHECKED: usize = 6;

/// Returns the cursor of a position in the answers of a call.
pub(super) fn encoded(path: &str, position: &str) -> String {
    URL_SAFE_NO_PAD.encode([&digest(path, position), position.as_bytes()].concat())
}

/// Returns the position of a cursor.
pub(super) fn position(path: &str, cursor: &str) -> Result<String, Refusal> {
    let refusal = || Refusal::validation("\"cursor\" must be a cursor that this call returned");
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| refusal())?;
    let (digested, position) = bytes.split_at_checked(CHECKED).ok_or_else(refusal)?;
    let position = std::str::from_utf8(position).map_err(|_| refusal())?;
    if digested == digest(path, position) { Ok(position.to_owned()) } else { Err(refusal()) }
}

fn digest(path: &str, position: &str) -> [u8; CHECKED] {
    // The zero byte separates: no other path and position give the same input.
    let digest = Sha256::new().chain_update(path).chain_update([0]).chain_update(position).finalize();
    let mut first = [0; CHECKED];
    first.copy_from_slice(&digest[..CHECKED]);
    first
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rejects_arbitrary_text_as_cursor(text in "\\PC{0,60}|[A-Za-z0-9_-]{0,60}", at in "\\PC{0,40}") {
            prop_assert!(position("/v1/list", &text).is_err());
            prop_assert_eq!(position("/v1/list", &encoded("/v1/list", &at)).ok(), Some(at));
        }
    }

    #[test]
    fn cursor_is_valid_only_for_its_call() {
        for at in ["", "a", "/d/k\u{1b}9", "ann/\u{10ffff}"] {
            let cursor = encoded("/v1/list", at);
            assert_eq!(position("/v1/list", &cursor).ok().as_deref(), Some(at));
            assert!(position("/v1/glob", &cursor).is_err());
            for cut in 0..cursor.len() {
                assert!(position("/v1/list", &cursor[..cut]).is_err(), "{cut} of {cursor}");
            }
        }
        for made_up in ["", "00", "zzz", "99999999", "\0", "Li4vLi4v", "é"] {
            assert!(position("/v1/list", made_up).is_err(), "{made_up}");
        }
    }
}
