//! Checks of a server and its role before anything is stored there.

use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;

use super::connection::Connection;
use super::errors::failed;
use super::pipe::Pipe;

/// Oldest version of PostgreSQL, as `server_version_num` has it.
const OLDEST: i64 = 150_000;

/// Version, encoding, `fsync`, the setting by which operators accept `fsync=off`, `synchronous_commit`, true
/// for a standby, and true if row-level security does not bind the role.
const SERVER: &str = "SELECT current_setting('server_version_num')::bigint,
    current_setting('server_encoding'), current_setting('fsync'),
    coalesce(current_setting('garth.fsync_elsewhere', true) IN ('on', 'true', 'yes', '1'), false),
    current_setting('synchronous_commit'), pg_is_in_recovery(),
    (SELECT r.rolsuper OR r.rolbypassrls FROM pg_roles r WHERE r.rolname = current_user)";

/// Properties of a server and its role.
struct Server {
    version: i64,
    encoding: String,
    fsync: String,
    /// True if commits survive a crash of the server without `fsync`, as operators say.
    syncs_elsewhere: bool,
    synchronous_commit: String,
    is_standby: bool,
    /// `None` for a role that cannot be judged, because it has no row.
    is_exempt: Option<bool>,
}

/// Refuses a server that cannot keep the promises of the engine, and a role that would see the rows of all
/// accounts.
///
/// # Errors
/// `Unsupported` for the server, `ReadOnly` for a standby, `AccessDenied` for the role; errors of the
/// database.
pub(super) async fn check_server(conn: &Connection) -> Result<()> {
    let mut pipe = Pipe::new(conn);
    let server = pipe.query(SERVER, Vec::new());
    let answers = pipe.run().await?;
    let unknown = || Error::new(ErrorKind::Unsupported, "the database is not a PostgreSQL server");
    Server::of(answers[server].first().ok_or_else(unknown)?)?.check()
}

impl Server {
    fn of(row: &Row) -> Result<Self> {
        Ok(Self {
            version: row.try_get(0).map_err(failed)?,
            encoding: row.try_get(1).map_err(failed)?,
            fsync: row.try_get(2).map_err(failed)?,
            syncs_elsewhere: row.try_get(3).map_err(failed)?,
            synchronous_commit: row.try_get(4).map_err(failed)?,
            is_standby: row.try_get(5).map_err(failed)?,
            is_exempt: row.try_get(6).map_err(failed)?,
        })
    }

    fn check(&self) -> Result<()> {
        let unsupported = |message: String| Err(Error::new(ErrorKind::Unsupported, message));
        if self.version < OLDEST {
            let major = self.version / 10_000;
            return unsupported(format!(
                "the database is PostgreSQL {major}; garth needs version 15 or newer"
            ));
        }
        if self.encoding != "UTF8" {
            let encoding = &self.encoding;
            return unsupported(format!(
                "the encoding of the database is {encoding}; create one with ENCODING 'UTF8'"
            ));
        }
        // Some services keep the log on other machines, and report `fsync=off` for the one that runs
        // statements.
        if self.fsync != "on" && !self.syncs_elsewhere {
            let message = "the database runs with fsync=off and would lose commits in a crash; set fsync to \
                on, or, if the service stores each commit elsewhere, add \
                `options=-c%20garth.fsync_elsewhere%3Don` to the URL";
            return unsupported(message.to_owned());
        }
        // The other values wait at least for the disk of the server.
        if self.synchronous_commit == "off" {
            let message =
                "the role has synchronous_commit=off, and commits would be lost in a crash; set it to on";
            return unsupported(message.to_owned());
        }
        // It shows an older state than the commits that were acknowledged.
        if self.is_standby {
            let message = "the database is a standby; check that the URL names the primary";
            return Err(Error::new(ErrorKind::ReadOnly, message));
        }
        if self.is_exempt != Some(false) {
            let message = "row-level security, which separates accounts, does not bind this role of the \
                database; use one that is neither a superuser nor has BYPASSRLS";
            return Err(Error::new(ErrorKind::AccessDenied, message));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_servers_and_roles_are_refused() {
        let server = |version, encoding: &str, fsync: &str| Server {
            version,
            encoding: encoding.to_owned(),
            fsync: fsync.to_owned(),
            syncs_elsewhere: false,
            synchronous_commit: "on".to_owned(),
            is_standby: false,
            is_exempt: Some(false),
        };
        let good = || server(150_000, "UTF8", "on");
        good().check().unwrap();
        Server { fsync: "off".to_owned(), syncs_elsewhere: true, ..good() }.check().unwrap();
        let waiting = |setting: &str| Server { synchronous_commit: setting.to_owned(), ..good() };
        waiting("remote_apply").check().unwrap();
        for (refused, kind, word) in [
            (waiting("off"), ErrorKind::Unsupported, "synchronous_commit"),
            (server(149_999, "UTF8", "on"), ErrorKind::Unsupported, "version 15"),
            (server(170_002, "SQL_ASCII", "on"), ErrorKind::Unsupported, "UTF8"),
            (server(170_002, "UTF8", "off"), ErrorKind::Unsupported, "fsync"),
            (Server { is_standby: true, ..good() }, ErrorKind::ReadOnly, "standby"),
            (Server { is_exempt: Some(true), ..good() }, ErrorKind::AccessDenied, "superuser"),
            (Server { is_exempt: None, ..good() }, ErrorKind::AccessDenied, "superuser"),
        ] {
            let error = refused.check().unwrap_err();
            assert!(error.is(kind) && error.message().contains(word), "{error}");
        }
    }
}
