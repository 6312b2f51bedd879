//! Cutting, questions and snippets: pure functions that must hold for any input.

use proptest::prelude::*;

use crate::text::passage::{Edit, MAX, MAX_TEXT, Recut, SNIFF, Span, TARGET, cut, is_text, lines, recut};
use crate::text::question::STOP_WORDS;
use crate::text::{Question, snippet};

fn span(off: u64, len: u64, newline: bool) -> Span {
    Span { off, len, newline }
}

/// Text with all that cutting looks for: headings, blank lines, lines, sentences,
/// words, wide characters, none of it.
fn prose() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-zäß]{1,12} ",
        2 => "[a-z]{1,9}\\. ",
        2 => Just("\n".to_owned()),
        1 => Just("\n\n# Heading\n".to_owned()),
        1 => Just("東京都政府。".to_owned()),
        1 => "[a-z]{100,3000}",
        1 => "(é|😀|x){100,2000}",
        1 => "\\{\"k\":\"[a-z ]{10,900}\"\\}\n",
    ];
    prop::collection::vec(piece, 0..120).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn passages_cover_any_text_in_bounds_and_split_no_character(text in prose()) {
        let lengths = cut(text.as_bytes(), true);
        prop_assert_eq!(lengths.iter().sum::<usize>(), text.len());
        let mut at = 0;
        for length in lengths {
            prop_assert!((1..=MAX).contains(&length));
            at += length;
            prop_assert!(text.is_char_boundary(at));
        }
    }

    #[test]
    fn passages_cover_any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..20_000)) {
        let lengths = cut(&bytes, true);
        prop_assert_eq!(lengths.iter().sum::<usize>(), bytes.len());
        prop_assert!(lengths.iter().all(|length| (1..=MAX).contains(length)));
    }

    #[test]
    fn text_read_in_pieces_is_cut_like_the_whole(text in prose(), step in 1_usize..9_000) {
        let (mut held, mut lengths) = (Vec::new(), Vec::new());
        for piece in text.as_bytes().chunks(step) {
            held.extend_from_slice(piece);
            let done = cut(&held, false);
            prop_assert!(held.len() - done.iter().sum::<usize>() <= MAX);
            held.drain(..done.iter().sum::<usize>());
            lengths.extend(done);
        }
        lengths.extend(cut(&held, true));
        prop_assert_eq!(lengths, cut(text.as_bytes(), true));
    }

    #[test]
    fn a_snippet_is_short_and_of_the_passage(text in prose(), question in ".{1,60}") {
        let Some(question) = Question::parse(&question) else { return Ok(()) };
        let snippet = snippet(&text, &question);
        prop_assert!(snippet.len() <= 240 + 2 * "…".len());
        prop_assert!(!snippet.contains(char::is_control));
        let folded = text.split_whitespace().collect::<Vec<_>>().join(" ");
        prop_assert!(folded.contains(snippet.trim_matches('…')), "{snippet}");
    }

    #[test]
    fn a_snippet_of_anything_does_not_panic(passage in "\\PC{0,900}", question in "\\PC{0,90}") {
        if let Some(question) = Question::parse(&question) {
            snippet(&passage, &question);
        }
    }
}

#[test]
fn cuts_fall_before_headings_then_behind_blank_lines_then_lines_then_sentences() {
    let paragraph = format!("{}\n", "word ".repeat(159));
    let headed = format!("{paragraph}\n## Two\n{paragraph}\n{paragraph}{paragraph}{paragraph}");
    assert!(headed[cut(headed.as_bytes(), true)[0]..].starts_with("## Two"));
    let blank = format!("{paragraph}{paragraph}\n{}", "line\n".repeat(900));
    assert_eq!(cut(blank.as_bytes(), true)[0], 2 * paragraph.len() + 1);
    let record = format!("{{\"text\":\"{}\"}}\n", "x".repeat(1500));
    let last = 2 * record.len();
    assert_eq!(cut(record.repeat(4).as_bytes(), true), [record.len(), record.len(), last]);
    let sentence = "One two three four. ".repeat(400);
    for length in &cut(sentence.as_bytes(), true)[..2] {
        assert_eq!(length % "One two three four. ".len(), 0);
        assert!(*length <= TARGET);
    }
}

