//! Declaration of one option.

use super::kind::{Kind, Value};
use super::settings::Settings;

/// Declaration of an option.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    /// Name in the file.
    pub(crate) key: &'static str,
    /// Name on the command line, without `--`: with `-` in place of `_`.
    pub(crate) flag: String,
    /// Name in the environment: `GARTH_` and the name in capitals.
    pub(crate) variable: String,
    pub(crate) group: Group,
    pub(crate) kind: Kind,
    /// Default value, as it would be written.
    pub(crate) default: Option<String>,
    /// Meaning, a sentence or two.
    pub(crate) meaning: &'static str,
    pub(crate) apply: Apply,
}

/// Subject of options, a heading of the reference page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Server,
    Log,
    Sink,
    Model,
    Embedder,
    Requests,
    Background,
    Storage,
}

/// Target of the value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Apply {
    /// Field of the settings.
    Own(fn(&mut Settings, Value)),
    /// Limit of the server, of the same name.
    Limit,
}

impl Setting {
    pub(crate) fn new(
        group: Group,
        key: &'static str,
        kind: Kind,
        default: Option<String>,
        meaning: &'static str,
        apply: Apply,
    ) -> Self {
        let (flag, variable) = (key.replace('_', "-"), format!("GARTH_{}", key.to_uppercase()));
        Self { key, flag, variable, group, kind, default, meaning, apply }
    }

    /// Returns true for options that may be set only by a variable, so that they appear neither in a file
    /// that is copied nor in the list of processes.
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self.kind, Kind::Secret)
    }
}

impl Group {
    /// All groups, in the order of the reference page.
    pub(crate) const ALL: [Self; 8] = [
        Self::Server,
        Self::Log,
        Self::Sink,
        Self::Model,
        Self::Embedder,
        Self::Requests,
        Self::Background,
        Self::Storage,
    ];

    pub(crate) fn heading(self) -> &'static str {
        match self {
            Self::Server => "Server",
            Self::Log => "Log",
            Self::Sink => "Sink",
            Self::Model => "Language model",
            Self::Embedder => "Embedding service",
            Self::Requests => "Limits of requests",
            Self::Background => "Limits of background work",
            Self::Storage => "Limits of storage",
        }
    }

    /// Returns true for limits, which most servers leave at their defaults.
    pub(crate) fn is_limits(self) -> bool {
        matches!(self, Self::Requests | Self::Background | Self::Storage)
    }
}
