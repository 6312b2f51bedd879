//! Standard output of verbs, for people and as JSON, in one place for all verbs.

use std::fmt::Display;
use std::io::{BufWriter, Stdout, Write as _};

use base64::Engine as _;
use garth_engine::TreePath;
use garth_engine::model::{Author, Commit, CommitInfo, Entry, Kind, Timestamp, VersionId};
use serde::Serialize;
use serde_json::{Value, json};

use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::terminal::{self, Visible};

/// Standard output.
pub(crate) struct Out {
    json: bool,
    to: BufWriter<Visible<Stdout>>,
}

impl Out {
    /// Returns the output, as JSON or for people.
    pub(crate) fn new(json: bool) -> Self {
        Self { json, to: BufWriter::new(terminal::stdout(json)) }
    }

    /// Returns true for JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.json
    }

    /// Prints an item: a line of JSON, or text for people.
    pub(crate) fn item(&mut self, json: &impl Serialize, text: impl Display) -> Result {
        if !self.json {
            return writeln!(self.to, "{text}").map_err(Failure::stdio);
        }
        serde_json::to_writer(&mut self.to, json).map_err(|error| Failure::stdio(error.into()))?;
        self.to.write_all(b"\n").map_err(Failure::stdio)
    }

    /// Prints a node: all of its fields as a line of JSON, or text for people.
    pub(crate) fn entry(&mut self, path: &TreePath, entry: &Entry, text: impl Display) -> Result {
        // The JSON costs more than the rest of a listing, so it is built only if it is printed.
        if self.json { self.item(&entry_json(path, entry), text) } else { self.note(text) }
    }

    /// Prints a line that only people need.
    pub(crate) fn note(&mut self, text: impl Display) -> Result {
        if self.json {
            return Ok(());
        }
        writeln!(self.to, "{text}").map_err(Failure::stdio)
    }

    /// Prints bytes as they are.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result {
        self.to.write_all(bytes).map_err(Failure::stdio)
    }

    /// Prints the result of operation `op` of a commit, at `path`.
    pub(crate) fn committed(&mut self, commit: &Commit, op: usize, path: &TreePath) -> Result {
        let created = commit.outcomes.get(op).is_some_and(|outcome| outcome.created);
        self.written(commit, commit.version(op), created, path)
    }

    /// Prints the result of one or more commits at `path`, the last of which is `commit`.
    pub(crate) fn written(
        &mut self,
        commit: &Commit,
        version: VersionId,
        created: bool,
        path: &TreePath,
    ) -> Result {
        let version = version.to_string();
        let json = json!({
            "path": path.as_str(), "version": version, "created": created,
            "seq": commit.seq, "time": commit.time.to_rfc3339(),
        });
        self.item(&json, format_args!("{version}  {}", escaped(path.as_str())))
    }

    /// Prints a removal at `path`. With `was_there` false, nothing existed there.
    pub(crate) fn removed(&mut self, commit: &Commit, was_there: bool, path: &TreePath) -> Result {
        let json = json!({
            "path": path.as_str(), "version": null, "created": false, "removed": was_there,
            "seq": commit.seq, "time": commit.time.to_rfc3339(),
        });
        let done = if was_there { "removed" } else { "missing" };
        self.item(&json, format_args!("{done}  {}", escaped(path.as_str())))
    }

    /// Prints a warning on stderr.
    pub(crate) fn warn(&self, text: impl Display) {
        terminal::tell(text);
    }

    /// Writes buffered output.
    pub(crate) fn flush(&mut self) -> Result {
        self.to.flush().map_err(Failure::stdio)
    }
}

/// Returns a number and its unit: `1 file`, `2 files`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Returns a time to the second, for columns.
pub(crate) fn seconds(time: Timestamp) -> String {
    let text = time.to_rfc3339();
    text.split_once('.').map_or_else(|| text.clone(), |(seconds, _)| format!("{seconds}Z"))
}

/// Returns a kind in one word, also for JSON.
pub(crate) fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice => "char_device",
        Kind::BlockDevice => "block_device",
        Kind::Whiteout => "whiteout",
    }
}

/// Returns kind and permissions in the form of `ls -l`, such as `drwxr-xr-x`.
pub(crate) fn mode_text(kind: Kind, mode: u32) -> String {
    let first = match kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
        Kind::Whiteout => 'w',
    };
    let mut text = String::from(first);
    // The bits setuid, setgid and sticky take the place of an `x`.
    for (shift, special, sign) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => sign,
            (true, false) => sign.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Returns a node and its path as JSON, with all fields.
pub(crate) fn entry_json(path: &TreePath, entry: &Entry) -> Value {
    json!({
        "path": path.as_str(),
        "name": path.name(),
        "kind": kind_word(entry.kind),
        "size": entry.size,
        "mode": format!("{:04o}", entry.mode),
        "uid": entry.uid,
        "gid": entry.gid,
        "rdev": entry.rdev,
        "ino": entry.ino,
        "nlink": entry.nlink,
        "mtime": entry.mtime.to_rfc3339(),
        "ctime": entry.ctime.to_rfc3339(),
        "birthtime": entry.birthtime.to_rfc3339(),
        "atime": entry.atime.to_rfc3339(),
        "target": entry.target,
        "expires_at": entry.expires_at.map(Timestamp::to_rfc3339),
        "attributes": entry.attributes,
        "version": entry.version.to_string(),
        "etag": entry.etag.to_string(),
    })
}

/// Returns the fields of a commit that all listings of the log print.
pub(crate) fn commit_json(commit: &CommitInfo) -> Value {
    let mut json = json!({
        "seq": commit.seq,
        "time": commit.time.to_rfc3339(),
        "author": commit.author,
        "message": commit.message,
        "id": commit.id.map(|id| id.to_string()),
    });
    if commit.overrides_rules {
        json["overrides_rules"] = true.into();
    }
    json
}

/// Returns the message of a commit, marked if it overrode rules.
pub(crate) fn message_text(commit: &CommitInfo) -> String {
    let mark = if commit.overrides_rules { "[overrides rules] " } else { "" };
    format!("{mark}{}", escaped(&commit.message))
}

/// Returns the author of a commit, for a column.
pub(crate) fn author_text(author: &Author) -> String {
    let parts = [&author.agent, &author.key, &author.session, &author.user, &author.class];
    let text: Vec<&str> = parts.iter().filter_map(|part| part.as_deref()).collect();
    if text.is_empty() { "-".to_owned() } else { escaped(&text.join("/")).into_owned() }
}

/// Returns base64 with padding (RFC 4648, 4), for content that is not UTF-8.
pub(crate) fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_read_as_in_ls() {
        assert_eq!(mode_text(Kind::Directory, 0o755), "drwxr-xr-x");
        assert_eq!(mode_text(Kind::File, 0o4640), "-rwSr-----");
        assert_eq!(mode_text(Kind::File, 0o1777), "-rwxrwxrwt");
    }
}
