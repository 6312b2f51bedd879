//! Key paths and their files. Only this module converts one into the other, so that a key can never
//! name a file outside its agent's directory.

use super::error::{KvCode, KvError, KvResult};
use garth_engine::model::{Item, Kind};
use garth_engine::path::{TreePath, check_id};

/// Limit on the characters of a key path as given.
pub const MAX_KEY_CHARS: usize = 512;
/// Limit on the segments of a key path as given: its slashes, also those that normalising folds.
pub const MAX_KEY_SEGMENTS: usize = 64;
/// Limit on the bytes of a segment: a name has 255, and `.json` is added.
pub const MAX_KEY_SEGMENT: usize = 250;
/// Suffix of the file of a value.
pub(super) const SUFFIX: &str = ".json";

/// Normalised key path: `/a/b`, or the empty string for the top. Like [`TreePath`], but within the limits of
/// keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key(String);

impl Key {
    /// Checks and normalises a key path. `/` is the top, which holds keys but has no value.
    pub(super) fn parse(path: &str) -> KvResult<Self> {
        check_key(path).map_err(|why| KvError::new(KvCode::InvalidPath, why))?;
        Ok(Self(fold(path)))
    }

    /// Checks and normalises the path of a value, which the top cannot be.
    pub(super) fn parse_value(path: &str) -> KvResult<Self> {
        let key = Self::parse(path)?;
        if key.0.is_empty() {
            return Err(KvError::new(
                KvCode::InvalidPath,
                "a key path names at least one segment, as `/a` does",
            ));
        }
        Ok(key)
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    pub(super) fn is_top(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true for `/sys` and keys below it, which are reserved for the system.
    pub(super) fn is_reserved(&self) -> bool {
        self.0.strip_prefix("/sys").is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Folds `//` and drops a trailing `/`.
pub(super) fn fold(path: &str) -> String {
    let mut folded = String::with_capacity(path.len());
    for segment in path.split('/').filter(|segment| !segment.is_empty()) {
        folded.push('/');
        folded.push_str(segment);
    }
    folded
}

/// Checks the rules that key paths and patterns share. Fails with a message about this `what`.
pub(super) fn check_path(what: &str, path: &str) -> Result<(), String> {
    if !path.starts_with('/') {
        return Err(format!("a {what} starts with `/`"));
    }
    let chars = path.chars().count();
    if chars > MAX_KEY_CHARS {
        return Err(format!("a {what} has at most {MAX_KEY_CHARS} characters, this one has {chars}"));
    }
    let segments = path.matches('/').count();
    if segments > MAX_KEY_SEGMENTS {
        return Err(format!("a {what} has at most {MAX_KEY_SEGMENTS} segments, this one has {segments}"));
    }
    if path.contains('\0') {
        return Err(format!("a {what} must not contain NUL"));
    }
    if path.split('/').any(|segment| segment == "." || segment == "..") {
        return Err(format!("a {what} must not contain the segments `.` and `..`"));
    }
    Ok(())
}

pub(super) fn check_key(path: &str) -> Result<(), String> {
    check_path("key path", path)?;
    if path.split('/').any(|segment| segment.len() > MAX_KEY_SEGMENT) {
        return Err(format!("a segment of a key path has at most {MAX_KEY_SEGMENT} bytes"));
    }
    Ok(())
}

/// Directory that holds an agent's values: `/agents/{agent}/kv`.
#[derive(Clone, Debug)]
pub(super) struct Base(TreePath);

impl Base {
    pub(super) fn of(agent: &str) -> KvResult<Self> {
        check_id("agent", agent).map_err(|error| KvError::validation(error.to_string()))?;
        Ok(Self(TreePath::parse(&format!("/agents/{agent}/kv"))?))
    }

    pub(super) fn path(&self) -> &TreePath {
        &self.0
    }

    /// Returns the file that holds a key's value.
    pub(super) fn file(&self, key: &Key) -> KvResult<TreePath> {
        Ok(TreePath::parse(&format!("{}{}{SUFFIX}", self.0.key(), key.0))?)
    }

    /// Returns the directory that holds the values below a key.
    pub(super) fn directory(&self, key: &Key) -> KvResult<TreePath> {
        Ok(TreePath::parse(&format!("{}{}", self.0.key(), key.0))?)
    }

    /// Returns the key whose value a file holds; `None` for a file that holds none, also if no key path can
    /// reach it.
    pub(super) fn key_of(&self, file: &TreePath) -> Option<Key> {
        let stem = self.below(file)?.strip_suffix(SUFFIX)?;
        // The file `.json` would be a value with an empty segment.
        (!stem.ends_with('/') && check_key(stem).is_ok()).then(|| Key(stem.to_owned()))
    }

    /// Returns the key path under which users see a path that is in the way of a key; `None` if the path is
    /// above all keys.
    pub(super) fn shown<'a>(&self, path: &'a TreePath, is_directory: bool) -> Option<&'a str> {
        let rest = self.below(path)?;
        Some(if is_directory { rest } else { rest.strip_suffix(SUFFIX).unwrap_or(rest) })
    }

    fn below<'a>(&self, path: &'a TreePath) -> Option<&'a str> {
        path.key().strip_prefix(self.0.key()).filter(|rest| rest.starts_with('/'))
    }
}

/// Returns the segment of a key that an item of a directory represents: a value's file, or a directory
/// of keys.
pub(super) fn segment_of(item: &Item) -> Option<&str> {
    let name = item.name.as_str();
    let segment = match item.kind {
        Kind::Directory => name,
        Kind::File => name.strip_suffix(SUFFIX)?,
        _ => return None,
    };
    // A key path cannot contain these names, so no key reaches such an entry.
    (!segment.is_empty() && segment != "." && segment != ".." && segment.len() <= MAX_KEY_SEGMENT)
        .then_some(segment)
}
