//! Creates missing directories of an account that an agent's tree is built from.

use crate::chat::{self, ChatOwner};
use crate::identity::places::Places;
use crate::identity::{AccessPolicy, Identity};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::store::system;
use garth_engine::fs::{AccountStore, FileSystem, SYSTEM};
use garth_engine::model::{Batch, ByteRange, Op};
use garth_engine::path::TreePath;

/// Number of paths looked up at a time. A read of so few is short and needs no other thread.
const STEP: usize = 32;

/// Returns the directory with the overlay state of an agent's skills: hidden files, and files copied up.
pub(super) fn kept(agent: &str) -> Result<TreePath> {
    Ok(TreePath::parse(&format!("{SYSTEM}/skills/{agent}"))?)
}

/// Creates the missing directories of a tree, in one commit. A new chat belongs to the audience that creates
/// it.
pub(super) async fn make(
    account: &dyn AccountStore,
    (policy, who, places): (&AccessPolicy, &Identity, &Places),
    with_skills: bool,
) -> Result<()> {
    let mut wanted = vec![places.user.clone(), places.memories.clone()];
    // Only the owner creates the agent's own directory.
    if who.is_main() {
        wanted.push(places.agent.clone());
    }
    wanted.extend(with_skills.then(|| kept(who.agent())).transpose()?);
    if !places.within.is_excluded(&places.sessions) {
        wanted.push(places.sessions.clone());
    }
    let (raw, owner, message) = (account.raw(), ChatOwner::of(policy, who), "open the tree of a chat");
    let is_there = async || Ok::<_, Error>(are_there(&*raw, &[&places.chat]).await? == [true]);
    let had_chat = is_there().await?;
    let chat = Op::mkdir(places.chat.clone()).with_parents().with_attrs(owner.attrs());
    let made = make_with(account, (&wanted, (!had_chat).then_some(chat)), who, message).await;
    // Checked again after the commit: another audience may have created the chat in between.
    chat::check(&*raw, policy, who, &places.chat).await?;
    match made {
        // It is the own audience's, so only the other directories are still to be created.
        Err(error) if !had_chat && error.is(ErrorKind::AlreadyExists) && is_there().await? => {
            make_with(account, (&wanted, None), who, message).await
        }
        made => made,
    }
}

/// Creates the missing ones of some directories, in one commit.
pub(crate) async fn make_missing(
    account: &dyn AccountStore,
    wanted: &[TreePath],
    who: &Identity,
    message: &str,
) -> Result<()> {
    make_with(account, (wanted, None), who, message).await
}

async fn make_with(
    account: &dyn AccountStore,
    (wanted, more): (&[TreePath], Option<Op>),
    who: &Identity,
    message: &str,
) -> Result<()> {
    let raw = account.raw();
    let there = are_there(&*raw, &wanted.iter().collect::<Vec<_>>()).await?;
    let missing = || wanted.iter().zip(&there).filter(|(_, there)| !**there).map(|(path, _)| path);
    let of_garth = TreePath::parse(SYSTEM)?;
    if missing().any(|path| path.is_within(&of_garth)) {
        // The system directory has to be claimed first, or an account with its own `/.garth` would be mixed
        // up with it.
        system(account).await?;
    }
    let ops: Vec<Op> = more.into_iter().chain(missing().map(|path| Op::mkdir_all(path.clone()))).collect();
    if ops.is_empty() {
        return Ok(());
    }
    let made = raw.commit(Batch::new(ops).author(who.author()).message(message).by_garth()).await;
    made.map(drop).map_err(|error| match (error.kind(), error.path()) {
        (ErrorKind::AlreadyExists | ErrorKind::NotADirectory, Some(path)) => {
            let message = "not a directory, but the agent's tree needs one here; move it away";
            Error::at(ErrorKind::AlreadyExists, path, message)
        }
        _ => error,
    })
}

/// Returns for each path if it is a directory.
pub(super) async fn are_there(fs: &dyn FileSystem, paths: &[&TreePath]) -> Result<Vec<bool>> {
    let kinds = kinds_at(fs, paths).await?;
    Ok(kinds.into_iter().map(|there| there == There::Directory).collect())
}

/// Kind of the file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    Nothing,
    Directory,
    Other,
}

/// Returns the kind of the file at each path.
pub(super) async fn kinds_at(fs: &dyn FileSystem, paths: &[&TreePath]) -> Result<Vec<There>> {
    let mut there = Vec::with_capacity(paths.len());
    while there.len() < paths.len() {
        let items: Vec<_> = paths[there.len()..]
            .iter()
            .take(STEP)
            // No content is needed: the error of a fetch shows the kind.
            .map(|path| ((*path).into(), ByteRange { offset: 0, length: 0 }))
            .collect();
        let fetched = fs.fetch_many(&items).await?.items;
        if fetched.is_empty() {
            return Err(Error::new(ErrorKind::Io, "the storage returned no answer"));
        }
        for answer in fetched {
            there.push(match answer {
                Err(error) if error.is(ErrorKind::IsADirectory) => There::Directory,
                // A file, a link or another node. An attempt to create a directory there, or below it, fails
                // with the reason.
                Ok(_) => There::Other,
                Err(error) if error.is(ErrorKind::NotPermitted) => There::Other,
                Err(error) if error.is_absent() => There::Nothing,
                Err(error) => return Err(error),
            });
        }
    }
    Ok(there)
}
