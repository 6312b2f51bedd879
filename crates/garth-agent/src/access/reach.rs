//! Reach of a request: the only way from an API key and a request to files. A call of the server has a
//! [`Reach`] and nothing else of the account; `docs/specs/bindings.md` describes the effect of a binding.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::by_identity::Cache;
use super::{Access, binding};
use crate::boxed;
use crate::identity::{Caller, Class, Identity, Request, SETTINGS, SessionKey};
use crate::kv::{DEFAULT_AGENT, Kv, KvResult};
use crate::media::Media;
use crate::memory::Memories;
use crate::session::Sessions;
use crate::workspace::Workspace;
use garth_engine::env::Env;
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::fs::{AccountStore, FileSystem};
use garth_engine::home::{Binding, FILES_OWNER, Home, OperatorTree};
use garth_engine::model::{Author, Confinement, Moment, Owner, Seq, Timestamp, Within};
use garth_engine::path::TreePath;
use garth_engine::view::overlay::StoredOverlay;

/// Kind of call. It decides if a request that names nobody reaches the account itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Keys and values of an agent.
    KeyValues,
    /// Memories.
    Memories,
    /// Sessions of an agent.
    Sessions,
    /// Workspace of an agent.
    Workspace,
    /// Media of sessions.
    Media,
    /// Recall.
    Recall,
    /// Search.
    Search,
    /// Files.
    Files,
    /// Administration of the account.
    Admin,
}

/// API key of a request.
#[derive(Clone, Copy, Debug)]
pub struct Credential<'k> {
    /// Id, recorded as author of commits.
    pub id: &'k str,
    /// Names and limits that the key fixes.
    pub binding: &'k Binding,
    /// True if the key has the scope `admin`.
    pub is_admin: bool,
}

/// Reach of one request with an API key.
///
/// ```
/// use garth_agent::access::{Credential, Family, Reach};
/// use garth_agent::Request;
/// use garth_engine::home::Binding;
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// # let data = garth::builder().open(&folder.path().join("data"))?;
/// # data.create_account("default").await?;
/// # let account = data.account("default").await?;
/// let mut binding = Binding::default();
/// (binding.agent, binding.user) = (Some("scout".to_owned()), Some("ann".to_owned()));
/// let key = Credential { id: "0123456789abcdef", binding: &binding, is_admin: false };
///
/// let asked = Request::default();
/// let reach = Reach::new(Some(account.clone()), data.env(), key, Family::Sessions, asked)?;
/// let grounds = reach.open(Family::Sessions).await?;
/// assert_eq!(grounds.identity().map(|who| who.audience()), Some("ann"));
///
/// let asked = Request::new("scout").user("bob");
/// assert!(Reach::new(Some(account), data.env(), key, Family::Sessions, asked).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Reach {
    /// `None` for a key of the data folder that names no account.
    account: Option<Arc<dyn AccountStore>>,
    env: Env,
    key: String,
    is_admin: bool,
    binding: Binding,
    family: Family,
    /// Request with the names that the key fixes; `None` for the account itself.
    request: Option<Request>,
    /// Home whose accounts an operator reads.
    home: Option<Arc<dyn Home>>,
    /// Overlay that a call on files is on, in place of the account itself.
    overlay: Option<String>,
    /// True for the holder of the data folder, who needs no key.
    holds: bool,
    /// Cache of opened parts, and the name of the tree of the account in it.
    kept: Option<(Arc<OpenTrees>, String)>,
}

/// Parts of accounts that were opened for identities, to be used again while nothing in the account has
/// changed. Bounded in number, bytes and age: what is kept holds its account open.
#[derive(Default)]
pub struct OpenTrees {
    kept: Cache<Grounds>,
    on_kept: Option<Box<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for OpenTrees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenTrees").finish_non_exhaustive()
    }
}

impl OpenTrees {
    /// Sets work that is done after each part that is kept open. From then on somebody has to call
    /// [`OpenTrees::close_unused`] from time to time, until none is open.
    #[must_use]
    pub fn on_kept(self, work: impl Fn() + Send + Sync + 'static) -> Self {
        Self { on_kept: Some(Box::new(work)), ..self }
    }

