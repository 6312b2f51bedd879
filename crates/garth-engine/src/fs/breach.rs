//! What a tree has that a rule would refuse: asked before the rule is set, since a rule judges commits, and
//! what was there before stays until it is changed.

use std::collections::VecDeque;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{At, Item, Kind, MAX_PAGE, Page, VersionId};
use crate::path::{Name, TreePath};
use crate::rule::{Breach, Check, Place, Rule};

/// So much of a file is read at once.
const PIECE: usize = 1 << 20;

/// Files of this many bytes and more are worth remembering how far they were found good; so many of them.
const LONG: u64 = 1 << 20;
const MOST_LONG: usize = 10_000;

/// What was found of a tree by a look at it for a rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looked {
    /// The first paths that the rule would refuse as they are, depth first.
    pub breaches: Vec<Breach>,
    /// Whether there are more.
    pub more: bool,
    /// Long files that are good, by the version of their content, each with the place from which to go on
    /// once it has grown.
    pub good: Vec<(VersionId, Place)>,
}

/// Looks at all that a rule is for, until it has found `limit` paths that break it. Looks only where the
/// rule's class can have paths.
///
/// # Errors
/// Those of the filesystem.
pub async fn look(fs: &dyn FileSystem, rule: &Rule, limit: usize) -> Result<Looked> {
    let mut looked = Looked::default();
    let mut levels = vec![Level::at(rule.class().base())];
    while let Some(level) = levels.last_mut() {
        let Some(item) = level.next(fs).await? else {
            levels.pop();
            continue;
        };
        let path = TreePath::from_row(level.dir.key(), item.name.as_str());
        if item.kind == Kind::Directory {
            levels.extend(rule.class().may_have(&path).then(|| Level::at(path)));
            continue;
        }
        if item.kind != Kind::File || !rule.class().has(&path) {
            continue;
        }
        match look_at(fs, rule, &path).await? {
            Found::Bad(_) if looked.breaches.len() == limit => return Ok(Looked { more: true, ..looked }),
            Found::Bad(reason) => looked.breaches.push(Breach { path, reason }),
            Found::Long(version, place) if looked.good.len() < MOST_LONG => {
                looked.good.push((version, place));
            }
            Found::Long(..) | Found::Good => {}
        }
    }
    Ok(looked)
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

/// What a rule says of a file.
enum Found {
    Good,
    /// A long one that need not be looked at again.
    Long(VersionId, Place),
    Bad(String),
}

async fn look_at(fs: &dyn FileSystem, rule: &Rule, path: &TreePath) -> Result<Found> {
    let entry = match fs.stat(&At::Path(path.clone())).await {
        Err(error) if is_gone(&error) => return Ok(Found::Good),
        other => other?,
    };
    let mut check = match Check::begin(rule, entry.size, entry.expires_at.is_some()) {
        Ok(Some(check)) => check,
        Ok(None) => return Ok(Found::Good),
        Err(reason) => return Ok(Found::Bad(reason)),
    };
    // of one version: what is written meanwhile is looked at by itself
    let file = match fs.open_version(entry.version).await {
        Err(error) if error.is(ErrorKind::Unsupported) => fs.open(&At::Path(path.clone())).await,
        other => other,
    };
    let file = match file {
        Err(error) if is_gone(&error) => return Ok(Found::Good),
        other => other?,
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
            return Ok(Found::Bad(reason));
        }
    }
    Ok(match check.finish() {
        Err(reason) => Found::Bad(reason),
        Ok(Some(place)) if entry.size >= LONG => Found::Long(entry.etag, place),
        Ok(_) => Found::Good,
    })
}

fn is_gone(error: &Error) -> bool {
    error.is_absent() || error.is(ErrorKind::IsADirectory)
}
