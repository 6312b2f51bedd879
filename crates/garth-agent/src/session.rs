//! Sessions: what was said and done, which only grows, and what is made of it for a model. A session is a
//! directory; `docs/specs/sessions.md` describes its files.

mod append;
mod back;
mod child;
mod close;
mod compact;
mod create;
mod current;
mod dedup;
mod derive;
mod draft;
mod due;
mod entry;
mod files;
mod gc;
mod hydrate;
mod key;
mod lines;
mod list;
mod message;
mod meta;
mod native;
mod pack;
mod pictures;
mod pinned;
mod policy;
mod provider;
mod publish;
mod refers;
mod set;
mod shown;
mod source;
mod swap;
mod swap_index;
mod transcript;
mod trim;
mod withdraw;
mod wrote;

pub use self::append::{Append, Appended, MAX_APPENDED};
pub use self::child::{Child, ChildChange, ChildStatus, MAX_CHILDREN, Spawn};
pub(crate) use self::close::Closed;
pub use self::compact::{Compact, Compacted};
pub use self::create::Create;
pub use self::dedup::Deduped;
pub use self::derive::{Derive, Derived, Why};
pub use self::draft::{Draft, Role};
pub use self::due::{Due, DueSession};
pub use self::entry::{Entry, EntryKind, MAX_DERIVED, MAX_ENTRIES};
pub use self::files::{EVENTS, Log, MESSAGES};
pub use self::gc::{Collect, Collected, Collection};
pub use self::key::SessionKey;
pub use self::lines::{End, Line, Lines, Select};
pub use self::list::{List, Listed, MAX_LISTED};
pub use self::message::{Block, ImageSource, Message, Native};
pub use self::meta::{Meta, State, Usage};
pub use self::pack::{
    Changed, Difference, Digest, Item, MAX_TOKENS, Omitted, Pack, PackOptions, Packed, Prefix, Reserved,
    Window,
};
pub use self::pictures::media_referred;
pub use self::policy::{History, Policy};
pub use self::provider::{Format, list as provider_list};
pub use self::set::Change;
pub use self::shown::{Cut, IMAGE_TOKENS};
pub use self::source::{Resolved, Source, What};
pub use self::swap::MAX_SWAPPED;
pub use self::swap_index::Swapped;
pub use self::transcript::{Document, Export, Exported, Imported, TranscriptFormat};
pub(crate) use self::transcript::{archived_in, archived_lines, archived_messages, archived_said};
pub use self::withdraw::Withdrawn;
pub use self::wrote::Wrote;

use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Author, Batch, Op};
use garth_engine::path::{TreePath, check_id};

/// The sessions of an agent with a user.
///
/// ```
/// use garth::agent::session::{Append, Create, Draft, Select, Sessions};
/// use garth::engine::memory::Memory;
/// use garth::Env;
///
/// # futures::executor::block_on(async {
/// let fs = Memory::new(Env::system(), garth::agent::registry());
/// let sessions = Sessions::new(&fs, "ann", "coder", Env::system())?;
/// sessions.create(&Create::new("default")).await?;
/// let said = [Draft::user("Where is the parser?"), Draft::assistant("In `src/parse.rs`.")];
/// sessions.append("default", &Append::messages(said)).await?;
/// let page = sessions.lines("default", &Select::messages(1..=2)).await?;
/// assert!(page.items[0].text.contains("Where is the parser?"));
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Sessions<'a> {
    fs: &'a dyn FileSystem,
    env: Env,
    author: Author,
    user: String,
    agent: String,
    class: String,
    /// The only session that `fs` reaches, if it is not all.
    only: Option<String>,
}

impl<'a> Sessions<'a> {
    /// The sessions of `agent` with `user` in an account, whose tree is `fs`, or as much of it as `fs`
    /// reaches.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no id.
    pub fn new(fs: &'a dyn FileSystem, user: &str, agent: &str, env: Env) -> Result<Self> {
        check_id("user", user)?;
        check_id("agent", agent)?;
        let [user, agent, class] = [user, agent, super::tree::MAIN].map(str::to_owned);
        Ok(Self { fs, env, author: Author::default(), user, agent, class, only: None })
    }

    /// In the name of this author. Sessions that are made have the author's class.
    #[must_use]
    pub fn author(mut self, author: Author) -> Self {
        if let Some(class) = &author.class {
            self.class.clone_from(class);
        }
        Self { author, ..self }
    }

    /// Where `fs` reaches this session alone.
    #[must_use]
    pub fn only(self, session: Option<String>) -> Self {
        Self { only: session, ..self }
    }

    /// The directory that has them.
    fn home(&self) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("/users/{}/agents/{}/session", self.user, self.agent))?)
    }

    /// The directory of a session.
    ///
    /// # Errors
    /// `InvalidArgument` for what is no id.
    pub fn directory(&self, session: &str) -> Result<TreePath> {
        check_id("session", session)?;
        Ok(TreePath::from_row(self.home()?.key(), session))
    }

    /// A file of a session.
    fn file(&self, session: &str, name: &str) -> Result<TreePath> {
        let dir = self.directory(session)?;
        Ok(name.split('/').fold(dir, |dir, name| TreePath::from_row(dir.key(), name)))
    }

    fn batch(&self, session: &str, ops: Vec<Op>, message: &str) -> Batch {
        let author = self.author.clone().or(&Author::agent(&self.agent).with_user(&self.user));
        Batch::new(ops).author(author.with_session(session)).message(format!("{message} {session}"))
    }
}

fn missing(session: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{session}: there is no such session; create it first"))
}
