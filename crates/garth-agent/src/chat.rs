//! Chats: their files live and die with them.

use crate::boxed;
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{Author, Batch, Commit, Op};
use garth_engine::path::{TreePath, check_id};

/// Where an account keeps its chats.
pub const CHATS: &str = "/chats";

/// The directory of a chat in its account.
///
/// # Errors
/// `InvalidArgument` for what is no id.
pub fn directory(chat: &str) -> Result<TreePath> {
    check_id("chat", chat)?;
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
