//! Limits that an operator may set: the cost of one client, and the concurrent work of the server. Each is
//! declared once, with its unit, default and bounds; the configuration of `garth serve` and its reference
//! page are generated from this table.

use std::time::Duration;

use garth_agent::media::BUDGET;
use garth_agent::models::VECTOR_BUDGET;
use garth_agent::nearest::nearest;
use garth_engine::model::Timestamp;
use garth_engine::{Error, ErrorKind, Result};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;

/// Declaration of a limit.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Limit {
    /// Name, also of the setter.
    pub name: &'static str,
    /// Unit of the values below.
    pub unit: Unit,
    /// Default value.
    pub default: u64,
    /// Smallest value.
    pub min: u64,
    /// Largest value.
    pub max: u64,
    /// Meaning, a sentence or two.
    pub meaning: &'static str,
}

/// Unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Time,
}

impl Limit {
    /// Returns the value nearest to `value` within the bounds.
    fn within(&self, value: u64) -> u64 {
        value.clamp(self.min, self.max)
    }
}

/// Type of a value of one unit.
trait Measure: Copy {
    fn from_number(number: u64) -> Self;
    fn number(self) -> u64;
}

impl Measure for usize {
    fn from_number(number: u64) -> Self {
        Self::try_from(number).unwrap_or(Self::MAX)
    }

    fn number(self) -> u64 {
        self as u64
    }
}

impl Measure for Duration {
    fn from_number(number: u64) -> Self {
        Self::from_millis(number)
    }

    fn number(self) -> u64 {
        u64::try_from(self.as_millis()).unwrap_or(u64::MAX)
    }
}

/// Declares the limits: name, type and unit, default, and bounds. The documentation is the meaning on the
/// reference page.
macro_rules! limits {
    ($(
        $(#[doc = $meaning:literal])+
        $name:ident: $type:ty, $unit:ident = $default:expr, $min:expr => $max:expr;
    )+) => {
        /// Limits of a server. [`Limits::default`] has the defaults of [`Limits::table`].
        ///
        /// ```
        /// use std::time::Duration;
        ///
        /// use garth_server::Limits;
        ///
        /// let limits = Limits::default().max_body(2 << 20).stall_time(Duration::from_secs(10));
        /// assert_eq!(limits.get("max_body"), Some(2 << 20));
        /// ```
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            $(pub(crate) $name: $type,)+
        }

        /// Table of all limits.
        static TABLE: &[Limit] = &[$(Limit {
            name: stringify!($name),
            unit: Unit::$unit,
            default: $default,
            min: $min,
            max: $max,
            meaning: concat!($($meaning),+),
        }),+];

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: Measure::from_number($default),)+ }
            }
        }

        impl Limits {
            $(
                #[doc = concat!("Sets a limit, or its nearest bound if `value` is beyond the bounds:", $($meaning),+)]
                #[must_use]
                pub fn $name(mut self, value: $type) -> Self {
                    let declared = Limit {
                        name: stringify!($name), unit: Unit::$unit, default: $default,
                        min: $min, max: $max, meaning: "",
                    };
                    self.$name = Measure::from_number(declared.within(value.number()));
                    self
                }
            )+

            /// Returns the value of a limit, in its unit; `None` if there is no limit of that name.
            pub fn get(&self, name: &str) -> Option<u64> {
                match name {
                    $(stringify!($name) => Some(self.$name.number()),)+
                    _ => None,
                }
            }

            /// Sets a limit by its name, in its unit.
            ///
            /// # Errors
            /// `InvalidArgument`: the name is not in the table, or the value is beyond the bounds.
            pub fn set(&mut self, name: &str, value: u64) -> Result<()> {
                let known = TABLE.iter().find(|limit| limit.name == name);
                let Some(limit) = known else { return Err(unknown(name)) };
                if limit.within(value) != value {
                    let message = format!("{name} must be {} to {}", limit.min, limit.max);
                    return Err(Error::new(ErrorKind::InvalidArgument, message));
                }
                match name {
                    $(stringify!($name) => self.$name = Measure::from_number(value),)+
                    // `TABLE` has no other names.
                    _ => {}
                }
                Ok(())
            }
        }
    };
}

fn unknown(name: &str) -> Error {
    let nearest = nearest(name, TABLE.iter().map(|limit| limit.name));
    let hint = nearest.map_or_else(String::new, |nearest| format!("; did you mean {nearest}?"));
    Error::new(ErrorKind::InvalidArgument, format!("there is no limit {name}{hint}"))
}

