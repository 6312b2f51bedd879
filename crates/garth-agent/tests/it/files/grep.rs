//! Search of lines: equality with a naive search, pages, long and binary files, changes between pages.

use std::sync::atomic::{AtomicUsize, Ordering};

use garth_agent::files::{BinaryFiles, Grep, GrepPage, MAX_LINE, Show, Whole};
use garth_engine::engine::host::{HostFs, Mode};
use garth_engine::model::Moment;
use garth_engine::view::Scope;
use garth_engine::{ErrorKind, FileSystemExt};
use garth_testkit::fs::counting::Counting;
use proptest::prelude::*;

use super::*;

/// Number, text, whether it is cut, and whether it is context.
type Line = (u64, String, bool, bool);

/// File of an answer, with its parts on all pages.
#[derive(Debug, Default, PartialEq)]
struct FoundFile {
    path: String,
    binary: bool,
    matches: u64,
    lines: Vec<Line>,
    capped: bool,
    error: Option<ErrorKind>,
}

/// Joins the parts of each file on several pages.
fn joined(pages: Vec<GrepPage>) -> Vec<FoundFile> {
    let (mut files, mut more) = (Vec::<FoundFile>::new(), false);
    for file in pages.into_iter().flat_map(|page| page.files) {
        let path = file.path.to_string();
        if !more || files.last().is_none_or(|last| last.path != path) {
            files.push(FoundFile { path, ..FoundFile::default() });
        }
        let known = files.last_mut().unwrap();
        known.binary |= file.binary;
        known.capped |= file.capped;
        known.matches += file.matches;
        known.error = file.error.map(|error| error.kind());
        let line = file.lines.into_iter().map(|line| {
            (line.number, String::from_utf8_lossy(&line.text).into_owned(), line.cut, line.context)
        });
        known.lines.extend(line);
        more = file.more;
    }
    files
}

async fn grep(fs: &Fs, asked: &Grep) -> GrepPage {
    Files::new(fs).grep(asked).await.unwrap()
}

/// Returns all pages of a search.
async fn pages(fs: &Fs, asked: &Grep) -> Vec<GrepPage> {
    let (mut asked, mut pages) = (asked.clone(), Vec::new());
    loop {
        let page = grep(fs, &asked).await;
        asked.cursor.clone_from(&page.next);
        pages.push(page);
        assert!(pages.len() < 10_000, "each page gets further");
        if asked.cursor.is_none() {
            return pages;
        }
    }
}

async fn unlimited(fs: &Fs, asked: &Grep) -> Vec<FoundFile> {
    let mut asked = asked.clone();
    asked.limits = Limits::NONE;
    let page = grep(fs, &asked).await;
    assert!(page.next.is_none());
    joined(vec![page])
}

/// Returns `path:number:text` of each line, with `-` in place of the second `:` for lines around a match.
async fn found(fs: &Fs, asked: &Grep) -> Vec<String> {
    let mut found = Vec::new();
    for file in unlimited(fs, asked).await {
        for (number, text, _, context) in &file.lines {
            let mark = if *context { '-' } else { ':' };
            found.push(format!("{}:{number}{mark}{text}", file.path));
        }
    }
    found
}

async fn paths_found(fs: &Fs, asked: &Grep) -> Vec<String> {
    unlimited(fs, asked).await.into_iter().map(|file| file.path).collect()
}