    /// Closes the parts that no request has used for a while.
    pub fn close_unused(&self, env: &Env) {
        self.kept.close_unused(env.now());
    }

    /// Closes the parts of accounts whose storage has failed, or that are deleted. Returns true if there was
    /// one. Such an account can be opened again only once nobody holds it.
    pub fn close_failed(&self) -> bool {
        self.kept.close_ended(|grounds| {
            let account = grounds.0.reach.account.as_ref();
            account.is_some_and(|account| account.view_base().known_durable().is_err())
        })
    }

    fn keep(&self, name: &str, head: Seq, now: Timestamp, grounds: Grounds) {
        let bytes = grounds.0.access.as_ref().map_or(0, |access| access.policy.bytes());
        self.kept.put(name, head, now, (grounds, bytes));
        if let Some(work) = &self.on_kept {
            work();
        }
    }

    /// Returns the number of parts that are open.
    pub fn len(&self) -> usize {
        self.kept.len()
    }

    /// Returns true if none is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Reach {
    /// Completes a request with the names that the key fixes. An agent that is not named is the empty text.
    /// Reads nothing.
    ///
    /// # Errors
    /// - `AccessDenied`: the request names something else than the key, or the key cannot be used for such
    ///   calls.
    /// - `InvalidArgument`: [`check_binding`](crate::check_binding) rejects the binding of the key.
    pub fn new(
        account: Option<Arc<dyn AccountStore>>,
        env: &Env,
        key: Credential<'_>,
        family: Family,
        asked: Request,
    ) -> Result<Self> {
        // The engine stores bindings without this check.
        binding::check(key.binding)?;
        check_family(key.binding, family)?;
        if family == Family::Admin && !key.is_admin {
            return Err(denied("this API key lacks the scope `admin`"));
        }
        let request = match key.binding.is_free() {
            true => of_free_key(family, asked),
            // Never the account itself, whatever the request leaves out.
            false => Some(with_agent(binding::completed(key.binding, asked)?)),
        };
        let (env, id, binding) = (env.clone(), key.id.to_owned(), key.binding.clone());
        let is_admin = key.is_admin;
        let (home, overlay, holds, kept) = (None, None, false, None);
        Ok(Self { account, env, key: id, is_admin, binding, family, request, home, overlay, holds, kept })
    }

    /// Returns the reach of the holder of the data folder, who needs no key. The request always names an
    /// identity, never the account itself.
    pub fn of_holder(account: Arc<dyn AccountStore>, env: &Env, family: Family, request: Request) -> Self {
        Self {
            account: Some(account),
            env: env.clone(),
            key: String::new(),
            is_admin: false,
            binding: Binding::default(),
            family,
            request: Some(with_agent(request)),
            home: None,
            overlay: None,
            holds: true,
            kept: None,
        }
    }

    /// Opens parts of the account only if they are not open in `trees`. `tree` is the name of the tree of the
    /// account, which an account that is created again under a name does not share.
    #[must_use]
    pub fn kept_in(self, trees: &Arc<OpenTrees>, tree: &str) -> Self {
        Self { kept: Some((Arc::clone(trees), tree.to_owned())), ..self }
    }

    /// Returns the name in a cache of the part that the request reaches. It only finds a part: whose it is,
    /// [`Reach::is_same`] decides.
    fn name_in(&self, tree: &str) -> String {
        let Binding { agent, user, key, chat, class, session, prefix, .. } = &self.binding;
        let bound = [agent, user, key, chat, class, session].map(Option::as_deref);
        let named = self.request.as_ref().map_or([None; 6], |request| {
            let Request { agent, user, key, class, chat, session } = request;
            let (key, class) = (key.as_ref().map(SessionKey::as_str), class.map(Class::as_str));
            [Some(&**agent), user.as_deref(), key, class, chat.as_deref(), session.as_deref()]
        });
        let others = [Some(tree), Some(&*self.key), prefix.as_ref().map(TreePath::as_str)];
        let parts = || others.iter().chain(&named).chain(&bound).map(|part| part.unwrap_or_default());
        let mut name = String::with_capacity(parts().map(|part| part.len() + 1).sum());
        for part in parts() {
            name.push_str(part);
            name.push('\0');
        }
        name
    }

