//! Subtrees of a query: their files, and the passages of these.

use garth_engine::engine::planner::Region;
use garth_engine::engine::search::{ROWS, WordForm};
use garth_engine::model::Within;
use garth_engine::{Result, TreePath};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::snapshot::Snapshot;
use crate::client::{Param, Pipe, param};
use crate::values::columns::{column, int, number};
use crate::values::parameters::texts;

/// Names in the subtrees of a query, one more than the limit `$6` if there are more; the newest passages of
/// the files that the first names are of, one more than `$8`. With `$7`, none if there are more names.
macro_rules! passages_within {
    ($select:literal) => {
        concat!(
            "WITH found AS MATERIALIZED (SELECT f.ino FROM (
                SELECT n.ino FROM unnest($2::text[], $3::text[]) t(dir, name)
                CROSS JOIN LATERAL (SELECT ino FROM garth.name
                    WHERE account = $1 AND dir = t.dir AND name = t.name OFFSET 0) n
                UNION ALL
                SELECT n.ino FROM unnest($4::text[], $5::text[]) r(first, last)
                CROSS JOIN LATERAL (SELECT ino FROM garth.name
                    WHERE account = $1 AND dir >= r.first AND dir < r.last LIMIT $6 + 1) n) f LIMIT $6 + 1),
            files AS MATERIALIZED (SELECT DISTINCT f.ino FROM (SELECT ino FROM found LIMIT $6) f
                WHERE NOT $7 OR (SELECT count(*) FROM found) <= $6),
            passages AS MATERIALIZED (SELECT p.id FROM (SELECT p.id FROM files f
                CROSS JOIN LATERAL (SELECT id FROM garth.passage
                    WHERE account = $1 AND ino = f.ino ORDER BY off DESC LIMIT $9) p LIMIT $9) p
                ORDER BY p.id DESC LIMIT $8 + 1) ",
            $select
        )
    };
}

const PASSAGES: &str =
    passages_within!("SELECT (SELECT count(*) FROM found), array(SELECT id FROM passages ORDER BY id DESC)");
/// Rows of tokens in the blocks of these passages.
const TOKENS: &str = passages_within!(
    "SELECT t.n, b.block, p.ids, g.ids
    FROM (SELECT DISTINCT id >> 12 AS block FROM passages) b
    CROSS JOIN unnest($10::text[]) WITH ORDINALITY t(token, n)
    CROSS JOIN LATERAL (SELECT ids FROM garth.posting
        WHERE account = $1 AND token = t.token AND block = b.block OFFSET 0) p
    LEFT JOIN LATERAL (SELECT ids FROM garth.posting
        WHERE account = $1 AND token = '' AND block = b.block OFFSET 0) g ON true"
);

/// Limits on the passages of the subtrees of a query.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    /// Limit on the names.
    pub(super) nodes: usize,
    /// True to read no passages if there are more names.
    pub(super) must_fit: bool,
    /// Limit on the passages.
    pub(super) passages: usize,
}

/// Passages of the subtrees of a query, newest first.
pub(super) struct Found {
    pub(super) ids: Vec<i64>,
    /// True if there are no more names than the limit.
    pub(super) all_nodes: bool,
    /// True if these are all passages of the names.
    pub(super) all_passages: bool,
}

/// Adds the statement that reads the passages of subtrees. Returns its place.
pub(super) fn send(pipe: &mut Pipe<'_>, snapshot: &Snapshot<'_>, within: &Within, bound: Bound) -> usize {
    pipe.query(PASSAGES, params(snapshot, within, bound))
}

/// Adds the statement that looks words up in the blocks of the passages of subtrees. Returns its place.
pub(super) fn send_words(
    pipe: &mut Pipe<'_>,
    snapshot: &Snapshot<'_>,
    within: &Within,
    (bound, words): (Bound, &[Vec<WordForm>]),
) -> usize {
    let tokens = texts(words.iter().flatten().map(|form| form.word.clone()));
    pipe.query(TOKENS, params(snapshot, within, bound).into_iter().chain([tokens]).collect())
}

/// Returns the passages of an answer.
pub(super) fn found(rows: &[Row], bound: Bound) -> Result<Found> {
    let Some(row) = rows.first() else {
        return Ok(Found { ids: Vec::new(), all_nodes: true, all_passages: true });
    };
    let mut ids: Vec<i64> = column(row, 1)?;
    let all_passages = ids.len() <= bound.passages;
    ids.truncate(bound.passages);
    Ok(Found { ids, all_nodes: number(row, 0)? <= bound.nodes as u64, all_passages })
}

fn params(snapshot: &Snapshot<'_>, within: &Within, bound: Bound) -> Vec<Param> {
    // The root has no name.
    let names: Vec<(&str, &str)> =
        within.tops().iter().filter_map(|top| top.key().rsplit_once('/')).collect();
    let ranges: Vec<(String, String)> =
        within.tops().iter().flat_map(|top| directories(within, top)).collect();
    let limit = |limit: usize| param(int(limit as u64), Type::INT8);
    vec![
        snapshot.account(),
        texts(names.iter().map(|(dir, _)| (*dir).to_owned())),
        texts(names.iter().map(|(_, name)| (*name).to_owned())),
        texts(ranges.iter().map(|(first, _)| first.clone())),
        texts(ranges.iter().map(|(_, last)| last.clone())),
        limit(bound.nodes),
        param(bound.must_fit, Type::BOOL),
        limit(bound.passages),
        limit(ROWS),
    ]
}

/// Returns the ranges of keys of the directories at and below a top, without what is excluded from it.
fn directories(within: &Within, top: &TreePath) -> Vec<(String, String)> {
    let without = within.exclusions_below(top).map(|path| path.key().to_owned()).collect();
    let region = Region { dir: top.key().to_owned(), without, ..Region::default() };
    // A text of the database has no NUL. No key has one either, so the next character bounds the same keys.
    let bound = |key: String| key.replace('\0', "\u{1}");
    region.ranges().into_iter().map(|(first, last)| (bound(first), bound(last))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_no_character_that_the_database_refuses() {
        let path = |text: &str| TreePath::parse(text).unwrap();
        let within = Within::new([path("/a")]).without([path("/a/b")]);
        let ranges = directories(&within, &path("/a"));
        assert!(ranges.iter().all(|(first, last)| !first.contains('\0') && !last.contains('\0')));
        let has = |dir: &str| ranges.iter().any(|(first, last)| first.as_str() <= dir && dir < last.as_str());
        for (dir, is_in) in [("/a", true), ("/a/a", true), ("/a/b", false), ("/a/b/c", false), ("/a-", false)]
        {
            assert_eq!(has(dir), is_in, "{dir}");
        }
    }
}
