//! `garth status`: an overview of the data folder and the account. Each figure comes from a counter, a file
//! size or a bounded count, so that the cost does not grow with the data.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use clap::Args;
use garth_agent::memory::{List, Prefix, Status as MemoryStatus};
use garth_agent::outbox::counters;
use garth_agent::workspace::next_job;
use garth_engine::error::OptionalExt as _;
use garth_engine::home::{AccountState, KeyOwner, StoredSize};
use garth_engine::model::{Kind, Page};
use garth_engine::{AccountStore, FileSystem, TreePath};
use serde_json::{Value, json};

use crate::app::App;
use crate::args::user_variable;
use crate::escape::{escaped, escaped_account, one_line};
use crate::fail::Result;
use crate::out::seconds;
use crate::size::size_text;
use crate::verb::open::open_memories;

/// Limit on the entries of each count.
const MAX_COUNTED: usize = 1_000;

/// Default address of `garth serve`.
const SERVER: ([u8; 4], u16) = ([127, 0, 0, 1], 8787);

/// Time limit for the answer of a server.
const PATIENCE: Duration = Duration::from_millis(300);

/// Show an overview of the data folder and the account: contents, size, and what needs attention
///
/// Counts end at 1,000 (`1000+`). Sizes are those of the database files; package files of large contents are
/// only counted. The server is looked for at 127.0.0.1:8787; it may serve another data folder. `garth fsck`
/// checks the stored data.
///
/// With --json, prints one object: data, accounts, account, seq, time, bytes, packs, agents, users, chats,
/// keys, quotas, oldest (the first commit whose state is readable; 0 if all are), max_stored (the limit on
/// the stored bytes, or null), agent, user, waiting_events, failed_events, next_job, broken_memories, server,
/// version. Each count is an object: count, and more (true if it is higher).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth status")]
pub(crate) struct Status {}

/// Count, and true if there are more.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    count: usize,
    more: bool,
}

impl Counted {
    fn json(self) -> Value {
        json!({"count": self.count, "more": self.more})
    }

    fn text(self) -> String {
        format!("{}{}", self.count, if self.more { "+" } else { "" })
    }
}

impl Status {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("status")?;
        let home = app.home()?;
        let name = app.global.account.clone();
        let account = app.account_of(&*home).await?;
        let head = account.head().await?;
        app.warn_of_clock(&name, &head);
        // One more shows that there are more.
        let all = home.accounts("", MAX_COUNTED + 1).await?;
        let accounts = Counted {
            count: all.iter().filter(|one| one.state == AccountState::Active).count().min(MAX_COUNTED),
            more: all.len() > MAX_COUNTED,
        };
        let StoredSize { bytes, packs, more_packs } = home.size(&home.account(&name).await?).await?;
        let packs = Counted { count: packs, more: more_packs };
        let keys = home.count_keys(&KeyOwner::named(&name)).await?;
        let quotas = account.quotas().await?.len();
        let retention = account.retention().await?;
        let dirs = async |dir: &str| directories_in(&*account, dir).await;
        let (agents, users, chats) = (dirs("/agents").await?, dirs("/users").await?, dirs("/chats").await?);
        let attention = Attention::of(app, &*account).await?;
        let server = server();
        let (time, user) = (head.time.to_rfc3339(), user_variable());
        let mut json = json!({
            "data": home.place(), "accounts": accounts.json(), "account": name,
            "seq": head.seq, "time": (head.seq.0 > 0).then_some(&time), "bytes": bytes, "packs": packs.json(),
            "agents": agents.json(), "users": users.json(), "chats": chats.json(), "keys": keys,
            "quotas": quotas, "oldest": retention.oldest, "max_stored": retention.set.stored,
            "agent": app.global.agent, "user": user, "server": server,
            "version": env!("CARGO_PKG_VERSION"),
        });
        attention.add_to(&mut json);
        let last =
            if head.seq.0 > 0 { format!(", the last at {}", seconds(head.time)) } else { String::new() };
        let packs = if packs.count > 0 { format!(", {} pack files", packs.text()) } else { String::new() };
        let oldest = match retention.oldest.0 {
            0 => String::new(),
            oldest => format!("; readable from {oldest} on"),
        };
        let text = format!(
            "data       {}\naccount    {} (1 of {})\ncommits    {}{last}{oldest}\nsize       {}{packs}\n\
             contents   {} agents, {} users, {} chats\naccess     {keys} API keys, {quotas} quotas\nagent      {}\n\
             user       {}\nserver     {}\noutbox     {} waiting events\nattention  {}",
            escaped(&home.place()),
            escaped_account(&name),
            accounts.text(),
            head.seq,
            size_text(bytes, true),
            agents.text(),
            users.text(),
            chats.text(),
            one_line(&app.global.agent),
            user.as_deref().map_or_else(|| "the owner of the agent".to_owned(), one_line),
            server.as_deref().unwrap_or("none at 127.0.0.1:8787"),
            attention.waiting.text(),
            attention.text()
        );
        app.out.item(&json, text)
    }
}

/// Figures that may need action.
struct Attention {
    waiting: Counted,
    failed: Counted,
    broken: Counted,
    next_job: Option<String>,
}

impl Attention {
    async fn of(app: &App, account: &dyn AccountStore) -> Result<Self> {
        let events = counters(account).await?;
        let counted = |of: garth_agent::outbox::Count| Counted { count: of.events, more: of.more };
        let mut broken = List::new(Prefix::Account);
        broken.status = MemoryStatus::Broken;
        let found = open_memories(app, false).await?.memories().list(&broken).await?;
        Ok(Self {
            waiting: counted(events.waiting),
            failed: counted(events.failed),
            broken: Counted { count: found.items.len(), more: found.next.is_some() },
            next_job: next_job(account).await?.map(garth_engine::model::Timestamp::to_rfc3339),
        })
    }

    fn add_to(&self, json: &mut Value) {
        json["waiting_events"] = self.waiting.json();
        json["failed_events"] = self.failed.json();
        json["broken_memories"] = self.broken.json();
        json["next_job"] = json!(self.next_job);
    }

    fn text(&self) -> String {
        let mut parts = Vec::new();
        if self.failed.count > 0 {
            parts.push(format!("{} failed events (garth outbox list --failed)", self.failed.text()));
        }
        if self.broken.count > 0 {
            parts.push(format!("{} broken memories (garth repair --dry-run)", self.broken.text()));
        }
        if let Some(at) = &self.next_job {
            parts.push(format!("a job that waits for a model, due at {at} (garth daily jobs)"));
        }
        if parts.is_empty() { "nothing".to_owned() } else { parts.join("\n           ") }
    }
}

async fn directories_in(fs: &dyn FileSystem, dir: &str) -> Result<Counted> {
    let page = Page::default().limit(MAX_COUNTED);
    let listing = fs.list(&TreePath::parse(dir)?.into(), &page).await.optional()?;
    Ok(listing.map_or_else(Counted::default, |listing| Counted {
        count: listing.items.iter().filter(|item| item.kind == Kind::Directory).count(),
        more: listing.more,
    }))
}

/// Returns the URL of a garth server that answers at the default address.
fn server() -> Option<String> {
    let address = SocketAddr::from(SERVER);
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    stream
        .write_all(
            format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").as_bytes(),
        )
        .ok()?;
    let mut answer = Vec::new();
    // An incomplete answer is enough, so errors and the timeout are ignored.
    drop(stream.take(4096).read_to_end(&mut answer));
    String::from_utf8_lossy(&answer).contains(r#"{"ok":true}"#).then(|| format!("http://{address}"))
}
