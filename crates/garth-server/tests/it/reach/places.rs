//! Places with data, and askers. All data of a place has the words of this place, so an answer shows the
//! places that were reached.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::executor::block_on;
use garth_engine::TreePath;
use garth_engine::model::{Batch, ChangesQuery, Op, Seq};
use serde_json::{Value, json};

use crate::it::harness::{Reply, Server};

/// A place with data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// Sessions and memories of the owner.
    Owner,
    /// Sessions and memories of another user.
    User,
    /// Sessions and memories of a channel.
    Channel,
    /// Sessions and memories of another channel.
    Second,
    /// Files of the agent that only the owner sees.
    Closed,
    /// Files of the agent that everyone it serves sees.
    Open,
    /// Another agent, and its sessions with the owner.
    Other,
}

use Place::{Channel, Closed, Open, Other, Owner, Second, User};

/// Every place.
pub(super) const PLACES: [Place; 7] = [Owner, User, Channel, Second, Closed, Open, Other];
/// Name of the file that is written to each place, and removed from it.
pub(super) const LEFT_FILE: &str = "left.md";
/// Places with sessions.
pub(super) const SESSIONS: [Place; 5] = [Owner, User, Channel, Second, Other];

/// All askers, in the order of the columns.
pub(super) const ASKERS: [Asker; 5] =
    [Asker::Owner, Asker::User, Asker::Channel, Asker::Nobody, Asker::Another];

/// An asker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// `"user": "ann"`, who owns the agent.
    Owner,
    /// `"user": "bob"`.
    User,
    /// A session key of a channel.
    Channel,
    /// No user, no key.
    Nobody,
    /// A session key of another agent.
    Another,
}

impl Asker {
    /// Returns the asker's own place.
    pub(super) const fn own(self) -> Option<Place> {
        match self {
            Self::Owner => Some(Owner),
            Self::User => Some(User),
            Self::Channel => Some(Channel),
            Self::Nobody | Self::Another => None,
        }
    }
}

impl Place {
    /// Returns a word in all texts of the place, and in no name.
    pub(super) fn canary(self) -> String {
        format!("canary{self:?}bird")
    }

    /// Returns the name of something in the place.
    pub(super) fn name(self, what: &str) -> String {
        format!("{}-{what}", format!("{self:?}").to_lowercase())
    }

    /// Returns a day on which the place remembered something and no other did.
    pub(super) fn day(self) -> String {
        format!("2026-01-1{}", self as u8)
    }

    /// Returns the agent whose place it is.
    pub(super) const fn agent(self) -> &'static str {
        if matches!(self, Other) { "other" } else { "scout" }
    }

    /// Returns the id of the audience; that of the owner where the agent is the place.
    pub(super) const fn audience(self) -> &'static str {
        match self {
            User => "bob",
            Channel => ":slack:channel:C1",
            Second => ":slack:channel:C2",
            Owner | Closed | Open | Other => "ann",
        }
    }

    /// Returns the session key of the sessions, if they have one.
    pub(super) const fn key(self) -> Option<&'static str> {
        match self {
            Owner => Some("agent:scout:main"),
            Channel => Some("agent:scout:slack:channel:C1"),
            Second => Some("agent:scout:slack:channel:C2"),
            Other => Some("agent:other:main"),
            User | Closed | Open => None,
        }
    }

    /// Returns the fields by which the place's own people ask.
    fn fields(self) -> Value {
        match self {
            User => json!({"user": "bob"}),
            Channel | Second => json!({"key": self.key()}),
            _ => json!({"user": "ann"}),
        }
    }

    /// Returns the directory of the sessions in the account.
    pub(super) fn sessions(self) -> String {
        format!("/users/{}/agents/{}/session", self.audience(), self.agent())
    }

    /// Returns the path of [`LEFT_FILE`] in the account.
    pub(super) fn left_file(self) -> String {
        match self {
            Closed => format!("/agents/scout/{LEFT_FILE}"),
            Open => format!("/agents/scout/skills/{LEFT_FILE}"),
            Owner | User | Channel | Second | Other => {
                format!("/users/{}/agents/{}/{LEFT_FILE}", self.audience(), self.agent())
            }
        }
    }

    /// Returns the URI of a memory in the place.
    pub(super) fn uri(self, what: &str) -> String {
        match self {
            Open | Closed | Other => {
                format!("ctx://acme/agents/{}/memories/cases/{}", self.agent(), self.name(what))
            }
            _ => {
                let user = self.audience().replace(':', "%3A");
                format!("ctx://acme/users/{user}/memories/events/{}", self.name(what))
            }
        }
    }
}

