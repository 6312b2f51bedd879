//! Bound keys: random requests over every route and over `/mcp`, with keys that are bound in every way. What
//! an answer shows and what a write changes is compared with a second description of bindings.

mod client;
mod mcp;
mod model;
mod requests;
mod world;

use futures::executor::block_on;
use garth_engine::model::{ChangesQuery, Seq};
use garth_engine::{DataDir, Env, FileSystemExt as _, TreePath};
use garth_server::reference::{self, CallReference};
use garth_testkit::data::random::Random;
use garth_testkit::proof::{About, Broken, Proof, Proven, Report, Setting, hold};
use serde_json::{Value, json};

use self::client::{Answer, Server};
use self::mcp::Tool;
use self::model::Model;
use self::requests::Ask;
use self::world::{CANARY, Place, World};

/// Requests with bound keys that try to reach a place outside their binding. The size is the number of
/// requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct BoundKeys {
    /// Field that the keys lack: a negative control. Only keys whose binding should have it make requests.
    pub dropped: Option<Dropped>,
}

/// As [`BoundKeys`], over `/mcp`: every tool, resources, prompts and skills. The size is the number of
/// requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct McpIsolation {
    /// Field that the keys lack: a negative control.
    pub dropped: Option<Dropped>,
}

/// Field of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// Agent.
    Agent,
    /// User.
    User,
    /// Session key.
    Key,
    /// Chat.
    Chat,
    /// Class.
    Class,
    /// Session.
    Session,
    /// Prefix.
    Prefix,
    /// Limit to reads.
    ReadOnly,
}

impl Dropped {
    /// All fields.
    pub const ALL: [Self; 8] = [
        Self::Agent,
        Self::User,
        Self::Key,
        Self::Chat,
        Self::Class,
        Self::Session,
        Self::Prefix,
        Self::ReadOnly,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::User => "user",
            Self::Key => "key",
            Self::Chat => "chat",
            Self::Class => "class",
            Self::Session => "session",
            Self::Prefix => "prefix",
            Self::ReadOnly => "read_only",
        }
    }

    /// Returns a binding without this field; `None` if it does not have the field, or names nobody without
    /// it.
    fn drop_from(self, binding: &Value) -> Option<Value> {
        let mut binding = binding.as_object()?.clone();
        binding.remove(self.name())?;
        let names = Self::ALL.iter().filter(|field| !matches!(field, Self::Prefix | Self::ReadOnly));
        names.map(|field| field.name()).any(|name| binding.contains_key(name)).then(|| binding.into())
    }
}

impl Proof for BoundKeys {
    fn about(&self) -> About {
        About {
            name: "bound-keys",
            claim: "No request with a bound key shows or changes a place that the binding excludes.",
            full: 1_000_000,
            ci: 2_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        prove(setting, self.dropped, Interface::Routes)
    }
}

impl Proof for McpIsolation {
    fn about(&self) -> About {
        About {
            name: "mcp-isolation",
            claim: "No request over MCP with a bound key shows or changes a place that the binding excludes.",
            full: 100_000,
            ci: 3_000,
        }
    }

    fn run(&self, setting: &Setting<'_>) -> Proven<Report> {
        prove(setting, self.dropped, Interface::Mcp)
    }
}

/// Interface over which requests are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Interface {
    Routes,
    Mcp,
}

/// Requests from which random ones are made.
enum Requests {
    Routes(Vec<CallReference>),
    Mcp(Vec<Tool>),
}

impl Requests {
    /// Returns the calls of routes; with `dry` those that can be asked to store nothing.
    fn of_routes(dry: bool) -> Self {
        let is_dry =
            |call: &CallReference| !call.writes || call.fields.iter().any(|field| field.name == "dry");
        let calls = reference::calls().into_iter().filter(|call| !dry || is_dry(call));
        // A stream shows what `tree/changes` does, and has no end.
        let is_asked =
            |call: &CallReference| !call.scopes.is_empty() && call.path != "/v1/tree/changes/stream";
        Self::Routes(calls.filter(is_asked).collect())
    }

