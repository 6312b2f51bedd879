//! Exact edits: one text for another, or lines inserted, in one commit on the version that was read.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::handle::Files;
use super::occurrences::whole_occurrences;
use crate::boxed;
use crate::once::Outcome;
use garth_engine::compute::working;
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::{At, Batch, ByteRange, Commit, Op, Precondition, VersionId};
use garth_engine::path::TreePath;

/// Largest file that is edited, in bytes, 16 MiB: the limit on the content of a commit. It also holds for the
/// file after the edit.
pub const MAX_EDITED: usize = 16 << 20;
/// Longest text that is replaced, in bytes, 1 MiB.
pub const MAX_OLD: usize = 1 << 20;
/// Limit on the lines that an error lists.
const MAX_LINES: usize = 100;
/// First character of text files of some editors.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// Change of a text file.
///
/// ```
/// use garth_agent::files::Edit;
///
/// let once = Edit::replace("colour", "color");
/// let everywhere = Edit::replace("colour", "color").all(true);
/// let first_line = Edit::insert(0, "# Colours\n");
/// # let _ = (once, everywhere, first_line);
/// ```
#[derive(Clone, Debug)]
pub struct Edit {
    change: Change,
    /// Version that the content must have; `None` for any.
    version: Option<VersionId>,
}

#[derive(Clone, Debug)]
enum Change {
    Replace { old: String, new: String, all: bool },
    Insert { line: u64, text: String },
}

/// Outcome of an edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Edited {
    /// Path of the file, without links.
    pub path: TreePath,
    /// Version of the file after the edit; the one that it had if the edit changes nothing.
    pub version: VersionId,
    /// True if the edit changed the file. If not, there is no commit.
    pub changed: bool,
    /// Number of replaced texts; 1 for an insertion.
    pub count: usize,
    /// First line of the change, from 1, in the file after the edit.
    pub line: u64,
}

/// Reason why an edit changed nothing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum EditError {
    /// The file does not contain the text to be replaced.
    NotFound {
        /// Path of the file.
        path: TreePath,
    },
    /// The file contains the text to be replaced more than once.
    Several {
        /// Path of the file.
        path: TreePath,
        /// Number of places, also of overlapping ones.
        count: usize,
        /// Lines in which they begin, from 1; the first 100.
        lines: Vec<u64>,
    },
    /// The file is not UTF-8.
    NotText {
        /// Path of the file.
        path: TreePath,
    },
    /// The file, before or after the edit, has more than [`MAX_EDITED`] bytes.
    TooLarge {
        /// Path of the file.
        path: TreePath,
    },
    /// The file has fewer lines than the line after which to insert.
    NoSuchLine {
        /// Path of the file.
        path: TreePath,
        /// Number of its lines.
        lines: u64,
    },
    /// Another client changed the file after it was read, or after the version that the edit requires.
    Conflict {
        /// Path of the file.
        path: TreePath,
        /// Its current version; `None` if it does not exist any more.
        current: Option<VersionId>,
    },
    /// The request is invalid, the file cannot be read or written, or a rule forbids the change.
    FileSystem(Error),
}

/// Text after an edit.
#[derive(Debug)]
pub(crate) struct Applied {
    pub(crate) text: String,
    pub(crate) count: usize,
    /// First line of the change, from 1.
    pub(crate) line: u64,
}

/// Reason why a text cannot be edited.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The text to be replaced does not occur.
    NotFound,
    /// It occurs several times: their number, and the lines in which they begin.
    Several(usize, Vec<u64>),
    /// The result has more than [`MAX_EDITED`] bytes.
    TooLarge,
    /// The text has only this number of lines.
    NoSuchLine(u64),
}

impl Edit {
    /// Returns the replacement of a text that occurs once. It is compared byte by byte, and only where it
    /// begins and ends between characters as a reader sees them: neither a letter without its accent matches
    /// nor half of CRLF.
    pub fn replace(old: impl Into<String>, new: impl Into<String>) -> Self {
        Self::of(Change::Replace { old: old.into(), new: new.into(), all: false })
    }

    /// With true, makes a replacement apply to all occurrences, from the beginning on; one that overlaps a
    /// replaced one stays.
    #[must_use]
    pub fn all(mut self, every: bool) -> Self {
        if let Change::Replace { all, .. } = &mut self.change {
            *all = every;
        }
        self
    }

    /// Returns the insertion of a text as lines of their own, after a line of the file; 0 is before the first
    /// one. A missing line end is added, in the form of the file, except at the end of a file that has none.
    pub fn insert(line: u64, text: impl Into<String>) -> Self {
        Self::of(Change::Insert { line, text: text.into() })
    }

