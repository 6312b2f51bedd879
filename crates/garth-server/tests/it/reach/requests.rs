//! Requests of each call to each place. The table of routes has the fields of each call; the values are here.

use garth_server::reference::CallReference;
use serde_json::{Value, json};

use super::places::Place::{Channel, Closed, Open, Other, Owner, Second, User};
use super::places::{Asker, Filled, LEFT_FILE, PLACES, Place, SESSIONS};

/// A request to a place.
pub(super) struct Ask {
    pub(super) to: Place,
    /// True if it names something of the place, so that an answer of 200 means that it was reached.
    pub(super) names: bool,
    pub(super) body: Value,
}

/// Returns the path of a call without `/v1/`.
pub(super) fn short(call: &CallReference) -> &'static str {
    call.path.trim_start_matches("/v1/").trim_start_matches("agents/{agent}/")
}

/// Returns the places that a call can show or change.
pub(super) fn offered(call: &CallReference) -> Vec<Place> {
    let without = |left_out: &[Place]| PLACES.into_iter().filter(|place| !left_out.contains(place)).collect();
    match short(call) {
        "put" | "put-many" | "get" | "get-many" | "increment" | "expire" | "delete" | "list" | "glob"
        | "history" | "batch" => vec![Closed, Other],
        "create" => vec![Closed],
        // It creates another agent.
        "agents" => Vec::new(),
        // They have the complete account, but show and change no content.
        name if name.starts_with("admin/") => Vec::new(),
        "sessions/resolve" | "context/swap-out" | "context/derive" | "context/set-child" | "prompt"
        | "prompt/compare" | "recall" | "search" => without(&[]),
        "context/publish" => without(&[Closed]),
        "daily/add" | "daily/get" | "daily/list" => without(&[Owner, Open]),
        "remember" | "memory-tool" => vec![Owner, User, Channel, Second],
        "fs/{*path}" | "uploads" => without(&[]),
        "forget" => without(&[Closed]),
        name if name.starts_with("memories/") => without(&[Closed]),
        name if name.starts_with("skills/") => vec![Open, Other],
        // Only keys of values contain the words of their place in a path.
        "tree/changes" | "tree/changes/stream" => vec![Closed, Other],
        "tree/find" => without(&[Closed]),
        "tree/capabilities" | "tree/head" | "tree/wait" | "tree/snapshots" | "tree/committed"
        | "tree/sync" | "uploads/discard" => Vec::new(),
        name if name.starts_with("tree/") => without(&[]),
        _ => SESSIONS.to_vec(),
    }
}

/// Returns the paths to ask a call on bytes for: those of each place in the account and in the tree of an
/// agent. A read is asked for files that exist.
pub(super) fn files(call: &CallReference) -> Vec<String> {
    let reads = call.method == "GET";
    let kept = |dir: &str, file: &'static str| format!("{dir}/{}", if reads { file } else { LEFT_FILE });
    let mut paths = Vec::new();
    for place in SESSIONS {
        let session = format!("{}/messages.jsonl", place.name("chat"));
        let (audience, agent) = (place.audience(), place.agent());
        match reads {
            true => paths.extend([
                format!("{}/{session}", place.sessions()),
                format!("/ctx/home/{audience}/agent/{agent}/session/{session}"),
            ]),
            false => paths.push(place.left_file()),
        }
    }
    for agent in ["/agents/scout", "/.agent", "/agents/other"] {
        paths.extend([
            kept(agent, "MEMORY.md"),
            kept(agent, "SOUL.md"),
            kept(&format!("{agent}/skills"), "none"),
        ]);
    }
    paths.extend(["/.user", "/.agent/memories"].map(|dir| kept(dir, "none")));
    paths
}

/// Returns the requests of a call, without who asks.
pub(super) fn asks(call: &CallReference, asker: Asker, filled: &Filled) -> Vec<Ask> {
    let name = short(call);
    match name.split_once('/') {
        Some(("memories", call)) => memories(call, asker),
        Some(("sessions" | "context", call)) => of_sessions(call, asker, filled),
        Some(("skills", call)) => skills(call),
        Some(("media", call)) => media(call, asker, filled),
        Some(("admin", call)) => admin(call),
        Some(("tree", call)) => tree(call, filled),
        _ => others(name, asker, filled),
    }
}

fn ask(to: Place, body: Value) -> Ask {
    Ask { to, names: true, body }
}

/// Returns a request that names nothing of a place.
fn look(body: Value) -> Ask {
    Ask { to: Owner, names: false, body }
}

