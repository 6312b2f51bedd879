//! Key-value API of the agents, over any [`FileSystem`]. Values are plain files, so that every other
//! interface sees, versions and restores them.
//!
//! The value of key `/a/b` of agent `x` is the file `/agents/x/kv/a/b.json`; its content is the JSON
//! text exactly as given. `/a` and `/a/b` can both have values (`a.json` next to `a/`). `/a` and
//! `/a.json/b` cannot: one needs a file `a.json`, the other a directory of that name.
//!
//! # Key paths
//! A key path starts with `/` and has at most [`MAX_KEY_CHARS`] characters and [`MAX_KEY_SEGMENTS`]
//! segments as given. Then `//` is folded and a trailing `/` dropped. `.`, `..`, NUL and segments over
//! [`MAX_KEY_SEGMENT`] bytes are rejected. `/sys` and the keys below it cannot be put. Patterns follow
//! the same rules, with [`Semantics`] for `*`, `**` and `?`.
//!
//! # Files of other interfaces under `kv/`
//! Only regular files that end in `.json` hold values. A file that is not valid JSON or is over
//! [`MAX_VALUE`] bytes is listed, but has no value: `get` returns `None` for it, and `history` and
//! `search` skip it. Links are not followed.
//!
//! # Pages
//! `list`, `glob`, `history` and `search` return pages ([`PageRequest`], [`Paged`]), bounded in items
//! and bytes. The cursor of a page leads to the next one. Each page is read at its own point in time.

mod error;
mod glob;
mod key;
mod page;
mod pattern;
mod read;
mod scan;
mod update;
mod value_file;
mod write;

pub use self::error::{KvCode, KvError, KvResult};
pub use self::key::{MAX_KEY_CHARS, MAX_KEY_SEGMENT, MAX_KEY_SEGMENTS};
pub use self::page::{MAX_PAGE_VALUES, PageRequest, Paged};
pub use self::pattern::Semantics;
pub use self::read::{
    CurrentValue, DEFAULT_HISTORY, DEFAULT_HITS, MAX_GETS, MAX_HISTORY, MAX_HITS, MAX_QUERY_CHARS,
    MAX_TAGS_ANY, Many, Match, Past, Search,
};
pub use self::scan::{KeyItem, KeyKind, MAX_LISTED};
pub use self::value_file::Namespace;
pub(crate) use self::value_file::ValueFile;
pub use self::write::{Condition, MAX_PUTS, MAX_TAG_CHARS, MAX_TAGS, Put, Written};
pub use crate::registry::MAX_VALUE;

use self::key::Base;
use crate::once::Once;
use crate::own_paths;
use garth_engine::fs::FileSystem;
use garth_engine::model::Author;

/// Agent of requests that name none.
pub const DEFAULT_AGENT: &str = "default";

/// Keys and values of one agent.
#[derive(Clone, Debug)]
pub struct Kv<'a> {
    fs: &'a dyn FileSystem,
    base: Base,
    author: Author,
    once: Once,
}

impl<'a> Kv<'a> {
    /// Returns the key-value store of `agent` (an id by [`garth_engine::path::check_id`]) in `fs`.
    ///
    /// # Errors
    /// `Validation` for an invalid agent id; `InvalidArgument` for a tree with other paths than the
    /// account's, such as that of a chat.
    pub fn new(fs: &'a dyn FileSystem, agent: &str) -> KvResult<Self> {
        let base = Base::of(agent)?;
        own_paths::check(fs, base.path(), "give it the account's own tree")?;
        Ok(Self { fs, base, author: Author::agent(agent), once: Once::default() })
    }

    /// Sets the API key whose id is recorded as author of commits.
    #[must_use]
    pub fn by_key(self, id: &str) -> Self {
        Self { author: self.author.with_key(id), ..self }
    }

    /// Sets the request that the handle carries out with one increment or change of an expiry. Puts and
    /// deletions take the record of their request as an argument.
    #[must_use]
    #[doc(hidden)]
    pub fn once(self, once: Once) -> Self {
        Self { once, ..self }
    }
}
