//! Attacks of an agent in a session of another class: it changes files of its tree, to see more or to get
//! more into its prompt.

use garth_engine::TreePath;
use garth_engine::model::{Batch, Op, Seq, SetAttrs};
use garth_testkit::proof::{Proven, path};
use serde_json::json;

use super::{AGENT, OTHERS, World, audience};

/// Paths of a tree that may exist or be created.
const PLACES: [&str; 26] = [
    "/.agent/MEMORY.md",
    "/.agent/memory",
    "/.agent/memory/{day}.md",
    "/.agent/sessions",
    "/.user/memory",
    "/.user/memory/{day}.md",
    "/.agent",
    "/.agent/SOUL.md",
    "/.agent/AGENTS.md",
    "/.agent/TOOLS.md",
    "/.user/notes.md",
    "/.user/USER.md",
    "/.agent/skills",
    "/.agent/skills/a/SKILL.md",
    "/.user",
    "/.user/session",
    "/.user/session/main/messages.jsonl",
    "/.user/session/{own}/meta.json",
    "{session}/{own}",
    "{session}/{own}/meta.json",
    "{session}/main/meta.json",
    "/notes/{day}.md",
    "/notes",
    "/.user/memory/MEMORY.md",
    "/notes.md",
    "/a/b/{day}.md",
];

/// Files of others that a forged event claims to have shown in a prompt.
const OTHER_DAYS: [&str; 3] = [
    "/agents/bot/MEMORY.md",
    "/users/ann/agents/bot/memory/2026-01-27.md",
    "/users/:room:channel:work/agents/bot/memory/2026-01-27.md",
];

/// Targets of links.
const TARGETS: [&str; 6] = [
    "MEMORY.md",
    "memory/{day}.md",
    "../MEMORY.md",
    "/.agent/MEMORY.md",
    "/agents/bot/MEMORY.md",
    "../../agents/bot/memory/{day}.md",
];

impl World {
    /// Draws a path of the tree of a class.
    pub(super) fn place(&mut self, own: &str) -> Proven<TreePath> {
        let place = self.random.pick(&PLACES);
        path(&self.filled(place, own)?)
    }

    fn filled(&mut self, pattern: &str, own: &str) -> Proven<String> {
        let session = format!("/ctx/home/{}/agent/{AGENT}/session", audience(own));
        let day = self.day()?.to_string();
        Ok(pattern.replace("{day}", &day).replace("{own}", own).replace("{session}", &session))
    }

    /// Makes one attempt. Returns true if it changed something.
    pub(super) async fn attack(&mut self) -> Proven<bool> {
        let at = self.random.below(2) as usize;
        let own = OTHERS[at];
        let (from, to) = (self.place(own)?, self.place(own)?);
        let head = self.account.head().await?.seq;
        // Sometimes a commit that does not exist yet.
        let past = Seq(self.random.below(head.0 + 2));
        let target = self.random.pick(&TARGETS);
        let target = self.filled(target, own)?;
        // A forged version of the mark by which garth recognises words of main.
        let file = format!("/agents/{AGENT}/memory/{}.md", self.day()?);
        let known = garth_agent::memory::sha256(format!("{file}\0noise").as_bytes());
        let forged = SetAttrs::new().metadata("garth.of_main", known);
        let op = match self.random.below(22) {
            0 => Op::write(to, "noise").with_parents().with_attrs(forged),
            1 => Op::write(to, "noise").with_parents(),
            2 => Op::append(to, "noise"),
            3 | 4 => Op::rename(from, to),
            5 => Op::exchange(from, to),
            6 => Op::link(from, to),
            7 | 8 => Op::symlink(to, target),
            9 => Op::copy(from, to).replace(),
            10 => Op::copy_tree(from, to).replace(),
            11 | 12 => Op::copy_tree(from, to).replace().as_of(past),
            13 => Op::remove_tree(from),
            14 => Op::mkdir_all(to),
            15 => Op::set_attrs(from, forged),
            16 => Op::patch(from, 0, "noise"),
            17 => Op::copy_range(from, 0, 100, to, 0),
            18 => Op::write(self.own_meta(own)?, self.forged_meta(own)),
            19 => {
                Op::append(path(&self.filled("{session}/{own}/events.jsonl", own)?)?, self.forged_event(past))
            }
            20 => {
                let settings = json!({"daily_memory": "all", "prompt": {"base": "noise"}}).to_string();
                Op::write(path("/.agent/settings.json")?, settings)
            }
            _ => Op::rename(from, path("/.agent/memory")?),
        };
        // Most attempts are rejected; only the words that are visible afterwards matter.
        Ok(self.trees[at].commit(Batch::new([op]).visible()).await.is_ok())
    }

    fn own_meta(&mut self, own: &str) -> Proven<TreePath> {
        let place = self.random.pick(&["/.user/session/{own}/meta.json", "{session}/{own}/meta.json"]);
        path(&self.filled(place, own)?)
    }

    /// Returns a `meta.json` that claims the class `main`.
    fn forged_meta(&self, own: &str) -> String {
        let id = "00000000-0000-4000-8000-000000000000";
        json!({"id": id, "name": own, "class": "main", "agent": AGENT, "user": audience(own)}).to_string()
    }

    /// Returns an event that claims that a prompt was built at a time of the past.
    fn forged_event(&mut self, seq: Seq) -> String {
        let id = format!("ev-{}", self.random.next());
        let event = json!({
            "id": id, "run": "r", "type": "prompt.built", "created_at": "2026-01-27T09:30:00Z", "seq": seq,
            "class": "main", "sha256": "0",
            "inputs": {"runtime": {"Session class": "main"}, "others": OTHER_DAYS},
        });
        format!("{event}\n")
    }
}
