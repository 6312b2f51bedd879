//! Formats of strings that schemas can require.

use std::net::{Ipv4Addr, Ipv6Addr};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    DateTime,
    Date,
    Uuid,
    Ipv4,
    Ipv6,
    TimeZone,
}

impl Format {
    const ALL: [Self; 6] = [Self::DateTime, Self::Date, Self::Uuid, Self::Ipv4, Self::Ipv6, Self::TimeZone];

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::DateTime => "date-time",
            Self::Date => "date",
            Self::Uuid => "uuid",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::TimeZone => "time-zone",
        }
    }

    /// Returns the names of all formats.
    pub(super) fn names() -> String {
        Self::ALL.map(|format| format!("`{}`", format.name())).join(", ")
    }

    /// Returns true if a text has the format. Texts of more than 100 bytes have none.
    pub(super) fn has(self, text: &str) -> bool {
        // Bounds the work, for which no steps are counted.
        text.len() <= 100
            && match self {
                Self::DateTime => is_date_time(text),
                Self::Date => is_date(text),
                Self::Uuid => has_shape(text.as_bytes(), b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"),
                Self::Ipv4 => text.parse::<Ipv4Addr>().is_ok(),
                Self::Ipv6 => text.parse::<Ipv6Addr>().is_ok(),
                Self::TimeZone => jiff::tz::TimeZone::get(text).is_ok(),
            }
    }
}

/// Returns true if a text has digits where the shape has `0`, hexadecimal digits where it has `x`, and
/// otherwise equals it.
fn has_shape(text: &[u8], shape: &[u8]) -> bool {
    let same = |(byte, shape): (&u8, &u8)| match shape {
        b'0' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_hexdigit(),
        _ => byte == shape,
    };
    text.len() == shape.len() && text.iter().zip(shape).all(same)
}

fn is_date(text: &str) -> bool {
    has_shape(text.as_bytes(), b"0000-00-00") && text.parse::<jiff::civil::Date>().is_ok()
}

/// Returns true for a date and time of RFC 3339, such as `2026-01-27T09:30:00.5+01:00`, of any year.
pub fn is_date_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let Some((date, time)) = text.split_at_checked(10) else { return false };
    let Some((clock, rest)) = bytes[10..].split_at_checked(9) else { return false };
    let fraction = match rest {
        [b'.', digits @ ..] => 1 + digits.iter().take_while(|byte| byte.is_ascii_digit()).count(),
        _ => 0,
    };
    let offset = &rest[fraction..];
    is_date(date)
        && (has_shape(clock, b"T00:00:00") || has_shape(clock, b"t00:00:00"))
        // A point without a digit after it.
        && fraction != 1
        && is_clock(&time[1..])
        && (matches!(offset, b"Z" | b"z")
            || has_shape(offset, b"+00:00") && is_clock(&time[9 + fraction + 1..])
            || has_shape(offset, b"-00:00") && is_clock(&time[9 + fraction + 1..]))
}

/// Returns true if a text begins with a valid hour and minute, and with a valid second if it continues with
/// one. A second may be 60, a leap second.
fn is_clock(text: &str) -> bool {
    let number = |at: usize| text.get(at..at + 2).and_then(|digits| digits.parse::<u8>().ok());
    let seconds = text.as_bytes().get(5) != Some(&b':') || number(6).is_some_and(|seconds| seconds <= 60);
    number(0).is_some_and(|hours| hours < 24) && number(3).is_some_and(|minutes| minutes < 60) && seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_valid_text_only() {
        for (name, inside, outside) in [
            ("date-time", "2026-01-27T09:30:00Z", "2026-01-27 09:30:00Z"),
            ("date-time", "2024-02-29t23:59:60z", "2025-02-29T00:00:00Z"),
            ("date-time", "2026-01-27T09:30:00.123456789012+01:00", "2026-01-27T09:30:00.+01:00"),
            ("date-time", "2026-01-27T09:30:00-23:59", "2026-01-27T09:30:00-24:00"),
            ("date-time", "0000-01-01T00:00:00Z", "2026-01-27T24:00:00Z"),
            ("date-time", "2026-12-31T09:30:00+00:00", "2026-01-27T09:30:00"),
            ("date-time", "2026-12-31T09:30:00.5Z", "2026-01-27T09:30:61Z"),
            ("date-time", "9999-12-31T23:59:59Z", "2026-01-27T09:30:00+01:00[Europe/Berlin]"),
            ("date-time", "2026-12-31T09:30:00Z", "2026-01-27T09:30:00+0100"),
            ("date-time", "2026-12-31T09:30:00Z", "2026-01-2éT09:30:00Z"),
            ("date-time", "2026-12-31T09:30:00Z", "2026-01-27T09:30:0éZ"),
            ("date", "2026-01-27", "20260127"),
            ("date", "2024-02-29", "2026-02-30"),
            ("uuid", "00000000-AAAA-bbbb-0000-00000000000f", "00000000aaaabbbb000000000000000f"),
            ("ipv4", "127.0.0.1", "127.0.0.01"),
            ("ipv6", "::1", "::g"),
        ] {
            let format = Format::named(name).expect(name);
            assert!(format.has(inside), "{name} {inside}");
            assert!(!format.has(outside), "{name} {outside}");
        }
        assert_eq!(Format::named("email"), None);
    }
}
