//! Text forms of a time or state, as `--at` takes them. A snapshot must not have such a name.

use super::id::{Seq, Timestamp, VersionId, in_range, nanoseconds, saturated};
use super::query::Moment;
use crate::error::{Error, Result};

const DAY: i64 = 86_400;

impl Moment {
    /// Parses the text form of a moment. `None` for any other text, which can be the name of a snapshot.
    ///
    /// | text | moment |
    /// |---|---|
    /// | `42` | the commit with this sequence number |
    /// | `ver_2a-7` | the commit that made this version |
    /// | `2026-01-27T09:30:00Z`, `2026-01-27T10:30+01:00` | this time; with exactly three decimals, the end of that millisecond |
    /// | `2026-01-27T09:30`, `2026-01-27` | this time in UTC; a date means 00:00 |
    /// | `now` | `now` |
    /// | `today`, `yesterday` | 00:00 UTC of the day of `now`, of the day before |
    /// | `last week` | 7 days before `now` |
    /// | `90s`, `15m`, `1h`, `7d`, `2w`, `3d12h` | this long before `now` |
    ///
    /// Case does not matter in the words.
    ///
    /// ```
    /// # use garth_engine as garth;
    /// use garth::model::{Moment, Seq, Timestamp};
    ///
    /// let now = Timestamp::parse_rfc3339("2026-01-27T09:30:00Z")?;
    /// assert_eq!(Moment::parse("42", now)?, Some(Moment::Seq(Seq(42))));
    /// assert_eq!(Moment::parse("1h", now)?, Some(Moment::Time(now.plus_seconds(-3600))));
    /// assert_eq!(Moment::parse("release-1", now)?, None);
    /// # Ok::<(), garth::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for text of one of these forms that has no meaning: a sequence number or age that is
    /// too large, a date that is not in the calendar.
    pub fn parse(text: &str, now: Timestamp) -> Result<Option<Self>> {
        // First, because digits alone are always a sequence number.
        if is_number(text) {
            let number = text
                .parse()
                .map_err(|_| Error::invalid(format!("the sequence number `{text}` is too large")))?;
            return Ok(Some(Self::Seq(Seq(number))));
        }
        if let Ok(version) = text.parse::<VersionId>() {
            return Ok(Some(Self::Seq(version.seq)));
        }
        let word = text.to_ascii_lowercase();
        // Times before 1970 are negative, so a plain remainder would round up.
        let midnight = Timestamp(now.0.saturating_sub(now.0.rem_euclid(1_000_000_000 * DAY)));
        let time = match word.as_str() {
            "now" => now,
            "today" => midnight,
            "yesterday" => midnight.plus_seconds(-DAY),
            "last week" => now.plus_seconds(-7 * DAY),
            _ => match parse_age(text)? {
                Some(seconds) => now.plus_seconds(-seconds),
                None => return Ok(time(text)?.map(Self::Time)),
            },
        };
        Ok(Some(Self::Time(time)))
    }
}

/// Parses an age in seconds: numbers, each with one of the units `s`, `m`, `h`, `d`, `w`, such as `90s`, `7d`
/// or `3d12h`, which add up. `None` for any other text.
///
/// # Errors
/// `InvalidArgument` for an age that is too large.
pub fn parse_age(text: &str) -> Result<Option<i64>> {
    if text.is_empty() {
        return Ok(None);
    }
    let too_large = || Error::invalid(format!("the age `{text}` is too large"));
    let mut parts = Vec::new();
    for part in text.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let unit = match part.bytes().last() {
            Some(b's') => 1,
            Some(b'm') => 60,
            Some(b'h') => 3600,
            Some(b'd') => DAY,
            Some(b'w') => 7 * DAY,
            _ => return Ok(None),
        };
        // The unit is one byte, so this cuts at a character.
        let number = &part[..part.len() - 1];
        // `parse` would also accept a sign.
        if !is_number(number) {
            return Ok(None);
        }
        parts.push((number, unit));
    }
    let mut age: i64 = 0;
    for (number, unit) in parts {
        let seconds = number.parse::<i64>().ok().and_then(|number| number.checked_mul(unit));
        age = seconds.and_then(|seconds| age.checked_add(seconds)).ok_or_else(too_large)?;
    }
    Ok(Some(age))
}

