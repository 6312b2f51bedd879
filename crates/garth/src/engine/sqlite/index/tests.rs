//! The index: whatever happens to files, it answers like one made afresh, and costs
//! in proportion to what changed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proptest::prelude::*;
use rusqlite::Connection;

use crate::engine::sqlite::index::fts::{self, Change, Found};
use crate::engine::sqlite::index::verify::{self, Fault};
use crate::engine::sqlite::schema::FORMAT_1;
use crate::model::Ino;
use crate::text::{Edit, Question};

type Files = BTreeMap<Ino, Vec<u8>>;

fn read(files: &Files, ino: Ino, range: Range<u64>) -> Vec<u8> {
    let content = &files[&ino];
    let end = (range.end as usize).min(content.len());
    content[(range.start as usize).min(end)..end].to_vec()
}

struct Index {
    conn: Connection,
    files: Files,
}

impl Index {
    fn new() -> Self {
        let conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(FORMAT_1).unwrap();
        Self { conn, files: Files::new() }
    }

    fn of(files: &Files) -> Self {
        let mut index = Self::new();
        index.files = files.clone();
        for (ino, content) in files {
            index.apply(&[change(*ino, Edit::replace(0, content.len() as u64))]);
        }
        index
    }

    fn apply(&self, changes: &[Change<'_>]) {
        let read = &mut |ino, range| Ok(read(&self.files, ino, range));
        fts::apply(&self.conn, changes, read).unwrap();
    }

    fn put(&mut self, ino: u64, content: &[u8]) {
        let old = self.files.insert(Ino(ino), content.to_vec()).unwrap_or_default();
        self.apply(&[change(Ino(ino), Edit::replace(old.len() as u64, content.len() as u64))]);
    }

    fn append(&mut self, ino: u64, content: &[u8]) {
        let file = self.files.entry(Ino(ino)).or_default();
        let edit = Edit::write(file.len() as u64, content.len() as u64, file.len() as u64);
        file.extend_from_slice(content);
        self.apply(&[change(Ino(ino), edit)]);
    }

    fn search(&self, text: &str) -> Vec<Found<()>> {
        let Some(question) = Question::parse(text) else { return Vec::new() };
        fts::search(&self.conn, &question, 1000, &mut |_| Ok(Some(()))).unwrap()
    }

    fn matching(&self, text: &str) -> BTreeSet<u64> {
        self.search(text).iter().map(|found| found.passage.ino.0).collect()
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = verify::index(&self.conn).unwrap();
        for (ino, content) in &self.files {
            let read = &mut |range| Ok(read(&self.files, *ino, range));
            faults.extend(verify::file(&self.conn, *ino, true, None, content.len() as u64, read).unwrap());
        }
        faults
    }

    fn count(&self, sql: &str) -> i64 {
        self.conn.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

fn change(ino: Ino, edit: Edit) -> Change<'static> {
    Change { ino, searchable: true, content_type: None, edit }
}

const WORDS: [&str; 8] = ["anchor", "biscuit", "candle", "drömmen", "engine", "forest", "東京", "guitar"];

#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<u8>),
    Append(Vec<u8>),
    Truncate(usize),
    Replace(Vec<u8>),
}

/// Words, mostly; lines, or none; now and then bytes that are no text.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let word = (0..WORDS.len()).prop_map(|word| WORDS[word].as_bytes().to_vec());
    let piece = prop_oneof![
        30 => (word, prop::sample::select(vec![" ", "\n", ".\n\n", ", ", ""]))
            .prop_map(|(word, end)| [&word, end.as_bytes()].concat()),
        20 => "[xyz]{1,40}[ \n]".prop_map(String::into_bytes),
        2 => "[xyz ]{200,900}\n".prop_map(String::into_bytes),
        1 => Just(vec![0xc3]),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

fn step() -> impl Strategy<Value = (u64, Step)> {
    let step = prop_oneof![
        3 => (0_usize..20_000, content()).prop_map(|(at, bytes)| Step::Write(at, bytes)),
        4 => content().prop_map(Step::Append),
        1 => content().prop_map(|mut bytes| { bytes.push(b'\n'); Step::Append(bytes) }),
        2 => (0_usize..12_000).prop_map(Step::Truncate),
        1 => content().prop_map(Step::Replace),
    ];
    (1_u64..4, step)
}

fn perform(content: &mut Vec<u8>, step: &Step) -> Edit {
    let old = content.len() as u64;
    match step {
        Step::Write(at, bytes) => {
            // Mostly inside or at the end; a hole makes most files no text.
            let at = if at % 7 == 0 { *at } else { at % (content.len() + 1) };
            if !bytes.is_empty() {
                content.resize(content.len().max(at + bytes.len()), 0);
                content[at..at + bytes.len()].copy_from_slice(bytes);
            }
            Edit::write(at as u64, bytes.len() as u64, old)
        }
        Step::Append(bytes) => {
            content.extend_from_slice(bytes);
            Edit::write(old, bytes.len() as u64, old)
        }
        Step::Truncate(to) => {
            let to = if to % 5 == 0 { *to } else { to % (content.len() + 1) };
            content.resize(to, 0);
            Edit::truncate(old, to as u64)
        }
        Step::Replace(bytes) => {
            bytes.clone_into(content);
            Edit::replace(old, bytes.len() as u64)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn after_any_edits_the_index_covers_the_files_and_answers_like_one_made_afresh(
        groups in prop::collection::vec(prop::collection::vec(step(), 1..5), 1..12)
    ) {
        let mut index = Index::new();
        for group in groups {
            let mut edits: BTreeMap<Ino, Edit> = BTreeMap::new();
            for (ino, step) in &group {
                let edit = perform(index.files.entry(Ino(*ino)).or_default(), step);
                edits.entry(Ino(*ino)).and_modify(|before| *before = before.then(edit)).or_insert(edit);
            }
            let changes: Vec<_> = edits.iter().map(|(ino, edit)| change(*ino, *edit)).collect();
            index.apply(&changes);
            prop_assert_eq!(index.faults(), vec![]);
        }
        let afresh = Index::of(&index.files);
        prop_assert_eq!(afresh.faults(), vec![]);
        for word in WORDS {
            prop_assert_eq!(index.matching(word), afresh.matching(word), "{}", word);
        }
    }

    #[test]
    fn no_question_is_an_error(text in prop_oneof![
        "\\PC{0,200}", any::<String>(), "([\"*():^+-]|NEAR|AND|OR|NOT| |text:|a){0,60}", ".{1900,2000}"
    ]) {
        let mut index = Index::new();
        index.put(1, b"text AND NEAR or not a question");
        for found in index.search(&text) {
            prop_assert!(found.score > 0.0 && found.score < 1.0);
        }
    }
}

#[test]
fn words_are_found_by_stem_without_accents_and_by_prefix_only_where_nothing_else_matches() {
    let mut index = Index::new();
    index.put(1, "The Crème was spreading".as_bytes());
    index.put(2, b"confirmations");
    assert_eq!(index.matching("creme spreads"), BTreeSet::from([1]));
    assert_eq!(index.matching("confirm"), BTreeSet::from([2]));
    assert_eq!(index.matching("confi"), BTreeSet::from([2]));
    assert_eq!(index.matching("confi creme"), BTreeSet::from([1]));
    assert_eq!(index.matching("nowhere"), BTreeSet::new());
}

#[test]
fn the_best_passage_of_each_allowed_file_is_found_best_first() {
    let mut index = Index::new();
    let filler = "plain filler words\n".repeat(300);
    index.put(1, format!("{filler}needle needle needle\n{filler}").as_bytes());
    index.put(2, format!("needle\n{filler}").as_bytes());
    index.put(3, b"needle needle needle needle needle");
    for other in 4..20 {
        index.put(other, filler.as_bytes());
    }
    let question = Question::parse("needle").unwrap();
    let mut asked = Vec::new();
    let mut allow = |ino: Ino| {
        asked.push(ino.0);
        Ok((ino.0 != 3).then_some("yes"))
    };
    let found = fts::search(&index.conn, &question, 10, &mut allow).unwrap();
    assert_eq!(asked, [3, 1, 2]);
    assert_eq!(found.iter().map(|found| found.passage.ino.0).collect::<Vec<_>>(), [1, 2]);
    assert!(found[0].score > found[1].score);
    let passage = &found[0].passage;
    let bytes = read(&index.files, passage.ino, passage.span.off..passage.span.end());
    assert!(String::from_utf8(bytes).unwrap().contains("needle"));
    let lines = fts::lines_of(&index.conn, passage).unwrap();
    assert!(lines.contains(&301), "{lines:?}");
}

#[test]
fn files_that_are_no_text_or_not_searchable_are_not_found() {
    let mut index = Index::new();
    index.put(1, b"visible needle");
    index.put(1, b"needle \0 binary");
    assert_eq!(index.matching("needle"), BTreeSet::new());
    index.append(1, b"needle");
    assert_eq!(index.matching("needle"), BTreeSet::new());
    index.put(1, b"needle again");
    assert_eq!(index.matching("needle"), BTreeSet::from([1]));
    let edit = Edit::replace(12, 12);
    index.apply(&[Change { ino: Ino(1), searchable: false, content_type: None, edit }]);
    assert_eq!(index.matching("needle"), BTreeSet::new());
    assert_eq!(index.count("SELECT count(*) FROM passage"), 0);
    index.apply(&[change(Ino(1), edit)]);
    assert_eq!(index.matching("needle"), BTreeSet::from([1]));
    assert_eq!(index.faults(), vec![]);
}

#[test]
fn an_append_of_a_line_leaves_the_passages_before_it_alone() {
    let mut index = Index::new();
    for line in 0..300 {
        index.append(1, format!("line number{line} of the journal\n").as_bytes());
    }
    assert_eq!(index.count("SELECT count(*) FROM passage"), 300);
    assert_eq!(index.count("SELECT max(id) FROM passage"), 300, "no row was made twice");
    assert_eq!(index.search("number217")[0].passage.line_feeds, 1);
    assert_eq!(index.faults(), vec![]);
}

#[test]
fn words_that_an_edit_joins_across_passages_are_found() {
    let mut index = Index::new();
    for line in ["sun\n", "flower\n", "pot"] {
        index.append(1, line.as_bytes());
    }
    assert_eq!(index.matching("sunflower"), BTreeSet::new());
    index.files.get_mut(&Ino(1)).unwrap()[..4].copy_from_slice(b"asun");
    index.apply(&[change(Ino(1), Edit::write(0, 4, 14))]);
    assert_eq!(index.matching("asunflower"), BTreeSet::from([1]), "behind the edit");
    index.append(1, b"hole");
    assert_eq!(index.matching("pothole"), BTreeSet::from([1]), "before the edit");
    assert_eq!(index.faults(), vec![]);
}

#[test]
fn the_index_of_ten_thousand_appends_is_smaller_than_what_was_appended() {
    let dir = tempfile::tempdir().unwrap();
    let conn = Connection::open(dir.path().join("index")).unwrap();
    conn.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").unwrap();
    conn.execute_batch(FORMAT_1).unwrap();
    let mut index = Index { conn, files: Files::new() };
    let mut seed = 1_u64;
    for line in 0..10_000 {
        let mut text = format!("{{\"line\":{line}");
        while text.len() < 198 {
            // About the spread of words in real notes: few are common, many are rare.
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let word = (f64::from((seed >> 40) as u32) / f64::from(1 << 24)).powi(3) * 5000.0;
            text.push_str(&format!(" word{}", word as u64));
        }
        text.truncate(198);
        index.append(1, format!("{text}}}\n").as_bytes());
    }
    let size = index.count("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size");
    assert!(size < 4_000_000, "{size} bytes for 2,000,000 appended");
    assert_eq!(index.matching("word4711"), BTreeSet::from([1]));
    assert_eq!(verify::index(&index.conn).unwrap(), vec![]);
}

#[test]
fn optimizing_removes_the_words_of_what_was_deleted() {
    let mut index = Index::new();
    index.put(1, b"forgettable secretword");
    index.put(2, b"other");
    index.put(1, b"harmless");
    fts::optimize(&index.conn).unwrap();
    let blocks = "SELECT count(*) FROM passage_text_data WHERE instr(block, CAST('secretword' AS BLOB)) > 0";
    assert_eq!(index.count(blocks), 0);
    assert_eq!(index.matching("harmless"), BTreeSet::from([1]));
    fts::clear(&index.conn).unwrap();
    assert_eq!(index.matching("harmless other"), BTreeSet::new());
    assert_eq!(verify::index(&index.conn).unwrap(), vec![]);
}

#[test]
fn every_kind_of_damage_is_found() {
    let text = "anchor biscuit candle\n".repeat(400);
    let damaged = |sql: &str| {
        let mut index = Index::new();
        index.put(1, text.as_bytes());
        index.put(2, b"small");
        assert_eq!(index.faults(), vec![]);
        index.conn.execute_batch(sql).unwrap();
        index.faults()
    };
    let last = "(SELECT max(id) FROM passage WHERE ino = 1)";
    let faults = damaged(&format!("DELETE FROM passage_text WHERE rowid = {last}"));
    assert!(matches!(faults[..], [Fault::WithoutText(_)]), "{faults:?}");
    let faults = damaged(&format!("DELETE FROM passage WHERE id = {last}"));
    assert!(matches!(faults[..], [Fault::WithoutPassage(_), Fault::Cover(Ino(1), _)]), "{faults:?}");
    let faults = damaged("UPDATE passage SET off = off + 1 WHERE ino = 2");
    assert_eq!(faults, [Fault::Cover(Ino(2), 0)]);
    let faults = damaged("UPDATE passage SET lines = lines + 1 WHERE ino = 2");
    assert_eq!(faults, [Fault::Stale(Ino(2), 0)]);
    let faults = damaged(
        "DELETE FROM passage_text WHERE rowid IN (SELECT id FROM passage WHERE ino = 2); DELETE FROM passage WHERE ino = 2",
    );
    assert_eq!(faults, [Fault::Presence(Ino(2))]);
    let faults = damaged("UPDATE passage_text_data SET block = zeroblob(length(block)) WHERE id > 10");
    assert!(matches!(faults[..], [Fault::Structure(_), ..]), "{faults:?}");

    let mut index = Index::new();
    index.put(1, b"before");
    index.files.insert(Ino(1), b"behind".to_vec());
    assert_eq!(index.faults(), [Fault::Stale(Ino(1), 0)], "an index behind its file");
    index.conn.execute_batch("PRAGMA query_only = ON").unwrap();
    assert_eq!(verify::index(&index.conn).unwrap(), vec![], "checking writes nothing");
    let files: u64 =
        index.conn.query_row("SELECT count(DISTINCT ino) FROM passage", [], |row| row.get(0)).unwrap();
    assert_eq!(files, 1);
}
