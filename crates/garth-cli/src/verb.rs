//! The commands. Each has a file with a clap struct and its function `run`.

mod account;
mod agent;
mod backup;
mod batch;
mod blame;
mod cat;
mod chat;
mod completions;
mod config;
mod context;
mod cp;
mod daily;
mod diff;
mod du;
mod eval;
mod export;
mod find;
mod glob;
mod grep;
mod head;
mod health;
mod import;
mod key;
mod kv;
mod ln;
mod log;
mod ls;
mod maintain;
mod mcp;
mod media;
pub(crate) mod memory;
mod mkdir;
mod mv;
mod open;
mod outbox;
mod overlay;
mod quota;
mod recall;
mod remember;
mod repair;
mod restore;
mod retention;
mod rm;
mod rule;
mod search;
mod serve;
pub(crate) mod session;
mod set;
mod show;
mod skill;
mod snapshot;
mod stat;
mod status;
mod touch;
mod tree;
mod usage;
mod watch;
mod write;

use clap::Subcommand;

use crate::app::App;
use crate::fail::Result;

/// All commands. `help::GROUPS` has their order in the help.
#[derive(Subcommand)]
pub(crate) enum Verb {
    Serve(serve::Serve),
    Mcp(mcp::Mcp),
    Config(config::Config),
    Health(health::Health),
    Status(status::Status),
    Agent(agent::Agent),
    Account(account::Account),
    Key(key::Key),
    Rule(rule::Rule),
    Kv(kv::Kv),
    Chat(chat::Chat),
    Memory(memory::Memory),
    Session(session::Session),
    Context(context::Context),
    Daily(daily::Daily),
    Skill(skill::Skill),
    Media(media::Media),
    Outbox(outbox::Outbox),
    Ls(ls::Ls),
    Tree(tree::Tree),
    Cat(cat::Cat),
    Head(head::Head),
    Tail(head::Tail),
    Write(write::Write),
    Append(write::Append),
    Mkdir(mkdir::Mkdir),
    Rm(rm::Rm),
    Mv(mv::Mv),
    Cp(cp::Cp),
    Ln(ln::Ln),
    Touch(touch::Touch),
    Set(set::Set),
    Chmod(set::Chmod),
    Chown(set::Chown),
    Batch(batch::Batch),
    Stat(stat::Stat),
    Log(log::Log),
    Watch(watch::Watch),
    Blame(blame::Blame),
    Show(show::Show),
    Diff(diff::Diff),
    Restore(restore::Restore),
    Snapshot(snapshot::Snapshot),
    Overlay(overlay::Overlay),
    Quota(quota::Quota),
    Retention(retention::Retention),
    Find(find::Find),
    Glob(glob::Glob),
    Grep(grep::Grep),
    Search(search::Search),
    Recall(recall::Recall),
    Eval(eval::Eval),
    Remember(remember::Remember),
    Forget(remember::Forget),
    Du(du::Du),
    Usage(usage::Usage),
    Import(import::Import),
    Export(export::Export),
    Backup(backup::Backup),
    Fsck(maintain::Fsck),
    Gc(maintain::Gc),
    Repair(repair::Repair),
    Reindex(maintain::Reindex),
    Completions(completions::Completions),
}

impl Verb {
    /// Runs the command.
    pub(crate) async fn run(self, app: &mut App) -> Result {
        match self {
            Self::Serve(verb) => verb.run(app).await,
            Self::Mcp(verb) => verb.run(app).await,
            Self::Config(verb) => verb.run(app),
            Self::Health(verb) => verb.run(app),
            Self::Status(verb) => verb.run(app).await,
            Self::Agent(verb) => verb.run(app).await,
            Self::Account(verb) => verb.run(app).await,
            Self::Key(verb) => verb.run(app).await,
            Self::Rule(verb) => verb.run(app).await,
            Self::Kv(verb) => verb.run(app).await,
            Self::Chat(verb) => verb.run(app).await,
            Self::Memory(verb) => verb.run(app).await,
            Self::Session(verb) => verb.run(app).await,
            Self::Context(verb) => verb.run(app).await,
            Self::Daily(verb) => verb.run(app).await,
            Self::Skill(verb) => verb.run(app).await,
            Self::Media(verb) => verb.run(app).await,
            Self::Outbox(verb) => verb.run(app).await,
            Self::Ls(verb) => verb.run(app).await,
            Self::Tree(verb) => verb.run(app).await,
            Self::Cat(verb) => verb.run(app).await,
            Self::Head(verb) => verb.run(app).await,
            Self::Tail(verb) => verb.run(app).await,
            Self::Write(verb) => verb.run(app).await,
            Self::Append(verb) => verb.run(app).await,
            Self::Mkdir(verb) => verb.run(app).await,
            Self::Rm(verb) => verb.run(app).await,
            Self::Mv(verb) => verb.run(app).await,
            Self::Cp(verb) => verb.run(app).await,
            Self::Ln(verb) => verb.run(app).await,
            Self::Touch(verb) => verb.run(app).await,
            Self::Set(verb) => verb.run(app).await,
            Self::Chmod(verb) => verb.run(app).await,
            Self::Chown(verb) => verb.run(app).await,
            Self::Batch(verb) => verb.run(app).await,
            Self::Stat(verb) => verb.run(app).await,
            Self::Log(verb) => verb.run(app).await,
            Self::Watch(verb) => verb.run(app).await,
            Self::Blame(verb) => verb.run(app).await,
            Self::Show(verb) => verb.run(app).await,
            Self::Diff(verb) => verb.run(app).await,
            Self::Restore(verb) => verb.run(app).await,
            Self::Snapshot(verb) => verb.run(app).await,
            Self::Overlay(verb) => verb.run(app).await,
            Self::Quota(verb) => verb.run(app).await,
            Self::Retention(verb) => verb.run(app).await,
            Self::Find(verb) => verb.run(app).await,
            Self::Glob(verb) => verb.run(app).await,
            Self::Grep(verb) => verb.run(app).await,
            Self::Search(verb) => verb.run(app).await,
            Self::Recall(verb) => verb.run(app).await,
            Self::Eval(verb) => verb.run(app).await,
            Self::Remember(verb) => verb.run(app).await,
            Self::Forget(verb) => verb.run(app).await,
            Self::Du(verb) => verb.run(app).await,
            Self::Usage(verb) => verb.run(app).await,
            Self::Import(verb) => verb.run(app).await,
            Self::Export(verb) => verb.run(app).await,
            Self::Backup(verb) => verb.run(app).await,
            Self::Fsck(verb) => verb.run(app).await,
            Self::Gc(verb) => verb.run(app).await,
            Self::Repair(verb) => verb.run(app).await,
            Self::Reindex(verb) => verb.run(app).await,
            Self::Completions(verb) => verb.run(app),
        }
    }
}
