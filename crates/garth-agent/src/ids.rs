//! Ids that agents' features make.

use garth_engine::env::Env;
use garth_engine::error::Result;

/// A UUID of version 7: in the order of time, as fine as 12 bits beside the milliseconds tell it.
pub(crate) fn uuid(env: &Env) -> Result<String> {
    let nanos = u64::try_from(env.now().0).unwrap_or(0);
    let (millis, below) = (nanos / 1_000_000, nanos % 1_000_000);
    let [high, low] = u16::try_from((below << 12) / 1_000_000).unwrap_or(0).to_be_bytes();
    let mut bytes: [u8; 16] = env.random()?;
    bytes[..6].copy_from_slice(&millis.to_be_bytes()[2..]);
    bytes[6..8].copy_from_slice(&[high, low]);
    Ok(shown(bytes, 7))
}

/// A UUID of version 4: random.
pub(crate) fn random_uuid(env: &Env) -> Result<String> {
    Ok(shown(env.random()?, 4))
}

/// A UUID of version 8: the beginning of a hash.
pub(crate) fn uuid_of(hash: [u8; 32]) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    shown(bytes, 8)
}

fn shown(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = (bytes[6] & 0x0f) | (version << 4);
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}
