//! Cost of resetting a long session: its archive has all messages, and is written in bounded memory.

use std::path::Path;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use garth_agent::session::{Create, SessionKey, Sessions};
use garth_agent::workspace::{Reset, Workspace};
use garth_engine::{ErrorKind, FileSystem, FileSystemExt as _};

use super::sessions::fill;
use crate::figures::Figures;
use crate::size::Size;

/// Messages of the session.
const MESSAGES: usize = 100_000;

/// The first process that runs in a folder writes the session and the next one resets it, so that its peak
/// memory is that of the reset alone.
pub(crate) async fn reset(folder: &Path, size: Size) -> Result<Figures> {
    let (data, messages) = (garth::builder().open(folder)?, size.of(MESSAGES, 1_000));
    let mut figures = Figures::default();
    let account = match data.account("reset").await {
        Err(error) if error.is(ErrorKind::NotFound) => {
            data.create_account("reset").await?;
            write(&*data.account("reset").await?, messages).await?;
            return Ok(figures);
        }
        account => account?,
    };
    let start = Instant::now();
    let workspace = Workspace::new(&*account, "coder")?;
    let done = workspace.reset("ann", "work", &Reset::default()).await?.context("it is open")?;
    figures.time("reset", start.elapsed(), 1);
    ensure!(done.messages == messages as u64, "all of them are in the archive");
    let archive = done.archive.context("there is an archive")?;
    figures.add("archive", account.entry(&archive).await?.size as f64);
    Ok(figures)
}

async fn write(account: &dyn FileSystem, messages: usize) -> Result<()> {
    let sessions = Sessions::new(account, "ann", "coder")?;
    let key: SessionKey = "agent:coder:main".parse()?;
    sessions.create(&Create::new("work").key(key)).await?;
    fill(&sessions, "work", messages).await
}
