//! Spans of the past: the nodes that a path named, and the ends of the names of nodes.

use std::collections::BTreeMap;
use std::sync::Arc;

use garth_engine::Result;
use garth_engine::engine::relational::reads::tree_rows::NameSpan;
use tokio_postgres::types::Type;

use super::memo::Memo;
use super::round::Round;
use super::statements::forks;
use crate::client::param;
use crate::rows::columns::{column, int, number, place};
use crate::rows::parameters::ints;

/// Spans that are fetched at a time.
pub(super) const STEP: usize = 128;

const USED: &str = "SELECT 1 FROM garth.name WHERE account = $1 AND dir = $2 AND name = $3 AND since <= $5
    UNION ALL
    SELECT 1 FROM (SELECT since FROM garth.name_past
        WHERE account = $1 AND dir = $2 AND name = $3 AND till > $4 ORDER BY till LIMIT 1) p WHERE since <= $5
    LIMIT 1";
const ENDED: &str = "SELECT ino, since, till FROM garth.name_past
    WHERE account = $1 AND dir = $2 AND name = $3 AND till < $4 ORDER BY till DESC LIMIT $5";
/// Nodes that existed at commit `$4` and got a path later, up to commit `$5`. The condition `born < since` is
/// that of the index.
const CAME_LATER: &str = concat!(
    "SELECT e.ino FROM garth.name e
    WHERE e.account = $1 AND e.dir = $2 AND e.name = $3 AND e.since > $4 AND e.since <= $5
        AND EXISTS (SELECT FROM garth.node v WHERE v.account = $1 AND v.ino = e.ino AND v.seq <= $4)
    UNION ALL
    SELECT p.ino FROM (SELECT $4::bigint AS seq) k",
    forks!(),
    " CROSS JOIN LATERAL (SELECT ino FROM garth.name_past
        WHERE account = $1 AND dir = $2 AND name = $3 AND born_fork = f.fork AND born < since
            AND since > $4 AND since <= $5 AND born <= $4 AND till > $4 OFFSET 0) p"
);
const LAST_ENDS: &str = "SELECT k.n, (SELECT max(p.till) FROM garth.name_past p
        WHERE p.account = $1 AND p.ino = k.ino AND p.till <= k.seq)
    FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY k(ino, seq, n)";
const ENDS: &str = "SELECT dir, name, till FROM garth.name_past
    WHERE account = $1 AND ino = $2 AND till <= $3 ORDER BY till DESC LIMIT $4";

/// Path and two commits.
pub(super) type PathSpan = (String, String, u64, u64);

/// Name that a node lost: directory, name, and the commit that ended it.
pub(super) type EndedName = (String, String, u64);

/// Spans that were fetched.
#[derive(Debug, Default)]
pub(super) struct Spans {
    /// True if a path named anything, by the oldest and the last commit.
    pub(super) used: Memo<PathSpan, bool>,
    /// Spans of a path that ended before a commit, the newest first, at most [`STEP`].
    pub(super) ended: Memo<(String, String, u64), Arc<BTreeMap<u64, NameSpan>>>,
    pub(super) came_later: Memo<PathSpan, Arc<Vec<u64>>>,
    pub(super) last_end: Memo<(u64, u64), Option<u64>>,
    /// Names that a node lost up to a commit, the last first, at most a number.
    pub(super) ends: Memo<(u64, u64, usize), Arc<Vec<EndedName>>>,
}

impl Spans {
    /// Returns the newest span of a path that ended before a commit, if it was fetched with later ones. In it
    /// `None` if there is none.
    pub(super) fn ended_with(&self, dir: &str, name: &str, till: u64) -> Option<Option<NameSpan>> {
        self.ended.find(|(of, own, before), spans| {
            let fits = of == dir && own == name && *before >= till;
            let found = fits.then(|| spans.range(..till).next_back().map(|(_, span)| *span))?;
            // Only a list that is not full has the first span.
            (found.is_some() || spans.len() < STEP).then_some(found)
        })
    }

    /// Notes to fetch everything again.
    pub(super) fn renew(&self) {
        self.used.renew();
        self.ended.renew();
        self.came_later.renew();
        self.last_end.renew();
        self.ends.renew();
    }

    /// Adds the statements that fetch what is wanted.
    pub(super) fn send(&self, round: &mut Round<'_>) {
        for key in self.used.take_wanted() {
            round.query(USED, path_params(&key), move |fetched, rows| {
                fetched.spans.used.put(key, !rows.is_empty());
                Ok(())
            });
        }
        for key in self.ended.take_wanted() {
            let params = path_params(&(key.0.clone(), key.1.clone(), key.2, STEP as u64));
            round.query(ENDED, params, move |fetched, rows| {
                let spans = rows.iter().map(|row| {
                    let till = number(row, 2)?;
                    Ok((till, NameSpan { ino: number(row, 0)?, since: number(row, 1)?, till }))
                });
                fetched.spans.ended.put(key, Arc::new(spans.collect::<Result<_>>()?));
                Ok(())
            });
        }
        for key in self.came_later.take_wanted() {
            round.query(CAME_LATER, path_params(&key), move |fetched, rows| {
                let inos = rows.iter().map(|row| number(row, 0)).collect::<Result<_>>()?;
                fetched.spans.came_later.put(key, Arc::new(inos));
                Ok(())
            });
        }
        send_last_ends(round, self.last_end.take_wanted());
        for key in self.ends.take_wanted() {
            let params = [int(key.0), int(key.1), int(key.2 as u64)].map(|value| param(value, Type::INT8));
            round.query(ENDS, params.into(), move |fetched, rows| {
                let names = rows.iter().map(|row| Ok((column(row, 0)?, column(row, 1)?, number(row, 2)?)));
                fetched.spans.ends.put(key, Arc::new(names.collect::<Result<_>>()?));
                Ok(())
            });
        }
    }
}

fn path_params((dir, name, one, other): &PathSpan) -> Vec<crate::client::Param> {
    vec![
        param(dir.clone(), Type::TEXT),
        param(name.clone(), Type::TEXT),
        param(int(*one), Type::INT8),
        param(int(*other), Type::INT8),
    ]
}

fn send_last_ends(round: &mut Round<'_>, keys: Vec<(u64, u64)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![ints(keys.iter().map(|key| key.0)), ints(keys.iter().map(|key| key.1))];
    round.query(LAST_ENDS, params, move |fetched, rows| {
        for row in rows {
            let Some(key) = keys.get(place(row, 0)?) else { continue };
            let till = column::<Option<i64>>(row, 1)?.map(i64::cast_unsigned);
            fetched.spans.last_end.put(*key, till);
        }
        Ok(())
    });
}
