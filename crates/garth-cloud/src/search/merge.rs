//! Merges new passages into the rows that are read by token, in steps. A step is one short transaction: after
//! a step that was cut, the next one does all of it again.
//!
//! Commits write new passages with their tokens beside them, and lock no row that others share. A server that
//! has the lease of an account moves the oldest of them, and the removed passages, into rows of `posting`. If
//! many passages were removed, it sweeps them out of all rows.
//!
//! A commit that removes passages adds to `passage_gone` those whose `tokens` are null as they are removed. A
//! step locks the passages that it merges and skips those that a commit has locked, so a removed passage is
//! either merged and in `passage_gone`, or neither.

use std::collections::BTreeMap;

use garth_engine::Result;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::blocks::{BlockSet, block_of, place_of};
use crate::client::{Connection, Pipe, param};
use crate::values::columns::{column, number};
use crate::values::parameters::{list, texts};

/// Time until the lease of a server that has vanished ends: 30 s in nanoseconds.
const LEASE: i64 = 30_000_000_000;
/// Merged passages of removed files from which on a sweep is worth its cost, and their least share of all.
const MANY_REMOVED: u64 = 1024;
const SHARE_REMOVED: u64 = 4;
/// Rows of a step of a sweep.
const SWEPT: i64 = 1024;

// Whoever finds the row locked waits for the step of the other server, whose lease has not ended then. The
// lock of the head row lets a deletion of the account wait for this step, which would otherwise leave rows
// behind it.
const TAKE_LEASE: &str = "INSERT INTO garth.merging AS m (account, holder, until)
    SELECT $1, $2, now + $3 FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint * 1000 AS now
        FROM garth.head WHERE account = $1 FOR KEY SHARE) c
    ON CONFLICT (account) DO UPDATE SET holder = excluded.holder, until = excluded.until
        WHERE m.holder = excluded.holder OR m.until <= excluded.until - $3
    RETURNING token, block";
/// Oldest new passages, once there are 256, without the newest 128: a search reads up to 256, and a merge of
/// more passages writes fewer rows for each.
const NEW: &str = "SELECT id, tokens FROM garth.passage
    WHERE account = $1 AND tokens IS NOT NULL
        AND EXISTS (SELECT 1 FROM garth.merging WHERE account = $1 AND holder = $2)
        AND EXISTS (SELECT 1 FROM garth.passage
            WHERE account = $1 AND tokens IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET 255)
        AND id <= (SELECT id FROM garth.passage
            WHERE account = $1 AND tokens IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET 128)
    ORDER BY id LIMIT 256 FOR UPDATE SKIP LOCKED";
/// Removed passages, once there are 256. A sweep takes out those that were known at its beginning, so none
/// are added to them before its end.
const REMOVED: &str = "SELECT id FROM garth.passage_gone
    WHERE account = $1
        AND EXISTS (SELECT 1 FROM garth.merging WHERE account = $1 AND holder = $2 AND token IS NULL)
        AND EXISTS (SELECT 1 FROM garth.passage_gone WHERE account = $1 LIMIT 1 OFFSET 255)
    ORDER BY id LIMIT 4096";
/// Number of passages, and of those that the empty token has.
const SIZES: &str = "SELECT passages, (SELECT coalesce(sum(count), 0)::bigint FROM garth.posting
        WHERE account = $1 AND token = '') FROM garth.head WHERE account = $1";
/// Next rows of a sweep, with the removed passages of their blocks.
const TO_SWEEP: &str = "SELECT p.token, p.block, CASE WHEN g.ids IS NOT NULL THEN p.ids END, g.ids
    FROM garth.merging m
    CROSS JOIN LATERAL (SELECT token, block, ids FROM garth.posting
        WHERE account = $1 AND (token, block) > (m.token, m.block) ORDER BY token, block LIMIT $3) p
    LEFT JOIN LATERAL (SELECT ids FROM garth.posting
        WHERE account = $1 AND token = '' AND block = p.block OFFSET 0) g ON true
    WHERE m.account = $1 AND m.holder = $2 AND m.token IS NOT NULL ORDER BY p.token, p.block";
