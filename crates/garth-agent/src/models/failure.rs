//! Reasons why a model or an embedding service gave no answer that can be used.

use std::fmt;

use garth_engine::error::{Error, ErrorKind};

/// Reason why a service gave no answer that can be used. It contains nothing that the service sent, which
/// could repeat a key. Its text is a predicate: `could not be reached`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ServiceError {
    /// No answer in time.
    TimedOut,
    /// No connection, or one that broke off before an answer.
    Unreachable,
    /// Refused request, with the status of HTTP.
    Refused(u16),
    /// Answer of another form, and what it is, such as `something else than vectors`.
    Invalid(&'static str),
    /// Request that was not sent, because too many others wait for the service.
    Busy,
}

impl fmt::Display for ServiceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut => f.write_str("did not answer in time"),
            Self::Unreachable => f.write_str("could not be reached"),
            Self::Refused(status) => write!(f, "refused the request (status {status})"),
            Self::Invalid(what) => write!(f, "returned {what}"),
            Self::Busy => f.write_str("was not asked, because too many requests wait for it"),
        }
    }
}

impl std::error::Error for ServiceError {}

/// Reason why a language model gave no answer. It is the cause of an error of the kind `Unavailable`, so that
/// an interface can tell it from failures of the storage. Its text is a sentence for the user, and contains
/// no URL, no key and nothing that the model sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoAnswer {
    /// The account has used its tokens of the day.
    UsedUp,
    /// The model failed.
    Service(ServiceError),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UsedUp => f.write_str("the account's tokens for the language model are used up for today"),
            // A repeat would be refused for the same reason: the key, the model's name or the address.
            Self::Service(error @ ServiceError::Refused(401..=404)) => {
                write!(
                    f,
                    "the language model {error}; nothing was lost, the settings of the model must be changed"
                )
            }
            Self::Service(error) => write!(f, "the language model {error}; nothing was lost, try again"),
        }
    }
}

impl std::error::Error for NoAnswer {}

impl From<NoAnswer> for Error {
    fn from(reason: NoAnswer) -> Self {
        Self::new(ErrorKind::Unavailable, reason.to_string()).with_source(reason)
    }
}

/// Reason why there are no vectors of texts.
#[derive(Debug)]
pub(crate) enum NoVectors {
    /// The account has used its tokens of the day.
    UsedUp,
    /// The service failed shortly before.
    Paused,
    Service(ServiceError),
    /// The tokens of the account cannot be counted.
    Storage(Error),
}

impl NoVectors {
    /// Returns true if the service failed, so that it is not asked for a while.
    pub(crate) fn is_failure_of_service(&self) -> bool {
        matches!(self, Self::Service(error) if *error != ServiceError::Busy)
    }

    /// Returns a note for an answer that was composed without the vectors.
    pub(crate) fn note(&self) -> String {
        match self {
            Self::UsedUp | Self::Storage(_) => format!("{self}; meaning was compared without them."),
            Self::Paused | Self::Service(_) => format!("{self}; meaning was compared without it."),
        }
    }

    /// Logs what an operator can mend.
    pub(crate) fn log(&self) {
        match self {
            Self::UsedUp => {}
            Self::Storage(error) => tracing::warn!(%error, "tokens for embeddings cannot be counted"),
            Self::Paused | Self::Service(_) => {
                tracing::warn!(reason = %self, "texts are compared without the embedding service");
            }
        }
    }
}

impl fmt::Display for NoVectors {
    /// Leaves out an error of the storage, which is only for the log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UsedUp => f.write_str("The account's tokens for embeddings are used up for today"),
            Self::Paused => f.write_str("The embedding service failed shortly before, and was not asked"),
            Self::Service(error) => write!(f, "The embedding service {error}"),
            Self::Storage(_) => f.write_str("The account's tokens for embeddings could not be counted"),
        }
    }
}

impl From<ServiceError> for NoVectors {
    fn from(error: ServiceError) -> Self {
        Self::Service(error)
    }
}

impl From<Error> for NoVectors {
    fn from(error: Error) -> Self {
        Self::Storage(error)
    }
}
