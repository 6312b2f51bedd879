//! Chats: their files live and die with them. A chat belongs to the audience that made it.

use crate::boxed;
use crate::identity::{AccessPolicy, Identity, check_audience, check_chat, is_reserved};
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

/// Custom metadata of a chat's directory: its audience, or `*/` and an agent for all owners of that.
const AUDIENCE: &str = "garth.audience";

/// Owner of a new chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChatOwner(String);

impl ChatOwner {
    /// Returns the owner of a chat that an identity makes: its audience, or all owners of the agent, unless
    /// it is the one that the audience has without a name.
    pub(crate) fn of(policy: &AccessPolicy, who: &Identity) -> Self {
        let is_named = ![who.audience(), &*unnamed(who)].contains(&who.chat());
        let every = is_named && who.is_main() && policy.one_owner().is_none();
        Self(if every { format!("*/{}", who.agent()) } else { who.audience().to_owned() })
    }

    /// Returns the attributes of the chat's directory.
    pub(crate) fn attrs(&self) -> SetAttrs {
        owner_attrs(&self.0)
    }
}

/// Standing of an identity towards a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Its own, or nobody's yet.
    Open,
    /// Another audience's.
    Others,
    /// Another audience's, which has deleted it: whoever has the name reads its past.
    OthersPast,
    /// A directory that no audience has made.
    Unowned,
    /// No directory.
    NoDirectory,
}

impl Standing {
    async fn of(
        raw: &dyn FileSystem,
        policy: &AccessPolicy,
        who: &Identity,
        chat: &TreePath,
    ) -> Result<Self> {
        let judge = |entry: &Entry| match audience(entry) {
            None => Self::Unowned,
            Some(owner) if owner == ChatOwner::of(policy, who).0 || owner == who.audience() => Self::Open,
            Some(_) => Self::Others,
        };
        match raw.lookup(chat).await? {
            Some(entry) if !entry.is_dir() => return Ok(Self::NoDirectory),
            Some(entry) => return Ok(judge(&entry)),
            None => {}
        }
        let history = match raw.history(&At::from(chat), &HistoryPage::default()).await {
            Err(error) if error.is_absent() || error.is(ErrorKind::Unsupported) => return Ok(Self::Open),
            history => history?,
        };
        let last = history.items.into_iter().find_map(|version| version.entry);
        Ok(match last.map_or(Self::Open, |entry| judge(&entry)) {
            Self::Open => Self::Open,
            _ => Self::OthersPast,
        })
    }

    /// Refuses a chat that is not open.
    fn check(self, who: &Identity, at: &TreePath) -> Result<()> {
        let chat = who.chat();
        let message = match self {
            Self::Open => return Ok(()),
            Self::Others => format!("{chat}: is the chat of another audience; take another name"),
            Self::OthersPast => {
                format!("{chat}: was the chat of another audience and is deleted; take another name")
            }
            Self::Unowned => {
                format!("{chat}: nobody owns this chat; `garth chat own {chat} USER` says who does")
            }
            Self::NoDirectory => {
                let message = "is no directory, so no chat can be made here; move it away";
                return Err(Error::at(ErrorKind::AlreadyExists, at, message));
            }
        };
        Err(Error::new(ErrorKind::AccessDenied, message))
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
    Standing::of(raw, policy, who, at).await?.check(who, at)
}

/// Returns the chat without a name of an audience whose own name another has taken.
fn unnamed(who: &Identity) -> String {
    format!(":user:{}", who.audience())
}

/// Returns an identity in its chat, and the directory of the chat if the identity does not reach it. Without
/// a name the chat is named like the audience, or, where that is the name of another's, `:user:` and the
/// audience: nobody takes the place of somebody who has not come yet.
///
/// # Errors
/// As [`check`], for a chat that was named.
pub(crate) async fn choose(
    raw: &dyn FileSystem,
    policy: &AccessPolicy,
    who: Identity,
    is_named: bool,
) -> Result<(Identity, Option<TreePath>)> {
    let chats = TreePath::parse(CHATS)?;
    let dir = |chat: &str| TreePath::from_row(chats.key(), chat);
    let at = dir(who.chat());
    if is_named {
        check(raw, policy, &who, &at).await?;
        return Ok((who, None));
    }
    let mut standing = Standing::of(raw, policy, &who, &at).await?;
    let (mut who, mut at) = (who, at);
    if !is_reserved(who.audience()) {
        let other = unnamed(&who);
        let is_taken = matches!(standing, Standing::Others | Standing::OthersPast);
        if is_taken || raw.lookup(&dir(&other)).await?.is_some() {
            at = dir(&other);
            who = who.in_chat(other);
            standing = Standing::of(raw, policy, &who, &at).await?;
        }
    }
    Ok((who, (standing != Standing::Open).then_some(at)))
}

/// Returns the audience that a chat belongs to, `*/` and an agent for all owners of that; `None` for one that
/// nobody owns. `entry` is its directory's.
pub fn audience(entry: &Entry) -> Option<&str> {
    entry.attributes.metadata.get(AUDIENCE).map(String::as_str)
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
