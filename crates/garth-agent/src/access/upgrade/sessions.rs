//! Upgrade of sessions: the owner of each agent, and the class and audience of each session.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Upgrade, commit, commit_or_note};
use crate::identity::{
    AccessPolicy, Caller, Class, DEFAULT_USER, Identity, Request, SETTINGS, SessionKey, is_reserved,
    policy_of,
};
use crate::registry::projections::SESSION;
use crate::registry::session_lines::NAMED;
use crate::session::{Meta, Sessions};
use crate::small_file::read_all;
use garth_engine::env::Env;
use garth_engine::error::Result;
use garth_engine::fs::{FileSystem, FileSystemExt as _};
use garth_engine::model::{FindCursor, FindQuery, MAX_PAGE, Op};
use garth_engine::path::TreePath;

/// Number of sessions that are read together.
const TOGETHER: usize = 32;

/// Limit on the bytes of a `meta.json`.
const MAX_META: usize = 1 << 20;

/// Judged sessions.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// Audience and class, by UUID.
    pub(super) by_id: BTreeMap<String, (String, Class)>,
    /// UUIDs of the sessions of a session key, open ones last.
    pub(super) by_key: BTreeMap<String, Vec<String>>,
    /// Audience and class by the original place: user, agent and name.
    by_place: BTreeMap<(String, String, String), (String, Class)>,
}

impl Known {
    /// Returns audience and class of the parent of a session of `user`, from which a child without a key
    /// derives its own.
    fn parent_of(&self, user: &str, meta: &Meta) -> Option<(String, Class)> {
        let (agent, session) = meta.parent().filter(|_| meta.session_key.is_none())?;
        self.by_place.get(&[user, agent, session].map(str::to_owned).into()).cloned()
    }
}

/// Session at its original place.
struct Found {
    user: String,
    agent: String,
    name: String,
    meta: Meta,
}

/// Returns a page of the sessions of an account.
async fn page(fs: &dyn FileSystem, after: Option<FindCursor>) -> Result<(Vec<Found>, Option<FindCursor>)> {
    let query = FindQuery::new(SESSION).from("class\0").to("class\u{1}").limit(MAX_PAGE);
    let answer = fs.find(&query.after(after)).await?;
    let mut found = Vec::new();
    for some in answer.items.chunks(TOGETHER) {
        let paths: Vec<TreePath> = some.iter().map(|item| item.path.clone()).collect();
        let read = read_all(fs, &paths, MAX_META).await?;
        for (path, file) in paths.iter().zip(read) {
            let segments: Vec<&str> = path.segments().collect();
            let ["users", user, "agents", agent, "session", name, _] = *segments else { continue };
            let Some(Ok(meta)) = file.map(|file| Meta::parse(file.bytes.as_deref().unwrap_or_default()))
            else {
                continue;
            };
            let [user, agent, name] = [user, agent, name].map(str::to_owned);
            found.push(Found { user, agent, name, meta });
        }
    }
    Ok((found, answer.next))
}