/// A server on which each place holds something of each kind.
pub(super) struct Filled {
    pub(super) server: Server,
    /// UUIDs of the sessions `chat`.
    pub(super) ids: BTreeMap<Place, String>,
    /// Ids of archives.
    pub(super) archives: BTreeMap<Place, String>,
    /// Keys of media files: one to keep and one to delete.
    pub(super) media: BTreeMap<Place, [String; 2]>,
    /// Ids of what is swapped out.
    pub(super) swapped: BTreeMap<Place, String>,
    /// Places by the UUIDs of their sessions.
    by_id: BTreeMap<String, Place>,
    /// The end of the set-up.
    pub(super) seq: Seq,
}

/// Path of the skill that each caller of the agent reads.
const OPEN_SKILL: &str = "/agents/scout/skills/open-skill/SKILL.md";

/// Returns the text of a skill with the word of its place.
fn skill(place: Place) -> String {
    let canary = place.canary();
    format!("---\nname: {}\ndescription: About {canary}\n---\n{canary}\n", place.name("skill"))
}

impl Filled {
    pub(super) fn start() -> Self {
        let server = Server::start();
        let (ids, archives, swapped) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let (media, by_id) = (BTreeMap::new(), BTreeMap::new());
        let mut filled = Self { server, ids, archives, media, swapped, by_id, seq: Seq(0) };
        filled.files();
        SESSIONS.into_iter().for_each(|place| filled.old_sessions(place));
        // The newest session is that of a key, and of several that are as new the first that was made.
        filled.server.clock.advance(Duration::from_secs(1));
        for place in SESSIONS {
            filled.chat(place);
            filled.memory(place);
        }
        filled.memories();
        filled.seq = filled.head();
        filled
    }

    /// Writes the skill of the agent if it is missing.
    pub(super) fn restore_skill(&self) {
        let (account, path) = (self.account(), TreePath::parse(OPEN_SKILL).unwrap());
        if block_on(account.stat(&(&path).into())).is_err() {
            let write = Op::write(path, skill(Open)).with_parents();
            block_on(account.commit(Batch::new([write]))).unwrap();
        }
    }

    /// Lays out what is of the agents themselves.
    fn files(&self) {
        let mut ops = Vec::new();
        for (path, text) in [
            ("/agents/scout/settings.json", json!({"owner": "ann"}).to_string()),
            ("/agents/other/settings.json", json!({"owner": "ann"}).to_string()),
            ("/agents/scout/SOUL.md", format!("Be kind to {}.\n", Open.canary())),
            ("/agents/scout/MEMORY.md", format!("The {} drinks tea.\n", Closed.canary())),
            ("/agents/scout/USER.md", format!("The {} is called Ann.\n", Closed.canary())),
            ("/agents/other/SOUL.md", format!("Be kind to {}.\n", Other.canary())),
            ("/agents/other/MEMORY.md", format!("The {} drinks tea.\n", Other.canary())),
            (OPEN_SKILL, skill(Open)),
            ("/agents/other/skills/other-skill/SKILL.md", skill(Other)),
        ] {
            ops.push(Op::write(TreePath::parse(path).unwrap(), text).with_parents());
        }
        block_on(self.account().commit(Batch::new(ops))).unwrap();
        for (agent, place) in [("scout", Closed), ("other", Other)] {
            let named = ["kept", "gone"].map(|path| format!("/{}/{path}", place.canary()));
            for path in named.into_iter().chain(["/plain".to_owned()]) {
                let body =
                    json!({"agent_id": agent, "path": path, "value": place.canary(), "searchable": true});
                self.server.ok("put", body.to_string());
            }
        }
    }