fn memories(call: &str, asker: Asker) -> Vec<Ask> {
    let own = |what: &str| asker.own().map_or_else(|| Owner.uri(what), |own| own.uri(what));
    let each = |body: &dyn Fn(Place) -> Value| {
        let places = PLACES.into_iter().filter(|place| *place != Closed);
        places.map(|place| ask(place, body(place))).collect::<Vec<_>>()
    };
    let uri = |what: &'static str| move |place: Place| json!({"uri": place.uri(what)});
    let with = |what: &'static str, more: Value| {
        move |place: Place| {
            let mut body = json!({"uri": place.uri(what)});
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            body
        }
    };
    match call {
        "put" => each(&with("edge", json!({"content": "x"}))),
        "get" | "log" | "relations" => each(&uri("get")),
        "exists" => each(&uri("get")),
        "tag" => each(&with("get", json!({"add": ["x"]}))),
        "relate" => {
            let edge =
                |from: String, to: String| json!({"from_uri": from, "to_uri": to, "relation_type": "r"});
            let mut all = each(&|place| edge(place.uri("get"), place.uri("delete")));
            all.extend(each(&|place| edge(own("get"), place.uri("move"))));
            all.extend(each(&|place| edge(place.uri("move"), own("get"))));
            all
        }
        "unrelate" => each(&|place| json!({"from_uri": place.uri("get"), "to_uri": place.uri("edge")})),
        "move" => {
            let to = |from: String, to: String| json!({"uri": from, "new_uri": to});
            let mut all = each(&|place| to(place.uri("move"), place.uri("moved")));
            all.extend(each(&|place| to(place.uri("delete"), own(&place.name("taken")))));
            all.extend(each(&|place| to(own("edge"), place.uri(&place.name("given")))));
            all
        }
        "delete" => each(&uri("get")),
        "forget" => each(&uri("forget")),
        "list" => {
            let mut all = vec![look(json!({}))];
            for prefix in [Owner, User, Channel, Second, Open, Other].map(|place| place.uri("x")) {
                let prefix = prefix.split("/memories").next().unwrap().to_owned();
                all.push(look(json!({"prefix": prefix})));
            }
            all
        }
        other => panic!("memories/{other} has no request here: add one"),
    }
}

fn of_sessions(call: &str, asker: Asker, filled: &Filled) -> Vec<Ask> {
    let own = asker.own().map_or_else(|| "none".to_owned(), |own| own.name("chat"));
    let each = |more: &dyn Fn(Place) -> Value| {
        let body = |place: Place| {
            let mut body = json!({"name": place.name("chat")});
            body.as_object_mut().unwrap().extend(more(place).as_object().unwrap().clone());
            body
        };
        SESSIONS.into_iter().map(|place| ask(place, body(place))).collect::<Vec<_>>()
    };
    let same = |more: Value| move |_: Place| more.clone();
    // A path of the account and a path of the tree to each file of the agent, and to each session.
    let paths = || {
        let of = |place: Place| format!("{}/{}/messages.jsonl", place.sessions(), place.name("chat"));
        let mut paths: Vec<(Place, String)> = SESSIONS.into_iter().map(|place| (place, of(place))).collect();
        for top in ["/agents/scout", "/.agent"] {
            paths.extend([(Closed, format!("{top}/MEMORY.md")), (Open, format!("{top}/SOUL.md"))]);
        }
        paths.push((Other, "/agents/other/SOUL.md".to_owned()));
        paths
    };
    // In the asker's own session, a source for each place.
    let from_own = |body: &dyn Fn(&str) -> Value| {
        let named = SESSIONS.into_iter().map(|place| (place, format!("{}#messages:1", place.name("chat"))));
        let all = named.chain(paths());
        let all = all.map(|(place, source)| {
            let mut body = body(&source);
            body["name"] = json!(own);
            ask(place, body)
        });
        all.collect::<Vec<_>>()
    };
    let fact = |source: &str| {
        let id = source.replace(['/', '#', ':', '.'], "-");
        json!({"facts": [{"id": id, "text": "x", "source": source}]})
    };
    match call {
        "create" => {
            let title = asker.own().map_or_else(String::new, Place::canary);
            SESSIONS.map(|place| look(json!({"name": place.name("new"), "title": title}))).into()
        }
        "get" | "lines" | "pack" | "replay" | "swapped" | "children" | "provenance" => each(&same(json!({}))),
        "list" => vec![look(json!({}))],
        "current" => vec![look(json!({"create": true}))],
        "set" => each(&same(json!({"title": "x"}))),
        "append" => each(&same(json!({"messages": [{"role": "user", "content": "x"}]}))),
        // Entries are derived from the other messages and would go with them.
        "retract" => each(&same(json!({"source": "tail:1"}))),
        "resolve" => from_own(&|source| json!({"source": source})),
        "import" => {
            let text = r#"{"role":"user","content":"x"}"#;
            each(&same(json!({"format": "openai", "mode": "part", "transcript": text})))
        }
        "export" => each(&same(json!({"format": "openai"}))),
        "derive" => {
            let mut all = each(&same(json!({"summary": "x"})));
            all.extend(from_own(&fact));
            all
        }
        "why" => each(&same(json!({"id": "d1"}))),
        "pin" => each(&same(json!({"file": "system.md", "text": "x"}))),
        "compact" => each(&same(json!({"keep": 1}))),
        "compare" => each(&same(json!({"from": filled.seq.0.to_string()}))),
        "swap-out" => {
            let mut all = each(&same(json!({"source": "messages:1"})));
            all.extend(from_own(&|source| json!({"source": source})));
            all
        }
        "swap-in" | "swap-show" => each(&|place| json!({"id": filled.swapped[&place]})),
        "dedup" => each(&same(json!({"sources": ["messages:2"]}))),
        "spawn" => each(&|place| json!({"id": "c2", "child_session": place.name("c2")})),
        "set-child" => {
            let mut all = each(&same(json!({"id": "c1", "status": "active"})));
            all.extend(from_own(&|source| {
                let name = source.replace(['/', '#', ':', '.'], "-");
                json!({"id": "c1", "artifacts": {name: source}})
            }));
            all
        }
        "gc" => each(&same(json!({"dry": true}))),
        "publish" => {
            let mut all = each(&|place| json!({"id": "d1", "uri": place.uri("published")}));
            for place in PLACES.into_iter().filter(|place| *place != Closed) {
                all.push(ask(place, json!({"name": own, "id": "d1", "uri": place.uri("edge")})));
            }
            all
        }
        other => panic!("sessions or context/{other} has no request here: add one"),
    }
}

