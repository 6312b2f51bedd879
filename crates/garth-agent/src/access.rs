//! Access: the one way from a caller and a request to what they reach in an account. Every interface opens
//! trees, sessions, memories, workspaces and media here; nothing is checked again behind it, since what an
//! identity does not reach is not in the filesystems that it gets.

mod upgrade;

use std::sync::Arc;

use self::upgrade::record::{MAX_RECORD, record};
pub use self::upgrade::{Upgrade, upgraded};
use crate::boxed;
use crate::chat;
use crate::identity::places::{Hidden, Places};
use crate::identity::{AccessPolicy, Caller, Class, Identity, MAX_SETTINGS, Request, SETTINGS, policy_of};
use crate::media::Media;
use crate::memory::{Memories, OUTBOX, Space};
use crate::recall::Recaller;
use crate::registry::projections;
use crate::registry::projections::sessions::{anyone_key, class_key};
use crate::session::{Change, Sessions, State};
use crate::small_file::{File, read_all};
use crate::tree::AgentTree;
use crate::tree::directories::make_missing;
use crate::workspace::Workspace;
use garth_engine::env::Env;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::{AccountStore, FileSystem};
use garth_engine::model::{Author, Commit, Confinement, FindQuery, Within};
use garth_engine::path::{TreePath, check_id};

/// Sessions that are left out one by one, of those of an audience that fewer listen to. With more, a session
/// sees itself alone.
const MAX_HIDDEN: usize = 1000;

/// Sessions under a key that are looked at, and ended, at once.
const MAX_ENDED: usize = 100;

/// Where an account keeps the skills of all agents.
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
    /// Id of the API key that commits are stamped with.
    key: Option<String>,
    policy: Arc<AccessPolicy>,
    who: Identity,
    places: Arc<Places>,
    /// The account under its own paths, as far as the features of agents need it for this identity.
    inner: Arc<dyn FileSystem>,
    /// All of the account, for what garth itself looks up: whom another agent serves, and what other
    /// audiences remember for a main session.
    raw: Arc<dyn FileSystem>,
}

impl Access {
    /// Judges a request and opens what it reaches. Nothing is created.
    ///
    /// # Errors
    /// As [`Identity::judge`]; `Corrupt` for `settings.json` that cannot be read; `AccessDenied` for
    /// the chat of another audience; from the storage.
    #[boxed]
    pub async fn open(
        account: &Arc<dyn AccountStore>,
        env: &Env,
        caller: Caller,
        request: &Request,
    ) -> Result<Self> {
        let raw = account.raw();
        let policy = Arc::new(policy(&**account, env, &request.agent).await?);
        let mut who = Identity::judge(&policy, caller, request)?;
        let mut own = None;
        if let Some(session) = &request.session {
            let sessions = Sessions::new(&*raw, who.audience(), who.agent())?.env(env.clone());
            own = sessions.class_of(session).await?;
            let holds = caller == Caller::Holder && request.class == Some(Class::Main);
            who = who.in_session(session, own.filter(|_| !holds).unwrap_or(Class::Main));
        }
        let (who, closed) = chat::choose(&*raw, &policy, who, request.chat.is_some()).await?;
        let mut hidden = hidden(&*raw, &who, own).await?;
        hidden.left_out.extend(closed);
        let places = Arc::new(Places::of(&who, &policy, &hidden)?);
        let inner = raw.confined(&confinement(&who, &places, &hidden)?).await?;
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

    /// Judges a request as [`Access::open`] does, but for the class of its session: what is answered depends
    /// on the settings alone, and stays the same while a session ends.
    ///
    /// # Errors
    /// As [`Access::open`].
    pub async fn judge(
        account: &Arc<dyn AccountStore>,
        env: &Env,
        caller: Caller,
        request: &Request,
    ) -> Result<Identity> {
        Identity::judge(&policy(&**account, env, &request.agent).await?, caller, request)
    }

    /// Stamps commits with the id of an API key.
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
    /// `AlreadyExists` where a file is in the place of one; from the storage.
    #[boxed]
    pub async fn make(&self) -> Result<()> {
        let mut wanted = inner_tops(&self.who, &self.places)?;
        if !self.who.is_in_session() {
            wanted.push(TreePath::from_row("", SKILLS));
        }
        // The one directory of the agent that others write: each reset its archive.
        wanted.push(TreePath::from_row(self.places.agent.key(), "sessions"));
        make_missing(&*self.account, &wanted, &self.who, "open the directories of an agent").await?;
        self.end_sessions_of_before().await
    }

    /// Ends the sessions to which the session key led alone, and leads no longer, since the agent's settings
    /// changed: what was said in them stays with whom it was said.
    async fn end_sessions_of_before(&self) -> Result<()> {
        let Some(key) = self.who.key().filter(|_| !self.shares_key()) else { return Ok(()) };
        let raw = self.account.raw();
        let query = FindQuery::new(projections::SESSION).equal(&anyone_key(key.as_str())).limit(MAX_ENDED);
        let found = raw.find(&query.within(TreePath::from_row("", "users"))).await?;
        if found.items.is_empty() {
            return Ok(());
        }
        let alone = Request::new(self.who.agent()).key(key.clone());
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
                && sessions.class_of(name).await?.is_none_or(|class| alone.class() <= class);
            if !goes_on {
                sessions.set(name, &Change::new().state(State::Done)).await?;
            }
        }
        Ok(())
    }