const APPEND: &str = "INSERT INTO garth.posting AS p (account, token, block, count, ids)
    SELECT $1, * FROM unnest($2::text[], $3::bigint[], $4::int[], $5::bytea[])
    ON CONFLICT (account, token, block) DO UPDATE SET count = p.count + excluded.count,
        ids = p.ids || excluded.ids";
const ARE_MERGED: &str = "UPDATE garth.passage SET tokens = NULL WHERE account = $1 AND id = ANY($2)";
const ARE_REMOVED: &str = "DELETE FROM garth.passage_gone WHERE account = $1 AND id = ANY($2)";
const REPLACE: &str = "UPDATE garth.posting p SET count = k.count, ids = k.ids
    FROM unnest($2::text[], $3::bigint[], $4::int[], $5::bytea[]) k(token, block, count, ids)
    WHERE p.account = $1 AND p.token = k.token AND p.block = k.block AND p.token = ANY($2)";
const DELETE: &str = "DELETE FROM garth.posting p USING unnest($2::text[], $3::bigint[]) k(token, block)
    WHERE p.account = $1 AND p.token = k.token AND p.block = k.block AND p.token = ANY($2)";
const SWEEP_FROM: &str = "UPDATE garth.merging SET token = $2, block = $3 WHERE account = $1";
const END_SWEEP: &str = "WITH swept AS (DELETE FROM garth.posting WHERE account = $1 AND token = '')
    UPDATE garth.merging SET token = NULL, block = NULL WHERE account = $1";
const RELEASE: &str = "UPDATE garth.merging SET until = 0 WHERE account = $1";

/// Result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Something was merged, and more may be left.
    Merged,
    /// Nothing is left. The lease has ended.
    Done,
    /// Another server has the lease, or the account is deleted.
    Held,
}

/// Takes the lease of an account, or extends it, and merges up to 256 passages. `holder` names the server.
///
/// A connection whose step was dropped before its end has an open transaction, and must be closed.
///
/// # Errors
/// Errors of the database: then the step has changed nothing.
pub async fn step(conn: &Connection, account: i64, holder: &[u8]) -> Result<Step> {
    let done = merge(conn, account, holder).await;
    if done.is_err() {
        // The error that led here is returned, not one of the rollback.
        let mut pipe = Pipe::new(conn);
        pipe.simple("ROLLBACK");
        drop(pipe.run().await);
    }
    done
}

async fn merge(conn: &Connection, account: i64, holder: &[u8]) -> Result<Step> {
    let of_account = || param(account, Type::INT8);
    let of_holder = || vec![of_account(), param(holder.to_vec(), Type::BYTEA)];
    let mut pipe = Pipe::new(conn);
    pipe.simple(format!(
        "BEGIN; SELECT set_config('garth.account', '{account}', true), \
         set_config('statement_timeout', '30000', true), set_config('lock_timeout', '10000', true), \
         set_config('idle_in_transaction_session_timeout', '30000', true)"
    ));
    let with = |last: i64| of_holder().into_iter().chain([param(last, Type::INT8)]).collect();
    let lease = pipe.query(TAKE_LEASE, with(LEASE));
    let new = pipe.query(NEW, of_holder());
    let removed = pipe.query(REMOVED, of_holder());
    let sizes = pipe.query(SIZES, vec![of_account()]);
    let to_sweep = pipe.query(TO_SWEEP, with(SWEPT));
    let answers = pipe.run().await?;
    let rows = |at: usize| answers.get(at).map_or(&[][..], Vec::as_slice);

    let mut pipe = Pipe::new(conn);
    let Some(lease) = rows(lease).first() else {
        pipe.simple("ROLLBACK");
        pipe.run().await?;
        return Ok(Step::Held);
    };
    let is_sweeping = column::<Option<&str>>(lease, 0)?.is_some();
    let mut done = Step::Done;
    let mut to = Target { pipe: &mut pipe, account };
    // Before the appends: those are made to the rows as the sweep leaves them.
    if is_sweeping {
        to.sweep(rows(to_sweep))?;
        done = Step::Merged;
    } else if let Some(sizes) = rows(sizes).first() {
        let (passages, removed) = (number(sizes, 0)?, number(sizes, 1)?);
        if removed >= MANY_REMOVED && removed.saturating_mul(SHARE_REMOVED) >= passages {
            to.sweep_from("", i64::MAX);
            done = Step::Merged;
        }
    }
    if to.merge(rows(new), rows(removed))? {
        done = Step::Merged;
    }
    if done == Step::Done {
        to.pipe.query(RELEASE, vec![of_account()]);
    }
    pipe.simple("COMMIT");
    pipe.run().await?;
    Ok(done)
}

