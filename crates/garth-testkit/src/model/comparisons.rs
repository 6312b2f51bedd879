//! Comparisons of the results of two filesystems, with a description of the difference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

use bytes::Bytes;
use garth_engine::model::{
    At, ByteRange, FindItem, FindQuery, HistoryPage, Ino, Kind, MAX_PAGE, Projection, Seq, Timestamp, Walk,
    WalkItem, WalkPage,
};
use garth_engine::{ErrorKind, Result, TreePath};

use crate::contract::finding::all_found;
use crate::tools::{Fs, at, can, p};

/// Description of a difference.
pub(super) type Difference = String;
pub(super) type Checked<T = ()> = Result<T, Difference>;

/// Compares two results: equal values, or errors of the same kind about the same path. Returns the value.
pub(super) fn same<T: PartialEq + Debug>(
    what: &str,
    subject: Result<T>,
    model: Result<T>,
) -> Checked<Option<T>> {
    match (subject, model) {
        (Ok(subject), Ok(model)) if subject == model => Ok(Some(model)),
        (Err(subject), Err(model)) if (subject.kind(), subject.path()) == (model.kind(), model.path()) => {
            Ok(None)
        }
        (subject, model) => {
            let (subject, model) = (format!("{subject:?}"), format!("{model:?}"));
            let same = subject.chars().zip(model.chars()).take_while(|(one, other)| one == other).count();
            // The text around the first difference.
            let brief =
                |text: &str| text.chars().skip(same.saturating_sub(1000)).take(2000).collect::<String>();
            Err(format!("{what} differs\n  subject: {}\n  model:   {}", brief(&subject), brief(&model)))
        }
    }
}

/// Compares the complete tree with its entries, and returns it.
pub(super) async fn same_tree(subject: &Fs, model: &Fs) -> Checked<Vec<WalkItem>> {
    let page = WalkPage::default().limit(10_000).with_entries();
    let (walk, expected) = (subject.walk(&at("/"), &page).await, model.walk(&at("/"), &page).await);
    if let (Ok(walk), Ok(expected)) = (&walk, &expected) {
        // A single item is easier to read than a complete tree.
        for (item, due) in walk.items.iter().zip(&expected.items) {
            same("an item of the tree", Ok(item), Ok(due))?;
        }
    }
    let paths = |walk: &Walk| walk.items.iter().map(|it| it.path.clone()).collect::<Vec<_>>();
    same(
        "the paths of the tree",
        walk.as_ref().map(paths).map_err(again),
        expected.as_ref().map(paths).map_err(again),
    )?;
    Ok(expected.map(|walk| walk.items).unwrap_or_default())
}

/// Item of a tree and the content of a file, or `Gone` if its path class no longer keeps that.
pub(super) type WithContent = (WalkItem, Result<Bytes, ErrorKind>);

/// Returns the complete tree, with the content of files below 100 KiB.
pub(super) async fn tree_with_content(fs: &Fs) -> Checked<Vec<WithContent>> {
    let page = WalkPage::default().limit(10_000).with_entries();
    let walk = fs.walk(&at("/"), &page).await.map_err(|error| error.to_string())?;
    let mut tree = Vec::new();
    for item in walk.items {
        let mut content = Ok(Bytes::new());
        if item.entry.as_ref().is_some_and(|entry| entry.kind == Kind::File && entry.size < 100 << 10) {
            let place = At::Path(item.path.clone());
            content = match fs.read(&place, ByteRange::ALL).await {
                Err(error) if !error.is(ErrorKind::Gone) => return Err(error.to_string()),
                read => read.map_err(|error| error.kind()),
            };
        }
        tree.push((item, content));
    }
    check_links(&tree)?;
    Ok(tree)
}

