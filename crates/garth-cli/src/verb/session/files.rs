//! `garth session files`: files that a session wrote.

use std::collections::HashSet;

use clap::Args;
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::open;

/// List the files that a session wrote, with the byte ranges that are still its own
///
/// Lists files in all parts of the tree that the audience of the session may read. With --json, prints one
/// object per file: path, size, bytes (from, to), more. Warns if the log no longer reaches back to the
/// beginning of the session, because of the retention of the account.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth session files work")]
pub(crate) struct Files {
    /// Name of the session
    name: String,
}

impl Files {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let sessions = open.sessions()?;
        let (mut since, mut shown) = (None, HashSet::new());
        loop {
            let page = sessions.wrote(&self.name, since).await?;
            if let Some(oldest) = page.oldest {
                app.out.warn(format_args!(
                    "the log of changes begins after {oldest}: files that {} wrote only before are missing",
                    escaped(&self.name)
                ));
            }
            for file in page.items {
                // A later commit may have written the same file.
                if !shown.insert(file.path.clone()) {
                    continue;
                }
                let ranges: Vec<String> =
                    file.bytes.iter().map(|bytes| format!("{}-{}", bytes.start, bytes.end)).collect();
                let pairs: Vec<_> = file.bytes.iter().map(|bytes| [bytes.start, bytes.end]).collect();
                let json = json!({
                    "path": file.path.as_str(), "size": file.size, "bytes": pairs, "more": file.more,
                });
                let more = if file.more { ", and more" } else { "" };
                let line = format!("{}  bytes {}{more} of {}", file.path, ranges.join(", "), file.size);
                app.out.item(&json, escaped(&line))?;
            }
            match page.next {
                Some(next) => since = Some(next),
                None => return Ok(()),
            }
        }
    }
}
