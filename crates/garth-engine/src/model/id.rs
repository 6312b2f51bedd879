//! Identities and times: of nodes, commits and versions.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::json::shown;
use crate::error::{Error, Result};

/// Time in nanoseconds since 1970-01-01T00:00:00Z.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the time `seconds` later. Saturates.
    #[must_use]
    pub fn plus_seconds(self, seconds: i64) -> Self {
        Self(self.0.saturating_add(seconds.saturating_mul(1_000_000_000)))
    }

    /// Returns the time as RFC 3339 with milliseconds and `Z`: `2026-01-27T00:00:00.000Z`. Rounds down.
    pub fn to_rfc3339(self) -> String {
        // Every time of 64 bits is within the range of `jiff`, so the default is never used.
        let text = jiff::Timestamp::from_nanosecond(i128::from(self.0)).unwrap_or_default();
        format!("{text:.3}")
    }

    /// Parses RFC 3339 (`2026-01-27T00:00:00Z`, any offset, up to nanoseconds).
    ///
    /// # Errors
    /// `InvalidArgument` for any other text, and for a time that does not fit into 64 bits of nanoseconds
    /// (1677-09-22 to 2262-04-11).
    pub fn parse_rfc3339(text: &str) -> Result<Self> {
        in_range(text, nanoseconds(text).ok_or_else(|| malformed(text))?)
    }

    /// Parses RFC 3339 as the end of a range. Each time after the last one that fits is the last one: a range
    /// without an end is often written with `9999-12-31T23:59:59Z`.
    ///
    /// # Errors
    /// As [`Timestamp::parse_rfc3339`], except for times after the last one.
    pub fn parse_rfc3339_end(text: &str) -> Result<Self> {
        match nanoseconds(text) {
            Some(time) if time > i128::from(i64::MAX) => Ok(Self(i64::MAX)),
            _ => Self::parse_rfc3339(text),
        }
    }

    /// Parses RFC 3339 as a time to compare with others. A time before the first one that fits is the first
    /// one, and a time after the last one is the last one.
    ///
    /// # Errors
    /// `InvalidArgument` for any other text.
    pub fn parse_rfc3339_saturating(text: &str) -> Result<Self> {
        let time = nanoseconds(text).ok_or_else(|| malformed(text))?;
        Ok(Self(i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX })))
    }
}

fn malformed(text: &str) -> Error {
    Error::invalid(format!("`{text}` is not an RFC 3339 time such as 2026-01-27T00:00:00Z"))
}

/// Returns the time of a number of nanoseconds that a text stands for.
///
/// # Errors
/// `InvalidArgument`, which names the range.
pub(super) fn in_range(text: &str, nanoseconds: i128) -> Result<Timestamp> {
    i64::try_from(nanoseconds).map(Timestamp).map_err(|_| {
        Error::invalid(format!("`{text}` is out of range: times are from 1677-09-22 to 2262-04-11"))
    })
}

/// Returns the nanoseconds since 1970 of an RFC 3339 time; `None` for other text.
pub(super) fn nanoseconds(text: &str) -> Option<i128> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_nanosecond());
    }
    // The last hours of 9999 are not in the range of `jiff::Timestamp`, but in that of its dates.
    let pieces = jiff::fmt::temporal::Pieces::parse(text).ok()?;
    // A date without a time of day, or a time without an offset, is not RFC 3339.
    let (time, _) = (pieces.time()?, pieces.offset()?);
    saturated(pieces.date().to_datetime(time))
}

/// Returns a number of nanoseconds beyond the range of a timestamp for a date in the first or last year
/// of the calendar.
pub(super) fn saturated(civil: jiff::civil::DateTime) -> Option<i128> {
    match civil.year() {
        9999.. => Some(i128::MAX),
        ..=-9999 => Some(i128::MIN),
        _ => None,
    }
}

/// Inode number of a node. Stable across renames, never used twice. The root is 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(transparent)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory.
    pub const ROOT: Self = Self(1);
    /// No node, as in the outcome of removing a missing path.
    pub const NONE: Self = Self(0);
}

/// Sequence number of a commit. The first is 1; 0 is the empty tree before it. Dense: every acknowledged
/// batch takes one.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[schemars(inline)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Version of a node: its state after a commit. As text `ver_<seq>-<ino>`, both in lower-case hexadecimal;
/// opaque to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionId {
    /// Commit.
    pub seq: Seq,
    /// Node; [`Ino::NONE`] for the removal of a missing path.
    pub ino: Ino,
}

impl Serialize for VersionId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        shown::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for VersionId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        shown::deserialize(from)
    }
}

impl fmt::Display for VersionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ver_{:x}-{:x}", self.seq.0, self.ino.0)
    }
}

impl FromStr for VersionId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.strip_prefix("ver_").and_then(|rest| rest.split_once('-'));
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        parts
            .and_then(|(seq, ino)| Some(Self { seq: Seq(number(seq)?), ino: Ino(number(ino)?) }))
            .filter(|id| id.to_string() == text) // One spelling only: no `+`, no leading zero, no upper case.
            .ok_or_else(|| Error::invalid("not a version id, which looks like ver_7-3"))
    }
}

/// Id that a caller chose for a commit: 128 bits, shown as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommitId(pub u128);

impl fmt::Display for CommitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl FromStr for CommitId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let id = u128::from_str_radix(text, 16).ok().map(Self);
        let one_spelling = |id: &Self| id.to_string() == text; // No `+`, no upper case, no missing zero.
        id.filter(one_spelling).ok_or_else(|| Error::invalid("the id of a commit has 32 hexadecimal digits"))
    }
}

impl Serialize for CommitId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        shown::serialize(self, to)
    }
}

impl<'de> Deserialize<'de> for CommitId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        shown::deserialize(from)
    }
}
