//! Chats: their files live and die with them. A chat belongs to the audience that made it.

use crate::boxed;
use crate::identity::{AccessPolicy, Identity, check_audience, check_chat};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::{FileSystem, FileSystemExt as _};
use garth_engine::model::{At, Author, Batch, Commit, Entry, HistoryPage, Op, SetAttrs};
use garth_engine::path::TreePath;

/// Where an account keeps its chats.
pub const CHATS: &str = "/chats";

/// The directory of a chat in its account.
///
/// # Errors
/// `InvalidArgument` for what is no id.
pub fn directory(chat: &str) -> Result<TreePath> {
    check_chat(chat)?;
    Ok(TreePath::parse(&format!("{CHATS}/{chat}"))?)
}

/// Removes a chat with all its files, in one commit. Its history stays until it is purged.
///
/// # Errors
/// `InvalidArgument` for what is no id; `NotFound`; as [`FileSystem::commit`].
#[boxed]
pub async fn delete(account: &dyn FileSystem, chat: &str, author: Author) -> Result<Commit> {
    let batch = Batch::new([Op::remove_tree(directory(chat)?)]).author(author);
    account.commit(batch.message(format!("delete chat {chat}"))).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("{chat}: no such chat")),
        _ => error,
    })
}

/// Custom metadata of a chat's directory: its audience, or `*` for all owners of the agent.
const AUDIENCE: &str = "garth.audience";

/// Whose a new chat is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChatOwner(String);

impl ChatOwner {
    /// Returns the owner of a chat that an identity makes.
    pub(crate) fn of(policy: &AccessPolicy, who: &Identity) -> Self {
        let every = who.is_main() && policy.one_owner().is_none();
        Self(if every { "*".to_owned() } else { who.audience().to_owned() })
    }

    /// Returns the attributes of the chat's directory.
    pub(crate) fn attrs(&self) -> SetAttrs {
        owner_attrs(&self.0)
    }
}

/// Refuses a chat that another audience made. One that is not there is anybody's to make.
///
/// # Errors
/// `AccessDenied`; `AlreadyExists` for what is no directory; from the filesystem.
pub(crate) async fn check(
    raw: &dyn FileSystem,
    policy: &AccessPolicy,
    who: &Identity,
    at: &TreePath,
) -> Result<()> {
    match raw.lookup(at).await? {
        Some(entry) if !entry.is_dir() => {
            let message = "is no directory, so no chat can be made here; move it away";
            return Err(Error::at(ErrorKind::AlreadyExists, at, message));
        }
        Some(entry) => return check_entry(policy, who, &entry),
        None => {}
    }
    // the past of a chat that was deleted is still its audience's, and whoever has the name reads it
    let history = match raw.history(&At::from(at), &HistoryPage::default()).await {
        Err(error) if error.is_absent() || error.is(ErrorKind::Unsupported) => return Ok(()),
        history => history?,
    };
    let last = history.items.into_iter().find_map(|version| version.entry);
    let is_own = last.is_none_or(|entry| check_entry(policy, who, &entry).is_ok());
    let chat = who.chat();
    let message = format!("{chat}: was the chat of another audience and is deleted; take another name");
    if is_own { Ok(()) } else { Err(Error::new(ErrorKind::AccessDenied, message)) }
}

/// Refuses a chat that is another audience's.
///
/// # Errors
/// `AccessDenied`.
pub(crate) fn check_entry(policy: &AccessPolicy, who: &Identity, entry: &Entry) -> Result<()> {
    let owner = entry.attributes.metadata.get(AUDIENCE);
    if owner == Some(&ChatOwner::of(policy, who).0) || owner.is_some_and(|owner| owner == who.audience()) {
        return Ok(());
    }
    let chat = who.chat();
    let message = match owner {
        Some(_) => format!("{chat}: is the chat of another audience; take another name"),
        None => format!("{chat}: nobody owns this chat; `garth chat own {chat} --user USER` says who does"),
    };
    Err(Error::new(ErrorKind::AccessDenied, message))
}

/// Returns the attribute that makes a chat an audience's.
pub(crate) fn owner_attrs(audience: &str) -> SetAttrs {
    SetAttrs::new().metadata(AUDIENCE, audience)
}

/// Says whose a chat is: a user, or the audience of a session key.
///
/// # Errors
/// `InvalidArgument` for what is no id; `NotFound`; from the filesystem.
pub(crate) async fn own(
    account: &dyn FileSystem,
    chat: &str,
    audience: &str,
    author: Author,
) -> Result<Commit> {
    check_audience(audience)?;
    let batch =
        Batch::new([Op::set_attrs(directory(chat)?, owner_attrs(audience))]).author(author).by_garth();
    account.commit(batch.message(format!("say whose chat {chat} is"))).await.map_err(|error| {
        match error.kind() {
            ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("{chat}: no such chat")),
            _ => error,
        }
    })
}
