//! `garth backup`: a copy of the data folder, while it is in use.

use std::io;
use std::path::PathBuf;

use clap::Args;
use garth_engine::ErrorKind;
use indicatif::HumanBytes;
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};
use crate::progress;

/// Copy the data folder, all accounts and keys, while it is in use
///
/// Copies each account at one point in time, with its history. The copy is a data folder: `garth --data COPY`
/// opens it. It gets its name when it is complete. With --json, prints one object: to, bytes, accounts
/// (account, seq, bytes).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth backup /mnt/backup/garth-monday")]
pub(crate) struct Backup {
    /// Folder to create
    #[arg(value_name = "DIR")]
    to: PathBuf,
}

impl Backup {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("backup")?;
        let home = app.home()?;
        let copied = progress::waiting("copying", home.backup(&self.to)).await;
        let copied = copied.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                let error = io::Error::new(io::ErrorKind::AlreadyExists, error.message().to_owned());
                Failure::Host(self.to.clone(), error)
            }
            // Errors of the source, not of the copy.
            ErrorKind::Corrupt | ErrorKind::Format | ErrorKind::Poisoned => Failure::Tree(error),
            _ => Failure::data_dir(&self.to)(error),
        })?;
        let accounts: Vec<_> = copied
            .iter()
            .map(|(account, copy)| json!({"account": account, "seq": copy.seq, "bytes": copy.bytes}))
            .collect();
        for (account, copy) in &copied {
            let (account, bytes) = (escaped(account), HumanBytes(copy.bytes));
            app.out.note(format_args!("{account}: up to {}, {bytes}", copy.seq))?;
        }
        let bytes: u64 = copied.iter().map(|(_, copy)| copy.bytes).sum();
        let to = self.to.to_string_lossy();
        let accounts_word = if copied.len() == 1 { "account" } else { "accounts" };
        let json = json!({"to": to, "bytes": bytes, "accounts": accounts});
        let text =
            format!("{} {accounts_word}, {}, copied to {}", copied.len(), HumanBytes(bytes), escaped(&to));
        app.out.item(&json, text)
    }
}
