//! Agent, user, chat and class that a call names: groups of fields that calls share.

use std::borrow::Cow;

use garth_agent::kv::DEFAULT_AGENT;
use garth_agent::media::MediaKey;
use garth_agent::session::SessionKey;
use garth_agent::{Class, Request};
use garth_engine::ErrorKind;
use garth_engine::home::Binding;
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
    /// Tree of a call on files: that of an identity, the account, or an overlay of the account.
    struct FilesFields<'a> {
        /// Overlay of the account in which the call reads and writes. It requires a key with `admin` that is
        /// bound to nothing, and excludes the fields that name who asks. Default: none.
        overlay: Option<Cow<'a, str>> = string_of("id");
        ..who: AnyoneFields<'a>;
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
    /// Identity that the agent serves in a call of the memory tool.
    struct MemoryToolFields<'a> {
        /// Agent.
        agent: Cow<'a, str> = string_of("id");
        /// User who speaks. Default: an unnamed user.
        user: Option<Cow<'a, str>> = string_of("id");
        /// Session key, which decides the audience. Default: none.
        key: Option<Cow<'a, str>> = string_of("session key");
        /// Chat of the call. Default: the chat of the audience.
        chat: Option<Cow<'a, str>> = string_of("id");
        /// Class of the session: `main`, `dm` or `group`. It can only restrict the class that key and user
        /// imply. Default: the implied class.
        class: Option<Cow<'a, str>> = string_of("class");
        /// Session of the call. Default: none.
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

fields! {
    /// Account of a call on its administration.
    struct AdminFields<'a> {
        /// Account. A key of the data folder requires it for calls on an account. Default: that of the key.
        account: Option<Cow<'a, str>> = string_of("id");
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
    /// Overlay of the account that a call on files is on.
    pub(super) overlay: Option<Cow<'a, str>>,
    /// Session that a call on sessions is about.
    subject: Option<String>,
}

/// Returns the fields by which a call on a tree names its caller, in groups.
pub(super) const fn fields_of(tree: Tree) -> &'static [&'static [Field]] {
    match tree {
        Tree::KeyValues => KeyValueFields::FIELDS,
        Tree::Memories | Tree::Recall => AnyoneFields::FIELDS,
        Tree::Files => FilesFields::FIELDS,
        Tree::Admin => AdminFields::FIELDS,
        Tree::Search => SearchFields::FIELDS,
        Tree::Sessions => SessionFields::FIELDS,
        Tree::MemoryTool => MemoryToolFields::FIELDS,
        Tree::Workspace => WorkspaceFields::FIELDS,
        Tree::Media => MediaFields::FIELDS,
        Tree::None => &[],
    }
}

/// Returns these groups for a key with a binding: an agent that the key supplies is not required of the call.
pub(super) fn fields_for(tree: Tree, binding: &Binding) -> &'static [&'static [Field]] {
    match tree {
        Tree::Sessions | Tree::MemoryTool if supplies_agent(binding) => AnyoneFields::FIELDS,
        _ => fields_of(tree),
    }
}

fn supplies_agent(binding: &Binding) -> bool {
    binding.agent.is_some() || binding.key.is_some()
}

impl<'a> Caller<'a> {
    /// Reads the caller of a request to a call on a tree; `arguments` are those of the path. `binding` is
    /// that of the API key, which supplies missing names later.
    pub(super) fn read(
        tree: Tree,
        binding: &Binding,
        arguments: &'a [(String, String)],
        fields: &Fields<'a>,
    ) -> Result<Self, Refusal> {
        let argument = |name: &str| arguments.iter().find(|(argument, _)| argument == name);
        let agent = Cow::Borrowed(argument("agent").map_or("", |(_, agent)| &**agent));
        let key = |key: Option<Cow<'a, str>>| key.map(|key| key.parse::<SessionKey>()).transpose();
        Ok(match tree {
            Tree::KeyValues => {
                let agent_id = KeyValueFields::read(fields)?.agent_id;
                // The default is no name: a bound key replaces it with its own agent.
                let agent = text_of(fields, "agent_id").map(Cow::Owned).unwrap_or_default();
                Self { agent_id: Some(agent_id), agent, ..Self::default() }
            }
            Tree::Memories | Tree::Recall => Self::anyone(FieldGroup::read(fields)?)?,
            Tree::Files => {
                let FilesFields { overlay, who, .. } = FieldGroup::read(fields)?;
                Self { overlay, ..Self::anyone(who)? }
            }
            // These calls require an agent, which such a key supplies.
            Tree::Sessions if supplies_agent(binding) => {
                Self { subject: text_of(fields, "name"), ..Self::anyone(FieldGroup::read(fields)?)? }
            }
            Tree::MemoryTool if supplies_agent(binding) => Self::anyone(FieldGroup::read(fields)?)?,
            Tree::MemoryTool => {
                let named: MemoryToolFields<'_> = FieldGroup::read(fields)?;
                let MemoryToolFields { agent, user, key: of, chat, class, session, .. } = named;
                Self { agent, user, chat, class, session, key: key(of)?, ..Self::default() }
            }
            Tree::Search => {
                let named: SearchFields<'_> = FieldGroup::read(fields)?;
                let SearchFields { agent_id, agent, user, key: of, chat, class, session, .. } = named;
                if let Some(agent) = &agent {
                    check_id("agent", agent).map_err(garth_engine::Error::from)?;
                }
                let (agent, key) = (agent.unwrap_or_default(), key(of)?);
                Self { agent, agent_id, user, chat, class, session, key, ..Self::default() }
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
                // A user that the call or the API key names, and a session key of the latter, take precedence
                // over the session in the key of the file.
                let is_named = user.is_some() || binding.user.is_some() || binding.key.is_some();
                let of_file = || of_file().or_else(|| key_of_file(fields)).filter(|_| !is_named);
                let key = text_of(fields, "session_key").or_else(of_file);
                // A UUID names a session without a session key.
                let key = key.filter(|key| key.starts_with("agent:"));
                let key = key.map(|key| key.parse()).transpose()?;
                Self { agent, user, class, key, ..Self::default() }
            }
            Tree::Admin | Tree::None => Self { agent, ..Self::default() },
        })
    }

