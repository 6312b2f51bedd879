//! Reach of a binding, written a second time from `docs/specs/bindings.md`: the places that any request with
//! the key may show, and the paths that it may change.

use serde_json::Value;

use super::world::{OWNER, Place, PlaceKind, World};

/// Names and limits of a key, as its JSON has them.
#[derive(Clone, Debug)]
pub(super) struct Model {
    agent: Option<String>,
    user: Option<String>,
    key: Option<String>,
    chat: Option<String>,
    /// Least class: 0 is `main`, 1 `dm`, 2 `group`.
    floor: u8,
    session: Option<String>,
    prefix: Option<String>,
    read_only: bool,
}

impl Model {
    pub(super) fn of(binding: &Value) -> Self {
        let text = |name: &str| binding[name].as_str().map(str::to_owned);
        let key = text("key");
        let agent_of_key = key.as_ref().and_then(|key| key.split(':').nth(1)).map(str::to_owned);
        Self {
            agent: text("agent").or(agent_of_key),
            user: text("user"),
            key,
            chat: text("chat"),
            floor: class_number(binding["class"].as_str().unwrap_or("main")),
            session: text("session"),
            prefix: text("prefix"),
            read_only: binding["read_only"] == true,
        }
    }

    fn has_agent(&self, agent: &str) -> bool {
        self.agent.as_deref().is_none_or(|bound| bound == agent)
    }

    /// Returns true if some request with the key has this audience.
    fn has_audience(&self, audience: &str) -> bool {
        if self.floor == 2 && !audience.starts_with(':') {
            return false;
        }
        match (self.key.as_deref(), self.user.as_deref()) {
            (Some(key), user) => {
                let place = key.splitn(3, ':').nth(2).unwrap_or_default();
                // A request may ask for the class `group` in any place.
                let is_place = audience == format!(":{place}");
                is_place
                    || match place {
                        "main" => audience == OWNER,
                        // Mapped by the settings of the agent.
                        "slack:dm:U7" => audience == "bob",
                        place => place.contains("dm:") && Some(audience) == user,
                    }
            }
            (None, Some(user)) => {
                let of_group = |what: &str, id: &Option<String>| {
                    id.as_ref().is_some_and(|id| audience == format!(":{what}:{id}"))
                };
                let is_group = self.floor == 2;
                audience == user
                    || (is_group && (of_group("chat", &self.chat) || of_group("session", &self.session)))
            }
            (None, None) => true,
        }
    }

    /// Returns true if some request with the key is of the owner's class, and so sees the complete agent.
    fn may_be_main(&self) -> bool {
        self.floor == 0 && self.has_audience(OWNER)
    }

    /// Returns true if some request with the key may show the words of a place.
    pub(super) fn may_show(&self, place: &Place) -> bool {
        let is_visible = match &place.kind {
            PlaceKind::Session { agent, audience, name } => {
                self.has_agent(agent)
                    && self.has_audience(audience)
                    && self.session.as_ref().is_none_or(|bound| bound == name)
                    && self.floor.max(class_of(audience)) <= class_of(audience)
            }
            PlaceKind::Archive { agent, audience } => {
                // A key that fixes nobody may name the owner, who sees the archives of all audiences.
                let fixed = [&self.user, &self.key, &self.chat, &self.session];
                let sees_all = self.may_be_main() && fixed.into_iter().all(Option::is_none);
                let may_see = self.has_audience(audience) && self.floor <= class_of(audience);
                self.has_agent(agent) && self.session.is_none() && (may_see || sees_all)
            }
            PlaceKind::Memory { audience } => self.has_audience(audience),
            PlaceKind::Day { agent, audience } => self.has_agent(agent) && self.has_audience(audience),
            PlaceKind::Open { agent } => self.has_agent(agent),
            PlaceKind::Closed { agent } => self.has_agent(agent) && self.may_be_main(),
            PlaceKind::Chat { chat, audience } => {
                self.has_audience(audience) && self.chat.as_ref().is_none_or(|bound| bound == chat)
            }
        };
        let lies_below = |prefix: &String| {
            place.paths().iter().any(|path| is_within(path, prefix) || is_within(prefix, path))
        };
        is_visible && self.prefix.as_ref().is_none_or(lies_below)
    }

