//! Access: the only way from a caller and a request to the part of an account that they reach. Every
//! interface opens trees, sessions, memories, workspaces and media here. No later check is needed: the
//! filesystems that an identity gets contain nothing else.

mod binding;
mod by_identity;
mod reach;
mod upgrade;

use std::sync::Arc;

pub use self::binding::check as check_binding;
pub use self::reach::{Credential, Family, Grounds, OpenTrees, Reach};
use self::upgrade::record::{MAX_RECORD, record};
pub use self::upgrade::{Upgrade, upgraded};
use crate::boxed;
use crate::chat;
use crate::identity::places::{Bounds, Hidden, Places};
use crate::identity::{
    AccessPolicy, Caller, Class, Identity, MAX_SETTINGS, Request, SETTINGS, StoredClass, policy_of,
};
use crate::media::Media;
use crate::memory::{Memories, OUTBOX, Space};
use crate::recall::Recaller;
use crate::registry::projections;
use crate::registry::projections::sessions::{anyone_key, class_key};
use crate::search::Searcher;
use crate::session::{Change, META, Sessions, State};
use crate::small_file::{File, read_all};
use crate::tree::AgentTree;
use crate::tree::directories::make_missing;
use crate::workspace::Workspace;
use garth_engine::env::Env;
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::fs::{AccountStore, FileSystem};
use garth_engine::home::Binding;
use garth_engine::model::{Author, Commit, Confinement, FindQuery, Gate, Seq, Within};
use garth_engine::path::{TreePath, check_id};

/// Limit on the sessions under a key that one access checks and ends.
const MAX_ENDED: usize = 100;

/// Directory of an agent with the archives of its sessions.
const ARCHIVES: &str = "sessions";

/// Directory of the account with the skills of all agents.
const SKILLS: &str = "skills";

/// Part of an account that an identity reaches.
///
/// ```
/// use garth::session::Create;
/// use garth::FileSystemExt;
/// use garth_agent::{Access, Caller, Class, Request};
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let data = garth::builder().open(&folder.path().join("data"))?;
/// data.create_account("default").await?;
/// let account = data.account("default").await?;
///
/// let request = Request::new("helper").key("agent:helper:slack:channel:C1".parse()?);
/// let access = Access::open(&account, data.env(), Caller::ApiKey, &request).await?;
/// access.make().await?;
/// let session = access.sessions().create(&Create::new("standup")).await?;
/// assert_eq!(session.meta.class, Class::Group);
/// access.tree().open().await?.write("/notes.md", "what the channel agreed on\n").await?;
/// assert!(account.exists("/chats/:slack:channel:C1/notes.md").await?);
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Access {
    account: Arc<dyn AccountStore>,
    env: Env,
    caller: Caller,
    /// Id of the API key, recorded as author of commits.
    key: Option<String>,
    policy: Arc<AccessPolicy>,
    who: Identity,
    places: Arc<Places>,
    /// Account under its own paths, confined to what the features of agents need for this identity.
    inner: Arc<dyn FileSystem>,
    /// Unconfined account, for lookups by garth itself: which audience another agent serves, and which
    /// memories other audiences have for a main session.
    raw: Arc<dyn FileSystem>,
}

impl Access {
    /// Judges a request and opens the part of the account that it reaches. Creates nothing.
    ///
    /// # Errors
    /// - As [`Identity::judge`].
    /// - `Corrupt`: `settings.json` cannot be read, or `meta.json` of the session that a `main` request
    /// names.
    /// - `AccessDenied`: the chat belongs to another audience.
    /// - Errors of the storage.
    #[boxed]
    pub async fn open(
        account: &Arc<dyn AccountStore>,
        env: &Env,
        caller: Caller,
        request: &Request,
    ) -> Result<Self> {
        Self::within(account, env, caller, request, &Binding::default()).await
    }

