//! `garth kv`: the key-value API of the agents.

mod errors;
mod read;
mod write;

use clap::{Args, Subcommand};

use crate::app::App;
use crate::fail::Result;

use self::read::{Get, History, Keys, List};
use self::write::{Delete, Expire, Incr, Mset, Put};

/// Values by key, of one agent (--agent); the files under /agents/AGENT/kv
///
/// A key is a path such as /user/tone; a value is any JSON, kept digit for digit. With --json the objects are
/// those of the HTTP interface: put and delete give version_id and created_at; get path, value, version_id,
/// created_at, expires_at, tags; list one object per key (path, type); history one per version (version_id,
/// created_at, value, expires_at, deleted_at).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv put /user/tone '\"direct\"'")]
pub(crate) struct Kv {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    #[command(visible_alias = "set")]
    Put(Put),
    #[command(visible_alias = "mget")]
    Get(Get),
    #[command(visible_alias = "ls")]
    List(List),
    Keys(Keys),
    #[command(visible_alias = "del", alias = "rm")]
    Delete(Delete),
    History(History),
    #[command(alias = "incrby")]
    Incr(Incr),
    Mset(Mset),
    #[command(visible_alias = "touch")]
    Expire(Expire),
}

impl Kv {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.only_account("kv")?;
        match self.action {
            Action::Put(verb) => verb.run(app).await,
            Action::Get(verb) => verb.run(app).await,
            Action::List(verb) => verb.run(app).await,
            Action::Keys(verb) => verb.run(app).await,
            Action::Delete(verb) => verb.run(app).await,
            Action::History(verb) => verb.run(app).await,
            Action::Incr(verb) => verb.run(app).await,
            Action::Mset(verb) => verb.run(app).await,
            Action::Expire(verb) => verb.run(app).await,
        }
    }
}