/// Returns requests that name nothing of a place.
fn admin(call: &str) -> Vec<Ask> {
    let body = match call {
        "rules/set" | "rules/remove" => json!({"pattern": "/nowhere/**", "constraint": "append-only"}),
        "quotas/set" => json!({"path": "/nowhere", "max_entries": 1000}),
        "quotas/remove" => json!({"path": "/nowhere"}),
        "retention/set" => json!({"commits": 1_000_000}),
        "retention/get" | "usage" => json!({}),
        "overlays/create" | "overlays/diff" | "overlays/apply" | "overlays/discard" => json!({"id": "draft"}),
        "snapshots/create" | "snapshots/remove" => json!({"name": "moment"}),
        "rules/list" | "quotas/list" | "overlays/list" | "snapshots/list" => json!({}),
        "accounts/collect" => json!({"dry": true}),
        "accounts/check" | "accounts/reindex" | "accounts/list" => json!({}),
        // Refused: the key is one of an account.
        "accounts/create" => json!({"account": "new"}),
        "accounts/delete" => json!({"account": "acme", "confirm": "acme"}),
        "keys/create" => json!({"label": "x"}),
        "keys/list" => json!({"revoked": true}),
        "keys/rotate" | "keys/revoke" => json!({"id": "0123456789abcdef"}),
        other => panic!("admin/{other} has no request here: add one"),
    };
    vec![look(body)]
}

fn skills(call: &str) -> Vec<Ask> {
    let named = |body: &dyn Fn(String) -> Value| {
        [Open, Other].map(|place| ask(place, body(place.name("skill")))).into()
    };
    let file = |name: String| format!("{name}/SKILL.md");
    let front = "---\nname: new\ndescription: x\n---\nRead.\n";
    match call {
        "list" => vec![look(json!({}))],
        "get" | "publish" | "delete" => named(&|name| json!({"name": name})),
        "read" => named(&|name| json!({"path": file(name)})),
        "write" => vec![look(json!({"path": "new/SKILL.md", "text": front}))],
        "edit" => named(&|name| json!({"path": file(name), "old": "About", "new": "Of About"})),
        "install" => vec![look(json!({"name": "newer", "files": {"SKILL.md": front}}))],
        other => panic!("skills/{other} has no request here: add one"),
    }
}