    /// Makes the edit fail with [`EditError::Conflict`] unless the content is that of a version of the file.
    #[must_use]
    pub fn if_version(self, version: impl Into<Option<VersionId>>) -> Self {
        Self { version: version.into(), ..self }
    }

    fn of(change: Change) -> Self {
        Self { change, version: None }
    }

    fn check(&self) -> Result<()> {
        match &self.change {
            Change::Replace { old, .. } if old.is_empty() => Err(Error::invalid("say which text to replace")),
            Change::Insert { text, .. } if text.is_empty() => Err(Error::invalid("say which text to insert")),
            Change::Replace { old, .. } if old.len() > MAX_OLD => {
                let message = format!("the text to replace has at most {MAX_OLD} bytes");
                Err(Error::new(ErrorKind::TooLarge, message))
            }
            Change::Replace { .. } | Change::Insert { .. } => Ok(()),
        }
    }

    /// Returns a text after the edit. Does not check the version.
    pub(crate) fn apply(&self, text: &str) -> Result<Applied, Refusal> {
        working(text.len());
        match &self.change {
            Change::Replace { old, new, all: true } => replace_all(text, old, new),
            Change::Replace { old, new, all: false } => replace_one(text, old, new),
            Change::Insert { line, text: inserted } => insert(text, *line, inserted),
        }
    }
}

fn replace_one(text: &str, old: &str, new: &str) -> Result<Applied, Refusal> {
    let (mut first, mut count, mut lines) = (None, 0, Vec::new());
    let (mut line, mut counted) = (1, 0);
    for range in whole_occurrences(text, old) {
        count += 1;
        if lines.len() < MAX_LINES {
            line += line_ends(&text[counted..range.start]);
            counted = range.start;
            // Several in one line are one place to look at.
            if lines.last() != Some(&line) {
                lines.push(line);
            }
        }
        if first.is_none() {
            first = Some(range);
        }
    }
    let Some(range) = first else { return Err(Refusal::NotFound) };
    if count > 1 {
        return Err(Refusal::Several(count, lines));
    }
    let edited = [&text[..range.start], new, &text[range.end..]].concat();
    Ok(Applied { text: edited, count, line: lines[0] })
}

fn replace_all(text: &str, old: &str, new: &str) -> Result<Applied, Refusal> {
    let (mut edited, mut done, mut count, mut line) = (String::new(), 0, 0, 1);
    for range in whole_occurrences(text, old) {
        // It overlaps the one before, which was replaced.
        if range.start < done {
            continue;
        }
        if count == 0 {
            line += line_ends(&text[..range.start]);
        }
        count += 1;
        edited.push_str(&text[done..range.start]);
        edited.push_str(new);
        done = range.end;
        // Before the next one, so that a long `new` does not fill the memory.
        if edited.len() > MAX_EDITED {
            return Err(Refusal::TooLarge);
        }
    }
    edited.push_str(&text[done..]);
    if count == 0 { Err(Refusal::NotFound) } else { Ok(Applied { text: edited, count, line }) }
}

fn insert(text: &str, line: u64, inserted: &str) -> Result<Applied, Refusal> {
    let lines = || text.split_inclusive('\n');
    let whole = usize::try_from(line).unwrap_or(usize::MAX);
    let at: usize = lines().take(whole).map(str::len).sum();
    let number = lines().count() as u64;
    if line > number {
        return Err(Refusal::NoSuchLine(number));
    }
    // A byte order mark stays at the beginning of the file.
    let mark = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
    let (before, after) = text.split_at(at.max(mark));
    // The nearest line end before, else the first one after.
    let mut near = before.split_inclusive('\n').rev().chain(after.split_inclusive('\n'));
    let near = near.find(|line| line.ends_with('\n'));
    let end = if near.is_some_and(|line| line.ends_with("\r\n")) { "\r\n" } else { "\n" };
    let is_open = |text: &str| !text.is_empty() && !text.ends_with('\n');
    // At the end of a file without a final line end, the new last line has none either.
    let first = if line > 0 && is_open(before) { end } else { "" };
    let last = if is_open(inserted) && first.is_empty() && !text.is_empty() { end } else { "" };
    let edited = [before, first, inserted, last, after].concat();
    Ok(Applied { text: edited, count: 1, line: line + 1 })
}

fn line_ends(text: &str) -> u64 {
    text.bytes().filter(|byte| *byte == b'\n').count() as u64
}

