//! Growth of an account on days of a busy agent, for three retentions: without limits, with the default path
//! classes, and with these and an age of one day.
//!
//! ```sh
//! cargo run --profile prove -p garth-proofs --example busy_day -- 3
//! ```
//!
//! The argument is the number of days (3). Each retention has a data folder of its own, in which the same
//! agent does the same work. The account and its sessions are collected after each session, as a server does
//! in the background, and completely after each day. The clock is moved, so that a day takes as long as its
//! work.
#![allow(clippy::print_stdout, reason = "its purpose is to print figures")]

use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use futures::TryStreamExt as _;
use garth_agent::files::{Edit, Files};
use garth_agent::kv::{self, Kv};
use garth_agent::memory::{self, Memories, Uri};
use garth_agent::outbox::{Options, Worker};
use garth_agent::session::{Append, Collect, Create, Draft, Due, PackOptions, Sessions};
use garth_engine::env::ManualClock;
use garth_engine::model::Timestamp;
use garth_engine::rule::retention::Retention;
use garth_engine::{AccountStore, DataDir, Env, FileSystemExt as _, TreePath};
use garth_testkit::data::conversation::Conversations;
use garth_testkit::data::random::Random;
use garth_testkit::proof::bytes_below;
use serde_json::{Value, json};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;

const ACCOUNT: &str = "default";
const USER: &str = "ann";
const AGENT: &str = "coder";

/// Days, unless the argument says otherwise.
const DAYS: usize = 3;
/// Sessions of a day.
const SESSIONS: usize = 40;
/// Messages of a session, each appended by itself; of 500 bytes on average.
const MESSAGES: usize = 100;
/// Messages of a day. All other work is distributed evenly among them.
const PER_DAY: usize = SESSIONS * MESSAGES;
/// A pack is built after each of this many messages of a session.
const PACK_EVERY: usize = 10;
/// Token budget of a pack.
const PACK_TOKENS: u64 = 32_000;
/// New memories of a day, and how many of them are changed once.
const MEMORIES: usize = 200;
const CHANGED_MEMORIES: usize = 50;
/// Least length of a memory, in bytes.
const MEMORY: usize = 1 << 10;
/// Writes and exact edits of files in a day.
const FILE_CHANGES: usize = 500;
/// Files that are changed in turn: each is written once a day, and otherwise edited.
const FILES: usize = 100;
/// Lengths of these files, in bytes.
const FILE_LENGTHS: Range<usize> = 2 << 10..40 << 10;
/// Least length of the paragraph that an edit replaces, in bytes.
const PARAGRAPH: usize = 400;
/// Values put in a day, and the keys whose values they are in turn.
const PUTS: usize = 2000;
const KEYS: usize = 200;
/// Characters of the text of a value.
const VALUE: usize = 160;

/// 2026-01-27T00:00:00Z.
const START: Timestamp = Timestamp(1_769_472_000_000_000_000);
/// Time from one message to the next: the work of a day takes 16 hours.
const PERIOD: Duration = Duration::from_millis(14_400);
/// Grace period of collections: that of a server.
const GRACE: Duration = Duration::from_secs(600);
/// Collections after a day, a grace period apart: the first refuses new readers of the past, the second
/// removes its rows, the third marks the files that no state shows any more, and the fourth removes them.
const COLLECTIONS: u32 = 4;
/// Time from the last message of a day until these collections: with them, a day has 24 hours.
const NIGHT: Duration = Duration::from_secs(8 * 3600 - 4 * 600);
/// Age of the third retention.
const AGE: Duration = Duration::from_secs(86_400);

/// Seed of the texts.
const SEED: u64 = 20_260_127;
/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let days = match std::env::args().nth(1) {
        Some(days) => days.parse::<usize>()?,
        None => DAYS,
    };
    let set = Conversations::made();
    // Small talk fills the sessions of the set evenly, which leaves out less than a turn of each.
    let turns = set.in_one(days * PER_DAY + set.sessions.len()).turns;
    println!(
        "| retention | day | commits | content | folder | growth | pages | free | WAL | packs | live | \
         history | log | index |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|");
    for kept in [Kept::Everything, Kept::Defaults, Kept::OneDay] {
        measure(kept, &turns, days).await?;
    }
    Ok(())
}

