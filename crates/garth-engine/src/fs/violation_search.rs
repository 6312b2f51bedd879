//! Search for files that violate a rule which is to be set. A rule judges commits; files that exist before it
//! stay as they are until they are changed.

use std::collections::VecDeque;

use crate::error::{Error, ErrorKind, Result};
use crate::fs::{FileSystem, OpenFile};
use crate::model::{At, Item, Kind, MAX_PAGE, Page, VersionId};
use crate::path::{Name, TreePath};
use crate::rule::{Check, FileViolation, Place, Rule};

/// Bytes of a file that are read at a time. Longer holes are skipped.
const PIECE: usize = 1 << 20;

/// Limit on the bytes that are read of a file, 16 GiB: about a minute of work. A file may have 8 TiB, most of
/// them copied ranges that nobody has sent. Small in tests.
const MOST_READ: u64 = if cfg!(test) { 4 << 20 } else { 16 << 30 };

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
/// of the rule's pattern. A file of which more would have to be read than 16 GiB, without its holes, counts
/// as one that violates the rule.
///
/// # Errors
/// Errors of the filesystem.
pub async fn look(fs: &dyn FileSystem, rule: &Rule, limit: usize) -> Result<ViolationSearch> {
    look_while(fs, rule, limit, &|| Ok(())).await
}

/// Checks the files of a rule as [`look`] does, and asks before each file, and before each piece that is
/// read, whether to go on.
///
/// # Errors
/// Errors of `go_on` and of the filesystem.
pub async fn look_while(
    fs: &dyn FileSystem,
    rule: &Rule,
    limit: usize,
    go_on: &(dyn Fn() -> Result<()> + Sync),
) -> Result<ViolationSearch> {
    let mut looked = ViolationSearch::default();
    let mut levels = vec![Level::at(rule.pattern().base())];
    while let Some(level) = levels.last_mut() {
        go_on()?;
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
        match look_at(fs, rule, &path, go_on).await? {
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

async fn look_at(
    fs: &dyn FileSystem,
    rule: &Rule,
    path: &TreePath,
    go_on: &(dyn Fn() -> Result<()> + Sync),
) -> Result<FileVerdict> {
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
    let (mut from, mut read) = (0, 0);
    while from < entry.size {
        go_on()?;
        let data = next_data(&*file, from, entry.size).await?;
        // Short ones are read with the bytes around them.
        if data - from > PIECE as u64 {
            if let Err(reason) = check.skip(data - from) {
                return Ok(FileVerdict::Bad(reason));
            }
            from = data;
            continue;
        }
        if read >= MOST_READ {
            return Ok(FileVerdict::Bad(too_long(entry.size)));
        }
        let length = PIECE.min(usize::try_from(entry.size - from).unwrap_or(PIECE));
        let piece = file.read_at(from, length).await?;
        // Without versions the file may have become shorter.
        if piece.is_empty() {
            break;
        }
        from += piece.len() as u64;
        read += piece.len() as u64;
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

/// Returns the offset of the first byte from `from` on that is not in a hole; `size` if only a hole follows.
async fn next_data(file: &dyn OpenFile, from: u64, size: u64) -> Result<u64> {
    match file.next_data(from).await {
        Err(error) if error.is(ErrorKind::NoSuchOffset) => Ok(size),
        // No hole is known, so everything is read.
        Err(error) if error.is(ErrorKind::Unsupported) => Ok(from),
        data => Ok(data?.clamp(from, size)),
    }
}

fn too_long(size: u64) -> String {
    format!(
        "has {size} bytes, and more than {MOST_READ} to read, the limit of a check when a rule is set; set the rule \
         with `force`, or leave the file out of its pattern"
    )
}

fn is_gone(error: &Error) -> bool {
    error.is_absent() || error.is(ErrorKind::IsADirectory)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures::executor::block_on;

    use super::*;
    use crate::engine::memory::MemoryFs;
    use crate::env::Env;
    use crate::fs::FileSystemExt as _;
    use crate::model::{Batch, MAX_FILE, Op};
    use crate::rule::{Constraint, PathPattern, Registry};

    fn secrets() -> Rule {
        let constraint = Constraint::parse("secrets", r#"{"policy":"refuse"}"#).unwrap();
        Rule::new(PathPattern::parse("/**").unwrap(), constraint)
    }

    /// Returns a tree with a file of two bytes at the ends of a hole.
    fn sparse(size: u64) -> MemoryFs {
        let fs = MemoryFs::new(Env::system(), Registry::empty());
        let file = TreePath::parse("/f").unwrap();
        let ops = [Op::write(&file, "a"), Op::truncate(&file, size), Op::patch(&file, size - 1, "b")];
        block_on(fs.commit(Batch::new(ops))).unwrap();
        fs
    }

    #[test]
    fn holes_are_not_read() {
        let steps = [64 << 20, MAX_FILE].map(|size| {
            let (fs, asked) = (sparse(size), AtomicU64::new(0));
            let go_on = || {
                asked.fetch_add(1, Ordering::Relaxed);
                Ok(())
            };
            let found = block_on(look_while(&fs, &secrets(), 10, &go_on)).unwrap();
            assert_eq!((found.violations, found.good[0].1.offset), (Vec::new(), size));
            asked.load(Ordering::Relaxed)
        });
        assert_eq!(steps[0], steps[1]);
    }

    #[test]
    fn file_that_is_too_long_counts_as_a_violation() {
        let fs = MemoryFs::new(Env::system(), Registry::empty());
        block_on(fs.write("/f", vec![b'a'; MOST_READ as usize])).unwrap();
        assert_eq!(block_on(look(&fs, &secrets(), 10)).unwrap().violations, []);
        block_on(fs.commit(Op::append(TreePath::parse("/f").unwrap(), "a").into())).unwrap();
        let found = block_on(look(&fs, &secrets(), 10)).unwrap();
        assert!(found.violations[0].reason.contains("`force`"), "{found:?}");
    }

    #[test]
    fn search_ends_when_it_may_not_go_on() {
        let fs = MemoryFs::new(Env::system(), Registry::empty());
        block_on(fs.write("/f", vec![b'a'; 8 << 20])).unwrap();
        let asked = AtomicU64::new(0);
        let go_on = || match asked.fetch_add(1, Ordering::Relaxed) {
            0..4 => Ok(()),
            _ => Err(Error::new(ErrorKind::TimedOut, "enough")),
        };
        let error = block_on(look_while(&fs, &secrets(), 10, &go_on)).unwrap_err();
        assert_eq!((error.message(), asked.into_inner()), ("enough", 5));
    }
}
