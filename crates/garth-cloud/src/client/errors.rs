//! Errors of the database as errors of garth.

use std::fmt;

use garth_engine::{Error, ErrorKind};
use tokio_postgres::error::DbError;

/// Error of the database as a cause for the log: without the details of the database, which quote rows.
#[derive(Debug)]
struct Refused {
    code: String,
    message: String,
}

impl From<&DbError> for Refused {
    fn from(error: &DbError) -> Self {
        Self { code: error.code().code().to_owned(), message: error.message().to_owned() }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.code)
    }
}

impl std::error::Error for Refused {}

/// Returns an error of the database as one of garth.
pub fn failed(error: tokio_postgres::Error) -> Error {
    let Some(refused) = error.as_db_error() else {
        let message = if error.is_closed() {
            "the connection to the database is closed; try again"
        } else {
            "the database cannot be reached; check the server and its URL"
        };
        return Error::new(ErrorKind::Unavailable, message).with_source(error);
    };
    let (kind, message) = of_code(refused.code().code());
    Error::new(kind, message).with_source(Refused::from(refused))
}

/// Returns kind and message of an error with this SQLSTATE.
fn of_code(code: &str) -> (ErrorKind, &'static str) {
    match code {
        // The transaction failed because of an earlier statement, whose error is returned in its place.
        "25P02" => (ErrorKind::Io, "an earlier statement of the transaction failed"),
        // `transaction_timeout` of PostgreSQL 17.
        "57014" | "25P04" => (ErrorKind::TimedOut, "the database took too long; try again, or ask for less"),
        "40001" | "40P01" | "55P03" => (ErrorKind::WouldBlock, "the account is being written; try again"),
        "53100" => (ErrorKind::NoSpace, "the database has no space left"),
        "XX001" | "XX002" => (ErrorKind::Corrupt, "the database is damaged; check the disk of its server"),
        // A condition of a table, such as that of counts of references.
        "23514" => (ErrorKind::Corrupt, "rows of the account contradict each other; check the account"),
        // `idle_in_transaction_session_timeout` has ended the connection.
        "25P03" => (ErrorKind::Unavailable, "the database has ended a transaction that waited; try again"),
        "53200" => (ErrorKind::Unavailable, "the database has no memory left; try again, or ask for less"),
        // An entry of an index, or a row, is too long.
        "54000" | "54001" | "54011" => (
            ErrorKind::TooLarge,
            "the request exceeds a limit of the database; ask for less, or split the batch",
        ),
        // Numbers out of range, and characters that no text has.
        "22003" | "22021" => (ErrorKind::InvalidArgument, "the database cannot store a value of the request"),
        "28000" | "28P01" => {
            (ErrorKind::AccessDenied, "the database refuses the role; check the role and password of its URL")
        }
        "3D000" => (ErrorKind::Unavailable, "there is no database of that name on the server; create it"),
        "42501" => (ErrorKind::AccessDenied, "the role lacks a privilege; it must own the database"),
        "53300" => (ErrorKind::Unavailable, "the database has no connection left; try again, or allow more"),
        "25006" => (ErrorKind::ReadOnly, "the database is read-only; check that the URL names the primary"),
        code if code.starts_with("08") || code.starts_with("57P") => {
            (ErrorKind::Unavailable, "the database is not available; try again")
        }
        _ => (ErrorKind::Io, "the database refused a statement"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_kinds_that_callers_can_act_on() {
        for (code, kind) in [
            ("40P01", ErrorKind::WouldBlock),
            ("53100", ErrorKind::NoSpace),
            ("57014", ErrorKind::TimedOut),
            ("25P04", ErrorKind::TimedOut),
            ("25P03", ErrorKind::Unavailable),
            ("54000", ErrorKind::TooLarge),
            ("22021", ErrorKind::InvalidArgument),
            ("57P01", ErrorKind::Unavailable),
            ("08006", ErrorKind::Unavailable),
            ("XX001", ErrorKind::Corrupt),
            ("23514", ErrorKind::Corrupt),
            ("23505", ErrorKind::Io),
        ] {
            assert_eq!(of_code(code).0, kind, "{code}");
        }
    }
}
