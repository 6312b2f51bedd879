//! Names: by path, of a node, and in the order of a listing, in any state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use garth_engine::engine::planner::{Key, Region};
use garth_engine::engine::relational::reads::tree_rows::{MAX, NameRange};
use garth_engine::model::Within;
use garth_engine::{Error, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::fetched::{
    FetchedRows, Names, NamesOf, PageName, PageNow, PageRange, PastName, PastNamesOf, Places,
};
use super::nodes::put_version;
use super::round::Round;
use super::statements::{forks, name_at, newest, version_at, version_columns};
use crate::client::{param, read_time};
use crate::values::columns::{column, int, kind_of, name, number, place};
use crate::values::parameters::{ints, texts};

/// Factor by which each further page of a read is longer, and the limit on that.
const GROWTH: usize = 4;
const LONGEST_PAGE: usize = 4096;
/// Names that a page of the past, and the names of a node, are fetched at a time.
pub(super) const STEP: usize = 1000;

const NAMES: &str = concat!(
    "SELECT k.n, e.ino, e.since, e.kind, ",
    version_columns!(),
    " FROM unnest($2::text[], $3::text[], $4::bigint[]) WITH ORDINALITY k(dir, name, seq, n)",
    name_at!(),
    version_at!()
);
/// Live names of nodes in ranges of directories, of which each node has its own, in order. `last` is the end
/// of the directories, exclusive, and `after` the place after which names begin.
const NAMES_OF: &str = "SELECT k.n, e.dir, e.name
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[])
        k(n, ino, seq, dir, own, last, after)
    CROSS JOIN LATERAL (SELECT dir, name FROM garth.name
        WHERE account = $1 AND ino = k.ino AND dir >= k.dir AND dir < k.last
            AND (dir, name) > (k.dir, k.after) AND (k.own = '' OR name = k.own) AND since <= k.seq
        ORDER BY dir, name LIMIT $9) e";
/// Names of nodes that have ended, in order of their ends: those that ended within a span of commits, and as
/// many of those that existed at its end as the node had then besides its live ones. A node that was renamed
/// often has many others. The link count of a directory counts its subdirectories; it has one name itself.
const PAST_NAMES_OF: &str = "SELECT k.n, e.dir, e.name, e.since, e.till
    FROM unnest($2::bigint[], $3::bigint[], $4::bigint[]) WITH ORDINALITY k(ino, since, seq, n)
    CROSS JOIN LATERAL (SELECT coalesce((SELECT CASE WHEN kind = 1 THEN least(nlink, 1) ELSE nlink END
            FROM garth.node WHERE account = $1 AND ino = k.ino AND seq <= k.seq ORDER BY seq DESC LIMIT 1), 0)
        - (SELECT count(*) FROM garth.name WHERE account = $1 AND ino = k.ino AND since <= k.seq)
        AS ended OFFSET 0) c
    CROSS JOIN LATERAL (
        (SELECT dir, name, since, till FROM garth.name_past
            WHERE account = $1 AND ino = k.ino AND till > k.since AND till <= k.seq AND since <= k.seq
            ORDER BY till)
        UNION ALL
        (SELECT dir, name, since, till FROM garth.name_past
            WHERE account = $1 AND ino = k.ino AND till > k.seq AND since <= k.seq
            ORDER BY till LIMIT greatest(c.ended, 0))
        LIMIT $5) e";