limits! {
    /// Largest body of a request, unless its call takes messages or a file. A call that may wait for the
    /// language model takes at most 1 MiB.
    max_body: usize, Bytes = MIB, 16 * KIB => 16 * MIB;
    /// Largest body of a call that writes in a session, other than `compact`, and of batches of files: a
    /// message of 16 MiB, and its text as JSON. If `max_body` is larger, that applies.
    max_message_body: usize, Bytes = 32 * MIB, MIB => 64 * MIB;
    /// Time limit for the head of a request, and for an idle connection between requests.
    head_time: Duration, Time = 30 * SECOND, SECOND => 10 * MINUTE;
    /// Time limit for the body of a request, and for a client to take 1 MiB of an answer: 1 MiB at
    /// 280 kbit/s.
    body_time: Duration, Time = 30 * SECOND, SECOND => HOUR;
    /// Additional time for each further MiB of a body.
    body_time_per_mib: Duration, Time = 2 * SECOND, 10 => MINUTE;
    /// Time after which a connection is closed if its client reads nothing of an answer, or sends nothing of
    /// a file.
    stall_time: Duration, Time = 30 * SECOND, SECOND => HOUR;
    /// Time after the signal to stop in which the server still accepts connections while `/readyz` fails, so
    /// that a load balancer takes it out of use first.
    stop_delay: Duration, Time = 0, 0 => 10 * MINUTE;
    /// Time after that in which requests in flight are finished. Those that last longer are cut off.
    stop_grace: Duration, Time = MINUTE, 0 => HOUR;
    /// Free space of the disk below which `/readyz` fails.
    min_free_disk: usize, Bytes = 64 * MIB, 0 => KIB * GIB;
    /// Bytes of a refused body that are read and discarded, so that its client receives the answer.
    drain_size: usize, Bytes = 16 * MIB, 0 => GIB;
    /// Time limit for reading a refused body.
    drain_time: Duration, Time = 5 * SECOND, 0 => MINUTE;
    /// Memory for answers of more than 16 KiB, including unfinished ones. One account uses half of it at
    /// most.
    answer_room: usize, Bytes = 64 * MIB, 16 * MIB => 64 * GIB;
    /// Memory for bodies of more than 1 MiB. One account uses a third of it at most.
    body_room: usize, Bytes = 96 * MIB, 3 * MIB => 64 * GIB;
    /// Memory for media, and files that are sent and received by `/v1/fs` and `/v1/uploads`: up to 2 MiB for
    /// each of more than 16 KiB. One account uses a third of it at most.
    transfer_room: usize, Bytes = 256 * MIB, 8 * MIB => 64 * GIB;
    /// Disk space for content of an account, or of a tree that a key is bound to, that was received and that
    /// no commit has used yet. A file that is received by `/v1/fs` has at most this size.
    upload_room: usize, Bytes = 64 * GIB, 16 * MIB => 8 * KIB * GIB;
    /// Time that an answer, a body or a file waits for memory, and a call for its turn among the calls of its
    /// account, or to ask the language model or the embedding service.
    room_wait: Duration, Time = 10 * SECOND, 0 => 5 * MINUTE;
    /// Calls of an API key in a minute that return stored data, without searches; 0 for no limit. This and
    /// the next three limits apply if `rate_limits` says so.
    reads_per_minute: usize, Count = 6000, 0 => 10_000_000;
    /// Calls of an API key in a minute that change stored data; 0 for no limit.
    writes_per_minute: usize, Count = 3000, 0 => 10_000_000;
    /// Calls of an API key in a minute that search, or read or compute much, such as packs and prompts; 0 for
    /// no limit.
    searches_per_minute: usize, Count = 1200, 0 => 10_000_000;
    /// Calls of one account that run at once. The others wait for up to `room_wait`.
    account_calls: usize, Count = 64, 1 => 4096;
    /// Consumers of changes at the same time: streams, and calls of `tree/changes` that wait.
    streams: usize, Count = 4096, 1 => 65_536;
    /// Consumers of changes of one account at the same time.
    streams_per_account: usize, Count = 1024, 1 => 65_536;
    /// Time after which a stream of changes without a change sends a comment and looks its key up again.
    stream_heartbeat: Duration, Time = 15 * SECOND, 100 => 5 * MINUTE;
    /// Cache for media files that messages refer to.
    media_cache: usize, Bytes = BUDGET as u64, 0 => 64 * GIB;
    /// Concurrent compactions of sessions, including those that wait for a model.
    compactions: usize, Count = 8, 1 => 256;
    /// Concurrent compactions of one account.
    compactions_per_account: usize, Count = 2, 1 => 64;
    /// Accounts whose sessions are reset at the same time.
    resets: usize, Count = 16, 1 => 256;
    /// Time after which an account without room for its resets is visited again.
    resets_retry: Duration, Time = 5 * SECOND, SECOND => HOUR;
    /// Interval at which the databases of all accounts are checked for due events, repairs and sessions.
    courier_interval: Duration, Time = SECOND, 100 => HOUR;
    /// Interval at which accounts with recent commits are checked.
    courier_tick: Duration, Time = 50, 10 => 10 * SECOND;
    /// Accounts that count as having recent commits.
    courier_hot_accounts: usize, Count = 64, 0 => 10_000;
    /// Accounts that background work visits at the same time.
    courier_visits: usize, Count = 4, 1 => 64;
    /// Time after which a failed visit of an account is repeated.
    courier_retry: Duration, Time = 10 * SECOND, SECOND => HOUR;
    /// Concurrent deliveries of events of all accounts: requests to the sink, each on a thread.
    deliveries: usize, Count = 256, 16 => 4096;
    /// Time limit of a delivery, including the wait for its turn. An event is leased for 60 s.
    sink_timeout: Duration, Time = 10 * SECOND, 100 => 50 * SECOND;
    /// Sessions of an account that are collected before other accounts have their turn.
    collect_sessions: usize, Count = 64, 1 => 10_000;
    /// Repair steps of an account before other accounts have their turn.
    repair_steps: usize, Count = 16, 1 => 1000;
    /// Time limit for an answer of the language model.
    model_timeout: Duration, Time = 2 * MINUTE, SECOND => HOUR;
    /// Longest answer of the language model.
    model_max_answer: usize, Bytes = 4 * MIB, 4 * KIB => 64 * MIB;
    /// Calls that may wait for the language model at the same time, each on a thread. One account uses half
    /// of them at most. A call that waits for its turn longer than `room_wait` is refused.
    model_calls: usize, Count = 64, 2 => 256;
    /// Time limit for an answer of the embedding service. A recall waits for it.
    embedder_timeout: Duration, Time = 5 * SECOND, 100 => 5 * MINUTE;
    /// Longest answer of the embedding service: the vectors of 32 texts.
    embedder_max_answer: usize, Bytes = 16 * MIB, 64 * KIB => 256 * MIB;
    /// Memory for vectors of the last day. One account uses half of it at most.
    embedder_cache: usize, Bytes = VECTOR_BUDGET as u64, 0 => 64 * GIB;
    /// Memory for recalls that may wait for the embedding service, 8 MiB for each. One account uses half of
    /// it at most. A recall that waits for its turn longer than `room_wait` is answered without the service.
    embedder_room: usize, Bytes = 128 * MIB, 16 * MIB => 64 * GIB;
}

