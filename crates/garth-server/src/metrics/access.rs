//! Access to the metrics.

use std::fmt;

use garth_engine::{Error, Result};

/// Shortest token in bytes. A shorter one can be guessed.
const MIN_TOKEN: usize = 16;

/// Access to `GET /metrics`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MetricsAccess {
    /// Everyone may read the metrics.
    #[default]
    Open,
    /// The route does not exist.
    Off,
    /// The header `Authorization: Bearer TOKEN` is required.
    Token(MetricsToken),
}

/// Token that reads the metrics.
#[derive(Clone, PartialEq, Eq)]
pub struct MetricsToken(blake3::Hash);

impl MetricsToken {
    /// Returns a token. Only its hash stays in memory.
    ///
    /// # Errors
    /// `InvalidArgument`: the token has fewer than 16 bytes, spaces or control characters.
    pub fn new(token: &str) -> Result<Self> {
        if token.len() < MIN_TOKEN {
            let message = format!("the metrics token must have at least {MIN_TOKEN} bytes");
            return Err(Error::invalid(message));
        }
        // A header cannot carry these.
        if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::invalid(
                "the metrics token must be ASCII without spaces and control characters",
            ));
        }
        Ok(Self(blake3::hash(token.as_bytes())))
    }

    /// Returns true for this token. The time that it takes does not depend on how much of `given` is right:
    /// `blake3` compares hashes in constant time.
    pub(crate) fn is(&self, given: &str) -> bool {
        self.0 == blake3::hash(given.as_bytes())
    }
}

impl fmt::Debug for MetricsToken {
    /// Leaves out the hash, from which a weak token could be guessed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsToken").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_compared_whole() {
        let token = MetricsToken::new("0123456789abcdef").unwrap();
        assert!(token.is("0123456789abcdef"));
        for wrong in ["", "0123456789abcde", "0123456789abcdeg", "0123456789abcdef0"] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "MetricsToken { .. }");
    }

    #[test]
    fn rejects_tokens_that_can_be_guessed_or_not_sent() {
        for (token, message) in
            [("0123456789abcde", "at least 16 bytes"), ("0123456789 abcdef", "without spaces")]
        {
            let error = MetricsToken::new(token).unwrap_err();
            assert!(error.message().contains(message) && !error.message().contains(token), "{error}");
        }
    }
}
