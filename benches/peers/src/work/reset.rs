//! What a reset of a long session costs: its archive has all that was said, and is made in bounded memory.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use garth::agent::session::{Create, SessionKey, Sessions};
use garth::agent::workspace::{Reset, Workspace};
use garth::{DataDir, Env, FileSystemExt as _};

use super::sessions::fill;
use crate::figures::Figures;
use crate::size::Size;

/// Messages of the session.
const MESSAGES: usize = 100_000;

pub(crate) async fn reset(folder: &Path, size: Size) -> Result<Figures> {
    let data = DataDir::open(folder, Env::system())?;
    data.create_account("reset").await?;
    let account = data.account("reset").await?;
    let sessions = Sessions::new(&*account, "ann", "coder", Env::system())?;
    let key: SessionKey = "agent:coder:main".parse()?;
    sessions.create(&Create::new("work").key(key)).await?;
    let messages = size.of(MESSAGES, 1_000);
    fill(&sessions, "work", messages).await?;
    // the peak memory that the run tells is that of the reset
    std::fs::write("/proc/self/clear_refs", "5").context("needs Linux")?;
    let start = Instant::now();
    let workspace = Workspace::new(&*account, "coder", Env::system())?;
    let done = workspace.reset("ann", "work", &Reset::default()).await?.context("it is open")?;
    let mut figures = Figures::default();
    figures.time("reset", start.elapsed(), 1);
    ensure!(done.messages == messages as u64, "all of them are in the archive");
    let archive = done.archive.context("there is an archive")?;
    figures.add("archive", account.entry(&archive).await?.size as f64);
    Ok(figures)
}
