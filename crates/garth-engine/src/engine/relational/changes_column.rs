//! The `changes` column of the tables `log` and `log_more`: a JSON array with one array for each change.

use serde::{Deserialize, Serialize};

use crate::engine::planner::LogChange;
use crate::error::{Error, ErrorKind, Result};
use crate::model::ChangeKind;
use crate::path::TreePath;

/// A change: a letter for its kind, the inode, the path, and a name or an old path.
#[derive(Serialize, Deserialize)]
struct Row(char, u64, #[serde(default)] Option<String>, #[serde(default)] Option<String>);

/// Most bytes of the column, unless a single change has more: a few hundred changes. Further changes are in
/// rows of `log_more` of the same form, so that a page of the changes of a large commit reads only the pieces
/// that it returns.
const PIECE: usize = 16 << 10;
/// First character of a piece that others follow.
const MORE: char = '+';

/// Returns the texts of the columns, each with the index of its first change. The first text is that of
/// `log`.
///
/// # Errors
/// `Io` if they cannot be written as JSON: no commit may be written without its changes.
pub fn to_json(changes: &[LogChange]) -> Result<Vec<(usize, String)>> {
    let failed = |e| Error::new(ErrorKind::Io, "the changes of a commit cannot be recorded").with_source(e);
    let (mut pieces, mut first, mut piece) = (Vec::new(), 0, String::new());
    for (number, change) in changes.iter().enumerate() {
        let row = serde_json::to_string(&row(change)).map_err(failed)?;
        // A piece has at least one change, however long.
        if number > first && piece.len() + row.len() > PIECE {
            pieces.push((first, format!("{MORE}[{piece}]")));
            (first, piece) = (number, String::new());
        }
        if number > first {
            piece.push(',');
        }
        piece.push_str(&row);
    }
    pieces.push((first, format!("[{piece}]")));
    Ok(pieces)
}

fn row(change: &LogChange) -> Row {
    let (letter, text) = match &change.kind {
        ChangeKind::Created if change.whole => ('C', None),
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

/// Returns the changes in the column, and true if more follow in another row.
///
/// # Errors
/// `Corrupt` for text that [`to_json`] does not write.
pub fn from_json(text: &str) -> Result<(Vec<LogChange>, bool)> {
    let damaged = || Error::damaged("a row of the log is damaged");
    let path = |text: &str| TreePath::parse_stored(text).map_err(|e| damaged().with_source(e));
    let (json, more) = text.strip_prefix(MORE).map_or((text, false), |json| (json, true));
    let rows: Vec<Row> = serde_json::from_str(json).map_err(|e| damaged().with_source(e))?;
    let changes = rows
        .into_iter()
        .map(|Row(letter, ino, at, text)| {
            // Only some kinds have a text, and only for these a missing one is damage.
            let text = text.ok_or_else(damaged);
            let kind = match letter {
                'c' | 'C' => ChangeKind::Created,
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
            Ok(LogChange { kind, ino, path: at.as_deref().map(path).transpose()?, whole: letter == 'C' })
        })
        .collect::<Result<_>>()?;
    Ok((changes, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(number: u64) -> LogChange {
        let path = TreePath::parse(&format!("/some/directory/{number}")).unwrap();
        LogChange {
            kind: ChangeKind::Created,
            ino: number,
            path: Some(path),
            whole: number.is_multiple_of(2),
        }
    }

    /// Returns every change of the pieces: index, inode, and the flag `whole`.
    fn read(pieces: &[(usize, String)]) -> Vec<(usize, u64, bool)> {
        let numbered = |(first, json): &(usize, String)| {
            let changes = from_json(json).unwrap().0.into_iter().enumerate();
            let first = *first;
            changes.map(move |(at, change)| (first + at, change.ino, change.whole)).collect::<Vec<_>>()
        };
        pieces.iter().flat_map(numbered).collect()
    }

    #[test]
    fn changes_round_trip_in_pieces() {
        for count in [0, 1, 2, 5000] {
            let changes: Vec<_> = (0..count).map(created).collect();
            let pieces = to_json(&changes).unwrap();
            assert!(pieces.iter().all(|(_, json)| json.len() <= PIECE + 3), "{count}");
            let more: Vec<bool> = pieces.iter().map(|(_, json)| from_json(json).unwrap().1).collect();
            assert!(more.iter().rev().skip(1).all(|more| *more) && !more[more.len() - 1], "{count}");
            assert_eq!(pieces.len() > 1, count > 2, "{count}");
            let expected: Vec<_> = (0..count).map(|n| (n as usize, n, n.is_multiple_of(2))).collect();
            assert_eq!(read(&pieces), expected, "{count}");
        }
    }

    #[test]
    fn long_change_is_its_own_piece() {
        let kind = ChangeKind::Snapshot { name: "n".repeat(PIECE) };
        let long = LogChange { kind, ino: 1, path: None, whole: false };
        let pieces = to_json(&[long.clone(), created(3), long]).unwrap();
        assert_eq!(pieces.iter().map(|(first, _)| *first).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(read(&pieces), [(0, 1, false), (1, 3, false), (2, 1, false)]);
    }

    #[test]
    fn damaged_changes_are_corrupt() {
        for json in ["[", r#"[["?",1]]"#, r#"[["n",1,"/a"]]"#, r#"[["n",1,"/a","b"]]"#, r#"[["c",1,"a/"]]"#] {
            assert_eq!(from_json(json).unwrap_err().kind(), ErrorKind::Corrupt, "{json}");
        }
        assert_eq!(from_json(r#"[["n",1,"/a","/b"],["c",2,null]]"#).unwrap().0.len(), 2);
    }
}
