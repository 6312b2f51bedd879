//! Changes of passages over an index in memory.

use std::collections::BTreeMap;
use std::convert::Infallible;

use super::*;
use crate::model::Ino;
use crate::text::MAX_TEXT;
use crate::text::passage::{Span, TARGET};
use crate::text::secret;

/// A file, and its passages in an index, by offset.
#[derive(Clone, Debug, Default)]
struct TextInMemory {
    bytes: Vec<u8>,
    passages: BTreeMap<u64, (i64, NewPassage)>,
    /// Number of the last passage that was added.
    last: i64,
    unindexed: Option<u64>,
}

impl IndexedText for TextInMemory {
    type Error = Infallible;

    fn passages(&mut self, from: u64, to: u64) -> Result<Vec<Passage>, Infallible> {
        Ok(self.passages.range(from..=to).map(|(_, (id, passage))| as_passage(*id, passage)).collect())
    }

    fn last_before(&mut self, off: u64) -> Result<Option<Passage>, Infallible> {
        let last = self.passages.range(..off).next_back();
        Ok(last.map(|(_, (id, passage))| as_passage(*id, passage)))
    }

    fn read(&mut self, bytes: Range<u64>) -> Result<Vec<u8>, Infallible> {
        let end = (bytes.end as usize).min(self.bytes.len());
        Ok(self.bytes[(bytes.start as usize).min(end)..end].to_vec())
    }
}

fn as_passage(id: i64, passage: &NewPassage) -> Passage {
    let NewPassage { span, line_feeds, form, words, .. } = *passage;
    Passage { id, ino: Ino(1), span, line_feeds, form, words }
}

impl TextInMemory {
    /// Returns a file that was indexed at once.
    fn of(bytes: &[u8]) -> Self {
        let mut text = Self::default();
        text.write(0, bytes);
        text
    }

    /// Writes bytes, and applies the change of the index.
    fn write(&mut self, at: usize, bytes: &[u8]) -> Reindexed {
        let edit = self.put(at, bytes);
        let mut room = MAX_TEXT;
        self.apply(edit, &mut room)
    }

    fn append(&mut self, bytes: &[u8]) -> Reindexed {
        self.write(self.bytes.len(), bytes)
    }

    fn put(&mut self, at: usize, bytes: &[u8]) -> Edit {
        let old = self.bytes.len();
        self.bytes.resize(old.max(at + bytes.len()), 0);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        Edit::write(at as u64, bytes.len() as u64, old as u64)
    }

    fn apply(&mut self, edit: Edit, room: &mut u64) -> Reindexed {
        let file = FileEdit { searchable: true, content_type: None, edit, unindexed: self.unindexed };
        let Ok(change) = reindex(self, &file, room, &mut Tokenizer::default());
        let known = self.passages.len();
        self.passages.retain(|_, (id, _)| !change.removed.contains(id));
        assert_eq!(known - self.passages.len(), change.removed.len(), "each is removed once");
        for passage in change.added.clone() {
            self.last += 1;
            let before = self.passages.insert(passage.span.off, (self.last, passage));
            assert_eq!(before, None, "added beside another passage");
        }
        self.unindexed = change.unindexed.or(self.unindexed);
        change
    }

    fn ids(&self) -> Vec<i64> {
        self.passages.values().map(|(id, _)| *id).collect()
    }

    /// Returns the passages without their numbers.
    fn content(&self) -> Vec<&NewPassage> {
        self.passages.values().map(|(_, passage)| passage).collect()
    }
}

/// Returns lines of 39 bytes each.
fn lines(numbers: Range<usize>) -> String {
    numbers.map(|n| format!("line {n:05} about cranes in the harbour\n")).collect()
}

fn span(off: u64, end: u64) -> Span {
    Span { off, len: end - off, newline: true }
}

#[test]
fn append_joins_the_last_short_passage() {
    let mut text = TextInMemory::of(lines(0..10).as_bytes());
    assert_eq!(text.ids(), [1]);
    let change = text.append(lines(10..11).as_bytes());
    assert_eq!(change.removed, [1]);
    assert_eq!(change.added.iter().map(|it| it.span).collect::<Vec<_>>(), [span(0, 11 * 39)]);
    assert_eq!((change.region, change.unindexed), (0..11 * 39, None));
    // Only the last of several.
    let mut text = TextInMemory::of(lines(0..200).as_bytes());
    let ids = text.ids();
    assert!(ids.len() > 2);
    assert_eq!(text.append(lines(200..201).as_bytes()).removed, ids[ids.len() - 1..]);
}

