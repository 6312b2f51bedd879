//! UUIDs of objects that agents store. Time and randomness come from the account's [`Env`], which tests can
//! fix, so the generators of the `uuid` crate are not used.

use garth_engine::env::Env;
use garth_engine::error::Result;
use uuid::Builder;

/// Returns a UUID of version 7. The 12 bits after the milliseconds are a fraction of a millisecond, so UUIDs
/// sort by time.
pub(crate) fn uuid(env: &Env) -> Result<String> {
    let nanos = u64::try_from(env.now().0).unwrap_or(0);
    let (millis, below) = (nanos / 1_000_000, nanos % 1_000_000);
    let [high, low] = u16::try_from((below << 12) / 1_000_000).unwrap_or(0).to_be_bytes();
    let mut rest: [u8; 10] = env.random()?;
    rest[..2].copy_from_slice(&[high, low]);
    Ok(Builder::from_unix_timestamp_millis(millis, &rest).into_uuid().to_string())
}

/// Returns a UUID of version 4: random.
pub(crate) fn random_uuid(env: &Env) -> Result<String> {
    Ok(Builder::from_random_bytes(env.random()?).into_uuid().to_string())
}

/// Returns a UUID of version 8: the beginning of a hash.
pub(crate) fn uuid_of(hash: [u8; 32]) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_their_version_and_variant() {
        assert_eq!(uuid_of([0xff; 32]), "ffffffff-ffff-8fff-bfff-ffffffffffff");
        let env = Env::system();
        for (id, version) in [(uuid(&env).unwrap(), "7"), (random_uuid(&env).unwrap(), "4")] {
            assert_eq!((id.len(), &id[14..15]), (36, version), "{id}");
            assert!(["8", "9", "a", "b"].contains(&&id[19..20]), "{id}");
        }
    }

    #[test]
    fn uuid_v7_begins_with_the_time() {
        let env = Env::system();
        let before = env.now().0 / 1_000_000;
        let id = uuid(&env).unwrap();
        let millis = i64::from_str_radix(&id.replace('-', "")[..12], 16).unwrap();
        assert!((before..=env.now().0 / 1_000_000).contains(&millis), "{id}");
    }
}