    fn any(&self, random: &mut Random, world: &World, dry: bool) -> Ask {
        match self {
            Self::Routes(calls) => requests::any(random, calls, world, dry),
            Self::Mcp(tools) => mcp::any(random, tools, world, dry),
        }
    }

    /// Returns true for an answer with the requested data, or of a write that was made.
    ///
    /// # Errors
    /// Failures of the server.
    fn is_answered(&self, answer: &Answer) -> Proven<bool> {
        hold(answer.status != 500, || answer.text.clone())?;
        match self {
            Self::Routes(_) => Ok(answer.status == 200),
            Self::Mcp(_) => mcp::is_answered(answer),
        }
    }
}

/// Returns the bindings of the keys of each account.
fn bindings() -> [Value; 20] {
    [
        json!({"agent": "scout"}),
        json!({"agent": "other"}),
        json!({"agent": "scout", "user": "ann"}),
        json!({"agent": "scout", "user": "bob"}),
        json!({"agent": "other", "user": "bob"}),
        json!({"user": "ann"}),
        json!({"user": "bob"}),
        json!({"key": "agent:scout:main"}),
        json!({"key": "agent:scout:slack:channel:C1"}),
        json!({"agent": "scout", "key": "agent:scout:slack:channel:C2"}),
        json!({"key": "agent:scout:slack:dm:U7"}),
        json!({"key": "agent:scout:slack:dm:U9"}),
        json!({"key": "agent:scout:slack:dm:U9", "user": "bob"}),
        json!({"agent": "scout", "user": "ann", "class": "dm"}),
        json!({"agent": "scout", "class": "group"}),
        json!({"agent": "scout", "user": "bob", "session": "bob-one"}),
        json!({"agent": "scout", "user": "ann", "session": "ann-two"}),
        json!({"agent": "scout", "user": "bob", "chat": "trip"}),
        json!({"agent": "scout", "user": "ann", "prefix": "/.agent/kv/faq"}),
        json!({"agent": "scout", "user": "ann", "read_only": true}),
    ]
}

/// Key with the reach that its binding should have.
struct Key {
    binding: Value,
    token: String,
    model: Model,
}

/// Account with its keys. Requests to the first account store nothing, so that no text moves from one place
/// to another; requests to the second may.
struct Account {
    world: World,
    keys: Vec<Key>,
    requests: Requests,
    dry: bool,
}

impl Account {
    fn new(
        server: &Server,
        (world, dry): (World, bool),
        dropped: Option<Dropped>,
        interface: Interface,
    ) -> Proven<Self> {
        let mut keys = Vec::new();
        for binding in bindings() {
            let issued = match dropped {
                Some(field) => field.drop_from(&binding),
                None => Some(binding.clone()),
            };
            let Some(issued) = issued else { continue };
            let (token, model) = (server.key(world.account, &issued)?, Model::of(&binding));
            keys.push(Key { binding, token, model });
        }
        let requests = match interface {
            Interface::Routes => Requests::of_routes(dry),
            Interface::Mcp => Requests::Mcp(mcp::tools(server, &server.key(world.account, &json!({}))?)?),
        };
        Ok(Self { world, keys, requests, dry })
    }
}

