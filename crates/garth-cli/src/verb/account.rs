//! `garth account`: the accounts of a data folder or database.

use std::io::{self, IsTerminal};

use clap::{Args, Subcommand};
use garth_engine::Home;
use garth_engine::home::KeyOwner;
use garth_engine::model::{Seq, Timestamp};
use serde_json::json;

use crate::app::App;
use crate::data_folder::{DEFAULT_ACCOUNT, each_account, each_deleted_account};
use crate::escape::escaped_account;
use crate::fail::{Failure, Result, no_account_or};
use crate::out::{counted, seconds};
use crate::terminal;

/// Create, list and remove accounts
///
/// With --json, prints one object per account: account, created (null after removal).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth account create team-a")]
pub(crate) struct Account {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create an account with an empty tree
    #[command(after_help = "Example:\n  garth account create team-a")]
    Create {
        /// Name of the account: 1 to 128 bytes in the form NFC, without `/`, control and invisible
        /// characters, and without a space at either end
        name: String,
    },
    /// List accounts
    ///
    /// Accounts that are being deleted are named on stderr.
    #[command(alias = "ls", after_help = "Example:\n  garth account list")]
    List,
    /// Remove an account: its keys and its tree with all history, for ever
    ///
    /// Asks for confirmation; without a terminal it needs --yes. A removal that has begun, and was
    /// interrupted or could not remove all files, is continued without a question.
    #[command(alias = "delete", after_help = "Example:\n  garth account rm team-a --yes")]
    Rm {
        /// Name of the account
        name: String,
        /// Do not ask for confirmation
        #[arg(short, long)]
        yes: bool,
    },
}

impl Account {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("account")?;
        match self.action {
            Action::Create { name } => {
                let account = create(app, &name).await?;
                show(app, &account.id, Some(account.created))
            }
            Action::List => {
                let home = app.home().await?;
                each_account(&*home, |account| show(app, &account.id, Some(account.created))).await?;
                app.out.flush()?;
                tell_deleted(&*home).await
            }
            Action::Rm { name, yes } => {
                let home = app.home().await?;
                // Its deletion was confirmed when it began.
                if home.finish_deletion(&name).await? {
                    return show(app, &name, None);
                }
                let what = contents(&*home, &name).await?;
                if !yes {
                    confirm(&format!("Remove {what}? It cannot be restored."))?;
                }
                home.delete_account(&name).await?;
                show(app, &name, None)
            }
        }
    }
}

/// Names the accounts that are being deleted, whose names are taken.
async fn tell_deleted(home: &dyn Home) -> Result {
    each_deleted_account(home, |account| {
        let message = "is being deleted; `garth account rm` completes it";
        terminal::tell(format_args!("{}: {message}", escaped_account(&account.id)));
        Ok(())
    })
    .await
}

/// Returns a description of an account to be deleted. A tree that cannot be opened can still be deleted.
async fn contents(home: &dyn Home, name: &str) -> Result<String> {
    let keys = home.count_keys(&KeyOwner::named(name)).await.map_err(|error| no_account_or(name, error))?;
    let head = match home.open(name).await {
        Ok(tree) => tree.head().await.ok(),
        Err(_) => None,
    };
    let commits = match head {
        Some(head) if head.seq > Seq(0) => {
            format!("{}, the last at {}", counted(head.seq.0, "commit", "commits"), seconds(head.time))
        }
        Some(_) => "an empty tree".to_owned(),
        None => "a tree that cannot be opened".to_owned(),
    };
    let keys = counted(keys, "API key", "API keys");
    Ok(format!("account {} with {commits}, and {keys}", escaped_account(name)))
}

/// Asks for confirmation on the terminal. Fails unless the answer is yes.
fn confirm(question: &str) -> Result {
    // Without a terminal, nobody could answer.
    if !(io::stdin().is_terminal() && terminal::is_watched()) {
        return Err(Failure::Usage(format!("{question} Repeat with --yes to do it")));
    }
    terminal::ask(&format!("{question} [y/N]")).map_err(Failure::stdio)?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer).map_err(Failure::stdio)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Failure::Usage("nothing was removed".to_owned()))
}

async fn create(app: &App, name: &str) -> Result<garth_engine::home::Account> {
    // Checked first: an invalid name must not leave a new data folder behind.
    garth_engine::home::check_account_id(name)?;
    if let Ok(home) = app.home().await {
        return Ok(home.create_account(name).await?);
    }
    let home = app.home_or_new().await?;
    // A new data folder already has this account.
    let made_with_it = name == DEFAULT_ACCOUNT;
    Ok(if made_with_it { home.account(name).await? } else { home.create_account(name).await? })
}

fn show(app: &mut App, name: &str, created: Option<Timestamp>) -> Result {
    let created = created.map(Timestamp::to_rfc3339);
    let json = json!({"account": name, "created": created});
    app.out
        .item(&json, format_args!("{}  {}", created.as_deref().unwrap_or("removed"), escaped_account(name)))
}
