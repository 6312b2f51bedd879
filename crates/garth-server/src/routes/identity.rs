//! Agent, user, chat and class that a call names: groups of fields that calls share.

use std::borrow::Cow;

use garth_agent::kv::DEFAULT_AGENT;
use garth_agent::media::MediaKey;
use garth_agent::session::SessionKey;
use garth_agent::{Class, Request};
use garth_engine::path::check_id;

use super::tree::Tree;
use crate::errors::Refusal;
use crate::fields::{Field, FieldGroup, Fields, fields, string_of};

fields! {
    /// Agent of a call on keys and values.
    struct KeyValueFields<'a> {
        /// Agent that owns the keys.
        agent_id: Cow<'a, str> = string_of("id"), or Cow::Borrowed(DEFAULT_AGENT);
    }
}

fields! {
    /// Identity that a call serves. Without any of these fields, the call is on the whole account.
    struct AnyoneFields<'a> {
        /// Agent. Default: `default` if another of these fields is given.
        agent: Option<Cow<'a, str>> = string_of("id");
        /// User who speaks. Default: an unnamed user.
        user: Option<Cow<'a, str>> = string_of("id");
        /// Session key, which decides the audience. Default: none.
        key: Option<Cow<'a, str>> = string_of("session key");
        /// Chat whose files are at `/`. Default: the chat of the audience.
        chat: Option<Cow<'a, str>> = string_of("id");
        /// Class of the session: `main`, `dm` or `group`. It can only restrict the class that key and user
        /// imply. Default: the implied class.
        class: Option<Cow<'a, str>> = string_of("class");
        /// Session of the call. Default: none.
        session: Option<Cow<'a, str>> = string_of("id");
    }
}

fields! {
    /// Identity of a search: [`AnyoneFields`], and the agent whose values are searched.
    struct SearchFields<'a> {
        /// Agent that owns the keys. It limits values alone. Default: that of `agent`, or `default`; every
        /// agent with `in` or `kinds`.
        agent_id: Option<Cow<'a, str>> = string_of("id");
        /// Agent. Default: `default` if another of these fields is given.
        agent: Option<Cow<'a, str>> = string_of("id");
        /// User who speaks. Default: an unnamed user.
        user: Option<Cow<'a, str>> = string_of("id");
        /// Session key, which decides the audience. Default: none.
        key: Option<Cow<'a, str>> = string_of("session key");
        /// Chat whose files are at `/`. Default: the chat of the audience.
        chat: Option<Cow<'a, str>> = string_of("id");
        /// Class of the session: `main`, `dm` or `group`. It can only restrict the class that key and user
        /// imply. Default: the implied class.
        class: Option<Cow<'a, str>> = string_of("class");
        /// Session of the call. Default: none.
        session: Option<Cow<'a, str>> = string_of("id");
    }
}

fields! {
    /// Identity that the agent serves in a call on sessions.
    struct SessionFields<'a> {
        /// Agent of the session.
        agent: Cow<'a, str> = string_of("id");
        /// User who speaks. Default: an unnamed user.
        user: Option<Cow<'a, str>> = string_of("id");
        /// Session key, which decides the audience of the sessions. Default: none.
        key: Option<Cow<'a, str>> = string_of("session key");
        /// Chat whose files are at `/`. Default: the chat of the audience.
        chat: Option<Cow<'a, str>> = string_of("id");
        /// Class of the session: `main`, `dm` or `group`. It can only restrict the class that key and user
        /// imply. Default: the implied class.
        class: Option<Cow<'a, str>> = string_of("class");
        /// Session in which the call is made. Default: none.
        session: Option<Cow<'a, str>> = string_of("id");
    }
}

fields! {
    /// Identity that the agent in the path serves.
    struct WorkspaceFields<'a> {
        /// User who speaks. Default: an unnamed user.
        user: Option<Cow<'a, str>> = string_of("id");
        /// Session key, which decides the audience. Default: none.
        key: Option<Cow<'a, str>> = string_of("session key");
        /// Chat whose files are at `/`. Default: the chat of the audience.
        chat: Option<Cow<'a, str>> = string_of("id");
        /// Class of the session: `main`, `dm` or `group`. It can only restrict the class that key and user
        /// imply. Default: the implied class.
        class: Option<Cow<'a, str>> = string_of("class");
        /// Session for which the call is made. Default: none.
        session: Option<Cow<'a, str>> = string_of("id");
    }
}

fields! {
    /// Identity that the agent in the path serves. The audience follows from `session_key`, or from the key
    /// of a file if no user is named: such a key may have been written by a user or a model.
    struct MediaFields<'a> {
        /// User who speaks. Default: an unnamed user.
        user: Option<Cow<'a, str>> = string_of("id");
        /// Class of the session: `main`, `dm` or `group`. It can only restrict the class that key and user
        /// imply. Default: the implied class.
        class: Option<Cow<'a, str>> = string_of("class");
    }
}

/// Agent, user, chat, class and session that a request names.
#[derive(Debug, Default)]
pub(super) struct Caller<'a> {
    /// Empty if no agent is named.
    pub(super) agent: Cow<'a, str>,
    /// Agent whose keys and values the call is on, if the call names it.
    pub(super) agent_id: Option<Cow<'a, str>>,
    pub(super) user: Option<Cow<'a, str>>,
    pub(super) chat: Option<Cow<'a, str>>,
    pub(super) class: Option<Cow<'a, str>>,
    pub(super) session: Option<Cow<'a, str>>,
    pub(super) key: Option<SessionKey>,
    /// Session that a call on sessions is about.
    subject: Option<String>,
}

