//! A data folder from an earlier garth: at the first access, the audience of each entry is decided once.

use std::sync::Arc;

use futures::executor::block_on;
use garth_agent::media::{Media, NewMedia};
use garth_agent::session::{Append, Create, Draft, Meta, Sessions, Spawn};
use garth_engine::model::{Author, Batch, Op, SetAttrs};
use garth_engine::{AccountStore, FileSystemExt as _, TreePath};
use serde_json::Value;

use super::assert_canaries;
use crate::it::garth::Garth;

/// An account without rules and owners, as an earlier garth wrote it.
struct Old {
    account: Arc<dyn AccountStore>,
}

fn path(text: &str) -> TreePath {
    TreePath::parse(text).expect("a path")
}

impl Old {
    fn of(garth: &Garth) -> Self {
        let data = garth_engine::DataDir::builder(garth_agent::registry())
            .open(&garth.data())
            .expect("a data folder");
        Self { account: block_on(data.account("default")).expect("the account") }
    }

    fn commit(&self, ops: Vec<Op>, author: Author) {
        let batch = Batch::new(ops).author(author).by_garth();
        block_on(self.account.overriding_rules().commit(batch)).expect("a commit");
    }

    /// Creates a session of class `main`, as every session was, with a session key of any agent.
    fn session(&self, (user, agent): (&str, &str), name: &str, key: Option<&str>, text: &str) -> String {
        let fs = self.account.raw();
        let main = Author::agent(agent).with_user(user).with_class("main");
        let sessions = Sessions::new(&*fs, user, agent).expect("sessions").author(main.clone());
        block_on(sessions.create(&Create::new(name))).expect("a session");
        block_on(sessions.append(name, &Append::messages([Draft::user(text)]))).expect("a message");
        let at = path(&format!("/users/{user}/agents/{agent}/session/{name}/meta.json"));
        let text = block_on(fs.read_to_string(&at)).expect("meta.json");
        let mut meta = Meta::parse(text.as_bytes()).expect("meta.json");
        meta.session_key = key.map(str::to_owned);
        assert_eq!(meta.class.as_str(), "main");
        self.commit(vec![Op::write(at, meta.to_json().expect("JSON"))], main);
        meta.id
    }

    /// Creates a session of a child, which has no own key.
    fn child(&self, (user, agent): (&str, &str), parent: &str, id: &str) {
        let fs = self.account.raw();
        let sessions = Sessions::new(&*fs, user, agent).expect("sessions");
        let sessions = sessions.author(Author::agent(agent).with_user(user).with_class("main"));
        block_on(sessions.spawn(parent, &Spawn::new(id, "Show them in."))).expect("a child");
    }

    /// Creates a media file with a session key but without a session id.
    fn media(&self, key: &str, text: &str) -> String {
        let fs = self.account.raw();
        let body = futures::stream::iter([Ok(text.to_owned().into())]);
        let put = Media::new(&*fs);
        let new = NewMedia::new(key, "image/png");
        block_on(put.put(&new, body)).expect("a media file").key.to_string()
    }

    /// Sets custom metadata that only garth sets now.
    fn forge(&self, at: &str, name: &str, value: &str) {
        let attrs = SetAttrs::new().metadata(name, value);
        self.commit(vec![Op::set_attrs(path(at), attrs)], Author::default());
    }
}

/// Media keys: of the main session, of a session without a key, and of a key that two users' sessions have.
struct Written {
    media: [String; 3],
    archive: String,
}