    /// Returns true if another reach opens the same part of the same account.
    fn is_same(&self, other: &Self) -> bool {
        let is_same_account = match (&self.account, &other.account) {
            // Both are held, so an equal address is that of one instance.
            (Some(one), Some(other)) => std::ptr::addr_eq(Arc::as_ptr(one), Arc::as_ptr(other)),
            _ => false,
        };
        let Self { key, is_admin, binding, request, overlay, holds, .. } = other;
        is_same_account
            && (&self.key, self.is_admin, self.holds) == (key, *is_admin, *holds)
            && (&self.binding, &self.request, &self.overlay) == (binding, request, overlay)
    }

    fn caller(&self) -> Caller {
        if self.holds { Caller::Holder } else { Caller::ApiKey }
    }

    /// Makes a call on files one on an overlay of the account, if it names one: reads and writes are those of
    /// the overlay. Opens nothing.
    ///
    /// # Errors
    /// - `AccessDenied` for any key but a free one with `admin`.
    /// - `InvalidArgument`: the request names somebody as well, or is no call on files.
    pub fn in_overlay(self, id: Option<&str>) -> Result<Self> {
        let Some(id) = id else { return Ok(self) };
        if self.is_bound() || !self.is_admin {
            return Err(denied("\"overlay\" needs a key with the scope `admin` that is bound to nothing"));
        }
        if self.family != Family::Files || self.request.is_some() {
            let error = Error::invalid("an overlay is one of the account, not of the tree of an agent");
            let advice = r#"leave "agent", "user", "key", "chat", "class" and "session" out"#;
            return Err(error.advising(Advice::Command, advice));
        }
        Ok(Self { overlay: Some(id.to_owned()), ..self })
    }

    /// Lets an operator read the files of all accounts: a key of the home with `admin`, in a call on files
    /// that names neither an account nor anybody. For any other key and request, nothing changes.
    #[must_use]
    pub fn reading(self, home: &Arc<dyn Home>) -> Self {
        let is_operator = self.account.is_none() && self.is_admin && !self.is_bound();
        // An overlay is one of an account, which such a request does not name.
        let names_nobody = self.family == Family::Files && self.request.is_none() && self.overlay.is_none();
        Self { home: (is_operator && names_nobody).then(|| Arc::clone(home)), ..self }
    }

    /// Returns true for a bound key.
    pub fn is_bound(&self) -> bool {
        !self.binding.is_free()
    }

    /// Returns the completed request; `None` for the account itself.
    pub const fn request(&self) -> Option<&Request> {
        self.request.as_ref()
    }

    fn account(&self) -> Result<&Arc<dyn AccountStore>> {
        self.account.as_ref().ok_or_else(|| {
            let advice = "use a key of the account, or name the account in \"account\" where the call has that \
                          field. With `admin`, it reads files of all accounts below /accounts";
            denied("this API key is one of the data folder and opens no account")
                .advising(Advice::Command, advice)
        })
    }

    /// Judges the request as [`Access::judge`] does; `None` for the account itself.
    ///
    /// # Errors
    /// As [`Access::judge`].
    pub async fn judge(&self) -> Result<Option<Identity>> {
        match &self.request {
            Some(request) => {
                let who = Access::judge(self.account()?, &self.env, self.caller(), request).await;
                who.map(Some).map_err(|error| self.without_settings(error))
            }
            None => Ok(None),
        }
    }

    /// Returns the filesystem that stores the idempotency records of the key: the account or, for a bound
    /// key, a part of it that keys with the same binding share.
    ///
    /// # Errors
    /// Errors of the storage.
    pub async fn records(&self) -> Result<Arc<dyn FileSystem>> {
        let account = self.account()?;
        if !self.is_bound() {
            return Ok(Arc::<dyn AccountStore>::clone(account));
        }
        let owner = Owner::new(&format!("key/{}", self.binding.digest()))?;
        account.raw().confined(&Confinement::new(Within::everything(), owner)).await
    }

