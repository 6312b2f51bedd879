//! Days, hours and offsets by plain arithmetic, for a few time zones. Shares no code with the implementation
//! under test.

/// Time zones by their names.
pub(crate) const ZONES: [&str; 8] = [
    "UTC",
    "Etc/GMT+5",
    "Etc/GMT-14",
    "Etc/GMT+12",
    "Asia/Kolkata",
    "Asia/Kathmandu",
    "Europe/Berlin",
    "America/New_York",
];

const DAY: i64 = 86_400;

/// Returns the seconds by which the clock of a zone is ahead of UTC, for years from 2010 on.
pub(crate) fn offset(zone: &str, at: i64) -> i64 {
    let year = date(at.div_euclid(DAY)).0;
    match zone {
        "Etc/GMT+5" => -5 * 3600,
        "Etc/GMT-14" => 14 * 3600,
        "Etc/GMT+12" => -12 * 3600,
        "Asia/Kolkata" => 5 * 3600 + 1800,
        "Asia/Kathmandu" => 5 * 3600 + 2700,
        // From the last Sunday of March to the last Sunday of October, at 01:00 UTC.
        "Europe/Berlin" => {
            let last = |month| sunday(number(year, month, 31) - 6) * DAY + 3600;
            if (last(3)..last(10)).contains(&at) { 7200 } else { 3600 }
        }
        // From the second Sunday of March to the first Sunday of November, at 02:00 local time.
        "America/New_York" => {
            let (from, to) = (sunday(number(year, 3, 8)) * DAY, sunday(number(year, 11, 1)) * DAY);
            if (from + 7 * 3600..to + 6 * 3600).contains(&at) { -4 * 3600 } else { -5 * 3600 }
        }
        _ => 0,
    }
}

/// Returns the day of a time in a zone, in days since 1970-01-01.
pub(crate) fn day(zone: &str, at: i64) -> i64 {
    (at + offset(zone, at)).div_euclid(DAY)
}

/// Returns the hour and minute of a time in a zone: `09:30`.
pub(crate) fn clock(zone: &str, at: i64) -> String {
    let minutes = (at + offset(zone, at)).rem_euclid(DAY) / 60;
    format!("{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Returns the offset from UTC: `+05:30`.
pub(crate) fn sign(zone: &str, at: i64) -> String {
    let minutes = offset(zone, at) / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
}

/// Returns a day as `2026-01-27`.
pub(crate) fn name(day: i64) -> String {
    let (year, month, day) = date(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the weekday of a day.
pub(crate) fn weekday(day: i64) -> &'static str {
    // Day 0 was a Thursday.
    const NAMES: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
    NAMES[day.rem_euclid(7) as usize]
}

/// Returns the first Sunday on or after a day.
fn sunday(day: i64) -> i64 {
    (day..day + 7).find(|day| weekday(*day) == "Sunday").unwrap_or(day)
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn length(year: i64, month: i64) -> i64 {
    match month {
        2 => 28 + i64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days from 1970-01-01 to a date, summed year by year and month by month.
fn number(year: i64, month: i64, day: i64) -> i64 {
    let years: i64 = (1970..year).map(|year| 365 + i64::from(is_leap(year))).sum();
    years + (1..month).map(|month| length(year, month)).sum::<i64>() + day - 1
}

/// Returns the date of a day since 1970.
fn date(mut day: i64) -> (i64, i64, i64) {
    let mut year = 1970;
    while day >= 365 + i64::from(is_leap(year)) {
        day -= 365 + i64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    while day >= length(year, month) {
        day -= length(year, month);
        month += 1;
    }
    (year, month, day + 1)
}