fn write_old(garth: &Garth) -> Written {
    let old = Old::of(garth);
    let work = old.session(("ann", "scout"), "work", None, "Said in canaryWork.");
    old.session(("ann", "scout"), "main", Some("agent:scout:main"), "Said in canaryMain.");
    old.session(("ann", "scout"), "standup", Some("agent:scout:slack:channel:C1"), "Said in canaryC1.");
    old.session(("ann", "scout"), "stolen", Some("agent:other:main"), "Said in canaryStolen.");
    old.session(("bob", "scout"), "direct", Some("agent:scout:whatsapp:dm:+49"), "Said in canaryBob.");
    old.session(("ann", "scout"), "x1", Some("agent:scout:web:room:1"), "One canaryX1.");
    old.session(("bob", "scout"), "x2", Some("agent:scout:web:room:2"), "Two canaryX2.");
    // An agent with keyless sessions of several users.
    for user in ["ann", "bob"] {
        old.session((user, "helper"), "chat", None, &format!("Said to the helper in canaryHelper{user}."));
    }
    // An agent that only has sessions of channels.
    old.session(("bob", "door"), "hall", Some("agent:door:web:room:1"), "Said in canaryHall.");
    old.child(("bob", "door"), "hall", "guide");
    let by = |user: &str| Author::agent("scout").with_user(user);
    let write = |at: &str, text: &str| Op::write(path(at), text.to_owned()).with_parents();
    old.commit(vec![write("/agents/scout/MEMORY.md", "The canaryLong memory.")], by("ann"));
    old.commit(vec![write("/agents/door/MEMORY.md", "The canaryDoor memory.")], by("ann"));
    old.commit(vec![write("/chats/solo/a.md", "canarySolo")], by("bob"));
    old.commit(vec![write("/chats/both/a.md", "canaryBoth")], by("ann"));
    old.commit(vec![write("/chats/both/b.md", "canaryBoth")], by("bob"));
    old.commit(vec![write("/notes.md", "notes")], by("bob"));
    let archive = format!("/agents/scout/sessions/{work}.jsonl.gz");
    old.commit(vec![write(&archive, "an archive")], by("ann"));
    let media = [
        old.media("agent:scout:main", "canaryImage"),
        old.media(&work, "canaryImage"),
        old.media("agent:scout:none:dm:1", "canaryImage"),
    ];
    old.forge("/chats/solo", "garth.audience", "eve");
    old.forge("/notes.md", "garth.session", "x/y");
    old.forge("/users/bob/agents/scout/session/direct/messages.jsonl", "garth.audience", "ann");
    let raw = old.account.raw();
    if block_on(raw.exists("/.garth/access.json")).expect("an answer") {
        let batch = Batch::new([Op::remove(path("/.garth/access.json"))]).by_garth();
        block_on(raw.commit(batch)).expect("a commit");
    }
    Written { media, archive }
}