impl Files<'_> {
    /// Edits a text file in one commit. Mode, content type and other attributes stay.
    ///
    /// The commit applies only to the version that was read: if another client changes the file in between,
    /// the edit fails with [`EditError::Conflict`] and changes nothing. It may be tried again.
    ///
    /// # Errors
    /// See [`EditError`].
    #[boxed]
    pub async fn edit(&self, path: &str, edit: &Edit) -> Result<Edited, EditError> {
        edit.check()?;
        self.once.run(self.edit_once(path, edit)).await
    }

    async fn edit_once(&self, path: &str, edit: &Edit) -> Result<Edited, EditError> {
        let range = ByteRange { offset: 0, length: MAX_EDITED as u64 };
        let (path, (entry, bytes)) = resolve::retry(self.fs, path, Follow::Yes, |path| async move {
            let read = self.fs.fetch(&At::from(&path), range).await?;
            Ok((path, read))
        })
        .await?;
        // A change of attributes leaves the content as it is.
        if edit.version.is_some_and(|version| ![entry.version, entry.etag].contains(&version)) {
            return Err(EditError::Conflict { path, current: Some(entry.version) });
        }
        if entry.size > MAX_EDITED as u64 {
            return Err(EditError::TooLarge { path });
        }
        let Ok(text) = std::str::from_utf8(&bytes) else { return Err(EditError::NotText { path }) };
        let applied = match edit.apply(text) {
            Ok(applied) => applied,
            Err(refusal) => return Err(refusal.at(path)),
        };
        if applied.text.len() > MAX_EDITED {
            return Err(EditError::TooLarge { path });
        }
        let changed = applied.text != text;
        let edited = Edited {
            path: path.clone(),
            version: entry.version,
            changed,
            count: applied.count,
            line: applied.line,
        };
        let batch = Batch::new([]).author(self.author.clone()).message(self.message.clone());
        if !changed {
            return Ok(self.once.unchanged(self.fs, batch, edited).await?);
        }
        let batch = batch.op(Op::write(&path, applied.text));
        let batch = batch.require(&path, Precondition::Etag(entry.etag));
        match self.once.commit(self.fs, batch, edited).await {
            // A conflict about another path is not one of this edit.
            Err(error) if error.is(ErrorKind::Conflict) && error.path() == Some(&path) => {
                let current = self.fs.stat(&At::from(&path)).await.optional()?;
                Err(EditError::Conflict { path, current: current.map(|entry| entry.version) })
            }
            done => Ok(done?),
        }
    }
}

impl Outcome for Edited {
    fn committed(self, commit: &Commit) -> Self {
        if self.changed { Self { version: commit.version(0), ..self } } else { self }
    }
}

impl Refusal {
    fn at(self, path: TreePath) -> EditError {
        match self {
            Self::NotFound => EditError::NotFound { path },
            Self::Several(count, lines) => EditError::Several { path, count, lines },
            Self::TooLarge => EditError::TooLarge { path },
            Self::NoSuchLine(lines) => EditError::NoSuchLine { path, lines },
        }
    }
}

impl From<Error> for EditError {
    fn from(error: Error) -> Self {
        Self::FileSystem(error)
    }
}

impl From<EditError> for Error {
    fn from(error: EditError) -> Self {
        let (kind, path, message) = match error {
            EditError::FileSystem(error) => return error,
            EditError::NotFound { path } => {
                (ErrorKind::NotFound, path, "the text to be replaced was not found".to_owned())
            }
            EditError::Several { path, count, lines } => {
                let word = if lines.len() == 1 { "line" } else { "lines" };
                let lines = lines.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
                let message = format!(
                    "the text to be replaced occurs {count} times, in {word} {lines}; give more of it, or \
                     replace all of them"
                );
                (ErrorKind::InvalidArgument, path, message)
            }
            EditError::NotText { path } => (ErrorKind::InvalidArgument, path, "is not UTF-8 text".to_owned()),
            EditError::TooLarge { path } => {
                let message =
                    format!("a file of more than {MAX_EDITED} bytes is not edited; write it instead");
                (ErrorKind::TooLarge, path, message)
            }
            EditError::NoSuchLine { path, lines } => {
                let message = format!("has {lines} lines; insert after line 0 to {lines}");
                (ErrorKind::InvalidArgument, path, message)
            }
            EditError::Conflict { path, current } => {
                let message = match current {
                    Some(current) => {
                        format!("was changed to version {current}; read it and edit it again")
                    }
                    None => "was removed while it was edited".to_owned(),
                };
                (ErrorKind::Conflict, path, message)
            }
        };
        Self::at(kind, &path, message)
    }
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Error::from(self.clone()), f)
    }
}

