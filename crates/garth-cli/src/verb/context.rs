//! `garth context`: the context window of a session, and its derived files.

mod child;
mod compact;
mod compare;
mod dedup;
mod derive;
mod gc;
mod pack;
mod pin;
mod publish;
mod replay;
mod swap;
mod why;

use clap::{Args, Subcommand};

use self::child::Child;
use self::compact::Compact;
use self::compare::Compare;
use self::dedup::Dedup;
use self::derive::Derive;
use self::gc::Gc;
use self::pack::Pack;
use self::pin::Pin;
use self::publish::Publish;
use self::replay::Replay;
use self::swap::Swap;
use self::why::Why;
use crate::app::App;
use crate::fail::Result;

/// Build the context of a session for a model, and manage the files that it is built from
///
/// A pack is the text or message list for the next model call, within a token budget. It is built from pinned
/// files, derived files (summary, facts, decisions, todo, references), recent messages and results of
/// children. All of them are files in the directory context of the session.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
        garth context pack work --budget 32k\n  \
        garth context compact work\n  \
        garth context why work f1")]
pub(crate) struct Context {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    Pack(Pack),
    Compact(Compact),
    Derive(Derive),
    Pin(Pin),
    Why(Why),
    Swap(Swap),
    Dedup(Dedup),
    Replay(Replay),
    Compare(Compare),
    Gc(Gc),
    Publish(Publish),
    Child(Child),
}

impl Context {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self.action {
            Action::Pack(verb) => verb.run(app).await,
            Action::Compact(verb) => verb.run(app).await,
            Action::Derive(verb) => verb.run(app).await,
            Action::Pin(verb) => verb.run(app).await,
            Action::Why(verb) => verb.run(app).await,
            Action::Swap(verb) => verb.run(app).await,
            Action::Dedup(verb) => verb.run(app).await,
            Action::Replay(verb) => verb.run(app).await,
            Action::Compare(verb) => verb.run(app).await,
            Action::Gc(verb) => verb.run(app).await,
            Action::Publish(verb) => verb.run(app).await,
            Action::Child(verb) => verb.run(app).await,
        }
    }
}
