//! Durations as people write them, and lifetimes of files.

use std::str::FromStr;

use garth_engine::model::{Timestamp, parse_age};

/// Longest duration, 200 years: later times would exceed a timestamp.
const MAX_SPAN: i64 = 200 * 365 * 86_400;

/// Parses a duration in seconds: a number, or numbers with units (`15m`, `3d12h`).
///
/// # Errors
/// The reason, for a text in another form, and for a duration of more than 200 years.
pub fn parse_span(text: &str) -> Result<i64, String> {
    match is_number(text) {
        // Fails for a number that is too large.
        true => within_limit(text.parse().unwrap_or(i64::MAX)),
        false => parse_units(text, "write seconds, or numbers with s, m, h, d or w: 90, 15m, 7d, 3d12h"),
    }
}

/// Parses a duration in seconds whose unit must be given, unless it is 0: for options with which too short a
/// time loses data.
///
/// # Errors
/// As [`parse_span`], and for a number without a unit.
pub fn parse_span_with_unit(text: &str) -> Result<i64, String> {
    match is_number(text) {
        true if text.bytes().all(|digit| digit == b'0') => Ok(0),
        true => Err(format!("`{text}` has no unit; write {text}s, {text}m, {text}h or {text}d")),
        false => parse_units(text, "write numbers with s, m, h, d or w: 15m, 7d, 3d12h"),
    }
}

/// Returns true for digits only: `parse` would also accept a sign.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Parses numbers with units. `forms` is the error for any other text.
fn parse_units(text: &str, forms: &str) -> Result<i64, String> {
    let seconds = parse_age(text).map_err(|error| error.message().to_owned())?;
    within_limit(seconds.ok_or(forms)?)
}

fn within_limit(seconds: i64) -> Result<i64, String> {
    if seconds <= MAX_SPAN { Ok(seconds) } else { Err("more than 200 years".into()) }
}

/// Lifetime: seconds from now, at least one, or without an end (`none`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetime(Option<i64>);

impl Lifetime {
    /// Without an end.
    pub const NEVER: Self = Self(None);

    /// Returns the time of expiry.
    pub fn end(self, now: Timestamp) -> Option<Timestamp> {
        self.0.map(|seconds| now.plus_seconds(seconds))
    }
}

impl FromStr for Lifetime {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
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
        for large in ["9223372036854775807", "9223372036854775808", "99999999999999999999"] {
            assert_eq!(parse_span(large), Err("more than 200 years".to_owned()));
        }
    }

    #[test]
    fn number_without_unit_is_refused_where_asked() {
        for (text, seconds) in
            [("0", 0), ("00", 0), ("0s", 0), ("7s", 7), ("7d", 604_800), ("1d12h", 129_600)]
        {
            assert_eq!(parse_span_with_unit(text), Ok(seconds));
        }
        let refused = parse_span_with_unit("7").unwrap_err();
        assert_eq!(refused, "`7` has no unit; write 7s, 7m, 7h or 7d");
        for wrong in ["", "-1", "-1d", "+1", "soon", "1d12", "99999w"] {
            assert!(parse_span_with_unit(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn rejects_lifetime_without_time_or_out_of_range() {
        for wrong in ["0", "0s", "999999999w", "7000000000", "None", ""] {
            assert!(wrong.parse::<Lifetime>().is_err(), "{wrong}");
        }
        assert_eq!("1s".parse(), Ok(Lifetime(Some(1))));
        assert_eq!("10000w".parse(), Ok(Lifetime(Some(6_048_000_000))));
        assert_eq!("none".parse(), Ok(Lifetime::NEVER));
    }
}