    fn of(&self, place: Place, call: &str, body: Value) -> Value {
        self.server.ok(call, said_by(place, body))
    }

    /// Creates a session and says something in it.
    fn session(&mut self, place: Place, what: &str) -> String {
        let name = place.name(what);
        let made = self.of(
            place,
            "sessions/create",
            with_key(place, json!({"name": name, "title": place.canary()})),
        );
        let text = |text: String| json!({"role": "user", "content": text});
        let messages = [text(place.canary()), text(format!("{} ", place.canary()).repeat(300))];
        self.of(place, "sessions/append", json!({"name": name, "messages": messages}));
        let id = id_of(&made["session"]);
        self.by_id.insert(id.clone(), place);
        id
    }

    /// Makes a session that is reset, and one to be reset.
    fn old_sessions(&mut self, place: Place) {
        for what in ["old", "reset"] {
            self.session(place, what);
        }
        let body = in_path(place, json!({"name": place.name("old")}));
        let reset = self.server.ok(&format!("agents/{}/reset", place.agent()), body);
        let archive = reset["archive"].as_str().unwrap().rsplit('/').next().unwrap();
        self.archives.insert(place, archive.trim_end_matches(".jsonl.gz").to_owned());
        self.by_id.insert(id_of(&reset["next"]), place);
    }

    /// Makes the session that goes on, with something of each kind in it.
    fn chat(&mut self, place: Place) {
        let (id, chat) = (self.session(place, "chat"), place.name("chat"));
        let decision = json!({"id": "d1", "decision": place.canary(), "source": "messages:1"});
        self.of(place, "context/derive", json!({"name": chat, "decisions": [decision]}));
        let child = json!({"name": chat, "id": "c1", "child_session": place.name("c1"), "handoff": "x"});
        self.of(place, "context/spawn", child);
        let out = json!({"name": chat, "source": "messages:2", "summary": place.canary()});
        let out = self.of(place, "context/swap-out", out);
        self.swapped.insert(place, out["entry"]["id"].as_str().unwrap().to_owned());
        self.of(place, "context/pack", json!({"name": chat}));
        let call = format!("agents/{}/media", place.agent());
        let media = [0, 1].map(|_| {
            let query = query_of(place, &[("session_key", place.key().unwrap_or(&id))]);
            let reply = self.upload(&call, &query, &place.canary());
            assert_eq!(reply.status, 200, "{place:?}: {}", reply.text());
            reply.json()["media"]["key"].as_str().unwrap().to_owned()
        });
        self.media.insert(place, media);
        self.ids.insert(place, id);
    }

    fn memory(&self, place: Place) {
        // Texts of the owner go to the memory of the agent.
        let kept = if place == Owner { Closed } else { place };
        for day in [None, Some(kept.day())] {
            let body = in_path(place, json!({"text": format!("About {}.", kept.canary()), "day": day}));
            self.server.ok(&format!("agents/{}/daily/add", place.agent()), body);
        }
    }

    fn memories(&self) {
        for place in PLACES.into_iter().filter(|place| *place != Closed) {
            for what in ["get", "edge", "move", "delete", "forget"] {
                let content = format!("The {} of {what}.", place.canary());
                let body = json!({"uri": place.uri(what), "content": content, "tags": [place.canary()]});
                self.server.ok("memories/put", body.to_string());
            }
            let [from, to] = ["get", "edge"].map(|what| place.uri(what));
            let edge = json!({"from_uri": from, "to_uri": to, "relation_type": place.canary()});
            self.server.ok("memories/relate", edge.to_string());
        }
    }

    /// Writes the file that calls on bytes remove from each place, where it is missing.
    pub(super) fn leave_files(&self) {
        let account = self.account();
        let paths = PLACES.map(|place| TreePath::parse(&place.left_file()).unwrap());
        let missing = paths.into_iter().filter(|path| block_on(account.stat(&path.into())).is_err());
        let ops: Vec<Op> = missing.map(|path| Op::write(path, "x").with_parents()).collect();
        if !ops.is_empty() {
            block_on(account.commit(Batch::new(ops))).unwrap();
        }
    }

