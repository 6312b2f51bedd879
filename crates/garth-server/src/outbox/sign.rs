//! Signature of requests to a sink: HMAC with SHA-256 (RFC 2104) over the time and the body.

use garth_engine::model::hex;
use sha2::{Digest as _, Sha256};

/// Block size of SHA-256 in bytes.
const BLOCK: usize = 64;

/// Returns `v1=` and the HMAC of `timestamp`, a dot and the body, in hexadecimal.
pub(super) fn signature(secret: &[u8], timestamp: &str, body: &[u8]) -> String {
    let mac = hmac(secret, &[timestamp.as_bytes(), b".", body]);
    format!("v1={}", hex(&mac))
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut block = [0; BLOCK];
    match key.len() > BLOCK {
        // As RFC 2104 prescribes for keys longer than a block.
        true => block[..32].copy_from_slice(&Sha256::digest(key)),
        false => block[..key.len()].copy_from_slice(key),
    }
    let padded = |pad: u8| Sha256::new_with_prefix(block.map(|byte| byte ^ pad));
    // Inner and outer pad of RFC 2104.
    let inner = parts.iter().fold(padded(0x36), |hash, part| hash.chain_update(part)).finalize();
    padded(0x5c).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_matches_rfc_4231() {
        let short = hmac(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
        assert_eq!(hex(&short), "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
        let long = hmac(&[0xaa; 131], &[b"Test Using Larger Than Block-Size Key - Hash Key First"]);
        assert_eq!(hex(&long), "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    }

    #[test]
    fn signature_covers_time_and_body() {
        let one = signature(b"secret", "1769472000", b"{}");
        assert!(one.starts_with("v1=") && one.len() == 67);
        assert_ne!(one, signature(b"secret", "1769472001", b"{}"));
        assert_ne!(one, signature(b"secret", "1769472000", b"{ }"));
        assert_ne!(one, signature(b"other", "1769472000", b"{}"));
    }
}
