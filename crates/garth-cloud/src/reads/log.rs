//! The head row, commits of the log, and snapshots.

use std::sync::Arc;

use garth_engine::model::{
    Author, CommitId, CommitInfo, Owner, Seq, SessionOf, Snapshot, SnapshotKey, Timestamp,
};
use garth_engine::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fetched::{FetchedRows, Head, Log, LogPage, LogRow, SnapshotsAfter};
use super::round::Round;
use crate::client::{param, read_time};
use crate::values::columns::{column, head, int, number, place};
use crate::values::labels;
use crate::values::parameters::ints;

/// Commits of the log that are fetched at a time, and snapshots.
pub(super) const STEP: usize = 256;

/// Head row, the last commit up to which ended rows are removed, or may be by the removal in progress, and
/// the time.
const HEAD: &str = concat!(
    "SELECT seq, time, next_ino, next_chunk, control, projections, oldest, folded,
        greatest(folded, (SELECT till FROM garth.fold WHERE account = $1 AND phase > 0)), ",
    read_time!(),
    " FROM garth.head WHERE account = $1"
);
const COMMITS: &str = "SELECT l.seq, l.time, uuid_send(l.id), l.author, l.message, l.overrides, o.key
    FROM unnest($2::bigint[]) k(seq)
    CROSS JOIN LATERAL (SELECT seq, time, id, author, message, overrides, owner FROM garth.log
        WHERE account = $1 AND seq = k.seq OFFSET 0) l
    LEFT JOIN LATERAL (SELECT key FROM garth.owner WHERE account = $1 AND id = l.owner OFFSET 0) o ON true";
/// Last commit that is not later than a time, up to commit `$3`. Times increase with sequence numbers.
const LAST_UNTIL: &str = "SELECT seq FROM garth.log WHERE account = $1
        AND time <= least($2, (SELECT time FROM garth.log WHERE account = $1 AND seq = $3))
    ORDER BY time DESC LIMIT 1";

/// Commits after `$2` up to `$3`, at most `$4`.
macro_rules! log_page {
    ($where:literal) => {
        concat!(
            "SELECT l.seq, l.time, uuid_send(l.id), l.author, l.message, l.overrides, o.key, l.changes
            FROM (SELECT seq, time, id, author, message, overrides, owner, changes FROM garth.log
                WHERE account = $1 AND seq > $2 AND seq <= $3",
            $where,
            " ORDER BY seq LIMIT $4) l
            LEFT JOIN LATERAL (SELECT key FROM garth.owner
                WHERE account = $1 AND id = l.owner OFFSET 0) o ON true
            ORDER BY l.seq"
        )
    };
}
const LOG: &str = log_page!("");
const LOG_OF_SESSION: &str = log_page!(" AND session = $5");
const PIECE_BEFORE: &str = "SELECT first, changes FROM garth.log_more
    WHERE account = $1 AND seq = $2 AND first <= $3 ORDER BY first DESC LIMIT 1";
const PIECE_AT: &str =
    "SELECT first, changes FROM garth.log_more WHERE account = $1 AND seq = $2 AND first = $3";
const FOLDED_AUTHORS: &str = "SELECT k.n, f.author, f.json FROM unnest($2::bigint[]) WITH ORDINALITY k(seq, n)
    CROSS JOIN LATERAL (SELECT x.author, a.json
        FROM (SELECT author FROM garth.folded_author WHERE account = $1 AND till >= k.seq ORDER BY till LIMIT 1) x
        LEFT JOIN garth.author a ON a.account = $1 AND a.id = x.author) f";

/// Number of the owner whose hash is `$2`: 0 for the account itself, which has none.
macro_rules! owner {
    () => {
        "(SELECT 0::bigint AS id WHERE octet_length($2::bytea) = 0
            UNION ALL SELECT id FROM garth.owner WHERE account = $1 AND hash = $2)"
    };
}
const SNAPSHOT: &str = concat!(
    "SELECT s.seq FROM ",
    owner!(),
    " o CROSS JOIN LATERAL (SELECT seq FROM garth.snapshot
        WHERE account = $1 AND owner = o.id AND name = $3 OFFSET 0) s"
);
/// Snapshots of owner `o` after a name. Long names are shortened in the key: those from the key on are read.
macro_rules! snapshots_after {
    () => {
        " FROM garth.snapshot p WHERE account = $1 AND owner = o.id AND name >= substr($3::bytea, 1, 1024)
            AND coalesce(long, name) > $3 AND seq <= $4
            AND (SELECT true FROM garth.log WHERE account = $1 AND seq = p.seq)"
    };
}
/// Snapshots of an owner after a name. The key after a page bounds what is read, with all long names that
/// begin like it: only their order differs from that of the keys. No name has the byte 255, which UTF-8 has
/// not.
const SNAPSHOTS_OF: &str = concat!(
    "SELECT s.name, s.long, s.seq, l.time, NULL::bytea FROM ",
    owner!(),
    " o CROSS JOIN LATERAL (SELECT name, long, seq",
    snapshots_after!(),
    " AND name <= (SELECT coalesce((SELECT CASE WHEN octet_length(b.name) < 1024 THEN b.name
                    ELSE substr(b.name, 1, 1024) || decode(repeat('ff', 17), 'hex') END
                FROM (SELECT name",
    snapshots_after!(),
    " ORDER BY name OFFSET $5 LIMIT 1) b), decode('ff', 'hex')))
            OFFSET 0) s
    CROSS JOIN LATERAL (SELECT time FROM garth.log WHERE account = $1 AND seq = s.seq OFFSET 0) l
    ORDER BY coalesce(s.long, s.name) LIMIT $5"
);
/// Snapshots of all owners, by the keys of the owners, after the key `$2` and a name.
const SNAPSHOTS: &str = "SELECT s.name, s.long, s.seq, l.time, s.owner FROM (
        SELECT coalesce(o.key, ''::bytea) AS owner, s.name, s.long, s.seq FROM garth.snapshot s
        LEFT JOIN garth.owner o ON o.account = $1 AND o.id = s.owner
        WHERE s.account = $1 AND s.seq <= $4) s
    CROSS JOIN LATERAL (SELECT time FROM garth.log WHERE account = $1 AND seq = s.seq OFFSET 0) l
    WHERE (s.owner, coalesce(s.long, s.name)) > ($2, $3)
    ORDER BY s.owner, coalesce(s.long, s.name) LIMIT $5";

