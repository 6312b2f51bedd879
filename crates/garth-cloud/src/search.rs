//! Search: finds passages in the index of words, and ranks them with the code of all engines.
//!
//! A search reads one state of the account in one transaction. It takes a round trip for each round of the
//! [ranking](garth_engine::engine::search), and one for the content of its hits.
//!
//! New passages have their tokens beside them, and [`merge`] moves them to rows that are read by token.

mod blocks;
mod fetch;
mod fetched;
pub mod merge;
mod rounds;
mod snapshot;
mod subtrees;
mod words;

use garth_engine::Result;
use garth_engine::engine::relational::confinement::Reach;
use garth_engine::engine::search::{QueryFilter, SearchParams, search as rank};
use garth_engine::model::{SearchAnswer, SearchQuery};
use garth_engine::rule::{Registry, Rules};

use self::fetched::FetchedFiles;
use self::rounds::{PgPostings, missing};
use self::snapshot::Snapshot;
use crate::client::{Connection, Pipe};

/// Part of an account that a search can find.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// Account.
    pub account: i64,
    /// Paths in reach, and gates.
    pub reach: &'a Reach,
    /// Rules in force.
    pub rules: &'a Rules,
    /// Projections, and files that search does not find.
    pub registry: &'a Registry,
}

/// Searches an account as [`search`] does, by rules that are those of a version of its control data. Returns
/// `None` if it has another version.
///
/// # Errors
/// As [`search`].
pub(crate) async fn search_by(
    conn: &Connection,
    scope: Scope<'_>,
    version: u64,
    query: &SearchQuery,
) -> Result<Option<SearchAnswer>> {
    let (found, control) = searched(conn, scope, query).await?;
    Ok((control == version).then_some(found))
}

/// Searches the newest state of an account. Ranking computes, so that a server polls it on a compute thread.
///
/// A connection whose search was dropped before its end has an open transaction, and must be closed.
///
/// # Errors
/// `InvalidArgument` for a query that exceeds a limit or has a malformed pattern; `NotFound` if the account
/// does not exist; `TooLarge` for files with several hundred thousand names; errors of the database.
pub async fn search(conn: &Connection, scope: Scope<'_>, query: &SearchQuery) -> Result<SearchAnswer> {
    searched(conn, scope, query).await.map(|(found, _)| found)
}

/// Returns the answer, and the version of the control data of the state that was searched.
async fn searched(conn: &Connection, scope: Scope<'_>, query: &SearchQuery) -> Result<(SearchAnswer, u64)> {
    let found = run(conn, scope, query).await;
    if found.is_err() {
        // The error that led here is returned, not one of the rollback.
        let mut pipe = Pipe::new(conn);
        pipe.simple("ROLLBACK");
        drop(pipe.run().await);
    }
    found
}

async fn run(conn: &Connection, scope: Scope<'_>, query: &SearchQuery) -> Result<(SearchAnswer, u64)> {
    let Scope { account, reach, rules, registry } = scope;
    let (snapshot, files) = (Snapshot::new(conn, account), FetchedFiles::new(reach, registry));
    let Some(filter) = QueryFilter::new(&files, query, &reach.within, rules)? else {
        let mut answer = SearchAnswer::default();
        answer.missing = missing(snapshot, &files).await?;
        let control = files.state().control;
        return Ok((answer, control));
    };
    let question = filter.question().clone();
    let mut postings = PgPostings::new(snapshot, &files, filter);
    let found = rank(&mut postings, &question, SearchParams::of(query)).await?;
    let answer = postings.finish(found).await?;
    let control = files.state().control;
    Ok((answer, control))
}
