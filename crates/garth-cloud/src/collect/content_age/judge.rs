//! Contents of files that a search ends: versions that replaced them, and the names by which the files are
//! judged.

use std::collections::BTreeMap;

use garth_engine::Result;
use garth_engine::engine::relational::content_search::{
    ContentVersion, EndedContents, Span, ages_of, is_free, is_searched,
};
use garth_engine::rule::retention::Keep;
use tokio_postgres::types::Type;

use super::basis::Search;
use crate::client::param;
use crate::collect::step::read;
use crate::store::PgStore;
use crate::values::columns::{column, int, number, place};
use crate::values::parameters::ints;

/// Versions of a file that are read at a time.
const VERSIONS: usize = 1024;

/// Versions of files after commit `k.at` up to `$4`, at most `$5` of each, each behind the one at `k.at`.
const CONTENTS: &str = "SELECT k.n, v.seq, v.content_seq, v.nlink > 0
    FROM unnest($2::bigint[], $3::bigint[]) WITH ORDINALITY k(ino, at, n)
    CROSS JOIN LATERAL (
        (SELECT seq, content_seq, nlink, kind FROM garth.node
            WHERE account = $1 AND ino = k.ino AND seq <= k.at ORDER BY seq DESC LIMIT 1)
        UNION ALL
        (SELECT seq, content_seq, nlink, kind FROM garth.node
            WHERE account = $1 AND ino = k.ino AND seq > k.at AND seq <= $4 ORDER BY seq LIMIT $5)) v
    WHERE v.kind = 0 ORDER BY k.n, v.seq";

/// Content that ends, and the time for which its file keeps it.
pub(crate) type EndedContent = (Span, Keep);

/// Returns the contents of some files that a search ends, as far as no state shows them that is kept.
///
/// # Errors
/// Errors of the database.
pub(crate) async fn contents_to_end(
    store: &PgStore,
    search: &Search,
    inos: &[u64],
) -> Result<Vec<EndedContent>> {
    let mut spans = ended(store, search, inos).await?;
    // Judged only now: most changes replace no content.
    spans.retain(|_, spans| !spans.is_empty());
    let judged: Vec<u64> = spans.keys().copied().collect();
    let keeps = store.keeps_of(&judged, &search.limits).await?;
    let mut found = Vec::new();
    for ((_, spans), keep) in spans.into_iter().zip(keeps) {
        // Less than the age for a file that was moved to a stricter class after the search for the time of
        // that class.
        let ends = |span: &Span| ages_of(&search.ages, span.till, keep).next().is_some();
        let of_file = spans.into_iter().filter(ends).filter(|span| is_free(*span, &search.kept));
        found.extend(of_file.map(|span| (span, keep)));
    }
    Ok(found)
}

/// Returns the contents that commits of the search ended, by file.
async fn ended(store: &PgStore, search: &Search, inos: &[u64]) -> Result<BTreeMap<u64, Vec<Span>>> {
    let (from, to) = search.span;
    let mut found: BTreeMap<u64, Vec<Span>> = BTreeMap::new();
    // Files with more versions, and the last one that was read.
    let mut left: Vec<(u64, u64, EndedContents)> =
        inos.iter().map(|ino| (*ino, from, EndedContents::after(None))).collect();
    while !left.is_empty() {
        let params = vec![
            ints(left.iter().map(|file| file.0)),
            ints(left.iter().map(|file| file.1)),
            param(int(to), Type::INT8),
            param(int(VERSIONS as u64), Type::INT8),
        ];
        let [rows] = read(store, [(CONTENTS, params)]).await?;
        let mut counts = vec![0; left.len()];
        for row in &rows {
            let at = place(row, 0)?;
            let (Some((ino, last, contents)), Some(count)) = (left.get_mut(at), counts.get_mut(at)) else {
                continue;
            };
            let (seq, content_seq, is_named) = (number(row, 1)?, number(row, 2)?, column(row, 3)?);
            let version = ContentVersion { seq, content_seq, is_named };
            if seq <= *last {
                // The one before the first of the search. Between two pieces it was read already.
                if *last == from {
                    *contents = EndedContents::after(Some(version));
                }
                continue;
            }
            *count += 1;
            *last = seq;
            if let Some(since) = contents.next(version)
                && since < seq
                && is_searched(&search.ages, seq)
            {
                found.entry(*ino).or_default().push(Span { ino: *ino, since, till: seq });
            }
        }
        let mut counts = counts.into_iter();
        left.retain(|_| counts.next().is_some_and(|count| count >= VERSIONS));
    }
    Ok(found)
}