/// Returns the fields by which a call on a tree names its caller.
pub(super) const fn fields_of(tree: Tree) -> &'static [Field] {
    match tree {
        Tree::KeyValues => KeyValueFields::OWN,
        Tree::Memories | Tree::Recall => AnyoneFields::OWN,
        Tree::Search => SearchFields::OWN,
        Tree::Sessions => SessionFields::OWN,
        Tree::Workspace => WorkspaceFields::OWN,
        Tree::Media => MediaFields::OWN,
        Tree::None => &[],
    }
}

impl<'a> Caller<'a> {
    /// Reads the caller of a request to a call on a tree; `arguments` are those of the path.
    pub(super) fn read(
        tree: Tree,
        arguments: &'a [(String, String)],
        fields: &Fields<'a>,
    ) -> Result<Self, Refusal> {
        let argument = |name: &str| arguments.iter().find(|(argument, _)| argument == name);
        let agent = Cow::Borrowed(argument("agent").map_or("", |(_, agent)| &**agent));
        let key = |key: Option<Cow<'a, str>>| key.map(|key| key.parse::<SessionKey>()).transpose();
        Ok(match tree {
            Tree::KeyValues => {
                let agent = KeyValueFields::read(fields)?.agent_id;
                Self { agent_id: Some(agent.clone()), agent, ..Self::default() }
            }
            Tree::Memories | Tree::Recall => {
                let named: AnyoneFields<'_> = FieldGroup::read(fields)?;
                let AnyoneFields { agent, user, key: of, chat, class, session, .. } = named;
                if let Some(agent) = &agent {
                    check_id("agent", agent).map_err(garth_engine::Error::from)?;
                }
                let (agent, key) = (agent.unwrap_or_default(), key(of)?);
                Self { agent, user, chat, class, session, key, ..Self::default() }
            }
            Tree::Search => {
                let named: SearchFields<'_> = FieldGroup::read(fields)?;
                let SearchFields { agent_id, agent, user, key: of, chat, class, session, .. } = named;
                if let Some(agent) = &agent {
                    check_id("agent", agent).map_err(garth_engine::Error::from)?;
                }
                let (agent, key) = (agent.unwrap_or_default(), key(of)?);
                Self { agent, agent_id, user, chat, class, session, key, subject: None }
            }
            Tree::Sessions => {
                let named: SessionFields<'_> = FieldGroup::read(fields)?;
                let SessionFields { agent, user, key: of, chat, class, session, .. } = named;
                let (subject, key) = (text_of(fields, "name"), key(of)?);
                Self { agent, user, chat, class, session, key, subject, ..Self::default() }
            }
            Tree::Workspace => {
                let named: WorkspaceFields<'_> = FieldGroup::read(fields)?;
                let WorkspaceFields { user, key: of, chat, class, session, .. } = named;
                let key = key(of)?;
                Self { agent, user, chat, class, session, key, ..Self::default() }
            }
            Tree::Media => {
                let MediaFields { user, class, .. } = FieldGroup::read(fields)?;
                let of_file = || argument("session_key").map(|(_, key)| key.clone());
                // A user that the call names takes precedence over the session in the key of the file.
                let of_file = || of_file().or_else(|| key_of_file(fields)).filter(|_| user.is_none());
                let key = text_of(fields, "session_key").or_else(of_file);
                // A UUID names a session without a session key.
                let key = key.filter(|key| key.starts_with("agent:"));
                let key = key.map(|key| key.parse()).transpose()?;
                Self { agent, user, class, key, ..Self::default() }
            }
            Tree::None => Self { agent, ..Self::default() },
        })
    }

    /// Returns the agent whose keys and values the call is on.
    pub(super) fn namespace(&self) -> &str {
        match &self.agent_id {
            Some(agent) => agent,
            None if self.agent.is_empty() => DEFAULT_AGENT,
            None => &self.agent,
        }
    }

    /// Returns the name of the session of the call, else its session key.
    pub(super) fn session_name(&self) -> Option<Cow<'_, str>> {
        let named = self.session.as_deref().or(self.subject.as_deref());
        named.map(Cow::Borrowed).or_else(|| Some(Cow::Owned(self.key.as_ref()?.to_string())))
    }

    /// Returns the identity to be judged; `None` for the account itself.
    pub(super) fn request(&self, tree: Tree) -> Result<Option<Request>, Refusal> {
        let owned = |text: &Option<Cow<'_, str>>| text.as_deref().map(str::to_owned);
        // Memories, recall and search also serve the whole account, without an agent.
        let is_free = matches!(tree, Tree::Memories | Tree::Recall | Tree::Search);
        let agent = if is_free && self.agent.is_empty() { DEFAULT_AGENT } else { &*self.agent };
        let mut request = Request::new(agent);
        (request.user, request.chat) = (owned(&self.user), owned(&self.chat));
        (request.session, request.key) = (owned(&self.session), self.key.clone());
        request.class = self.class.as_deref().map(Class::named);
        let names_nobody = self.agent.is_empty() && !request.names_somebody();
        Ok(match tree {
            Tree::KeyValues | Tree::None => None,
            _ if is_free && names_nobody => None,
            _ => Some(request),
        })
    }
}

/// Returns the session key that is part of the key of a media file.
fn key_of_file(fields: &Fields<'_>) -> Option<String> {
    Some(text_of(fields, "key")?.parse::<MediaKey>().ok()?.session_key().to_owned())
}

/// Returns the text of a field.
fn text_of(fields: &Fields<'_>, name: &str) -> Option<String> {
    let (_, value) = fields.sorted().find(|(field, _)| *field == name)?;
    serde_json::from_str(value).ok()
}
