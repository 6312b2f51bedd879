//! What it costs to go on with a session, and to pack it for a model, by how much was said in it.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use garth::agent::session::{Append, Create, Draft, PackOptions, Sessions};
use garth::{DataDir, Env};

use super::content::text;
use crate::figures::Figures;
use crate::size::Size;

/// Messages of sessions, by the name of the figure.
const SESSIONS: [(&str, usize); 3] = [("short", 10), ("middle", 1_000), ("long", 100_000)];
/// Bytes of a message.
const MESSAGE: usize = 1024;
/// Appends of one repetition.
const APPENDS: usize = 50;
/// Packs of one repetition.
const PACKS: usize = 10;
/// Tokens of a pack.
const BUDGET: u64 = 32_000;

fn message(n: usize) -> Draft {
    let said = String::from_utf8_lossy(&text(n as u64)[..MESSAGE]).into_owned();
    if n % 2 == 0 { Draft::user(said) } else { Draft::assistant(said) }
}

pub(crate) async fn sessions(folder: &Path, size: Size, runs: usize) -> Result<Figures> {
    let data = DataDir::open(folder, Env::system())?;
    data.create_account("sessions").await?;
    let account = data.account("sessions").await?;
    let sessions = Sessions::new(&*account, "ann", "coder", Env::system())?;
    for (name, messages) in SESSIONS {
        sessions.create(&Create::new(name)).await?;
        let messages = size.of(messages, messages.min(1_000));
        for first in (0..messages).step_by(1_000) {
            let drafts = (first..messages.min(first + 1_000)).map(message);
            sessions.append(name, &Append::messages(drafts)).await?;
        }
    }
    let mut figures = Figures::default();
    let mut options = PackOptions::default();
    options.budget = Some(BUDGET);
    for run in 0..runs {
        for (name, _) in SESSIONS {
            // as an SDK does: a pack, then what was said
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
