//! Memories and skills addressed by URI. Writes are atomic: a reader sees a complete memory or none. A memory
//! is a directory whose files are written in one order, its meta last; `docs/specs/memories.md` describes
//! them.

mod duplicates;
pub mod edge;
pub mod event;
mod file_names;
mod get;
pub mod layers;
mod list;
mod meta;
mod move_to;
mod past;
mod put;
mod relations;
mod remember;
mod remove;
mod repair;
mod state;
mod uri;
pub mod write_ops;

pub use self::duplicates::Duplicate;
pub use self::edge::{Edge, MAX_EDGES};
pub use self::event::{Event, EventStatus, EventType};
#[doc(hidden)]
pub use self::file_names::BESIDE_TEXT;
pub use self::file_names::{ABSTRACT, CONTENT, DLQ, DONE, META, OUTBOX, OVERVIEW, RELATIONS, SKILL};
pub use self::get::{Level, Memory};
pub use self::list::{List, Listed, MAX_LISTED, Prefix};
pub use self::meta::{ContextType, Layer, Layers, Meta, Origin, Provenance, Status, seconds};
pub use self::past::{MAX_LOGGED, MemoryVersion};
pub use self::put::{LayerText, Put, Written};
pub use self::relations::{Around, Direction, MAX_HOPS, MAX_LOOKED, Related};
pub use self::remember::{Forgotten, NOTES, Remember};
pub use self::repair::{Finding, FindingReport, Follow, Next, Repair, Report};
pub use self::state::{File, MAX_CONTENT, State, text_of};
pub use self::uri::{CATEGORIES, Place, Space, Uri};
pub use super::small_file::sha256;

use super::once::Once;
use crate::identity::DEFAULT_USER;
use crate::own_paths;
use crate::small_file::{repairable, unreadable};
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, Author, Batch, Op, Precondition};
use garth_engine::path::TreePath;

/// Memories of an account.
///
/// ```
/// use garth::memory::{Level, Memories, Put};
///
/// # futures::executor::block_on(async {
/// let fs = garth::in_memory();
/// let memories = Memories::new(&fs, "default");
/// let coffee = "ctx://default/users/alice/memories/preferences/coffee".parse()?;
/// memories.put(&coffee, &Put::new("Alice likes her coffee black. She has two a day.\n")).await?;
/// let memory = memories.get(&coffee, Level::Abstract).await?;
/// assert_eq!(memory.text, "Alice likes her coffee black.");
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Memories<'a> {
    fs: &'a dyn FileSystem,
    account: String,
    env: Env,
    author: Author,
    categories: Vec<String>,
    /// Directories that `fs` reaches; `None` for all.
    tops: Option<Vec<TreePath>>,
    /// Directories whose memories may be changed; `None` for all.
    changed: Option<Vec<TreePath>>,
    /// Default owner of the memories that [`Memories::remember`] stores.
    space: Space,
    /// Request that the next write carries out.
    once: Once,
}

impl<'a> Memories<'a> {
    /// Returns the memories of `account`, whose tree is `fs`, or the part of it that `fs` reaches under the
    /// account's own paths. Calls fail with `InvalidArgument` for a tree with other paths, such as that of a
    /// chat.
    pub fn new(fs: &'a dyn FileSystem, account: &str) -> Self {
        let (account, env, author) = (account.to_owned(), Env::system(), Author::default());
        let (categories, once) = (Vec::new(), Once::default());
        let space = Space::User(DEFAULT_USER.to_owned());
        Self { fs, account, env, author, categories, tops: None, changed: None, space, once }
    }

