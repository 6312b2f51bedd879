//! Upgrade of chats: a chat written by a single user belongs to this user. Others wait for `garth chat own`.

use std::collections::BTreeMap;

use super::record::{Upgrade, commit};
use crate::chat::{CHATS, owner_attrs};
use crate::identity::is_reserved;
use garth_engine::error::{ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ChangesQuery, Kind, MAX_PAGE, Op, Page};
use garth_engine::path::TreePath;

/// Sets the owners of the chats of an account.
pub(super) async fn own(fs: &dyn FileSystem, upgrade: &mut Upgrade) -> Result<()> {
    let dir = TreePath::parse(CHATS)?;
    let writers = writers(fs, &dir).await?;
    let mut page = Page::default().limit(MAX_PAGE);
    loop {
        let Some(listing) = fs.list(&At::from(&dir), &page).await.optional()? else { return Ok(()) };
        let mut ops = Vec::new();
        for item in listing.items.iter().filter(|item| item.kind == Kind::Directory) {
            let chat = item.name.as_str();
            match writers.get(chat) {
                Some(Some(user)) if !is_reserved(user) => {
                    ops.push(Op::set_attrs(TreePath::from_row(dir.key(), chat), owner_attrs(user)));
                    upgrade.note(format!("chat {chat}: owned by {user}, its only writer"));
                }
                _ => upgrade.note(format!("chat {chat}: has no owner; set one with `garth chat own {chat}`")),
            }
        }
        commit(fs, ops, "say whose chats are").await?;
        match listing.items.into_iter().next_back().filter(|_| listing.more) {
            Some(last) => page = page.after(Some(last.name)),
            None => return Ok(()),
        }
    }
}

/// Returns the only writer of each chat; `None` for a chat with several.
async fn writers(fs: &dyn FileSystem, dir: &TreePath) -> Result<BTreeMap<String, Option<String>>> {
    let mut writers: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut query = ChangesQuery::default().limit(MAX_PAGE);
    query.within = vec![dir.clone()];
    loop {
        let page = match fs.changes(&query).await {
            // The log no longer reaches back to the first commit, so the writers are unknown.
            Err(error) if error.is(ErrorKind::Gone) => return Ok(BTreeMap::new()),
            page => page?,
        };
        for commit in &page.commits {
            // Commits without a user, such as those of an operator, do not count.
            let Some(user) = commit.commit.author.keeper() else { continue };
            let paths = commit.changes.iter().flat_map(|change| &change.paths);
            for chat in paths.filter_map(|path| path.segments().nth(1)) {
                let only = writers.entry(chat.to_owned()).or_insert_with(|| Some(user.to_owned()));
                if only.as_deref() != Some(user) {
                    *only = None;
                }
            }
        }
        if page.until.seq >= page.head {
            return Ok(writers);
        }
        query.since = page.until;
    }
}
