//! Account with a word of its own in each place.

use futures::executor::block_on;
use garth_agent::{Access, Caller, Request};
use garth_engine::model::{Batch, Op};
use garth_engine::{FileSystemExt as _, TreePath};
use garth_testkit::proof::{Proven, hold, run};
use serde_json::{Value, json};

use super::client::Server;

/// Owner of both agents.
pub(super) const OWNER: &str = "ann";
/// Agents.
pub(super) const AGENTS: [&str; 2] = ["scout", "other"];
/// Beginning of every canary.
pub(super) const CANARY: &str = "kanarie";

/// Audience of an agent, with the names by which it is reached.
struct Audience {
    agent: &'static str,
    id: &'static str,
    /// Beginning of the names of its sessions.
    tag: &'static str,
    user: Option<&'static str>,
    key: Option<&'static str>,
}

const fn of_user(agent: &'static str, user: &'static str, tag: &'static str) -> Audience {
    Audience { agent, id: user, tag, user: Some(user), key: None }
}

const fn of_key(id: &'static str, key: &'static str, tag: &'static str) -> Audience {
    Audience { agent: "scout", id, tag, user: None, key: Some(key) }
}

const AUDIENCES: [Audience; 6] = [
    of_user("scout", "ann", "ann"),
    of_user("scout", "bob", "bob"),
    of_key(":slack:channel:C1", "agent:scout:slack:channel:C1", "c1"),
    of_key(":slack:channel:C2", "agent:scout:slack:channel:C2", "c2"),
    of_user("other", "ann", "other-ann"),
    of_user("other", "bob", "other-bob"),
];

impl Audience {
    /// Returns the fields of a call: the audience's names, and these.
    fn names(&self, more: Value) -> Value {
        let mut fields = more;
        for (name, value) in [("user", self.user), ("key", self.key)] {
            if let Some(value) = value {
                fields[name] = json!(value);
            }
        }
        fields
    }

    fn of_session(&self, more: Value) -> Value {
        let mut fields = self.names(more);
        fields["agent"] = json!(self.agent);
        fields
    }

    fn request(&self) -> Proven<Request> {
        let request = Request::new(self.agent);
        let request = self.user.into_iter().fold(request, Request::user);
        match self.key {
            Some(key) => Ok(request.key(key.parse()?)),
            None => Ok(request),
        }
    }
}

/// Place with a word of its own.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) account: &'static str,
    pub(super) kind: PlaceKind,
    pub(super) canary: String,
}

