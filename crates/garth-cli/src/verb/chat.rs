//! `garth chat`: the chats of an account, and their deletion.

use clap::{Args, Subcommand};
use futures::TryStreamExt;
use garth::agent::{Access, Caller, chat};
use garth::model::Kind;
use garth::{Error, ErrorKind, FileSystemExt as _};
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::{Failure, Result};

/// List and delete chats: the directories in /chats
///
/// With --json one object per chat: chat; of one that was deleted also seq and time.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  garth chat delete trip")]
pub(crate) struct Chat {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List the chats
    #[command(after_help = "Example:\n  garth chat list")]
    List,
    /// Say whose a chat is: a user, or who listens under a session key
    ///
    /// A chat belongs to the audience that made it; others are refused. One that no agent made, or that
    /// several users wrote before chats had owners, is nobody's until this says whose it is.
    #[command(after_help = "Examples:\n  \
            garth chat own trip --user ann\n  \
            garth chat own standup --agent scout --key agent:scout:slack:channel:C1")]
    Own {
        /// Its id
        name: String,
    },
    /// Delete a chat with all its files, in one commit; their history stays
    #[command(after_help = "Example:\n  garth chat delete trip")]
    Delete {
        /// Its id
        name: String,
    },
}

impl Chat {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        if let Action::Own { name } = self.action {
            return own(app, &name).await;
        }
        app.only_account("chat")?;
        let tree = app.tree().await?;
        match self.action {
            Action::Own { .. } => Ok(()),
            Action::List => {
                let mut chats = tree.fs.read_dir(chat::CHATS);
                loop {
                    match chats.try_next().await {
                        Ok(Some(item)) if item.kind == Kind::Directory => {
                            let name = item.name.as_str();
                            app.out.item(&json!({"chat": name}), escaped(name))?;
                        }
                        Ok(Some(_)) => {}
                        Ok(None) => return Ok(()),
                        Err(error) if error.is(ErrorKind::NotFound) => return Ok(()),
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            Action::Delete { name } => {
                let there = tree.fs.lookup(chat::directory(&name)?).await?;
                // A file or a link in the directory of chats is no chat.
                if there.is_none_or(|there| there.kind != Kind::Directory) {
                    return Err(Error::new(ErrorKind::NotFound, format!("{name}: no such chat")).into());
                }
                let commit = chat::delete(&*tree.fs, &name, tree.author).await?;
                let json = json!({"chat": name, "seq": commit.seq, "time": commit.time.to_rfc3339()});
                app.out.item(&json, format_args!("{}  deleted", escaped(&name)))
            }
        }
    }
}

async fn own(app: &mut App, name: &str) -> Result {
    let (args, account) = (&app.global.chat, app.account_for(false).await?);
    if args.user.is_none() && args.session_key.is_none() {
        return Err(Failure::Usage("say whose the chat is: --user NAME or --key KEY".into()));
    }
    let access = Access::open(&account, &app.env, Caller::Holder, &args.request(&app.global.agent)).await?;
    let audience = access.identity().audience().to_owned();
    let commit = access.own_chat(name).await?;
    let json =
        json!({"chat": name, "audience": audience, "seq": commit.seq, "time": commit.time.to_rfc3339()});
    app.out.item(&json, format_args!("{}  is of {}", escaped(name), escaped(&audience)))
}
