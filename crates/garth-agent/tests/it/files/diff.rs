//! Differences: equality with a naive comparison, hunks that lead from one text to the other, pages, limits.

use std::collections::BTreeMap;

use futures::TryStreamExt as _;
use garth_agent::files::{
    Change, ContentDifference, Diff, DiffForm, DiffPage, Difference, Differences, MAX_COMPARED_LINES, Side,
};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Moment, Seq, SetAttrs};
use garth_engine::{ErrorKind, FileSystemExt};
use garth_testkit::fs::interfering::{Call, Interfering};
use proptest::prelude::*;

use super::*;

async fn diff(fs: &Fs, asked: &Diff) -> DiffPage {
    Files::new(fs).diff(asked).await.unwrap()
}

/// Returns all differences, with the parts of each joined.
async fn pages(fs: &Fs, asked: &Diff) -> Vec<Difference> {
    let (mut asked, mut all, mut pages) = (asked.clone(), Vec::<Difference>::new(), 0);
    loop {
        let page = diff(fs, &asked).await;
        for mut item in page.items {
            if let Some(last) = all.last_mut()
                && let Some(ContentDifference::Lines { hunks, more, .. }) = &mut last.content
                && *more
            {
                let Some(ContentDifference::Lines { hunks: rest, more: still, .. }) = &mut item.content
                else {
                    panic!("{item:?} continues {hunks}")
                };
                assert!(!rest.is_empty());
                hunks.push_str(rest);
                *more = *still;
            } else {
                all.push(item);
            }
        }
        asked.cursor = page.next;
        pages += 1;
        assert!(pages < 10_000, "each page gets further");
        if asked.cursor.is_none() {
            return all;
        }
    }
}

/// Returns the differences of two states, without pages.
async fn differences(from: &Fs, to: &Fs, paths: [&str; 2], form: DiffForm) -> Vec<Difference> {
    let from = Side::at(from, paths[0], Follow::Yes).await.unwrap();
    let to = Side::at(to, paths[1], Follow::Yes).await.unwrap();
    let (mut differences, mut all) = (Differences::new(from, to, form), Vec::new());
    while let Some(difference) = differences.next().await.unwrap() {
        all.push(difference);
    }
    all
}

/// Text of each file by path; `None` for a directory.
type State = BTreeMap<String, Option<String>>;

/// Returns the text of each file and `None` for each directory below `/`, by path.
async fn state(fs: &Fs) -> State {
    let items: Vec<_> = fs.walk_all("/").try_collect().await.unwrap();
    let mut state = BTreeMap::new();
    for item in items {
        let is_file = item.entry.unwrap().is_file();
        let text = if is_file { Some(fs.read_to_string(&item.path).await.unwrap()) } else { None };
        state.insert(item.path.to_string(), text);
    }
    state
}

/// Applies hunks to a text.
fn patched(old: &str, hunks: &str) -> String {
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    let (mut new, mut at, mut last) = (String::new(), 0, "");
    for line in hunks.split_inclusive('\n') {
        let (sign, rest) = line.split_at(1);
        match sign {
            "@" => {
                let (start, length) = rest[3..].split_once([',', ' ']).unwrap();
                let start: usize = start.parse().unwrap();
                // An empty range is after the line that it names.
                let before = if length.starts_with("0 ") { start } else { start - 1 };
                new.push_str(&lines[at..before].concat());
                at = before;
            }
            " " | "-" => {
                assert_eq!(lines[at].trim_end_matches('\n'), rest.trim_end_matches('\n'));
                new.push_str(if sign == " " { lines[at] } else { "" });
                at += 1;
            }
            "+" => new.push_str(rest),
            // The line before has no end; that of an older line was checked.
            "\\" if last == "+" => {
                new.pop();
            }
            "\\" => {}
            other => panic!("{other}"),
        }
        last = sign;
    }
    new.push_str(&lines[at..].concat());
    new
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn pages_join_to_the_differences_of_a_naive_comparison(seed: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(each(async |fs: Fs| {
            let mut random = Random::new(seed);
            let files = write_random(&fs, &mut random).await;
            let (before, seq) = (state(&fs).await, fs.head().await.unwrap().seq);
            let mut marked = Vec::new();
            for (at, text) in &files {
                let at = at.as_str();
                match random.below(5) {
                    0 => {
                        fs.remove(at).await.unwrap();
                    }
                    1 => {
                        let other = random_text(&mut random);
                        write(&fs, &[(at, other.as_str())]).await;
                    }
                    // The same bytes have another version.
                    2 => write(&fs, &[(at, text.as_str())]).await,
                    3 => {
                        fs.apply(Op::set_attrs(path(at), SetAttrs::new().mode(0o600))).await.unwrap();
                        marked.push(at.to_owned());
                    }
                    _ => {}
                }
            }
            let added = random_text(&mut random);
            write(&fs, &[("/new/x", added.as_str())]).await;
            let after = state(&fs).await;
            check_differences(&fs, seq, (&before, &after), &marked, &mut random).await;
        }));
    }
}