    /// Sets the clock, the randomness and the threads to compute on. The default is those of the machine.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Sets the author of commits.
    #[must_use]
    pub fn author(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Sets the request that the handle carries out with one write.
    #[must_use]
    #[doc(hidden)]
    pub fn once(self, once: Once) -> Self {
        Self { once, ..self }
    }

    /// Sets categories in addition to [`CATEGORIES`].
    #[must_use]
    pub fn categories(self, categories: impl IntoIterator<Item = String>) -> Self {
        Self { categories: categories.into_iter().collect(), ..self }
    }

    /// Sets the only directories that `fs` reaches, such as `/users/alice/memories`.
    #[must_use]
    pub fn tops(self, tops: impl IntoIterator<Item = TreePath>) -> Self {
        Self { tops: Some(tops.into_iter().collect()), ..self }
    }

    /// Sets the owner of the memories that [`Memories::remember`] stores. The default is the user `default`.
    #[must_use]
    pub fn space(self, space: Space) -> Self {
        Self { space, ..self }
    }

    /// Restricts changes to memories in these directories.
    #[must_use]
    pub(crate) fn changed(self, tops: impl IntoIterator<Item = TreePath>) -> Self {
        Self { changed: Some(tops.into_iter().collect()), ..self }
    }

    /// Checks that the memory may be changed. Without this check, the commit would fail with an error about
    /// directories, which does not name the reason.
    fn check_change(&self, uri: &Uri) -> Result<()> {
        let dir = uri.dir();
        if self.changed.as_ref().is_none_or(|tops| tops.iter().any(|top| dir.is_within(top))) {
            return Ok(());
        }
        let message = format!(
            "{uri}: this identity may not change it; name its user, the owner for memories of the agent, or nobody"
        );
        Err(Error::new(ErrorKind::AccessDenied, message))
    }

    /// Checks account and category of a URI.
    fn check(&self, uri: &Uri) -> Result<()> {
        self.check_place(uri)?;
        self.check_category(uri.category())
            .map_err(|error| Error::invalid(format!("{uri}: {}", error.message())))
    }

    /// Checks that a category exists.
    fn check_category(&self, category: &str) -> Result<()> {
        if CATEGORIES.contains(&category) || self.categories.iter().any(|known| known == category) {
            return Ok(());
        }
        let known: Vec<&str> =
            CATEGORIES.iter().copied().chain(self.categories.iter().map(String::as_str)).collect();
        Err(Error::invalid(format!("unknown category {category}; use one of {}", known.join(", "))))
    }

    /// Checks the account of a URI, and that the tree has the paths of the account.
    fn check_place(&self, uri: &Uri) -> Result<()> {
        uri.check_account(&self.account)?;
        own_paths::check(self.fs, &uri.dir(), "open it with AgentTree::memories")
    }

    fn has_attributes(&self, uri: &Uri) -> bool {
        self.fs.capabilities(&uri.dir()).attributes
    }

    /// Returns the meta of an active memory.
    fn active(&self, state: &State) -> Result<Meta> {
        state
            .active()
            // A damaged meta is reported as such, with the way to repair it. As missing, a client would write
            // over it.
            .ok_or_else(|| damaged(&state.uri, state.meta.as_ref()).unwrap_or_else(|| missing(&state.uri)))
    }

    /// Returns the batch of a write without changes.
    fn nothing(&self, message: String) -> Batch {
        self.batch(Vec::new(), Vec::new()).message(message)
    }

    fn batch(&self, mut ops: Vec<Op>, conditions: Vec<(At, Precondition)>) -> Batch {
        for op in &mut ops {
            if let Op::Write { at: At::Path(path), attrs, .. } = op
                && is_no_text(path)
                && self.fs.capabilities(path).attributes
            {
                // Search never returns it, so it need not be indexed.
                attrs.searchable = Some(Some(false));
            }
        }
        let batch = Batch::new(ops).author(self.author.clone());
        Batch { preconditions: conditions, ..batch }
    }
}

/// Returns true for a file of a memory other than its text and layers.
fn is_no_text(path: &TreePath) -> bool {
    let is_event = path.segments().any(|segment| segment == OUTBOX);
    is_event || path.name().is_some_and(|name| name == META || name == RELATIONS)
}

/// Returns the `Corrupt` error of a memory whose `.meta.json` exists and cannot be read.
fn damaged(uri: &Uri, meta: Option<&File>) -> Option<Error> {
    if let Err(error) = check_status(uri, meta) {
        return Some(error);
    }
    let error = meta?.read().and_then(Meta::parse).err()?;
    let how = "`garth repair` completes the memory, or reports the missing files";
    Some(repairable(&uri.file(META), error.message(), how))
}

/// Refuses a memory whose status garth does not know: only its writer knows what it means.
fn check_status(uri: &Uri, meta: Option<&File>) -> Result<()> {
    let fields = meta.and_then(|meta| serde_json::from_slice(meta.bytes.as_ref()?).ok());
    let Some(status) = fields.and_then(|fields| meta::unknown_status(&fields)) else { return Ok(()) };
    let why = format!("unknown status {status}");
    let how = "write ACTIVE, PENDING or BROKEN there, or remove the memory first";
    Err(unreadable(&uri.file(META), &why, how))
}

fn missing(uri: &Uri) -> Error {
    Error::new(ErrorKind::NotFound, format!("{uri}: no such memory"))
}
