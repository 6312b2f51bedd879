//! Removes the extents of content that was marked before the grace period: those that only the states of a
//! span show, with those of adjacent spans that are removed.

use garth_engine::Result;
use garth_engine::engine::relational::content_search::{Span, is_free};
use garth_engine::engine::relational::reads::tree_rows::MAX;
use garth_engine::model::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::client::{Param, param};
use crate::collect::read_states;
use crate::collect::removed_extents::{EndedExtent, RemovedExtents};
use crate::collect::step::{Run, Statement, Step};
use crate::values::columns::{column, int, number};

/// Mark of a span whose content is being removed: nobody opened a view before that time.
const REMOVING: i64 = i64::MIN;
/// Spans that are listed at a time.
const SPANS: i64 = 64;

const IS_ANY_MARKED: &str =
    "SELECT FROM garth.content_gone WHERE account = $1 AND marked IS NOT NULL LIMIT 1";
const MARK_AGAIN: &str = "UPDATE garth.content_gone SET marked = $2 WHERE account = $1 AND ctid = ANY(ARRAY(
        SELECT ctid FROM garth.content_gone WHERE account = $1 AND marked IS NOT NULL AND marked > $2 LIMIT $3))
    RETURNING 1";
/// Next spans that were marked at or before a time, after a mark, node and end.
const NEXT: &str = "SELECT ino, since, till, marked FROM garth.content_gone
    WHERE account = $1 AND marked IS NOT NULL AND marked <= $2 AND (marked, ino, till) > ($3, $4, $5)
    ORDER BY marked, ino, till LIMIT $6";
/// Mark of a span, and the adjacent spans whose content is removed.
const MARKED: &str = "SELECT g.marked,
        (SELECT b.since FROM garth.content_gone b
            WHERE b.account = $1 AND b.ino = $2 AND b.till = $3 AND b.marked IS NULL),
        (SELECT max(a.till) FROM garth.content_gone a
            WHERE a.account = $1 AND a.ino = $2 AND a.till > $4 AND a.since = $4 AND a.marked IS NULL)
    FROM garth.content_gone g
    WHERE g.account = $1 AND g.ino = $2 AND g.since = $3 AND g.till = $4 AND g.marked IS NOT NULL";
/// True if the span ends with the last name of the file: its last content is live, as nothing replaced it.
/// And true if a server may have the file open without a name.
const LAST: &str = "SELECT coalesce((SELECT min(seq) FROM garth.node WHERE account = $1 AND ino = $2
            AND seq > coalesce((SELECT seq FROM garth.node
                WHERE account = $1 AND ino = $2 AND nlink > 0 ORDER BY seq DESC LIMIT 1), -1)) = $3, false),
        EXISTS (SELECT FROM garth.unnamed WHERE account = $1 AND ino = $2)";
const BEGIN: &str = "UPDATE garth.content_gone SET marked = $4 WHERE account = $1 AND ino = $2 AND till = $3";
const LIVE: &str = "SELECT 0::bigint, off, since, chunk, len FROM garth.extent
    WHERE account = $1 AND ino = $2 AND off >= $3 ORDER BY off LIMIT $4";
const ENDED: &str = "SELECT till, off, since, chunk, len FROM garth.extent_past
    WHERE account = $1 AND ino = $2 AND (till, off) >= ($3, $4) AND till <= $5 ORDER BY till, off LIMIT $6";
const NOT_GONE: &str = "DELETE FROM garth.content_gone WHERE account = $1 AND ino = $2
    AND (till = $3 OR marked IS NULL AND since >= $4 AND till <= $5)";
const GONE: &str =
    "INSERT INTO garth.content_gone (account, ino, since, till, marked) VALUES ($1, $2, $3, $4, NULL)
    ON CONFLICT (account, ino, till) DO UPDATE SET since = excluded.since, marked = NULL";

/// Next extents to look at: live ones from an offset on, or ended ones from an end and offset on.
#[derive(Clone, Copy, Debug)]
enum Place {
    Live(u64),
    Ended(u64, u64),
}

/// A span whose content is removed, with the adjacent ones whose content is gone.
struct Removal {
    span: Span,
    joined: Span,
    /// True if the span ends with the last name of the file.
    is_last: bool,
}

