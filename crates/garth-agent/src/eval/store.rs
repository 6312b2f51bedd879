//! Ways in which people store conversations.

use serde_json::json;

use super::conversation::{Conversation, Text};
use crate::memory::{Memories, Put, Uri, sha256};
use crate::session::{Append, Create, Draft, MAX_APPENDED, Role, Sessions};
use garth_engine::env::Env;
use garth_engine::error::Result;
use garth_engine::fs::{FileSystem, FileSystemExt as _};
use garth_engine::model::{Batch, Op};
use garth_engine::path::TreePath;

/// Agent of the sessions.
const AGENT: &str = "eval";
/// Number of files of one commit.
const FILES: usize = 100;

/// Way to store a conversation. The memories of a user are stored as the messages of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Store {
    /// JSON value per message, as the key-value interface stores it.
    Values,
    /// Session, appended message by message.
    Turns,
    /// Session, appended at once.
    Session,
    /// Markdown file per session.
    Markdown,
    /// Memory per message.
    Nodes,
}

impl Store {
    /// All ways.
    pub const ALL: [Self; 5] = [Self::Values, Self::Turns, Self::Session, Self::Markdown, Self::Nodes];

    /// Returns the name: `values`, `turns`, `session`, `markdown` or `nodes`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Values => "values",
            Self::Turns => "turns",
            Self::Session => "session",
            Self::Markdown => "markdown",
            Self::Nodes => "nodes",
        }
    }
}

/// Texts to store together: a session, or the memories of a user.
pub(super) struct Group<'c> {
    pub(super) name: &'c str,
    pub(super) time: Option<&'c str>,
    pub(super) texts: Vec<Said<'c>>,
}

/// Text of a group.
pub(super) struct Said<'c> {
    /// Role of the speaker; `None` for a memory.
    role: Option<Role>,
    name: Option<&'c str>,
    text: &'c str,
}

impl<'c> Group<'c> {
    /// Returns the sessions of a conversation.
    pub(super) fn sessions(conversation: &'c Conversation) -> Vec<Self> {
        let said =
            |text: &'c Text| Said { role: Some(text.role), name: text.name.as_deref(), text: &text.content };
        let sessions = conversation.sessions.iter().map(|session| Group {
            name: &session.name,
            time: session.time.as_deref(),
            texts: session.messages.iter().map(said).collect(),
        });
        sessions.collect()
    }

    /// Returns the memories of each user.
    pub(super) fn memories(conversation: &'c Conversation) -> Vec<(&'c str, Self)> {
        let mut users: Vec<(&str, Self)> = Vec::new();
        for memory in &conversation.memories {
            let said = Said { role: None, name: None, text: &memory.text };
            match users.iter_mut().find(|(user, _)| *user == memory.user) {
                Some((_, group)) => group.texts.push(said),
                None => {
                    let group = Group { name: &conversation.name, time: None, texts: vec![said] };
                    users.push((&memory.user, group));
                }
            }
        }
        users
    }
}

impl Said<'_> {
    fn speaker(&self) -> Option<&str> {
        let role = self.role.map(|role| match role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        });
        self.name.or(role)
    }

    /// Returns the message, with an id that is the same in each run: ids are part of the tokens of an answer.
    fn draft(&self, seed: &str, time: Option<&str>) -> Draft {
        let hash = sha256(seed.as_bytes());
        let id = format!(
            "msg-{}-{}-{}-{}-{}",
            &hash[..8],
            &hash[8..12],
            &hash[12..16],
            &hash[16..20],
            &hash[20..32]
        );
        let mut draft = Draft::message(self.role.unwrap_or(Role::User), self.text).with("id", &id);
        if let Some(name) = self.name {
            draft = draft.with("from", name);
        }
        draft.with("created_at", time.unwrap_or("2026-01-01T00:00:00Z"))
    }
}

/// Returns the directories that have everything stored for `owner`.
pub(super) fn places(owner: &str) -> Result<[TreePath; 2]> {
    Ok([TreePath::parse(&format!("/users/{owner}"))?, TreePath::parse(&format!("/agents/{owner}"))?])
}

/// Stores a group for `owner` as its group of this number.
pub(super) async fn store(
    (fs, account, env): (&dyn FileSystem, &str, &Env),
    way: Store,
    (owner, number): (&str, usize),
    group: &Group<'_>,
) -> Result<()> {
    match way {
        Store::Values => {
            let values = group.texts.iter().enumerate().map(|(at, said)| {
                let path = TreePath::parse(&format!("/agents/{owner}/kv/{number}/{at}"))?;
                let value = match said.speaker() {
                    Some(speaker) => json!({"role": speaker, "content": said.text}),
                    None => json!({"content": said.text}),
                };
                Ok(Op::write(path, value.to_string()))
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            fs.mkdir_all(TreePath::parse(&format!("/agents/{owner}/kv/{number}"))?).await?;
            for some in values.chunks(FILES) {
                fs.commit(Batch::new(some.to_vec())).await?;
            }
        }
        Store::Turns | Store::Session => {
            let sessions = Sessions::new(fs, owner, AGENT)?.env(env.clone());
            let name = format!("s{number}");
            sessions.create(&Create::new(&name)).await?;
            let drafts = group.texts.iter().enumerate();
            let drafts: Vec<_> =
                drafts.map(|(at, said)| said.draft(&format!("{owner}/{number}/{at}"), group.time)).collect();
            let together = if way == Store::Turns { 1 } else { MAX_APPENDED };
            for some in drafts.chunks(together) {
                sessions.append(&name, &Append::messages(some.to_vec())).await?;
            }
        }
        Store::Markdown => {
            let dir = TreePath::parse(&format!("/users/{owner}/notes"))?;
            fs.mkdir_all(dir.clone()).await?;
            let mut text = format!("# {}\n", group.name);
            text.extend(group.time.map(|time| format!("\n{time}\n")));
            for said in &group.texts {
                match said.speaker() {
                    Some(speaker) => text.push_str(&format!("\n**{speaker}:** {}\n", said.text)),
                    None => text.push_str(&format!("\n- {}\n", said.text)),
                }
            }
            let path = TreePath::from_row(dir.key(), &format!("{number}.md"));
            fs.commit(Batch::new([Op::write(path, text)])).await?;
        }
        Store::Nodes => {
            let memories = Memories::new(fs, account).env(env.clone());
            for (at, said) in group.texts.iter().enumerate() {
                let uri: Uri =
                    format!("ctx://{account}/users/{owner}/memories/events/{number}-{at}").parse()?;
                let text = match said.speaker() {
                    Some(speaker) => format!("{speaker}: {}\n", said.text),
                    None => format!("{}\n", said.text),
                };
                memories.put(&uri, &Put::new(text)).await?;
            }
        }
    }
    Ok(())
}