/// Passages of a token in a block, as their row stores them.
type Rows = BTreeMap<(String, i64), Vec<u8>>;

/// Statements of a step.
struct Target<'p, 'c> {
    pipe: &'p mut Pipe<'c>,
    account: i64,
}

impl Target<'_, '_> {
    /// Adds the statements that merge new and removed passages. Returns false if there are none.
    fn merge(&mut self, new: &[Row], removed: &[Row]) -> Result<bool> {
        let mut appended = Rows::new();
        let (mut merged, mut gone) = (Vec::with_capacity(new.len()), Vec::with_capacity(removed.len()));
        for row in new {
            let (id, tokens): (i64, &str) = (column(row, 0)?, column(row, 1)?);
            // The empty token is that of removed passages.
            for token in tokens.split(' ').filter(|token| !token.is_empty()) {
                append(&mut appended, token, id);
            }
            merged.push(id);
        }
        for row in removed {
            let id = column(row, 0)?;
            append(&mut appended, "", id);
            gone.push(id);
        }
        if !appended.is_empty() {
            self.write(APPEND, appended);
        }
        for (sql, ids) in [(ARE_MERGED, &merged), (ARE_REMOVED, &gone)] {
            if !ids.is_empty() {
                let ids = list(ids.iter().copied(), Type::INT8_ARRAY);
                self.pipe.query(sql, vec![param(self.account, Type::INT8), ids]);
            }
        }
        Ok(!merged.is_empty() || !gone.is_empty())
    }

    /// Adds the statements that take removed passages out of rows.
    fn sweep(&mut self, rows: &[Row]) -> Result<()> {
        let (mut left, mut empty) = (Rows::new(), Vec::new());
        for row in rows {
            let (Some(places), Some(gone)) =
                (column::<Option<&[u8]>>(row, 2)?, column::<Option<&[u8]>>(row, 3)?)
            else {
                continue;
            };
            let key = (column::<String>(row, 0)?, column(row, 1)?);
            let places_left = BlockSet::of(places).without(gone).places();
            if places_left.is_empty() {
                empty.push(key);
            } else if places_left.len() < places.len() {
                left.insert(key, places_left);
            }
        }
        if !left.is_empty() {
            self.write(REPLACE, left);
        }
        if !empty.is_empty() {
            let tokens = texts(empty.iter().map(|(token, _)| token.clone()));
            let blocks = list(empty.iter().map(|(_, block)| *block), Type::INT8_ARRAY);
            self.pipe.query(DELETE, vec![param(self.account, Type::INT8), tokens, blocks]);
        }
        match rows.last().filter(|_| rows.len() as i64 == SWEPT) {
            Some(last) => self.sweep_from(column(last, 0)?, column(last, 1)?),
            None => {
                self.pipe.query(END_SWEEP, vec![param(self.account, Type::INT8)]);
            }
        }
        Ok(())
    }

    /// Adds the statement that lets the sweep continue after a row.
    fn sweep_from(&mut self, token: &str, block: i64) {
        let place = [param(token.to_owned(), Type::TEXT), param(block, Type::INT8)];
        let params = [param(self.account, Type::INT8)].into_iter().chain(place).collect();
        self.pipe.query(SWEEP_FROM, params);
    }

    fn write(&mut self, sql: &'static str, rows: Rows) {
        let count = |places: &Vec<u8>| i32::try_from(places.len() / 2).unwrap_or(i32::MAX);
        let params = vec![
            param(self.account, Type::INT8),
            texts(rows.keys().map(|(token, _)| token.clone())),
            list(rows.keys().map(|(_, block)| *block), Type::INT8_ARRAY),
            list(rows.values().map(count), Type::INT4_ARRAY),
            list(rows.into_values(), Type::BYTEA_ARRAY),
        ];
        self.pipe.query(sql, params);
    }
}

fn append(rows: &mut Rows, token: &str, id: i64) {
    rows.entry((token.to_owned(), block_of(id))).or_default().extend(place_of(id));
}
