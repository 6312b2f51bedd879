//! Request for a chat: whom it names, and how it is opened.

use garth_agent::memory::{Forgotten, Remember, Written};
use garth_agent::recall::{Recall, Recalled};
use garth_agent::session::SessionKey;
use garth_agent::{Access, Caller, Class, Request};
use garth_engine::DataDir;
use garth_engine::error::{Error, ErrorKind, Result};

use crate::Chat;

/// Account and agent of requests that name none.
const DEFAULT: &str = "default";

/// Request for a chat: the account, the agent, and who talks to it where.
///
/// A request is a plain value; nothing is read, created or checked before it is opened. [`ChatRequest::open`]
/// judges who listens and whose memory the chat has. Without a user, a session key and a chat, the agent's
/// owner speaks.
///
/// ```
/// use garth::FileSystemExt;
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let data = garth::open(folder.path())?;
/// let chat = data.agent("concierge").user("alice").chat("lobby").open().await?;
/// chat.files().write("/wishes.md", "A room with a view.\n").await?;
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ChatRequest {
    dir: DataDir,
    account: Option<String>,
    agent: Option<String>,
    user: Option<String>,
    key: Option<String>,
    class: Option<Class>,
    chat: Option<String>,
    session: Option<String>,
}

impl ChatRequest {
    pub(crate) fn new(dir: DataDir) -> Self {
        let (account, agent, user, key) = (None, None, None, None);
        Self { dir, account, agent, user, key, class: None, chat: None, session: None }
    }

    /// Sets the account. By default it is `default`, which is created if the data folder has no account.
    pub fn account(self, id: impl Into<String>) -> Self {
        Self { account: Some(id.into()), ..self }
    }

    /// Sets the agent. By default it is that of the session key, else `default`.
    pub fn agent(self, id: impl Into<String>) -> Self {
        Self { agent: Some(id.into()), ..self }
    }

    /// Sets the user who speaks. Without a session key, this user alone listens: the class is [`Class::Main`]
    /// if the settings of the agent name this user as its owner, else [`Class::Dm`]. So a new agent, which
    /// has no owner in its settings, meets every named user in the class `dm`.
    pub fn user(self, id: impl Into<String>) -> Self {
        Self { user: Some(id.into()), ..self }
    }

    /// Sets the session key, such as `agent:concierge:slack:channel:C1`: it says who listens.
    pub fn key(self, key: impl Into<String>) -> Self {
        Self { key: Some(key.into()), ..self }
    }

    /// Sets the chat. By default there is one for each audience.
    pub fn chat(self, id: impl Into<String>) -> Self {
        Self { chat: Some(id.into()), ..self }
    }

    /// Asks for a class in which more people listen, or for [`Class::Main`].
    pub fn class(self, class: Class) -> Self {
        Self { class: Some(class), ..self }
    }

    /// Sets the session. Prompts are built for it, and sessions with fewer listeners are not visible.
    pub fn session(self, name: impl Into<String>) -> Self {
        Self { session: Some(name.into()), ..self }
    }

    /// Opens the chat. Creates its missing directories in the account.
    ///
    /// # Errors
    /// - `InvalidArgument`: an id or the session key is not valid.
    /// - `NotFound`: the account does not exist.
    /// - `AccessDenied`: the chat belongs to another audience.
    /// - Errors of the storage.
    pub async fn open(&self) -> Result<Chat> {
        let access = self.access().await?;
        access.make().await?;
        let files = access.tree().open().await?;
        Ok(Chat::new(access, files, self.account_id()))
    }

    /// Remembers a text for the user, or for the chat if several people listen: opens the chat and calls
    /// [`Chat::remember`].
    ///
    /// # Errors
    /// As [`ChatRequest::open`] and [`Chat::remember`].
    pub async fn remember(&self, fact: impl Into<Remember>) -> Result<Written> {
        self.open().await?.remember(fact).await
    }

    /// Deletes a memory: opens the chat and calls [`Chat::forget`].
    ///
    /// # Errors
    /// As [`ChatRequest::open`] and [`Chat::forget`].
    pub async fn forget(&self, uri: &str) -> Result<Forgotten> {
        self.open().await?.forget(uri).await
    }

    /// Recalls memories and files relevant to a question: opens the chat without creating directories and
    /// calls [`Chat::recall`].
    ///
    /// # Errors
    /// As [`ChatRequest::open`] and [`Chat::recall`].
    pub async fn recall(&self, question: impl Into<Recall>) -> Result<Recalled> {
        let access = self.access().await?;
        let files = access.tree().create(false).open().await?;
        Chat::new(access, files, self.account_id()).recall(question).await
    }

    fn account_id(&self) -> &str {
        self.account.as_deref().unwrap_or(DEFAULT)
    }

    async fn access(&self) -> Result<Access> {
        let request = self.request()?;
        self.create_default_account().await?;
        let account = self.dir.account(self.account_id()).await.map_err(|error| {
            if !error.is(ErrorKind::NotFound) {
                return error;
            }
            let id = self.account_id();
            let message =
                format!("there is no account {id}; create it with `data.dir().create_account({id:?})`");
            Error::new(ErrorKind::NotFound, message)
        })?;
        Access::open(&account, self.dir.env(), Caller::Holder, &request).await
    }

    fn request(&self) -> Result<Request> {
        let key = self.key.as_deref().map(str::parse).transpose()?;
        let of_key = || key.as_ref().map(SessionKey::agent);
        let mut request =
            Request::new(self.agent.clone().or_else(of_key).unwrap_or_else(|| DEFAULT.to_owned()));
        (request.user, request.chat) = (self.user.clone(), self.chat.clone());
        (request.session, request.class, request.key) = (self.session.clone(), self.class, key);
        Ok(request)
    }

    /// Creates the account `default` in a data folder that has none, unless the request names another
    /// account.
    async fn create_default_account(&self) -> Result<()> {
        if self.account_id() != DEFAULT || !self.dir.control().accounts_after("", 1).await?.is_empty() {
            return Ok(());
        }
        match self.dir.create_account(DEFAULT).await {
            // Another process was as quick.
            Err(error) if error.is(ErrorKind::AlreadyExists) => Ok(()),
            created => created.map(drop),
        }
    }
}
