//! An open chat: files, sessions, memories, prompts and media, as far as its audience reaches them.

use std::sync::Arc;

use garth_agent::media::Media;
use garth_agent::memory::{Forgotten, Memories, Remember, Written};
use garth_agent::memory_tool::{Answer, Command, MemoryTool};
use garth_agent::recall::{Key, Recall, Recalled};
use garth_agent::session::Sessions;
use garth_agent::workspace::{Prompt, PromptOptions, Workspace};
use garth_agent::{Access, AgentTree, Class};
use garth_engine::FileSystem;
use garth_engine::error::Result;

/// Open chat of an agent.
///
/// Everything that it returns is limited to what its audience reaches: the memories of other users, and
/// sessions with fewer listeners, do not exist in it. Clones are the same chat.
///
/// ```
/// use garth::FileSystemExt;
/// use garth::session::{Append, Create, Draft, PackOptions};
///
/// # futures::executor::block_on(async {
/// # let folder = tempfile::tempdir()?;
/// let data = garth::open(folder.path())?;
/// let chat = data.agent("concierge").user("alice").open().await?;
///
/// chat.remember("Takes her coffee black.").await?;
/// let sessions = chat.sessions();
/// sessions.create(&Create::new("breakfast")).await?;
/// sessions.append("breakfast", &Append::messages([Draft::user("A coffee, please.")])).await?;
/// let pack = sessions.pack("breakfast", &PackOptions::default()).await?;
/// assert!(pack.markdown.contains("A coffee, please."));
/// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Chat {
    access: Access,
    files: Arc<dyn FileSystem>,
    account: String,
}

impl Chat {
    pub(crate) fn new(access: Access, files: Arc<dyn FileSystem>, account: &str) -> Self {
        Self { access, files, account: account.to_owned() }
    }

    /// Returns the tree that the agent sees: `/` is the chat, `/.agent` the agent, `/.user` what it keeps for
    /// the audience, see [`AgentTree`].
    pub fn files(&self) -> &Arc<dyn FileSystem> {
        &self.files
    }

    /// Returns the sessions of the audience with the agent.
    pub fn sessions(&self) -> Sessions<'_> {
        self.access.sessions()
    }

    /// Returns the memories of the audience and of the agent.
    pub fn memories(&self) -> Memories<'_> {
        self.access.memories(&self.account)
    }

    /// Carries out a command of the memory tool of Claude models, on the files of the agent about the
    /// audience. `input` is the input of the model's call, in JSON.
    ///
    /// # Errors
    /// - `InvalidArgument`: `input` is not a command. A command that fails is no error: its answer is a text
    ///   for the model.
    /// - Errors of the storage.
    ///
    /// ```
    /// # futures::executor::block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// let data = garth::open(folder.path())?;
    /// let chat = data.agent("concierge").user("alice").open().await?;
    /// let input = r#"{"command": "create", "path": "/memories/coffee.md", "file_text": "Black.\n"}"#;
    /// let answer = chat.memory_tool(input).await?;
    /// assert_eq!(answer.text, "File created successfully at: /memories/coffee.md");
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    pub async fn memory_tool(&self, input: &str) -> Result<Answer> {
        MemoryTool::new(&*self.files).run(&Command::parse(input)?).await
    }

    /// Returns the workspace of the agent: prompts, skills, daily memory, resets.
    pub fn workspace(&self) -> Workspace<'_> {
        self.access.workspace()
    }

    /// Returns the media of the sessions.
    pub fn media(&self) -> Media<'_> {
        self.access.media()
    }

    /// Returns the id of the agent.
    pub fn agent(&self) -> &str {
        self.access.identity().agent()
    }

    /// Returns the audience, whose memories these are: the user, or the id that represents the people of a
    /// group.
    pub fn audience(&self) -> &str {
        self.access.identity().audience()
    }

    /// Returns the class: who listens.
    pub fn class(&self) -> Class {
        self.access.identity().class()
    }

    /// Returns the tree that the agent sees, to be opened with skills or another upload limit.
    pub fn tree(&self) -> AgentTree {
        self.access.tree()
    }

    /// Builds the system prompt, for the session of the request if it names one with
    /// [`ChatRequest::session`](crate::ChatRequest::session). That session must exist: create it with
    /// [`Chat::sessions`] first. It records the prompt in an event. Missing files of the workspace are left
    /// out.
    ///
    /// # Errors
    /// As [`Workspace::prompt`]; `NotFound` if the session does not exist.
    pub async fn prompt(&self) -> Result<Prompt> {
        let who = self.access.identity();
        let options = PromptOptions::default();
        let options = match who.session() {
            Some(session) => options.session(who.audience(), session),
            None => options,
        };
        self.workspace().prompt(&options).await
    }

    /// Recalls memories and files relevant to a question, within a budget of tokens, as text for a model.
    ///
    /// ```
    /// use garth::Recall;
    ///
    /// # futures::executor::block_on(async {
    /// # let folder = tempfile::tempdir()?;
    /// # let data = garth::open(folder.path())?;
    /// let chat = data.user("alice").open().await?;
    /// chat.remember("Takes her coffee black.").await?;
    /// let known = chat.recall(Recall::new("coffee?").budget(500).limit(3)).await?;
    /// assert!(known.tokens <= 500);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a budget or limit out of range; errors of the storage.
    pub async fn recall(&self, question: impl Into<Recall>) -> Result<Recalled> {
        let (chat, asked) = (self.clone(), question.into());
        let env = self.access.env();
        let key = Key::random(env)?;
        let recall =
            async move { chat.access.recaller(&chat.files, &chat.account).recall(&asked, &key).await };
        env.compute(&self.account, 0, recall).await?
    }

    /// Stores a fact about the audience, as a memory of the category `notes`. A fact that is stored already
    /// is not stored again. [`Written::near`] lists memories that say much the same; nothing is merged or
    /// replaced.
    ///
    /// # Errors
    /// As [`Memories::remember`].
    pub async fn remember(&self, fact: impl Into<Remember>) -> Result<Written> {
        self.memories().remember(&fact.into()).await
    }

    /// Deletes a memory, named by its URI or by the text with which it was remembered, and returns what is
    /// left of it: its text stays in the history of the account.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid URI; `NotFound`; `AccessDenied` for a memory of somebody else.
    pub async fn forget(&self, memory: &str) -> Result<Forgotten> {
        let memories = self.memories();
        let uri = match memory.starts_with("ctx://") {
            true => memory.parse()?,
            false => memories.remembered(&memory.into()).await?,
        };
        memories.forget(&uri).await
    }
}
