//! What a rule demands, its terms as text, and how a file's content is checked for it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::check::{Checking, Place};
use crate::error::{Error, Result};

/// Largest file that is checked as a whole, 16 MiB: what a commit holds in memory for it.
pub const MAX_WHOLE: u64 = 16 << 20;

/// Most keys that a read-only rule lets write.
const MAX_WRITERS: usize = 100;

/// What is demanded of the paths of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A file has at most this many bytes.
    MaxSize(u64),
    /// A file's whole content is one JSON value. At most [`MAX_WHOLE`].
    Json,
    /// A file only grows at its end: it is not removed, replaced, cut, renamed, and does not expire.
    AppendOnly,
    /// Names and what they lead to stay as they are, but for commits that come with one of these keys.
    ReadOnly {
        /// Ids of keys.
        except: Vec<String>,
    },
    /// Search does not see the content.
    NotSearchable,
}

/// The terms of a demand as they are kept and shown.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Terms {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    schema: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unique: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    except: Vec<String>,
}

impl Demand {
    /// The names of demands.
    pub const NAMES: [&str; 5] = ["json", "append-only", "read-only", "max-size", "not-searchable"];

    /// Its name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::AppendOnly => "append-only",
            Self::ReadOnly { .. } => "read-only",
            Self::MaxSize(_) => "max-size",
            Self::NotSearchable => "not-searchable",
        }
    }

    /// Its terms: a JSON object with `bytes` of a `max-size`, and `except`, ids of keys, of a `read-only`.
    pub fn terms(&self) -> String {
        let terms = match self {
            Self::MaxSize(bytes) => Terms { bytes: Some(*bytes), ..Terms::default() },
            Self::ReadOnly { except } => Terms { except: except.clone(), ..Terms::default() },
            Self::Json | Self::AppendOnly | Self::NotSearchable => Terms::default(),
        };
        serde_json::to_string(&terms).unwrap_or_default()
    }

    /// Reads a demand from its name and terms.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown name, and for terms that are malformed or of another demand.
    pub fn parse(name: &str, terms: &str) -> Result<Self> {
        let bad = |why: String| Error::invalid(format!("the terms of `{name}` {why}"));
        let given: Terms =
            serde_json::from_str(terms).map_err(|error| bad(format!("cannot be read: {error}")))?;
        let demand = match name {
            "json" => Self::Json,
            "append-only" => Self::AppendOnly,
            "not-searchable" => Self::NotSearchable,
            "read-only" if given.except.len() > MAX_WRITERS => {
                return Err(bad(format!("have more than {MAX_WRITERS} keys")));
            }
            "read-only" => Self::ReadOnly { except: given.except.clone() },
            "max-size" => Self::MaxSize(given.bytes.ok_or_else(|| bad("lack `bytes`".to_owned()))?),
            _ => {
                let known = Self::NAMES.join(", ");
                return Err(Error::invalid(format!("`{name}` is no demand: it is one of {known}")));
            }
        };
        let own: serde_json::Value = serde_json::from_str(&demand.terms()).unwrap_or_default();
        let all = serde_json::to_value(&given).unwrap_or_default();
        match own == all {
            true => Ok(demand),
            false => Err(bad(format!("are {own}, not {all}"))),
        }
    }

    /// Whether it is about what a commit does to a path, and not about what it leaves there.
    pub(super) fn is_about_change(&self) -> bool {
        matches!(self, Self::AppendOnly | Self::ReadOnly { .. })
    }

    /// Who may write what is read-only.
    pub(super) fn writers(&self) -> Option<&[String]> {
        match self {
            Self::ReadOnly { except } => Some(except),
            _ => None,
        }
    }

    /// Whether what was checked of a file need not be checked again as long as it stays.
    pub(super) fn goes_on(&self) -> bool {
        false
    }

    /// Begins to check the content of a file of this size from a place on. `None` if nothing is to be read.
    ///
    /// # Errors
    /// What is wrong about it, in words.
    pub(super) fn begin(&self, size: u64, _from: Place) -> Result<Option<Checking<'_>>, String> {
        match self {
            Self::MaxSize(most) if size > *most => {
                Err(format!("has to be of at most {most} bytes, as all files there; it would have {size}"))
            }
            Self::Json if size > MAX_WHOLE => Err(too_large("JSON", size)),
            Self::Json => Ok(Some(Checking::json(size))),
            Self::MaxSize(_) | Self::AppendOnly | Self::ReadOnly { .. } | Self::NotSearchable => Ok(None),
        }
    }
}

fn too_large(what: &str, size: u64) -> String {
    format!(
        "has to be {what}, as all files there, and of at most {MAX_WHOLE} bytes for that; it would have {size}"
    )
}