/// Removes the content that was marked before the grace period.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn remove(run: &mut Run<'_>) -> Result<()> {
    // Mostly there is none, and the account need not be locked.
    let [marked] = run.read([(IS_ANY_MARKED, Vec::new())]).await?;
    if marked.is_empty() {
        return Ok(());
    }
    let before = mark_again(run).await?;
    let mut after = (REMOVING, 0, 0);
    loop {
        let params = numbers([before.0, after.0, int(after.1), int(after.2), SPANS]);
        let [rows] = run.read([(NEXT, params)]).await?;
        for row in &rows {
            let span = Span { ino: number(row, 0)?, since: number(row, 1)?, till: number(row, 2)? };
            after = (column(row, 3)?, span.ino, span.till);
            let mut place = None;
            loop {
                place = remove_content(run, span, place).await?;
                if place.is_none() {
                    break;
                }
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
    }
}

/// Sets marks of a clock that was ahead: the grace period begins now, not when it gets there again.
/// Returns the time until which marks are due.
async fn mark_again(run: &mut Run<'_>) -> Result<Timestamp> {
    loop {
        let most = run.rows();
        let (mut step, []) = run.step([]).await?;
        let params = numbers([step.times.now.0, most]);
        let [marked] = step.query([(MARK_AGAIN, params)]).await?;
        if !marked.is_empty() {
            step.has_changed();
        }
        let before = step.times.removed_before;
        run.commit(step).await?;
        if marked.is_empty() {
            return Ok(before);
        }
    }
}

/// Removes some of the extents of a span. Does nothing while somebody may still read them. Returns the
/// place to go on from; `None` if all are removed, or none may be.
async fn remove_content(run: &mut Run<'_>, span: Span, place: Option<Place>) -> Result<Option<Place>> {
    let statements = [marked(span), last(span), read_states::statement(run.store)];
    let (mut step, [marked, last, leases]) = run.step(statements).await?;
    let Some((removal, has_begun)) = removal(run, span, &marked, &last)? else {
        run.commit(step).await?;
        return Ok(None);
    };
    if !has_begun {
        // A view of another server, which was opened before the mark.
        if !is_free(span, &read_states::all(run.store, &leases)?) {
            run.commit(step).await?;
            return Ok(None);
        }
        step.add(BEGIN, numbers([int(span.ino), int(span.till), REMOVING]));
    }
    // Live ones, if any go, then those that ended in the span: earlier ones are removed, or something shows
    // them.
    let begin = if removal.is_last { Place::Live(0) } else { Place::Ended(span.since + 1, 0) };
    let (bytes, next) = remove_extents(&mut step, &removal, place.unwrap_or(begin), run.rows()).await?;
    if next.is_none() {
        let Span { ino, since, till } = removal.joined;
        step.add(NOT_GONE, numbers([int(ino), int(span.till), int(since), int(till)]));
        step.add(GONE, numbers([int(ino), int(since), int(till)]));
    }
    run.commit(step).await?;
    run.collected.content_bytes += bytes;
    Ok(next)
}

fn numbers<const N: usize>(numbers: [i64; N]) -> Vec<Param> {
    numbers.map(|number| param(number, Type::INT8)).into()
}

fn marked(span: Span) -> Statement {
    (MARKED, numbers([int(span.ino), int(span.since), int(span.till)]))
}

fn last(span: Span) -> Statement {
    (LAST, numbers([int(span.ino), int(span.till)]))
}

/// Returns the removal of a span, and true if it has begun. Returns `None` if the span is not marked, or
/// its file may be open.
fn removal(run: &Run<'_>, span: Span, marked: &[Row], last: &[Row]) -> Result<Option<(Removal, bool)>> {
    // Another run may have removed it.
    let (Some(marked), Some(last)) = (marked.first(), last.first()) else { return Ok(None) };
    let (is_last, is_unnamed) = (column(last, 0)?, column(last, 1)?);
    if is_last && (is_unnamed || run.store.open_nodes().is_open(span.ino)) {
        return Ok(None);
    }
    let adjacent =
        |at| Ok::<_, garth_engine::Error>(column::<Option<i64>>(marked, at)?.map(i64::cast_unsigned));
    let mut joined =
        Span { since: adjacent(1)?.unwrap_or(span.since), till: adjacent(2)?.unwrap_or(span.till), ..span };
    if is_last {
        joined.till = MAX;
    }
    Ok(Some((Removal { span, joined, is_last }, column::<i64>(marked, 0)? == REMOVING)))
}

/// Adds the statements that remove extents from a place on. Returns their length, and the place to go on
/// from.
async fn remove_extents(
    step: &mut Step,
    removal: &Removal,
    place: Place,
    most: i64,
) -> Result<(u64, Option<Place>)> {
    let Removal { span, joined, .. } = removal;
    let page: Statement = match place {
        Place::Live(off) => (LIVE, numbers([int(span.ino), int(off), most])),
        Place::Ended(till, off) => {
            (ENDED, numbers([int(span.ino), int(till), int(off), int(joined.till), most]))
        }
    };
    let [rows] = step.query([page]).await?;
    let mut removed = RemovedExtents::default();
    for row in &rows {
        // Those that began before the span are shown by earlier states as well.
        if number(row, 2)? >= joined.since {
            removed.push(EndedExtent {
                ino: span.ino,
                till: number(row, 0)?,
                off: number(row, 1)?,
                chunk: number(row, 3)?,
                len: number(row, 4)?,
            });
        }
    }
    let bytes = removed.remove(step);
    let is_full = rows.len() >= usize::try_from(most).unwrap_or(usize::MAX);
    let last = match rows.last().filter(|_| is_full) {
        Some(row) => Some((number(row, 0)?, number(row, 1)?)),
        None => None,
    };
    let next = match (place, last) {
        (Place::Live(_), Some((_, off))) => Some(Place::Live(off + 1)),
        (Place::Live(_), None) => Some(Place::Ended(span.since + 1, 0)),
        (Place::Ended(..), Some((till, off))) => Some(Place::Ended(till, off + 1)),
        (Place::Ended(..), None) => None,
    };
    Ok((bytes, next))
}