impl Limits {
    /// Returns the declarations of all limits.
    pub fn table() -> &'static [Limit] {
        TABLE
    }
}

/// Returns the time `wait` after `now`.
pub(crate) fn after(now: Timestamp, wait: Duration) -> Timestamp {
    let nanos = i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX);
    Timestamp(now.0.saturating_add(nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declares_each_limit_once_with_bounds() {
        for (at, limit) in TABLE.iter().enumerate() {
            assert!(TABLE[..at].iter().all(|other| other.name != limit.name), "{}", limit.name);
            assert!(limit.min <= limit.default && limit.default <= limit.max, "{}", limit.name);
            assert!(limit.min < limit.max, "{}", limit.name);
            assert!(limit.meaning.ends_with('.') && !limit.meaning.contains('|'), "{}", limit.name);
            assert_eq!(Limits::default().get(limit.name), Some(limit.default));
        }
    }

    #[test]
    fn sets_limits_by_name_within_bounds() {
        for limit in TABLE {
            let mut limits = Limits::default();
            for value in [limit.min, limit.max] {
                limits.set(limit.name, value).unwrap();
                assert_eq!(limits.get(limit.name), Some(value));
            }
            let beyond = limits.set(limit.name, limit.max + 1).unwrap_err();
            assert!(beyond.message().contains(&limit.max.to_string()), "{beyond}");
            assert_eq!(limits.get(limit.name), Some(limit.max), "unchanged");
        }
        let error = Limits::default().set("max_bodi", 1).unwrap_err();
        assert!(error.message().contains("did you mean max_body?"), "{error}");
    }

    #[test]
    fn setters_stay_within_bounds() {
        let limits = Limits::default().max_body(1).courier_tick(Duration::from_secs(3600));
        assert_eq!(limits.get("max_body"), Some(16 * KIB));
        assert_eq!(limits.get("courier_tick"), Some(10 * SECOND));
    }
}
