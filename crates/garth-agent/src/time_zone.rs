//! Time zone of an agent, with its days and hours. The zone decides to which day a memory belongs.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use garth_engine::error::{Error, Result};
use garth_engine::model::Timestamp;

/// Time zone of an agent, from the database of time zones that garth is built with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self(TimeZone::UTC)
    }
}

impl Zone {
    /// Returns the zone of an IANA name, such as `Europe/Berlin`.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is not in the database.
    pub fn named(name: &str) -> Result<Self> {
        TimeZone::get(name).map(Self).map_err(|_| {
            Error::invalid(format!(
                "{name}: unknown time zone; use an IANA name such as Europe/Berlin or UTC"
            ))
        })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.0.iana_name().unwrap_or("UTC")
    }

    /// Returns the day of a time in this zone.
    pub fn day(&self, at: Timestamp) -> Day {
        Day(self.civil(at).date())
    }

    /// Returns the hour and minute of a time in this zone: `09:30`.
    pub fn hour_and_minute(&self, at: Timestamp) -> String {
        self.civil(at).strftime("%H:%M").to_string()
    }

    /// Returns the distance from UTC at a time: `+01:00`.
    pub fn offset(&self, at: Timestamp) -> String {
        let offset = self.0.to_offset(time(at)).seconds() / 60;
        format!("{}{:02}:{:02}", if offset < 0 { '-' } else { '+' }, offset.abs() / 60, offset.abs() % 60)
    }

    /// Returns the first time after `at` at which an hour of the day begins in this zone.
    pub fn next_hour(&self, at: Timestamp, hour: i8) -> Timestamp {
        let mut day = self.civil(at).date();
        // Today's hour may be over, and a change of the clock may move tomorrow's; the day after is certain.
        for _ in 0..3 {
            if let Some(began) = self.began(day, hour).filter(|began| *began > at) {
                return began;
            }
            day = day.tomorrow().unwrap_or(day);
        }
        Timestamp(i64::MAX)
    }

    /// Returns when an hour of a day begins. If the clock is put forward and skips it, it begins at the end
    /// of the gap.
    fn began(&self, day: Date, hour: i8) -> Option<Timestamp> {
        let began = day.at(hour, 0, 0, 0).to_zoned(self.0.clone()).ok()?;
        i64::try_from(began.timestamp().as_nanosecond()).ok().map(Timestamp)
    }

    fn civil(&self, at: Timestamp) -> jiff::civil::DateTime {
        self.0.to_datetime(time(at))
    }
}

fn time(at: Timestamp) -> jiff::Timestamp {
    // Nanoseconds in 64 bits cover the years 1678 to 2261, which jiff accepts.
    jiff::Timestamp::from_nanosecond(i128::from(at.0)).unwrap_or_default()
}

/// Calendar day, written `2026-01-27`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(Date);

impl Day {
    /// Returns the day before.
    #[must_use]
    pub fn before(self) -> Self {
        Self(self.0.yesterday().unwrap_or(self.0))
    }

    /// Returns the day after.
    #[must_use]
    pub fn after(self) -> Self {
        Self(self.0.tomorrow().unwrap_or(self.0))
    }

    /// Returns the day of the week: `Tuesday`.
    pub fn weekday(self) -> String {
        self.0.strftime("%A").to_string()
    }
}

impl std::fmt::Display for Day {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.0.year(), self.0.month(), self.0.day())
    }
}

impl std::str::FromStr for Day {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::invalid(format!("{text}: not a date; use one such as 2026-01-27"));
        let day = text.parse().map(Self).map_err(|_| bad())?;
        // Each day has one form. Otherwise one day could have two files.
        if day.to_string() == text { Ok(day) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_rfc3339(text).unwrap()
    }

    #[test]
    fn day_follows_the_time_zone() {
        let late = at("2026-01-27T23:30:00Z");
        let day = |zone: &str| Zone::named(zone).unwrap().day(late).to_string();
        assert_eq!(day("UTC"), "2026-01-27");
        assert_eq!(day("Europe/Berlin"), "2026-01-28");
        assert_eq!(day("Pacific/Kiritimati"), "2026-01-28");
        assert_eq!(day("America/New_York"), "2026-01-27");
        assert_eq!(Zone::default().day(at("2026-01-28T00:00:00Z")).before().to_string(), "2026-01-27");
        assert_eq!(Zone::default().day(at("2026-01-27T23:59:59.999Z")).weekday(), "Tuesday");
        assert!(Zone::named("Mars/Olympus").is_err() && Zone::named("").is_err());
    }

    #[test]
    fn hours_and_offsets_follow_the_time_zone() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        let (winter, summer) = (at("2026-01-27T08:05:00Z"), at("2026-07-27T08:05:00Z"));
        assert_eq!((zone.hour_and_minute(winter), zone.offset(winter)), ("09:05".into(), "+01:00".into()));
        assert_eq!((zone.hour_and_minute(summer), zone.offset(summer)), ("10:05".into(), "+02:00".into()));
        let west = Zone::named("America/St_Johns").unwrap();
        assert_eq!(west.offset(winter), "-03:30");
    }

    #[test]
    fn next_hour_survives_skipped_hours() {
        let zone = Zone::named("Europe/Berlin").unwrap();
        assert_eq!(zone.next_hour(at("2026-01-27T03:00:00Z"), 4), at("2026-01-28T03:00:00Z"));
        assert_eq!(zone.next_hour(at("2026-01-27T02:59:59Z"), 4), at("2026-01-27T03:00:00Z"));
        // On that day two is three.
        assert_eq!(zone.next_hour(at("2026-03-29T00:30:00Z"), 2), at("2026-03-29T01:00:00Z"));
        assert_eq!(zone.next_hour(at("2026-01-27T22:59:59Z"), 0), at("2026-01-27T23:00:00Z"));
    }

    #[test]
    fn days_have_one_written_form() {
        assert_eq!("2026-01-27".parse::<Day>().unwrap().to_string(), "2026-01-27");
        for bad in ["", "2026-1-27", "2026-02-30", "20260127", "2026-01-27T00:00", " 2026-01-27", "../x"] {
            assert!(bad.parse::<Day>().is_err(), "{bad}");
        }
    }
}