    /// Returns true if a request with the key may change a path of the account. `owner` is the audience of
    /// the chat of the path. `elsewhere` is true for a call that also changes what other sessions derived
    /// from its messages.
    pub(super) fn may_change(
        &self,
        path: &str,
        (world, owner): (&World, Option<&str>),
        elsewhere: bool,
    ) -> bool {
        if self.read_only {
            return false;
        }
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let bound_session = self.session.as_ref().filter(|_| !elsewhere);
        let in_reach = match *segments.as_slice() {
            [] | ["users" | "agents" | "chats"] => true,
            // Events are named by ids; records of garth are nobody's.
            ["media"] | [".outbox" | ".garth", ..] => true,
            ["media", of, ..] => self.may_change_media(of, world),
            ["users", audience] | ["users", audience, "memories", ..] => self.has_audience(audience),
            ["users", audience, "agents"] => self.has_audience(audience),
            ["users", audience, "agents", agent, "session", name, ..] => {
                self.has_audience(audience)
                    && self.has_agent(agent)
                    && bound_session.is_none_or(|bound| bound == name)
            }
            ["users", audience, "agents", agent, ..] => self.has_audience(audience) && self.has_agent(agent),
            ["agents", agent, ..] => self.has_agent(agent),
            ["chats", chat, ..] => {
                let is_bound = self.chat.as_ref().is_none_or(|bound| bound == chat);
                // That of the world first: a fault must not hide behind an owner that it has changed.
                let owner = world.owner_of_chat(chat).or(owner);
                is_bound && owner.is_some_and(|owner| self.has_audience(owner))
            }
            _ => false,
        };
        in_reach && self.prefix.as_ref().is_none_or(|prefix| is_below_in_account(&segments, prefix))
    }

    /// Returns true if a request with the key may change the media of a session key, or of a session with
    /// this id that has no key.
    fn may_change_media(&self, of: &str, world: &World) -> bool {
        if let Some(PlaceKind::Session { agent, audience, name }) = world.session_of(of) {
            let is_bound = self.session.as_ref().is_none_or(|bound| bound == name);
            return is_bound && self.has_agent(agent) && self.has_audience(audience);
        }
        let Some((agent, place)) = of.strip_prefix("agent:").and_then(|key| key.split_once(':')) else {
            // Of a session that a request has created.
            return true;
        };
        let place = place.split_once(":thread:").map_or(place, |(place, _)| place);
        let audience = match place {
            "main" => OWNER,
            "slack:dm:U7" => "bob",
            // The user whom a request names decides.
            place if place.contains("dm:") => return self.has_agent(agent),
            _ => "",
        };
        self.has_agent(agent) && (self.has_audience(&format!(":{place}")) || self.has_audience(audience))
    }
}

/// Returns the number of the class of an audience: no owner is a channel.
fn class_of(audience: &str) -> u8 {
    match audience {
        OWNER => 0,
        audience if audience.starts_with(':') => 2,
        _ => 1,
    }
}

fn class_number(class: &str) -> u8 {
    match class {
        "main" => 0,
        "dm" => 1,
        _ => 2,
    }
}

fn is_within(path: &str, top: &str) -> bool {
    path == top || path.strip_prefix(top).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns true if a path of the account is below a path of the tree, whoever opens the tree.
fn is_below_in_account(segments: &[&str], prefix: &str) -> bool {
    let top: Vec<&str> = prefix.split('/').filter(|segment| !segment.is_empty()).collect();
    let (skipped, rest) = match top.as_slice() {
        [".agent", rest @ ..] => (of_agent(segments), rest),
        [".user", rest @ ..] => (of_user(segments), rest),
        ["ctx", ..] => return false,
        rest => (of_chat(segments), rest),
    };
    skipped.is_some_and(|skipped| segments[skipped..].starts_with(rest))
}

/// Returns the number of segments above the part of an agent's directory that its tree shows.
fn of_agent(segments: &[&str]) -> Option<usize> {
    matches!(segments, ["agents", _, ..]).then_some(2)
}

/// Returns the number of segments above the agent's notes about an audience.
fn of_user(segments: &[&str]) -> Option<usize> {
    matches!(segments, ["users", _, "agents", _, ..]).then_some(4)
}

/// Returns the number of segments above the files of a chat.
fn of_chat(segments: &[&str]) -> Option<usize> {
    matches!(segments, ["chats", _, ..]).then_some(2)
}