/// Compares the differences since a commit with those of two states, and their pages with all of them.
async fn check_differences(
    fs: &Fs,
    seq: Seq,
    (before, after): (&State, &State),
    marked: &[String],
    random: &mut Random,
) {
    let mut expected = Vec::new();
    for at in before.keys().chain(after.keys().filter(|at| !before.contains_key(*at))) {
        let change = match (before.get(at), after.get(at)) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            (old, new) if old != new || marked.contains(at) => Change::Changed,
            _ => continue,
        };
        expected.push((at.clone(), change));
    }
    expected.sort_by_key(|(at, _)| {
        let (dir, name) = at.rsplit_once('/').unwrap();
        (dir.to_owned(), name.to_owned())
    });
    let past = fs.as_of(&Moment::Seq(seq)).await.unwrap();
    let form = DiffForm::Hunks(random.below(4) as usize);
    let all = differences(&past, fs, ["/", "/"], form).await;
    let found: Vec<_> = all.iter().map(|one| (one.path.to_string(), one.change)).collect();
    assert_eq!(found, expected);
    for one in &all {
        let text = |of: &State| of.get(one.path.as_str()).cloned().flatten().unwrap_or_default();
        let (old, new) = (text(before), text(after));
        match &one.content {
            Some(ContentDifference::Lines { hunks, more: false, .. }) => {
                assert_eq!(patched(&old, hunks), new, "{old:?} {hunks}");
            }
            None => assert_eq!(old, new),
            other => panic!("{other:?}"),
        }
        assert_eq!(one.attributes.is_empty(), !marked.contains(&one.path.to_string()));
    }
    for form in [form, DiffForm::Counts, DiffForm::Names] {
        let mut asked = Diff::since("/", seq);
        (asked.form, asked.limits) = (form, random_limits(random));
        assert_eq!(pages(fs, &asked).await, differences(&past, fs, ["/", "/"], form).await, "{asked:?}");
    }
}

#[tokio::test]
async fn two_paths_are_compared_by_what_is_below_them() {
    let fs = memory();
    write(&fs, &[("/a/same", "1\n"), ("/b/same", "1\n"), ("/a/x/t", "one\n"), ("/b/x/t", "two\n")]).await;
    write(&fs, &[("/b/new", "x\n"), ("/a-b/x", "x\n")]).await;
    let all = pages(&fs, &Diff::between("/a", "/b")).await;
    let paths: Vec<&str> = all.iter().map(|one| one.path.as_str()).collect();
    assert_eq!(paths, ["/b/new", "/b/x/t"]);
    assert_eq!(all[0].from_path, None);
    assert_eq!(all[1].from_path.as_ref().map(|from| from.as_str()), Some("/a/x/t"));
    assert_eq!(all[1].hunks(), Some("@@ -1 +1 @@\n-one\n+two\n"));
    for (asked, missing) in [
        (Diff::between("/a", "/none"), "/none"),
        (Diff::between("/none", "/a"), "/none"),
        (Diff::since("/none", Seq(1)), "/none"),
    ] {
        let error = Files::new(&fs).diff(&asked).await.unwrap_err();
        assert!(error.is(ErrorKind::NotFound) && error.path() == Some(&path(missing)), "{error}");
    }
}

#[tokio::test]
async fn content_without_lines_is_named() {
    let fs = memory();
    let long = "\n".repeat(MAX_COMPARED_LINES + 1);
    write(&fs, &[("/bin", "a"), ("/latin", "a"), ("/long", "a"), ("/becomes", "a"), ("/link", "a")]).await;
    let seq = fs.head().await.unwrap().seq;
    write(&fs, &[("/bin", "a\0"), ("/long", long.as_str())]).await;
    fs.write("/latin", vec![b'a', 0xe9]).await.unwrap();
    fs.commit(Batch::new([Op::remove(path("/becomes")), Op::mkdir(path("/becomes"))])).await.unwrap();
    fs.commit(Batch::new([Op::remove(path("/link")), Op::symlink(path("/link"), "a")])).await.unwrap();
    let all = pages(&fs, &Diff::since("/", seq)).await;
    let of = |at: &str| all.iter().find(|one| one.path.as_str() == at).unwrap();
    assert_eq!(of("/bin").content, Some(ContentDifference::Binary));
    assert_eq!(of("/latin").content, Some(ContentDifference::Binary));
    assert_eq!(of("/long").content, Some(ContentDifference::TooLong));
    assert_eq!((&of("/becomes").content, &of("/becomes").attributes[..1]), (&None, &["kind"][..]));
    assert_eq!(of("/link").hunks(), Some("@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n"));
}

