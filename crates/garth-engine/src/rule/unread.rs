//! Answers of rules that would tell about stored content, for authors who may write files and not read them.
//! Such an author may know whether a rule accepts what they wrote. If the rule also looks at bytes that were
//! stored before, its answer tells about them: a byte copied between `tru` and nothing is an `e` where JSON
//! is accepted.

use super::constraint::{Constraint, Policy};
use super::effects::CommitEffects;
use crate::error::{Error, ErrorKind};
use crate::model::{Ino, Kind, Within};
use crate::path::TreePath;

/// Change of a file at a path, as far as it matters to what an answer tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileChange {
    /// True if the path led to the file before.
    is_same: bool,
    /// True if the content changed.
    is_written: bool,
    /// True if the commit brings the complete content.
    is_own: bool,
    /// True if the commit only appends to the content.
    is_appended: bool,
}

impl FileChange {
    /// Returns the change of a file at a path that led to `before`.
    pub(super) fn of(touched: &CommitEffects, ino: Ino, before: Option<(Ino, Kind)>) -> Self {
        let (is_written, is_own) = (touched.written.contains_key(&ino), touched.own.contains(&ino));
        Self {
            is_same: before.is_some_and(|(before, _)| before == ino),
            is_written,
            is_own,
            is_appended: is_written && !is_own && !touched.rewritten.contains(&ino),
        }
    }

    /// Returns true if the answer of a constraint depends on content that the commit does not write.
    pub(super) fn asks(self, constraint: &Constraint) -> bool {
        let Self { is_same, is_written, is_own, is_appended } = self;
        match constraint {
            Constraint::MaxSize(_)
            | Constraint::Json { .. }
            | Constraint::JsonLines { unique: Some(_), .. }
            | Constraint::Secrets(Policy::Refuse) => !is_own,
            // Earlier lines are not judged again.
            Constraint::JsonLines { unique: None, .. } => !(is_own || is_same && is_appended),
            // Changes before the end are refused, so that the answer would tell where the end is.
            Constraint::AppendOnly => is_same && is_written && !is_appended,
            // Lines after the end before are judged, wherever that was.
            Constraint::OwnLines(..) if is_same => is_written && !is_appended,
            Constraint::OwnLines(..) => !is_own,
            // The new fields are compared with those before.
            Constraint::OwnFields(_) => is_same && is_written,
            Constraint::ReadOnly { .. }
            | Constraint::NotInSessions
            | Constraint::NotSearchable
            | Constraint::Secrets(Policy::Allow) => false,
        }
    }
}

/// Returns the error for a commit that asks about content at a path.
pub(super) fn refusal(within: &Within, path: &TreePath) -> Error {
    let message = "a rule would judge stored content here, which needs the scope `files:read`; without it, \
                   replace the complete file";
    match within.contains(path) {
        true => Error::at(ErrorKind::AccessDenied, path, message),
        false => Error::new(ErrorKind::AccessDenied, message),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the change of a file: its path led to it before or not, and the commit wrote it so.
    fn change(is_same: bool, written: &str) -> FileChange {
        let ino = Ino(7);
        let mut touched = CommitEffects::default();
        if written != "moved" {
            touched.written.insert(ino, 0);
        }
        if written == "replaced" {
            touched.own.insert(ino);
        }
        if written == "patched" {
            touched.rewritten.insert(ino);
        }
        FileChange::of(&touched, ino, is_same.then_some((ino, Kind::File)))
    }

    #[test]
    fn answers_about_stored_content_are_found() {
        let json = Constraint::Json { schema: None, check: None };
        let lines = |unique: Option<&str>| Constraint::JsonLines {
            schema: None,
            unique: unique.map(str::to_owned),
            check: None,
        };
        let own_lines = Constraint::own_lines(|_| Ok(()), "write another line");
        // Each with the changes that ask: of the file at its path, and of another one that comes there.
        let cases: [(Constraint, &[&str], &[&str]); 11] = [
            (Constraint::MaxSize(9), &["appended", "patched"], &["appended", "patched", "moved"]),
            (json, &["appended", "patched"], &["appended", "patched", "moved"]),
            (lines(Some("id")), &["appended", "patched"], &["appended", "patched", "moved"]),
            (
                Constraint::Secrets(Policy::Refuse),
                &["appended", "patched"],
                &["appended", "patched", "moved"],
            ),
            (lines(None), &["patched"], &["appended", "patched", "moved"]),
            (Constraint::AppendOnly, &["replaced", "patched"], &[]),
            (own_lines, &["replaced", "patched"], &["appended", "patched", "moved"]),
            (Constraint::OwnFields(vec!["class".into()]), &["replaced", "appended", "patched"], &[]),
            (Constraint::NotInSessions, &[], &[]),
            (Constraint::NotSearchable, &[], &[]),
            (Constraint::Secrets(Policy::Allow), &[], &[]),
        ];
        for (constraint, at_its_path, elsewhere) in cases {
            for (is_same, asking) in [(true, at_its_path), (false, elsewhere)] {
                for written in ["replaced", "appended", "patched", "moved"] {
                    // A file that stays where it is, unchanged, is not judged.
                    if (is_same, written) == (true, "moved") {
                        continue;
                    }
                    let asks = change(is_same, written).asks(&constraint);
                    assert_eq!(asks, asking.contains(&written), "{constraint:?} {is_same} {written}");
                }
            }
        }
    }
}