/// Sets the owner of each agent whose sessions without a key all belong to one user. Children do not count: a
/// child has the user of its parent, whose key may be that of a channel. Returns the policies of all agents.
pub(super) async fn owners(
    fs: &dyn FileSystem,
    upgrade: &mut Upgrade,
) -> Result<BTreeMap<String, AccessPolicy>> {
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut after = None;
    loop {
        let (found, next) = page(fs, after).await?;
        for one in found {
            let of_agent = users.entry(one.agent).or_default();
            // Two users prove that there is no single owner.
            if one.meta.session_key.is_none() && !one.meta.is_child() && of_agent.len() < 2 {
                of_agent.insert(one.user);
            }
        }
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    let mut policies = BTreeMap::new();
    for (agent, of_agent) in users {
        let only = of_agent.first().filter(|_| of_agent.len() == 1).cloned();
        let policy = match policy_of(fs, &agent).await {
            Ok(policy) => policy,
            Err(error) => {
                // Unreadable settings may name an owner. Their author has to repair them.
                upgrade.note(format!("agent {agent}: no owner was set, as {}", error.message()));
                policies.insert(agent, AccessPolicy::default());
                continue;
            }
        };
        let only = only.filter(|only| policy.owner.is_none() && only != DEFAULT_USER && !is_reserved(only));
        let policy = match only {
            Some(owner) => set_owner(fs, (&agent, policy), owner, upgrade).await?,
            None => policy,
        };
        policies.insert(agent, policy);
    }
    Ok(policies)
}

async fn set_owner(
    fs: &dyn FileSystem,
    (agent, mut policy): (&str, AccessPolicy),
    owner: String,
    upgrade: &mut Upgrade,
) -> Result<AccessPolicy> {
    let path = TreePath::parse(&format!("/agents/{agent}/{SETTINGS}"))?;
    let file = read_all(fs, std::slice::from_ref(&path), MAX_META).await?.pop().flatten();
    let text = file.as_ref().and_then(|file| file.bytes.as_deref()).unwrap_or(b"{}");
    let mut settings: serde_json::Map<String, serde_json::Value> =
        serde_json::from_slice(text).unwrap_or_default();
    settings.insert("owner".to_owned(), owner.clone().into());
    let text = crate::small_file::pretty(&settings)?;
    let ops = vec![Op::write(path, text).with_parents()];
    if !commit_or_note(fs, ops, "set the owner of an agent", upgrade).await? {
        return Ok(policy);
    }
    upgrade
        .note(format!("agent {agent}: {owner} is its owner, as all sessions without a key are of this user"));
    policy.owner = Some(owner);
    Ok(policy)
}

/// Session, and its metadata by the current rules.
struct Judged {
    was: Found,
    meta: Meta,
}

/// Judges each session: writes its class, and moves it to its audience. Children follow their parents.
pub(super) async fn judge(
    fs: &dyn FileSystem,
    env: &Env,
    policies: &BTreeMap<String, AccessPolicy>,
    upgrade: &mut Upgrade,
) -> Result<Known> {
    let (mut known, mut after, mut children) = (Known::default(), None, Vec::new());
    loop {
        let (found, next) = page(fs, after).await?;
        for one in found {
            match one.meta.is_child() {
                true => children.push(one),
                false => known.add(&Judged::of(policies, one, &known)),
            }
        }
        match next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    // Youngest first, and before all others: children are judged by the place of their parent. An upgrade
    // that was interrupted and starts again still finds the parent there.
    let children = known.families(policies, children);
    for judged in children.iter().rev() {
        judged.commit(fs, env, upgrade).await?;
    }
    after = None;
    loop {
        let (found, next) = page(fs, after).await?;
        for one in found.into_iter().filter(|one| !one.meta.is_child()) {
            // Judged a second time, page by page, so that their metadata is not held in memory.
            Judged::of(policies, one, &known).commit(fs, env, upgrade).await?;
        }
        match next {
            Some(next) => after = Some(next),
            None => return Ok(known),
        }
    }
}

impl Known {
    /// Judges children, and adds them. Returns parents before their children.
    fn families(&mut self, policies: &BTreeMap<String, AccessPolicy>, children: Vec<Found>) -> Vec<Judged> {
        let (mut all, mut left) = (Vec::new(), children);
        while !left.is_empty() {
            // A child is judged after its parent, whose audience it has.
            let is_ready = |one: &Found| self.parent_of(&one.user, &one.meta).is_some();
            let (mut ready, mut later): (Vec<_>, Vec<_>) = left.into_iter().partition(is_ready);
            // The parents of these no longer exist, or they refer to each other. They are judged by
            // themselves.
            if ready.is_empty() {
                std::mem::swap(&mut ready, &mut later);
            }
            for one in ready {
                let judged = Judged::of(policies, one, self);
                self.add(&judged);
                all.push(judged);
            }
            left = later;
        }
        all
    }

    fn add(&mut self, Judged { was, meta }: &Judged) {
        if let Some(key) = &meta.session_key {
            let ids = self.by_key.entry(key.clone()).or_default();
            ids.retain(|id| *id != meta.id);
            // Open sessions last: media of the key are assigned to the last one (`noted::owner_of`).
            match meta.finished_at {
                Some(_) => ids.insert(0, meta.id.clone()),
                None => ids.push(meta.id.clone()),
            }
        }
        let place = (was.user.clone(), was.agent.clone(), was.name.clone());
        let of = (meta.user.clone(), meta.class.of_requests());
        self.by_place.insert(place, of.clone());
        self.by_id.insert(meta.id.clone(), of);
    }
}

impl Judged {
    /// Judges a session by the policy of its agent, and by its parent, if that is known.
    fn of(policies: &BTreeMap<String, AccessPolicy>, was: Found, known: &Known) -> Self {
        let Found { user, agent, name, meta } = &was;
        let mut meta = meta.clone();
        let key = was.key();
        meta.session_key = key.as_ref().map(SessionKey::to_string);
        let default = AccessPolicy::default();
        let policy = policies.get(agent).unwrap_or(&default);
        let mut request = Request::new(&**agent).session(&**name);
        request.key = key;
        request.user = Some(user.clone()).filter(|user| !is_reserved(user) && user != DEFAULT_USER);
        let (class, audience) = match Identity::judge(policy, Caller::ApiKey, &request) {
            Ok(who) => (who.class(), who.audience().to_owned()),
            // The key belongs to another user. The session stays with its audience, and the key leads
            // nowhere.
            Err(_) => (Class::Dm, user.clone()),
        };
        let (class, audience) = match known.parent_of(user, &was.meta) {
            Some((audience, parent)) => (parent.max(class_with(policy, &audience)), audience),
            None => (class, audience),
        };
        // An upgrade may give a session a class with more listeners, but never one with fewer.
        meta.class = meta.class.with_listeners_of(class);
        (meta.user, meta.agent) = (audience, agent.clone());
        if is_reserved(user) {
            meta.user.clone_from(user);
        }
        // Without this mark, the first call under the key would end the session.
        let alone = meta.session_key.as_ref().map(|_| Request { user: None, session: None, ..request });
        let alone = alone.and_then(|alone| Identity::judge(policy, Caller::ApiKey, &alone).ok());
        if alone.is_some_and(|alone| alone.audience() != meta.user) {
            meta.other.insert(NAMED.to_owned(), true.into());
        }
        Self { was, meta }
    }

    /// Writes the judged metadata, and moves the session.
    async fn commit(&self, fs: &dyn FileSystem, env: &Env, upgrade: &mut Upgrade) -> Result<()> {
        let Self { was, meta } = self;
        let Found { user, agent, name, .. } = was;
        let at = format!("session {name} of {agent} with {user}");
        if was.key().is_none() && was.meta.session_key.is_some() {
            upgrade.note(format!("{at}: removed its session key, which belongs to another agent"));
        }
        let from = Sessions::new(fs, user, agent)?.env(env.clone());
        let mut ops = Vec::new();
        if *meta != was.meta {
            ops.push(from.meta_op(name, meta)?);
        }
        if meta.class != was.meta.class {
            upgrade.note(format!("{at}: is of class {} now, before {}", meta.class, was.meta.class));
        }
        if meta.user != *user {
            let to = Sessions::new(fs, &meta.user, agent)?.env(env.clone());
            let mut dir = to.directory(name)?;
            // The audience may have a session of that name. The UUID is unique.
            if fs.exists(&dir).await? {
                dir = to.directory(&meta.id)?;
            }
            let rename = Op::rename(from.directory(name)?, dir).no_replace().with_parents();
            let moved = ops.iter().cloned().chain([rename]).collect();
            if commit_or_note(fs, moved, "judge a session", upgrade).await? {
                upgrade.note(format!("{at}: moved to its audience {}", meta.user));
                return Ok(());
            }
            // It cannot move. As a session of a group it sees least.
            let class = meta.class.clone().with_listeners_of(Class::Group);
            let stays = Meta { class, user: user.clone(), ..meta.clone() };
            ops = vec![from.meta_op(name, &stays)?];
        }
        commit(fs, ops, "judge a session").await
    }
}

impl Found {
    /// Returns the session key, if it is one of the session's agent.
    fn key(&self) -> Option<SessionKey> {
        let key = self.meta.session_key.as_deref()?.parse::<SessionKey>().ok()?;
        Some(key).filter(|key| key.agent() == self.agent)
    }
}

/// Returns the class of an audience in sessions without a key.
fn class_with(policy: &AccessPolicy, audience: &str) -> Class {
    if policy.is_owner(audience) { Class::Main } else { Class::Dm }
}