/// Searches a text for a literal, line by line. Returns the lines to show, the number of selected ones, and
/// whether the limit on them ended the search.
fn naive(text: &str, asked: &Grep) -> (Vec<Line>, u64, bool) {
    let lines: Vec<&str> =
        text.split_terminator('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect();
    let has = |line: &str| match asked.whole {
        Whole::Line => line == asked.expressions[0],
        Whole::Any | Whole::Word => line.contains(&asked.expressions[0]),
    };
    let most = asked.max_matches.map_or(usize::MAX, |most| most as usize);
    let selected = (0..lines.len()).filter(|at| has(lines[*at]) != asked.invert);
    let selected: Vec<usize> = selected.take(most).collect();
    let is_near = |at: usize| selected.iter().any(|of| at + asked.before >= *of && at <= *of + asked.after);
    let shown = (0..lines.len()).filter(|at| is_near(*at)).map(|at| {
        let short = &lines[at][..lines[at].len().min(asked.max_line)];
        (at as u64 + 1, short.to_owned(), short.len() < lines[at].len(), !selected.contains(&at))
    });
    let needed = selected.last().map_or(0, |last| last + asked.after + 1);
    (shown.collect(), selected.len() as u64, selected.len() == most && lines.len() > needed)
}

fn random_search(random: &mut Random) -> Grep {
    let mut asked = Grep::new(random.pick(&["a", "b", "ab", "bb", "", "c"]));
    (asked.fixed, asked.invert) = (random.one_in(2), random.one_in(4));
    asked.whole = random.pick(&[Whole::Any, Whole::Any, Whole::Line]);
    (asked.before, asked.after) = (random.below(3) as usize, random.below(3) as usize);
    asked.max_matches = random.pick(&[None, None, Some(1), Some(2)]);
    asked.max_line = random.pick(&[1000, 3]);
    asked.path = random.pick(&["/", "/", "/a", "/a-b"]).to_owned();
    asked
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn pages_join_to_one_answer_equal_to_a_naive_search(seed: u64) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(each(async |fs: Fs| {
            let mut random = Random::new(seed);
            let files = write_random(&fs, &mut random).await;
            for _ in 0..6 {
                let mut asked = random_search(&mut random);
                let top = path(&asked.path);
                if !fs.exists(&top).await.unwrap() {
                    continue;
                }
                let whole = unlimited(&fs, &asked).await;
                let mut expected = Vec::new();
                for (at, text) in &files {
                    let (lines, matches, capped) = naive(text, &asked);
                    if path(at).is_within(&top) && matches > 0 {
                        let path = at.clone();
                        expected.push(FoundFile { path, matches, lines, capped, ..FoundFile::default() });
                    }
                }
                // In the order of a walk: by directory, then by name.
                expected.sort_by_key(|file| {
                    let (dir, name) = file.path.rsplit_once('/').unwrap();
                    (dir.to_owned(), name.to_owned())
                });
                assert_eq!(whole, expected, "{asked:?}");
                for show in [Show::Lines, Show::Counts, Show::Files, Show::FilesWithout] {
                    asked.show = show;
                    let whole = unlimited(&fs, &asked).await;
                    asked.limits = random_limits(&mut random);
                    assert_eq!(joined(pages(&fs, &asked).await), whole, "{asked:?}");
                }
            }
        }));
    }
}

#[tokio::test]
async fn patterns_select_files_by_name_and_by_path() {
    let fs = memory();
    write(&fs, &[("/src/main.rs", "x"), ("/src/deep/lib.rs", "x"), ("/doc/a.md", "x"), ("/main.rs", "x")])
        .await;
    let paths = async |include: &[&str], exclude: &[&str], below: &str| {
        let mut asked = Grep::new("x").below(below);
        asked.include = include.iter().map(|&pattern| pattern.to_owned()).collect();
        asked.exclude = exclude.iter().map(|&pattern| pattern.to_owned()).collect();
        paths_found(&fs, &asked).await
    };
    assert_eq!(paths(&["*.rs"], &[], "/").await, ["/main.rs", "/src/main.rs", "/src/deep/lib.rs"]);
    assert_eq!(paths(&["src/*.rs"], &[], "/").await, ["/src/main.rs"]);
    assert_eq!(paths(&["/*.rs"], &[], "/").await, ["/main.rs"]);
    assert_eq!(paths(&["deep/**", "*.md"], &[], "/src").await, ["/src/deep/lib.rs"]);
    assert_eq!(paths(&[], &["*.md", "**/deep/*"], "/").await, ["/main.rs", "/src/main.rs"]);
    assert_eq!(paths(&["*.rs"], &[], "/src/main.rs").await, ["/src/main.rs"]);
    assert_eq!(paths(&["*.md"], &[], "/src/main.rs").await, [""; 0]);
}

#[tokio::test]
async fn expressions_are_checked_one_by_one() {
    let fs = memory();
    write(&fs, &[("/a", "Straße\na.b\naxb\nword sword\n")]).await;
    let mut asked = Grep::new("A.B");
    asked.ignore_case = true;
    assert_eq!(found(&fs, &asked).await, ["/a:2:a.b", "/a:3:axb"]);
    asked.fixed = true;
    assert_eq!(found(&fs, &asked).await, ["/a:2:a.b"]);
    asked.expressions = vec!["x".to_owned(), "STRASSE".to_owned(), "STRAßE".to_owned()];
    assert_eq!(found(&fs, &asked).await, ["/a:1:Straße", "/a:3:axb"]);
    let mut asked = Grep::new("word");
    asked.whole = Whole::Word;
    let line = b"word sword";
    assert_eq!(asked.matcher().unwrap().parts(line).count(), 1);
    for bad in ["(", "a)|(b", &"a".repeat(100_000), r"\w{5000}"] {
        let error = Files::new(&fs).grep(&Grep::new(bad)).await.unwrap_err();
        assert!(error.is(ErrorKind::InvalidArgument), "{error}");
    }
    assert!(Files::new(&fs).grep(&Grep::new("a").below("/none")).await.unwrap_err().is(ErrorKind::NotFound));
}

