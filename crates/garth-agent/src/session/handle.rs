//! The handle on the sessions of an agent with a user: paths of their files, and batches in the name of their
//! author. All rooms add their calls to it.

use std::sync::Arc;

use crate::count::{Counter, TokenCache};
use crate::identity::places::Places;
use crate::identity::{
    AccessPolicy, Caller, Class, Identity, Request, SessionKey, StoredClass, check_audience, is_reserved,
    policy_of,
};
use crate::once::Once;
use crate::own_paths;
use garth_engine::env::Env;
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Author, Batch, Op};
use garth_engine::path::{TreePath, check_id};

/// The sessions of an agent with a user.
///
/// ```
/// use garth::session::{Append, Create, Draft, Select, Sessions};
///
/// # futures::executor::block_on(async {
/// let fs = garth::in_memory();
/// let sessions = Sessions::new(&fs, "ann", "coder")?;
/// sessions.create(&Create::new("default")).await?;
/// let said = [Draft::user("Where is the parser?"), Draft::assistant("In `src/parse.rs`.")];
/// sessions.append("default", &Append::messages(said)).await?;
/// let page = sessions.lines("default", &Select::messages(1..=2)).await?;
/// assert!(page.items[0].text.contains("Where is the parser?"));
/// # Ok::<(), garth::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Sessions<'a> {
    pub(super) fs: &'a dyn FileSystem,
    /// The account, for garth's own look-ups.
    whole: &'a dyn FileSystem,
    pub(super) env: Env,
    pub(super) author: Author,
    /// Audience whose sessions they are.
    pub(super) user: String,
    pub(super) agent: String,
    /// Request that the next write carries out.
    pub(super) once: Once,
    /// Caller and request, which determine class and audience of a new session.
    caller: Caller,
    request: Request,
    /// Whom the agent serves; `None` to read it from its settings.
    policy: Option<Arc<AccessPolicy>>,
    /// Places that paths are resolved in; `None` for those of the account.
    pub(super) places: Option<Arc<Places>>,
    /// Counts the tokens of messages.
    pub(super) tokens: Counter<'a>,
}

impl<'a> Sessions<'a> {
    /// Returns the sessions of `agent` that are kept for `user`, in an account whose tree is `fs`, for
    /// whoever holds the data folder. A view that reaches only a part of the tree under its own paths will
    /// do. [`Access`](crate::access::Access) is for everybody else.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id, and for a tree with other paths, such as that of a chat.
    pub fn new(fs: &'a dyn FileSystem, user: &str, agent: &str) -> Result<Self> {
        check_audience(user)?;
        check_id("agent", agent)?;
        let request = Request::new(agent);
        // The audience of a group is no user: only a session key names it.
        let request = if is_reserved(user) { request } else { request.user(user) };
        let [user, agent] = [user, agent].map(str::to_owned);
        let (author, caller, once) = (Author::default(), Caller::Holder, Once::default());
        let (env, policy, places, tokens) = (Env::system(), None, None, Counter::default());
        let sessions =
            Self { fs, whole: fs, env, author, user, agent, once, caller, request, policy, places, tokens };
        own_paths::check(fs, &sessions.home()?, "open it with Access::sessions")?;
        Ok(sessions)
    }

    /// Sets the clock, the randomness and the threads to compute on: by default those of the machine.
    #[must_use]
    pub fn env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Sets a cache of token counts, and the name of the account, which separates its texts from those of
    /// others.
    #[must_use]
    #[doc(hidden)]
    pub fn cache(self, cache: &'a TokenCache, account: &str) -> Self {
        // A line feed occurs in no name. Users of an account are separated, too.
        let owner = format!("{account}\n{}", self.user);
        Self { tokens: Counter(Some((cache, owner))), ..self }
    }

    /// Returns the sessions of an identity in `fs`, which reaches no others; `whole` is the account.
    pub(crate) fn of(
        (fs, whole): (&'a dyn FileSystem, &'a dyn FileSystem),
        env: Env,
        (caller, who): (Caller, &Identity),
        policy: Arc<AccessPolicy>,
        places: Arc<Places>,
    ) -> Self {
        let [user, agent] = [who.audience(), who.agent()].map(str::to_owned);
        let request = who.request().class(who.class());
        let (author, once, policy, places) = (who.author(), Once::default(), Some(policy), Some(places));
        let tokens = Counter::default();
        Self { fs, whole, env, author, user, agent, once, caller, request, policy, places, tokens }
    }

    /// Sets the author of commits, and nothing else.
    pub(crate) fn by(self, author: Author) -> Self {
        Self { author, ..self }
    }

    /// Returns the audience whose sessions they are.
    pub fn audience(&self) -> &str {
        &self.user
    }

