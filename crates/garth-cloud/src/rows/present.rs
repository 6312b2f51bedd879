//! Statements for names of the newest state: those of directories, of regions and of nodes.

use garth_engine::Result;
use garth_engine::engine::planner::{NameRow, Region, RowKey, RowValue};
use garth_engine::model::Within;
use garth_engine::path::TreePath;
use tokio_postgres::Row;

use super::round::{Round, by_place};
use super::spans::{Dirs, Keyed, Names, dirs, names_within};
use crate::client::Param;
use crate::values::columns::{column, int, name, number};
use crate::values::parameters::{ints, signed, texts};

const NAMES_IN: &str = "SELECT k.n, e.name, e.ino, e.since, e.kind
    FROM unnest($2::text[], $3::bigint[]) WITH ORDINALITY k(dir, most, n)
    CROSS JOIN LATERAL (SELECT name, ino, since, kind FROM garth.name
        WHERE account = $1 AND dir = k.dir ORDER BY name LIMIT k.most) e";
const NAMES_BELOW: &str = "SELECT k.n, e.dir, e.name, e.ino, e.since, e.kind
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[]) k(n, first, last, most)
    CROSS JOIN LATERAL (SELECT dir, name, ino, since, kind FROM garth.name
        WHERE account = $1 AND dir >= k.first AND dir < k.last ORDER BY dir, name LIMIT k.most) e";
/// Longest paths of each range, with the number of its names.
const LONGEST: &str = "SELECT k.n, e.dir, e.name, e.length::bigint, e.names
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[]) k(n, first, last, most)
    CROSS JOIN LATERAL (SELECT dir, name, octet_length(dir) + 1 + octet_length(name) AS length,
            count(*) OVER () AS names FROM garth.name
        WHERE account = $1 AND dir >= k.first AND dir < k.last ORDER BY length DESC LIMIT k.most) e";
const EXPIRED: &str = "SELECT k.n, x.ino
    FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bigint[]) k(n, first, last, time)
    CROSS JOIN LATERAL (SELECT ino FROM garth.name
        WHERE account = $1 AND dir >= k.first AND dir < k.last OFFSET 0) e
    CROSS JOIN LATERAL (SELECT ino FROM garth.expiry WHERE account = $1 AND ino = e.ino AND at <= k.time OFFSET 0) x";
const NAMES_OF: &str = "SELECT k.n, e.dir, e.name
    FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[])
        k(n, ino, first_dir, first, last_dir, last, most)
    CROSS JOIN LATERAL (SELECT dir, name FROM garth.name
        WHERE account = $1 AND ino = k.ino AND (dir, name) >= (k.first_dir, k.first)
            AND (dir, name) < (k.last_dir, k.last)
        ORDER BY dir, name LIMIT k.most) e";

/// Returns a limit as a column has it.
pub(super) fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Returns the ranges of regions.
pub(super) fn ranges<K>(keys: &[K], region: impl Fn(&K) -> &Region) -> Keyed<Dirs> {
    Keyed::new(keys, |key| dirs(region(key).ranges()))
}

/// Reads a directory, a name and its row, whose columns begin at `at`.
pub(super) fn keyed_name(row: &Row, at: usize) -> Result<(String, String, NameRow)> {
    Ok((column(row, at)?, column(row, at + 1)?, name(row, at + 2)?))
}

/// Reads a directory and a name.
pub(super) fn key(row: &Row, at: usize) -> Result<(String, String)> {
    Ok((column(row, at)?, column(row, at + 1)?))
}

/// Fetches the names of directories, up to a limit.
pub(super) fn names_in(round: &mut Round<'_, '_>, keys: Vec<(String, usize)>) {
    if keys.is_empty() {
        return;
    }
    let limits = signed(keys.iter().map(|(_, limit)| most(*limit)));
    round.query(NAMES_IN, vec![texts(keys.iter().map(|(dir, _)| dir.clone())), limits], |store, rows| {
        let mut found = by_place(rows)?;
        for (place, (dir, limit)) in keys.into_iter().enumerate() {
            let of = |row: &Row| Ok((dir.clone(), column(row, 1)?, name(row, 2)?));
            let names =
                found.remove(&place).unwrap_or_default().into_iter().map(of).collect::<Result<_>>()?;
            store.put(RowKey::NamesIn(dir, limit), Ok(RowValue::Names(names)));
        }
        Ok(())
    });
}

