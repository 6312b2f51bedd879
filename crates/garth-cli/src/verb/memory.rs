//! `garth memory`: memories, memories and skills that are whole or not there.

mod relate;

use std::io::Read as _;

use clap::{Args, Subcommand, ValueEnum};
use garth_agent::memory::{
    LayerText, Level, List, MAX_CONTENT, MAX_LISTED, MAX_LOGGED, MemoryVersion, Meta, Prefix, Put, Status,
    Uri, Written,
};
use garth_engine::model::{HistoryPage, Timestamp};
use serde_json::{Value, json};

use self::relate::{Relate, Relations, Unrelate};
use super::open::open_memories as open;
use crate::app::App;
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::out::{author_text, commit_json, message_text};
use crate::size::parse_count;

/// Put, get, list, log, relate, move and delete memories: memories and skills by URI
///
/// A memory is ctx://ACCOUNT/users/USER/memories/CATEGORY/SLUG, the same below agents/AGENT, or
/// ctx://ACCOUNT/agents/AGENT/skills/NAME. Each change is one commit. With --json one object per memory: uri,
/// meta (as in .meta.json); of put also created, changed, seq, near; of get layer, text, version_id.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  garth memory put ctx://default/users/alice/memories/preferences/coffee < coffee.md\n  garth memory get ctx://default/users/alice/memories/preferences/coffee --layer abstract\n  garth memory list ctx://default/users/alice"
)]
pub(crate) struct Memory {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make a memory from standard input, or change it; its layers are made of the text
    #[command(
        after_help = "Example:\n  echo 'Likes it black.' | garth memory put ctx://default/users/alice/memories/preferences/coffee --tag drink"
    )]
    Put(PutArgs),
    /// Print a memory's text, or another of its layers
    #[command(
        visible_alias = "cat",
        after_help = "Example:\n  garth memory get ctx://default/users/alice/memories/profile --layer 1"
    )]
    Get {
        /// Which memory
        uri: Uri,
        /// How much of it: abstract (0), overview (1) or content (2)
        #[arg(long, value_name = "LAYER", default_value = "content")]
        layer: LayerArg,
        #[command(flatten)]
        past: Past,
    },
    /// List the versions of a memory, newest first, also of one that was deleted
    ///
    /// Each has its commit, which --at of `memory get` takes. With --json one object per version: uri,
    /// version_id, commit, deleted, meta.
    #[command(
        after_help = "Example:\n  garth memory log ctx://default/users/alice/memories/profile\n  garth memory get ctx://default/users/alice/memories/profile --at 42"
    )]
    Log {
        /// Which memory
        uri: Uri,
        /// Show at most this many
        #[arg(short = 'n', long, value_name = "COUNT", value_parser = parse_count::<usize>)]
        limit: Option<usize>,
    },
    /// List memories with a URI that begins like this, in the order of their directories
    #[command(
        visible_alias = "ls",
        after_help = "Example:\n  garth memory list ctx://default/users/alice --tag drink"
    )]
    List(ListArgs),
    /// Add tags to a memory, or take some away
    #[command(
        after_help = "Example:\n  garth memory tag ctx://default/users/alice/memories/profile --add vip --remove new"
    )]
    Tag {
        /// Which memory
        uri: Uri,
        /// Add this tag (may be repeated)
        #[arg(long, value_name = "TAG")]
        add: Vec<String>,
        /// Take this tag away (may be repeated)
        #[arg(long, value_name = "TAG")]
        remove: Vec<String>,
    },
    Relate(Relate),
    Unrelate(Unrelate),
    Relations(Relations),
    /// Give a memory another URI; its past and the relations that lead to it go along
    #[command(
        name = "mv",
        visible_alias = "move",
        after_help = "Example:\n  garth memory mv ctx://default/users/alice/memories/events/a ctx://default/users/alice/memories/cases/a"
    )]
    Move {
        /// Which memory
        uri: Uri,
        /// Its new URI
        new_uri: Uri,
    },
    /// Delete a memory, with the relations that lead to it; its past stays
    #[command(
        name = "rm",
        visible_alias = "delete",
        after_help = "Example:\n  garth memory rm ctx://default/users/alice/memories/events/a"
    )]
    Delete {
        /// Which memory
        uri: Uri,
    },
}

