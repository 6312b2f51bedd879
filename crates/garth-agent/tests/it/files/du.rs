//! Bytes and entries of directories: equality with counting a complete walk, pages, links, removals.

use std::collections::{BTreeMap, HashSet};

use futures::TryStreamExt as _;
use garth_agent::files::{Du, DuTotal};
use garth_engine::home::OperatorTree;
use garth_engine::model::{Entry, Moment};
use garth_engine::{DataDir, ErrorKind, FileSystemExt, TreePath};
use garth_testkit::fs::counting::Counting;
use proptest::prelude::*;

use super::*;

/// Returns all pages of a request.
async fn pages(fs: &Fs, asked: &Du) -> Vec<DuTotal> {
    let (mut asked, mut totals, mut pages) = (asked.clone(), Vec::new(), 0);
    loop {
        let page = Files::new(fs).du(&asked).await.unwrap();
        assert!(page.items.len() <= asked.limits.items);
        totals.extend(page.items);
        asked.cursor = page.next;
        pages += 1;
        assert!(pages < 10_000, "each page gets further");
        if asked.cursor.is_none() {
            return totals;
        }
    }
}

/// Bytes, entries, files and directories.
type Sums = [u64; 4];

fn sums(total: &DuTotal) -> Sums {
    [total.bytes, total.entries, total.files, total.directories]
}

fn by_path(totals: &[DuTotal]) -> BTreeMap<String, Sums> {
    totals.iter().map(|total| (total.path.to_string(), sums(total))).collect()
}