/// Retention that is measured.
#[derive(Clone, Copy, Debug)]
enum Kept {
    /// No limits.
    Everything,
    /// Limits that a new account begins with.
    Defaults,
    /// Default limits, and an age of one day.
    OneDay,
}

impl Kept {
    const fn name(self) -> &'static str {
        match self {
            Self::Everything => "no limits",
            Self::Defaults => "default classes",
            Self::OneDay => "default classes, `--age 1d`",
        }
    }

    /// Sets the retention of a new account.
    async fn set(self, account: &dyn AccountStore) -> Result<()> {
        let retention = match self {
            Self::Everything => Retention::default(),
            Self::Defaults => return Ok(()),
            Self::OneDay => Retention { age: Some(AGE), ..account.retention().await?.set },
        };
        account.set_retention(retention).await?;
        Ok(())
    }
}

/// Prints the size of a new account after each day.
async fn measure(kept: Kept, turns: &[String], days: usize) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (env, clock) = Env::manual(START);
    // Collected by this program alone, at the same times in each run.
    let data = DataDir::builder(garth_agent::registry()).env(env.clone()).collecting(false);
    let data = data.open(folder.path())?;
    data.create_account(ACCOUNT).await?;
    let account = data.account(ACCOUNT).await?;
    kept.set(&*account).await?;
    let texts = turns.iter().map(|turn| text_of(turn)).collect::<Result<Vec<_>>>()?;
    let mut agent = Agent::new(&*account, &env, &texts).await?;
    let mut before = bytes_below(folder.path())?;
    for (day, turns) in turns.chunks(PER_DAY).take(days).enumerate() {
        agent.work(day, turns, &clock).await?;
        clock.advance(NIGHT);
        for _ in 0..COLLECTIONS {
            clock.advance(GRACE);
            account.gc(GRACE).await?;
        }
        before = report(kept, day, &*account, folder.path(), before).await?;
    }
    Ok(())
}

/// Prints the size of an account after a day, in MiB. Returns the bytes of its folder.
async fn report(
    kept: Kept,
    day: usize,
    account: &dyn AccountStore,
    folder: &Path,
    before: u64,
) -> Result<u64> {
    let usage = account.usage(&TreePath::root()).await?;
    let (files, commits) = (bytes_below(folder)?, account.head().await?.seq.0);
    let mib = |bytes: u64| bytes as f64 / MIB;
    let growth = mib(files) - mib(before);
    let sizes =
        [usage.pages, usage.free, usage.wal, usage.packs, usage.live, usage.history, usage.log, usage.index];
    let sizes: String = sizes.iter().map(|bytes| format!(" {:.1} |", mib(*bytes))).collect();
    println!(
        "| {} | {} | {commits} | {:.1} | {:.1} | {growth:+.1} |{sizes}",
        kept.name(),
        day + 1,
        mib(content(account).await?),
        mib(files),
    );
    Ok(files)
}

/// Returns the bytes of the content that the files of an account have now.
async fn content(account: &dyn AccountStore) -> Result<u64> {
    let (mut walk, mut bytes) = (account.walk_all("/"), 0);
    while let Some(item) = walk.try_next().await? {
        bytes += item.entry.filter(|entry| !entry.is_dir()).map_or(0, |entry| entry.size);
    }
    Ok(bytes)
}

/// Returns the text of a turn.
fn text_of(turn: &str) -> Result<String> {
    let turn: Value = serde_json::from_str(turn)?;
    Ok(turn["content"].as_str().ok_or("a turn has no text")?.to_owned())
}

/// Returns the numbers of the actions that come due with a message of a day, of `count` in the day.
fn due(count: usize, message: usize) -> Range<usize> {
    count * message / PER_DAY..count * (message + 1) / PER_DAY
}

/// Agent that works for one user.
struct Agent<'a> {
    account: &'a dyn AccountStore,
    env: Env,
    sessions: Sessions<'a>,
    memories: Memories<'a>,
    values: Kv<'a>,
    files: Files<'a>,
    outbox: Worker,
    random: Random,
    /// Texts that its files and memories consist of.
    texts: &'a [String],
    /// Paragraph of each file that the next edit replaces.
    paragraphs: Vec<String>,
}