#[derive(Args, Debug)]
struct PutArgs {
    /// Which memory
    uri: Uri,
    /// Put a memory without a text if the input is empty
    #[arg(long)]
    allow_empty: bool,
    /// Its abstract, at most 100 characters; the empty text makes it of the content again
    #[arg(long = "abstract", value_name = "TEXT")]
    brief: Option<String>,
    /// Its overview; the empty text makes it of the content again
    #[arg(long, value_name = "TEXT")]
    overview: Option<String>,
    /// Set a tag; replaces all tags of the memory (may be repeated)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// The memory whose place it takes: that one is true until now, or until --valid-from
    #[arg(long, value_name = "URI")]
    replaces: Option<Uri>,
    /// From when on it is true, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time)]
    valid_from: Option<Timestamp>,
    /// Until when it was true, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time)]
    valid_to: Option<Timestamp>,
    /// Fail unless the memory has this version; 0 if it must not be there
    #[arg(long, value_name = "NUMBER")]
    if_version: Option<u64>,
}

#[derive(Args, Debug)]
struct ListArgs {
    /// What their URIs begin with, in whole parts [default: all of the account]
    prefix: Option<String>,
    /// Only of this category
    #[arg(long, value_name = "CATEGORY")]
    category: Option<String>,
    /// Only with this status
    #[arg(long, value_name = "STATUS", value_enum, default_value_t = StatusArg::Active, ignore_case = true)]
    status: StatusArg,
    /// Only with this tag (may be repeated: all of them)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Show at most this many
    #[arg(short = 'n', long, value_name = "COUNT")]
    limit: Option<usize>,
}

/// A layer, by its name or number.
#[derive(Clone, Copy, Debug)]
struct LayerArg(Level);

impl std::str::FromStr for LayerArg {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "0" | "abstract" => Ok(Self(Level::Abstract)),
            "1" | "overview" => Ok(Self(Level::Overview)),
            "2" | "content" => Ok(Self(Level::Content)),
            _ => Err("a layer is abstract, overview or content".to_owned()),
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum StatusArg {
    Active,
    Pending,
    Broken,
}

impl From<StatusArg> for Status {
    fn from(status: StatusArg) -> Self {
        match status {
            StatusArg::Active => Self::Active,
            StatusArg::Pending => Self::Pending,
            StatusArg::Broken => Self::Broken,
        }
    }
}

fn time(text: &str) -> std::result::Result<Timestamp, String> {
    Timestamp::parse_rfc3339(text).map_err(|_| "is no time such as 2026-01-31T12:00:00Z".to_owned())
}

impl Memory {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Put(args) => args.run(app).await,
            Action::Get { uri, layer: LayerArg(level), past } => get(app, &uri, level, &past).await,
            Action::Log { uri, limit } => log(app, &uri, limit).await,
            Action::List(args) => args.run(app).await,
            Action::Tag { uri, add, remove } => {
                if add.is_empty() && remove.is_empty() {
                    return Err(Failure::Usage("say which tags: --add TAG, --remove TAG".to_owned()));
                }
                let open = open(app, true).await?;
                let meta = open.memories().tag(&uri, &add, &remove).await?;
                app.out.item(&item(&uri, &meta), line(&uri, &meta))
            }
            Action::Relate(verb) => verb.run(app).await,
            Action::Unrelate(verb) => verb.run(app).await,
            Action::Relations(verb) => verb.run(app).await,
            Action::Move { uri, new_uri } => {
                let open = open(app, true).await?;
                let seq = open.memories().move_to(&uri, &new_uri).await?;
                let json = json!({"uri": uri.to_string(), "new_uri": new_uri.to_string(), "seq": seq.0});
                app.out.item(&json, format_args!("moved  {uri} -> {new_uri}"))
            }
            Action::Delete { uri } => {
                let open = open(app, true).await?;
                let seq = open.memories().delete(&uri).await?;
                let json = json!({"uri": uri.to_string(), "deleted": true, "seq": seq.0});
                app.out.item(&json, format_args!("deleted  {uri}"))
            }
        }
    }
}

async fn get(app: &mut App, uri: &Uri, level: Level, past: &Past) -> Result {
    let open = open(app, false).await?;
    let memory = match &past.at {
        Some(at) => open.memories().get_at(uri, level, &app.moment(open.fs(), at).await?).await?,
        None => open.memories().get(uri, level).await?,
    };
    if !app.out.is_json() {
        let end = if level == Level::Content { "" } else { "\n" };
        return app.out.bytes(format!("{}{end}", memory.text).as_bytes());
    }
    let json = json!({
        "uri": memory.meta.uri, "layer": level.number(), "text": memory.text,
        "version_id": memory.version.to_string(), "meta": memory.meta,
    });
    app.out.item(&json, "")
}

