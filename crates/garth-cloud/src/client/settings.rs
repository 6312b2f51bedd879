//! Beginnings of transactions. Settings are those of the transaction, not of the session: behind a pooler the
//! next client would have them.

use std::time::Duration;

/// Limit on the time of a statement that writes.
const WRITE_TIME: Duration = Duration::from_secs(30);

/// Time of a transaction by the clock of the database. All statements that read judge expiry by it. It is a
/// query of its own, which is evaluated once, so that an index can be read up to it.
macro_rules! read_time {
    () => {
        "(SELECT coalesce(nullif(current_setting('garth.time', true), '')::bigint, garth.now()))"
    };
}
pub(crate) use read_time;

/// Returns the statements that begin a transaction which reads one state of an account. A statement may take
/// up to `limit`.
pub(crate) fn begin_reads(account: i64, limit: Duration) -> String {
    format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {}, \
         set_config('garth.time', garth.now()::text, true)",
        settings(account, limit)
    )
}

/// Returns the statements that begin a transaction which writes rows of an account, or waits for one that
/// does.
///
/// Each statement has a snapshot of its own, so that it sees what another one has waited for: a role or a
/// database may have another default.
///
/// A role or a database may also have `synchronous_commit` off. A crash of the server would then lose commits
/// that were acknowledged, so it is set back to `on`. Other values wait for the disk, and stay.
pub(crate) fn begin_writes(account: i64) -> String {
    format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; {}, set_config('lock_timeout', '10000', true), \
         set_config('synchronous_commit', \
         coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), true)",
        settings(account, WRITE_TIME)
    )
}

/// Returns the settings of every transaction. The time limits end a transaction whose server has vanished,
/// and with it its locks.
///
/// Every statement reads ranges of indexes in their order. As long as a table has no statistics, the database
/// would rather collect and sort all rows of a range than stop at the limit, so it is not offered that.
/// Compiling a statement takes longer than running it.
fn settings(account: i64, limit: Duration) -> String {
    let limit = limit.as_millis();
    format!(
        "SELECT set_config('garth.account', '{account}', true), \
         set_config('statement_timeout', '{limit}', true), \
         set_config('idle_in_transaction_session_timeout', '30000', true), \
         set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true), \
         set_config('jit', 'off', true)"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_end_with_the_transaction() {
        for begin in [begin_reads(7, Duration::from_secs(10)), begin_writes(7)] {
            assert!(begin.starts_with("BEGIN") && begin.contains("'garth.account', '7', true"), "{begin}");
            assert_eq!(begin.matches("set_config(").count(), begin.matches(", true)").count(), "{begin}");
        }
    }
}