/// Parses a date, or a time with or without an offset. Without one it is UTC.
fn time(text: &str) -> Result<Option<Timestamp>> {
    match nanoseconds(text).or_else(|| nanoseconds_of_date(text)) {
        Some(time) => Ok(Some(whole_millisecond(text, in_range(text, time)?))),
        None if looks_like_time(text) => Err(Error::invalid(format!("`{text}` is not a date or time"))),
        None => Ok(None),
    }
}

/// Returns the nanoseconds since 1970 of a date, or of a time without an offset; `None` for other text.
fn nanoseconds_of_date(text: &str) -> Option<i128> {
    let civil = text.parse::<jiff::civil::DateTime>().ok()?;
    match civil.to_zoned(jiff::tz::TimeZone::UTC) {
        Ok(zoned) => Some(zoned.timestamp().as_nanosecond()),
        Err(_) => saturated(civil),
    }
}

/// Returns true for a date or time after the last one of a [`Timestamp`], such as `9999-12-31`. As the
/// end of a range, it stands for no end.
pub fn is_after_last_time(text: &str) -> bool {
    nanoseconds(text).or_else(|| nanoseconds_of_date(text)).is_some_and(|time| time > i128::from(i64::MAX))
}

/// Returns the end of a millisecond for a time with three decimals. Commits are timed to the nanosecond but
/// printed in milliseconds, rounded down: the printed time of a commit would be before the commit.
fn whole_millisecond(text: &str, time: Timestamp) -> Timestamp {
    let decimals = text.split_once('.').map(|(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    if decimals == Some(3) { Timestamp(time.0.saturating_add(999_999)) } else { time }
}

/// Returns true for text such as `2026-02-30`: a mistyped date rather than the name of a snapshot. False for
/// `2026-02-30-release`.
fn looks_like_time(text: &str) -> bool {
    let shape = |(index, byte): (usize, u8)| match index {
        4 | 7 => byte == b'-',
        0..10 => byte.is_ascii_digit(),
        _ => byte.is_ascii_digit() || b"-+:. TtZz".contains(&byte),
    };
    text.len() >= 10 && text.bytes().enumerate().all(shape)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        // With nanoseconds, which an age must keep.
        Timestamp(Timestamp::parse_rfc3339("2026-01-27T09:30:10Z").expect("a time").0 + 5)
    }

    fn read(text: &str) -> Option<Moment> {
        Moment::parse(text, now()).expect("no mistake")
    }

    fn at(text: &str) -> Option<Moment> {
        Some(Moment::Time(Timestamp::parse_rfc3339(text).expect("a time")))
    }

    fn ago(seconds: i64) -> Option<Moment> {
        Some(Moment::Time(now().plus_seconds(-seconds)))
    }

    #[test]
    fn parses_every_form_of_a_moment() {
        assert_eq!(read("42"), Some(Moment::Seq(Seq(42))));
        assert_eq!(read("ver_2a-7"), Some(Moment::Seq(Seq(42))));
        assert_eq!(read("2026-01-27T00:00:00Z"), at("2026-01-27T00:00:00Z"));
        assert_eq!(read("2026-01-27T01:00:00+01:00"), at("2026-01-27T00:00:00Z"));
        assert_eq!(read("2026-01-27"), at("2026-01-27T00:00:00Z"));
        assert_eq!(read("2026-01-27T01:00"), at("2026-01-27T01:00:00Z"));
        assert_eq!(read("2026-01-27 01:00"), at("2026-01-27T01:00:00Z"));
        assert_eq!(read("now"), ago(0));
        assert_eq!(read("today"), at("2026-01-27T00:00:00Z"));
        assert_eq!(read("Yesterday"), at("2026-01-26T00:00:00Z"));
        assert_eq!(read("last week"), ago(7 * 86_400));
        for (text, seconds) in [("90s", 90), ("15m", 900), ("1h", 3600), ("7d", 604_800), ("2w", 1_209_600)] {
            assert_eq!(read(text), ago(seconds), "{text}");
        }
        assert_eq!(read("3d12h"), ago(3 * 86_400 + 12 * 3600));
    }

    #[test]
    fn today_and_yesterday_equal_their_dates() {
        for now in [
            "2026-03-01T00:00:00Z",
            "2026-03-01T23:59:59.999Z",
            "1970-01-01T00:00:01Z",
            "1969-12-31T23:00:00Z",
        ] {
            let now = Timestamp::parse_rfc3339(now).expect("a time");
            let read = |text: &str| Moment::parse(text, now).expect("no mistake");
            let date = |days: i64| read(&now.plus_seconds(-days * DAY).to_rfc3339()[..10]);
            assert_eq!((read("today"), read("yesterday")), (date(0), date(1)), "{now:?}");
        }
    }

    #[test]
    fn other_text_is_not_a_moment() {
        for text in [
            "",
            "v1",
            "2026-01",
            "1a",
            "1y",
            "h",
            "3d12",
            "-1h",
            "1.5h",
            "ver_01-3",
            "é",
            "week",
            "2026-01-27-rc",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn rejects_malformed_moments() {
        for text in [
            "99999999999999999999",
            "9999999999999999999w",
            "2026-02-30",
            "2026-01-27T25:00:00Z",
            "9999-01-01",
        ] {
            assert!(Moment::parse(text, now()).is_err(), "{text}");
        }
    }

    #[test]
    fn times_out_of_range_name_the_range() {
        for text in ["9999-12-31", "9999-12-31T23:59:59Z", "2262-04-12T00:00:00+00:00", "1600-01-01"] {
            let error = Moment::parse(text, now()).expect_err(text);
            assert!(error.message().contains("1677-09-22 to 2262-04-11"), "{error}");
            assert_eq!(is_after_last_time(text), !text.starts_with("16"), "{text}");
        }
        assert!(!is_after_last_time("2262-04-11") && !is_after_last_time("release-9999"));
        let error = Timestamp::parse_rfc3339("9999-12-31").expect_err("no time of day");
        assert!(error.message().contains("RFC 3339"), "{error}");
    }

    #[test]
    fn end_after_the_last_time_is_the_last() {
        for text in ["9999-12-31T00:00:00Z", "9999-12-31T23:59:59.999+14:00", "2262-04-12T00:00:00Z"] {
            assert_eq!(Timestamp::parse_rfc3339_end(text).expect(text), Timestamp(i64::MAX));
        }
        let time = "2026-01-27T00:00:00Z";
        let end = Timestamp::parse_rfc3339_end(time).expect("a time");
        assert_eq!(Some(Moment::Time(end)), at(time));
        let refused =
            ["1600-01-01T00:00:00Z", "9999-12-31", "9999-13-31T00:00:00Z", "9999-12-31T00:00:00+99:00"];
        for text in refused {
            assert!(Timestamp::parse_rfc3339_end(text).is_err(), "{text}");
        }
        // The same texts are refused as in other years.
        for form in ["", "T23:59:59", "T23:59:59Zx", "T23:59:59+1:00", "T23:59:59.Z", "T23:59:59.0123456789Z"]
        {
            for day in ["2026-12-31", "9999-12-31"] {
                assert!(Timestamp::parse_rfc3339_end(&format!("{day}{form}")).is_err(), "{day}{form}");
            }
        }
    }

    #[test]
    fn times_out_of_range_keep_their_order() {
        for (text, time) in [
            ("0000-01-01T00:00:00Z", i64::MIN),
            ("1677-09-21T00:12:43Z", i64::MIN),
            ("1677-09-21T00:12:44Z", -9_223_372_036_000_000_000),
            ("2262-04-11T23:47:16Z", 9_223_372_036_000_000_000),
            ("2262-04-12T00:00:00+00:00", i64::MAX),
            ("9999-12-31T23:59:59.999+14:00", i64::MAX),
        ] {
            assert_eq!(Timestamp::parse_rfc3339_saturating(text).expect(text), Timestamp(time), "{text}");
        }
        for text in ["", "soon", "0001-01-01", "9999-12-31", "9999-13-31T00:00:00Z"] {
            assert!(Timestamp::parse_rfc3339_saturating(text).is_err(), "{text}");
        }
    }

    #[test]
    fn printed_time_includes_its_complete_millisecond() {
        let commit = Timestamp(1_800_000_000_001_500_000);
        let Ok(Some(Moment::Time(read))) = Moment::parse(&commit.to_rfc3339(), now()) else {
            panic!("a time")
        };
        assert_eq!(read, Timestamp(1_800_000_000_001_999_999));
        let Ok(Some(Moment::Time(read))) = Moment::parse("2026-01-27T00:00:00.123456Z", now()) else {
            panic!("a time")
        };
        assert_eq!(read.0 % 1_000_000, 456_000);
    }
}
