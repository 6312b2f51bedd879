//! Settings of an agent, and requests to it.

use garth_agent::{Class, Request};
use garth_engine::model::{Batch, Op};
use garth_testkit::proof::{Proven, Report, path};
use serde_json::json;

use super::{AGENT, Asks, HELPER, World};

/// Session keys, without the agent.
const KEYS: [&str; 8] = [
    "main",
    "else",
    "dm:b",
    "dm:x",
    "signal:dm:1",
    "room:channel:c",
    "room:channel:c:thread:1",
    "room:channel:c2",
];

impl World {
    /// Draws the settings of the agents: whom they serve.
    pub(super) async fn settings(&mut self) -> Proven<()> {
        for agent in [AGENT, HELPER] {
            let mut settings = json!({});
            match self.random.below(4) {
                0 => settings["owner"] = json!("ann"),
                1 => settings["owner"] = json!("*"),
                2 => settings["owner"] = json!("bob"),
                _ => {}
            }
            if self.random.one_in(2) {
                settings["identities"] = json!({"dm:b": "bob", "signal:dm:1": "ann"});
            }
            if self.random.one_in(3) {
                settings["main_keys"] = json!(["main", "else"]);
            }
            if self.random.one_in(2) {
                settings["shared"] = json!({"kv/faq": "read", "handbook": "write"});
            }
            if self.random.one_in(4) {
                settings["daily_memory"] = json!("all");
            }
            let file = path(&format!("/agents/{agent}/settings.json"))?;
            let write = Op::write(file, settings.to_string()).with_parents();
            self.account.commit(Batch::new([write])).await?;
        }
        Ok(())
    }

    /// Draws a request that is not rejected; `None` if this one was.
    pub(super) async fn asks(&mut self, report: &mut Report) -> Proven<Option<Asks>> {
        let mut request = Request::new(AGENT);
        if self.random.one_in(2) {
            let key = self.random.pick(&KEYS);
            request = request.key(format!("agent:{AGENT}:{key}").parse()?);
        }
        if self.random.one_in(2) {
            request = request.user(self.random.pick(&["ann", "bob", "cat"]));
        }
        if self.random.one_in(5) {
            request = request.class(self.random.pick(&[Class::Main, Class::Dm, Class::Group]));
        }
        if self.random.one_in(5) {
            request = request.chat(self.random.pick(&["t1", "t2", "ann"]));
        }
        let mut asks = Asks { request, audience: String::new(), class: Class::Group };
        let judged = match Self::open(&self.account, &self.env, &asks).await {
            Ok(access) => {
                let who = access.identity();
                // Sessions are named in the prompts of their own audience only.
                Some((who.audience().to_owned(), who.class()))
            }
            Err(_) => None,
        };
        report.add("identities refused", judged.is_none());
        Ok(judged.map(|(audience, class)| {
            (asks.audience, asks.class) = (audience, class);
            asks
        }))
    }
}
