//! `garth context pin`: files at the beginning of each pack.

use clap::Args;
use garth_agent::session::MAX_DERIVED;
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::host_text::replacement;
use crate::verb::open::open;

/// Pin a text at the beginning of each pack, or unpin it
///
/// `system.md` is the first pinned file. With --json, prints one object: session, file, seq.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        echo 'You are a careful coder.' | garth context pin work system.md\n  \
        garth context pin work style.md ./style.md\n  \
        garth context pin work style.md --rm")]
pub(crate) struct Pin {
    /// Name of the session
    name: String,
    /// Name of the pinned file, without /
    file: String,
    /// File of this machine with its text; - reads standard input
    #[arg(default_value = "-", value_name = "FROM")]
    from: String,
    /// Unpin the file
    #[arg(long, conflicts_with_all = ["clear", "from"])]
    rm: bool,
    /// Empty the file, and read no text
    #[arg(long, conflicts_with = "from")]
    clear: bool,
}

impl Pin {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        // Otherwise a path of the tree would wait for a text on standard input.
        if self.file.contains('/') {
            let name = self.file.rsplit('/').find(|name| !name.is_empty()).unwrap_or("notes.md");
            return Err(Failure::Usage(format!(
                "{}: a pinned file has a name without /; to pin a file of the tree: \
                 garth cat PATH | garth context pin {} {}",
                escaped(&self.file),
                escaped(&self.name),
                escaped(name)
            )));
        }
        let text = match (self.rm, self.clear) {
            (true, _) => None,
            (false, true) => Some(String::new()),
            (false, false) => Some(replacement(&self.from, MAX_DERIVED, "--clear empties the file")?),
        };
        let open = open(app, true).await?;
        let seq = open.sessions()?.pin(&self.name, &self.file, text.as_deref()).await?;
        let json = json!({"session": self.name, "file": self.file, "seq": seq.0});
        let said = if self.rm { "unpinned" } else { "pinned" };
        app.out.item(&json, format_args!("{said}  {}", escaped(&self.file)))
    }
}