/// Returns the sums of a directory and of those in it, down to some levels, counted from a complete walk.
async fn naive(fs: &Fs, top: &str, depth: usize) -> BTreeMap<String, Sums> {
    let items: Vec<_> = fs.walk_all(top).try_collect().await.unwrap();
    let items: Vec<(TreePath, Entry)> =
        items.into_iter().map(|item| (item.path, *item.entry.unwrap())).collect();
    let (top, mut seen, mut all) = (path(top), HashSet::new(), BTreeMap::new());
    let level = |dir: &TreePath| dir.segments().count() - top.segments().count();
    let dirs = items.iter().filter(|(_, entry)| entry.is_dir()).map(|(path, _)| path).chain([&top]);
    for dir in dirs.filter(|dir| level(dir) <= depth) {
        all.insert(dir.to_string(), [0; 4]);
    }
    for (at, entry) in &items {
        let counts = entry.is_file() && seen.insert(entry.ino);
        for (dir, sums) in &mut all {
            if *at != path(dir) && at.is_within(&path(dir)) {
                let more = [
                    if counts { entry.size } else { 0 },
                    1,
                    u64::from(entry.is_file()),
                    u64::from(entry.is_dir()),
                ];
                sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn pages_join_to_the_sums_of_a_walk(seed: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(each(async |fs: Fs| {
            let mut random = Random::new(seed);
            let paths = random_paths(&mut random);
            let texts: Vec<String> = paths.iter().map(|_| random_text(&mut random)).collect();
            let files = paths.iter().zip(&texts).map(|(path, text)| (path.as_str(), text.as_str()));
            write(&fs, &files.collect::<Vec<_>>()).await;
            write(&fs, &[("/z/file", "12345"), ("/z/e/other", "1")]).await;
            fs.apply(Op::mkdir(path("/z/empty"))).await.unwrap();
            fs.apply(Op::symlink(path("/z/link"), "/a/long/target")).await.unwrap();
            // In any order of the names of a file, inside and outside of a requested directory.
            let links = paths.iter().take(3).map(String::as_str).chain(["/z/file"]);
            for (n, file) in links.enumerate() {
                for to in [format!("/z/e/{n}"), format!("/0-{n}"), format!("/z/{n}")] {
                    fs.apply(Op::link(path(file), path(&to))).await.unwrap();
                }
            }
            for (top, depth) in [("/", 0), ("/", 1), ("/", 9), ("/z", 0), ("/z", 1), ("/z/e", 5)] {
                let expected = naive(&fs, top, depth).await;
                let whole = pages(&fs, &Du::new(top).depth(depth)).await;
                assert_eq!(by_path(&whole), expected, "{top} {depth}");
                assert_eq!(whole.last().unwrap().path, path(top), "the path itself is the last one");
                for (n, total) in whole.iter().enumerate() {
                    let above = |later: &DuTotal| total.path.is_within(&later.path);
                    assert!(whole[..n].iter().all(|before| !above(before)), "{}", total.path);
                }
                for _ in 0..3 {
                    let mut asked = Du::new(top).depth(depth);
                    asked.limits = random_limits(&mut random);
                    assert_eq!(pages(&fs, &asked).await, whole, "{asked:?}");
                }
            }
        }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn total_of_a_file_or_link_is_its_own() {
    each(async |fs: Fs| {
        write(&fs, &[("/d/a", "12345")]).await;
        fs.apply(Op::link(path("/d/a"), path("/0"))).await.unwrap();
        fs.apply(Op::symlink(path("/l"), "/d")).await.unwrap();
        for (asked, at, expected) in [
            ("/d/a", "/d/a", [5, 1, 1, 0]),
            ("/l", "/l", [0, 1, 0, 0]),
            ("/l/a", "/d/a", [5, 1, 1, 0]),
            ("/d/../d", "/d", [5, 1, 1, 0]),
        ] {
            let totals = pages(&fs, &Du::new(asked)).await;
            assert_eq!(
                (totals.len(), totals[0].path.as_str(), sums(&totals[0])),
                (1, at, expected),
                "{asked}"
            );
        }
        let missing = Files::new(&*fs).du(&Du::new("/none")).await.unwrap_err();
        assert!(missing.is(ErrorKind::NotFound), "{missing}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cost_does_not_multiply_links_of_a_file() {
    each(async |inner: Fs| {
        write(&inner, &[("/a/0", "12345")]).await;
        let mut linked = 1;
        for links in [100, 300] {
            let links_to = |number: usize| ["/a", "/b", "/b-c"].map(|dir| format!("{dir}/{number}"));
            let new: Vec<String> = (linked..links).flat_map(links_to).collect();
            linked = links;
            inner.commit(Batch::new(new.iter().map(|to| link("/a/0", to)))).await.unwrap();
            let counting = Arc::new(Counting::new(Arc::clone(&inner)));
            let fs: Fs = counting.clone();
            for (top, names) in [("/a", links), ("/b", links), ("/b-c", links), ("/", 3 * links)] {
                let totals = pages(&fs, &Du::new(top)).await;
                assert_eq!(totals[0].bytes, 5, "{top}");
                let (reads, looked_at) = (counting.reads_since(), counting.names_since());
                assert!(looked_at <= names + 20, "{top}: {looked_at} names with {links} links");
                assert!(reads <= 20, "{top}: {reads} reads with {links} links");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_count_once_over_all_pages() {
    each(async |fs: Fs| {
        write(&fs, &[("/a/0", "12345")]).await;
        // In the order of names, those in `/b-c` come between those in `/b` and in `/b/d`. The name `\u{1}`
        // comes before all others of a directory.
        let below = ["/b-c/1", "/b/d/1", "/b/d/2", "/b/e/1", "/b/e/\u{1}", "/c/2", "/c/\u{1}"];
        fs.commit(Batch::new(below.map(|to| link("/a/0", to)))).await.unwrap();
        for top in ["/", "/a", "/b", "/b-c", "/b/d", "/b/e", "/c"] {
            let expected = naive(&fs, top, 0).await;
            for names in [1, 2, 3, 100] {
                let mut asked = Du::new(top);
                asked.limits.names = names;
                assert_eq!(by_path(&pages(&fs, &asked).await), expected, "{top} by {names}");
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn links_of_each_account_count() {
    let folder = tempfile::tempdir().unwrap();
    let data = DataDir::open(folder.path(), Env::system(), garth_agent::registry()).unwrap();
    // The same inodes in both accounts.
    for account in ["acme", "beta"] {
        data.create_account(account).await.unwrap();
        let fs: Fs = data.account(account).await.unwrap();
        write(&fs, &[("/a/0", "12345")]).await;
        fs.commit(Batch::new(["/a/1", "/b/1", "/0"].map(|to| link("/a/0", to)))).await.unwrap();
    }
    let fs: Fs = Arc::new(OperatorTree::new(Arc::new(data)));
    for (top, bytes) in [("/", 10), ("/accounts", 10), ("/accounts/beta", 5), ("/accounts/beta/a", 5)] {
        assert_eq!(pages(&fs, &Du::new(top)).await.last().unwrap().bytes, bytes, "{top}");
    }
}

/// Returns the operation that links a file to a path.
fn link(file: &str, to: &str) -> Op {
    Op::link(path(file), path(to)).with_parents()
}

#[tokio::test(flavor = "multi_thread")]
async fn count_reads_the_past_and_survives_removals() {
    each(async |fs: Fs| {
        write(&fs, &[("/d/a/1", "1"), ("/d/a/2", "2"), ("/d/b/3", "3")]).await;
        let seq = fs.head().await.unwrap().seq;
        let mut asked = Du::new("/d").depth(1);
        asked.limits.names = 1;
        let mut past = asked.clone();
        past.at = Some(Moment::Seq(seq));
        // Inside of the first directory, of which one name was counted.
        for _ in 0..2 {
            for asked in [&mut asked, &mut past] {
                let page = Files::new(&*fs).du(asked).await.unwrap();
                assert!(page.items.is_empty(), "{page:?}");
                asked.cursor = Some(page.next.unwrap());
            }
        }
        fs.remove_tree("/d/a").await.unwrap();
        let left: Vec<Sums> = pages(&fs, &asked).await.iter().map(sums).collect();
        assert_eq!(left, [[1, 1, 1, 0], [1, 1, 1, 0], [2, 4, 2, 2]]);
        let whole: Vec<Sums> = pages(&fs, &past).await.iter().map(sums).collect();
        assert_eq!(whole, [[2, 2, 2, 0], [1, 1, 1, 0], [3, 5, 3, 2]]);
        fs.remove_tree("/d").await.unwrap();
        let gone = Files::new(&*fs).du(&asked).await.unwrap_err();
        assert!(gone.is(ErrorKind::NotFound), "{gone}");
    })
    .await;
}

#[tokio::test]
async fn cursor_belongs_to_its_request() {
    let fs = memory();
    write(&fs, &[("/d/a", "1"), ("/d/b", "2"), ("/e", "3")]).await;
    let mut asked = Du::new("/d").depth(1);
    asked.limits.names = 1;
    asked.cursor = Files::new(&*fs).du(&asked).await.unwrap().next;
    assert!(asked.cursor.is_some());
    for (path, depth) in [("/", 1), ("/d", 0), ("/e", 1)] {
        let mut other = asked.clone().depth(depth);
        other.path = path.to_owned();
        let refused = Files::new(&*fs).du(&other).await.unwrap_err();
        assert!(refused.is(ErrorKind::InvalidArgument), "{refused}");
    }
    // A file is in the place of the directory.
    fs.remove_tree("/d").await.unwrap();
    write(&fs, &[("/d", "")]).await;
    assert!(Files::new(&*fs).du(&asked).await.unwrap_err().is(ErrorKind::InvalidArgument));
}
