//! `garth memory`: memories and skills by URI. Writes are atomic: a reader sees a complete memory or none.

mod address;
mod link;

use clap::{Args, Subcommand, ValueEnum};
use garth_agent::memory::{
    LayerText, Level, List, MAX_CONTENT, MAX_LISTED, MAX_LOGGED, MemoryVersion, Meta, Prefix, Put, Status,
    Uri, Written,
};
use garth_engine::model::{HistoryPage, Timestamp};
use serde_json::{Value, json};

pub(crate) use self::address::MemoryArg;
use self::address::{ListPrefix, list_prefix};
use self::link::{Link, Links, Unlink};
use super::open::open_memories as open;
use crate::app::App;
use crate::args::Past;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::host_text::argument_or_stdin;
use crate::out::{author_text, commit_json, message_text};
use crate::size::parse_count;

/// Store, read, list and link memories of users and agents
///
/// A memory is addressed by its URI, ctx://ACCOUNT/users/USER/memories/CATEGORY/SLUG (the same below
/// agents/AGENT), or by CATEGORY/SLUG alone. Then its owner is the user of --user, else the agent of --agent,
/// else the user of GARTH_USER, else the owner of the agent. The category profile has no slug. A
/// published skill is ctx://ACCOUNT/agents/AGENT/skills/NAME. Each change is one commit.
///
/// With --json, prints one object per memory: uri, meta (as in .meta.json); of put also created, changed,
/// seq, near; of get layer, text, version_id.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth memory put --user alice preferences/coffee 'Likes it black.'\n  \
        garth memory get --user alice preferences/coffee\n  \
        garth memory list --user alice\n  \
        garth memory get ctx://default/users/alice/memories/profile --layer abstract")]
pub(crate) struct Memory {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Store a memory, or replace its text; abstract and overview are derived from the text
    ///
    /// Prints up to 5 possible duplicates: current memories of the same owner that contain at least 70% of
    /// the weighted words of the first sentence.
    #[command(after_help = "Examples:\n  \
        garth memory put --user alice preferences/coffee 'Likes it black.' --tag drink\n  \
        garth memory put --user alice profile < profile.md")]
    Put(PutArgs),
    /// Print the text of a memory, or another layer
    #[command(
        alias = "cat",
        after_help = "Examples:\n  \
        garth memory get --user alice preferences/coffee\n  \
        garth memory get ctx://default/users/alice/memories/profile --layer overview"
    )]
    Get {
        /// Memory
        #[arg(value_name = "URI|CATEGORY/SLUG")]
        memory: MemoryArg,
        /// Layer: abstract (0), overview (1) or content (2)
        #[arg(long, value_name = "LAYER", default_value = "content")]
        layer: LayerArg,
        #[command(flatten)]
        past: Past,
    },
    /// List memories below a URI or of a category, in the order of their directories
    ///
    /// Without a prefix, lists all memories of the user of --user or GARTH_USER, or of the agent of --agent.
    /// Without these options, lists all memories of the account.
    #[command(
        alias = "ls",
        after_help = "Examples:\n  \
        garth memory list --user alice\n  \
        garth memory list --user alice preferences --tag drink\n  \
        garth memory list ctx://default/users"
    )]
    List(ListArgs),
    /// List the versions of a memory, newest first, also after its removal
    ///
    /// `garth memory get --at` takes the commit of a version. With --json, prints one object per version:
    /// uri, version_id, commit, deleted, meta.
    #[command(after_help = "Examples:\n  \
        garth memory log --user alice profile\n  \
        garth memory get --user alice profile --at 42")]
    Log {
        /// Memory
        #[arg(value_name = "URI|CATEGORY/SLUG")]
        memory: MemoryArg,
        /// Maximum number of versions
        #[arg(short = 'n', long, value_name = "COUNT", value_parser = parse_count::<usize>)]
        limit: Option<usize>,
    },
    /// Add tags to a memory, or remove some
    #[command(after_help = "Example:\n  garth memory tag --user alice profile --add vip --rm new")]
    Tag {
        /// Memory
        #[arg(value_name = "URI|CATEGORY/SLUG")]
        memory: MemoryArg,
        /// Tag to add (repeatable)
        #[arg(long, value_name = "TAG")]
        add: Vec<String>,
        /// Tag to remove (repeatable)
        #[arg(long, value_name = "TAG")]
        rm: Vec<String>,
    },
    Link(Link),
    Unlink(Unlink),
    Links(Links),
    /// Move a memory to another URI; its past and the links to it move along
    #[command(
        name = "mv",
        alias = "move",
        after_help = "Examples:\n  \
        garth memory mv --user alice events/a cases/a\n  \
        garth memory mv --agent scout cases/a ctx://default/users/alice/memories/events/a"
    )]
    Mv {
        /// Memory
        #[arg(value_name = "URI|CATEGORY/SLUG")]
        memory: MemoryArg,
        /// New URI
        #[arg(value_name = "NEW-URI|CATEGORY/SLUG")]
        to: MemoryArg,
    },
    /// Remove a memory and the links to it; its history stays
    #[command(
        name = "rm",
        alias = "delete",
        after_help = "Example:\n  garth memory rm --user alice events/a"
    )]
    Rm {
        /// Memory
        #[arg(value_name = "URI|CATEGORY/SLUG")]
        memory: MemoryArg,
    },
    /// Check whether a memory exists; exit with 3 if not
    ///
    /// With --json, prints one object: uri, exists.
    #[command(after_help = "Example:\n  garth memory exists --user alice profile && echo known")]
    Exists {
        /// Memory
        #[arg(value_name = "URI|CATEGORY/SLUG")]
        memory: MemoryArg,
    },
}

