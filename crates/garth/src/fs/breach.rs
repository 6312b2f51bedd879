//! What a tree has that a rule would refuse: asked before the rule is set, since a rule judges commits, and
//! what was there before stays until it is changed.

use std::collections::VecDeque;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{At, Item, Kind, MAX_PAGE, Page};
use crate::path::{Name, TreePath};
use crate::rule::{Breach, Check, Rule};

/// So much of a file is read at once.
const PIECE: usize = 1 << 20;

/// The first `limit` paths that a rule would refuse as they are, depth first, and whether there are more.
/// Looks only where the rule's class can have paths.
///
/// # Errors
/// Those of the filesystem.
pub async fn breaches(fs: &dyn FileSystem, rule: &Rule, limit: usize) -> Result<(Vec<Breach>, bool)> {
    let mut found = Vec::new();
    let mut levels = vec![Level::at(rule.class().base())];
    while let Some(level) = levels.last_mut() {
        let Some(item) = level.next(fs).await? else {
            levels.pop();
            continue;
        };
        let path = TreePath::from_row(level.dir.key(), item.name.as_str());
        if item.kind == Kind::Directory {
            levels.extend(rule.class().may_have(&path).then(|| Level::at(path)));
        } else if item.kind == Kind::File
            && rule.class().has(&path)
            && let Some(reason) = reason(fs, rule, &path).await?
        {
            if found.len() == limit {
                return Ok((found, true));
            }
            found.push(Breach { path, reason });
        }
    }
    Ok((found, false))
}

/// A directory on the way, read page by page: a tree may have a million in one.
struct Level {
    dir: TreePath,
    items: VecDeque<Item>,
    /// Where the next page begins; `None` after the last.
    after: Option<Option<Name>>,
}

impl Level {
    fn at(dir: TreePath) -> Self {
        Self { dir, items: VecDeque::new(), after: Some(None) }
    }

    async fn next(&mut self, fs: &dyn FileSystem) -> Result<Option<Item>> {
        while self.items.is_empty()
            && let Some(after) = self.after.take()
        {
            let page = Page { after, limit: MAX_PAGE, ..Page::default() };
            let listing = match fs.list(&At::Path(self.dir.clone()), &page).await {
                // what is gone breaks nothing
                Err(error) if is_gone(&error) => break,
                other => other?,
            };
            let last = listing.items.last().filter(|_| listing.more);
            self.after = last.map(|last| Some(last.name.clone()));
            self.items = listing.items.into();
        }
        Ok(self.items.pop_front())
    }
}

/// What a rule would refuse about a file.
async fn reason(fs: &dyn FileSystem, rule: &Rule, path: &TreePath) -> Result<Option<String>> {
    let file = match fs.open(&At::Path(path.clone())).await {
        Err(error) if is_gone(&error) => return Ok(None),
        other => other?,
    };
    let entry = file.stat().await?;
    let mut check = match Check::begin(rule, entry.size, entry.expires_at.is_some()) {
        Ok(Some(check)) => check,
        Ok(None) => return Ok(None),
        Err(reason) => return Ok(Some(reason)),
    };
    let mut from = 0;
    while from < entry.size {
        let length = PIECE.min(usize::try_from(entry.size - from).unwrap_or(PIECE));
        let piece = file.read_at(from, length).await?;
        if piece.is_empty() {
            break;
        }
        from += piece.len() as u64;
        if let Err(reason) = check.feed(&piece) {
            return Ok(Some(reason));
        }
    }
    Ok(check.finish().err())
}

fn is_gone(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory)
}
