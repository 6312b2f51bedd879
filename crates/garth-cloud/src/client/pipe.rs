//! Statements that are sent together, in one round trip.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use futures::{FutureExt as _, TryStreamExt as _};
use garth_engine::{Error, ErrorKind, Result};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};

use super::connection::Connection;
use super::errors::failed;

/// Parameter of a statement with its type, so that the database need not be asked for it.
pub type Param = (Box<dyn ToSql + Sync + Send>, Type);

/// Returns a parameter of a type.
pub fn param(value: impl ToSql + Sync + Send + 'static, type_: Type) -> Param {
    (Box::new(value), type_)
}

/// A statement that was not sent yet.
enum Request {
    /// Statements without parameters or result.
    Simple(String),
    Query(&'static str, Vec<Param>),
}

type Answer<'c> = Pin<Box<dyn Future<Output = Result<Vec<Row>>> + Send + 'c>>;

/// Statements that are sent together. Each is answered on its own, and the first error is returned. After a
/// statement that failed, the others of its transaction fail as well, except `COMMIT`: it rolls back and
/// reports success. A transaction is committed only if every statement of the pipe succeeded: those that
/// follow one that cannot be sent are not sent either.
pub struct Pipe<'c> {
    conn: &'c Connection,
    requests: Vec<Request>,
}

impl<'c> Pipe<'c> {
    /// Creates an empty pipe.
    pub fn new(conn: &'c Connection) -> Self {
        Self { conn, requests: Vec::new() }
    }

    /// Adds statements without parameters, separated by `;`. Their rows are dropped.
    pub fn simple(&mut self, sql: impl Into<String>) {
        self.add(Request::Simple(sql.into()));
    }

    /// Adds a statement. Returns its place in the answer of [`run`](Self::run).
    pub fn query(&mut self, sql: &'static str, params: Vec<Param>) -> usize {
        self.add(Request::Query(sql, params))
    }

    fn add(&mut self, request: Request) -> usize {
        self.requests.push(request);
        self.requests.len() - 1
    }

    /// Sends all statements in one round trip and returns their rows. Nothing is sent before the first poll.
    ///
    /// # Errors
    /// The first error of a statement, after all were answered.
    pub async fn run(self) -> Result<Vec<Vec<Row>>> {
        let Self { conn, requests } = self;
        if requests.is_empty() {
            return Ok(Vec::new());
        }
        let mut answers: Vec<Option<Answer<'_>>> = Vec::with_capacity(requests.len());
        for request in requests {
            answers.push(Some(match request {
                Request::Simple(sql) => simple(conn, sql).boxed(),
                Request::Query(sql, params) => query(conn, sql, params).await?,
            }));
        }
        conn.count(answers.len());
        let mut rows: Vec<Result<Vec<Row>>> = Vec::new();
        rows.resize_with(answers.len(), lost);
        let (mut sent, mut is_cut) = (0, false);
        // A statement is sent when its future is first polled, so this loop keeps their order.
        poll_fn(|cx| {
            let mut pending = false;
            for (place, (answer, rows)) in answers.iter_mut().zip(&mut rows).enumerate() {
                let is_new = place >= sent;
                // The database knows nothing of a statement that could not be sent. It would commit the
                // others.
                if is_new && is_cut {
                    break;
                }
                let Some(future) = answer else { continue };
                sent = sent.max(place + 1);
                match future.as_mut().poll(cx) {
                    Poll::Ready(result) => {
                        is_cut |= is_new && result.is_err();
                        *rows = if is_new { result.map_err(|error| unsent(conn, error)) } else { result };
                        *answer = None;
                    }
                    Poll::Pending => pending = true,
                }
            }
            if pending { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        rows.into_iter().collect()
    }
}

/// Returns the error of a statement that failed before it was answered. On a connection that still works, its
/// values were too large for a message.
fn unsent(conn: &Connection, error: Error) -> Error {
    if conn.is_closed() || !error.is(ErrorKind::Unavailable) {
        return error;
    }
    let message = "a statement is too large for the database; ask for less, or split the batch";
    Error::new(ErrorKind::TooLarge, message).with_source(error)
}

fn lost() -> Result<Vec<Row>> {
    Err(Error::new(ErrorKind::Unavailable, "the database did not answer"))
}

async fn simple(conn: &Connection, sql: String) -> Result<Vec<Row>> {
    conn.client().batch_execute(&sql).await.map_err(failed)?;
    Ok(Vec::new())
}

/// Returns the future that sends a statement. A statement that is to be prepared is prepared here.
async fn query<'c>(conn: &'c Connection, sql: &'static str, params: Vec<Param>) -> Result<Answer<'c>> {
    let types: Vec<Type> = params.iter().map(|(_, type_)| type_.clone()).collect();
    let Some(statement) = conn.prepared(sql, &types).await? else {
        // Not `query`, which prepares a named statement: that takes three round trips, and fails behind a
        // pooler that gives each transaction another connection.
        return Ok(async move {
            let rows = conn.client().query_typed_raw(sql, params).await.map_err(failed)?;
            rows.try_collect().await.map_err(failed)
        }
        .boxed());
    };
    Ok(async move {
        let values = params.into_iter().map(|(value, _)| value);
        let rows = conn.client().query_raw(&statement, values).await.map_err(failed)?;
        rows.try_collect().await.map_err(failed)
    }
    .boxed())
}
