//! Cost of continuing a session and of packing it for a model, by the number of its messages.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use garth_agent::session::{Append, Create, Draft, PackOptions, Role, Sessions};
use garth_engine::DataDir;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::content::text;
use crate::figures::Figures;
use crate::size::Size;

/// Messages of sessions, by the name of the figure.
const SESSIONS: [(&str, usize); 4] =
    [("short", 10), ("middle", 1_000), ("long", 100_000), ("longest", 1_000_000)];
/// Number of identical tool outputs, the size of one in bytes, and the number of outputs per append.
const OUTPUTS: usize = 1_000;
const OUTPUT: usize = 1 << 20;
const AT_ONCE: usize = 8;
/// Size of a message, in bytes.
const MESSAGE: usize = 1024;
/// Appends of one repetition.
const APPENDS: usize = 50;
/// Packs of one repetition.
const PACKS: usize = 10;
/// Token budget of a pack.
const BUDGET: u64 = 32_000;

fn message(n: usize) -> Draft {
    let said = String::from_utf8_lossy(&text(n as u64)[..MESSAGE]).into_owned();
    if n % 2 == 0 { Draft::user(said) } else { Draft::assistant(said) }
}

/// Appends `messages` messages.
pub(crate) async fn fill(sessions: &Sessions<'_>, session: &str, messages: usize) -> Result<()> {
    for first in (0..messages).step_by(1_000) {
        let drafts = (first..messages.min(first + 1_000)).map(message);
        sessions.append(session, &Append::messages(drafts)).await?;
    }
    Ok(())
}

pub(crate) async fn sessions(folder: &Path, size: Size, runs: usize) -> Result<Figures> {
    let data = garth::builder().open(folder)?;
    data.create_account("sessions").await?;
    let account = data.account("sessions").await?;
    let sessions = Sessions::new(&*account, "ann", "coder")?;
    for (name, messages) in SESSIONS {
        sessions.create(&Create::new(name)).await?;
        fill(&sessions, name, size.of(messages, messages.min(1_000))).await?;
    }
    let mut figures = Figures::default();
    figures.add("repeats", repeated(&data, folder, size).await? as f64);
    let mut options = PackOptions::default();
    options.budget = Some(BUDGET);
    for run in 0..runs {
        for (name, _) in SESSIONS {
            // The order of an SDK: it packs, then appends.
            let packed = sessions.pack(name, &options).await?;
            ensure!(packed.pack.tokens <= BUDGET, "it fits");
            let start = Instant::now();
            for n in 0..APPENDS {
                sessions.append(name, &Append::messages([message(run * APPENDS + n)])).await?;
            }
            figures.time(&format!("append {name}"), start.elapsed(), APPENDS);
            let mut fresh = options.clone();
            (fresh.fresh, fresh.dry) = (true, true);
            for (how, options) in [("pack", &options), ("fresh", &fresh)] {
                let mut dry = options.clone();
                dry.dry = true;
                let start = Instant::now();
                for _ in 0..PACKS {
                    ensure!(sessions.pack(name, &dry).await?.pack.tokens <= BUDGET, "it fits");
                }
                figures.time(&format!("{how} {name}"), start.elapsed(), PACKS);
            }
        }
    }
    Ok(figures)
}

/// Returns the bytes of content stored for repeated identical tool outputs, without the index.
async fn repeated(data: &DataDir, folder: &Path, size: Size) -> Result<u64> {
    data.create_account("repeats").await?;
    let account = data.account("repeats").await?;
    let sessions = Sessions::new(&*account, "ann", "coder")?;
    sessions.create(&Create::new("work")).await?;
    let output: Vec<u8> = (0..).flat_map(text).take(OUTPUT).collect();
    let output = String::from_utf8(output)?;
    let outputs = size.of(OUTPUTS, 50);
    for first in (0..outputs).step_by(AT_ONCE) {
        let mut said = Vec::new();
        for n in first..outputs.min(first + AT_ONCE) {
            let id = format!("call-{n}");
            let call = json!([{"type": "tool_call", "id": id, "name": "cat", "arguments": {}}]);
            let result = json!([{"type": "tool_result", "call_id": id, "content": output}]);
            said.push(Draft::message(Role::Assistant, &call));
            said.push(Draft::message(Role::Tool, &result));
        }
        sessions.append("work", &Append::messages(said)).await?;
    }
    let database = folder.join("accounts").join(account_folder(data, "repeats").await?).join("tree.db");
    let database = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    Ok(database.query_row("SELECT sum(len) FROM chunk", [], |row| row.get(0))?)
}

/// Returns the name of an account's folder.
async fn account_folder(data: &DataDir, account: &str) -> Result<String> {
    let accounts = data.control().accounts_after("", 10).await?;
    let found = accounts.into_iter().find(|one| one.id == account);
    Ok(found.context("the account is there")?.folder)
}
