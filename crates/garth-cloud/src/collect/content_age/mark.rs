//! Marks: from then on no new view reads the content of the states of a span.

use std::collections::BTreeMap;

use garth_engine::Result;
use garth_engine::engine::relational::content_search::{Span, ages_of, is_free, joined};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::basis::Search;
use super::judge::{EndedContent, contents_to_end};
use crate::client::{Param, param};
use crate::collect::step::{Run, Step};
use crate::collect::{overlays, read_states};
use crate::values::columns::{int, number};
use crate::values::parameters::ints;

/// Files that are judged at a time.
const FILES: usize = 64;

/// Spans of files that end after commit `$3`, marked or removed.
const GONE: &str = "SELECT ino, since, till FROM garth.content_gone
    WHERE account = $1 AND ino = ANY($2) AND till > $3";
const MARK: &str = "INSERT INTO garth.content_gone AS g (account, ino, since, till, marked)
    SELECT $1, k.ino, k.since, k.till, $5 FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) k(ino, since, till)
    ON CONFLICT (account, ino, till) DO UPDATE SET since = least(g.since, excluded.since)";
/// Files whose last content ends. It goes once nobody holds the file open: servers that do take leases.
const UNNAMED: &str = "INSERT INTO garth.unnamed (account, ino)
    SELECT $1, k.ino FROM unnest($2::bigint[], $3::bigint[]) k(ino, till)
    WHERE k.till = (SELECT min(v.seq) FROM garth.node v WHERE v.account = $1 AND v.ino = k.ino
        AND v.seq > coalesce((SELECT o.seq FROM garth.node o
            WHERE o.account = $1 AND o.ino = k.ino AND o.nlink > 0 ORDER BY o.seq DESC LIMIT 1), -1))
    ON CONFLICT DO NOTHING";

/// Marks old content of files. Returns false if overlays or limits were changed meanwhile.
///
/// # Errors
/// As [`Run::step`].
pub(super) async fn mark_files(run: &mut Run<'_>, search: &mut Search, files: Vec<u64>) -> Result<bool> {
    for piece in files.chunks(FILES) {
        let ended = contents_to_end(run.store, search, piece).await?;
        if !ended.is_empty() && !mark(run, search, ended).await? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Marks contents, unless an open view shows them.
async fn mark(run: &mut Run<'_>, search: &mut Search, ended: Vec<EndedContent>) -> Result<bool> {
    let from = param(int(search.span.0), Type::INT8);
    let gone = (GONE, vec![ints(ended.iter().map(|(span, _)| span.ino)), from]);
    let statements = [overlays::statement()?, read_states::statement(run.store), gone];
    let (mut step, [changed, leases, gone]) = run.step(statements).await?;
    if step.head.control != search.control || overlays::changed(&changed)? > search.head {
        run.commit(step).await?;
        return Ok(false);
    }
    let (read, gone) = (read_states::all(run.store, &leases)?, spans_of(&gone)?);
    let mut marked: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
    for (span, keep) in ended {
        if !is_free(span, &read) {
            for age in ages_of(&search.ages, span.till, keep) {
                let first = search.first_read.entry(age).or_insert(span.till);
                *first = span.till.min(*first);
            }
            continue;
        }
        let covers = |known: &Span| known.since <= span.since && span.till <= known.till;
        if !gone.get(&span.ino).is_some_and(|known| known.iter().any(covers)) {
            marked.entry(span.ino).or_default().push(span);
        }
    }
    let count = put(&mut step, marked);
    run.commit(step).await?;
    // What was marked stays so, also if the search has to begin again.
    run.collected.contents += count;
    Ok(true)
}

/// Adds the statements that mark spans. Returns their number.
fn put(step: &mut Step, marked: BTreeMap<u64, Vec<Span>>) -> u64 {
    if marked.is_empty() {
        return 0;
    }
    let count = marked.values().map(|spans| spans.len() as u64).sum();
    let ends: Vec<Span> = marked.values().flatten().copied().collect();
    // Adjacent spans with one mark are removed together.
    let rows: Vec<Span> = marked.into_values().flat_map(joined).collect();
    let now = param(step.times.now.0, Type::INT8);
    step.add(MARK, vec![inos(&rows), ints(rows.iter().map(|span| span.since)), tills(&rows), now]);
    step.add(UNNAMED, vec![inos(&ends), tills(&ends)]);
    count
}

fn inos(spans: &[Span]) -> Param {
    ints(spans.iter().map(|span| span.ino))
}

fn tills(spans: &[Span]) -> Param {
    ints(spans.iter().map(|span| span.till))
}

fn spans_of(rows: &[Row]) -> Result<BTreeMap<u64, Vec<Span>>> {
    let mut found: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
    for row in rows {
        let span = Span { ino: number(row, 0)?, since: number(row, 1)?, till: number(row, 2)? };
        found.entry(span.ino).or_default().push(span);
    }
    Ok(found)
}