#[tokio::test]
async fn expressions_and_patterns_are_limited_in_number() {
    let fs = memory();
    let refused = async |change: fn(&mut Grep)| {
        let mut asked = Grep::new("a");
        change(&mut asked);
        let error = Files::new(&fs).grep(&asked).await.unwrap_err();
        assert!(error.is(ErrorKind::InvalidArgument), "{error}");
    };
    // Without an expression nothing could match, and an empty one matches every line.
    refused(|asked| asked.expressions.clear()).await;
    refused(|asked| asked.expressions = vec![String::new(); 1001]).await;
    refused(|asked| {
        asked.include = vec!["*.md".to_owned(); 50];
        asked.exclude = vec!["*.rs".to_owned(); 51];
    })
    .await;
}

/// Returns a file of several parts: lines of different lengths, one of which is longer than a part.
fn long_text() -> String {
    let mut text = String::new();
    let mut number = 0;
    while text.len() < 3 << 20 {
        number += 1;
        let filler = "x".repeat(number * 7919 % 2000);
        let word = if number % 50 == 0 { "needle" } else { "straw" };
        text.push_str(&format!("{number} {filler} {word}\n"));
        if number == 700 {
            text.push_str(&format!("{}needle\n", "y".repeat(1 << 20)));
        }
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_continue_inside_of_long_files() {
    each(async |fs: Fs| {
        let text = long_text();
        write(&fs, &[("/long", text.as_str()), ("/z", "needle\n")]).await;
        let mut asked = Grep::new("needle");
        (asked.before, asked.after) = (2, 1);
        let (lines, matches, _) = naive(&text, &asked);
        let whole = unlimited(&fs, &asked).await;
        assert_eq!((&whole[0].lines, whole[0].matches), (&lines, matches));
        for (bytes, read) in [(20_000, u64::MAX), (usize::MAX, 1), (5000, 1 << 20)] {
            (asked.limits.bytes, asked.limits.read) = (bytes, read);
            let pages = pages(&fs, &asked).await;
            assert!(pages.len() > 3, "{bytes} {read}: {}", pages.len());
            assert_eq!(joined(pages), whole, "{bytes} {read}");
        }
    })
    .await;
}

#[tokio::test]
async fn cost_of_a_page_does_not_grow_with_the_tree() {
    let inner = memory();
    let counting = Arc::new(Counting::new(Arc::clone(&inner)));
    let fs: Fs = counting.clone();
    let mut asked = Grep::new("no such word");
    asked.limits.names = 3;
    let mut costs = Vec::new();
    for range in [0..10, 10..1000] {
        let files: Vec<String> = range.map(|number| format!("/d/{number:04}")).collect();
        let files: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "some text\n")).collect();
        write(&inner, &files).await;
        counting.names_since();
        counting.bytes_since();
        assert!(grep(&fs, &asked).await.next.is_some());
        costs.push((counting.names_since(), counting.bytes_since()));
    }
    assert_eq!(costs[0], costs[1]);
}

#[tokio::test]
async fn stop_ends_a_page_after_a_step() {
    let fs = memory();
    let text = "a line\n".repeat(500_000);
    write(&fs, &[("/long", text.as_str()), ("/short", "needle\n")]).await;
    let steps = AtomicUsize::new(0);
    let stop = || steps.fetch_add(1, Ordering::Relaxed) >= 1;
    let mut asked = Grep::new("needle");
    let (mut pages, mut found) = (0, 0);
    loop {
        steps.store(0, Ordering::Relaxed);
        let page = Files::new(&fs).until(&stop).grep(&asked).await.unwrap();
        assert!(steps.load(Ordering::Relaxed) <= 2);
        (pages, found) = (pages + 1, found + page.matches);
        asked.cursor = page.next;
        if asked.cursor.is_none() {
            break;
        }
    }
    // 3.5 MB, and 128 KiB between two questions of a page.
    assert!(pages > 20 && pages < 40, "{pages}");
    assert_eq!(found, 1);
}

