//! The index returns the same results as a rebuilt one after any edits, and costs in proportion to the
//! change.

mod bounds;
mod edits;
mod everyday;
mod parts;
mod rounds;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proptest::prelude::*;
use rusqlite::Connection;

use crate::engine::search::local::Local;
use crate::engine::search::{Answer, Judge, MIN_SCORE, Passage, ROWS, SearchParams, Shown};
use crate::engine::sqlite::fulltext::index_writer::{self, Change};
use crate::engine::sqlite::fulltext::postings;
use crate::engine::sqlite::fulltext::verify::{self, Fault};
use crate::engine::sqlite::fulltext::{background, line_counts};
use crate::engine::sqlite::schema;
use crate::model::Ino;
use crate::sqlite::{DbError, DbResult};
use crate::text::meaning::share_in_english;
use crate::text::{Edit, Question, Tokenizer};

pub(super) type Files = BTreeMap<Ino, Vec<u8>>;

fn read(files: &Files, ino: Ino, range: Range<u64>) -> Vec<u8> {
    let content = &files[&ino];
    let end = (range.end as usize).min(content.len());
    content[(range.start as usize).min(end)..end].to_vec()
}

pub(super) struct Index {
    pub(super) conn: Connection,
    pub(super) files: Files,
}

impl Index {
    pub(super) fn new() -> Self {
        let conn = Connection::open_in_memory().unwrap();
        schema::make_tables(&conn);
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

    pub(super) fn apply(&self, changes: &[Change<'_>]) {
        let read = &mut |ino, range| Ok(read(&self.files, ino, range));
        index_writer::apply(&self.conn, changes, &mut Tokenizer::default(), read).unwrap();
    }

    pub(super) fn put(&mut self, ino: u64, content: &[u8]) {
        let old = self.files.insert(Ino(ino), content.to_vec()).unwrap_or_default();
        self.apply(&[change(Ino(ino), Edit::replace(old.len() as u64, content.len() as u64))]);
    }

    pub(super) fn append(&mut self, ino: u64, content: &[u8]) {
        let file = self.files.entry(Ino(ino)).or_default();
        let edit = Edit::write(file.len() as u64, content.len() as u64, file.len() as u64);
        file.extend_from_slice(content);
        self.apply(&[change(Ino(ino), edit)]);
    }

    fn ask(&self, text: &str, judge: &mut Counting) -> Answer<()> {
        let Some(question) = Question::parse(text) else { return Answer { found: Vec::new(), more: false } };
        let (per_file, neighbours) = (judge.per_file.max(1), !judge.alone);
        let meaning = judge.meaning;
        let asked = SearchParams { text, limit: 1000, per_file, neighbours, meaning, quick: false };
        let lookups = postings::Index::new(&self.conn).unwrap();
        Local::new(&lookups, judge).search(&question, asked).unwrap()
    }

    fn search(&self, text: &str) -> Answer<()> {
        self.ask(text, &mut Counting::default())
    }

    fn score(&self, text: &str) -> f64 {
        self.search(text).found.first().map_or(0.0, |found| found.words)
    }

    fn matching(&self, text: &str) -> BTreeSet<u64> {
        self.search(text).found.iter().map(|found| found.passage.ino.0).collect()
    }

    fn faults(&self) -> Vec<Fault> {
        let mut faults = verify::index(&self.conn).unwrap();
        for (ino, content) in &self.files {
            let read = &mut |range| Ok(read(&self.files, *ino, range));
            faults.extend(verify::file(&self.conn, *ino, true, None, content.len() as u64, read).unwrap());
        }
        faults
    }

    /// Returns the passages of all files.
    fn spans(&self) -> Vec<(u64, u64, u64)> {
        let sql = "SELECT ino, off, len FROM passage ORDER BY ino, off";
        crate::sqlite::all(&self.conn, sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap()
    }

    fn count(&self, sql: &str) -> i64 {
        self.conn.query_row(sql, [], |row| row.get(0)).unwrap()
    }
}

/// Allows all files, or some, and counts its calls.
#[derive(Default)]
struct Counting {
    rows: usize,
    asked: Vec<u64>,
    refused: Vec<u64>,
    /// The nodes that the query is limited to.
    within: Option<Vec<u64>>,
    /// Passages wanted of each file; 0 for one.
    per_file: usize,
    /// True if all text of files is withheld.
    withholds: bool,
    /// True if passages gain nothing from their neighbours.
    alone: bool,
    /// True if the meaning of passages counts.
    meaning: bool,
    /// Number of passages whose text was read.
    compared: usize,
}

impl Judge for Counting {
    type Error = DbError;
    type File = ();

    fn allow(&mut self, inos: &[Ino]) -> DbResult<Vec<Option<()>>> {
        self.asked.extend(inos.iter().map(|ino| ino.0));
        let is_inside = |ino: &Ino| self.within.as_ref().is_none_or(|within| within.contains(&ino.0));
        let is_allowed = |ino: &Ino| is_inside(ino) && !self.refused.contains(&ino.0);
        Ok(inos.iter().map(|ino| is_allowed(ino).then_some(())).collect())
    }

    fn shows(&mut self, passages: &[(&(), &Passage)]) -> DbResult<Vec<Shown>> {
        let shown = if self.withholds { Shown::Nothing } else { Shown::All };
        Ok(vec![shown; passages.len()])
    }

    fn texts(&mut self, files: &[((), Vec<Passage>)]) -> DbResult<Vec<String>> {
        let passages: usize = files.iter().map(|(_, passages)| passages.len()).sum();
        self.compared += passages;
        Ok(vec![String::new(); passages])
    }

    fn is_limited(&self) -> bool {
        self.within.is_some()
    }

    fn below(&mut self, limit: usize) -> DbResult<Option<(Vec<u64>, bool)>> {
        let Some(within) = &self.within else { return Ok(None) };
        let some: Vec<u64> = within.iter().copied().take(limit).collect();
        self.rows += some.len();
        let all = some.len() == within.len();
        Ok(Some((some, all)))
    }

    fn step(&mut self) -> DbResult<()> {
        self.rows += 1;
        Ok(())
    }
}

pub(super) fn change(ino: Ino, edit: Edit) -> Change<'static> {
    Change { ino, searchable: true, content_type: None, edit }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn search_accepts_any_question(text in prop_oneof![
        "\\PC{0,200}", any::<String>(), "([\"*():^+-]|NEAR|AND|OR|NOT| |text:|a){0,60}", ".{1900,2000}"
    ]) {
        let mut index = Index::new();
        index.put(1, b"text AND NEAR or not a question");
        for found in index.search(&text).found {
            prop_assert!(found.words > 0.0 && found.words + found.neighbours <= 1.0);
        }
    }
}

#[test]
fn search_ignores_accents_and_falls_back_to_prefixes() {
    let mut index = Index::new();
    index.put(1, "The Crème was spreading".as_bytes());
    index.put(2, b"confirmations");
    assert_eq!(index.matching("creme spreads"), BTreeSet::from([1]));
    assert_eq!(index.matching("confirm"), BTreeSet::from([2]));
    assert_eq!(index.matching("confi"), BTreeSet::from([2]));
    // One word matches, so beginnings of words are not tried.
    assert_eq!(index.matching("confi creme"), BTreeSet::from([1]));
    assert_eq!(index.matching("nowhere"), BTreeSet::new());
}

#[test]
fn search_returns_best_passages_of_allowed_files() {
    let mut index = Index::new();
    let filler = "plain filler words\n".repeat(300);
    index.put(1, format!("{filler}needle needle needle\n{filler}").as_bytes());
    index.put(2, format!("needle\n{filler}").as_bytes());
    index.put(3, b"needle needle needle needle needle");
    for other in 4..20 {
        index.put(other, filler.as_bytes());
    }
    let mut judge = Counting { refused: vec![3], ..Counting::default() };
    let found = index.ask("needle", &mut judge).found;
    judge.asked.sort_unstable();
    assert_eq!(judge.asked, [1, 2, 3]);
    assert_eq!(found.iter().map(|found| found.passage.ino.0).collect::<Vec<_>>(), [1, 2]);
    let passage = &found[0].passage;
    let bytes = read(&index.files, passage.ino, passage.span.off..passage.span.end());
    assert!(String::from_utf8(bytes).unwrap().contains("needle"));
    let lines = line_counts::of(&index.conn, passage).unwrap();
    assert!(lines.contains(&301), "{lines:?}");
}

#[test]
fn per_file_limit_is_kept_and_judged_once() {
    let mut index = Index::new();
    let part = |words: &str| format!("{words}\n{}", "plain filler words\n".repeat(120));
    let long: String = ["needle", "needle needle", "needle needle needle", "none"].map(part).concat();
    index.put(1, long.as_bytes());
    index.put(2, part("needle").as_bytes());
    index.put(3, long.as_bytes());
    let found = |per_file| {
        let mut judge = Counting { refused: vec![3], per_file, ..Counting::default() };
        let answer = index.ask("needle", &mut judge);
        judge.asked.sort_unstable();
        assert_eq!(judge.asked, [1, 2, 3], "each file once");
        let passages: BTreeSet<_> = answer.found.iter().map(|found| found.passage.id).collect();
        assert_eq!(passages.len(), answer.found.len(), "each passage once");
        answer.found.iter().map(|found| found.passage.ino.0).collect::<Vec<_>>()
    };
    assert_eq!(found(1), [1, 2]);
    assert_eq!(found(2), [1, 1, 2]);
    assert_eq!(found(20), [1, 1, 1, 2]);
}

#[test]
fn binary_and_unsearchable_files_are_not_found() {
    let mut index = Index::new();
    index.put(1, b"visible needle");
    index.put(1, b"needle \0 binary");
    assert_eq!(index.matching("needle"), BTreeSet::new());
    // The first bytes stay binary.
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
fn line_append_keeps_earlier_passages() {
    let mut index = Index::new();
    for line in 0..300 {
        let record = format!("{{\"text\": \"number{line} {}\"}}\n", "of the journal ".repeat(6));
        index.append(1, record.as_bytes());
    }
    assert_eq!(index.count("SELECT count(*) FROM passage"), 300);
    assert_eq!(index.count("SELECT max(id) FROM passage"), 300, "no row was made twice");
    assert_eq!(index.search("number217").found[0].passage.line_feeds, 1);
    assert_eq!(index.faults(), vec![]);
}

#[test]
fn finds_words_joined_across_passages() {
    let mut index = Index::new();
    // The edit replaces the line feed between the first two.
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
fn index_of_many_appends_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let conn = Connection::open(dir.path().join("index")).unwrap();
    conn.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF").unwrap();
    schema::make_tables(&conn);
    let mut index = Index { conn, files: Files::new() };
    let mut seed = 1_u64;
    for line in 0..10_000 {
        let mut text = format!("{{\"line\":{line}");
        while text.len() < 198 {
            // As in real notes: few words are common, many are rare.
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
fn optimizing_removes_words_of_deleted_text() {
    let mut index = Index::new();
    index.put(1, b"forgettable secretword");
    index.put(2, b"other");
    index.put(1, b"harmless");
    index_writer::optimize(&index.conn).unwrap();
    // FTS5 stores words as plain bytes in its blocks.
    let blocks = "SELECT count(*) FROM passage_word_data WHERE instr(block, CAST('secretword' AS BLOB)) > 0";
    assert_eq!(index.count(blocks), 0);
    assert_eq!(index.matching("harmless"), BTreeSet::from([1]));
    background::clear(&index.conn).unwrap();
    assert_eq!(index.matching("harmless other"), BTreeSet::new());
    assert_eq!(verify::index(&index.conn).unwrap(), vec![]);
}

#[test]
fn verify_reports_every_kind_of_damage() {
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
    let faults = damaged(&format!("DELETE FROM passage_word WHERE rowid = {last}"));
    assert!(matches!(faults[..], [Fault::WithoutText(_)]), "{faults:?}");
    let faults = damaged(&format!("DELETE FROM passage WHERE id = {last}"));
    assert!(matches!(faults[..], [Fault::WithoutPassage(_), Fault::Cover(Ino(1), _)]), "{faults:?}");
    let faults = damaged("UPDATE passage SET off = off + 1 WHERE ino = 2");
    assert_eq!(faults, [Fault::Cover(Ino(2), 0)]);
    let faults = damaged("UPDATE passage SET lines = lines + 1 WHERE ino = 2");
    assert_eq!(faults, [Fault::Stale(Ino(2), 0)]);
    let faults = damaged("UPDATE passage SET json = 1 WHERE ino = 2");
    assert_eq!(faults, [Fault::Stale(Ino(2), 0)]);
    let faults = damaged("INSERT INTO passage_lines VALUES (2, 0, 17)");
    assert_eq!(faults, [Fault::Lines(Ino(2), 0)]);
    let faults = damaged(
        "DELETE FROM passage_word WHERE rowid IN (SELECT id FROM passage WHERE ino = 2); DELETE FROM passage WHERE ino = 2",
    );
    assert_eq!(faults, [Fault::Presence(Ino(2))]);
    let faults = damaged("UPDATE passage_word_data SET block = zeroblob(length(block)) WHERE id > 10");
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

#[test]
fn score_is_the_matched_share_of_the_question() {
    let mut index = Index::new();
    for file in 1..=100 {
        let common = if file % 2 == 0 { "common" } else { "other" };
        index.put(file, format!("{common} word{file} heron").as_bytes());
    }
    let near =
        |score: f64, expected: f64| assert!((score - expected).abs() < 1e-9, "{score} is not {expected}");
    near(index.score("word7"), 1.0);
    near(index.score("common"), 1.0);
    near(index.score("heron"), 1.0);
    near(index.score("heron common word8"), 1.0);
    // The weight of a term that `passages` of the 100 contain, and of another 20 of general English. An
    // unknown term counts as half a passage.
    let weight = |passages: f64| (1.0_f64 + 120.0 / passages).ln();
    let common = weight(50.0 + 20.0 * share_in_english("common").unwrap());
    near(index.score("word7 common"), weight(1.0) / (weight(1.0) + common));
    near(index.score("word7 word777"), weight(1.0) / (weight(1.0) + weight(0.5)));
    near(index.score("hero"), 0.5);
    let nonsense: String = (0..20).map(|n| format!("zq{n}x ")).collect();
    assert_eq!(index.search(&format!("{nonsense} heron")).found, [], "below {MIN_SCORE}");
    // Among equals the one with the higher frequency, then the newest.
    index.put(200, b"heron heron heron, word");
    assert_eq!(index.search("heron").found[0].passage.ino.0, 200);
    index.put(201, b"word7");
    index.put(202, b"word7");
    assert_eq!(
        index.search("word7").found.iter().map(|it| it.passage.ino.0).collect::<Vec<_>>(),
        [202, 201, 7]
    );
}

#[test]
fn json_escapes_are_decoded_for_search() {
    let mut index = Index::new();
    let list = br#""Shopping list:\nmilk\nbread""#;
    index.put(1, list);
    index.put(2, br#"{"caf\u00e9": {"t\u00fcr": "\ud83d\ude00 gr\u00fc\u00df dich"}}"#);
    index.put(3, b"C:\\new\\table is a path");
    for (question, file) in
        [("milk", 1), ("bread list", 1), ("caf\u{e9}", 2), ("tur", 2), ("GR\u{dc}SS", 2), ("new", 3)]
    {
        assert_eq!(index.matching(question), BTreeSet::from([file]), "{question}");
    }
    let found = &index.search("bread").found[0].passage;
    assert_eq!((found.span.off, found.span.len), (0, list.len() as u64));
    assert_eq!(line_counts::of(&index.conn, found).unwrap(), 1..2);
    // Records are appended far after the first bytes, which alone tell that it is JSON.
    for record in 0..200 {
        index.append(4, format!("{{\"text\": \"line\\nnumber{record} {}\"}}\n", "x".repeat(90)).as_bytes());
    }
    let found = &index.search("number150").found[0].passage;
    assert_eq!(line_counts::of(&index.conn, found).unwrap(), 151..152);
    assert_eq!(index.faults(), vec![]);
    // A file that was JSON is text as written once its beginning is not JSON.
    index.files.get_mut(&Ino(4)).unwrap()[..1].copy_from_slice(b"x");
    let size = index.files[&Ino(4)].len() as u64;
    index.apply(&[change(Ino(4), Edit::write(0, 1, size))]);
    assert_eq!(index.matching("number150"), BTreeSet::new());
    assert_eq!(index.matching("nnumber150"), BTreeSet::from([4]));
    assert_eq!(index.faults(), vec![]);
}

/// Returns an index of passages, each of a file of its own, which all contain `words`; ten of them also
/// contain `rare`.
fn crowd(passages: u64, words: &str) -> Index {
    let index = Index::new();
    let fill = format!(
        "WITH RECURSIVE n (id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n WHERE id < {passages})
         INSERT INTO passage SELECT id, id, 0, 10, 0, 0, 0, 0, 0 FROM n;
         INSERT INTO passage_word (rowid, tokens)
             SELECT id, '{words} file' || id || iif(id % {} = 0, ' rare', '') FROM passage;",
        passages / 10
    );
    index.conn.execute_batch(&fill).unwrap();
    index
}

/// Returns a record of 100 bytes, which is a passage.
fn record(text: &str) -> String {
    format!("{:99}\n", format!("{{\"text\": \"{text}\"}}"))
}

#[test]
fn passage_gains_from_neighbours_in_its_file() {
    let mut index = Index::new();
    for line in ["the trip to Lisbon", "yes, the deposit is paid", "something else", "Lisbon again"] {
        index.append(1, record(line).as_bytes());
    }
    index.put(2, record("the trip to Lisbon").as_bytes());
    index.put(3, record("yes, the deposit is paid").as_bytes());
    for other in 10..30 {
        index.put(other, b"nothing of the kind");
    }
    let ask = |question: &str, alone| {
        let mut judge = Counting { per_file: 20, alone, ..Counting::default() };
        let found = index.ask(question, &mut judge).found;
        let places = found.iter().map(|it| (it.passage.ino.0, it.passage.span.off)).collect::<Vec<_>>();
        (places, found, judge.rows)
    };
    let (places, found, rows) = ask("deposit Lisbon", false);
    assert_eq!(BTreeSet::from_iter(&places[..2]), BTreeSet::from([&(1, 0), &(1, 100)]), "each has the other");
    assert!((found[0].words + found[0].neighbours - 0.5 * (1.0 + found[0].words)).abs() < 1e-9, "{found:?}");
    let others = found.iter().filter(|it| it.passage.ino.0 != 1 || it.passage.span.off > 100);
    assert_eq!(others.clone().count(), 3);
    // The last line of the file has neither beside it, but elsewhere in the file.
    let gained =
        |ino| others.clone().filter(|it| it.passage.ino.0 == ino).map(|it| it.neighbours).sum::<f64>();
    assert!(gained(1) > 0.0 && gained(1) < found[0].neighbours, "{found:?}");
    assert_eq!((gained(2), gained(3)), (0.0, 0.0));
    let (places, found, alone) = ask("deposit Lisbon", true);
    let place = |wanted| places.iter().position(|place| *place == wanted).unwrap();
    assert!(place((3, 0)) < place((1, 100)), "of equal ones the newest");
    assert!(found.iter().all(|it| it.neighbours == 0.0));
    assert_eq!(rows, alone, "neighbours cost no row");
    let (_, found, _) = ask("trip Lisbon", false);
    assert!(found.iter().all(|it| it.words + it.neighbours <= 1.0), "a word that both hold counts once");
    assert_eq!((found[0].words, found[0].neighbours), (1.0, 0.0));
}

#[test]
fn per_file_and_neighbours_read_no_more_rows() {
    let rows = |passages: u64, per_file, alone| {
        let index = crowd(passages, "heron");
        // The passages of ten files, one after the other.
        let sql = "UPDATE passage SET off = 10 * id, ino = id % 10 + 1";
        index.conn.execute_batch(sql).unwrap();
        let mut judge = Counting { per_file, alone, ..Counting::default() };
        let found = index.ask("rare heron", &mut judge).found.len();
        assert!(found >= per_file, "{found}");
        judge.rows
    };
    let base = rows(2_000, 1, true);
    assert_eq!(rows(2_000, 1, false), base);
    assert_eq!(rows(2_000, 20, false), base);
    // Ten rare ones in both.
    assert!(rows(4_000, 20, false) <= 2 * base + 100);
}

fn rows(index: &Index, question: &str, within: Option<Vec<u64>>) -> usize {
    let mut judge = Counting { within, ..Counting::default() };
    index.ask(question, &mut judge);
    judge.rows
}

#[test]
fn common_words_do_not_increase_rows_read() {
    let words: String = (0..60).map(|n| format!(" heron{n}")).collect();
    // Both are more than a search examines for 60 words.
    let sizes = [1_500, 6_000].map(|passages| crowd(passages, &words));
    for (question, within) in [
        (words.clone(), None),
        (format!("rare {words}"), None),
        (format!("file77 {words}"), Some((70..90).collect::<Vec<_>>())),
        (words.clone(), Some((70..90).collect())),
    ] {
        let [small, large] = sizes.each_ref().map(|index| rows(index, &question, within.clone()));
        assert!(large <= small + small / 10 + 40, "{large} rows instead of {small}: {within:?}");
        assert!(small <= 2 * ROWS);
    }
}

#[test]
fn finds_common_word_in_small_subtree() {
    let index = crowd(3_000, "heron");
    let mut judge = Counting { within: Some((70..90).collect()), ..Counting::default() };
    let answer = index.ask("heron", &mut judge);
    assert_eq!(answer.found.len(), 20);
    assert!(!answer.more);
    assert!(judge.asked.iter().all(|ino| (70..90).contains(ino)), "only what lies there is looked at");
    let mut judge = Counting { within: Some((290..310).collect()), ..Counting::default() };
    assert_eq!(index.ask("rare heron", &mut judge).found[0].passage.ino.0, 300);
}

#[test]
fn overly_common_word_finds_newest_passages() {
    let all = ROWS as u64 + 500;
    let index = crowd(all, "heron");
    let mut judge = Counting::default();
    let answer = index.ask("heron", &mut judge);
    assert!(answer.more);
    assert_eq!(answer.found[0].passage.ino.0, all);
    assert!((answer.found[0].words - 1.0).abs() < 1e-9);
    assert!(judge.rows <= ROWS + 5_000, "{}", judge.rows);
}

#[test]
fn line_numbers_of_hits_survive_edits() {
    let mut index = Index::new();
    let mut text = String::new();
    for line in 0..60_000 {
        text.push_str(&format!("line number{line} of the journal\n"));
    }
    index.put(1, text.as_bytes());
    let line = |index: &Index, word: &str| {
        let found = index.search(word).found;
        let span = line_counts::of(&index.conn, &found[0].passage).unwrap();
        let file = &index.files[&Ino(1)];
        let at = found[0].passage.span.off as usize;
        assert_eq!(span.start, file[..at].iter().filter(|byte| **byte == b'\n').count() as u64 + 1, "{word}");
        span.start
    };
    assert!(line(&index, "number59990") > 59_900);
    // An edit in the middle that removes line feeds, one that appends, one that cuts off.
    let at = 1_000_000;
    index.files.get_mut(&Ino(1)).unwrap()[at..at + 2_000].fill(b'x');
    let size = index.files[&Ino(1)].len() as u64;
    index.apply(&[change(Ino(1), Edit::write(at as u64, 2_000, size))]);
    line(&index, "number59990");
    index.append(1, "the end\n".repeat(50_000).as_bytes());
    index.append(1, b"finale\n");
    line(&index, "finale");
    assert_eq!(index.faults(), vec![]);
    index.files.get_mut(&Ino(1)).unwrap().truncate(500_000);
    // The size before the cut, which the edit needs.
    let size = index.count("SELECT max(off + len) FROM passage") as u64;
    index.apply(&[change(Ino(1), Edit::truncate(size, 500_000))]);
    line(&index, "number12000");
    assert_eq!(index.faults(), vec![]);
}

#[test]
fn oversized_text_is_indexed_in_part() {
    let mut index = Index::new();
    let text = "anchor biscuit\n".repeat(1_000) + "candle\n";
    index.files.insert(Ino(1), text.clone().into_bytes());
    index.files.insert(Ino(2), text.clone().into_bytes());
    let changes = [1, 2].map(|ino| change(Ino(ino), Edit::replace(0, text.len() as u64)));
    let room = text.len() as u64 + 5_000;
    let read = &mut |ino, range| Ok(read(&index.files, ino, range));
    index_writer::apply_up_to(&index.conn, &changes, &mut Tokenizer::default(), read, room).unwrap();
    assert_eq!(index.matching("anchor"), BTreeSet::from([1, 2]));
    assert_eq!(index.matching("candle"), BTreeSet::from([1]));
    // The first file fits into the limit, the second only in part.
    let from = index_writer::unindexed(&index.conn, Ino(2)).unwrap().unwrap();
    assert!((1..=5_000).contains(&from));
    assert_eq!(index.faults(), vec![], "that some is left is no fault");
    // An append changes nothing about the unindexed part, an edit before it enlarges it, a truncation removes
    // it.
    index.append(2, b"guitar\n");
    assert_eq!(index_writer::unindexed(&index.conn, Ino(2)).unwrap(), Some(from));
    index.files.get_mut(&Ino(2)).unwrap()[..6].copy_from_slice(b"forest");
    let size = index.files[&Ino(2)].len() as u64;
    index.apply(&[change(Ino(2), Edit::write(0, 6, size))]);
    assert_eq!(index_writer::unindexed(&index.conn, Ino(2)).unwrap(), Some(0));
    assert_eq!(index.matching("anchor"), BTreeSet::from([1]));
    assert_eq!(index.faults(), vec![]);
}