impl<'a> Agent<'a> {
    async fn new(account: &'a dyn AccountStore, env: &Env, texts: &'a [String]) -> Result<Self> {
        account.mkdir_all("/projects").await?;
        Ok(Self {
            account,
            env: env.clone(),
            sessions: Sessions::new(account, USER, AGENT)?.env(env.clone()),
            memories: Memories::new(account, ACCOUNT).env(env.clone()),
            values: Kv::new(account, AGENT)?,
            files: Files::new(account),
            outbox: Worker::new(env.clone(), ACCOUNT, Options::default()),
            random: Random::new(SEED),
            texts,
            paragraphs: vec![String::new(); FILES],
        })
    }

    /// Does the work of a day, whose messages are `turns`.
    async fn work(&mut self, day: usize, turns: &[String], clock: &ManualClock) -> Result<()> {
        for (session, turns) in turns.chunks(MESSAGES).enumerate() {
            let name = format!("day{day}-{session}");
            self.sessions.create(&Create::new(name.as_str())).await?;
            for (at, turn) in turns.iter().enumerate() {
                clock.advance(PERIOD);
                self.sessions.append(&name, &Append::messages([Draft::parse(turn)?])).await?;
                if (at + 1).is_multiple_of(PACK_EVERY) {
                    self.sessions.pack(&name, &PackOptions::default().budget(PACK_TOKENS)).await?;
                }
                self.work_beside(day, session * MESSAGES + at).await?;
            }
            // Without a sink, events are finished undelivered.
            self.outbox.run_out(self.account, None).await?;
            self.collect_sessions().await?;
            self.account.gc(GRACE).await?;
        }
        Ok(())
    }

    /// Collects the sessions that are due: their packs are removed a day after they were built. One look
    /// finds all of them, because fewer than 1,000 are due at once.
    async fn collect_sessions(&self) -> Result<()> {
        for one in Due::find(self.account, self.env.now(), None).await?.sessions {
            self.sessions.collect(&one.session, &Collect::default().keep_history()).await?;
        }
        Ok(())
    }

    /// Does the work that comes due with a message of a day, besides the session.
    async fn work_beside(&mut self, day: usize, message: usize) -> Result<()> {
        for memory in due(MEMORIES, message) {
            self.put_memory(day, memory).await?;
        }
        // A memory is changed long after it was put: there are four times as many.
        for memory in due(CHANGED_MEMORIES, message) {
            self.put_memory(day, memory).await?;
        }
        for change in due(FILE_CHANGES, message) {
            self.change_file(day, change).await?;
        }
        for put in due(PUTS, message) {
            self.put_value(day, put).await?;
        }
        Ok(())
    }

    async fn put_memory(&mut self, day: usize, number: usize) -> Result<()> {
        let uri = format!("ctx://{ACCOUNT}/users/{USER}/memories/events/day{day}-{number}");
        let uri: Uri = uri.parse()?;
        let put = memory::Put::new(self.text(MEMORY));
        self.memories.put(&uri, &put).await?;
        Ok(())
    }

    /// Writes a file, or replaces a paragraph of it.
    async fn change_file(&mut self, day: usize, change: usize) -> Result<()> {
        let file = change % FILES;
        let path = format!("/projects/{file}.md");
        // The number makes it unique in its file.
        let paragraph = format!("Change {change} of day {day}: {}", self.text(PARAGRAPH));
        let before = std::mem::replace(&mut self.paragraphs[file], paragraph.clone());
        if change < FILES {
            let choices = (FILE_LENGTHS.end - FILE_LENGTHS.start) as u64;
            let length = FILE_LENGTHS.start + self.random.below(choices) as usize;
            let half = length.saturating_sub(paragraph.len()) / 2;
            let text = [self.text(half), paragraph, self.text(half)].concat();
            self.account.write(path.as_str(), text).await?;
        } else {
            self.files.edit(&path, &Edit::replace(before, paragraph)).await?;
        }
        Ok(())
    }

    async fn put_value(&mut self, day: usize, number: usize) -> Result<()> {
        let note: String = self.text(VALUE).chars().take(VALUE).collect();
        let value = json!({"day": day, "number": number, "note": note});
        let value = serde_json::value::to_raw_value(&value)?;
        let key = format!("/state/{}", number % KEYS);
        self.values.put(&kv::Put::new(&key, &value), None).await?;
        Ok(())
    }

    /// Returns a text of at least `least` bytes, in lines.
    fn text(&mut self, least: usize) -> String {
        let mut text = String::new();
        while text.len() < least {
            text.push_str(&self.random.pick(self.texts));
            text.push('\n');
        }
        text
    }
}
