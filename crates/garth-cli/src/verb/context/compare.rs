//! `garth context compare`: the difference between two packs.

use clap::Args;
use garth_agent::session::{Difference, Item};
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;
use crate::verb::open::open;

/// Compare two packs: added and removed parts, tokens, and the common prefix
///
/// Compares the pack at an earlier time with the last one, or with the one at --to. With --json, prints one
/// object: added, removed, changed, tokens, bytes, common_bytes (the prefix that a model's cache keeps).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth context compare work --from yesterday")]
pub(crate) struct Compare {
    /// Name of the session
    name: String,
    /// Time of the older pack
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    from: String,
    /// Time of the newer pack [default: the last pack]
    #[arg(long, value_name = "SEQUENCE|TIME|NAME")]
    to: Option<String>,
}

impl Compare {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        let open = open(app, false).await?;
        let from = app.moment(open.fs(), &self.from).await?;
        let to = match &self.to {
            Some(text) => Some(app.moment(open.fs(), text).await?),
            None => None,
        };
        let sessions = open.sessions()?;
        let before = sessions.replay(&self.name, Some(&from)).await?;
        let difference = sessions.replay(&self.name, to.as_ref()).await?.since(&before);
        let Difference { added, removed, changed, tokens, bytes, common_bytes, .. } = &difference;
        let both: Vec<_> = changed.iter().map(|one| json!({"from": one.from, "to": one.to})).collect();
        let json = json!({
            "added": added, "removed": removed, "changed": both, "tokens": tokens, "bytes": bytes,
            "common_bytes": common_bytes,
        });
        let named = |item: &Item| {
            let range = item.range.as_ref().map_or(String::new(), |range| format!(" {range}"));
            format!("{} {}{range}", item.kind, item.source)
        };
        let mut shown: Vec<String> =
            added.iter().map(|item| format!("+ {}  {} tokens", named(item), item.tokens)).collect();
        shown.extend(removed.iter().map(|item| format!("- {}  {} tokens", named(item), item.tokens)));
        shown.extend(
            changed
                .iter()
                .map(|one| format!("~ {}  {} to {} tokens", named(&one.to), one.from.tokens, one.to.tokens)),
        );
        shown.push(format!(
            "tokens {} to {}, bytes {} to {}, the first {common_bytes} the same",
            tokens[0], tokens[1], bytes[0], bytes[1]
        ));
        let shown: Vec<String> = shown.iter().map(|line| escaped(line).to_string()).collect();
        app.out.item(&json, shown.join("\n"))
    }
}