#[derive(Args, Debug)]
struct PutArgs {
    /// Memory
    #[arg(value_name = "URI|CATEGORY/SLUG")]
    memory: MemoryArg,
    /// Text; - or nothing reads standard input
    text: Option<String>,
    /// Store a memory without text if the input is empty
    #[arg(long)]
    allow_empty: bool,
    /// Abstract, at most 100 characters; an empty text derives it from the content again
    #[arg(long = "abstract", value_name = "TEXT")]
    brief: Option<String>,
    /// Overview; an empty text derives it from the content again
    #[arg(long, value_name = "TEXT")]
    overview: Option<String>,
    /// Set a tag; replaces all tags of the memory (repeatable)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Memory that this one replaces: it is valid until now, or until --valid-from
    #[arg(long, value_name = "URI|CATEGORY/SLUG")]
    replaces: Option<MemoryArg>,
    /// Start of validity, RFC 3339
    #[arg(long, value_name = "TIME", value_parser = time)]
    valid_from: Option<Timestamp>,
    /// End of validity, RFC 3339; any time after 2262-04-11 means that day
    #[arg(long, value_name = "TIME", value_parser = end_time)]
    valid_to: Option<Timestamp>,
    /// Fail unless the memory has this version; 0 means that it must not exist
    #[arg(long, value_name = "NUMBER")]
    if_version: Option<u64>,
}

#[derive(Args, Debug)]
struct ListArgs {
    /// Beginning of the URIs, in complete segments, or a category
    #[arg(value_name = "URI|CATEGORY")]
    prefix: Option<String>,
    /// List only memories of this category
    #[arg(long, value_name = "CATEGORY")]
    category: Option<String>,
    /// List only memories with this status
    #[arg(long, value_name = "STATUS", value_enum, default_value_t = StatusArg::Active, ignore_case = true)]
    status: StatusArg,
    /// List only memories with this tag (repeatable: all must match)
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
    /// Maximum number of memories
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = parse_count::<usize>)]
    limit: Option<usize>,
}

/// Layer, by name or number.
#[derive(Clone, Copy, Debug)]
struct LayerArg(Level);

