//! Types of options: syntax, bounds and output form.

use std::path::Path;

use garth_engine::text::secret::masked;
use garth_server::{Hosts, Origins};

use super::log_filter::log_filter;
use crate::size::{parse_count, parse_size, parse_tokens};

/// Type of an option, with its bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// `true` or `false`.
    Flag,
    /// Integer.
    Count { min: u64, max: u64 },
    /// Tokens, from 0 on.
    Tokens,
    /// Bytes.
    Bytes { min: u64, max: u64 },
    /// Milliseconds.
    Time { min: u64, max: u64 },
    /// One of these words.
    Words(&'static [&'static str]),
    /// Any text that is not empty; the word names it in help.
    Text(&'static str),
    /// Filter of the log.
    LogFilter,
    /// Addresses, `HOST:PORT`.
    Addresses,
    /// Names of hosts, without ports.
    Hosts,
    /// Origins of pages, `SCHEME://HOST:PORT`.
    Origins,
    /// File of this machine.
    File,
    /// URL of which the query is hidden, because it may contain a token.
    Url,
    /// URL of which only the host is shown, because the path may contain a token, too.
    HookUrl,
    /// Text that is never shown, and accepted neither in a file nor on a command line. A line end after it is
    /// not part of it.
    Secret,
}

/// Value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Flag(bool),
    /// Number in the unit of its kind.
    Number(u64),
    Text(String),
    Texts(Vec<String>),
}

/// Accessors for each type of value, with a default for a value of another type. The kind of an option
/// decides which of them its field uses.
impl Value {
    pub(crate) fn flag(&self) -> bool {
        matches!(self, Self::Flag(true))
    }

    pub(crate) fn number(&self) -> u64 {
        if let Self::Number(number) = self { *number } else { 0 }
    }

    pub(crate) fn size(&self) -> usize {
        usize::try_from(self.number()).unwrap_or(usize::MAX)
    }

    pub(crate) fn text(self) -> String {
        if let Self::Text(text) = self { text } else { String::new() }
    }

    pub(crate) fn texts(self) -> Vec<String> {
        if let Self::Texts(texts) = self { texts } else { Vec::new() }
    }
}