#[test]
fn append_of_a_record_adds_its_own_passage() {
    let record = |n: usize| format!("{:99}\n", format!("{{\"text\": \"number{n}\"}}"));
    let mut text = TextInMemory::of((0..3).map(record).collect::<String>().as_bytes());
    assert_eq!(text.ids(), [1, 2, 3]);
    let change = text.append(record(3).as_bytes());
    assert!(change.removed.is_empty(), "{change:?}");
    assert_eq!(change.added.iter().map(|it| it.span).collect::<Vec<_>>(), [span(300, 400)]);
    assert_eq!(change.region, 300..400);
    assert!(change.added[0].tokens.contains("number3"), "{change:?}");
}

#[test]
fn edit_in_the_middle_replaces_touched_passages() {
    let mut text = TextInMemory::of(lines(0..1000).as_bytes());
    let before = text.clone();
    let at = 500 * 39 + 5;
    let change = text.write(at, b"quokk");
    // No line moved, so the borders are the same.
    assert!((1..5).contains(&change.removed.len()), "{:?}", change.removed);
    let spans = |text: &TextInMemory| text.content().iter().map(|it| it.span).collect::<Vec<_>>();
    assert_eq!(spans(&text), spans(&before));
    assert!(change.region.contains(&(at as u64)), "{:?}", change.region);
    for (off, (id, _)) in &before.passages {
        assert_eq!(change.removed.contains(id), change.region.contains(off), "{off}");
    }
    assert_eq!(text.content(), TextInMemory::of(&text.bytes).content());
}

#[test]
fn completed_secret_widens_the_region() {
    // Words alone, or the lines of a private key without its beginning.
    let body = "internationalise\n".repeat(400);
    let text = TextInMemory::of(body.as_bytes());
    let ids = text.ids();
    assert!(ids.len() > 2 && body.len() < secret::CONTEXT, "{ids:?}");
    let (mut harmless, mut key) = (text.clone(), text);
    let change = harmless.append(b"the end of a list of words\n");
    assert_eq!(change.removed, ids[ids.len() - 1..]);
    let mut change = key.append(b"-----END RSA PRIVATE KEY-----\n");
    change.removed.sort_unstable();
    assert_eq!((change.removed, change.region), (ids, 0..key.bytes.len() as u64));
    let words = |text: &TextInMemory| text.content().iter().any(|it| it.tokens.contains("intern"));
    assert!(words(&harmless) && !words(&key));
    assert_eq!(key.content(), TextInMemory::of(&key.bytes).content());
}

#[test]
fn text_in_parts_is_indexed_like_at_once() {
    let record = |n: usize| format!("{:120}\n", format!("{{\"text\": \"number{n}\", \"of\": {n}}}"));
    let records: String = (0..1_200).map(record).collect();
    // Several segments each.
    for whole in [lines(0..4_000), "one line without an end ".repeat(6_000), records] {
        let mut text = TextInMemory::default();
        let (mut rest, mut sizes) = (whole.as_bytes(), [1, 20, 300, 2_000, 9_000].into_iter().cycle());
        while let Some(size) = sizes.next().filter(|_| !rest.is_empty()) {
            let (part, more) = rest.split_at(rest.len().min(size));
            text.append(part);
            rest = more;
        }
        assert_eq!(text.content(), TextInMemory::of(whole.as_bytes()).content());
    }
}

#[test]
fn text_beyond_the_room_is_left() {
    let whole = lines(0..1_000);
    let at_once = TextInMemory::of(whole.as_bytes());
    let mut text = TextInMemory::default();
    let edit = text.put(0, whole.as_bytes());
    let mut room = 10_000;
    let change = text.apply(edit, &mut room);
    assert_eq!(room, 0);
    let reached = change.added.last().map(|it| it.span.end());
    assert_eq!(change.unindexed, reached);
    assert!(reached.is_some_and(|reached| reached <= 10_000 && reached + 2 * TARGET as u64 > 10_000));
    assert_eq!(text.content(), at_once.content()[..change.added.len()]);
    // Of the next file nothing is indexed.
    let mut next = TextInMemory::default();
    let edit = next.put(0, whole.as_bytes());
    let change = next.apply(edit, &mut room);
    assert_eq!((change.added, change.unindexed), (vec![], Some(0)));
    // Passages after the part that is left are removed as well.
    let mut edited = at_once.clone();
    let edit = edited.put(500 * 39, b"LINE");
    let change = edited.apply(edit, &mut room);
    assert_eq!(change.unindexed, Some(change.region.start));
    assert_eq!(change.region.end, whole.len() as u64);
    let kept = edited.passages.len();
    assert!(kept > 0 && edited.ids() == at_once.ids()[..kept], "{:?}", edited.ids());
}

