//! The `changes` column of the `log` table: a JSON array of one array a change.

use serde::{Deserialize, Serialize};

use crate::engine::planner::LogChange;
use crate::error::{Error, ErrorKind, Result};
use crate::model::ChangeKind;
use crate::path::TreePath;

/// One change: a letter for what happened, the node, its path, and a name or an old path.
#[derive(Serialize, Deserialize)]
struct Row(char, u64, #[serde(default)] Option<String>, #[serde(default)] Option<String>);

/// The text of the column.
///
/// # Errors
/// `Io` if they cannot be written as JSON: a commit without its changes must not be made.
pub(crate) fn to_json(changes: &[LogChange]) -> Result<String> {
    let rows: Vec<Row> = changes.iter().map(row).collect();
    serde_json::to_string(&rows)
        .map_err(|e| Error::new(ErrorKind::Io, "the changes of a commit cannot be recorded").with_source(e))
}

fn row(change: &LogChange) -> Row {
    let (letter, text) = match &change.kind {
        ChangeKind::Created => ('c', None),
        ChangeKind::Modified => ('m', None),
        ChangeKind::Attributes => ('a', None),
        ChangeKind::Removed => ('r', None),
        ChangeKind::Expired => ('x', None),
        ChangeKind::Linked => ('l', None),
        ChangeKind::Renamed { from } => ('n', Some(from.as_str().to_owned())),
        ChangeKind::Snapshot { name } => ('s', Some(name.clone())),
        ChangeKind::SnapshotDropped { name } => ('d', Some(name.clone())),
    };
    Row(letter, change.ino, change.path.as_ref().map(|path| path.as_str().to_owned()), text)
}

/// The changes in the column.
///
/// # Errors
/// `Corrupt` for text that [`to_json`] does not write.
pub(crate) fn from_json(json: &str) -> Result<Vec<LogChange>> {
    let damaged = || Error::new(ErrorKind::Corrupt, "a row of the log is damaged; run `garth fsck`");
    let path = |text: &str| TreePath::parse(text).map_err(|e| damaged().with_source(e));
    let rows: Vec<Row> = serde_json::from_str(json).map_err(|e| damaged().with_source(e))?;
    rows.into_iter()
        .map(|Row(letter, ino, at, text)| {
            let text = text.ok_or_else(damaged);
            let kind = match letter {
                'c' => ChangeKind::Created,
                'm' => ChangeKind::Modified,
                'a' => ChangeKind::Attributes,
                'r' => ChangeKind::Removed,
                'x' => ChangeKind::Expired,
                'l' => ChangeKind::Linked,
                'n' => ChangeKind::Renamed { from: path(&text?)? },
                's' => ChangeKind::Snapshot { name: text? },
                'd' => ChangeKind::SnapshotDropped { name: text? },
                _ => return Err(damaged()),
            };
            Ok(LogChange { kind, ino, path: at.as_deref().map(path).transpose()? })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_row_is_corrupt_whatever_is_wrong_with_it() {
        for json in ["[", r#"[["?",1]]"#, r#"[["n",1,"/a"]]"#, r#"[["n",1,"/a","b"]]"#, r#"[["c",1,"a/"]]"#] {
            assert_eq!(from_json(json).unwrap_err().kind(), ErrorKind::Corrupt, "{json}");
        }
        assert_eq!(from_json(r#"[["n",1,"/a","/b"],["c",2,null]]"#).unwrap().len(), 2);
    }
}
