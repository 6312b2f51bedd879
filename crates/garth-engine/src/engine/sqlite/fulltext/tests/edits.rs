//! After any edits, the index equals one of the same bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Index, change, read};
use crate::engine::search::{FileEdit, NewPassage, reindex};
use crate::engine::sqlite::fulltext::index_writer::{Change, IN_COMMIT, IndexWriter};
use crate::engine::sqlite::fulltext::passages::form_number;
use crate::model::Ino;
use crate::sqlite::all;
use crate::text::passage::Span;
use crate::text::{Edit, Tokenizer};

const WORDS: [&str; 8] = ["anchor", "biscuit", "candle", "drömmen", "engine", "forest", "東京", "guitar"];

#[derive(Clone, Debug)]
enum Step {
    Write(usize, Vec<u8>),
    Append(Vec<u8>),
    Truncate(usize),
    Replace(Vec<u8>),
}

/// Mostly words, with or without lines; sometimes bytes that are no text.
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
            // Mostly inside or at the end. A hole makes most files binary.
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

/// Row of a passage without its inode: its number, range, line feeds, line end, hash, form and words.
type Row = (i64, u64, u64, u64, bool, i64, u64, u64);

/// Returns all passages with their inodes, in order of their numbers.
fn rows(index: &Index) -> Vec<(u64, Row)> {
    let sql = "SELECT ino, id, off, len, lines, newline, hash, json, words FROM passage ORDER BY id";
    all(&index.conn, sql, [], |it| {
        let (id, off, len, lines) = (it.get(1)?, it.get(2)?, it.get(3)?, it.get(4)?);
        let row = (id, off, len, lines, it.get(5)?, it.get(6)?, it.get(7)?, it.get(8)?);
        Ok((it.get(0)?, row))
    })
    .unwrap()
}

/// Applies changes. The rows are then those that `reindex` returned before anything was written.
fn apply(index: &Index, changes: &[Change<'_>]) {
    let writer = IndexWriter::new(&index.conn).unwrap();
    let mut expected = rows(index);
    let mut next = expected.last().map_or(1, |(_, row)| row.0 + 1);
    let (mut tokenizer, mut room, mut added) = (Tokenizer::default(), IN_COMMIT, Vec::new());
    for change in changes {
        let Change { ino, searchable, content_type, edit } = *change;
        let file = FileEdit { searchable, content_type, edit, unindexed: None };
        let read = &mut |ino, range| Ok(read(&index.files, ino, range));
        let change = reindex(&mut writer.text(ino, read), &file, &mut room, &mut tokenizer).unwrap();
        expected.retain(|(_, row)| !change.removed.contains(&row.0));
        for NewPassage { span, line_feeds, form, hash, words, .. } in change.added {
            let Span { off, len, newline } = span;
            let row = (next, off, len, line_feeds, newline, hash, form_number(form), words);
            added.push((ino.0, row));
            next += 1;
        }
    }
    expected.extend(added);
    index.apply(changes);
    assert_eq!(rows(index), expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn edited_index_matches_rebuilt_index(
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
            apply(&index, &changes);
            prop_assert_eq!(index.faults(), vec![]);
        }
        let afresh = Index::of(&index.files);
        prop_assert_eq!(afresh.faults(), vec![]);
        prop_assert_eq!(index.spans(), afresh.spans());
        for word in WORDS {
            prop_assert_eq!(index.matching(word), afresh.matching(word), "{}", word);
        }
    }
}

/// Text of several segments, with lines, records, or neither.
fn long_content() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        8 => "[a-z]{1,12}( [a-z]{1,9}){0,20}\n",
        1 => "\\{\"text\":\"[a-z ]{0,300}\"\\}\n",
        1 => "[a-z,]{6000,12000}\n",
        1 => "[a-z]{5000,6000}",
        1 => Just("\n".to_owned()),
    ];
    (prop::collection::vec(line, 1..40), 1_usize..80, any::<bool>()).prop_map(|(lines, times, json)| {
        let mut text = lines.concat().into_bytes().repeat(times);
        text.truncate(300_000);
        if json {
            text.splice(..0, *b"{\"first\": \"record\"}\n");
        }
        text
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn passages_depend_on_bytes_alone(
        content in long_content(),
        edits in prop::collection::vec((0_usize..300_000, "[a-z\n ]{1,600}", 0_u8..4), 1..12),
    ) {
        let mut index = Index::new();
        index.put(1, &content);
        for (at, text, how) in edits {
            let bytes = text.into_bytes();
            let step = match how {
                0 => Step::Append(bytes),
                1 if at % 3 == 0 => Step::Truncate(at),
                // Near the border of a segment.
                2 => Step::Write(at / 65_536 * 65_536 + at % 5_000, bytes),
                _ => Step::Write(at, bytes),
            };
            let file = index.files.get_mut(&Ino(1)).unwrap();
            // No holes, which are zeros.
            let step = match step {
                Step::Write(at, bytes) => Step::Write(at.min(file.len()), bytes),
                Step::Truncate(to) => Step::Truncate(to.min(file.len())),
                step => step,
            };
            let old = file.len() as u64;
            let edit = match &step {
                Step::Write(at, bytes) => {
                    file.resize(file.len().max(at + bytes.len()), 0);
                    file[*at..at + bytes.len()].copy_from_slice(bytes);
                    Edit::write(*at as u64, bytes.len() as u64, old)
                }
                Step::Truncate(to) => {
                    file.truncate(*to);
                    Edit::truncate(old, *to as u64)
                }
                Step::Append(bytes) | Step::Replace(bytes) => {
                    file.extend_from_slice(bytes);
                    Edit::write(old, bytes.len() as u64, old)
                }
            };
            apply(&index, &[change(Ino(1), edit)]);
            prop_assert_eq!(index.faults(), vec![]);
            prop_assert_eq!(index.spans(), Index::of(&index.files).spans(), "{:?}", edit);
        }
    }
}