#[test]
fn edit_of_unindexed_text_adds_no_passage() {
    let mut text = TextInMemory::default();
    let edit = text.put(0, lines(0..1_000).as_bytes());
    text.apply(edit, &mut 10_000);
    let ids = text.ids();
    assert!(ids.len() > 2, "{ids:?}");
    assert_eq!(text.append(b"the end\n"), Reindexed::default(), "it will be indexed in any case");
    // An edit of indexed text leaves that from the passage before it on.
    let last = text.passages.last_key_value().map(|(off, _)| *off);
    let change = text.write(last.unwrap_or(0) as usize + 5, b"quokk");
    assert_eq!(change.removed, ids[ids.len() - 1..]);
    assert!(change.added.is_empty(), "{change:?}");
    assert_eq!((change.unindexed, text.unindexed), (last, last));
}

fn reindexed(text: &mut TextInMemory, file: &FileEdit<'_>) -> Reindexed {
    let mut room = MAX_TEXT;
    let Ok(change) = reindex(text, file, &mut room, &mut Tokenizer::default());
    change
}

#[test]
fn file_that_search_must_not_see_loses_its_passages() {
    let text = TextInMemory::of(lines(0..200).as_bytes());
    let size = text.bytes.len() as u64;
    let expected = Reindexed { removed: text.ids(), region: 0..size, ..Reindexed::default() };
    let edit = Edit::replace(size, size);
    let file = FileEdit { searchable: true, content_type: None, edit, unindexed: None };
    let mut binary = text.clone();
    binary.bytes[0] = 0;
    for (mut text, file) in [
        (text.clone(), FileEdit { searchable: false, ..file }),
        (text.clone(), FileEdit { content_type: Some("image/png"), ..file }),
        (binary, file),
    ] {
        assert_eq!(reindexed(&mut text, &file), expected, "{file:?}");
        // The index has nothing of it any more.
        text.passages.clear();
        assert_eq!(reindexed(&mut text, &file), Reindexed::default(), "{file:?}");
    }
}

#[test]
fn rebuilt_parts_replace_all_passages() {
    let whole = lines(0..6_000);
    let at_once = TextInMemory::of(whole.as_bytes());
    // Nothing is indexed, or all of it in another way.
    let mut wrong = at_once.clone();
    wrong.passages.values_mut().for_each(|(_, passage)| passage.hash = 0);
    let mut empty = at_once.clone();
    empty.passages.clear();
    for mut text in [wrong, empty] {
        let (mut next, mut steps) = (Some(0), 0);
        while let Some(off) = next {
            let file = Some((whole.len() as u64, None));
            let Ok(part) = rebuild(&mut text, file, (off, 10_000), &mut Tokenizer::default());
            let after = part.bytes.clone().map_or(0, |bytes| bytes.end);
            assert_eq!(part.follows, text.passages.range(after..).next().is_some());
            text.passages.retain(|_, (id, _)| !part.removed.contains(id));
            for passage in part.added {
                text.last += 1;
                assert_eq!(text.passages.insert(passage.span.off, (text.last, passage)), None);
            }
            (next, steps) = (part.next, steps + 1);
        }
        assert_eq!(text.content(), at_once.content());
        assert!((3..6).contains(&steps), "{steps}");
    }
}

#[test]
fn rebuilt_file_without_text_loses_its_passages() {
    let mut text = TextInMemory::of(lines(0..200).as_bytes());
    let ids = text.ids();
    let Ok(hidden) = rebuild(&mut text, None, (0, 1_000), &mut Tokenizer::default());
    assert_eq!(hidden, RebuiltPart { removed: ids.clone(), ..RebuiltPart::default() });
    text.bytes[0] = 0;
    let file = Some((text.bytes.len() as u64, None));
    let Ok(binary) = rebuild(&mut text, file, (0, 1_000), &mut Tokenizer::default());
    assert_eq!(binary, RebuiltPart { removed: ids, searchable: true, ..RebuiltPart::default() });
}

#[test]
fn unreadable_edit_leaves_the_text_from_there() {
    let mut text = TextInMemory::of(lines(0..1_000).as_bytes());
    let (ids, size) = (text.ids(), text.bytes.len() as u64);
    let Ok(change) = leave(&mut text, true, &Edit::write(size, 10, size));
    assert_eq!((change.removed, change.added), (ids[ids.len() - 1..].to_vec(), vec![]));
    assert_eq!(change.unindexed, text.passages.keys().next_back().copied());
    // A file that search must not see any more is looked at from its start.
    let Ok(change) = leave(&mut text, false, &Edit::replace(size, size));
    assert_eq!((change.removed, change.unindexed), (ids, Some(0)));
}
