//! `garth key`: API keys of an account.

use clap::{Args, Subcommand};
use garth_engine::datadir::{ApiKey, Scope};
use garth_engine::model::Timestamp;
use garth_engine::{Error, ErrorKind};
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Result, no_account_or};

/// Create, list and revoke API keys of the account
///
/// A program sends its key as `Authorization: Bearer KEY`. With --json, prints one object per key: id,
/// account, label, scopes, created, revoked; `create` also prints key, the secret.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth key create --label laptop --scope memory:read --scope search:read")]
pub(crate) struct Key {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// Create a key, and print it once
    #[command(after_help = "Example:\n  garth key create --label laptop --scope memory:read")]
    Create {
        /// Label, to recognize the key by
        #[arg(long, default_value = "", value_name = "TEXT")]
        label: String,
        /// Scope of access: memory:read, memory:write, search:read, or admin for all of them (repeatable)
        #[arg(
            long = "scope", value_name = "SCOPE",
            default_values = ["memory:read", "memory:write", "search:read"]
        )]
        scopes: Vec<Scope>,
    },
    /// List keys, without their secrets
    #[command(alias = "ls", after_help = "Example:\n  garth key list")]
    List,
    /// Revoke a key; it stays in the list
    #[command(aliases = ["rm", "delete"], after_help = "Example:\n  garth key revoke 0123456789abcdef")]
    Revoke {
        /// Id of the key: the part between `garth_` and the dot
        id: String,
    },
}

impl Key {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.no_tree("key")?;
        let data_dir = app.data_dir()?;
        let account = &app.global.account;
        data_dir.control().account(account).await.map_err(|error| no_account_or(account, error))?;
        match self.action {
            Action::Create { label, scopes } => {
                let (key, secret) = data_dir.control().create_key(account, &label, &scopes).await?;
                show(app, &key, Some(secret.reveal()))
            }
            Action::List => {
                let keys = data_dir.control().keys(account).await?;
                keys.iter().try_for_each(|key| show(app, key, None))
            }
            Action::Revoke { id } => {
                let key = data_dir.control().revoke_key(account, &id).await.map_err(|error| {
                    if !error.is(ErrorKind::NotFound) {
                        return error;
                    }
                    let message = format!("{id}: account {account} has no such key; see `garth key list`");
                    Error::new(ErrorKind::NotFound, message)
                })?;
                show(app, &key, None)
            }
        }
    }
}

fn show(app: &mut App, key: &ApiKey, secret: Option<&str>) -> Result {
    let scopes: Vec<&str> = key.scopes.iter().map(|scope| scope.as_str()).collect();
    let mut json = json!({
        "id": key.id, "account": key.account, "label": key.label, "scopes": scopes,
        "created": key.created.to_rfc3339(), "revoked": key.revoked.map(Timestamp::to_rfc3339),
    });
    if let Some(secret) = secret {
        json["key"] = secret.into();
        let text = format_args!("{secret}\n    shown only once; id {}, {}", key.id, scopes.join(" "));
        return app.out.item(&json, text);
    }
    let revoked = key.revoked.map(|time| format!("  revoked {}", time.to_rfc3339())).unwrap_or_default();
    let (id, time) = (&key.id, key.created.to_rfc3339());
    app.out.item(&json, format_args!("{id}  {time}  {}  {}{revoked}", scopes.join(","), escaped(&key.label)))
}