/// Returns the session of a query as the log has it.
pub(super) fn session_key(session: &SessionOf) -> Vec<u8> {
    labels::session(session)
}

/// Adds the statements that fetch what is wanted.
pub(super) fn send(log: &Log, round: &mut Round<'_>) {
    if !log.head.take_wanted().is_empty() {
        round.query(HEAD, Vec::new(), move |fetched, rows| {
            let head = rows.first().map(|row| {
                Ok::<_, Error>(Head { row: head(row)?, reached: number(row, 8)?, now: column(row, 9)? })
            });
            fetched.log.head.put((), head.transpose()?);
            Ok(())
        });
    }
    send_commits(round, log.commits.take_wanted());
    let last = int(log.last);
    for time in log.last_until.take_wanted() {
        round.query(
            LAST_UNTIL,
            [time, last].map(|value| param(value, Type::INT8)).into(),
            move |fetched, rows| {
                let seq = rows.first().map(|row| number(row, 0)).transpose()?;
                fetched.log.last_until.put(time, seq);
                Ok(())
            },
        );
    }
    for page in log.pages.take_wanted() {
        send_page(round, page, last);
    }
    for piece in log.pieces.take_wanted() {
        send_piece(round, piece);
    }
    send_folded_authors(round, log.folded_authors.take_wanted());
    for key in log.snapshot.take_wanted() {
        send_snapshot(round, key);
    }
    for key in log.snapshots.take_wanted() {
        send_snapshots(round, key, last);
    }
}

/// Reads a commit, its owner included: columns `seq, time, id, author, message, overrides, key` from `at`
/// on.
fn commit(row: &Row, at: usize) -> Result<(CommitInfo, String)> {
    let author: Option<&str> = column(row, at + 3)?;
    // An author that cannot be read must not hide the commit: it shows as the default one.
    let author = author.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
    let mut info = CommitInfo::of_folded(Seq(number(row, at)?), Timestamp(column(row, at + 1)?), author);
    info.folded = false;
    let id = column::<Option<&[u8]>>(row, at + 2)?.map(<[u8; 16]>::try_from);
    let damaged = || Error::damaged("the id of a commit is damaged");
    info.id =
        id.transpose().map_err(|e| damaged().with_source(e))?.map(|id| CommitId(u128::from_be_bytes(id)));
    info.message = text(column::<Option<Vec<u8>>>(row, at + 4)?)?;
    info.overrides_rules = column(row, at + 5)?;
    Ok((info, text(column::<Option<Vec<u8>>>(row, at + 6)?)?))
}

fn text(bytes: Option<Vec<u8>>) -> Result<String> {
    let damaged = |e| Error::damaged("a text of the log is damaged").with_source(e);
    String::from_utf8(bytes.unwrap_or_default()).map_err(damaged)
}

/// Keeps a commit whose columns begin at `at`, if the row has one.
pub(super) fn put_commit(fetched: &FetchedRows, row: &Row, at: usize) -> Result<()> {
    if let Some(seq) = column::<Option<i64>>(row, at)? {
        fetched.log.commits.put(seq.cast_unsigned(), Some(commit(row, at)?));
    }
    Ok(())
}

