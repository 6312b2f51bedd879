//! `garth chat`: the chats of an account.

use clap::{Args, Subcommand};
use garth_agent::session::SessionKey;
use garth_agent::{Access, Caller, Request, chat};
use garth_engine::error::OptionalExt as _;
use garth_engine::model::{At, Kind, Page};
use garth_engine::{Error, ErrorKind, FileSystemExt as _, TreePath};
use serde_json::json;

use crate::app::App;
use crate::escape::escaped;
use crate::fail::Result;

/// List and remove chats, and set their owners
///
/// A chat is a directory in /chats: the files of an agent's work with a user or a channel. Conversations are
/// sessions, see `garth session`. With --json, prints one object per chat: chat, audience (its owner; null
/// for none); of `own` and `rm` also seq and time.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  garth chat list\n  garth ls / --chat trip")]
pub(crate) struct Chat {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Debug)]
enum Action {
    /// List chats
    #[command(alias = "ls", after_help = "Example:\n  garth chat list")]
    List,
    /// Set the owner of a chat: a user, or the audience of a session key
    ///
    /// A chat belongs to the audience that created it; others are refused. A chat that no agent created, or
    /// that several users wrote before chats had owners, has no owner until this command sets one.
    #[command(after_help = "Examples:\n  \
            garth chat own trip ann\n  \
            garth chat own standup agent:scout:slack:channel:C1")]
    Own {
        /// Name of the chat
        name: String,
        /// Owner: a user, or a session key for its audience
        #[arg(value_name = "USER|KEY")]
        owner: String,
        /// Take the chat from its current owner
        #[arg(long)]
        take: bool,
    },
    /// Remove a chat with all its files, in one commit; their history stays
    #[command(alias = "delete", after_help = "Example:\n  garth chat rm trip")]
    Rm {
        /// Name of the chat
        name: String,
    },
}

impl Chat {
    pub(crate) async fn run(self, app: &mut App) -> Result {
        app.only_account("chat")?;
        if let Action::Own { name, owner, take } = self.action {
            return own(app, &name, &owner, take).await;
        }
        let tree = app.tree().await?;
        match self.action {
            // Handled above.
            Action::Own { .. } => Ok(()),
            Action::List => {
                let dir = At::from(&TreePath::parse(chat::CHATS)?);
                let mut page = Page::default().with_entries();
                loop {
                    let Some(listing) = tree.fs.list(&dir, &page).await.optional()? else { return Ok(()) };
                    for item in &listing.items {
                        let Some(entry) = item.entry.as_ref().filter(|entry| entry.is_dir()) else {
                            continue;
                        };
                        let (name, audience) = (item.name.as_str(), chat::audience(entry));
                        let of = audience.map_or_else(|| "nobody".to_owned(), |of| escaped(of).to_string());
                        let line = format_args!("{}  of {of}", escaped(name));
                        app.out.item(&json!({"chat": name, "audience": audience}), line)?;
                    }
                    match listing.items.into_iter().next_back().filter(|_| listing.more) {
                        Some(last) => page = page.after(Some(last.name)),
                        None => return Ok(()),
                    }
                }
            }
            Action::Rm { name } => {
                let there = tree.fs.lookup(chat::directory(&name)?).await?;
                // A file or a link in the directory of chats is not a chat.
                if there.is_none_or(|there| there.kind != Kind::Directory) {
                    return Err(Error::new(ErrorKind::NotFound, format!("{name}: no such chat")).into());
                }
                let commit = chat::delete(&*tree.fs, &name, tree.author).await?;
                let json = json!({"chat": name, "seq": commit.seq, "time": commit.time.to_rfc3339()});
                app.out.item(&json, format_args!("removed  {}", escaped(&name)))
            }
        }
    }
}

async fn own(app: &mut App, name: &str, owner: &str, take: bool) -> Result {
    let account = app.account_for(false).await?;
    let there = account.lookup(chat::directory(name)?).await?;
    let Some(there) = there.filter(|there| there.is_dir()) else {
        let message =
            format!("{name}: no such chat; `garth mkdir /chats/{name}` creates one without an owner");
        return Err(Error::new(ErrorKind::NotFound, message).into());
    };
    if let Some(of) = chat::audience(&there).filter(|_| !take) {
        let message = format!("{name}: belongs to {of}; use --take to give it to another");
        return Err(Error::new(ErrorKind::AlreadyExists, message).into());
    }
    let request = match owner.starts_with("agent:") {
        true => {
            let key: SessionKey = owner.parse()?;
            Request::new(key.agent()).key(key)
        }
        false => Request::new(&*app.global.agent).user(owner),
    };
    let access = Access::open(&account, &app.env, Caller::Holder, &request).await?;
    let audience = access.identity().audience().to_owned();
    let commit = access.own_chat(name).await?;
    let json =
        json!({"chat": name, "audience": audience, "seq": commit.seq, "time": commit.time.to_rfc3339()});
    app.out.item(&json, format_args!("{}  now belongs to {}", escaped(name), escaped(&audience)))
}
