//! Moments and spans of time as people write them.

use garth::FileSystem;
use garth::model::{Moment, Seq, Timestamp, VersionId};

use crate::fail::{Failure, Result};

/// Reads `--at`: a sequence, a snapshot, a version, or a time. What reads as none of them is taken for the name
/// of a snapshot, which then is not there.
pub(crate) async fn moment(fs: &dyn FileSystem, text: &str, now: Timestamp) -> Result<Moment> {
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number =
            text.parse().map_err(|_| Failure::Usage(format!("{text} is too large for a sequence")))?;
        return Ok(Moment::Seq(Seq(number)));
    }
    if let Ok(time) = Timestamp::parse_rfc3339(text) {
        return Ok(Moment::Time(whole_millisecond(text, time)));
    }
    // Names go before the looser forms, so that no snapshot is out of reach.
    if fs.snapshots().await?.iter().any(|snapshot| snapshot.name == text) {
        return Ok(Moment::Snapshot(text.to_owned()));
    }
    if let Ok(version) = text.parse::<VersionId>() {
        return Ok(Moment::Seq(version.seq));
    }
    Ok(loose(text, now).map_or_else(|| Moment::Snapshot(text.to_owned()), Moment::Time))
}

/// A time with three decimals, as garth prints it, means all of that millisecond: commits are timed finer, so
/// the printed time of a commit would else lie before it.
fn whole_millisecond(text: &str, time: Timestamp) -> Timestamp {
    let decimals = text.split_once('.').map(|(_, rest)| rest.bytes().take_while(u8::is_ascii_digit).count());
    if decimals == Some(3) { Timestamp(time.0.saturating_add(999_999)) } else { time }
}

/// A date or a time without offset (both UTC), `now`, `yesterday`, or an age.
fn loose(text: &str, now: Timestamp) -> Option<Timestamp> {
    match text {
        "now" => return Some(now),
        "yesterday" => return Some(now.plus_seconds(-86_400)),
        _ => {}
    }
    if let Some(age) = span(text) {
        return Some(now.plus_seconds(-age));
    }
    let civil = text.parse::<jiff::civil::DateTime>().ok()?;
    let zoned = civil.to_zoned(jiff::tz::TimeZone::UTC).ok()?;
    i64::try_from(zoned.timestamp().as_nanosecond()).ok().map(Timestamp)
}

/// A span in seconds: `90s`, `15m`, `1h`, `7d`, `2w`.
fn span(text: &str) -> Option<i64> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let unit = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 604_800,
        _ => return None,
    };
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| number.parse::<i64>().ok()?.checked_mul(unit)).flatten()
}

/// Reads a span of an option: seconds, or a number with a unit. For clap.
pub(crate) fn parse_span(text: &str) -> Result<i64, String> {
    let seconds = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    seconds
        .or_else(|| span(text))
        .ok_or_else(|| "write seconds, or a number with s, m, h, d or w: 90, 15m, 7d".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_800_000_000_000_000_000);

    #[test]
    fn spans_have_units_and_never_overflow() {
        assert_eq!(parse_span("90"), Ok(90));
        assert_eq!(parse_span("15m"), Ok(900));
        assert_eq!(parse_span("2w"), Ok(1_209_600));
        for wrong in ["", "h", "1.5h", "-1h", "1y", "99999999999999999999", "9999999999999999999w", "é"] {
            assert!(parse_span(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_printed_time_means_its_whole_millisecond() {
        let commit = Timestamp(NOW.0 + 1_500_000);
        let printed = commit.to_rfc3339();
        let read = Timestamp::parse_rfc3339(&printed).expect("a time");
        assert!(read < commit);
        assert_eq!(whole_millisecond(&printed, read), Timestamp(NOW.0 + 1_999_999));
        assert_eq!(whole_millisecond("2026-01-27T00:00:00Z", read), read);
        assert_eq!(whole_millisecond("2026-01-27T00:00:00.123456Z", read), read);
    }

    #[test]
    fn loose_times_are_utc() {
        let day = Timestamp::parse_rfc3339("2026-01-27T00:00:00Z").expect("a time");
        assert_eq!(loose("2026-01-27", NOW), Some(day));
        assert_eq!(loose("2026-01-27T01:00", NOW), Some(day.plus_seconds(3600)));
        assert_eq!(loose("1h", NOW), Some(NOW.plus_seconds(-3600)));
        assert_eq!(loose("yesterday", NOW), Some(NOW.plus_seconds(-86_400)));
        assert_eq!(loose("release", NOW), None);
    }
}