fn send_commits(round: &mut Round<'_>, keys: Vec<u64>) {
    if keys.is_empty() {
        return;
    }
    round.query(COMMITS, vec![ints(keys.iter().copied())], move |fetched, rows| {
        keys.into_iter().for_each(|seq| fetched.log.commits.put(seq, None));
        rows.iter().try_for_each(|row| put_commit(fetched, row, 0))
    });
}

fn send_page(round: &mut Round<'_>, key: LogPage, last: i64) {
    let mut params: Vec<_> =
        [int(key.0), last, int(STEP as u64)].into_iter().map(|value| param(value, Type::INT8)).collect();
    params.extend(key.1.clone().map(|session| param(session, Type::BYTEA)));
    let sql = if key.1.is_some() { LOG_OF_SESSION } else { LOG };
    round.query(sql, params, move |fetched, rows| {
        let page = rows.iter().map(|row| {
            let (info, owner) = commit(row, 0)?;
            Ok(LogRow { info, changes: column(row, 7)?, owner })
        });
        fetched.log.pages.put(key, Arc::new(page.collect::<Result<_>>()?));
        Ok(())
    });
}

fn send_piece(round: &mut Round<'_>, key: (u64, u64, bool)) {
    let (seq, change, before) = key;
    let params = [int(seq), int(change)].map(|value| param(value, Type::INT8)).into();
    round.query(if before { PIECE_BEFORE } else { PIECE_AT }, params, move |fetched, rows| {
        let piece = rows.first().map(|row| Ok::<_, Error>((number(row, 0)?, column(row, 1)?)));
        fetched.log.pieces.put(key, piece.transpose()?);
        Ok(())
    });
}

fn send_folded_authors(round: &mut Round<'_>, keys: Vec<u64>) {
    if keys.is_empty() {
        return;
    }
    round.query(FOLDED_AUTHORS, vec![ints(keys.iter().copied())], move |fetched, rows| {
        for seq in &keys {
            let lost = Error::damaged(format!("the author of commit {seq} is missing"));
            fetched.log.folded_authors.put(*seq, Err(lost));
        }
        for row in rows {
            let Some(seq) = keys.get(place(row, 0)?) else { continue };
            // The default author has the number 0, and no row.
            let author = match (column::<i64>(row, 1)?, column::<Option<&str>>(row, 2)?) {
                (0, _) => Some(Author::default()),
                (_, json) => json.and_then(|json| serde_json::from_str(json).ok()),
            };
            if let Some(author) = author {
                fetched.log.folded_authors.put(*seq, Ok(author));
            }
        }
        Ok(())
    });
}

fn send_snapshot(round: &mut Round<'_>, key: (String, String)) {
    let params = [labels::owner(&key.0), labels::snapshot(&key.1).0].map(|label| param(label, Type::BYTEA));
    round.query(SNAPSHOT, params.into(), move |fetched, rows| {
        let seq = rows.first().map(|row| number(row, 0)).transpose()?;
        fetched.log.snapshot.put(key, seq);
        Ok(())
    });
}

fn send_snapshots(round: &mut Round<'_>, key: SnapshotsAfter, last: i64) {
    let (own, owner, name) = &key;
    let is_own = own.is_some();
    let owner = own.as_ref().map_or_else(|| owner.clone().into_bytes(), |own| labels::owner(own));
    let params = vec![
        param(owner, Type::BYTEA),
        param(name.clone().into_bytes(), Type::BYTEA),
        param(last, Type::INT8),
        param(int(STEP as u64), Type::INT8),
    ];
    round.query(if is_own { SNAPSHOTS_OF } else { SNAPSHOTS }, params, move |fetched, rows| {
        let snapshots = rows.iter().map(|row| {
            let name = column::<Option<Vec<u8>>>(row, 1)?.or(column(row, 0)?);
            // The account sees the snapshots of all owners, so each is returned with its owner.
            let owner = Owner::from_key(text(column::<Option<Vec<u8>>>(row, 4)?)?);
            Ok(Snapshot::new(text(name)?, Seq(number(row, 2)?), Timestamp(column(row, 3)?), owner))
        });
        fetched.log.snapshots.put(key, Arc::new(snapshots.collect::<Result<_>>()?));
        Ok(())
    });
}

/// Returns the owner and name after which the page behind a snapshot begins.
pub(super) fn behind(snapshot: &Snapshot) -> (String, String) {
    let SnapshotKey { owner, name } = snapshot.key();
    (owner.as_ref().map_or_else(String::new, |owner| owner.key().to_owned()), name)
}
