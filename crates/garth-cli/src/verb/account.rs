//! `garth account`: who has a tree here.

use clap::{Args, Subcommand};
use garth::datadir::AccountState;
use garth::model::Timestamp;
use serde_json::json;

use crate::app::App;
use crate::data_folder::DEFAULT_ACCOUNT;
use crate::escape::escaped;
use crate::fail::Result;

/// Make, list and delete accounts
///
/// With --json one object an account: account, created (null once deleted).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth account create team-a")]
pub(crate) struct Account {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Make an account with an empty tree
    #[command(after_help = "Example:\n  garth account create team-a")]
    Create {
        /// Its id: 1 to 128 bytes, without `/` and control characters
        name: String,
    },
    /// List the accounts
    #[command(after_help = "Example:\n  garth account list")]
    List,
    /// Delete an account, its keys and its tree with all history; nothing brings it back
    #[command(after_help = "Example:\n  garth account delete team-a")]
    Delete {
        /// Its id
        name: String,
    },
}

impl Account {
    pub(crate) fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Create { name } => {
                let account = create(app, &name)?;
                show(app, &account.id, Some(account.created))
            }
            Action::List => {
                let accounts = app.data_dir()?.control().accounts()?;
                let mut active = accounts.iter().filter(|account| account.state == AccountState::Active);
                active.try_for_each(|account| show(app, &account.id, Some(account.created)))
            }
            Action::Delete { name } => {
                app.data_dir()?.delete_account(&name)?;
                show(app, &name, None)
            }
        }
    }
}

fn create(app: &App, name: &str) -> Result<garth::datadir::Account> {
    // A bad name must not leave a new data folder behind.
    garth::path::check_id("account", name)?;
    if let Ok(data_dir) = app.data_dir() {
        return Ok(data_dir.create_account(name)?);
    }
    let data_dir = app.data_dir_or_new()?;
    let made_with_it = name == DEFAULT_ACCOUNT;
    Ok(if made_with_it { data_dir.control().account(name)? } else { data_dir.create_account(name)? })
}

fn show(app: &mut App, name: &str, created: Option<Timestamp>) -> Result {
    let created = created.map(Timestamp::to_rfc3339);
    let json = json!({"account": name, "created": created});
    app.out.item(&json, format_args!("{}  {}", created.as_deref().unwrap_or("deleted"), escaped(name)))
}
