//! `garth kv`: the key-value API of the agents.

mod errors;
mod read;
mod write;

use clap::{Args, Subcommand};

use crate::app::App;
use crate::fail::Result;

use self::read::{Get, Keys, List, Log};
use self::write::{Expire, Incr, Mset, Put, Rm};

/// Store and read JSON values by key
///
/// A key is a path such as /user/tone; a value is any JSON, stored digit for digit in /agents/AGENT/kv.
/// --agent selects the agent.
///
/// With --json, prints the objects of the HTTP interface: put and rm print version_id and created_at; get
/// prints path, value, version_id, created_at, expires_at, tags; list one object per key (path, type); log
/// one per version (version_id, created_at, value, expires_at, deleted_at).
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth kv put /user/tone '\"direct\"'")]
pub(crate) struct Kv {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    #[command(alias = "set")]
    Put(Put),
    #[command(alias = "mget")]
    Get(Get),
    #[command(alias = "ls")]
    List(List),
    Keys(Keys),
    Log(Log),
    #[command(aliases = ["delete", "del"])]
    Rm(Rm),
    #[command(alias = "incrby")]
    Incr(Incr),
    Mset(Mset),
    #[command(alias = "touch")]
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
            Action::Rm(verb) => verb.run(app).await,
            Action::Log(verb) => verb.run(app).await,
            Action::Incr(verb) => verb.run(app).await,
            Action::Mset(verb) => verb.run(app).await,
            Action::Expire(verb) => verb.run(app).await,
        }
    }
}