    /// Judges a request and opens the part of the account that it reaches within the binding of its key.
    ///
    /// # Errors
    /// As [`Access::open`]; `AccessDenied` for another audience than the bound one, and for a prefix that the
    /// tree does not have.
    #[boxed]
    async fn within(
        account: &Arc<dyn AccountStore>,
        env: &Env,
        caller: Caller,
        request: &Request,
        binding: &Binding,
    ) -> Result<Self> {
        let raw = account.raw();
        let (policy, since) = policy(&**account, env, &request.agent).await?;
        let policy = Arc::new(policy);
        let mut who = Identity::judge(&policy, caller, request)?;
        binding::check_audience(binding, &policy, request, &who)?;
        if !binding.is_free() {
            // Outside of sessions, commits may change the settings of the agent, and so its owner.
            who = who.always_in_session();
        }
        let mut own = None;
        // The class of an existing session counts as well, so that a group's session never shows the owner's
        // memory, whoever names it. Only the holder of the data folder may override it.
        if let Some(session) = &request.session {
            let sessions = Sessions::new(&*raw, who.audience(), who.agent())?.env(env.clone());
            let holds = caller == Caller::Holder && request.class == Some(Class::Main);
            own = own_class(&sessions, session, holds || !who.is_main()).await?;
            let class = own.as_ref().filter(|_| !holds).map_or(Class::Main, StoredClass::of_requests);
            who = who.in_session(session, class);
        }
        // After the class is final, because the owner of a chat depends on it.
        let (who, closed) = chat::choose(&*raw, &policy, who, request.chat.is_some()).await?;
        let mut hidden = Hidden { gate: gate(&who, since)?, ..Hidden::default() };
        if binding.session.is_some() {
            hidden = all_but_own(&who, own.as_ref(), hidden)?;
        }
        hidden.left_out.extend(closed);
        let places = Arc::new(bounded(Places::of(&who, &policy, &hidden)?, binding)?);
        let inner = raw.confined(&confinement(&who, &places, &hidden, binding)?).await?;
        Ok(Self {
            account: Arc::clone(account),
            env: env.clone(),
            caller,
            key: None,
            policy,
            who,
            places,
            inner,
            raw,
        })
    }

    /// Judges a request as [`Access::open`] does, but ignores the class of its session. The result depends on
    /// the settings alone, and does not change when a session ends.
    ///
    /// # Errors
    /// As [`Access::open`].
    pub async fn judge(
        account: &Arc<dyn AccountStore>,
        env: &Env,
        caller: Caller,
        request: &Request,
    ) -> Result<Identity> {
        Identity::judge(&policy(&**account, env, &request.agent).await?.0, caller, request)
    }

    /// Sets the API key whose id is recorded as author of commits.
    #[must_use]
    pub fn by_key(self, id: impl Into<String>) -> Self {
        Self { key: Some(id.into()), ..self }
    }

    fn author(&self) -> Author {
        let author = self.who.author();
        self.key.iter().fold(author, |author, key| author.with_key(key))
    }

    /// Creates the missing directories of the account that the identity works in, in one commit.
    ///
    /// # Errors
    /// `AlreadyExists` if a file is in the place of a directory; from the storage.
    #[boxed]
    pub async fn make(&self) -> Result<()> {
        if self.places.bounds.keeps_directories {
            return Ok(());
        }
        let mut wanted = inner_tops(&self.who, &self.places)?;
        // No session may write the skills of all agents.
        if !self.who.is_in_session() {
            wanted.push(TreePath::from_row("", SKILLS));
        }
        // Archives are in the only directory of the agent that its other audiences write: each reset adds
        // one.
        wanted.push(TreePath::from_row(self.places.agent.key(), ARCHIVES));
        make_missing(&*self.account, &wanted, &self.who, "open the directories of an agent").await?;
        self.end_sessions_of_before().await
    }

