//! Bounds on the rows that a search reads, and on the files and passages that it judges.

use super::{Counting, crowd};
use crate::engine::search::local::{Local, Lookups};
use crate::engine::search::{SearchParams, WordForm};
use crate::engine::sqlite::fulltext::postings;
use crate::sqlite::DbError;
use crate::text::Question;

#[test]
fn rare_word_limits_rows_of_frequent_words() {
    let [small, large] = [6_000, 24_000].map(|passages| {
        let index = crowd(passages, "heron");
        let mut judge = Counting { per_file: 20, alone: true, ..Counting::default() };
        assert_eq!(index.ask("rare heron", &mut judge).found.len(), 10, "those with the rare one");
        judge.rows
    });
    assert!(large <= small + 100 && small < 6_000, "{large} rows instead of {small}");
}

#[test]
fn frequency_of_frequent_word_is_read_beside_rare_one() {
    let rows = |words: &str, question: &str| {
        let index = crowd(6_000, words);
        let mut judge = Counting { per_file: 20, alone: true, ..Counting::default() };
        assert!(!index.ask(question, &mut judge).found.is_empty());
        judge.rows
    };
    let (plain, often) = ("heron", "heron heron^2 heron^3");
    let [once, more] = [plain, often].map(|words| rows(words, "rare heron"));
    assert!(more <= once + 100, "{more} rows instead of {once}");
    // Here the newest passages of the frequent word are candidates.
    let question = "The rare boat sank twice yesterday. Where is the heron?";
    let [once, more] = [plain, often].map(|words| rows(words, question));
    assert!(more > once + 1_000, "{more} rows, {once} without frequencies");
}

#[test]
fn words_of_a_question_read_most_rows() {
    // An eighth of the passages contains each word, and the second one all of them.
    let word = |word: &str, rest: u64| format!("' || iif(id % 8 = {rest} OR id = 2, ' {word}', '') || '");
    let index = crowd(12_000, &[word("heron", 3), word("egret", 4), word("stork", 5)].concat());
    let ask = |message: &str| {
        let mut judge = Counting::default();
        let found = index.ask(message, &mut judge).found;
        assert_eq!(found.first().map(|it| (it.passage.ino.0, it.words)), Some((2, 1.0)), "{message}");
        judge.rows
    };
    let question = "Where are the heron, the egret and the stork?";
    let alone = ask(question);
    // With these words, equal shares of the rows would be smaller than an eighth of the passages.
    let story: String = (0..15).map(|n| format!("Boat{n}a boat{n}b boat{n}c boat{n}d. ")).collect();
    let message = format!("The rare boat sank twice. {story}{question}");
    let rows = ask(&message);
    assert!(rows <= alone + 100, "{rows} rows instead of {alone}");
}

#[test]
fn rare_word_of_a_statement_hides_no_answer() {
    let [small, large] = [12_000, 24_000].map(|passages| {
        // No passage contains both words.
        let index = crowd(passages, "' || iif(id % 2 = 1, ' heron', '') || '");
        let mut judge = Counting::default();
        let found = index.ask("The rare boat sank twice yesterday. Where is the heron?", &mut judge).found;
        assert_eq!(found.first().map(|it| it.passage.ino.0), Some(passages - 1), "the newest one");
        judge.rows
    });
    assert!(large <= small + 100, "{large} rows instead of {small}");
}

#[test]
fn meaning_reads_text_of_few_passages() {
    let [small, large] = [6_000, 24_000].map(|passages| {
        let index = crowd(passages, "heron egret stork");
        let mut judge = Counting { meaning: true, ..Counting::default() };
        assert!(!index.ask("rare bird prey", &mut judge).found.is_empty());
        let mut frequent = Counting { meaning: true, ..Counting::default() };
        assert!(!index.ask("heron egret stork", &mut frequent).found.is_empty());
        assert!(judge.compared <= 20, "{}", judge.compared);
        assert_eq!(frequent.compared, 100);
        judge.rows
    });
    assert!(large <= small + 100, "{large} rows instead of {small}");
}

#[test]
fn everyday_word_in_many_passages_costs_one_row() {
    let index = crowd(2_000, "' || iif(id % 100 = 0, ' the', '') || '");
    let lookups = postings::Index::new(&index.conn).unwrap();
    let everyday = WordForm::plain("the".to_owned());
    let few = |most: usize| {
        let mut rows = 0;
        let mut step = || {
            rows += 1;
            Ok::<(), DbError>(())
        };
        let found = lookups.few_with(&everyday, most, &mut step).unwrap();
        (found, rows)
    };
    for most in [1, 10, 19, 20] {
        assert_eq!(few(most), (None, 1), "{most}");
    }
    let all: Vec<i64> = (1..=20).rev().map(|id| 100 * id).collect();
    for most in [21, 128, 2_000] {
        let (found, rows) = few(most);
        assert!(rows <= all.len() + 1, "{rows} rows for {most}");
        assert_eq!(found.as_ref(), Some(&all), "{most}");
    }
}

#[test]
fn meaning_compares_all_passages_of_small_scope() {
    let index = crowd(6_000, "heron");
    let mut judge = Counting { meaning: true, within: Some((70..90).collect()), ..Counting::default() };
    index.ask("rare bird of prey", &mut judge);
    assert_eq!(judge.compared, 2 * 20, "none has a word, so their texts are also read for beginnings");
    let mut judge = Counting { meaning: true, within: Some((70..90).collect()), ..Counting::default() };
    index.ask("heron bird of prey", &mut judge);
    assert_eq!(judge.compared, 20);
    let mut judge = Counting { meaning: true, within: Some((70..90).collect()), ..Counting::default() };
    index.ask("heron prey", &mut judge);
    assert_eq!(judge.compared, 0, "two words are looked up");
}

#[test]
fn quick_search_reads_few_rows() {
    let words: String = (0..60).map(|n| format!(" heron{n}")).collect();
    let index = crowd(6_000, &words);
    let quick = |question: &str| {
        let mut judge = Counting::default();
        let (per_file, neighbours, meaning) = (1, false, false);
        let asked = SearchParams { text: question, limit: 20, per_file, neighbours, meaning, quick: true };
        let question = Question::parse(question).unwrap();
        let lookups = postings::Index::new(&index.conn).unwrap();
        let found = Local::new(&lookups, &mut judge).search(&question, asked).unwrap().found;
        (found.len(), judge.rows)
    };
    let (found, rows) = quick(&words);
    assert!(found == 20 && rows <= 500, "{found} in {rows} rows");
    assert_eq!(quick("rare heron1 heron2").0, 10, "the rare word is not passed over");
}

#[test]
fn search_ends_after_many_judged_files() {
    let index = crowd(12_000, "heron");
    let mut judge = Counting { refused: (1..=12_000).rev().collect(), ..Counting::default() };
    let answer = index.ask("heron", &mut judge);
    assert!(answer.found.is_empty() && answer.more);
    assert_eq!(judge.asked.len(), 10_000);
}

#[test]
fn search_ends_after_many_withheld_passages() {
    let index = crowd(12_000, "heron");
    // The passages of ten files, one after the other.
    index.conn.execute_batch("UPDATE passage SET off = 10 * id, ino = id % 10 + 1").unwrap();
    let mut judge = Counting { withholds: true, ..Counting::default() };
    let answer = index.ask("heron", &mut judge);
    assert!(answer.found.is_empty() && answer.more);
    assert_eq!(judge.asked.len(), 10);
}