    /// Makes a chat the audience's, whoever's it was.
    ///
    /// # Errors
    /// `AccessDenied` but for whoever holds the account; `InvalidArgument` for what is no id; `NotFound`;
    /// from the storage.
    #[boxed]
    pub async fn own_chat(&self, chat: &str) -> Result<Commit> {
        if self.caller != Caller::Holder {
            let message = "only who holds the account says whose a chat is; run `garth chat own`";
            return Err(Error::new(ErrorKind::AccessDenied, message));
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

    /// Returns whose access it is.
    pub const fn identity(&self) -> &Identity {
        &self.who
    }

    /// Returns the directory of the chat in the account.
    pub fn chat(&self) -> &TreePath {
        &self.places.chat
    }

    /// Returns the tree that the agent sees, to be put together.
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

    /// Returns the workspace of the agent, as far as the session sees it.
    pub fn workspace(&self) -> Workspace<'_> {
        Workspace::of(&*self.inner, self.env.clone(), self.sessions(), &self.who).author(self.author())
    }

    /// Returns the memories of the audience and of the agent. `account` is the name of the account in
    /// their URIs.
    pub fn memories(&self, account: &str) -> Memories<'_> {
        let below = |name: &str| TreePath::from_row(self.places.agent.key(), name);
        let tops = [below("memories"), below("skills"), self.places.memories.clone()];
        let changed: Vec<TreePath> = tops.iter().filter(|top| self.places.writes(top)).cloned().collect();
        Memories::new(&*self.inner, account)
            .env(self.env.clone())
            .tops(tops)
            .changed(changed)
            .space(Space::User(self.who.audience().to_owned()))
            .author(self.author())
    }

    /// Returns the media of the sessions that the session sees.
    pub fn media(&self) -> Media<'_> {
        self.sessions().media()
    }

    /// Returns what recalls from a tree that [`Access::tree`] opened.
    pub fn recaller<'t>(&self, tree: &'t dyn FileSystem, account: &str) -> Recaller<'t> {
        Recaller::new(tree, account).env(self.env.clone()).places(self.memory_places())
    }

    /// Returns where directories of the account that may have memories are in the tree, each with its
    /// path in the account.
    pub fn memory_places(&self) -> Vec<(TreePath, TreePath)> {
        let parts = self.places.parts.iter().filter(|part| !part.at.is_root());
        parts.map(|part| (part.at.clone(), part.root.clone())).collect()
    }
}

/// Returns the sessions of an audience that fewer listen to than to the identity. `own` is the class of its
/// own session.
async fn hidden(raw: &dyn FileSystem, who: &Identity, own: Option<Class>) -> Result<Hidden> {
    let home = Places::sessions_of(who)?;
    let mut hidden = Hidden::default();
    for class in [Class::Main, Class::Dm].into_iter().filter(|class| !who.class().sees(*class)) {
        let key = class_key((who.audience(), who.agent()), class);
        let query = FindQuery::new(projections::SESSION).equal(&key).within(home.clone()).limit(MAX_HIDDEN);
        let found = raw.find(&query).await?;
        if found.next.is_some() {
            let own = who.session().filter(|_| own.is_some_and(|own| who.class().sees(own)));
            let all_but = own.map(|session| TreePath::from_row(home.key(), session));
            return Ok(Hidden { left_out: vec![home], all_but });
        }
        hidden.left_out.extend(found.items.iter().filter_map(|item| item.path.parent()));
    }
    Ok(hidden)
}

/// Returns the directories that the features of agents work in, besides those of the tree.
fn inner_tops(who: &Identity, places: &Places) -> Result<Vec<TreePath>> {
    let top = |name: &str| TreePath::from_row("", name);
    let user = TreePath::parse(&format!("/users/{}", who.audience()))?;
    Ok(vec![user, places.agent.clone(), top(crate::media::MEDIA), top(OUTBOX)])
}

/// Returns the part of the account that the features of agents work on. Not for an agent: an archive or a
/// media file in it may be another session's.
fn confinement(who: &Identity, places: &Places, hidden: &Hidden) -> Result<Confinement> {
    let below = |name: &str| TreePath::from_row(places.agent.key(), name);
    let skills = TreePath::from_row("", SKILLS);
    let archives = below("sessions");
    let [user, agent, media, outbox] = &*inner_tops(who, places)? else {
        return Err(Error::invalid("an identity works in four directories"));
    };
    // skills of all agents are written outside of sessions
    let kept = who.is_in_session().then(|| skills.clone());
    let (within, read_only) = if who.is_main() {
        (Within::new([agent.clone()]), Within::new(kept))
    } else {
        // what is shared to be written stays so, and each reset writes its archive
        let open = places.within.intersect(&Within::new([agent.clone()]));
        let closed = Within::new([agent.clone()]).without(open.tops().iter().cloned());
        let closed = closed.union(&places.read_only).without([archives.clone()]);
        let within = places.within.with([archives, below("settings.json")]);
        (within, closed.with(kept))
    };
    let own = [user, media, outbox, &skills, &places.chat].map(TreePath::clone);
    let within = hidden.apply(&within.with(own));
    Ok(Confinement::new(within, who.owner()?).read_only(read_only).author(who.author()))
}

/// Returns the policy of an agent. The first access to an account upgrades it.
async fn policy(account: &dyn AccountStore, env: &Env, agent: &str) -> Result<AccessPolicy> {
    let raw = account.raw();
    check_id("agent", agent)?;
    let settings = TreePath::parse(&format!("/agents/{agent}/{SETTINGS}"))?;
    let read = [settings.clone(), record()?];
    let read = read_all(&*raw, &read, MAX_RECORD.max(MAX_SETTINGS)).await?;
    let [file, done] = read.try_into().unwrap_or_default();
    let done: Option<File> = done;
    if Upgrade::is_done(done.as_ref().and_then(|file| file.bytes.as_deref())) {
        return AccessPolicy::of(&settings, file.as_ref());
    }
    upgrade::upgrade(account, env).await?;
    policy_of(&*raw, agent).await
}