fn media(call: &str, asker: Asker, filled: &Filled) -> Vec<Ask> {
    let named = |place: Place| place.key().unwrap_or(&filled.ids[&place]).to_owned();
    let own = asker.own().unwrap_or(Owner).name("chat");
    let places = SESSIONS.into_iter().filter(|place| is_asked_of_media(call, asker, *place));
    let asks = places.map(|place| match call {
        "list" => ask(place, json!({"session_key": named(place)})),
        "copy" => ask(place, json!({"key": filled.media[&place][0], "name": own})),
        "delete" => ask(place, json!({"key": filled.media[&place][1]})),
        other => panic!("media/{other} has no request here: add one"),
    });
    asks.collect()
}

/// Returns true if this call on media of a place can be tested as this asker.
pub(super) fn is_asked_of_media(call: &str, asker: Asker, place: Place) -> bool {
    match asker {
        // A user who comes with the key of a channel speaks in the channel.
        Asker::Owner | Asker::User => !(matches!(call, "list" | "put") && matches!(place, Channel | Second)),
        Asker::Channel => matches!(place, Channel | User),
        Asker::Nobody => place == User,
        Asker::Another => place == Other,
    }
}

/// Returns a directory and a file of each place, by their paths in the account and in the tree of an agent.
fn tree_files() -> Vec<(Place, String, String)> {
    let mut files = Vec::new();
    for place in SESSIONS {
        let (audience, agent) = (place.audience(), place.agent());
        for top in [place.sessions(), format!("/ctx/home/{audience}/agent/{agent}/session")] {
            files.push((place, format!("{top}/{}", place.name("chat")), "messages.jsonl".to_owned()));
        }
    }
    for top in ["/agents/scout", "/.agent"] {
        files.push((Closed, format!("{top}/memory"), format!("{}.md", Closed.day())));
        files.push((Open, format!("{top}/skills/open-skill"), "SKILL.md".to_owned()));
    }
    files.push((Other, "/agents/other/skills/other-skill".to_owned(), "SKILL.md".to_owned()));
    files
}

/// Returns paths to write to, in the account and in the tree of an agent.
fn new_files() -> Vec<String> {
    let audiences = ["ann", "bob", ":slack:channel:C1", ":slack:channel:C2"];
    let of_users = audiences.map(|audience| format!("/users/{audience}/agents/scout"));
    let agents = ["/agents/scout", "/agents/other", "/.agent"];
    let of_agents = agents.iter().flat_map(|agent| [(*agent).to_owned(), format!("{agent}/skills")]);
    let all = of_users.into_iter().chain(of_agents).chain(["/.user".to_owned()]);
    all.map(|dir| format!("{dir}/made.md")).collect()
}

fn tree(call: &str, filled: &Filled) -> Vec<Ask> {
    let each = |body: &dyn Fn(&str, &str) -> Value| {
        let files = tree_files().into_iter();
        files.map(|(place, dir, file)| ask(place, body(&dir, &format!("{dir}/{file}")))).collect::<Vec<_>>()
    };
    let each_canary = |body: &dyn Fn(String) -> Value| {
        PLACES.into_iter().map(|place| look(body(place.canary()))).collect::<Vec<_>>()
    };
    match call {
        "capabilities" | "head" | "snapshots" | "sync" => vec![look(json!({}))],
        "wait" => vec![look(json!({"since": 0, "wait_ms": 0}))],
        "committed" => vec![look(json!({"id": "0".repeat(32)}))],
        "stat" | "names" | "fetch" | "history" | "blame" | "du" => each(&|_, file| json!({"path": file})),
        "list" | "walk" => each(&|dir, _| json!({"path": dir})),
        "fetch-many" => {
            let items =
                tree_files().into_iter().map(|(_, dir, file)| json!({"path": format!("{dir}/{file}")}));
            vec![look(json!({"items": items.collect::<Vec<_>>()}))]
        }
        "changes" => vec![look(json!({"limit": 10_000}))],
        "search" => each_canary(&|canary| json!({"query": canary, "limit": 50, "per_file": 2})),
        "find" => each_canary(&|canary| json!({"tag": canary})),
        "grep" => each(&|_, file| json!({"expressions": ["canary[A-Z][a-z]+bird"], "path": file})),
        "glob" => each(&|_, file| json!({"pattern": file})),
        "diff" => {
            // One of them is in each tree.
            let with = |other: &str| {
                each(&|_, file| json!({"path": file, "other": other, "form": "names", "limit": 1}))
            };
            with("/agents").into_iter().chain(with("/.agent")).collect()
        }
        "edit" => {
            let files = tree_files().into_iter();
            let same = |(place, dir, file): (Place, String, String)| {
                let (path, text) = (format!("{dir}/{file}"), place.canary());
                // The text stays as it is, and the answer tells that it is there.
                ask(place, json!({"path": path, "old": text, "new": text, "all": true}))
            };
            files.map(same).collect()
        }
        "restore" => {
            // The file stays as it is, and the answer tells that it is there.
            let now = filled.head().to_string();
            each(&|_, file| json!({"path": file, "at": now}))
        }
        "commit" => {
            let write = |path: String| json!({"write": {"at": {"path": path}, "body": {"bytes": "eA=="}}});
            new_files().into_iter().map(|path| look(json!({"ops": [write(path)]}))).collect()
        }
        other => panic!("tree/{other} has no request here: add one"),
    }
}