/// Pages of the newest state. `$2, $3`: directory and name to begin after; `$4` limit, `$5` end.
macro_rules! page_now {
    ($where:literal) => {
        concat!(
            "SELECT e.dir, e.name, e.ino, e.kind FROM garth.name e WHERE e.account = $1 AND ",
            $where,
            // Mostly nothing is due, because entries leave `expiry` once their removal is recorded: then no
            // name is looked up there.
            " AND ((SELECT count(*) FROM (SELECT FROM garth.expiry WHERE account = $1 AND at <= ",
            read_time!(),
            " LIMIT 1) x) = 0
                OR NOT EXISTS (SELECT FROM garth.expiry x
                    WHERE x.account = $1 AND x.ino = e.ino AND x.at <= ",
            read_time!(),
            " OFFSET 0))
            ORDER BY e.dir, e.name LIMIT $4"
        )
    };
}
/// As [`page_now`], with nodes. The limit is below the join with them: above it, all names of the range are
/// read as long as the tables have no statistics.
macro_rules! entries_now {
    ($where:literal) => {
        concat!(
            "SELECT e.dir, e.name, e.ino, e.kind, ",
            version_columns!(),
            " FROM (",
            page_now!($where),
            ") e",
            newest!(),
            " ORDER BY e.dir, e.name"
        )
    };
}
/// Pages of the past, with nodes. `$4`: commit. All forks are merged, so the rows are the first of the range.
macro_rules! page_at {
    ($where:literal) => {
        concat!(
            "SELECT e.dir, e.name, e.ino, e.kind, ",
            version_columns!(),
            " FROM (SELECT $4::bigint AS seq) k CROSS JOIN LATERAL (SELECT dir, name, ino, kind FROM (
                (SELECT dir, name, ino, kind FROM garth.name WHERE account = $1 AND ",
            $where,
            " AND since <= k.seq ORDER BY dir, name LIMIT $5)
                UNION ALL
                (SELECT p.dir, p.name, p.ino, p.kind FROM (SELECT 1) one",
            forks!(),
            " CROSS JOIN LATERAL (SELECT dir, name, ino, kind FROM garth.name_past
                    WHERE account = $1 AND fork = f.fork AND ",
            $where,
            " AND since <= k.seq AND till > k.seq ORDER BY dir, name LIMIT $5) p)) m
                ORDER BY dir, name LIMIT $5) e",
            version_at!(),
            " ORDER BY e.dir, e.name"
        )
    };
}

const LIST_NOW: &str = page_now!("e.dir = $2 AND e.name > $3");
const WALK_NOW: &str = page_now!("(e.dir, e.name) > ($2, $3) AND e.dir < $5");
const LIST_ENTRIES: &str = entries_now!("e.dir = $2 AND e.name > $3");
const WALK_ENTRIES: &str = entries_now!("(e.dir, e.name) > ($2, $3) AND e.dir < $5");
const LIST_AT: &str = page_at!("dir = $2 AND name > $3");
const WALK_AT: &str = page_at!("(dir, name) > ($2, $3) AND dir < $6");

/// Returns the range of a page as a key.
pub(super) fn page_range(range: &NameRange<'_>) -> PageRange {
    // No text of the database has a NUL. A bound with one is behind a name, and before all that follow it.
    let after = range.after.split('\0').next().unwrap_or_default();
    (bound(range.from), after.to_owned(), range.to.map(bound))
}

/// Returns a bound of directories without NUL. No name has a character before U+0001, so nothing is between.
fn bound(dir: &str) -> String {
    dir.replace('\0', "\u{1}")
}

/// Returns the places of the subtrees in reach. Names of excluded entries may be among them.
pub(super) fn places(within: &Within) -> Places {
    let mut places = Vec::new();
    for top in within.tops() {
        if let Some((dir, name)) = top.key().rsplit_once('/') {
            places.push((dir.to_owned(), name.to_owned(), bound(&format!("{dir}\0"))));
        }
        let without: BTreeSet<String> =
            within.exclusions_below(top).map(|path| path.key().to_owned()).collect();
        let region = Region { dir: top.key().to_owned(), without, ..Region::default() };
        places
            .extend(region.ranges().into_iter().map(|(from, to)| (bound(&from), String::new(), bound(&to))));
    }
    places
}

impl Names {
    /// Returns a page of the newest state that has the first `most` names of a range, or all of them, and the
    /// place of the first one. Pages that were asked for earlier may be longer: those of a walk, before the
    /// length of the one before is known, and those of a read through gates.
    pub(super) fn part_of_page(
        &self,
        (from, after, to): &PageRange,
        nodes: bool,
        most: usize,
    ) -> Option<(Arc<Vec<PageName>>, usize)> {
        let place = (from.as_str(), after.as_str());
        self.now.find(|((of, behind, end), with, limit), page| {
            let begins = (of.as_str(), behind.as_str()) <= place && (to.is_some() || of == from);
            if *with != nodes || end != to || !begins {
                return None;
            }
            let first = page.partition_point(|row| (row.dir.as_str(), row.name.as_str()) <= place);
            let fits = page.len() < *limit || page.len() - first >= most;
            fits.then(|| (Arc::clone(page), first))
        })
    }

    /// Returns the number of names to fetch of a range of which a read asks for `most`. It asks for a further
    /// page if gates hide what it was given, and may do so often: each is longer than the one before.
    pub(super) fn page_limit(&self, (.., to): &PageRange, nodes: bool, most: usize) -> usize {
        let known = self.now.count(|(of, with, _)| of.2 == *to && *with == nodes);
        let factor = GROWTH.saturating_pow(u32::try_from(known).unwrap_or(u32::MAX));
        most.max(most.saturating_mul(factor).min(LONGEST_PAGE))
    }
}

/// Adds the statements that fetch what is wanted.
pub(super) fn send(names: &Names, round: &mut Round<'_>) {
    send_names(round, names.at.take_wanted());
    // The limit is one of the statement.
    let mut by_limit: BTreeMap<usize, Vec<NamesOf>> = BTreeMap::new();
    for key in names.of.take_wanted() {
        by_limit.entry(key.4).or_default().push(key);
    }
    for (limit, keys) in by_limit {
        send_names_of(round, limit, keys);
    }
    let mut by_limit: BTreeMap<usize, Vec<PastNamesOf>> = BTreeMap::new();
    for key in names.past_of.take_wanted() {
        by_limit.entry(key.2).or_default().push(key);
    }
    for (limit, keys) in by_limit {
        send_past_names_of(round, limit, keys);
    }
    for key in names.now.take_wanted() {
        send_page_now(round, key);
    }
    for key in names.past.take_wanted() {
        send_page_at(round, key);
    }
}

fn send_names(round: &mut Round<'_>, keys: Vec<(String, String, u64)>) {
    if keys.is_empty() {
        return;
    }
    let params = vec![
        texts(keys.iter().map(|key| key.0.clone())),
        texts(keys.iter().map(|key| key.1.clone())),
        ints(keys.iter().map(|key| key.2)),
    ];
    round.query(NAMES, params, move |fetched, rows| {
        let mut found = HashMap::new();
        for row in rows {
            let at = place(row, 0)?;
            let Some((.., seq)) = keys.get(at) else { continue };
            let name = name(row, 1)?;
            found.insert(at, name);
            put_version(fetched, row, 4, (name.ino, *seq))?;
        }
        for (at, key) in keys.into_iter().enumerate() {
            fetched.names.at.put(key, found.get(&at).copied());
        }
        Ok(())
    });
}

fn send_names_of(round: &mut Round<'_>, limit: usize, keys: Vec<NamesOf>) {
    let mut numbers: [Vec<u64>; 3] = Default::default();
    let mut ranges: [Vec<String>; 4] = Default::default();
    for (at, (ino, seq, places, after, _)) in keys.iter().enumerate() {
        for (dir, own, last) in places {
            // A range that begins later begins with its first name.
            let (from, behind) = match after.0 > *dir || (after.0 == *dir && !after.1.is_empty()) {
                true => (&after.0, after.1.as_str()),
                false => (dir, ""),
            };
            for (column, number) in numbers.iter_mut().zip([at as u64, *ino, *seq]) {
                column.push(number);
            }
            for (column, text) in ranges.iter_mut().zip([from, own, last, &behind.to_owned()]) {
                column.push(text.clone());
            }
        }
    }
    let params = numbers.into_iter().map(|column| ints(column.into_iter()));
    let params = params.chain(ranges.into_iter().map(|column| texts(column.into_iter())));
    let params = params.chain([param(int(limit as u64), Type::INT8)]).collect();
    round.query(NAMES_OF, params, move |fetched, rows| {
        let mut found: HashMap<usize, Vec<Key>> = HashMap::new();
        for row in rows {
            let at = usize::try_from(number(row, 0)?).unwrap_or(usize::MAX);
            found.entry(at).or_default().push((column(row, 1)?, column(row, 2)?));
        }
        for (at, key) in keys.into_iter().enumerate() {
            let mut names = found.remove(&at).unwrap_or_default();
            names.sort_unstable();
            names.truncate(limit);
            fetched.names.of.put(key, Arc::new(names));
        }
        Ok(())
    });
}

fn send_past_names_of(round: &mut Round<'_>, limit: usize, keys: Vec<PastNamesOf>) {
    let params = vec![
        ints(keys.iter().map(|key| key.0)),
        ints(keys.iter().map(|key| key.1.from)),
        ints(keys.iter().map(|key| key.1.to)),
        param(int(limit as u64), Type::INT8),
    ];
    round.query(PAST_NAMES_OF, params, move |fetched, rows| {
        let mut found: HashMap<usize, Vec<PastName>> = HashMap::new();
        for row in rows {
            let key = (column(row, 1)?, column(row, 2)?);
            found.entry(place(row, 0)?).or_default().push((key, number(row, 3)?, number(row, 4)?));
        }
        for (at, key) in keys.into_iter().enumerate() {
            let mut names = found.remove(&at).unwrap_or_default();
            names.sort_by_key(|(.., till)| *till);
            fetched.names.past_of.put(key, Arc::new(names));
        }
        Ok(())
    });
}

fn send_page_now(round: &mut Round<'_>, key: PageNow) {
    let ((from, after, to), nodes, limit) = &key;
    let mut params = vec![
        param(from.clone(), Type::TEXT),
        param(after.clone(), Type::TEXT),
        param(int(*limit as u64), Type::INT8),
    ];
    params.extend(to.clone().map(|to| param(to, Type::TEXT)));
    let sql = match (to, nodes) {
        (None, false) => LIST_NOW,
        (None, true) => LIST_ENTRIES,
        (Some(_), false) => WALK_NOW,
        (Some(_), true) => WALK_ENTRIES,
    };
    let nodes = *nodes;
    round.query(sql, params, move |fetched, rows| {
        let names = rows.iter().map(|row| page_name(fetched, row, nodes.then_some(MAX)));
        let names = names.collect::<Result<Vec<_>>>()?;
        fetched.names.now.put(key, Arc::new(names));
        Ok(())
    });
}

fn send_page_at(round: &mut Round<'_>, key: (PageRange, u64)) {
    let ((from, after, to), seq) = &key;
    let seq = *seq;
    let mut params = vec![
        param(from.clone(), Type::TEXT),
        param(after.clone(), Type::TEXT),
        param(int(seq), Type::INT8),
        param(int(STEP as u64), Type::INT8),
    ];
    params.extend(to.clone().map(|to| param(to, Type::TEXT)));
    let sql = if to.is_none() { LIST_AT } else { WALK_AT };
    round.query(sql, params, move |fetched, rows| {
        let names = rows.iter().map(|row| page_name(fetched, row, Some(seq)));
        let names = names.collect::<Result<Vec<_>>>()?;
        fetched.names.past.put(key, Arc::new(names));
        Ok(())
    });
}

/// Reads a name of a page, with its node after a commit.
fn page_name(fetched: &FetchedRows, row: &Row, node: Option<u64>) -> Result<PageName> {
    let ino = number(row, 2)?;
    let kind = kind_of(column(row, 3)?)?;
    let node = match node {
        None => None,
        Some(seq) => {
            let node = put_version(fetched, row, 4, (ino, seq))?;
            Some(node.ok_or_else(|| Error::damaged("a name has no node"))?)
        }
    };
    Ok(PageName { dir: column(row, 0)?, name: column(row, 1)?, ino, kind, node })
}

#[cfg(test)]
mod tests {
    use garth_engine::path::TreePath;

    use super::*;

    #[test]
    fn places_are_the_tops_and_what_is_below() {
        let text = |places: Places| {
            let one = |(dir, own, last): (String, String, String)| format!("{dir:?} {own:?} {last:?}");
            places.into_iter().map(one).collect::<Vec<_>>()
        };
        let within = Within::new([TreePath::parse("/a/b").unwrap()]);
        let found = text(places(&within));
        assert_eq!(found, [r#""/a" "b" "/a\u{1}""#, r#""/a/b" "" "/a/b\u{1}""#, r#""/a/b/" "" "/a/b0""#]);
    }
}
