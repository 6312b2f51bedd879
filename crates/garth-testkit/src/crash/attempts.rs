//! Values of the writers. Every value names its writer, round and number, so that any value read later either
//! equals one attempted value byte by byte or is a finding.

use std::fmt;

use serde::Deserialize;

use crate::data::random::Random;

/// Concurrent writers of a round.
pub const WRITERS: u32 = 8;
/// Puts of one writer to one key before it uses the next keys. Half of them go to a shared key, so that no
/// key gets more than `WRITERS * PUTS_A_KEY / 2 = 80` versions: `/v1/history` returns at most 100 at once.
const PUTS_A_KEY: u32 = 20;
/// One value in this many is large.
const LARGE_EVERY: u64 = 24;
/// Sizes of large values, in bytes: below and above 64 KiB, from which the engine stores bodies by their
/// hash.
const LARGE: std::ops::Range<u64> = 20_000..180_000;

/// A put (or batch) of one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
pub struct Attempt {
    /// Round, counted from 0.
    pub round: u32,
    /// Writer, counted from 0.
    pub writer: u32,
    /// Number among the puts of the writer in this round, counted from 1.
    pub n: u32,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "put {} of writer {} in round {}", self.n, self.writer, self.round)
    }
}

/// Properties that the puts of a run share.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Seed of the values.
    pub seed: u64,
    /// Files that one attempt writes, all with the same value: 1 for a put, 2 for a batch.
    pub files: u32,
}

impl Workload {
    /// Returns the paths that an attempt writes. Even attempts go to a key that all writers share, odd ones
    /// to a key of the writer.
    pub fn paths(&self, attempt: Attempt) -> Vec<String> {
        let Attempt { round, writer, n } = attempt;
        let key = n / PUTS_A_KEY;
        let path = if n % 2 == 0 {
            format!("{}/shared/{key}", top(round))
        } else {
            format!("{}/writer-{writer}/{key}", top(round))
        };
        match self.files {
            1 => vec![path],
            files => (0..files).map(|file| format!("{path}/{file}")).collect(),
        }
    }

    /// Returns the value that an attempt writes: JSON text, with numbers that survive only if nobody parses
    /// them as a float.
    pub fn value(&self, attempt: Attempt) -> String {
        let Attempt { round, writer, n } = attempt;
        let mut random =
            Random::new(self.seed ^ u64::from(round) << 40 ^ u64::from(writer) << 32 ^ u64::from(n));
        // 40 digits, far more than a float holds, and no leading zero, which JSON forbids.
        let digits: String = (0..40).map(|_| char::from(b'1' + random.below(9) as u8)).collect();
        let size = match random.below(LARGE_EVERY) {
            0 => LARGE.start + random.below(LARGE.end - LARGE.start),
            _ => random.below(300),
        };
        let mut fill = String::new();
        while (fill.len() as u64) < size {
            fill.push_str(&format!("{:016x}", random.next()));
        }
        format!(
            r#"{{"round":{round},"writer":{writer},"n":{n},"ratio":1.10,"digits":{digits},"fill":"{fill}"}}"#
        )
    }

    /// Returns the attempt that wrote a value; `None` if no attempt has exactly this value.
    pub fn recognise(&self, value: &str) -> Option<Attempt> {
        let attempt: Attempt = serde_json::from_str(value).ok()?;
        // Compared byte by byte: a value that only parses alike was changed.
        (self.value(attempt) == value).then_some(attempt)
    }
}

/// Returns the directory of a round.
pub(super) fn top(round: u32) -> String {
    format!("/crash/round-{round}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognises_only_complete_values() {
        let workload = Workload { seed: 7, files: 1 };
        let attempt = Attempt { round: 3, writer: 2, n: 24 };
        let value = workload.value(attempt);
        assert_eq!(workload.recognise(&value), Some(attempt));
        for broken in [
            &value[..value.len() - 1],
            &value.replace("1.10", "1.1"),
            &value.replace("\"n\":24", "\"n\":25"),
            "",
        ] {
            assert_eq!(workload.recognise(broken), None);
        }
        assert_eq!(Workload { seed: 8, ..workload }.recognise(&value), None);
    }

    #[test]
    fn keys_stay_within_one_history_page() {
        let workload = Workload { seed: 1, files: 1 };
        let mut versions = std::collections::HashMap::new();
        for (writer, n) in (0..WRITERS).flat_map(|writer| (1..500).map(move |n| (writer, n))) {
            for path in workload.paths(Attempt { round: 0, writer, n }) {
                *versions.entry(path).or_insert(0) += 1;
            }
        }
        assert!(versions.values().all(|versions| *versions <= 100));
    }
}