fn others(name: &str, asker: Asker, filled: &Filled) -> Vec<Ask> {
    let each = |body: &dyn Fn(Place) -> Value| SESSIONS.map(|place| ask(place, body(place))).into();
    let key = |name: &str| format!("/{}/{name}", Closed.canary());
    let days = || [User, Channel, Second, Closed, Other].into_iter();
    match name {
        "put" => {
            let value = Closed.canary();
            vec![look(json!({"path": key("kept"), "value": value, "searchable": true}))]
        }
        "put-many" => {
            // An error names the key.
            let item = json!({"path": "/plain", "value": Closed.canary(), "searchable": true});
            vec![look(json!({"items": [item]}))]
        }
        "get" | "history" => vec![look(json!({"path": key("kept")}))],
        // The answer has the paths that were asked for, found or not.
        "get-many" => vec![look(json!({"paths": ["/plain", "/none"]}))],
        "increment" => vec![look(json!({"path": key("count")}))],
        "expire" => vec![look(json!({"path": key("kept")}))],
        "delete" => vec![look(json!({"path": key("gone")}))],
        "list" => vec![look(json!({"prefix": "/"}))],
        "glob" => vec![look(json!({"pattern": "/**"}))],
        "search" => {
            let values = PLACES.map(|place| look(json!({"query": place.canary()})));
            let all = PLACES.map(|place| look(json!({"query": place.canary(), "kinds": [], "limit": 50})));
            values.into_iter().chain(all).collect()
        }
        "agents" | "create" => vec![look(json!({}))],
        "prompt" => {
            let mut all: Vec<Ask> = each(&|place| json!({"session": place.name("chat")}));
            all.push(look(json!({})));
            all
        }
        "prompt/compare" => {
            let from = filled.seq.0.to_string();
            let mut all: Vec<Ask> =
                each(&|place| json!({"session": place.name("chat"), "from": from, "inputs": {}}));
            all.push(look(json!({"from": "0", "inputs": {}})));
            all
        }
        "remember" => vec![look(json!({"text": "x"}))],
        "forget" => memories("forget", asker),
        "memory-tool" => {
            let view = |path: &str| look(json!({"command": "view", "path": path}));
            let of_day = days().map(|place| view(&format!("/memories/{}.md", place.day())));
            let left = json!({"command": "create", "path": "/memories/left.md", "file_text": "x"});
            let outside = "/memories/../../../bob/agents/scout/memory";
            of_day.chain([view("/memories"), view(outside), look(left)]).collect()
        }
        "daily/add" => vec![look(json!({"text": "x"}))],
        "daily/get" => {
            let of_day = days().map(|place| look(json!({"day": place.day()})));
            of_day.chain([look(json!({}))]).collect()
        }
        "daily/list" => vec![look(json!({}))],
        "reset" => each(&|place| json!({"name": place.name("reset")})),
        "archives" => vec![look(json!({}))],
        "transcript" => {
            let mut all: Vec<Ask> = each(&|place| json!({"name": place.name("chat"), "format": "pi"}));
            all.extend(
                SESSIONS.map(|place| ask(place, json!({"name": filled.archives[&place], "format": "pi"}))),
            );
            all
        }
        "batch" => {
            let write =
                |at: &str| json!({"ops": [{"op": "write", "path": format!("{at}/batch.md"), "text": "x"}]});
            let paths = [(Closed, "/.agent"), (Closed, "/agents/scout"), (Other, "/agents/other")];
            paths.map(|(place, at)| ask(place, write(at))).into()
        }
        "uploads/discard" => vec![look(json!({"id": "0".repeat(32)}))],
        "recall" => PLACES
            .map(|place| look(json!({"question": format!("Where is {}?", place.canary()), "budget": 8000})))
            .into(),
        other => panic!("{other} has no request here: add one"),
    }
}