    /// Returns the label of the idempotency keys: equal for keys with the same binding, empty for free keys.
    pub fn label(&self) -> String {
        self.binding.digest()
    }

    /// Opens the part of the account that the request reaches. Creates nothing.
    ///
    /// # Errors
    /// - As [`Access::open`].
    /// - `AccessDenied`: the request leads to another audience than the one that the key is bound to.
    #[boxed]
    pub async fn open(&self, family: Family) -> Result<Grounds> {
        check_family(&self.binding, family)?;
        match &self.kept {
            Some((trees, tree)) => self.open_kept(trees, &self.name_in(tree)).await,
            None => self.open_now(false).await,
        }
    }

    /// Opens the part of the account. `keeps` keeps its trees open as well.
    async fn open_now(&self, keeps: bool) -> Result<Grounds> {
        let access = match &self.request {
            Some(request) => {
                let (account, caller) = (self.account()?, self.caller());
                let access = Access::within(account, &self.env, caller, request, &self.binding).await;
                let access = access.map_err(|error| self.without_settings(error))?;
                Some(if self.holds { access } else { access.by_key(&*self.key) })
            }
            None => None,
        };
        // Without the cache, which would otherwise hold itself.
        let reach = Self { kept: None, ..self.clone() };
        Ok(Grounds(Arc::new(Opened { reach, access, trees: keeps.then(Default::default) })))
    }

    /// Returns the part of the account that is open in `trees` under a name, and opens it if it is not.
    async fn open_kept(&self, trees: &OpenTrees, name: &str) -> Result<Grounds> {
        let account = self.account()?;
        // Settings, sessions and chats decide what an identity reaches, and each change of them is a commit.
        // Read before anything is opened: a commit meanwhile makes the part count as outdated.
        let head = match account.head().await {
            Ok(head) => head.seq,
            Err(error) => {
                // After a failure of the storage an account is opened again only when nobody holds it.
                trees.kept.forget(name);
                return Err(error);
            }
        };
        let now = self.env.now();
        let found = trees.kept.get(name, head, now);
        if let Some(grounds) = found.filter(|grounds| grounds.0.reach.is_same(self)) {
            return Ok(grounds);
        }
        let grounds = self.open_now(true).await?;
        trees.keep(name, head, now, grounds.clone());
        Ok(grounds)
    }

    /// Returns an error without what it quotes of damaged settings, for a bound key: they name other users.
    fn without_settings(&self, error: Error) -> Error {
        let of_settings = |path: &&TreePath| path.name().is_some_and(|name| name == SETTINGS);
        match error.path().filter(of_settings).cloned() {
            Some(path) if self.is_bound() && error.is(ErrorKind::Corrupt) => {
                Error::at(ErrorKind::Corrupt, &path, "cannot be read; correct it").with_source(error)
            }
            _ => error,
        }
    }

    /// Returns the sequence of the snapshot of this name. Calls on files look it up in their own tree first.
    /// Free keys see the snapshots of the account, bound keys only those of the tree that they open.
    ///
    /// # Errors
    /// `NotFound`; as [`Reach::open`].
    pub async fn snapshot(&self, name: &str) -> Result<Seq> {
        let named = Moment::Snapshot(name.to_owned());
        if self.is_bound() || self.family == Family::Files {
            let tree = self.open(self.family).await?.tree(false).await?;
            match tree.as_of(&named).await {
                Err(error) if error.is(ErrorKind::NotFound) && !self.is_bound() => {}
                past => return Ok(past?.head().await?.seq),
            }
        }
        Ok(self.account()?.as_of(&named).await?.head().await?.seq)
    }

    /// Returns the complete account, for work that garth does on its own behalf and whose results the request
    /// does not see: allowances of tokens, and compaction after an append.
    ///
    /// # Errors
    /// `AccessDenied` without an account.
    #[doc(hidden)]
    pub fn for_garth(&self) -> Result<&Arc<dyn AccountStore>> {
        self.account()
    }
}