    /// Ends the sessions to which the session key led alone until the agent's settings changed. Their
    /// messages stay with the audience that heard them.
    async fn end_sessions_of_before(&self) -> Result<()> {
        let Some(key) = self.who.key().filter(|_| !self.shares_key()) else { return Ok(()) };
        let raw = self.account.raw();
        let query = FindQuery::new(projections::SESSION).equal(&anyone_key(key.as_str())).limit(MAX_ENDED);
        let found = raw.find(&query.within(TreePath::from_row("", "users"))).await?;
        if found.items.is_empty() {
            return Ok(());
        }
        let alone = Request::new(self.who.agent()).key(key.clone());
        // Judged as a call that names only the key: these are the sessions that its `anyone` key lists.
        let alone = Identity::judge(&self.policy, Caller::ApiKey, &alone)?;
        for path in found.items.iter().filter_map(|item| item.path.parent()) {
            let ["users", audience, "agents", agent, "session", name] = *path.segments().collect::<Vec<_>>()
            else {
                continue;
            };
            if agent != self.who.agent() {
                continue;
            }
            let sessions = Sessions::new(&*raw, audience, agent)?.env(self.env.clone());
            let goes_on = alone.audience() == audience
                // A session that had more listeners than the key has now may go on: nothing in it becomes
                // more public.
                && sessions.class_of(name).await?.is_none_or(|class| alone.class() <= class.of_requests());
            if !goes_on {
                sessions.set(name, &Change::new().state(State::Done)).await?;
            }
        }
        Ok(())
    }

    /// Assigns a chat to the audience, also if it has another owner.
    ///
    /// # Errors
    /// - `AccessDenied`: the caller is not the holder of the data folder.
    /// - `InvalidArgument`: the id of the chat is invalid.
    /// - `NotFound`: the chat does not exist.
    /// - Errors of the storage.
    #[boxed]
    pub async fn own_chat(&self, chat: &str) -> Result<Commit> {
        if self.caller != Caller::Holder {
            let message = "only the holder of the data folder can set the owner of a chat";
            let error = Error::new(ErrorKind::AccessDenied, message);
            return Err(error.advising(Advice::Command, "run `garth chat own`"));
        }
        chat::own(&*self.account, chat, self.who.audience(), self.author()).await
    }

    /// Returns true if every owner of the agent has a session of their own under the key.
    fn shares_key(&self) -> bool {
        self.who.is_main() && self.policy.one_owner().is_none()
    }

    /// Returns the clock, the randomness and the threads to compute on.
    pub const fn env(&self) -> &Env {
        &self.env
    }

    /// Returns the identity.
    pub const fn identity(&self) -> &Identity {
        &self.who
    }

    /// Returns the directory of the chat in the account.
    pub fn chat(&self) -> &TreePath {
        &self.places.chat
    }

    /// Returns a builder of the tree that the agent sees.
    pub fn tree(&self) -> AgentTree {
        AgentTree::of(&self.account, &self.who, &self.policy, &self.places).author(self.author())
    }

    /// Returns the sessions of the audience with the agent.
    pub fn sessions(&self) -> Sessions<'_> {
        let (policy, places) = (Arc::clone(&self.policy), Arc::clone(&self.places));
        let fs = (&*self.inner, &*self.raw);
        let sessions = Sessions::of(fs, self.env.clone(), (self.caller, &self.who), policy, places);
        sessions.by(self.author())
    }

    /// Returns the part of the agent's workspace that the session sees.
    pub fn workspace(&self) -> Workspace<'_> {
        Workspace::of(&*self.inner, self.env.clone(), self.sessions(), &self.who).author(self.author())
    }

    /// Returns the memories of the audience and of the agent. `account` is the name of the account in their
    /// URIs.
    pub fn memories(&self, account: &str) -> Memories<'_> {
        let below = |name: &str| TreePath::from_row(self.places.agent.key(), name);
        let tops = [below("memories"), below("skills"), self.places.memories.clone()];
        // Others than the owner read the agent's memories and skills, and change them only where `shared`
        // allows it.
        let changed: Vec<TreePath> = tops.iter().filter(|top| self.places.writes(top)).cloned().collect();
        Memories::new(&*self.inner, account)
            .env(self.env.clone())
            .tops(tops)
            .changed(changed)
            .space(Space::User(self.who.audience().to_owned()))
            .author(self.author())
    }

    /// Returns the media of the visible sessions.
    pub fn media(&self) -> Media<'_> {
        self.sessions().media()
    }

    /// Returns a handle that recalls from a tree opened by [`Access::tree`].
    pub fn recaller<'t>(&self, tree: &'t dyn FileSystem, account: &str) -> Recaller<'t> {
        Recaller::new(tree, account).env(self.env.clone()).places(self.memory_places())
    }

    /// Returns a handle that searches a tree opened by [`Access::tree`].
    pub fn searcher<'t>(&self, tree: &'t dyn FileSystem, account: &str) -> Searcher<'t> {
        Searcher::new(tree, account).env(self.env.clone()).places(self.memory_places())
    }

    /// Returns the places of memories in the tree, each with its path in the account.
    pub fn memory_places(&self) -> Vec<(TreePath, TreePath)> {
        let parts = self.places.parts.iter().filter(|part| !part.at.is_root());
        parts.map(|part| (part.at.clone(), part.root.clone())).collect()
    }
}