    fn account(&self) -> std::sync::Arc<dyn garth_engine::AccountStore> {
        block_on(self.server.home.account("acme")).unwrap()
    }

    pub(super) fn head(&self) -> Seq {
        block_on(self.account().head()).unwrap().seq
    }

    fn upload(&self, call: &str, query: &str, bytes: &str) -> Reply {
        self.upload_as(&self.server.key, call, query, bytes)
    }

    /// Sends the bytes of a media file.
    pub(super) fn upload_as(&self, key: &str, call: &str, query: &str, bytes: &str) -> Reply {
        let headers = format!("authorization: Bearer {key}\r\ncontent-type: image/png\r\n");
        self.server.request("POST", &format!("/v1/{call}?{query}"), &headers, bytes.as_bytes())
    }

    /// Returns the places whose words are in a text; for a list of days or archives, also those whose days or
    /// archives are in it.
    pub(super) fn shown_in(&self, text: &str, lists: bool) -> BTreeSet<Place> {
        let is_in = |place: &Place| {
            let archive = self.archives.get(place).is_some_and(|archive| text.contains(archive));
            text.contains(&place.canary()) || (lists && (archive || text.contains(&place.day())))
        };
        PLACES.into_iter().filter(is_in).collect()
    }

    /// Returns the places that were changed since.
    pub(super) fn changed_since(&self, seq: Seq) -> BTreeSet<Place> {
        let mut changed = BTreeSet::new();
        let mut query = ChangesQuery::since(seq);
        loop {
            let page = block_on(self.account().changes(&query)).unwrap();
            let paths = page.commits.iter().flat_map(|commit| &commit.changes);
            changed.extend(paths.flat_map(|change| &change.paths).filter_map(|path| self.place_of(path)));
            if page.until.seq >= page.head {
                return changed;
            }
            query.since = page.until;
        }
    }

    fn place_of(&self, path: &TreePath) -> Option<Place> {
        let of_session = |key: &str| {
            let of_key = SESSIONS.into_iter().find(|place| place.key() == Some(key));
            of_key.or_else(|| self.by_id.get(key).copied())
        };
        match *path.segments().collect::<Vec<_>>() {
            ["agents", "other", ..] | ["users", "ann", "agents", "other", ..] => Some(Other),
            ["users", user, ..] => SESSIONS.into_iter().find(|place| place.audience() == user),
            ["media", key, ..] => of_session(key),
            ["agents", "scout", "sessions", name, ..] => of_session(name.trim_end_matches(".jsonl.gz")),
            ["agents", "scout", "skills" | "memories", ..] => Some(Open),
            ["agents", "scout", _, ..] => Some(Closed),
            _ => None,
        }
    }
}

fn id_of(session: &Value) -> String {
    session["meta"]["id"].as_str().unwrap().to_owned()
}

/// Adds the fields of the place's own people, for a call whose path names the agent.
fn in_path(place: Place, mut body: Value) -> String {
    body.as_object_mut().unwrap().extend(place.fields().as_object().unwrap().clone());
    body.to_string()
}

/// Adds the fields of the place's own people and their agent.
fn said_by(place: Place, mut body: Value) -> String {
    body["agent"] = json!(place.agent());
    match body.get("key") {
        Some(_) => body.to_string(),
        None => in_path(place, body),
    }
}

/// Adds the session key that a new session gets.
fn with_key(place: Place, mut body: Value) -> Value {
    if let Some(key) = place.key() {
        body["key"] = json!(key);
    }
    body
}

/// Returns the query of a place's own people.
fn query_of(place: Place, fields: &[(&str, &str)]) -> String {
    let user = matches!(place, Owner | User | Other).then_some(("user", place.audience()));
    let fields = fields.iter().copied().chain(user);
    fields.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("&")
}