impl std::error::Error for EditError {}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn applied(edit: &Edit, text: &str) -> Result<String, Refusal> {
        edit.apply(text).map(|applied| applied.text)
    }

    proptest! {
        #[test]
        fn ascii_edits_equal_those_of_the_standard_library(
            text in "[ab\n]{0,12}", old in "[ab\n]{1,3}", new in "[ab\n]{0,3}",
        ) {
            let all = applied(&Edit::replace(&*old, &*new).all(true), &text);
            prop_assert_eq!(all.ok(), text.contains(&old).then(|| text.replace(&old, &new)));
            let places = (0..text.len()).filter(|at| text[*at..].starts_with(&old)).count();
            let one = applied(&Edit::replace(&*old, &*new), &text);
            match one {
                Ok(edited) => prop_assert_eq!((places, edited), (1, text.replacen(&old, &new, 1))),
                Err(Refusal::NotFound) => prop_assert_eq!(places, 0),
                Err(Refusal::Several(count, _)) => prop_assert_eq!((places, places > 1), (count, true)),
                Err(other) => prop_assert!(false, "{:?}", other),
            }
        }
    }

    #[test]
    fn replaced_text_begins_and_ends_between_characters() {
        for (text, old, count) in [
            ("caf\u{e9} cafe\u{301}", "cafe", 0),
            ("cafe\u{301}", "\u{301}", 0),
            ("a\r\nb", "\n", 0),
            ("a\r\nb", "\r", 0),
            // Line ends and forms of letters are compared as they are stored.
            ("a\r\nb", "a\nb", 0),
            ("cafe\u{301}", "caf\u{e9}", 0),
            ("\u{1f1e9}\u{1f1ea}", "\u{1f1ea}", 0),
            ("aaaa", "aa", 3),
            ("a a", "a", 2),
        ] {
            let due = match count {
                0 => Refusal::NotFound,
                count => Refusal::Several(count, vec![1]),
            };
            assert_eq!(applied(&Edit::replace(old, "x"), text), Err(due), "{text:?} {old:?}");
        }
        assert_eq!(applied(&Edit::replace("a\r\n", ""), "a\r\nb").as_deref(), Ok("b"));
        assert_eq!(applied(&Edit::replace("aa", "b").all(true), "aaaaa").as_deref(), Ok("bba"));
    }

    #[test]
    fn lines_of_all_places_are_listed() {
        let found = Edit::replace("x", "y").apply("x x\n\nx\n");
        assert_eq!(found.unwrap_err(), Refusal::Several(3, vec![1, 3]));
        let found = Edit::replace("x\n", "y").apply(&"x\n".repeat(1000)).unwrap_err();
        assert_eq!(found, Refusal::Several(1000, (1..=100).collect()));
        let found = Edit::replace("x", "y").apply(&format!("{}\nx\n", "x ".repeat(200))).unwrap_err();
        assert_eq!(found, Refusal::Several(201, vec![1, 2]), "more in one line than lines are listed");
        assert_eq!(Edit::replace("c", "d").apply("a\nb\nc\n").unwrap().line, 3);
        assert_eq!(Edit::replace("b", "d").all(true).apply("a\nb\nb\n").unwrap().line, 2);
    }

    #[test]
    fn inserted_text_has_lines_of_its_own() {
        for (text, line, inserted, due) in [
            ("a\nb\n", 0, "x\n", "x\na\nb\n"),
            ("a\nb\n", 1, "x", "a\nx\nb\n"),
            ("a\nb\n", 2, "x", "a\nb\nx\n"),
            ("a\nb", 2, "x", "a\nb\nx"),
            ("a\nb", 2, "x\n", "a\nb\nx\n"),
            ("a\r\nb\r\n", 1, "x", "a\r\nx\r\nb\r\n"),
            ("a\r\nb", 0, "x", "x\r\na\r\nb"),
            ("a\r\nb", 2, "x", "a\r\nb\r\nx"),
            ("", 0, "x", "x"),
            ("", 0, "x\n", "x\n"),
            ("\u{feff}a\n", 0, "x", "\u{feff}x\na\n"),
            ("\u{feff}a\n", 1, "x", "\u{feff}a\nx\n"),
            ("\u{feff}", 0, "x\n", "\u{feff}x\n"),
        ] {
            assert_eq!(applied(&Edit::insert(line, inserted), text).as_deref(), Ok(due), "{text:?} {line}");
        }
        assert_eq!(applied(&Edit::insert(3, "x"), "a\nb\n"), Err(Refusal::NoSuchLine(2)));
        assert_eq!(applied(&Edit::insert(u64::MAX, "x"), ""), Err(Refusal::NoSuchLine(0)));
        assert_eq!(Edit::insert(1, "x").apply("a\n").unwrap().line, 2);
    }

    #[test]
    fn result_of_replacing_all_is_bounded() {
        let edit = Edit::replace("a", "b".repeat(1 << 20)).all(true);
        assert_eq!(edit.apply(&"a".repeat(1000)).unwrap_err(), Refusal::TooLarge);
    }
}