impl std::str::FromStr for LayerArg {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text {
            "0" | "abstract" => Ok(Self(Level::Abstract)),
            "1" | "overview" => Ok(Self(Level::Overview)),
            "2" | "content" => Ok(Self(Level::Content)),
            _ => Err("a layer must be abstract, overview or content".to_owned()),
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
    Timestamp::parse_rfc3339(text).map_err(|error| error.message().to_owned())
}

fn end_time(text: &str) -> std::result::Result<Timestamp, String> {
    Timestamp::parse_rfc3339_end(text).map_err(|error| error.message().to_owned())
}

impl Memory {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Put(args) => args.run(app).await,
            Action::Get { memory, layer: LayerArg(level), past } => {
                let uri = memory.uri(app).await?;
                get(app, &uri, level, &past).await
            }
            Action::List(args) => args.run(app).await,
            Action::Log { memory, limit } => {
                let uri = memory.uri(app).await?;
                log(app, &uri, limit).await
            }
            Action::Tag { memory, add, rm } => {
                if add.is_empty() && rm.is_empty() {
                    return Err(Failure::Usage("name the tags: --add TAG, --rm TAG".to_owned()));
                }
                let uri = memory.uri(app).await?;
                let meta = open(app, true).await?.memories().tag(&uri, &add, &rm).await?;
                app.out.item(&item(&uri, &meta), line(&uri, &meta))
            }
            Action::Link(verb) => verb.run(app).await,
            Action::Unlink(verb) => verb.run(app).await,
            Action::Links(verb) => verb.run(app).await,
            Action::Mv { memory, to } => {
                let (uri, new_uri) = (memory.uri(app).await?, to.uri(app).await?);
                let seq = open(app, true).await?.memories().move_to(&uri, &new_uri).await?;
                let json = json!({"uri": uri.to_string(), "new_uri": new_uri.to_string(), "seq": seq.0});
                app.out.item(&json, escaped(&format!("moved  {uri} -> {new_uri}")))
            }
            Action::Rm { memory } => {
                let uri = memory.uri(app).await?;
                let seq = open(app, true).await?.memories().delete(&uri).await?;
                let json = json!({"uri": uri.to_string(), "deleted": true, "seq": seq.0});
                app.out.item(&json, escaped(&format!("removed  {uri}")))
            }
            Action::Exists { memory } => {
                let uri = memory.uri(app).await?;
                let exists = open(app, false).await?.memories().exists(&uri).await?;
                let text = if exists { "exists" } else { "missing" };
                app.out.item(
                    &json!({"uri": uri.to_string(), "exists": exists}),
                    escaped(&format!("{text}  {uri}")),
                )?;
                // The output already says that it is missing, so only the exit code remains.
                if exists { Ok(()) } else { Err(Failure::Reported(3)) }
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
        // The content is printed as stored; the other layers are lines.
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
        // More versions than one call returns are read page by page.
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
        // Its meta is damaged, or retention has removed the content.
        None => "unreadable".to_owned(),
    };
    let (seq, time) = (commit.seq.0, commit.time.to_rfc3339());
    let text =
        format!("{seq:<6}  {time}  {}  {state:<12}  {}", author_text(&commit.author), message_text(commit));
    text.trim_end().to_owned()
}

impl PutArgs {
    async fn run(self, app: &mut App) -> Result {
        let uri = self.memory.uri(app).await?;
        let replaces = match &self.replaces {
            Some(replaced) => Some(replaced.uri(app).await?),
            None => None,
        };
        // Read before the data is opened: invalid input must not leave a new data folder behind.
        let text = argument_or_stdin(self.text, MAX_CONTENT, "text of a memory")?;
        if text.trim().is_empty() && !self.allow_empty {
            return Err(Failure::Usage("the text is empty; --allow-empty stores it".to_owned()));
        }
        let mut put = Put::new(text);
        let open = open(app, true).await?;
        put.allow_empty = self.allow_empty;
        let layer = |text: Option<String>| match text {
            None => LayerText::Keep,
            Some(text) if text.is_empty() => LayerText::Derive,
            Some(text) => LayerText::Given(text),
        };
        (put.brief, put.overview) = (layer(self.brief), layer(self.overview));
        put.tags = (!self.tags.is_empty()).then_some(self.tags);
        (put.replaces, put.if_version) = (replaces, self.if_version);
        (put.valid_from, put.valid_to) = (self.valid_from, self.valid_to);
        let written = open.memories().put(&uri, &put).await?;
        let done = match &written {
            Written { created: true, .. } => "created",
            Written { seq: Some(_), .. } => "changed",
            _ => "unchanged",
        };
        let mut text = format!("{done}  {}  v{}", escaped(&uri.to_string()), written.meta.version);
        for near in written.near.iter().flatten() {
            text.push_str(&format!("\nnear     {}  {:.2}", escaped(&near.uri.to_string()), near.score));
        }
        app.out.item(&written_json(&uri, &written), text)
    }
}

impl ListArgs {
    async fn run(self, app: &mut App) -> Result {
        let prefix = list_prefix(app, self.prefix.as_deref()).await?;
        let open = open(app, false).await?;
        let memories = open.memories();
        let prefix = match &prefix {
            ListPrefix::Uri(uri) => memories.prefix(uri)?,
            ListPrefix::Below(dir) => Prefix::Below(dir.clone()),
            ListPrefix::Account => Prefix::Account,
        };
        let mut list = List::new(prefix);
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