#[test]
fn text_is_utf8_without_nul_whatever_its_type_says() {
    assert!(is_text(b"", None));
    assert!(is_text("grün".as_bytes(), Some("application/octet-stream")));
    assert!(is_text(&"grü".as_bytes()[..3], None), "the last character may be cut off");
    assert!(!is_text(b"gr\xfcn", Some("text/plain")));
    assert!(!is_text(b"a\0b", Some("text/plain")));
    assert!(!is_text(b"P3 1 1 255", Some("Image/X-Portable-Pixmap; v=1")));
    assert!(is_text(b"<svg/>", Some("image/svg+xml; charset=utf-8")));
}

#[test]
fn an_append_to_whole_lines_cuts_its_own_bytes_only() {
    let old = [span(0, 2000, false), span(2000, 1000, true)];
    let only_new = Recut { drop: 2..2, region: 3000..3200 };
    assert_eq!(recut(&old, &Edit::write(3000, 200, 3000)), only_new);
    let old = [span(0, 2000, false), span(2000, 1000, false)];
    let with_last = Recut { drop: 1..2, region: 2000..3200 };
    assert_eq!(recut(&old, &Edit::write(3000, 200, 3000)), with_last);
}

#[test]
fn edits_inside_drop_what_they_touch_and_truncation_what_is_behind() {
    let old = [span(0, 100, true), span(100, 100, true), span(200, 100, true), span(300, 100, true)];
    assert_eq!(recut(&old, &Edit::write(110, 10, 400)), Recut { drop: 1..2, region: 100..200 });
    assert_eq!(recut(&old, &Edit::write(110, 90, 400)), Recut { drop: 1..3, region: 100..300 });
    assert_eq!(recut(&old, &Edit::write(200, 0, 400)), Recut { drop: 0..0, region: 200..200 });
    assert_eq!(recut(&old, &Edit::truncate(400, 250)), Recut { drop: 2..4, region: 200..250 });
    assert_eq!(recut(&old, &Edit::truncate(400, 200)), Recut { drop: 2..4, region: 200..200 });
    assert_eq!(recut(&old, &Edit::truncate(400, 500)), Recut { drop: 4..4, region: 400..500 });
    assert_eq!(recut(&old, &Edit::replace(400, 150)), Recut { drop: 0..4, region: 0..150 });
    assert_eq!(recut(&old, &Edit::write(600, 10, 400)), Recut { drop: 4..4, region: 400..610 });
}

#[test]
fn edits_join_into_one_that_covers_both() {
    let joined = Edit::write(100, 100, 1000).then(Edit::truncate(1000, 50)).then(Edit::write(80, 20, 50));
    assert_eq!(joined, Edit { start: 50, end: 100, old_size: 1000, new_size: 100 });
}

#[test]
fn lines_are_counted_from_one_and_end_excluded() {
    assert_eq!(lines(0, 0, false), 1..2);
    assert_eq!(lines(0, 2, true), 1..3);
    assert_eq!(lines(5, 2, false), 6..9);
}

#[test]
fn a_question_keeps_what_says_something() {
    let question = Question::parse("What's the boundary-layer, and who's THE Boundary?").unwrap();
    assert_eq!(question.terms(), ["boundary", "layer"]);
    assert_eq!(question.any_term(), r#""boundary" OR "layer""#);
    assert_eq!(question.any_prefix(), r#""boundary"* OR "layer"*"#);
    assert_eq!(Question::parse("who is that").unwrap().terms(), ["who", "is", "that"]);
    assert_eq!(Question::parse("?! \0 \"* 😀"), None);
}

#[test]
fn a_snippet_shows_where_most_words_are() {
    let far = "nothing to see here at all ".repeat(40);
    let text = format!("{far} running once. {far} The dog\nruns   to\0the river bank. {far}");
    let snippet = snippet(&text, &Question::parse("dogs running at rivers").unwrap());
    assert!(snippet.contains("The dog runs to the river bank."), "{snippet}");
    assert!(snippet.starts_with('…') && snippet.ends_with('…'));
}

#[test]
fn the_specification_lists_the_stop_words_and_limits() {
    let specification = include_str!("../../../../docs/specs/search.md");
    let (_, words) = specification.split_once("## Stop words\n\n```text\n").unwrap();
    let (words, _) = words.split_once("```").unwrap();
    assert!(words.split_whitespace().eq(STOP_WORDS.split_whitespace()));
    let limits = [("MAX_TEXT", MAX_TEXT), ("SNIFF", SNIFF), ("TARGET", TARGET as u64), ("MAX", MAX as u64)];
    for (name, value) in limits {
        let row = specification.lines().find(|line| line.starts_with(&format!("| `{name}` |"))).unwrap();
        assert_eq!(row.split('|').nth(2).unwrap().replace([',', ' '], ""), value.to_string(), "{name}");
    }
}