/// Compares the nodes found by key, if both sides support `find`. By line only if the paths of the subject
/// are those of an account.
pub(super) async fn same_found(subject: &Fs, model: &Fs, by_line: bool) -> Checked {
    if !can(subject).find {
        return Ok(());
    }
    let mut queries = vec![
        (FindQuery::new(Projection::TAG), 7),
        (FindQuery::tag("t").within(p("/d")).within(p("/kv")), 2),
        (FindQuery::new(Projection::METADATA), 5),
    ];
    // Only the sample registry has a projection of lines.
    queries.extend(by_line.then(|| (FindQuery::new(garth_engine::rule::sample::FIRST_WORD), MAX_PAGE)));
    for (query, limit) in queries {
        let [mut found, mut due] =
            [all_found(subject, &query, limit).await, all_found(model, &query, MAX_PAGE).await];
        for items in [&mut found, &mut due].into_iter().flatten() {
            // A view has inodes of its own, and the order of those of its stores.
            let number = |item: &FindItem| item.line.as_ref().map(|line| line.number);
            items.sort_by(|one, other| {
                (&one.key, &one.path, number(one)).cmp(&(&other.key, &other.path, number(other)))
            });
        }
        same("what is found by key", found, due)?;
    }
    Ok(())
}

fn again(error: &garth_engine::Error) -> garth_engine::Error {
    garth_engine::Error::new(error.kind(), error.message())
}

pub(super) async fn same_history(subject: &Fs, model: &Fs, path: &str, limit: usize) -> Checked {
    // From the end, and from somewhere in the middle.
    for page in [HistoryPage::default(), HistoryPage::default().before_commit(Seq(500))] {
        let page = page.limit(limit);
        let (versions, expected) =
            (subject.history(&at(path), &page).await, model.history(&at(path), &page).await);
        if let (Ok(versions), Ok(expected)) = (&versions, &expected) {
            for (version, due) in versions.items.iter().zip(&expected.items) {
                same(&format!("a version of {path}"), Ok(version), Ok(due))?;
            }
        }
        same(&format!("history of {path}"), versions, expected)?;
    }
    Ok(())
}

/// Compares the blame of a range, of at most 1 MiB: a longer result may end at different points.
pub(super) async fn same_blame(subject: &Fs, model: &Fs, place: &At, range: ByteRange) -> Checked {
    let range = ByteRange { length: range.length.min(1 << 20), ..range };
    let (found, expected) = (subject.blame(place, range, 50).await, model.blame(place, range, 50).await);
    same("who wrote a range", found, expected).map(drop)
}

/// Checks that everything but `top`, its subtree and the directories above it is unchanged. For a node with
/// names below `top` as well, only those names may have changed.
pub(super) fn same_outside(top: &TreePath, before: &[WithContent], after: &[WithContent]) -> Checked {
    let outside = |(item, _): &&WithContent| !item.path.is_within(top) && !top.is_within(&item.path);
    let inside: BTreeSet<Ino> = (before.iter().chain(after))
        .filter(|(item, _)| item.path.is_within(top))
        .map(|(item, _)| item.ino)
        .collect();
    let plain = |(item, content): &WithContent| {
        let mut item = item.clone();
        if let Some(entry) = item.entry.as_mut().filter(|entry| inside.contains(&entry.ino)) {
            // Names below `top` change these, and nothing else.
            (entry.nlink, entry.ctime, entry.version) = (0, Timestamp(0), entry.etag);
        }
        (item, content.clone())
    };
    let before: Vec<_> = before.iter().filter(outside).map(plain).collect();
    let after: Vec<_> = after.iter().filter(outside).map(plain).collect();
    match before.iter().zip(&after).find(|(before, after)| before != after) {
        Some((before, after)) => {
            Err(format!("restoring {top} changed what is outside\n  before: {before:?}\n  after:  {after:?}"))
        }
        None if before.len() != after.len() => {
            Err(format!("restoring {top} left {} of {} paths outside", after.len(), before.len()))
        }
        None => Ok(()),
    }
}

/// Checks link counts against the names: a file has one link per name, a directory two and one for each
/// directory in it.
fn check_links(tree: &[WithContent]) -> Checked {
    let mut names: BTreeMap<Ino, u64> = BTreeMap::new();
    let mut inside: BTreeMap<Option<TreePath>, u64> = BTreeMap::new();
    for (item, _) in tree {
        *names.entry(item.ino).or_default() += 1;
        *inside.entry(item.path.parent()).or_default() += u64::from(item.kind == Kind::Directory);
    }
    for (item, _) in tree {
        let due = match item.kind {
            Kind::Directory => 2 + inside.get(&Some(item.path.clone())).copied().unwrap_or_default(),
            _ => names[&item.ino],
        };
        let nlink = item.entry.as_ref().map(|entry| entry.nlink);
        if nlink != Some(due) {
            return Err(format!("{} has link count {nlink:?}, but {due} are due", item.path));
        }
    }
    Ok(())
}