async fn log(app: &mut App, uri: &Uri, limit: Option<usize>) -> Result {
    let open = open(app, false).await?;
    let memories = open.memories();
    let mut left = limit.unwrap_or(usize::MAX);
    let mut page = HistoryPage::default();
    while left > 0 {
        page.limit = left.min(MAX_LOGGED);
        let versions = memories.log(uri, &page).await?;
        for version in &versions.items {
            app.out.item(&version_json(uri, version), version_line(version))?;
        }
        left -= versions.items.len();
        page.before = versions.items.last().map(|version| version.id);
        if !versions.more {
            break;
        }
    }
    Ok(())
}

fn version_json(uri: &Uri, version: &MemoryVersion) -> Value {
    json!({
        "uri": uri.to_string(), "version_id": version.id.to_string(),
        "commit": commit_json(&version.commit), "deleted": version.deleted, "meta": version.meta,
    })
}

fn version_line(version: &MemoryVersion) -> String {
    let commit = &version.commit;
    let state = match &version.meta {
        Some(meta) => format!("v{} {}", meta.version, meta.status.as_str()),
        None if version.deleted => "deleted".to_owned(),
        None => "unreadable".to_owned(),
    };
    let (seq, time) = (commit.seq.0, commit.time.to_rfc3339());
    let text =
        format!("{seq:<6}  {time}  {}  {state:<12}  {}", author_text(&commit.author), message_text(commit));
    text.trim_end().to_owned()
}

impl PutArgs {
    async fn run(self, app: &mut App) -> Result {
        let open = open(app, true).await?;
        let mut put = Put::new(stdin()?);
        put.allow_empty = self.allow_empty;
        let layer = |text: Option<String>| match text {
            None => LayerText::Keep,
            Some(text) if text.is_empty() => LayerText::Derive,
            Some(text) => LayerText::Given(text),
        };
        (put.brief, put.overview) = (layer(self.brief), layer(self.overview));
        put.tags = (!self.tags.is_empty()).then_some(self.tags);
        (put.replaces, put.if_version) = (self.replaces, self.if_version);
        (put.valid_from, put.valid_to) = (self.valid_from, self.valid_to);
        let written = open.memories().put(&self.uri, &put).await?;
        let done = match &written {
            Written { created: true, .. } => "created",
            Written { seq: Some(_), .. } => "changed",
            _ => "unchanged",
        };
        let mut text = format!("{done}  {}  v{}", self.uri, written.meta.version);
        for near in written.near.iter().flatten() {
            text.push_str(&format!("\nnear     {}  {:.2}", near.uri, near.score));
        }
        app.out.item(&written_json(&self.uri, &written), text)
    }
}

impl ListArgs {
    async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let memories = open.memories();
        let prefix = self.prefix.as_deref().map(|prefix| memories.prefix(prefix)).transpose()?;
        let mut list = List::new(prefix.unwrap_or(Prefix::Account));
        (list.category, list.status, list.tags) = (self.category, self.status.into(), self.tags);
        let mut left = self.limit.unwrap_or(usize::MAX);
        while left > 0 {
            list.limit = left.min(MAX_LISTED);
            let page = memories.list(&list).await?;
            for (uri, meta) in &page.items {
                app.out.item(&item(uri, meta), line(uri, meta))?;
            }
            left -= page.items.len();
            match page.next {
                Some(next) => list.after = Some(next),
                None => break,
            }
        }
        Ok(())
    }
}

fn item(uri: &Uri, meta: &Meta) -> Value {
    json!({"uri": uri.to_string(), "meta": meta})
}

fn line(uri: &Uri, meta: &Meta) -> String {
    let tags = if meta.tags.is_empty() { String::new() } else { format!("  #{}", meta.tags.join(" #")) };
    let ended = meta.valid_to.as_ref().map_or(String::new(), |to| format!("  until {to}"));
    escaped(&format!("v{:<4} {}  {uri}{tags}{ended}", meta.version, meta.updated_at)).to_string()
}

fn written_json(uri: &Uri, written: &Written) -> Value {
    let mut json = written.to_json();
    json.insert("uri".to_owned(), uri.to_string().into());
    json.into()
}

/// The text of a memory, from standard input.
fn stdin() -> Result<String> {
    let mut bytes = Vec::new();
    // one byte more tells what is too long
    let mut stdin = std::io::stdin().lock().take(MAX_CONTENT as u64 + 1);
    stdin.read_to_end(&mut bytes).map_err(Failure::stdio)?;
    String::from_utf8(bytes).map_err(|_| Failure::Usage("the text of a memory is UTF-8".to_owned()))
}
