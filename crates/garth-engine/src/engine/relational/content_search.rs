//! Search for the old content of path classes: which commits are searched for which age, and the contents of
//! a file that its versions ended.
//!
//! For each distinct time of the limits the log is searched up to the last commit that is as old, once. One
//! walk through the log serves all times.

use std::collections::BTreeSet;
use std::time::Duration;

use super::reads::tree_rows::{Read, TreeRows};
use crate::model::Timestamp;
use crate::rule::retention::{Keep, last_of_age};

/// States whose content of a file is gone: those after the commits from `since` up to but excluding `till`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Inode of the file.
    pub ino: u64,
    /// First commit.
    pub since: u64,
    /// End, exclusive.
    pub till: u64,
}

/// Age, and the commits that are searched for content of this age: after the first, up to and including the
/// last.
#[derive(Clone, Copy, Debug)]
pub struct AgeSpan {
    /// Age.
    pub age: Duration,
    /// Commit after which the search begins.
    pub from: u64,
    /// Last commit.
    pub to: u64,
}

/// Returns the commits to search for old content of an age. The log was searched up to commit `searched`, and
/// ended rows are removed, or may be, up to commit `reached`.
///
/// # Errors
/// Errors of the database.
pub fn to_search<R: TreeRows>(
    rows: R,
    age: Duration,
    (searched, reached): (u64, u64),
    now: Timestamp,
) -> Read<R, AgeSpan> {
    let head = rows.head()?;
    let last_until = |time| rows.last_commit_until(time, head.oldest, head.seq);
    let to = last_of_age(age, head.seq, now, last_until)?;
    // A removal in progress may have taken the commits before from the log.
    Ok(AgeSpan { age, from: searched.max(reached), to })
}

/// Returns the commits that the ages name, as one span: after the first, up to and including the last.
pub fn all_commits(ages: &[AgeSpan]) -> (u64, u64) {
    let searched = || ages.iter().filter(|one| one.from < one.to);
    let from = searched().map(|one| one.from).min().unwrap_or(0);
    (from, searched().map(|one| one.to).max().unwrap_or(0))
}

/// Returns the next commits after commit `at` that are searched for some age: after the first, up to and
/// including the last. Commits between them are of no age's search.
pub fn next_span(ages: &[AgeSpan], at: u64) -> Option<(u64, u64)> {
    let left = || ages.iter().filter(|one| one.from.max(at) < one.to);
    let begin = left().map(|one| one.from.max(at)).min()?;
    let end = left().filter(|one| one.from <= begin).map(|one| one.to).max()?;
    Some((begin, end))
}

/// Returns the ages whose search ends content that is kept for `keep` and that commit `till` replaced.
pub fn ages_of(ages: &[AgeSpan], till: u64, keep: Keep) -> impl Iterator<Item = Duration> {
    let of = move |one: &&AgeSpan| one.from < till && till <= one.to && keep <= Keep::For(one.age);
    ages.iter().filter(of).map(|one| one.age)
}

/// Returns true if the search for some age ends a content, should its file keep none.
pub fn is_searched(ages: &[AgeSpan], till: u64) -> bool {
    ages_of(ages, till, Keep::For(Duration::ZERO)).next().is_some()
}

/// Returns true if none of the states of a span is among some states.
pub fn is_free(span: Span, states: &BTreeSet<u64>) -> bool {
    span.since >= span.till || states.range(span.since..span.till).next().is_none()
}

/// Content of a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentVersion {
    /// Commit of the version.
    pub seq: u64,
    /// Commit that wrote the content.
    pub content_seq: u64,
    /// True if the file had a name.
    pub is_named: bool,
}

/// Contents of a file that its versions end, one version after the other.
#[derive(Clone, Copy, Debug)]
pub struct EndedContents {
    /// Content of the version before, and the commit from which on it was shown.
    before: Option<(ContentVersion, u64)>,
}

impl EndedContents {
    /// Begins after a version; `None` if there is no earlier one.
    pub fn after(version: Option<ContentVersion>) -> Self {
        Self { before: version.map(|version| (version, version.content_seq)) }
    }

    /// Goes on to the next version. Returns the commit from which on the content was shown that this version
    /// replaced, or that the file had when this version took its last name.
    pub fn next(&mut self, version: ContentVersion) -> Option<u64> {
        let shown = self.before.filter(|(before, _)| before.is_named);
        let ended =
            shown.filter(|(before, _)| before.content_seq != version.content_seq || !version.is_named);
        let since = match shown {
            Some((_, since)) if ended.is_none() => since,
            _ => version.seq,
        };
        self.before = Some((version, since));
        ended.map(|(_, since)| since)
    }
}

/// Joins adjacent spans of a node.
pub fn joined(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_unstable_by_key(|span| span.since);
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.since <= last.till => last.till = last.till.max(span.till),
            _ => joined.push(span),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(since: u64, till: u64) -> Span {
        Span { ino: 7, since, till }
    }

    #[test]
    fn adjacent_spans_are_joined() {
        let spans = vec![span(5, 6), span(1, 3), span(3, 5), span(8, 9)];
        assert_eq!(joined(spans), [span(1, 6), span(8, 9)]);
    }

    #[test]
    fn versions_end_the_content_before() {
        let version = |seq, content_seq, is_named| ContentVersion { seq, content_seq, is_named };
        let mut contents = EndedContents::after(Some(version(3, 2, true)));
        let later = [
            (version(4, 2, true), None),
            (version(5, 5, true), Some(2)),
            (version(6, 5, false), Some(5)),
            // Written without a name: no state shows it.
            (version(7, 7, false), None),
            // It has a name again.
            (version(8, 7, true), None),
            (version(9, 9, true), Some(8)),
        ];
        for (version, ended) in later {
            assert_eq!(contents.next(version), ended, "{version:?}");
        }
        assert_eq!(EndedContents::after(None).next(version(1, 1, true)), None);
    }

    #[test]
    fn commits_of_all_ages_are_one_span() {
        let age = |from, to| AgeSpan { age: Duration::from_secs(to), from, to };
        assert_eq!(all_commits(&[age(4, 8), age(90, 100), age(50, 50)]), (4, 100));
        assert_eq!(all_commits(&[age(5, 5)]), (0, 0));
    }

    #[test]
    fn content_ends_in_the_search_for_the_time_that_it_is_kept() {
        let age = |seconds, from, to| AgeSpan { age: Duration::from_secs(seconds), from, to };
        let ages = [age(0, 2, 9), age(60, 2, 5)];
        let of = |till, seconds| {
            ages_of(&ages, till, Keep::For(Duration::from_secs(seconds))).map(|age| age.as_secs()).collect()
        };
        let searched: [Vec<u64>; 4] = [of(5, 0), of(5, 60), of(9, 60), of(2, 0)];
        assert_eq!(searched, [vec![0, 60], vec![60], vec![], vec![]]);
        assert!(is_searched(&ages, 9) && !is_searched(&ages, 10));
        assert!(ages_of(&ages, 5, Keep::WithLog).next().is_none());
    }

    #[test]
    fn span_without_a_needed_state_is_free() {
        let states = BTreeSet::from([3, 9]);
        assert_eq!(
            [span(1, 3), span(1, 4), span(4, 9), span(9, 9)].map(|it| is_free(it, &states)),
            [true, false, true, true]
        );
    }
}
