//! Outcome of a proof: success, or the reason why a promise does not hold.

use std::fmt;

/// Reason why a promise is not proved: an observation that contradicts it.
#[derive(Debug)]
pub struct Broken(String);

/// Outcome of a proof.
pub type Proven<T> = Result<T, Broken>;

impl Broken {
    /// Returns the reason.
    pub fn reason(&self) -> &str {
        &self.0
    }

    /// Returns a failure for this reason.
    pub fn because(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Broken {}

impl From<garth_engine::Error> for Broken {
    fn from(error: garth_engine::Error) -> Self {
        let source = std::error::Error::source(&error).map(|source| format!(" ({source})"));
        Self(format!("{:?}: {error}{}", error.kind(), source.unwrap_or_default()))
    }
}

impl From<garth_engine::PathError> for Broken {
    fn from(error: garth_engine::PathError) -> Self {
        Self(error.to_string())
    }
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Self(format!("the machine failed: {error}"))
    }
}

impl From<rusqlite::Error> for Broken {
    fn from(error: rusqlite::Error) -> Self {
        Self(format!("SQLite failed: {error}"))
    }
}

impl From<tokio::task::JoinError> for Broken {
    fn from(error: tokio::task::JoinError) -> Self {
        Self(format!("a task ended badly: {error}"))
    }
}

/// Checks that `holds`.
///
/// # Errors
/// `otherwise`, if it does not.
pub fn hold(holds: bool, otherwise: impl FnOnce() -> String) -> Proven<()> {
    if holds { Ok(()) } else { Err(Broken(otherwise())) }
}