    /// Returns the caller of a request that may leave every name out.
    fn anyone(named: AnyoneFields<'a>) -> Result<Self, Refusal> {
        let AnyoneFields { agent, user, key, chat, class, session, .. } = named;
        if let Some(agent) = &agent {
            check_id("agent", agent).map_err(garth_engine::Error::from)?;
        }
        let key = key.map(|key| key.parse::<SessionKey>()).transpose()?;
        Ok(Self { agent: agent.unwrap_or_default(), user, chat, class, session, key, ..Self::default() })
    }

    /// Returns the caller of a request whose names are known.
    pub(super) fn of_request(request: &Request) -> Self {
        let owned = |text: &Option<String>| text.clone().map(Cow::Owned);
        Self {
            agent: Cow::Owned(request.agent.clone()),
            user: owned(&request.user),
            chat: owned(&request.chat),
            class: request.class.map(|class| Cow::Borrowed(class.as_str())),
            session: owned(&request.session),
            key: request.key.clone(),
            ..Self::default()
        }
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

    /// Returns the names of the request, before the API key completes them. An agent that is not named is the
    /// empty text.
    pub(super) fn asked(&self) -> Request {
        let owned = |text: &Option<Cow<'_, str>>| text.as_deref().map(str::to_owned);
        let mut request = Request::new(&*self.agent);
        (request.user, request.chat) = (owned(&self.user), owned(&self.chat));
        (request.session, request.key) = (owned(&self.session), self.key.clone());
        request.class = self.class.as_deref().map(Class::named);
        request
    }

    /// Takes over the names of the request that a bound key has completed, so that handlers and the log have
    /// those by which it is judged.
    ///
    /// # Errors
    /// `FORBIDDEN` if the call names the keys of another agent.
    pub(super) fn complete(
        &mut self,
        tree: Tree,
        binding: &Binding,
        request: &Request,
    ) -> Result<(), Refusal> {
        self.agent = Cow::Owned(request.agent.clone());
        match &mut self.agent_id {
            Some(agent_id) if tree == Tree::KeyValues => agent_id.clone_from(&self.agent),
            Some(agent_id) if **agent_id != request.agent => {
                let message = other_agent(binding, request);
                return Err(garth_engine::Error::new(ErrorKind::AccessDenied, message).into());
            }
            _ => {}
        }
        let owned = |text: &Option<String>| text.clone().map(Cow::Owned);
        (self.user, self.chat, self.session) =
            (owned(&request.user), owned(&request.chat), owned(&request.session));
        self.class = request.class.map(|class| Cow::Borrowed(class.as_str()));
        self.key.clone_from(&request.key);
        Ok(())
    }
}

/// Returns the reason why a search with a bound key does not cover the keys of another agent than that of its
/// identity.
fn other_agent(binding: &Binding, request: &Request) -> String {
    let agent = &request.agent;
    match &binding.user {
        _ if binding.agent.is_some() || binding.key.is_some() => {
            format!("this API key is bound to the agent `{agent}`; leave \"agent_id\" out")
        }
        Some(user) => format!(
            "this API key is bound to the user `{user}`, so this request reaches only the agent `{agent}`; name \
             another one in \"agent\", not in \"agent_id\""
        ),
        None => format!(
            "this API key is bound to no agent, and this request reaches only `{agent}`; name another one in \
             \"agent\", not in \"agent_id\""
        ),
    }
}

/// Returns the account that a call on the administration of one names.
pub(super) fn named_account<'a>(tree: Tree, fields: &Fields<'a>) -> Result<Option<Cow<'a, str>>, Refusal> {
    match tree {
        Tree::Admin => Ok(AdminFields::read(fields)?.account),
        _ => Ok(None),
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