/// Units of time, in milliseconds.
const TIMES: [(&str, u64); 5] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
/// Units of size, in bytes.
const SIZES: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl Kind {
    /// Parses a value as written in a flag or a variable.
    pub(crate) fn parse(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Flag => match text {
                "true" | "1" | "yes" | "on" => Ok(Value::Flag(true)),
                "false" | "0" | "no" | "off" => Ok(Value::Flag(false)),
                _ => Err(format!("`{text}` is not true or false")),
            },
            Self::Count { .. } => self.number(parse_count(text)?),
            Self::Tokens => self.number(parse_tokens(text)?),
            Self::Bytes { .. } => self.number(parse_size(text)?),
            Self::Time { .. } => self.number(parse_time(text)?),
            Self::Words(words) if words.contains(&text) => Ok(Value::Text(text.to_owned())),
            Self::Words(words) => Err(format!("`{text}` is not one of {}", words.join(", "))),
            Self::Addresses | Self::Hosts | Self::Origins => {
                let items = text.split(',').map(str::trim);
                let items: Vec<String> = items.filter(|one| !one.is_empty()).map(str::to_owned).collect();
                if items.is_empty() {
                    return Err(format!("write at least one {}", self.placeholder()));
                }
                self.check_items(&items).map(|()| Value::Texts(items))
            }
            Self::LogFilter if !text.is_empty() => log_filter(text).map(|_| Value::Text(text.to_owned())),
            Self::LogFilter | Self::Text(_) | Self::File | Self::Url | Self::HookUrl | Self::Secret => {
                let is_secret = matches!(self, Self::Secret);
                let text = if is_secret { without_line_end(text) } else { text };
                match text.is_empty() {
                    true => Err("the text is empty".to_owned()),
                    false => Ok(Value::Text(text.to_owned())),
                }
            }
        }
    }

    /// Checks the items of a list.
    fn check_items(self, items: &[String]) -> Result<(), String> {
        let message = |error: garth_engine::Error| error.message().to_owned();
        match self {
            Self::Hosts => Hosts::parse(items).map(|_| ()).map_err(message),
            Self::Origins => Origins::parse(items).map(|_| ()).map_err(message),
            _ => match items.iter().find(|item| !is_address(item)) {
                Some(other) => Err(format!("`{other}` is not HOST:PORT, such as 127.0.0.1:8787")),
                None => Ok(()),
            },
        }
    }

    /// Returns true for lists. Their flags may be repeated.
    pub(crate) fn is_list(self) -> bool {
        matches!(self, Self::Addresses | Self::Hosts | Self::Origins)
    }

    /// Checks a number against the bounds.
    pub(crate) fn number(self, number: u64) -> Result<Value, String> {
        let (min, max) = match self {
            Self::Count { min, max } | Self::Bytes { min, max } | Self::Time { min, max } => (min, max),
            Self::Tokens => (0, u64::MAX),
            _ => return Err("write a text, in quotes".to_owned()),
        };
        if (min..=max).contains(&number) {
            return Ok(Value::Number(number));
        }
        let given = self.show(&Value::Number(number));
        Err(match self.bounds() {
            Some((least, most)) => format!("{given} is out of bounds; write {least} to {most}"),
            None => format!("{given} is less than {}", self.show(&Value::Number(min))),
        })
    }

    /// Returns the bounds as text, if there is an upper one.
    pub(crate) fn bounds(self) -> Option<(String, String)> {
        let (Self::Count { min, max } | Self::Bytes { min, max } | Self::Time { min, max }) = self else {
            return None;
        };
        // Without an upper bound there is no range to print.
        (max < u64::MAX).then(|| (self.show(&Value::Number(min)), self.show(&Value::Number(max))))
    }

    /// Returns a value in the form in which it is written, without secrets.
    pub(crate) fn show(self, value: &Value) -> String {
        match (self, value) {
            (Self::Secret, _) => "(set)".to_owned(),
            (Self::Url, Value::Text(url)) => without_query(url),
            (Self::HookUrl, Value::Text(url)) => without_path(url),
            (Self::File, Value::Text(file)) => shown_file(file.as_ref()),
            (Self::Bytes { .. }, Value::Number(bytes)) => with_unit(*bytes, &SIZES),
            (Self::Time { .. }, Value::Number(0)) => "0s".to_owned(),
            (Self::Time { .. }, Value::Number(time)) => {
                // One day is shown as `24h`.
                let [millis, .., days] = &TIMES;
                let largest = TIMES[1..4].iter().rev().find(|(_, unit)| time.is_multiple_of(*unit));
                let unit = if time.is_multiple_of(days.1) && *time > days.1 {
                    days
                } else {
                    largest.unwrap_or(millis)
                };
                format!("{}{}", time / unit.1, unit.0)
            }
            (_, Value::Flag(flag)) => flag.to_string(),
            (_, Value::Number(number)) => number.to_string(),
            (_, Value::Text(text)) => text.clone(),
            (_, Value::Texts(texts)) => texts.join(", "),
        }
    }

    /// Returns true for times, which are written with their unit.
    pub(crate) fn is_time(self) -> bool {
        matches!(self, Self::Time { .. })
    }

    /// Returns the word for a value in help.
    pub(crate) fn placeholder(self) -> &'static str {
        match self {
            Self::Flag => "BOOL",
            Self::Count { .. } => "COUNT",
            Self::Tokens => "TOKENS",
            Self::Bytes { .. } => "SIZE",
            Self::Time { .. } => "TIME",
            Self::Words(_) => "WORD",
            Self::Text(word) => word,
            Self::LogFilter => "FILTER",
            Self::Addresses => "HOST:PORT",
            Self::Hosts => "HOST",
            Self::Origins => "ORIGIN",
            Self::File => "FILE",
            Self::Url | Self::HookUrl => "URL",
            Self::Secret => "SECRET",
        }
    }
}

/// Returns the path of a file with a secret. A path that looks like a secret itself is not shown: a key was
/// given in place of its file.
pub(crate) fn shown_file(file: &Path) -> String {
    // Next to such a name, a random word counts as a secret even without the prefix of a service.
    let named = format!("api_key: {}", file.file_name().unwrap_or_default().display());
    match masked(&named) == named {
        true => file.display().to_string(),
        false => "(a secret, not a file)".to_owned(),
    }
}

/// Returns a secret without the line end that editors and `echo` add to it.
pub(crate) fn without_line_end(secret: &str) -> &str {
    secret.trim_end_matches(['\n', '\r'])
}

/// Returns true for `HOST:PORT`. Only the system knows whether the host exists.
pub(crate) fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let is_ipv6 = host.starts_with('[') && host.ends_with(']');
    !host.is_empty() && (is_ipv6 || !host.contains(':')) && port.parse::<u16>().is_ok()
}

/// Parses a time with its unit, in milliseconds.
fn parse_time(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = TIMES.iter().find(|(name, _)| *name == unit);
    let time = unit.and_then(|(_, millis)| number.parse::<u64>().ok()?.checked_mul(*millis));
    time.ok_or_else(|| {
        format!("`{text}` is not a time; write a number with ms, s, m, h or d: 500ms, 30s, 5m")
    })
}

