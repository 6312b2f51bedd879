//! Times and durations as people write them.

use std::str::FromStr;

use garth_engine::model::{Moment, Timestamp, parse_age};
use garth_engine::{Error, ErrorKind, FileSystem};

use crate::fail::Result;

/// All forms of a time, for errors.
const FORMS: &str = "give a sequence (42), a snapshot, a version (ver_...), a date or RFC 3339 time \
    (2026-01-27, 2026-01-27T09:30Z), now, today, yesterday, `last week`, or an age (90s, 15m, 1h, 7d, 2w, 3d12h)";
/// Longest duration, 200 years: later times would exceed a timestamp.
const MAX_SPAN: i64 = 200 * 365 * 86_400;

/// Parses `--at`. Any other text is the name of a snapshot of `fs` and gives the sequence of its state,
/// because the tree of an identity has snapshots of its own.
///
/// # Errors
/// - `NotFound`: the text has no known form and names no snapshot.
/// - `InvalidArgument`: the text names no time, such as a date that is not in the calendar.
pub(crate) async fn moment(fs: &dyn FileSystem, text: &str, now: Timestamp) -> Result<Moment> {
    if let Some(moment) = Moment::parse(text, now)? {
        return Ok(moment);
    }
    let snapshot = Moment::Snapshot(text.to_owned());
    match fs.as_of(&snapshot).await {
        Err(error) if error.is(ErrorKind::NotFound) => {
            Err(Error::new(ErrorKind::NotFound, format!("no snapshot is named `{text}`; {FORMS}")).into())
        }
        found => Ok(Moment::Seq(found?.head().await?.seq)),
    }
}

/// Parses a duration in seconds: a number, or numbers with units (`15m`, `3d12h`). For clap.
pub(crate) fn parse_span(text: &str) -> std::result::Result<i64, String> {
    let seconds = match text.parse() {
        // `parse` would also accept a sign.
        Ok(seconds) if text.bytes().all(|byte| byte.is_ascii_digit()) => Some(seconds),
        _ => parse_age(text).map_err(|error| error.message().to_owned())?,
    };
    match seconds {
        Some(seconds) if seconds <= MAX_SPAN => Ok(seconds),
        Some(_) => Err("more than 200 years".into()),
        None => Err("write seconds, or numbers with s, m, h, d or w: 90, 15m, 7d, 3d12h".into()),
    }
}

/// Lifetime: seconds from now, at least one, or without an end (`none`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Expiry(Option<i64>);

impl Expiry {
    /// Without an end.
    pub(crate) const NEVER: Self = Self(None);

    /// Returns the time of expiry.
    pub(crate) fn end(self, now: Timestamp) -> Option<Timestamp> {
        self.0.map(|seconds| now.plus_seconds(seconds))
    }
}

impl FromStr for Expiry {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if text == "none" {
            return Ok(Self::NEVER);
        }
        match parse_span(text)? {
            0 => Err("0 would expire at once; `none` removes the expiry".into()),
            seconds => Ok(Self(Some(seconds))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_take_units_without_overflow() {
        for (text, seconds) in [("90", 90), ("0", 0), ("15m", 900), ("2w", 1_209_600), ("3d12h", 302_400)] {
            assert_eq!(parse_span(text), Ok(seconds));
        }
        for wrong in ["", "h", "1.5h", "-1h", "+1", "1y", "99999999999999999999", "9999999999999999999w", "é"]
        {
            assert!(parse_span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rejects_expiry_now_or_out_of_range() {
        for wrong in ["0", "0s", "999999999w", "7000000000", "None", ""] {
            assert!(wrong.parse::<Expiry>().is_err(), "{wrong}");
        }
        assert_eq!("1s".parse(), Ok(Expiry(Some(1))));
        assert_eq!("10000w".parse(), Ok(Expiry(Some(6_048_000_000))));
        assert_eq!("none".parse(), Ok(Expiry::NEVER));
    }
}