/// Returns the gate of the directory of sessions, which opens for those that at least as many people listen
/// to as to the identity. `None` for the owner, who sees all of them.
///
/// Each state of a session is judged by the `meta.json` that it has, so an earlier session of the same name
/// is judged by its own. A directory without one is hidden, and so are states before commit `since`: sessions
/// had no class that garth alone could write.
fn gate(who: &Identity, since: Seq) -> Result<Option<Gate>> {
    if who.is_main() {
        return Ok(None);
    }
    let seen = Class::ALL.into_iter().filter(|class| who.class().sees(*class));
    Ok(Some(Gate {
        dir: Places::sessions_of(who)?,
        file: META.parse()?,
        projection: projections::SESSION,
        keys: seen.map(|class| class_key((who.audience(), who.agent()), class)).collect(),
        since,
    }))
}

/// Returns the class of the session that a request names; `None` if it does not exist. If its metadata cannot
/// be read, the class is unknown if `goes_on` is true.
///
/// # Errors
/// `Corrupt`, with the remedy, if the metadata cannot be read and `goes_on` is false: the request would
/// otherwise show the memory of the owner in a session in which others may listen.
async fn own_class(sessions: &Sessions<'_>, session: &str, goes_on: bool) -> Result<Option<StoredClass>> {
    match sessions.meta(session).await {
        Ok((_, meta)) => Ok(Some(meta.class)),
        Err(error) if error.is(ErrorKind::NotFound) => Ok(None),
        // The session is hidden from such a request, and an error would tell that it exists.
        Err(error) if error.is(ErrorKind::Corrupt) && goes_on => {
            Ok(Some(StoredClass::Unknown(String::new())))
        }
        Err(error) => Err(error),
    }
}

/// Returns the directory of the identity's own session, if it exists and is visible. `own` is its class.
fn visible_own(who: &Identity, own: Option<&StoredClass>, home: &TreePath) -> Option<TreePath> {
    let session = who.session().filter(|_| own.is_some_and(|own| own.is_seen_by(who.class())))?;
    Some(TreePath::from_row(home.key(), session))
}

/// Hides all sessions and archives but the identity's own session, for a key that is bound to it.
fn all_but_own(who: &Identity, own: Option<&StoredClass>, hidden: Hidden) -> Result<Hidden> {
    let home = Places::sessions_of(who)?;
    let all_but = visible_own(who, own, &home);
    let archives = TreePath::parse(&format!("/agents/{}/{ARCHIVES}", who.agent()))?;
    Ok(Hidden { left_out: vec![home, archives], all_but, ..hidden })
}

/// Returns places with the limits of a binding.
fn bounded(places: Places, binding: &Binding) -> Result<Places> {
    if binding.is_free() {
        return Ok(places);
    }
    let is_narrower = binding.prefix.is_some() || binding.session.is_some();
    let bounds = Bounds {
        is_bound: true,
        read_only: binding.read_only,
        keeps_directories: binding.read_only || binding.prefix.is_some(),
        one_session: binding.session.is_some(),
        own_archives: binding::fixes_listeners(binding),
        label: is_narrower.then(|| binding.digest()),
    };
    let mut places = places.bounded(bounds);
    if places.bounds.own_archives {
        // The directory has the archives of all audiences. Calls on archives, which judge each one, read it
        // outside of the tree.
        let archives = TreePath::from_row(places.agent.key(), ARCHIVES);
        // Also where `shared` names them: an empty directory would be in their place.
        places.parts.retain(|part| !part.root.is_within(&archives));
        places.within = places.within.without([archives]);
    }
    let Some(prefix) = &binding.prefix else { return Ok(places) };
    let places = places.below(prefix);
    if places.within.is_nothing() {
        let message =
            format!("this API key is bound to {prefix}, which the tree of this request does not have");
        let error = Error::new(ErrorKind::AccessDenied, message);
        return Err(error.advising(Advice::Command, "name another agent, user, chat or session"));
    }
    Ok(places)
}