#[tokio::test]
async fn longest_compared_text_is_that_of_the_request() {
    let fs = memory();
    write(&fs, &[("/a", "1\n2\n"), ("/b", "1\n2\n3\n")]).await;
    for (max_text, max_lines, is_long) in [(6, 3, false), (5, 3, true), (6, 2, true)] {
        let mut asked = Diff::between("/a", "/b");
        (asked.max_text, asked.max_lines) = (max_text, max_lines);
        let page = diff(&fs, &asked).await;
        assert_eq!(page.items[0].content == Some(ContentDifference::TooLong), is_long, "{max_text}");
    }
}

#[tokio::test]
async fn files_are_compared_in_the_versions_that_were_found() {
    for other in [Op::write(path("/a"), "and three\n"), Op::remove(path("/a"))] {
        let fs = memory();
        write(&fs, &[("/a", "one\n"), ("/b", "two\n")]).await;
        // After `/a` was looked up twice: its path, and its entry.
        let busy: Fs = Arc::new(Interfering::new(&fs, Call::Stat, 2, vec![other]));
        let page = diff(&busy, &Diff::between("/a", "/b")).await;
        assert_eq!(page.items[0].hunks(), Some("@@ -1 +1 @@\n-one\n+two\n"));
    }
}

#[tokio::test]
async fn file_of_a_plain_folder_that_changes_meanwhile_is_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["a", "b"].map(|name| folder.path().join(name));
    std::fs::write(&one, "one\n").unwrap();
    std::fs::write(&two, "two\n").unwrap();
    let fs: Fs = HostFs::open(folder.path(), Mode::ReadOnly, Env::system()).unwrap();
    let busy: Fs = Arc::new(Interfering::running(&fs, Call::Stat, 2, move |_| async move {
        std::fs::write(&one, "and three\n").unwrap();
        Ok(())
    }));
    let error = Files::new(&busy).diff(&Diff::between("/a", "/b")).await.unwrap_err();
    assert!(error.is(ErrorKind::Conflict) && error.path() == Some(&path("/a")), "{error}");
}

#[tokio::test]
async fn content_that_is_no_text_counts_as_read() {
    let fs = memory();
    fs.mkdir_all("/d").await.unwrap();
    let seq = fs.head().await.unwrap().seq;
    // Read to find the last byte of each, which is no text.
    let content = [vec![b'x'; 1000], vec![0]].concat();
    for at in ["/d/a", "/d/b", "/d/c"] {
        fs.write(at, content.clone()).await.unwrap();
    }
    let mut asked = Diff::since("/d", seq);
    asked.limits.read = 1500;
    let page = diff(&fs, &asked).await;
    assert_eq!(page.items.len(), 2);
    assert!(page.next.is_some());
    assert!(page.items.iter().all(|one| one.content == Some(ContentDifference::Binary)));
}

#[tokio::test]
async fn changed_file_ends_the_pages_of_its_hunks() {
    let fs = memory();
    let [one, two, three] = ["one\n", "two\n", "three\n"].map(|line| line.repeat(1000));
    write(&fs, &[("/a", one.as_str())]).await;
    let seq = fs.head().await.unwrap().seq;
    write(&fs, &[("/a", two.as_str()), ("/b", "x\n")]).await;
    let mut asked = Diff::since("/", seq);
    asked.limits.bytes = 3000;
    let page = diff(&fs, &asked).await;
    assert_eq!(page.items.len(), 1);
    assert!(page.items[0].hunks().unwrap().len() <= 3000);
    asked.cursor = page.next;
    assert!(matches!(&diff(&fs, &asked).await.items[0].content, Some(ContentDifference::Lines { .. })));
    write(&fs, &[("/a", three.as_str())]).await;
    let error = Files::new(&fs).diff(&asked).await.unwrap_err();
    assert!(error.is(ErrorKind::Conflict) && error.path() == Some(&path("/a")), "{error}");
    asked.form = DiffForm::Counts;
    assert!(Files::new(&fs).diff(&asked).await.unwrap_err().is(ErrorKind::InvalidArgument));
}