/// Tree that is kept open once it was opened.
type KeptTree = Mutex<Option<Arc<dyn FileSystem>>>;

/// Part of an account that a request reaches. Clones share it.
#[derive(Clone, Debug)]
pub struct Grounds(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    reach: Reach,
    /// Access of the identity; `None` for the account itself.
    access: Option<Access>,
    /// Trees that were opened, if they are kept: one for reads, one whose directories were created.
    trees: Option<[KeptTree; 2]>,
}

impl Grounds {
    fn access(&self) -> Result<&Access> {
        let missing = || Error::new(ErrorKind::Io, "a call without an identity asks for the sessions of one");
        self.0.access.as_ref().ok_or_else(missing)
    }

    /// Returns the identity; `None` for the account itself.
    pub fn identity(&self) -> Option<&Identity> {
        self.0.access.as_ref().map(Access::identity)
    }

    /// Returns the author of commits.
    #[doc(hidden)]
    pub fn author(&self) -> Author {
        match &self.0.access {
            Some(access) => access.author(),
            None => Author::key(&*self.0.reach.key),
        }
    }

    /// Creates the missing directories of the identity, as [`Access::make`] does.
    ///
    /// # Errors
    /// As [`Access::make`].
    pub async fn make(&self) -> Result<()> {
        match &self.0.access {
            Some(access) => access.make().await,
            None => Ok(()),
        }
    }

