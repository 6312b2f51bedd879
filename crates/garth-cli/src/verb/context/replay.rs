//! `garth context replay`: rebuilds a pack.

use clap::Args;

use super::pack::{PackFormat, print};
use crate::app::App;
use crate::fail::Result;
use crate::verb::open::open;

/// Rebuild a pack, byte for byte
///
/// Rebuilds the last pack, or with --at the pack at an earlier time, from the files as they were then. With
/// --json, prints pack.json instead of the pack.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth context replay work --at 1h")]
pub(crate) struct Replay {
    /// Name of the session
    name: String,
    /// Rebuild the pack of this time: a sequence, a version of context/pack.json, a time or an age
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    at: Option<String>,
    /// Output format: text, or the message list of a provider
    #[arg(long, value_enum, default_value_t = PackFormat::Markdown)]
    format: PackFormat,
}

impl Replay {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let at = match &self.at {
            Some(text) => Some(app.moment(open.fs(), text).await?),
            None => None,
        };
        let sessions = open.sessions()?;
        let packed = sessions.replay(&self.name, at.as_ref()).await?;
        print(app, &sessions, &packed, self.format).await
    }
}
