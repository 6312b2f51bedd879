//! Failures of the key-value API, with the key.

use garth_agent::kv::{KvError, KvResult};
use garth_engine::{Error, ErrorKind};

use crate::fail::{Failure, Result};

/// Adds the key to an error of the key-value API.
pub(super) trait AtKey<T> {
    fn at_key(self, key: &str) -> Result<T>;
}

impl<T> AtKey<T> for KvResult<T> {
    fn at_key(self, key: &str) -> Result<T> {
        self.map_err(Failure::kv(key))
    }
}

pub(super) fn no_key(key: &str) -> Failure {
    failure(ErrorKind::NotFound, key, "no such key")
}

pub(super) fn failure(kind: ErrorKind, key: &str, message: impl Into<String>) -> Failure {
    Failure::kv(key)(KvError::from(Error::new(kind, message)))
}
