//! Chats: directories with the files of a conversation. A chat belongs to the audience that created it, and
//! its files are deleted with it.

use crate::boxed;
use crate::identity::{AccessPolicy, Identity, check_audience, check_chat, is_reserved};
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::fs::{FileSystem, FileSystemExt as _};
use garth_engine::model::{At, Author, Batch, Commit, Entry, HistoryPage, Op, SetAttrs};
use garth_engine::path::TreePath;

/// Directory of the chats of an account.
pub const CHATS: &str = "/chats";

/// Returns the directory of a chat in its account.
///
/// # Errors
/// `InvalidArgument` for an invalid id.
pub fn directory(chat: &str) -> Result<TreePath> {
    check_chat(chat)?;
    Ok(TreePath::parse(&format!("{CHATS}/{chat}"))?)
}

/// Removes a chat with all its files, in one commit. Its history is kept until it is purged.
///
/// # Errors
/// `InvalidArgument` for an invalid id; `NotFound`; as [`FileSystem::commit`].
#[boxed]
pub async fn delete(account: &dyn FileSystem, chat: &str, author: Author) -> Result<Commit> {
    let batch = Batch::new([Op::remove_tree(directory(chat)?)]).author(author);
    account.commit(batch.message(format!("delete chat {chat}"))).await.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("{chat}: no such chat")),
        _ => error,
    })
}

/// Custom metadata of a chat's directory: its audience, or `*/` and an agent for all owners of that agent.
const AUDIENCE: &str = "garth.audience";

/// Owner of a new chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChatOwner(String);

impl ChatOwner {
    /// Returns the owner of a chat that an identity creates. Under the owner `*`, a chat that a main session
    /// names belongs to all owners of the agent; any other belongs to the audience.
    pub(crate) fn of(policy: &AccessPolicy, who: &Identity) -> Self {
        let is_named = ![who.audience(), &*unnamed(who)].contains(&who.chat());
        // Under `*` each owner has an audience of its own. A chat that one of them names is for all of them.
        let every = is_named && who.is_main() && policy.one_owner().is_none();
        Self(if every { format!("*/{}", who.agent()) } else { who.audience().to_owned() })
    }

    /// Returns the attributes of the chat's directory.
    pub(crate) fn attrs(&self) -> SetAttrs {
        owner_attrs(&self.0)
    }
}

/// Relation of an identity to a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Owned by its audience, or not created yet.
    Open,
    /// Owned by another audience.
    Others,
    /// Owned by another audience, which has deleted it. A new owner of the name could read its past.
    OthersPast,
    /// Directory without an owner.
    Unowned,
    /// Not a directory.
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
        // A deleted chat keeps its owner: its files can be read in the past of the name, as long as that is
        // stored.
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

    /// Checks that the chat is open to the identity.
    fn check(self, who: &Identity, at: &TreePath) -> Result<()> {
        let chat = who.chat();
        let message = match self {
            Self::Open => return Ok(()),
            // One text, so that nobody learns which chats others have deleted.
            Self::Others | Self::OthersPast => {
                format!(
                    "{chat}: belongs to another audience, or did until it was deleted; use another name, or name \
                     the user who has it"
                )
            }
            Self::Unowned => {
                let advice = format!("set one with `garth chat own {chat} USER`");
                let error = Error::new(ErrorKind::AccessDenied, format!("{chat}: has no owner"));
                return Err(error.advising(Advice::Command, &advice));
            }
            Self::NoDirectory => {
                let message = "not a directory, so no chat can be created here; move it away";
                return Err(Error::at(ErrorKind::AlreadyExists, at, message));
            }
        };
        Err(Error::new(ErrorKind::AccessDenied, message))
    }
}

/// Checks that no other audience owns a chat. Anyone may create one that does not exist.
///
/// # Errors
/// `AccessDenied`; `AlreadyExists` if another file is in its place; from the filesystem.
pub(crate) async fn check(
    raw: &dyn FileSystem,
    policy: &AccessPolicy,
    who: &Identity,
    at: &TreePath,
) -> Result<()> {
    Standing::of(raw, policy, who, at).await?.check(who, at)
}

/// Returns the default chat of an audience whose own name another audience has taken.
fn unnamed(who: &Identity) -> String {
    format!(":user:{}", who.audience())
}

/// Returns an identity in its chat, and the directory of the chat if the identity must not reach it. The
/// default chat is named like the audience or, if another audience owns that name, `:user:` and the audience,
/// so that nobody can block a user in advance by taking the name.
///
/// # Errors
/// As [`check`], for a chat that the request names.
pub(crate) async fn choose(
    raw: &dyn FileSystem,
    policy: &AccessPolicy,
    who: Identity,
    is_named: bool,
) -> Result<(Identity, Option<TreePath>)> {
    let chats = TreePath::parse(CHATS)?;
    let dir = |chat: &str| TreePath::from_row(chats.key(), chat);
    let at = dir(who.chat());
    // A chat that the request names must be open. The default chat need not be: its files are then only
    // hidden.
    if is_named {
        check(raw, policy, &who, &at).await?;
        return Ok((who, None));
    }
    let mut standing = Standing::of(raw, policy, &who, &at).await?;
    let (mut who, mut at) = (who, at);
    // Ids of other audiences begin with `:`, which no request can name, so their chats cannot be taken.
    if !is_reserved(who.audience()) {
        let other = unnamed(&who);
        let is_taken = matches!(standing, Standing::Others | Standing::OthersPast);
        // Once chosen, the second name stays the default, even if the first one becomes free.
        if is_taken || raw.lookup(&dir(&other)).await?.is_some() {
            at = dir(&other);
            who = who.in_chat(other);
            standing = Standing::of(raw, policy, &who, &at).await?;
        }
    }
    Ok((who, (standing != Standing::Open).then_some(at)))
}

/// Returns the audience that owns a chat, or `*/` and an agent for all owners of that agent; `None` for a
/// chat without an owner. `entry` is that of its directory.
pub fn audience(entry: &Entry) -> Option<&str> {
    entry.attributes.metadata.get(AUDIENCE).map(String::as_str)
}

/// Returns the attribute that assigns a chat to an audience.
pub(crate) fn owner_attrs(audience: &str) -> SetAttrs {
    SetAttrs::new().metadata(AUDIENCE, audience)
}

/// Sets the owner of a chat: a user, or the audience of a session key.
///
/// # Errors
/// `InvalidArgument` for an invalid id; `NotFound`; from the filesystem.
pub(crate) async fn own(
    account: &dyn FileSystem,
    chat: &str,
    audience: &str,
    author: Author,
) -> Result<Commit> {
    check_audience(audience)?;
    let batch =
        Batch::new([Op::set_attrs(directory(chat)?, owner_attrs(audience))]).author(author).by_garth();
    account.commit(batch.message(format!("set the owner of chat {chat}"))).await.map_err(|error| match error
        .kind()
    {
        ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("{chat}: no such chat")),
        _ => error,
    })
}
