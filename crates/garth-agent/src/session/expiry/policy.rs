//! `context/gc.policy`: which parts of a session may be collected, and when.

use std::time::Duration;

use garth_engine::error::{Error, Result};

/// Policy of garbage collection.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Policy {
    /// Minimum age of a pack.
    pub pack_ttl: Duration,
    /// Minimum age of an unreferenced swap chunk.
    pub swap_ttl: Duration,
    /// Number of references that keep a blob.
    pub dedup_min_refs: u64,
    /// True to keep messages for ever.
    pub keep_messages: bool,
    /// True to keep events for ever.
    pub keep_events: bool,
    /// Treatment of messages and events that are not kept, and its delay after the end of the session.
    pub history: Option<(History, Duration)>,
}

/// Treatment of messages or events that are not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum History {
    /// Moves them to `archive/`.
    Archive,
    /// Deletes them.
    Delete,
}

impl History {
    /// Returns its word in the policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Archive => "archive",
            Self::Delete => "delete",
        }
    }
}

const HOUR: u64 = 60 * 60;

impl Default for Policy {
    fn default() -> Self {
        Self {
            pack_ttl: Duration::from_secs(24 * HOUR),
            swap_ttl: Duration::from_secs(30 * 24 * HOUR),
            dedup_min_refs: 1,
            keep_messages: true,
            keep_events: true,
            history: None,
        }
    }
}

impl Policy {
    /// Parses a policy: a `key=value` a line. Omitted keys have the values of [`Policy::default`].
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown or repeated key, an invalid value, and for messages or events that
    /// are not kept while `history` is missing.
    pub fn parse(text: &str) -> Result<Self> {
        let mut policy = Self::default();
        let (mut seen, mut what, mut when) = (Vec::new(), None, None);
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |why: String| Error::invalid(format!("gc.policy, line {number}: {why}"));
            let (key, value) = line.split_once('=').ok_or_else(|| bad("write key=value".to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            // One of two values would be ignored silently, perhaps the one that keeps messages.
            if seen.contains(&key) {
                return Err(bad(format!("{key} is given twice")));
            }
            seen.push(key);
            let duration = || {
                duration(value)
                    .ok_or_else(|| bad(format!("{value} is not a duration; write 30s, 10m, 12h or 7d")))
            };
            let flag = || match value {
                "0" => Ok(false),
                "1" => Ok(true),
                _ => Err(bad(format!("{key} is 0 or 1"))),
            };
            match key {
                "pack_ttl" => policy.pack_ttl = duration()?,
                "swap_ttl" => policy.swap_ttl = duration()?,
                "dedup_min_refs" => {
                    policy.dedup_min_refs = value.parse().map_err(|_| bad(format!("{key} is a number")))?;
                }
                "keep_messages" => policy.keep_messages = flag()?,
                "keep_events" => policy.keep_events = flag()?,
                "history" => {
                    what = Some(match value {
                        "archive" => History::Archive,
                        "delete" => History::Delete,
                        _ => return Err(bad("history is archive or delete".to_owned())),
                    });
                }
                "history_ttl" => when = Some(duration()?),
                _ => {
                    let known = "pack_ttl, swap_ttl, dedup_min_refs, keep_messages, keep_events, history, history_ttl";
                    return Err(bad(format!("unknown key {key}; known keys: {known}")));
                }
            }
        }
        policy.history = what.zip(when);
        // Removing messages takes three keys, so that a typing error in one of them removes nothing.
        if !(policy.keep_messages && policy.keep_events) && policy.history.is_none() {
            let message = "gc.policy: keep_messages=0 and keep_events=0 take history=archive or history=delete, and \
                           history_ttl, how long after the end of the session";
            return Err(Error::invalid(message));
        }
        Ok(policy)
    }
}

/// Parses a duration: `30s`, `10m`, `12h`, `7d`.
fn duration(text: &str) -> Option<Duration> {
    let unit = match text.chars().next_back()? {
        's' => 1,
        'm' => 60,
        'h' => HOUR,
        'd' => 24 * HOUR,
        _ => return None,
    };
    let number = &text[..text.len() - 1];
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    // `parse` alone takes `+1`. A time that overflows is refused, because it would wrap to a short one.
    Some(Duration::from_secs(number.parse::<u64>().ok().filter(|_| digits)?.checked_mul(unit)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_policies_and_rejects_invalid_ones() {
        let text =
            "# ours\npack_ttl=1d\nswap_ttl = 30d\n\ndedup_min_refs=1\nkeep_messages=1\nkeep_events=1\n";
        assert_eq!(Policy::parse(text).unwrap(), Policy::default());
        assert_eq!(Policy::parse("").unwrap(), Policy::default());
        let other = Policy::parse("pack_ttl=90s\nkeep_events=0\nhistory=delete\nhistory_ttl=2h\n").unwrap();
        assert_eq!(other.pack_ttl, Duration::from_secs(90));
        assert_eq!(other.history, Some((History::Delete, Duration::from_secs(7200))));
        for bad in [
            "pack_ttl",
            "pack_ttl=1",
            "pack_ttl=d",
            "pack_ttl=-1d",
            "pack_ttl=99999999999999999999d",
            "pack_ttl=999999999999999999d",
            "pack_ttl=1é",
            "pack_ttl=1d\npack_ttl=1d",
            "keep_messages=2",
            "keep_messages=0",
            "keep_events=0\nhistory=delete",
            "keep=1",
            "dedup_min_refs=x",
        ] {
            assert!(Policy::parse(bad).is_err(), "{bad}");
        }
    }
}
