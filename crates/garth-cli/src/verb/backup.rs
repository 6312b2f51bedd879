//! `garth backup`: a copy of the data folder, while it is in use.

use std::io;
use std::path::PathBuf;

use clap::Args;
use garth_engine::ErrorKind;
use indicatif::HumanBytes;
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Failures, Result};
use crate::out::counted;
use crate::progress;

/// Copy the data folder, all accounts and keys, while it is in use
///
/// Copies each account at one point in time, with its history. The copy is a data folder: `garth --data COPY`
/// opens it. It gets its name when it is complete. Accounts that are damaged are reported, and are in the
/// copy without files and history. With --json, prints one object: to, bytes, accounts (account, seq, bytes),
/// failed (account, kind, message).
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
        let home = app.home().await?;
        let copied = progress::waiting("copying", home.backup(&self.to)).await;
        let copied = copied.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                let error = io::Error::new(io::ErrorKind::AlreadyExists, error.message().to_owned());
                Failure::Host(self.to.clone(), error)
            }
            // Errors of the source, not of the copy. A database has tools of its own for it.
            ErrorKind::Corrupt | ErrorKind::Format | ErrorKind::Poisoned | ErrorKind::Unsupported => {
                Failure::Tree(error)
            }
            _ => Failure::data_dir(&self.to)(error),
        })?;
        let (mut accounts, mut failed, mut bytes) = (Vec::new(), Vec::new(), 0);
        let mut failures = Failures::default();
        for (account, copy) in copied {
            match copy {
                Ok(copy) => {
                    bytes += copy.bytes;
                    let size = HumanBytes(copy.bytes);
                    app.out.note(format_args!("{}: up to {}, {size}", escaped(&account), copy.seq))?;
                    accounts.push(json!({"account": account, "seq": copy.seq, "bytes": copy.bytes}));
                }
                Err(error) => {
                    let (kind, message) = (error.kind().as_str(), error.message().to_owned());
                    app.out.flush()?;
                    failures.add(Err(Failure::Tree(error).of_account(&account)), app.global.json)?;
                    failed.push(json!({"account": account, "kind": kind, "message": message}));
                }
            }
        }
        let (to, of) = (self.to.to_string_lossy(), counted(accounts.len() as u64, "account", "accounts"));
        let mut text = format!("{of}, {}, copied to {}", HumanBytes(bytes), escaped(&to));
        if !failed.is_empty() {
            let damaged = counted(failed.len() as u64, "account", "accounts");
            text = format!("{text}; {damaged} without files, because of damage");
        }
        let json = json!({"to": to, "bytes": bytes, "accounts": accounts, "failed": failed});
        app.out.item(&json, text)?;
        failures.done()
    }
}
