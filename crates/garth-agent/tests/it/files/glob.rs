//! Paths by pattern: equality with matching every path, pages, order, links.

use futures::TryStreamExt as _;
use garth_agent::files::{Glob, GlobPattern, Matches};
use garth_engine::home::OperatorTree;
use garth_engine::model::Moment;
use garth_engine::{ErrorKind, FileSystemExt};
use garth_testkit::fs::counting::Counting;
use proptest::prelude::*;

use super::*;

/// Returns all pages of a search.
async fn pages(fs: &Fs, asked: &Glob) -> Vec<String> {
    let (mut asked, mut paths, mut pages) = (asked.clone(), Vec::new(), 0);
    loop {
        let page = Files::new(fs).glob(&asked).await.unwrap();
        assert!(page.items.len() <= asked.limits.items);
        paths.extend(page.items.into_iter().map(|item| item.path.to_string()));
        asked.cursor = page.next;
        pages += 1;
        assert!(pages < 10_000, "each page gets further");
        if asked.cursor.is_none() {
            return paths;
        }
    }
}

async fn globbed(fs: &Fs, pattern: &str) -> Vec<String> {
    pages(fs, &Glob::new(pattern)).await
}

/// Returns every path below a directory, in the order of a walk, with true for directories.
async fn walked(fs: &Fs) -> Vec<(String, bool)> {
    let items: Vec<_> = fs.walk_all("/").try_collect().await.unwrap();
    items.into_iter().map(|item| (item.path.to_string(), item.entry.unwrap().is_dir())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn pages_join_to_all_paths_that_match(seed: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(each(async |fs: Fs| {
            let mut random = Random::new(seed);
            let paths = random_paths(&mut random);
            let files: Vec<(&str, &str)> = paths.iter().map(|path| (path.as_str(), "")).collect();
            write(&fs, &files).await;
            let all = walked(&fs).await;
            for pattern in [
                "/*", "/**", "/a/**", "/*/*", "/*/*/a*", "/{a,b}/**/*.md", "/**/*.md", "/a*/", "/**/",
                "/?/*.md",
            ] {
                let matcher = GlobPattern::parse(pattern[1..].trim_end_matches('/')).unwrap();
                let fits = |(path, is_dir): &&(String, bool)| {
                    // The part before the wildcard is not below itself.
                    matcher.is_match(&path[1..])
                        && (*is_dir || !pattern.ends_with('/'))
                        && !(pattern == "/a/**" && path == "/a")
                };
                let expected = all.iter().filter(fits).map(|(path, _)| path.clone());
                let mut expected: Vec<String> = expected.collect();
                if !pattern.contains("**") {
                    // Depth first, by name.
                    expected.sort_by_key(|path| path.split('/').map(str::to_owned).collect::<Vec<_>>());
                }
                assert_eq!(globbed(&fs, pattern).await, expected, "{pattern}");
                let mut asked = Glob::new(pattern);
                asked.limits = random_limits(&mut random);
                assert_eq!(pages(&fs, &asked).await, expected, "{asked:?}");
            }
        }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fixed_part_of_a_pattern_follows_links() {
    each(async |fs: Fs| {
        write(&fs, &[("/d/a.md", ""), ("/d/e/b.md", "")]).await;
        fs.apply(Op::symlink(path("/l"), "/d")).await.unwrap();
        assert_eq!(globbed(&fs, "/l/*.md").await, ["/d/a.md"]);
        assert_eq!(globbed(&fs, "/l/").await, ["/d"]);
        assert_eq!(globbed(&fs, "/l").await, ["/l"]);
        assert_eq!(globbed(&fs, "/*/*.md").await, ["/d/a.md"], "links below are not followed");
        assert_eq!(globbed(&fs, "/none/*").await, [""; 0]);
        assert_eq!(globbed(&fs, "/d/a.md/*").await, [""; 0]);
        assert_eq!(globbed(&fs, "/").await, [""; 0]);
        let seq = fs.head().await.unwrap().seq;
        fs.remove_tree("/d/e").await.unwrap();
        let mut asked = Glob::new("/d/*/*");
        assert_eq!(pages(&fs, &asked).await, [""; 0]);
        asked.at = Some(Moment::Seq(seq));
        assert_eq!(pages(&fs, &asked).await, ["/d/e/b.md"]);
    })
    .await;
}

#[tokio::test]
async fn pattern_without_wildcards_has_one_match() {
    let fs = memory();
    write(&fs, &[("/a/b", "")]).await;
    for pattern in ["/a/b", "/a/"] {
        let mut asked = Glob::new(pattern);
        asked.limits.items = 1;
        assert_eq!(pages(&fs, &asked).await, [pattern.trim_end_matches('/')]);
    }
}

#[tokio::test]
async fn removed_directory_ends_quietly() {
    let fs = memory();
    write(&fs, &[("/a/x/1", ""), ("/b/x/1", "")]).await;
    let mut matches = Matches::new(&*fs, "/*/*/*").await.unwrap();
    let first = matches.next().await.unwrap().unwrap().0;
    assert_eq!(first.as_str(), "/a/x/1");
    fs.remove_tree("/b").await.unwrap();
    assert!(matches.next().await.unwrap().is_none());
    let mut asked = Glob::new("/*/*/*");
    asked.limits.names = 1;
    let page = Files::new(&fs).glob(&asked).await.unwrap();
    fs.remove_tree("/a").await.unwrap();
    asked.cursor = page.next;
    assert_eq!(pages(&fs, &asked).await, [""; 0]);
}

#[tokio::test]
async fn accounts_that_cannot_be_read_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let open = || garth::builder().open(&folder.path().join("data")).unwrap();
    let data = open();
    for account in ["a", "b", "c", "d", "e"] {
        data.create_account(account).await.unwrap();
        data.account(account).await.unwrap().write("/f.md", "").await.unwrap();
    }
    for broken in ["b", "c", "e"] {
        let stored = data.control().account(broken).await.unwrap().folder;
        // Elsewhere, because the data folder may still have it open.
        std::fs::rename(data.folder().join("accounts").join(stored), folder.path().join(broken)).unwrap();
    }
    let fs: Fs = Arc::new(OperatorTree::new(Arc::new(open())));
    let (found, failed) =
        (["/accounts/a/f.md", "/accounts/d/f.md"], ["/accounts/b", "/accounts/c", "/accounts/e"]);
    let paths = |errors: Vec<garth_engine::Error>| {
        errors.into_iter().map(|error| error.path().unwrap().to_string()).collect::<Vec<_>>()
    };
    for (items, names) in [(1, 100_000), (1000, 1), (2, 3), (1000, 100_000)] {
        let mut asked = Glob::new("/accounts/*/*.md");
        (asked.limits.items, asked.limits.names) = (items, names);
        let (mut found_so_far, mut failed_so_far) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let page = Files::new(&fs).glob(&asked).await.unwrap();
            found_so_far.extend(page.items.into_iter().map(|item| item.path.to_string()));
            failed_so_far.extend(paths(page.failed));
            asked.cursor = page.next;
            if asked.cursor.is_none() {
                break;
            }
        }
        assert!(asked.cursor.is_none(), "each page gets further");
        assert_eq!(found_so_far, found, "pages of {items} items and {names} names");
        assert_eq!(failed_so_far, failed, "pages of {items} items and {names} names");
    }
    let mut matches = Matches::new(&*fs, "/accounts/*/f.md").await.unwrap();
    let mut matched = Vec::new();
    while let Some((path, _)) = matches.next().await.unwrap() {
        matched.push(path.to_string());
    }
    assert_eq!(
        (matched, paths(matches.take_failed())),
        (found.map(str::to_owned).to_vec(), failed.map(str::to_owned).to_vec())
    );
    assert!(matches.take_failed().is_empty());
    // An account that the pattern names is the whole search.
    let error = Files::new(&fs).glob(&Glob::new("/accounts/b/*.md")).await.unwrap_err();
    assert!(error.is(ErrorKind::Corrupt), "{error}");
}

#[tokio::test]
async fn directories_without_a_match_are_not_read() {
    let inner = memory();
    let files: Vec<String> = (0..500).map(|number| format!("/other/{number}/x")).collect();
    let mut files: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "")).collect();
    files.push(("/notes/a/x", ""));
    write(&inner, &files).await;
    let counting = Arc::new(Counting::new(Arc::clone(&inner)));
    let fs: Fs = counting.clone();
    counting.names_since();
    assert_eq!(globbed(&fs, "/n*/*/x").await, ["/notes/a/x"]);
    let names = counting.names_since();
    assert!(names < 20, "{names}");
}

#[tokio::test]
async fn malformed_patterns_and_other_cursors_are_refused() {
    let fs = memory();
    write(&fs, &[("/a", ""), ("/b", "")]).await;
    let refused = async |asked: &Glob| {
        let error = Files::new(&fs).glob(asked).await.unwrap_err();
        assert!(error.is(ErrorKind::InvalidArgument), "{error}");
    };
    for pattern in ["a/*", "/[", "/{a", &format!("/*{}", "a".repeat(5000))] {
        refused(&Glob::new(pattern)).await;
    }
    let mut asked = Glob::new("/*");
    asked.limits.items = 1;
    let next = Files::new(&fs).glob(&asked).await.unwrap().next;
    assert!(next.is_some());
    for other in ["/**", "/a*"] {
        let mut other = Glob::new(other);
        other.cursor.clone_from(&next);
        refused(&other).await;
    }
}