    /// Returns the same sessions in another tree, such as one of the past.
    pub(crate) fn on<'s>(&self, fs: &'s dyn FileSystem) -> Sessions<'s>
    where
        'a: 's,
    {
        Sessions { fs, whole: self.whole, ..self.clone() }
    }

    /// Returns the account, for garth's own look-ups.
    pub(crate) fn whole(&self) -> &'a dyn FileSystem {
        self.whole
    }

    /// Returns the class of a session; `None` if it does not exist or cannot be read.
    pub(crate) async fn class_of(&self, session: &str) -> Result<Option<StoredClass>> {
        Ok(self.meta_if_there(session).await?.map(|(_, meta)| meta.class))
    }

    /// Returns true if the class of the request may see a session of a class. The holder of the data folder
    /// sees all.
    pub(super) fn sees(&self, class: &StoredClass) -> bool {
        self.request.class.is_none_or(|own| class.is_seen_by(own))
    }

    /// Sets the author of commits. New sessions are of the author's class, if it has one.
    #[must_use]
    pub fn author(mut self, author: Author) -> Self {
        if let Some(class) = &author.class {
            self.request.class = Some(Class::named(class));
        }
        Self { author, ..self }
    }

    /// Sets the request that the handle carries out with one write.
    #[must_use]
    #[doc(hidden)]
    pub fn once(self, once: Once) -> Self {
        Self { once, ..self }
    }

    /// Returns the sessions of an agent with the same audience, for children: none of them goes on under the
    /// key of the request.
    pub(super) fn of_agent(&self, agent: &str) -> Self {
        // A child with the key of its parent would be found in place of the parent.
        let request = Request { key: None, ..self.request.clone() };
        if agent == self.agent {
            return Self { request, ..self.clone() };
        }
        // Another agent has settings of its own: class and policy of this one do not hold for it.
        let request = Request { agent: agent.to_owned(), class: None, ..request };
        Self { agent: agent.to_owned(), request, policy: None, ..self.clone() }
    }

    /// Returns true if a session key alone leads to another audience: the request names more.
    pub(crate) async fn is_named(&self, key: &SessionKey) -> Result<bool> {
        let policy = match &self.policy {
            Some(policy) => Arc::clone(policy),
            None => Arc::new(policy_of(self.whole, &self.agent).await?),
        };
        let alone = Request::new(&*self.agent).key(key.clone());
        Ok(Identity::judge(&policy, Caller::ApiKey, &alone).is_ok_and(|who| who.audience() != self.user))
    }

    /// Returns the class that a new session has, of this name if it has one yet, under this key or that of
    /// the request.
    ///
    /// # Errors
    /// As [`Identity::judge`]; `AccessDenied` if its audience is another.
    pub(crate) async fn judged(&self, session: Option<&str>, key: Option<&SessionKey>) -> Result<Class> {
        let read;
        let policy = match &self.policy {
            Some(policy) => policy,
            None => {
                read = policy_of(self.whole, &self.agent).await?;
                &read
            }
        };
        let mut request = self.request.clone();
        request.key = key.cloned().or(request.key);
        request.session = request.session.or_else(|| session.map(str::to_owned));
        let who = Identity::judge(policy, self.caller, &request)?;
        if who.audience() == self.user {
            return Ok(who.class());
        }
        let named = request.key.map(|key| key.to_string()).or(request.session).unwrap_or_default();
        let message =
            format!("{named}: belongs to {}, not to {}; name the former", who.audience(), self.user);
        Err(Error::new(ErrorKind::AccessDenied, message))
    }

    /// Returns the class of a child of a session of class `parent`: no fewer listen than to its parent.
    pub(super) async fn class_of_child(&self, parent: StoredClass) -> Result<StoredClass> {
        let policy = policy_of(self.whole, &self.agent).await?;
        let own = if policy.is_owner(&self.user) { Class::Main } else { Class::Dm };
        // A child with fewer listeners than its parent sees more, and its result would reveal that to the
        // parent's listeners.
        Ok(parent.with_listeners_of(own))
    }

    /// Returns the paths in the account that a path may lead to which a client or a model names: as one of
    /// the session's own tree, or, as older derived files have it, of the account. None that the session does
    /// not reach.
    pub(super) fn paths_of(&self, path: &TreePath) -> Vec<TreePath> {
        let Some(places) = &self.places else { return vec![path.clone()] };
        let of_account = Some(path).filter(|path| places.within.contains(path)).cloned();
        places.down(path).into_iter().chain(of_account).collect()
    }

    /// Returns the path in the session's own tree of one in the account.
    pub(crate) fn shown(&self, path: &TreePath) -> TreePath {
        let up = self.places.as_ref().and_then(|places| places.up(path));
        up.unwrap_or_else(|| path.clone())
    }

    /// Returns true if the session writes below a path of the account that its tree reaches.
    pub(crate) fn writes(&self, path: &TreePath) -> bool {
        self.places.as_ref().is_none_or(|places| places.writes(path))
    }

    /// Returns false only for the owner who names nobody, and works outside of sessions.
    pub(crate) fn is_in_session(&self) -> bool {
        self.author.audience.is_some()
    }

    /// Returns true for a bound API key. A request with it reaches one agent, and its prompts have no days of
    /// other audiences. It may still read their archives, unless [`Self::has_own_archives`].
    pub(crate) fn is_bound(&self) -> bool {
        self.places.as_ref().is_some_and(|places| places.bounds.is_bound)
    }

    /// Returns true for an API key that reaches no archive of another audience.
    pub(crate) fn has_own_archives(&self) -> bool {
        self.places.as_ref().is_some_and(|places| places.bounds.own_archives)
    }

    /// Returns true for an API key that is bound to one session.
    pub(crate) fn has_one_session(&self) -> bool {
        self.places.as_ref().is_some_and(|places| places.bounds.one_session)
    }

    /// Refuses work by another agent, whose sessions a bound API key does not reach.
    ///
    /// # Errors
    /// `AccessDenied`.
    pub(super) fn check_agent(&self, agent: &str) -> Result<()> {
        if agent == self.agent || !self.is_bound() {
            return Ok(());
        }
        let message = format!("{agent}: this API key is bound and reaches only the agent {}", self.agent);
        Err(Error::new(ErrorKind::AccessDenied, message))
    }

    /// Returns the policy of the agent; `None` if the handle reads it from the settings.
    pub(super) fn access_policy(&self) -> Option<&Arc<AccessPolicy>> {
        self.policy.as_ref()
    }

    /// Returns the session key of the request.
    pub(super) fn key(&self) -> Option<&SessionKey> {
        self.request.key.as_ref()
    }

    /// Returns the user who speaks in a group.
    pub(super) fn speaker(&self) -> Option<&str> {
        self.request.user.as_deref().filter(|user| *user != self.user)
    }

    /// Returns the directory of all sessions.
    pub(super) fn home(&self) -> Result<TreePath> {
        Ok(TreePath::parse(&format!("/users/{}/agents/{}/session", self.user, self.agent))?)
    }

    /// Returns the directory of a session.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id.
    pub fn directory(&self, session: &str) -> Result<TreePath> {
        check_id("session", session)?;
        Ok(TreePath::from_row(self.home()?.key(), session))
    }

    /// Returns the path of a file of a session.
    pub(super) fn file(&self, session: &str, name: &str) -> Result<TreePath> {
        let dir = self.directory(session)?;
        Ok(name.split('/').fold(dir, |dir, name| TreePath::from_row(dir.key(), name)))
    }

    /// Fails in a tree in which sessions are only read. An overlay has copies of written files, without the
    /// keys by which messages and retractions are found: a retraction would hide nothing there.
    ///
    /// # Errors
    /// `Unsupported`.
    pub(crate) fn check_writable(&self, session: &str) -> Result<()> {
        if self.has_history()? {
            return Ok(());
        }
        let message =
            format!("{session}: sessions are only read in an overlay and in other trees without a history");
        let advice = "write to the session in the account, on the command line without --overlay";
        Err(Error::new(ErrorKind::Unsupported, message).advising(Advice::Command, advice))
    }

    /// Returns false for an overlay and for a folder of the host.
    pub(super) fn has_history(&self) -> Result<bool> {
        Ok(self.fs.capabilities(&self.home()?).history)
    }

    /// Returns a batch in the name of the author, with a message that names the session.
    ///
    /// # Errors
    /// As [`Self::check_writable`].
    pub(super) fn batch(&self, session: &str, ops: Vec<Op>, message: &str) -> Result<Batch> {
        self.check_writable(session)?;
        Ok(self.unchecked_batch(session, ops, message))
    }

    /// As [`Self::batch`], also for a tree without a history: for batches that leave all logs as they are.
    pub(super) fn unchecked_batch(&self, session: &str, ops: Vec<Op>, message: &str) -> Batch {
        let author = self.author.clone().or(&Author::agent(&self.agent));
        // The audience of a group is no user. Whose each byte is follows from these fields of its commit.
        let author = match (is_reserved(&self.user), author.user.is_some()) {
            (false, false) => author.with_user(&self.user),
            _ => author.with_audience(&self.user),
        };
        let batch = Batch::new(ops).author(author.with_session(session));
        // Rules let garth alone write what decides about a session, such as fields of `meta.json`.
        batch.message(format!("{message} {session}")).by_garth()
    }
}

/// Returns the `NotFound` of a session that does not exist.
pub(super) fn missing(session: &str) -> Error {
    Error::new(
        ErrorKind::NotFound,
        format!(
            "{session}: no such session of this user or chat; create it, or name the user or chat that has it"
        ),
    )
}