/// Returns a number in the largest unit that divides it.
fn with_unit(number: u64, units: &[(&str, u64)]) -> String {
    // Every unit divides zero.
    let unit = units.iter().find(|(_, unit)| number > 0 && number.is_multiple_of(*unit));
    unit.map_or_else(|| number.to_string(), |(name, unit)| format!("{}{name}", number / unit))
}

/// Returns the position at which the path of a URL begins.
fn path_of(url: &str) -> usize {
    let host = url.find("://").map_or(0, |at| at + 3);
    url[host..].find(['/', '?', '#']).map_or(url.len(), |at| host + at)
}

fn without_query(url: &str) -> String {
    match url.find(['?', '#']) {
        Some(at) => format!("{}?(set)", without_user(&url[..at])),
        None => without_user(url),
    }
}

fn without_path(url: &str) -> String {
    let host = without_user(&url[..path_of(url)]);
    match &url[path_of(url)..] {
        "" | "/" => host,
        _ => format!("{host}/(set)"),
    }
}

/// Hides user and password. URLs with them are refused, but may still be printed in an error.
fn without_user(url: &str) -> String {
    let (host, path) = (url.find("://").map_or(0, |at| at + 3), path_of(url));
    match url[host..path].rfind('@') {
        Some(at) => format!("{}(set)@{}", &url[..host], &url[host + at + 1..]),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Kind = Kind::Time { min: 10, max: 3_600_000 };
    const SIZE: Kind = Kind::Bytes { min: 0, max: 1 << 40 };

    #[test]
    fn times_are_shown_as_they_are_written() {
        for (text, millis) in
            [("10ms", 10), ("1500ms", 1500), ("30s", 30_000), ("2m", 120_000), ("1h", 3_600_000)]
        {
            assert_eq!(TIME.parse(text), Ok(Value::Number(millis)));
            assert_eq!(TIME.show(&Value::Number(millis)), text);
        }
        assert_eq!(TIME.parse("120s").map(|time| TIME.show(&time)), Ok("2m".to_owned()));
        for wrong in
            ["", "30", "s", "-1s", "1.5s", "30 s", "99999999999999999999s", "9999999999999999d", "1w"]
        {
            assert!(TIME.parse(wrong).unwrap_err().contains("not a time"), "{wrong}");
        }
    }

    #[test]
    fn sizes_are_shown_as_they_are_written() {
        for (text, bytes) in
            [("0", 0), ("1000", 1000), ("16KiB", 16 << 10), ("2MiB", 2 << 20), ("1TiB", 1 << 40)]
        {
            assert_eq!(SIZE.parse(text), Ok(Value::Number(bytes)));
            assert_eq!(SIZE.show(&Value::Number(bytes)), text);
        }
    }

    #[test]
    fn numbers_beyond_bounds_name_the_bounds() {
        assert_eq!(TIME.parse("9ms").unwrap_err(), "9ms is out of bounds; write 10ms to 1h");
        assert_eq!(TIME.parse("2h").unwrap_err(), "2h is out of bounds; write 10ms to 1h");
        let count = Kind::Count { min: 1, max: u64::MAX };
        assert_eq!(count.parse("0").unwrap_err(), "0 is less than 1");
    }

    #[test]
    fn secrets_in_urls_are_not_shown() {
        let show = |kind: Kind, url: &str| kind.show(&Value::Text(url.to_owned()));
        for (url, shown) in [
            ("https://hooks.example.com", "https://hooks.example.com"),
            ("https://hooks.example.com/", "https://hooks.example.com"),
            ("https://hooks.example.com:8443/T0K3N", "https://hooks.example.com:8443/(set)"),
            ("https://hooks.example.com?key=T0K3N", "https://hooks.example.com/(set)"),
            ("https://me:$TOKEN@hooks.example.com/", "https://(set)@hooks.example.com"),
        ] {
            assert_eq!(show(Kind::HookUrl, url), shown);
        }
        assert_eq!(show(Kind::Url, "http://localhost:11434/v1"), "http://localhost:11434/v1");
        assert_eq!(show(Kind::Url, "http://a/v1?key=T0K3N"), "http://a/v1?(set)");
        assert_eq!(show(Kind::Secret, "T0K3N"), "(set)");
        assert_eq!(Kind::Secret.parse(" T0K\n3N \r\n"), Ok(Value::Text(" T0K\n3N ".to_owned())));
        assert!(Kind::Secret.parse("\n").is_err());
    }
}