    /// Returns the keys and values of an agent. A bound key reaches those that its identity reaches, of its
    /// own agent.
    ///
    /// # Errors
    /// As [`Kv::new`].
    pub fn key_values(&self, agent: &str) -> KvResult<Kv<'_>> {
        let kv = match &self.0.access {
            Some(access) => Kv::new(&*access.inner, access.who.agent())?,
            None => Kv::new(&**self.0.reach.account()?, agent)?,
        };
        Ok(if self.0.reach.holds { kv } else { kv.by_key(&self.0.reach.key) })
    }

    /// Returns the memories. `account` is the name of the account in their URIs.
    ///
    /// # Errors
    /// `AccessDenied` without an account.
    pub fn memories(&self, account: &str) -> Result<Memories<'_>> {
        Ok(match &self.0.access {
            Some(access) => access.memories(account),
            None => {
                let author = Author::key(&*self.0.reach.key);
                let fs: &dyn FileSystem = &**self.0.reach.account()?;
                Memories::new(fs, account).env(self.0.reach.env.clone()).author(author)
            }
        })
    }

    /// Returns the sessions of the audience with the agent.
    ///
    /// # Errors
    /// `Io` for the account itself, which a call on sessions never reaches.
    pub fn sessions(&self) -> Result<Sessions<'_>> {
        Ok(self.access()?.sessions())
    }

    /// Returns the workspace of the agent.
    ///
    /// # Errors
    /// As [`Grounds::sessions`].
    pub fn workspace(&self) -> Result<Workspace<'_>> {
        Ok(self.access()?.workspace())
    }

    /// Returns the media of the visible sessions.
    ///
    /// # Errors
    /// As [`Grounds::sessions`].
    pub fn media(&self) -> Result<Media<'_>> {
        Ok(self.access()?.media())
    }

    /// Returns the tree of the identity or, for a free key, the account or its overlay. `creates` creates
    /// missing directories of an agent's tree.
    ///
    /// # Errors
    /// As [`AgentTree::open`](crate::AgentTree::open) and [`StoredOverlay::open`].
    #[boxed]
    pub async fn tree(&self, creates: bool) -> Result<Arc<dyn FileSystem>> {
        let Some([read, written]) = &self.0.trees else { return self.open_tree(creates).await };
        let kept = if creates { written } else { read };
        // A panic elsewhere leaves the slot valid.
        let open = kept.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(tree) = open {
            return Ok(tree);
        }
        let tree = self.open_tree(creates).await?;
        *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&tree));
        Ok(tree)
    }

    async fn open_tree(&self, creates: bool) -> Result<Arc<dyn FileSystem>> {
        match (&self.0.access, &self.0.reach.overlay) {
            (Some(access), _) => access.tree().create(creates).open().await,
            (None, Some(id)) => self.files_of_overlay(id).await,
            (None, None) => self.files_of_account().await,
        }
    }

    /// Returns the tree to search: that of the identity, or the account.
    ///
    /// # Errors
    /// As [`Grounds::tree`].
    pub async fn searched(&self) -> Result<Arc<dyn FileSystem>> {
        match &self.0.access {
            // A read creates no directories.
            Some(_) => self.tree(false).await,
            None => Ok(Arc::<dyn AccountStore>::clone(self.0.reach.account()?)),
        }
    }

    /// Returns the places of memories in the tree of the identity, each with its path in the account; `None`
    /// for the account itself.
    pub fn memory_places(&self) -> Option<Vec<(TreePath, TreePath)>> {
        self.0.access.as_ref().map(Access::memory_places)
    }

    /// Returns the account for calls on files, or those of all accounts for an operator. The skills of all
    /// agents are read-only without `admin`.
    async fn files_of_account(&self) -> Result<Arc<dyn FileSystem>> {
        if let Some(home) = &self.0.reach.home {
            return Ok(Arc::new(OperatorTree::new(Arc::clone(home))));
        }
        let skills = TreePath::from_row("", super::SKILLS);
        let read_only = Within::new((!self.0.reach.is_admin).then_some(skills));
        let to = Confinement::new(Within::everything(), Owner::new(FILES_OWNER)?).read_only(read_only);
        self.0.reach.account()?.confined(&to.author(Author::key(&*self.0.reach.key))).await
    }

    /// Returns the files of an overlay of the account, also the skills of all agents: its keys have `admin`.
    async fn files_of_overlay(&self, id: &str) -> Result<Arc<dyn FileSystem>> {
        let overlay = StoredOverlay::open(&**self.0.reach.account()?, id).await?;
        // Uploads and commit ids are those of calls on files, apart from those of the command line.
        let to = Confinement::new(Within::everything(), Owner::new(FILES_OWNER)?);
        overlay.tree().confined(&to.author(Author::key(&*self.0.reach.key))).await
    }

    /// Returns the account for its administration.
    ///
    /// # Errors
    /// `AccessDenied` for any key but a free one with `admin`, and without an account.
    pub fn account(&self) -> Result<&Arc<dyn AccountStore>> {
        if self.0.reach.is_bound() || !self.0.reach.is_admin {
            return Err(denied("this call needs a key with the scope `admin` that is bound to nothing"));
        }
        self.0.reach.account()
    }
}

/// Refuses calls that a bound key cannot make.
fn check_family(binding: &Binding, family: Family) -> Result<()> {
    use Family::{Admin, Files, KeyValues, Recall, Search};
    if family == Admin && !binding.is_free() {
        return Err(denied("a bound API key administers nothing; use a key that is bound to nothing"));
    }
    match &binding.prefix {
        Some(prefix) if !matches!(family, Files | KeyValues | Recall | Search) => {
            let message = format!(
                "this API key is bound to {prefix}, and reaches only files, values, search and recall there"
            );
            Err(denied(message))
        }
        _ => Ok(()),
    }
}

/// Returns the request that a free key makes; `None` for the account itself.
fn of_free_key(family: Family, asked: Request) -> Option<Request> {
    use Family::{Admin, Files, KeyValues, Memories, Recall, Search};
    match family {
        KeyValues | Admin => None,
        Memories | Recall | Search | Files if asked.agent.is_empty() && !asked.names_somebody() => None,
        Memories | Recall | Search | Files => Some(with_agent(asked)),
        // These calls require an agent.
        Family::Sessions | Family::Workspace | Family::Media => Some(asked),
    }
}

/// Returns a request that names an agent.
fn with_agent(mut request: Request) -> Request {
    if request.agent.is_empty() {
        DEFAULT_AGENT.clone_into(&mut request.agent);
    }
    request
}

fn denied(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::AccessDenied, message)
}