fn meta(garth: &Garth, at: &str) -> Value {
    let text = garth.ok(&["cat", &format!("/users/{at}/meta.json")]);
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn older_account_is_upgraded_once() {
    let garth = Garth::new();
    let written = write_old(&garth);
    assert_eq!(garth.json(&["fsck"])["decided"], serde_json::json!([]), "nothing yet");
    // The first access.
    let sessions = garth.lines(&["session", "list", "--agent", "scout", "--user", "ann"]);
    let names: Vec<_> = sessions.iter().map(|session| session["name"].clone()).collect();
    assert_eq!(names, ["main", "stolen", "work"]);
    assert!(garth.ok(&["cat", "/agents/scout/settings.json"]).contains("\"owner\": \"ann\""));
    for agent in ["helper", "door"] {
        garth.fails(3, &["cat", &format!("/agents/{agent}/settings.json")]);
    }
    let is = |at: &str, class: &str, user: &str| {
        let meta = meta(&garth, at);
        assert_eq!((&meta["class"], &meta["user"]), (&class.into(), &user.into()), "{at}");
        meta["session_key"].clone()
    };
    is("ann/agents/scout/session/work", "main", "ann");
    is("ann/agents/scout/session/main", "main", "ann");
    assert_eq!(is("ann/agents/scout/session/stolen", "main", "ann"), Value::Null);
    is(":slack:channel:C1/agents/scout/session/standup", "group", ":slack:channel:C1");
    is("bob/agents/scout/session/direct", "dm", "bob");
    is(":web:room:1/agents/scout/session/x1", "group", ":web:room:1");
    is(":web:room:2/agents/scout/session/x2", "group", ":web:room:2");
    is("ann/agents/helper/session/chat", "dm", "ann");
    is("bob/agents/helper/session/chat", "dm", "bob");
    is(":web:room:1/agents/door/session/hall", "group", ":web:room:1");
    is(":web:room:1/agents/door/session/guide", "group", ":web:room:1");

    // Each user finds their own data and no more.
    let as_bob = ["--agent=scout", "--user=bob"];
    assert_canaries(&garth.ok(&[&["agent", "prompt"][..], &as_bob].concat()), &[]);
    assert_canaries(&garth.ok(&[&["session", "messages", "direct"][..], &as_bob].concat()), &["canaryBob"]);
    let channel = ["--agent=scout", "--key=agent:scout:slack:channel:C1"];
    let current = garth.json(&["session", "current", "agent:scout:slack:channel:C1", "--agent=scout"]);
    assert_eq!(current["name"], "standup");
    assert_canaries(&garth.ok(&[&["session", "messages", "standup"][..], &channel].concat()), &["canaryC1"]);
    assert_canaries(&garth.ok(&[&["agent", "prompt"][..], &channel].concat()), &[]);
    assert_canaries(&garth.ok(&["agent", "prompt", "--agent=scout", "--user=ann"]), &["canaryLong"]);
    assert_canaries(&garth.ok(&["agent", "prompt", "--agent=door", "--user=bob"]), &[]);

    // A chat with one author belongs to this author; the others wait.
    assert_eq!(garth.ok(&[&["cat", "/a.md", "--chat=solo"][..], &as_bob].concat()), "canarySolo");
    garth.fails(5, &["cat", "/a.md", "--chat=solo", "--agent=scout", "--user=eve"]);
    for user in ["--user=ann", "--user=bob"] {
        let said = garth.fails(5, &["cat", "/a.md", "--chat=both", "--agent=scout", user]);
        assert!(said.contains("has no owner; set one with `garth chat own both USER`"), "{said}");
    }
    garth.ok(&["chat", "own", "both", "bob"]);
    assert_eq!(garth.ok(&[&["cat", "/a.md", "--chat=both"][..], &as_bob].concat()), "canaryBoth");

    // Media and archives get the id of their session, and forged attributes are gone.
    let [main, work, nobody] = &written.media;
    for key in [main, work] {
        assert_eq!(garth.ok(&["media", "get", key, "--agent=scout", "--user=ann"]), "canaryImage");
        garth.fails(3, &[&["media", "get", key][..], &as_bob].concat());
    }
    garth.fails(3, &[&["media", "get", nobody][..], &as_bob].concat());
    let metadata = |at: &str| garth.json(&["stat", at])["attributes"]["metadata"].clone();
    assert_eq!(metadata(&written.archive)["garth.audience"], "ann");
    assert_eq!(metadata("/notes.md"), Value::Null);
    let direct = "/users/bob/agents/scout/session/direct/messages.jsonl";
    assert!(metadata(direct)["garth.audience"].is_null());

    // Each decision is reported once.
    let told = garth.ok(&["fsck"]);
    for decision in [
        "decided: agent scout: ann is its owner",
        "decided: session standup of scout with ann: moved to its audience :slack:channel:C1",
        "decided: session standup of scout with ann: is of class group now, before main",
        "decided: session stolen of scout with ann: removed its session key",
        "decided: session chat of helper with bob: is of class dm now, before main",
        "decided: chat solo: owned by bob, its only writer",
        "decided: chat both: has no owner; set one with `garth chat own both`",
        "decided: /notes.md: its attribute garth.session was taken away",
    ] {
        assert!(told.lines().any(|line| line.trim_start().starts_with(decision)), "{decision}: {told}");
    }
    let seq = garth.seq();
    garth.ok(&["session", "list", "--agent", "scout", "--user", "ann"]);
    assert_eq!(garth.seq(), seq, "an account is judged once");
    assert_eq!(garth.ok(&["fsck"]), told);
    let json = garth.json(&["fsck"]);
    assert_eq!(json["decided"].as_array().map(Vec::len), Some(told.matches("decided: ").count()));
}