#[tokio::test]
async fn binary_files_are_named() {
    let fs = memory();
    // The NUL is in the second part of 1 MiB.
    let late = format!("needle\n{}\nneedle\n\0\nneedle\n", "x".repeat(1 << 20));
    write(
        &fs,
        &[("/bin", "needle\n\0needle"), ("/late", late.as_str()), ("/quiet", "\0"), ("/text", "needle\n")],
    )
    .await;
    let mut asked = Grep::new("needle");
    let of = |files: &[FoundFile]| -> Vec<(String, bool, usize)> {
        files.iter().map(|file| (file.path.clone(), file.binary, file.lines.len())).collect()
    };
    let due = |lines: &[(&str, bool, usize)]| -> Vec<(String, bool, usize)> {
        lines.iter().map(|(path, binary, lines)| ((*path).to_owned(), *binary, *lines)).collect()
    };
    let whole = unlimited(&fs, &asked).await;
    assert_eq!(of(&whole), due(&[("/bin", true, 0), ("/late", true, 1), ("/text", false, 1)]));
    asked.binary = BinaryFiles::Skip;
    let whole = unlimited(&fs, &asked).await;
    assert_eq!(of(&whole), due(&[("/late", false, 1), ("/text", false, 1)]));
    asked.binary = BinaryFiles::Text;
    let whole = unlimited(&fs, &asked).await;
    assert_eq!(of(&whole), due(&[("/bin", false, 2), ("/late", false, 3), ("/text", false, 1)]));
    for binary in [BinaryFiles::Name, BinaryFiles::Skip, BinaryFiles::Text] {
        for show in [Show::Lines, Show::Counts, Show::Files, Show::FilesWithout] {
            (asked.binary, asked.show, asked.limits) = (binary, show, Limits::default());
            let whole = unlimited(&fs, &asked).await;
            (asked.limits.bytes, asked.limits.read) = (1, 1);
            assert_eq!(joined(pages(&fs, &asked).await), whole, "{binary:?} {show:?}");
        }
    }
}

#[tokio::test]
async fn lines_around_a_match_end_before_binary_parts() {
    let fs = memory();
    // The first part ends with the second match; the next one has a NUL.
    let filler = "x".repeat((1 << 20) - 2 * "needle\n".len() - 1);
    let text = format!("needle\n{filler}\nneedle\na\0b\nneedle\n");
    write(&fs, &[("/a", text.as_str())]).await;
    let mut asked = Grep::new("needle");
    asked.after = 2;
    let whole = unlimited(&fs, &asked).await;
    let numbers: Vec<u64> = whole[0].lines.iter().map(|(number, ..)| *number).collect();
    assert_eq!((numbers, whole[0].binary), (vec![1, 2, 3], true));
    asked.limits.bytes = 1;
    assert_eq!(joined(pages(&fs, &asked).await), whole);
}

#[tokio::test]
async fn too_long_a_line_is_an_error_of_its_file() {
    let fs = memory();
    fs.write("/a", vec![b'x'; MAX_LINE + (2 << 20)]).await.unwrap();
    fs.write("/b", "xx\n").await.unwrap();
    let mut asked = Grep::new("xx");
    asked.max_line = 1;
    let whole = unlimited(&fs, &asked).await;
    assert_eq!((whole[0].path.as_str(), whole[0].error), ("/a", Some(ErrorKind::TooLarge)));
    assert_eq!(whole[1].lines, [(1, "x".to_owned(), true, false)]);
}

#[tokio::test]
async fn limit_on_searched_lines_is_exact() {
    let fs = memory();
    write(&fs, &[("/a", "xx\nyyyyy\nxx\n"), ("/b", "xx\n")]).await;
    let mut asked = Grep::new("xx");
    for (longest, matches) in [(5, 3), (4, 2)] {
        asked.longest_line = longest;
        let page = grep(&fs, &asked).await;
        assert_eq!((page.matches, page.files[0].error.is_some()), (matches, longest == 4));
    }
}

#[tokio::test]
async fn limit_on_compiled_expressions_refuses_large_ones() {
    let fs = memory();
    write(&fs, &[("/a", "aaaa\n")]).await;
    let mut asked = Grep::new("(?:[ab]{100}){100}");
    assert_eq!(grep(&fs, &asked).await.matches, 0);
    asked.max_compiled = 64 << 10;
    let error = Files::new(&fs).grep(&asked).await.unwrap_err();
    assert!(
        error.is(ErrorKind::InvalidArgument) && error.message().contains("exceeds size limit"),
        "{error}"
    );
}

