//! Search for files that violate a rule which is to be set. A rule judges commits; files that exist before it
//! stay as they are until they are changed.

use std::collections::VecDeque;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::FileSystem;
use crate::model::{At, Item, Kind, MAX_PAGE, Page, VersionId};
use crate::path::{Name, TreePath};
use crate::rule::{Check, FileViolation, Place, Rule};

/// Bytes of a file that are read at a time.
const PIECE: usize = 1 << 20;

/// Size from which the place up to which a file was checked is worth remembering.
const LONG: u64 = 1 << 20;
/// Limit on the places that are remembered.
const MOST_LONG: usize = 10_000;

/// Result of a search for violations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ViolationSearch {
    /// First paths that violate the rule, depth first.
    pub violations: Vec<FileViolation>,
    /// True if there are more.
    pub more: bool,
    /// Long files that satisfy the rule, by the version of their content, each with the place from which to
    /// continue once the file has grown.
    pub good: Vec<(VersionId, Place)>,
}

/// Checks the files of a rule, until `limit` of them violate it. Reads only directories that can hold paths
/// of the rule's pattern.
///
/// # Errors
/// Errors of the filesystem.
pub async fn look(fs: &dyn FileSystem, rule: &Rule, limit: usize) -> Result<ViolationSearch> {
    let mut looked = ViolationSearch::default();
    let mut levels = vec![Level::at(rule.pattern().base())];
    while let Some(level) = levels.last_mut() {
        let Some(item) = level.next(fs).await? else {
            levels.pop();
            continue;
        };
        let path = TreePath::from_row(level.dir.key(), item.name.as_str());
        if item.kind == Kind::Directory {
            // Entered at once, so that violations are found depth first.
            levels.extend(rule.pattern().may_have(&path).then(|| Level::at(path)));
            continue;
        }
        if item.kind != Kind::File || !rule.pattern().has(&path) {
            continue;
        }
        match look_at(fs, rule, &path).await? {
            // One more than is listed, to know that there are more.
            FileVerdict::Bad(_) if looked.violations.len() == limit => {
                return Ok(ViolationSearch { more: true, ..looked });
            }
            FileVerdict::Bad(reason) => looked.violations.push(FileViolation { path, reason }),
            FileVerdict::Long(version, place) if looked.good.len() < MOST_LONG => {
                looked.good.push((version, place));
            }
            FileVerdict::Long(..) | FileVerdict::Good => {}
        }
    }
    Ok(looked)
}

/// Directory that is being read, page by page: it may have a million entries.
struct Level {
    dir: TreePath,
    items: VecDeque<Item>,
    /// Name after which the next page starts; `None` after the last page.
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
                // A directory that was removed violates nothing.
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

/// Verdict of a rule on a file.
enum FileVerdict {
    Good,
    /// Satisfied; the file is long enough to remember how far it was checked.
    Long(VersionId, Place),
    Bad(String),
}

async fn look_at(fs: &dyn FileSystem, rule: &Rule, path: &TreePath) -> Result<FileVerdict> {
    let entry = match fs.stat(&At::Path(path.clone())).await {
        Err(error) if is_gone(&error) => return Ok(FileVerdict::Good),
        other => other?,
    };
    let mut check = match Check::begin(rule, entry.size, entry.expires_at.is_some()) {
        Ok(Some(check)) => check,
        Ok(None) => return Ok(FileVerdict::Good),
        Err(reason) => return Ok(FileVerdict::Bad(reason)),
    };
    // One version: a change made while it is read is checked separately.
    let file = match fs.open_version(entry.version).await {
        Err(error) if error.is(ErrorKind::Unsupported) => fs.open(&At::Path(path.clone())).await,
        other => other,
    };
    let file = match file {
        Err(error) if is_gone(&error) => return Ok(FileVerdict::Good),
        other => other?,
    };
    let mut from = 0;
    while from < entry.size {
        let length = PIECE.min(usize::try_from(entry.size - from).unwrap_or(PIECE));
        let piece = file.read_at(from, length).await?;
        // Without versions the file may have become shorter.
        if piece.is_empty() {
            break;
        }
        from += piece.len() as u64;
        if let Err(reason) = check.feed(&piece) {
            return Ok(FileVerdict::Bad(reason));
        }
    }
    Ok(match check.finish() {
        Err(reason) => FileVerdict::Bad(reason),
        Ok(Some(place)) if entry.size >= LONG => FileVerdict::Long(entry.etag, place),
        Ok(_) => FileVerdict::Good,
    })
}

fn is_gone(error: &Error) -> bool {
    error.is_absent() || error.is(ErrorKind::IsADirectory)
}