/// Returns the directories outside the tree that the features of agents work in.
fn inner_tops(who: &Identity, places: &Places) -> Result<Vec<TreePath>> {
    let top = |name: &str| TreePath::from_row("", name);
    let mut tops = vec![places.agent.clone(), top(crate::media::MEDIA), top(OUTBOX)];
    if places.bounds.is_bound {
        // Not the whole directory of the audience: it also has the sessions of other agents.
        tops.extend([places.user.clone(), places.memories.clone()]);
    } else {
        tops.push(TreePath::parse(&format!("/users/{}", who.audience()))?);
    }
    Ok(tops)
}

/// Returns the part of the account that the features of agents work on. It is not for agents: archives and
/// media files in it may belong to other sessions.
fn confinement(who: &Identity, places: &Places, hidden: &Hidden, binding: &Binding) -> Result<Confinement> {
    let below = |name: &str| TreePath::from_row(places.agent.key(), name);
    let skills = TreePath::from_row("", SKILLS);
    let archives = below(ARCHIVES);
    let agent = &places.agent;
    // Skills of all agents are only written outside of sessions.
    let kept = who.is_in_session().then(|| skills.clone());
    let (within, read_only) = if who.is_main() {
        (Within::new([agent.clone()]), Within::new(kept))
    } else {
        // Paths shared for writing stay writable, and each reset writes its archive.
        let open = places.within.intersect(&Within::new([agent.clone()]));
        let closed = Within::new([agent.clone()]).without(open.tops().iter().cloned());
        let closed = closed.union(&places.read_only).without([archives.clone()]);
        let within = places.within.with([archives, below("settings.json")]);
        (within, closed.with(kept))
    };
    // The agent's own directory is in `within` as far as the identity reaches it.
    let own = inner_tops(who, places)?.into_iter().filter(|top| top != agent);
    let within = hidden.apply(&within.with(own).with([skills, places.chat.clone()]));
    // A key that is bound to a path reaches no more than its tree.
    let within = match &binding.prefix {
        Some(_) => within.intersect(&places.within),
        None => within,
    };
    let read_only = if places.bounds.read_only { Within::everything() } else { read_only };
    let to = Confinement::new(within, places.owner(who)?).read_only(read_only).author(who.author());
    Ok(to.gated(places.gates.clone()))
}

/// Returns the policy of an agent, and the commit of the upgrade that judged the sessions of the account: the
/// last one of all if that is unknown. The first access to an account upgrades it.
async fn policy(account: &dyn AccountStore, env: &Env, agent: &str) -> Result<(AccessPolicy, Seq)> {
    let raw = account.raw();
    check_id("agent", agent)?;
    let settings = TreePath::parse(&format!("/agents/{agent}/{SETTINGS}"))?;
    let read = [settings.clone(), record()?];
    let read = read_all(&*raw, &read, MAX_RECORD.max(MAX_SETTINGS)).await?;
    let [file, done] = read.try_into().unwrap_or_default();
    let since = |done: Option<File>| done.map_or(Seq(u64::MAX), |done| done.etag.seq);
    let done: Option<File> = done;
    if Upgrade::is_done(done.as_ref().and_then(|file| file.bytes.as_deref())) {
        return Ok((AccessPolicy::of(&settings, file.as_ref())?, since(done)));
    }
    upgrade::upgrade(account, env).await?;
    let done = read_all(&*raw, &[record()?], MAX_RECORD).await?.pop().flatten();
    Ok((policy_of(&*raw, agent).await?, since(done)))
}
