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
use garth_engine::fs::store::RetentionState;
use garth_engine::home::{AccountState, KeyOwner, StoredSize};
use garth_engine::model::quota::Quota;
use garth_engine::model::{Kind, Page};
use garth_engine::{AccountStore, FileSystem, Home, TreePath};
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

/// Limit on the quotas that are named because they are used up.
const MAX_FULL: usize = 3;

/// Free bytes of the disk below which `attention` has a line: the default of `min_free_disk`.
const LITTLE_DISK: u64 = 64 << 20;

/// Default address of `garth serve`.
const SERVER: ([u8; 4], u16) = ([127, 0, 0, 1], 8787);

/// Time limit for the answer of a server.
const PATIENCE: Duration = Duration::from_millis(300);

/// Show an overview of the data folder and the account: contents, size, and what needs attention
///
/// Counts end at 1,000 (`1000+`). `size` is that of the database files; package files of large contents are
/// only counted. `stored` is what the limit of `garth retention` counts, with that limit: free pages and the
/// write-ahead log are not part of it. The server is looked for at 127.0.0.1:8787; it may serve another data
/// folder. `garth fsck` checks the stored data.
///
/// With --json, prints one object: data, accounts, account, seq, time, bytes, packs, agents, users, chats,
/// keys, quotas, oldest (the first commit whose state is readable; 0 if all are), stored (the stored bytes),
/// max_stored (the limit on them, or null), full (true if that limit refuses writes), full_quotas (the paths
/// whose quotas are used up), disk_free (free bytes on the disk of the data folder, or null), agent, user,
/// waiting_events, failed_events, next_job, broken_memories, server, version. Each count is an object: count,
/// and more (true if it is higher).
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
        let home = app.home().await?;
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
        let room = Room::of(&*home, &*account).await?;
        let dirs = async |dir: &str| directories_in(&*account, dir).await;
        let (agents, users, chats) = (dirs("/agents").await?, dirs("/users").await?, dirs("/chats").await?);
        let attention = Attention::of(app, &*account).await?;
        let server = server();
        let (time, user) = (head.time.to_rfc3339(), user_variable());
        let mut json = json!({
            "data": home.place(), "accounts": accounts.json(), "account": name,
            "seq": head.seq, "time": (head.seq.0 > 0).then_some(&time), "bytes": bytes, "packs": packs.json(),
            "agents": agents.json(), "users": users.json(), "chats": chats.json(), "keys": keys,
            "agent": app.global.agent, "user": user, "server": server,
            "version": env!("CARGO_PKG_VERSION"),
        });
        room.add_to(&mut json);
        attention.add_to(&mut json);
        let last =
            if head.seq.0 > 0 { format!(", the last at {}", seconds(head.time)) } else { String::new() };
        let packs = if packs.count > 0 { format!(", {} pack files", packs.text()) } else { String::new() };
        let text = format!(
            "data       {}\naccount    {} (1 of {})\ncommits    {}{last}{}\nsize       {}{packs}\nstored     {}\n\
             contents   {} agents, {} users, {} chats\naccess     {keys} API keys, {} quotas\nagent      {}\n\
             user       {}\nserver     {}\noutbox     {} waiting events\nattention  {}",
            escaped(&home.place()),
            escaped_account(&name),
            accounts.text(),
            head.seq,
            room.oldest_text(),
            size_text(bytes, true),
            room.stored_text(),
            agents.text(),
            users.text(),
            chats.text(),
            room.quotas.len(),
            one_line(&app.global.agent),
            user.as_deref().map_or_else(|| "the owner of the agent".to_owned(), one_line),
            server.as_deref().unwrap_or("none at 127.0.0.1:8787"),
            attention.waiting.text(),
            attention.text(room.attention())
        );
        app.out.item(&json, text)
    }
}

/// Limits on what the account stores, and the use of them.
struct Room {
    retention: RetentionState,
    quotas: Vec<Quota>,
    /// Free bytes on the disk of the data folder; `None` if that is unknown.
    disk_free: Option<u64>,
}

impl Room {
    async fn of(home: &dyn Home, account: &dyn AccountStore) -> Result<Self> {
        Ok(Self {
            retention: account.retention().await?,
            quotas: account.quotas().await?,
            disk_free: home.free_space().await?,
        })
    }

    /// Returns the paths whose quotas are used up.
    fn full_quotas(&self) -> Vec<&str> {
        let reached = |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used >= limit);
        let is_full = |quota: &&Quota| {
            reached(quota.used.bytes, quota.limits.bytes) || reached(quota.used.entries, quota.limits.entries)
        };
        self.quotas.iter().filter(is_full).map(|quota| quota.path.as_str()).collect()
    }

    fn add_to(&self, json: &mut Value) {
        json["quotas"] = self.quotas.len().into();
        json["oldest"] = json!(self.retention.oldest);
        json["stored"] = self.retention.stored.into();
        json["max_stored"] = json!(self.retention.set.stored);
        json["full"] = self.retention.full.into();
        json["full_quotas"] = json!(self.full_quotas());
        json["disk_free"] = json!(self.disk_free);
    }

    fn oldest_text(&self) -> String {
        match self.retention.oldest.0 {
            0 => String::new(),
            oldest => format!("; readable from {oldest} on"),
        }
    }

    fn stored_text(&self) -> String {
        let stored = size_text(self.retention.stored, true);
        match self.retention.set.stored {
            Some(limit) => format!("{stored} of {}", size_text(limit, true)),
            None => format!("{stored}, no limit"),
        }
    }

    /// Returns what is used up, with what to do, as lines.
    fn attention(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.disk_free.and_then(little_disk).into_iter().collect();
        if self.retention.full {
            let advice = "remove what takes the space (garth usage -h) and collect (garth gc), or raise the limit \
                          (garth retention set --max-stored SIZE)";
            lines.push(format!("full: writes are refused; {advice}"));
        }
        let full = self.full_quotas();
        for path in full.iter().take(MAX_FULL) {
            let path = escaped(path);
            lines.push(format!(
                "the quota of {path} is used up: writes that add to it are refused (garth quota list)"
            ));
        }
        if full.len() > MAX_FULL {
            lines.push(format!("{} more quotas are used up", full.len() - MAX_FULL));
        }
        lines
    }
}

/// Returns the line about a disk with `free` free bytes; `None` if that is enough.
fn little_disk(free: u64) -> Option<String> {
    let advice = "free space outside of the data folder, or extend the disk: on a full disk, garth rm and garth gc \
                  fail, too";
    (free < LITTLE_DISK).then(|| format!("the disk has {} left; {advice}", size_text(free, true)))
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

    /// Returns what needs attention as lines, those of `parts` first.
    fn text(&self, mut parts: Vec<String>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_free_space_needs_attention() {
        assert_eq!(little_disk(LITTLE_DISK), None);
        let line = little_disk(3 << 20).unwrap();
        assert!(line.starts_with("the disk has 3.0M left; free space outside of the data folder"), "{line}");
        assert!(little_disk(0).is_some());
    }
}