/// Fetches the names of regions, up to a limit.
pub(super) fn names_below(round: &mut Round<'_, '_>, keys: Vec<(Region, usize)>) {
    if keys.is_empty() {
        return;
    }
    let ranges = ranges(&keys, |(region, _)| region);
    let limits = ranges.column(&keys, |(_, limit)| most(*limit));
    let params = vec![ranges.places(), ranges.texts(|dirs| &dirs.0), ranges.texts(|dirs| &dirs.1), limits];
    round.query(NAMES_BELOW, params, |store, rows| {
        let mut found = by_place(rows)?;
        for (place, (region, limit)) in keys.into_iter().enumerate() {
            let rows = found.remove(&place).unwrap_or_default().into_iter().take(limit);
            let names = rows.map(|row| keyed_name(row, 1)).collect::<Result<_>>()?;
            store.put(RowKey::NamesBelow(region, limit), Ok(RowValue::Names(names)));
        }
        Ok(())
    });
}

/// Fetches the lengths of the longest paths in regions.
pub(super) fn longest_paths(round: &mut Round<'_, '_>, keys: Vec<Region>) {
    if keys.is_empty() {
        return;
    }
    let ranges = ranges(&keys, |region| region);
    // One more than are left out: at least one of them counts.
    let limits = ranges.column(&keys, |region| most(region.names.len() + 1));
    let params = vec![ranges.places(), ranges.texts(|dirs| &dirs.0), ranges.texts(|dirs| &dirs.1), limits];
    round.query(LONGEST, params, |store, rows| {
        let mut found = by_place(rows)?;
        for (place, region) in keys.into_iter().enumerate() {
            let (mut longest, mut read) = (0, 0);
            for row in found.remove(&place).unwrap_or_default() {
                // With names to leave out, the rows that were returned are those that were looked at.
                read += if region.names.is_empty() { number(row, 4)? } else { 1 };
                if region.names.is_empty() || !region.names.contains(&key(row, 1)?) {
                    longest = number(row, 3)?.max(longest);
                }
            }
            let value = RowValue::LongestPath((longest as usize, read as usize));
            store.put(RowKey::LongestPath(region), Ok(value));
        }
        Ok(())
    });
}

/// Fetches the nodes with names in regions that have expired at a time.
pub(super) fn expired(round: &mut Round<'_, '_>, keys: Vec<(Region, i64)>) {
    if keys.is_empty() {
        return;
    }
    let ranges = ranges(&keys, |(region, _)| region);
    let times = ranges.column(&keys, |(_, time)| *time);
    let params = vec![ranges.places(), ranges.texts(|dirs| &dirs.0), ranges.texts(|dirs| &dirs.1), times];
    round.query(EXPIRED, params, |store, rows| {
        let mut found = by_place(rows)?;
        for (place, (region, time)) in keys.into_iter().enumerate() {
            let rows = found.remove(&place).unwrap_or_default().into_iter();
            let inos = rows.map(|row| number(row, 1)).collect::<Result<_>>()?;
            store.put(RowKey::ExpiredIn(region, time), Ok(RowValue::Inos(inos)));
        }
        Ok(())
    });
}

/// Fetches the names of nodes within some subtrees, up to a limit.
pub(super) fn names_of(round: &mut Round<'_, '_>, keys: Vec<(u64, Within, usize)>) {
    if keys.is_empty() {
        return;
    }
    let ranges: Keyed<Names> = Keyed::new(&keys, |(_, within, _)| names_within(within));
    let params = vec![
        ranges.places(),
        ranges.column(&keys, |(ino, ..)| int(*ino)),
        ranges.texts(|range| &range.0.0),
        ranges.texts(|range| &range.0.1),
        ranges.texts(|range| &range.1.0),
        ranges.texts(|range| &range.1.1),
        // The ranges also hold the names of excluded entries.
        ranges.column(&keys, |(_, within, limit)| most(limit.saturating_add(within.exclusions().len()))),
    ];
    round.query(NAMES_OF, params, |store, rows| {
        let mut found = by_place(rows)?;
        for (place, (ino, within, limit)) in keys.into_iter().enumerate() {
            let rows = found.remove(&place).unwrap_or_default().into_iter();
            let mut names: Vec<_> = rows.map(|row| key(row, 1)).collect::<Result<_>>()?;
            names.retain(|(dir, name)| within.contains(&TreePath::from_row(dir, name)));
            names.truncate(limit);
            store.put(RowKey::NamesOf(ino, within, limit), Ok(RowValue::Keys(names)));
        }
        Ok(())
    });
}

/// Returns a column of inodes.
pub(super) fn inos<K>(keys: &[K], ino: impl Fn(&K) -> u64) -> Param {
    ints(keys.iter().map(ino))
}
