//! Values that a search of a tree found: the agent and the key of a file, and a filter by them.

use bytes::Bytes;

use super::error::KvResult;
use super::key::{Base, Key};
use super::read::{CurrentValue, VALUE, found, is_searchable, parse};
use crate::small_file::is_no_file;
use garth_engine::error::{ErrorKind, Result};
use garth_engine::model::{At, ByteRange, Entry};
use garth_engine::path::TreePath;

/// File of an account that holds a value.
#[derive(Clone, Debug)]
pub(crate) struct ValueFile {
    agent: String,
    key: Key,
}

impl ValueFile {
    /// Returns the value that a path of the account is for; `None` if no key leads to it.
    pub(crate) fn at(path: &TreePath) -> Option<Self> {
        let ["agents", agent, "kv", ..] = *path.segments().collect::<Vec<_>>() else { return None };
        let key = Base::of(agent).ok()?.key_of(path)?;
        Some(Self { agent: agent.to_owned(), key })
    }

    /// Returns the agent that owns the key.
    pub(crate) fn agent(&self) -> &str {
        &self.agent
    }

    /// Returns the range to read of the file, which has this path in the view.
    pub(crate) fn wanted(path: &TreePath) -> (At, ByteRange) {
        (At::from(path), VALUE)
    }

    /// Returns the value from a read of its file; `None` if it has none, or was put without `searchable`.
    ///
    /// # Errors
    /// Errors of the read, except for those of a missing file.
    pub(crate) fn value(&self, read: Result<(Entry, Bytes)>) -> Result<Option<CurrentValue>> {
        let (entry, bytes) = match read {
            Err(error) if is_no_file(&error) || error.is(ErrorKind::TooLarge) => return Ok(None),
            read => read?,
        };
        let Some(value) = parse(&bytes).filter(|_| is_searchable(&entry)) else { return Ok(None) };
        Ok(Some(found(&self.key, entry, value)))
    }
}

/// Keys of one agent, or those below one key.
#[derive(Clone, Debug)]
pub struct Namespace {
    agent: String,
    prefix: Key,
    /// Paths of the account that hold the values.
    places: [TreePath; 2],
}

impl Namespace {
    /// Returns the keys of `agent` that are `path_prefix` or below it, by segment; all keys if it is `/`.
    ///
    /// # Errors
    /// `Validation` for an invalid agent id, `InvalidPath` for an invalid prefix.
    pub fn new(agent: &str, path_prefix: &str) -> KvResult<Self> {
        let (base, prefix) = (Base::of(agent)?, Key::parse(path_prefix)?);
        // The value of the prefix itself is in a file next to the directory.
        let directory = base.directory(&prefix)?;
        let file = if prefix.is_top() { directory.clone() } else { base.file(&prefix)? };
        Ok(Self { agent: agent.to_owned(), prefix, places: [directory, file] })
    }

    /// Returns the paths of the account that hold the values.
    pub(crate) fn places(&self) -> &[TreePath] {
        &self.places
    }

    /// Returns true if a value is one of them.
    pub(crate) fn contains(&self, file: &ValueFile) -> bool {
        let rest = file.key.as_str().strip_prefix(self.prefix.as_str());
        file.agent == self.agent && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_contains_keys_by_segment() {
        let file = |path: &str| ValueFile::at(&TreePath::parse(path).unwrap());
        let user = Namespace::new("bot", "/user").unwrap();
        for (is_in, path) in [
            (true, "/agents/bot/kv/user.json"),
            (true, "/agents/bot/kv/user/tone.json"),
            (false, "/agents/bot/kv/users/tone.json"),
            (false, "/agents/other/kv/user.json"),
        ] {
            assert_eq!(user.contains(&file(path).unwrap()), is_in, "{path}");
        }
        assert!(Namespace::new("bot", "/").unwrap().contains(&file("/agents/bot/kv/a.json").unwrap()));
        for path in ["/agents/bot/kv/a.txt", "/agents/bot/a.json", "/agents/bot/kv.json"] {
            assert!(file(path).is_none(), "{path}");
        }
        assert!(Namespace::new("a/b", "/").is_err() && Namespace::new("bot", "user").is_err());
    }
}