/// Makes the requests of a setting. The keys lack the field `dropped`, which must be detected.
///
/// # Errors
/// A word that a key must not see, or a path that it must not change; with the seed of the request.
fn prove(setting: &Setting<'_>, dropped: Option<Dropped>, interface: Interface) -> Proven<Report> {
    let home = DataDir::open(&setting.folder.join("data"), Env::system(), garth_agent::registry())?;
    let server = Server::start(home)?;
    let worlds = [World::fill(&server, "reads", 'r')?, World::fill(&server, "writes", 'w')?];
    let places: Vec<Place> = worlds.iter().flat_map(|world| world.places.clone()).collect();
    let [reads, writes] = worlds;
    let accounts = [
        Account::new(&server, (reads, true), dropped, interface)?,
        Account::new(&server, (writes, false), dropped, interface)?,
    ];
    let unchanged = head(&server, accounts[0].world.account)?;
    let mut report = Report::of(["tries", "answered", "words seen", "writes"]);
    for n in 0..setting.size {
        let seed = setting.seed.wrapping_add(n);
        one(&server, &accounts[(n % 2) as usize], &places, seed, &mut report)?;
    }
    hold(head(&server, accounts[0].world.account)? == unchanged, || "a read has changed a place".to_owned())?;
    Ok(report)
}

fn one(server: &Server, account: &Account, places: &[Place], seed: u64, report: &mut Report) -> Proven<()> {
    let random = &mut Random::new(seed);
    let key = &account.keys[random.below(account.keys.len() as u64) as usize];
    let ask = account.requests.any(random, &account.world, account.dry);
    let before = head(server, account.world.account)?;
    let answer = server.send_with(ask.method, &ask.target, (&key.token, &ask.headers), &ask.body)?;
    let about = || format!("seed {seed}: {} {} {} with {}", ask.method, ask.target, ask.body, key.binding);
    let is_answered = account.requests.is_answered(&answer);
    let is_answered = is_answered.map_err(|broken| Broken::because(format!("{}: {broken}", about())))?;
    report.add("tries", 1);
    report.add("answered", is_answered);
    if let Some(name) = ask.name.as_ref().filter(|_| is_answered) {
        report.add_in("answered by", name, 1);
    }
    if answer.text.contains(CANARY) {
        for place in places.iter().filter(|place| answer.text.contains(&place.canary)) {
            let is_own = place.account == account.world.account;
            // A write may have moved the text of a place to another one, but never to another account.
            let may_show = is_own && (!account.dry || key.model.may_show(place));
            hold(may_show, || format!("{}: {place:?} is seen by it: {}", about(), answer.text))?;
            report.add("words seen", 1);
        }
    }
    let changed = changed_since(server, account.world.account, before)?;
    report.add("writes", !changed.is_empty());
    for path in changed {
        let owner = owner_of_chat(server, account.world.account, &path)?;
        let may_change = key.model.may_change(&path, (&account.world, owner.as_deref()), ask.elsewhere);
        hold(may_change, || format!("{}: {path} of {owner:?} is changed by it", about()))?;
    }
    Ok(())
}

/// Returns the audience to which the chat of a path belongs; `None` for other paths.
fn owner_of_chat(server: &Server, account: &str, path: &str) -> Proven<Option<String>> {
    let mut segments = path.trim_start_matches('/').split('/');
    let (Some("chats"), Some(chat)) = (segments.next(), segments.next()) else { return Ok(None) };
    let store = block_on(server.home.account(account))?;
    let entry = block_on(store.lookup(&TreePath::parse(&format!("/chats/{chat}"))?))?;
    Ok(entry.as_ref().and_then(garth_agent::chat::audience).map(str::to_owned))
}

fn head(server: &Server, account: &str) -> Proven<Seq> {
    Ok(block_on(block_on(server.home.account(account))?.head())?.seq)
}

/// Returns the paths of the account that were changed since.
fn changed_since(server: &Server, account: &str, since: Seq) -> Proven<Vec<String>> {
    let store = block_on(server.home.account(account))?;
    let (mut query, mut paths) = (ChangesQuery::since(since), Vec::new());
    loop {
        let page = block_on(store.changes(&query))?;
        let changes = page.commits.iter().flat_map(|commit| &commit.changes);
        paths.extend(changes.flat_map(|change| &change.paths).map(|path| path.to_string()));
        if page.until.seq >= page.head {
            return Ok(paths);
        }
        query.since = page.until;
    }
}
