//! Checks of a server and its role before anything is stored there.

use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;

use super::connection::Connection;
use super::errors::failed;
use super::pipe::Pipe;

/// Oldest version of PostgreSQL, as `server_version_num` has it.
const OLDEST: i64 = 150_000;

/// Version, encoding, `fsync`, `synchronous_commit`, and true if row-level security does not bind the role.
const SERVER: &str = "SELECT current_setting('server_version_num')::bigint,
    current_setting('server_encoding'), current_setting('fsync'), current_setting('synchronous_commit'),
    (SELECT r.rolsuper OR r.rolbypassrls FROM pg_roles r WHERE r.rolname = current_user)";

/// Refuses a server that cannot keep the promises of the engine, and a role that would see the rows of all
/// accounts.
///
/// # Errors
/// `Unsupported` for the server, `AccessDenied` for the role; errors of the database.
pub(super) async fn check_server(conn: &Connection) -> Result<()> {
    let mut pipe = Pipe::new(conn);
    let server = pipe.query(SERVER, Vec::new());
    let answers = pipe.run().await?;
    let unknown = || Error::new(ErrorKind::Unsupported, "the database is not a PostgreSQL server");
    judge(answers[server].first().ok_or_else(unknown)?)
}

fn judge(row: &Row) -> Result<()> {
    let version: i64 = row.try_get(0).map_err(failed)?;
    let encoding: String = row.try_get(1).map_err(failed)?;
    let fsync: String = row.try_get(2).map_err(failed)?;
    let commit: String = row.try_get(3).map_err(failed)?;
    let is_exempt: Option<bool> = row.try_get(4).map_err(failed)?;
    judge_values(version, &encoding, [&fsync, &commit], is_exempt)
}

/// Judges a server. `syncs` are `fsync` and `synchronous_commit`.
fn judge_values(version: i64, encoding: &str, syncs: [&str; 2], is_exempt: Option<bool>) -> Result<()> {
    let unsupported = |message: String| Err(Error::new(ErrorKind::Unsupported, message));
    if version < OLDEST {
        let major = version / 10_000;
        return unsupported(format!("the database is PostgreSQL {major}; garth needs version 15 or newer"));
    }
    if encoding != "UTF8" {
        return unsupported(format!(
            "the encoding of the database is {encoding}; create one with ENCODING 'UTF8'"
        ));
    }
    let [fsync, commit] = syncs;
    if fsync != "on" {
        let message = "the database runs with fsync=off and would lose commits in a crash; set fsync to on";
        return unsupported(message.to_owned());
    }
    // The other values wait at least for the disk of the server.
    if commit == "off" {
        let message =
            "the role has synchronous_commit=off, and commits would be lost in a crash; set it to on";
        return unsupported(message.to_owned());
    }
    // A role without a row is one that cannot be judged.
    if is_exempt != Some(false) {
        let message = "row-level security, which separates accounts, does not bind this role of the \
            database; use one that is neither a superuser nor has BYPASSRLS";
        return Err(Error::new(ErrorKind::AccessDenied, message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_servers_and_roles_are_refused() {
        let on = ["on", "on"];
        judge_values(150_000, "UTF8", on, Some(false)).unwrap();
        judge_values(170_002, "UTF8", ["on", "remote_apply"], Some(false)).unwrap();
        for (refused, kind, word) in [
            (judge_values(149_999, "UTF8", on, Some(false)), ErrorKind::Unsupported, "version 15"),
            (judge_values(170_002, "SQL_ASCII", on, Some(false)), ErrorKind::Unsupported, "UTF8"),
            (judge_values(170_002, "UTF8", ["off", "on"], Some(false)), ErrorKind::Unsupported, "fsync"),
            (
                judge_values(170_002, "UTF8", ["on", "off"], Some(false)),
                ErrorKind::Unsupported,
                "synchronous_commit",
            ),
            (judge_values(170_002, "UTF8", on, Some(true)), ErrorKind::AccessDenied, "superuser"),
            (judge_values(170_002, "UTF8", on, None), ErrorKind::AccessDenied, "superuser"),
        ] {
            let error = refused.unwrap_err();
            assert!(error.is(kind) && error.message().contains(word), "{error}");
        }
    }
}