/// Kind of place.
#[derive(Clone, Debug)]
pub(super) enum PlaceKind {
    /// Session with its media.
    Session { agent: &'static str, audience: &'static str, name: String },
    /// Archive of a session that was reset.
    Archive { agent: &'static str, audience: &'static str },
    /// Memories of an audience, which its agents share.
    Memory { audience: &'static str },
    /// Daily memory of an audience other than the owner.
    Day { agent: &'static str, audience: &'static str },
    /// Files and memories of an agent that everyone whom it serves sees.
    Open { agent: &'static str },
    /// Files and values of an agent that its owner sees.
    Closed { agent: &'static str },
    /// Files of a chat.
    Chat { chat: String, audience: &'static str },
}

impl Place {
    /// Returns the paths of the place in the trees of those who see it.
    pub(super) fn paths(&self) -> Vec<String> {
        let in_agent = |names: &[&str]| names.iter().map(|name| format!("/.agent/{name}")).collect();
        match &self.kind {
            PlaceKind::Session { agent, audience, name } => vec![
                format!("/.user/session/{name}"),
                format!("/ctx/home/{audience}/agent/{agent}/session/{name}"),
            ],
            PlaceKind::Archive { .. } => in_agent(&["sessions"]),
            PlaceKind::Memory { audience } => vec![format!("/ctx/users/{audience}/memories")],
            PlaceKind::Day { .. } => vec!["/.user/memory".to_owned()],
            PlaceKind::Open { .. } => in_agent(&["SOUL.md", "memories", "skills"]),
            PlaceKind::Closed { .. } => in_agent(&["MEMORY.md", "USER.md", "kv", "memory"]),
            PlaceKind::Chat { .. } => vec!["/note.md".to_owned()],
        }
    }
}

/// Places of one account, and the ids in it.
pub(super) struct World {
    pub(super) account: &'static str,
    pub(super) places: Vec<Place>,
    pub(super) sessions: Vec<String>,
    pub(super) uris: Vec<String>,
    /// Keys of media files.
    pub(super) media: Vec<String>,
    /// UUIDs of sessions, and ids of archives.
    pub(super) ids: Vec<String>,
    /// Sessions by UUID.
    sessions_by_id: Vec<(String, PlaceKind)>,
}

impl World {
    /// Creates an account and fills its places. `letter` ends its words.
    pub(super) fn fill(server: &Server, account: &'static str, letter: char) -> Proven<Self> {
        block_on(server.home.create_account(account))?;
        let admin = server.key(account, &json!({}))?;
        let world = Self {
            account,
            places: Vec::new(),
            sessions: Vec::new(),
            uris: Vec::new(),
            media: Vec::new(),
            ids: Vec::new(),
            sessions_by_id: Vec::new(),
        };
        let mut filling = Filling { server, admin, letter, world };
        filling.agents()?;
        for audience in &AUDIENCES {
            filling.audience(audience)?;
        }
        filling.chats()?;
        Ok(filling.world)
    }

    /// Returns the session of this UUID, unless a request has created it.
    pub(super) fn session_of(&self, id: &str) -> Option<&PlaceKind> {
        self.sessions_by_id.iter().find(|(known, _)| known == id).map(|(_, kind)| kind)
    }

    /// Returns the audience of a chat, unless a request has created it.
    pub(super) fn owner_of_chat(&self, name: &str) -> Option<&'static str> {
        self.places.iter().find_map(|place| match &place.kind {
            PlaceKind::Chat { chat, audience } if chat == name => Some(*audience),
            _ => None,
        })
    }
}

struct Filling<'a> {
    server: &'a Server,
    admin: String,
    letter: char,
    world: World,
}

impl Filling<'_> {
    /// Adds a place and returns its canary.
    fn place(&mut self, kind: PlaceKind) -> String {
        let canary = format!("{CANARY}{:02}{}", self.world.places.len(), self.letter);
        let account = self.world.account;
        self.world.places.push(Place { account, kind, canary: canary.clone() });
        canary
    }

    fn ok(&self, call: &str, body: &Value) -> Proven<Value> {
        self.server.ok(&self.admin, call, body)
    }

    fn agents(&mut self) -> Proven<()> {
        let mut ops = Vec::new();
        for agent in AGENTS {
            let open = self.place(PlaceKind::Open { agent });
            let closed = self.place(PlaceKind::Closed { agent });
            let settings = json!({"owner": OWNER, "identities": {"slack:dm:U7": "bob"}}).to_string();
            let skill =
                format!("---\nname: tea\ndescription: The {open} of tea\n---\nThe {open} makes tea.\n");
            for (name, text) in [
                ("settings.json", settings),
                ("SOUL.md", format!("The {open} pours tea.\n")),
                ("MEMORY.md", format!("The {closed} keeps tea.\n")),
                ("USER.md", format!("The {closed} drinks tea.\n")),
                ("skills/tea/SKILL.md", skill),
            ] {
                let path = TreePath::parse(&format!("/agents/{agent}/{name}"))?;
                ops.push(Op::write(path, text).with_parents());
            }
            let uri = format!("ctx://{}/agents/{agent}/memories/cases/tea", self.world.account);
            let memory = json!({"uri": uri, "content": format!("The {open} likes tea."), "tags": [open]});
            self.world.uris.push(uri);
            self.ok("memories/put", &memory)?;
            for path in ["/plan", "/faq/one"] {
                let value = format!("The {closed} plans tea.");
                let put = json!({"agent_id": agent, "path": path, "value": value, "searchable": true});
                self.ok("put", &put)?;
            }
        }
        let (home, account) = (self.server.home.clone(), self.world.account);
        run(async move {
            home.account(account).await?.commit(Batch::new(ops)).await?;
            Ok(())
        })
    }

    fn audience(&mut self, of: &Audience) -> Proven<()> {
        let (agent, audience) = (of.agent, of.id);
        for what in ["old", "one", "two"] {
            let name = format!("{}-{what}", of.tag);
            let kind = match what {
                "old" => PlaceKind::Archive { agent, audience },
                _ => PlaceKind::Session { agent, audience, name: name.clone() },
            };
            let canary = self.place(kind.clone());
            let session = of.of_session(json!({"name": name, "title": canary}));
            let made = self.ok("sessions/create", &session)?;
            let said = [json!({"role": "user", "content": format!("The {canary} talks of tea.")})];
            self.ok("sessions/append", &of.of_session(json!({"name": name, "messages": said})))?;
            self.world.ids.push(text_of(&made["session"]["meta"]["id"]));
            if what == "old" {
                self.ok(&format!("agents/{agent}/reset"), &of.names(json!({"name": name})))?;
                continue;
            }
            let decision = json!({"id": "d1", "decision": canary, "source": "messages:1"});
            self.ok("context/derive", &of.of_session(json!({"name": name, "decisions": [decision]})))?;
            let id = text_of(&made["session"]["meta"]["id"]);
            self.world.sessions_by_id.push((id.clone(), kind));
            let user = of.user.map_or_else(String::new, |user| format!("&user={user}"));
            let key = of.key.unwrap_or(&id);
            let target = format!("/v1/agents/{agent}/media?session_key={key}{user}");
            // Bytes of a channel belong to its newest session, so they have no canary.
            let bytes = if of.key.is_some() { "bytes" } else { canary.as_str() };
            let answer = self.server.send("POST", &target, &self.admin, bytes)?;
            hold(answer.status == 200, || format!("{target}: {}", answer.text))?;
            let stored: Value = serde_json::from_str(&answer.text).unwrap_or_default();
            self.world.media.push(text_of(&stored["media"]["key"]));
            self.world.sessions.push(name);
        }
        if !self
            .world
            .places
            .iter()
            .any(|place| matches!(&place.kind, PlaceKind::Memory { audience } if *audience == of.id))
        {
            let canary = self.place(PlaceKind::Memory { audience });
            let user = audience.replace(':', "%3A");
            let uri = format!("ctx://{}/users/{user}/memories/events/tea", self.world.account);
            let memory = json!({"uri": uri, "content": format!("The {canary} buys tea."), "tags": [canary]});
            self.ok("memories/put", &memory)?;
            self.world.uris.push(uri);
        }
        if audience != OWNER {
            let canary = self.place(PlaceKind::Day { agent, audience });
            let day = of.names(json!({"text": format!("Heard of the {canary} of tea.")}));
            self.ok(&format!("agents/{agent}/daily/add"), &day)?;
        }
        Ok(())
    }

    /// Writes a file into the chat of each audience of one agent, and into a chat that bob names.
    fn chats(&mut self) -> Proven<()> {
        let mut requests = Vec::new();
        for of in AUDIENCES.iter().filter(|of| of.agent == "scout") {
            requests.push((of.request()?, of.id.to_owned(), of.id));
        }
        let trip = Request::new("scout").user("bob").chat("trip");
        requests.push((trip, "trip".to_owned(), "bob"));
        let mut written = Vec::new();
        for (request, chat, audience) in requests {
            written.push((request, self.place(PlaceKind::Chat { chat, audience })));
        }
        let (home, account) = (self.server.home.clone(), self.world.account);
        run(async move {
            let account = home.account(account).await?;
            for (request, canary) in written {
                let access = Access::open(&account, home.env(), Caller::ApiKey, &request).await?;
                access.make().await?;
                let tree = access.tree().open().await?;
                tree.write("/note.md", format!("The {canary} notes tea.\n")).await?;
            }
            Ok(())
        })
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