#[tokio::test]
async fn limit_on_steps_ends_the_search_of_a_file() {
    let fs = memory();
    write(&fs, &[("/a", "xxb\nxxxxxxxxxxxxxxxxxxxxb\nxxb\n"), ("/b", "xxb\n")]).await;
    let mut asked = Grep::new("x{0,9}b");
    assert_eq!(grep(&fs, &asked).await.matches, 4);
    asked.max_steps = Some(1000);
    let page = grep(&fs, &asked).await;
    assert_eq!((page.matches, page.files[0].error.is_some()), (4, false));
    asked.max_steps = Some(150);
    let page = grep(&fs, &asked).await;
    let error = page.files[0].error.as_ref().unwrap();
    assert!(error.is(ErrorKind::TooLarge) && error.message().contains("line of 21 bytes"), "{error}");
    assert_eq!((page.files[0].matches, page.files[1].matches), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn page_continues_in_the_version_of_the_page_before() {
    each(async |fs: Fs| {
        write(&fs, &[("/a", "one\ntwo\nthree\n"), ("/b", "one\n")]).await;
        let mut asked = Grep::new("^t|^o");
        asked.limits.bytes = 1;
        let first = grep(&fs, &asked).await;
        asked.cursor.clone_from(&first.next);
        write(&fs, &[("/a", "tea\n"), ("/b", "tin\n")]).await;
        fs.remove("/a").await.unwrap();
        let rest = pages(&fs, &asked).await;
        let all = joined([vec![first], rest].concat());
        let texts: Vec<&str> =
            all.iter().flat_map(|file| &file.lines).map(|(_, text, ..)| text.as_str()).collect();
        assert_eq!(texts, ["one", "two", "three", "tin"]);
    })
    .await;
}

#[tokio::test]
async fn changed_file_of_a_plain_folder_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "one\ntwo\n").unwrap();
    std::fs::write(folder.path().join("b"), "one\n").unwrap();
    let fs: Fs = HostFs::open(folder.path(), Mode::ReadOnly, Env::system()).unwrap();
    let mut asked = Grep::new("o");
    asked.limits.bytes = 1;
    let first = grep(&fs, &asked).await;
    asked.cursor.clone_from(&first.next);
    assert_eq!(joined(pages(&fs, &asked).await).len(), 2);
    std::fs::write(folder.path().join("a"), "one\nand another\n").unwrap();
    let rest = joined(pages(&fs, &asked).await);
    assert_eq!((rest[0].error, rest[1].path.as_str()), (Some(ErrorKind::Conflict), "/b"));
}

#[tokio::test(flavor = "multi_thread")]
async fn past_and_part_of_the_tree_are_searched() {
    each(async |fs: Fs| {
        write(&fs, &[("/d/a", "old\n"), ("/e/a", "old\n")]).await;
        let seq = fs.head().await.unwrap().seq;
        write(&fs, &[("/d/a", "new\n")]).await;
        fs.apply(Op::symlink(path("/l"), "d")).await.unwrap();
        let mut asked = Grep::new("old|new").below("/l/../d");
        assert_eq!(found(&fs, &asked).await, ["/d/a:1:new"]);
        asked.path = "/l".to_owned();
        assert_eq!(found(&fs, &asked).await, ["/d/a:1:new"]);
        asked.path = "/".to_owned();
        asked.at = Some(Moment::Seq(seq));
        assert_eq!(found(&fs, &asked).await, ["/d/a:1:old", "/e/a:1:old"]);
        let scope = Scope::open(&*fs, &path("/d")).await.unwrap();
        assert_eq!(found(&scope, &asked).await, ["/a:1:old"]);
    })
    .await;
}

#[tokio::test]
async fn cursor_of_another_search_is_refused() {
    let fs = memory();
    write(&fs, &[("/a", "x\nx\n"), ("/b", "x\n")]).await;
    let mut asked = Grep::new("x");
    asked.limits.bytes = 1;
    let next = grep(&fs, &asked).await.next;
    assert!(next.is_some());
    asked.cursor.clone_from(&next);
    asked.limits = Limits::default();
    assert_eq!(grep(&fs, &asked).await.files.len(), 2, "limits may differ");
    let changes: [fn(&mut Grep); 6] = [
        |asked| asked.expressions.push("y".to_owned()),
        |asked| asked.path = "/a".to_owned(),
        |asked| asked.before = 1,
        |asked| asked.include.push("a".to_owned()),
        |asked| asked.show = Show::Counts,
        |asked| asked.cursor = Some("YQ".to_owned()),
    ];
    for change in changes {
        let mut other = asked.clone();
        change(&mut other);
        let error = Files::new(&fs).grep(&other).await.unwrap_err();
        assert!(error.is(ErrorKind::InvalidArgument), "{error}");
    }
}
