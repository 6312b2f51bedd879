//! `garth backup`: a copy of the whole data folder, while it is in use.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;
use tokio::task::block_in_place;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;

/// Copy the data folder, all accounts and keys, while it is in use
///
/// Each account is copied as it is at one moment, with its history. The copy is a data folder itself: `garth
/// --data COPY` opens it. With --json one object: to, accounts (account, seq, bytes).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth backup /mnt/backup/garth-monday")]
pub(crate) struct Backup {
    /// Where to; must not be there yet
    #[arg(value_name = "DIR")]
    to: PathBuf,
}

impl Backup {
    pub(crate) fn run(self, app: &mut App) -> Result {
        let data_dir = app.data_dir()?;
        let bar = ProgressBar::new_spinner();
        bar.set_message("copying");
        bar.enable_steady_tick(Duration::from_millis(200));
        let copied = block_in_place(|| data_dir.backup(&self.to));
        bar.finish_and_clear();
        let copied = copied?;
        let accounts: Vec<_> = copied
            .iter()
            .map(|(account, copy)| json!({"account": account, "seq": copy.seq, "bytes": copy.bytes}))
            .collect();
        let bytes = copied.iter().map(|(_, copy)| copy.bytes).sum();
        let lines: Vec<String> = copied
            .iter()
            .map(|(account, copy)| {
                format!("{}: up to {}, {}", escaped(account), copy.seq, HumanBytes(copy.bytes))
            })
            .collect();
        let to = self.to.display();
        let json = json!({"to": to.to_string(), "accounts": accounts});
        app.out.item(&json, format_args!("{}\n{} in {to}", lines.join("\n"), HumanBytes(bytes)))
    }
}
