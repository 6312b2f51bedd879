//! The tables of the database, and how they are created.

use garth_engine::home::Hasher;
use garth_engine::{Env, Error, ErrorKind, Result};
use tokio_postgres::types::Type;

use crate::client::{Connection, Pipe, param};

/// The tables of format 1.
const FORMAT_1: &str = include_str!("schema/v1.sql");
/// First rows of the account that the transaction has set; none if it has set none. The root has inode 1,
/// mode 0755, which is 493, and counts for 160 stored bytes.
pub(crate) const FIRST_ROWS: &str = "
    INSERT INTO garth.head (account, seq, time, next_ino, next_chunk, next_passage, passages, control,
        projections, epoch, oldest, oldest_since, folded, queued, merged, stored, unindexed, long_dirs)
    SELECT garth.me(), 0, 0, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 160, 0, 0 WHERE garth.me() > 0;
    INSERT INTO garth.node (account, ino, seq, kind, mode, uid, gid, rdev, nlink, size, mtime, ctime,
        birthtime, atime, target, attrs_seq, expires_at, content_seq)
    SELECT garth.me(), 1, 0, 1, 493, 0, 0, 0, 2, 0, 0, 0, 0, 0, NULL, 0, NULL, 0 WHERE garth.me() > 0";
/// Newest format, which this build reads and writes.
const FORMAT: i32 = 1;

/// Creates the tables in a database that has none. A database that has them stays as it is. The role of the
/// connection must own the database. Returns the secret of the home.
///
/// # Errors
/// `Format` if another format is there; errors of the database.
pub async fn create(conn: &Connection, env: &Env) -> Result<Hasher> {
    let secret: [u8; 32] = env.random()?;
    or_roll_back(conn, tables(conn, Some(secret)).await).await
}

/// Checks the tables of a database, and creates none. Returns the secret of the home.
///
/// # Errors
/// `NotFound` if there are none; otherwise as [`create`].
pub async fn check(conn: &Connection) -> Result<Hasher> {
    or_roll_back(conn, tables(conn, None).await).await
}

async fn or_roll_back<T>(conn: &Connection, done: Result<T>) -> Result<T> {
    if done.is_err() {
        // The error that led here is returned, not one of the rollback.
        drop(roll_back(conn).await);
    }
    done
}

/// Checks the tables. If there are none, creates them with the secret of a new home, if one is given.
async fn tables(conn: &Connection, new: Option<[u8; 32]>) -> Result<Hasher> {
    let mut pipe = Pipe::new(conn);
    // Servers that start at the same time wait for the first. The number is that of this lock, any other
    // would do.
    pipe.simple(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT pg_advisory_xact_lock(1735553128); \
         SELECT set_config('garth.account', '0', true)",
    );
    let known = pipe.query("SELECT to_regclass('garth.format') IS NOT NULL", Vec::new());
    let answers = pipe.run().await?;
    let is_known = answers[known].first().is_some_and(|row| row.try_get(0).unwrap_or(false));
    let mut pipe = Pipe::new(conn);
    if !is_known {
        let Some(secret) = new else {
            return Err(Error::new(ErrorKind::NotFound, "the database has no tables of garth"));
        };
        pipe.simple(FORMAT_1);
        pipe.query(
            "INSERT INTO garth.format (one, version, secret) VALUES (0, $1, $2)",
            vec![param(FORMAT, Type::INT4), param(secret.to_vec(), Type::BYTEA)],
        );
    }
    let version = pipe.query("SELECT version, secret FROM garth.format", Vec::new());
    pipe.simple("COMMIT");
    let answers = pipe.run().await?;
    let row = answers[version].first();
    let secret = || row.and_then(|row| row.try_get::<_, &[u8]>(1).ok()?.try_into().ok());
    let damaged = || Error::new(ErrorKind::Corrupt, "the secret of the home is damaged; restore a backup");
    match row.and_then(|row| row.try_get::<_, i32>(0).ok()) {
        Some(FORMAT) => secret().map(Hasher::new).ok_or_else(damaged),
        found => {
            let found =
                found.map_or_else(|| "an unknown format".to_owned(), |found| format!("format {found}"));
            let message = format!("the database has {found}, and this build reads format {FORMAT}");
            Err(Error::new(ErrorKind::Format, message))
        }
    }
}

async fn roll_back(conn: &Connection) -> Result<()> {
    let mut pipe = Pipe::new(conn);
    pipe.simple("ROLLBACK");
    pipe.run().await.map(drop)
}

/// Creates an account with an empty tree. Returns its number. `now` is in nanoseconds since 1970.
///
/// # Errors
/// `AlreadyExists` if an account has this id; errors of the database.
pub async fn create_account(conn: &Connection, id: &str, now: i64) -> Result<i64> {
    let mut pipe = Pipe::new(conn);
    pipe.simple(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SELECT set_config('garth.account', '0', true)",
    );
    let text = || param(id.to_owned(), Type::TEXT);
    let sql = "INSERT INTO garth.account (id, folder, created) VALUES ($1, $2, $3)
               ON CONFLICT DO NOTHING RETURNING account";
    let account = pipe.query(sql, vec![text(), text(), param(now, Type::INT8)]);
    let answers = pipe.run().await;
    let account =
        answers.map(|answers| answers[account].first().and_then(|row| row.try_get::<_, i64>(0).ok()));
    let Ok(Some(account)) = account else {
        roll_back(conn).await?;
        account?;
        return Err(Error::new(ErrorKind::AlreadyExists, format!("the account `{id}` exists already")));
    };
    let mut pipe = Pipe::new(conn);
    // From here on the transaction sees the rows of the account, and no longer those of the server.
    pipe.simple(format!("SELECT set_config('garth.account', '{account}', true); {FIRST_ROWS}; COMMIT"));
    let written = pipe.run().await;
    if written.is_err() {
        drop(roll_back(conn).await);
    }
    written.map(|_| account)
}
