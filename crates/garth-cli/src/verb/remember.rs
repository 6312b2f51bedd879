//! `garth remember` and `garth forget`: store or delete a fact in one step.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use garth_agent::memory::{Forgotten, MAX_CONTENT, Remember as Fact, Space, Written};
use serde_json::json;

use super::memory::MemoryArg;
use super::open::open_memories as open;
use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::host_text::argument_or_stdin;

/// Remember a fact about a user
///
/// Stores the text as a memory of the category `notes`, of the user named by --user or --key, else of the
/// user `default`. A fact that is already stored is not stored again. Memories with much the same content are
/// listed; nothing is merged. With --json, prints one object: uri, created, changed, seq, near, meta.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth remember --user alice 'Takes her coffee black'\n  \
        garth remember --for agent --agent concierge 'Refunds take five days' --tag policy")]
pub(crate) struct Remember {
    /// Text of the fact; - or nothing reads standard input
    #[arg(allow_hyphen_values = true)]
    text: Option<String>,
    /// Tag to add (repeatable)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Owner of the memory: the user, or the agent, which shares it with all users
    #[arg(long = "for", value_name = "OWNER", value_enum, default_value_t = OwnerArg::User)]
    owner: OwnerArg,
}

/// Forget a fact: delete a memory
///
/// Names the memory by its URI, by CATEGORY/SLUG, or by the text with which it was remembered. Prints what
/// remains: its versions stay in the history, the messages that it was derived from in their session. With
/// --json, prints one object: uri, seq, left (versions, more, provenance).
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth forget --user alice 'Takes her coffee black'\n  \
        garth forget --user alice preferences/coffee")]
pub(crate) struct Forget {
    /// URI, CATEGORY/SLUG, or text of the fact
    #[arg(value_name = "MEMORY|TEXT")]
    memory: String,
    /// Owner of the memory: the user, or the agent
    #[arg(long = "for", value_name = "OWNER", value_enum, default_value_t = OwnerArg::User)]
    owner: OwnerArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OwnerArg {
    User,
    Agent,
}

impl OwnerArg {
    fn of(self, app: &App, fact: Fact) -> Fact {
        match self {
            Self::User => fact,
            Self::Agent => fact.space(Space::Agent(app.global.agent.clone())),
        }
    }
}

impl Remember {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let text = argument_or_stdin(self.text, MAX_CONTENT, "text of a memory")?;
        // Checked before the data is opened: an empty text must not leave a new data folder behind.
        if text.trim().is_empty() {
            return Err(Failure::Usage("the text is empty; give the fact as a sentence".to_owned()));
        }
        let fact = self.owner.of(app, Fact::new(text).tags(self.tags));
        let written = open(app, true).await?.memories().remember(&fact).await?;
        let mut json = written.to_json();
        json.insert("uri".to_owned(), json!(written.meta.uri));
        app.out.item(&serde_json::Value::Object(json), remembered(&written))
    }
}

fn remembered(written: &Written) -> String {
    let did = match (written.created, written.seq) {
        (true, _) => "remembered",
        (false, Some(_)) => "changed",
        (false, None) => "unchanged",
    };
    let mut text = format!("{did}  {}", escaped(&written.meta.uri));
    for near in written.near.iter().flatten() {
        _ = write!(text, "\nsimilar ({:.2})  {}", near.score, escaped(&near.uri.to_string()));
    }
    text
}

impl Forget {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let fact = self.owner.of(app, Fact::new(&*self.memory));
        // A text in the form of an address is one.
        let named = MemoryArg::named(&self.memory);
        let uri = match &named {
            Some(memory) => memory.uri(app).await?,
            // Looked up in a tree that is not opened for changes: an unknown text must create nothing.
            None => open(app, false).await?.memories().remembered(&fact).await?,
        };
        let left = open(app, true).await?.memories().forget(&uri).await?;
        app.out.item(&left.to_json(), forgotten(&left))
    }
}

fn forgotten(left: &Forgotten) -> String {
    let uri = left.uri.to_string();
    let mut text = format!("forgot  {}", escaped(&uri));
    let count = if left.more { format!("more than {}", left.versions) } else { left.versions.to_string() };
    match left.versions {
        0 => {}
        1 => text.push_str("\n1 version stays in the history: see `garth memory log`"),
        _ => _ = write!(text, "\n{count} versions stay in the history: see `garth memory log`"),
    }
    if let Some(from) = &left.provenance {
        let sources = from.sources.join(", ");
        _ = write!(text, "\nthe messages that it was derived from stay: {}", escaped(&sources));
    }
    text
}
