//! Differences in pages.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::difference::{Compared, ContentDifference, DiffForm, Difference};
use super::differences::{Differences, Pair};
use super::side::Side;
use crate::boxed;
use crate::files::cursor::{Cursors, moment_json, path_of, unknown_cursor};
use crate::files::handle::Files;
use crate::files::limits::{Budget, Limits, MAX_COMPARED_LINES, MAX_COMPARED_TEXT};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::fs::resolve::Follow;
use garth_engine::model::{Moment, VersionId};
use garth_engine::path::TreePath;

/// Bytes that a difference takes in addition to its path and hunks.
const ITEM_OVERHEAD: usize = 64;

/// Comparison of two states of a path, or of two paths, with everything below them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Diff {
    /// Path; of two, the older side. Links to it are followed.
    pub path: String,
    /// Path of the newer side; `None` for the same one.
    pub other: Option<String>,
    /// Time of the older side; `None` for now.
    pub from: Option<Moment>,
    /// Time of the newer side; `None` for now.
    pub to: Option<Moment>,
    /// Parts of each difference.
    pub form: DiffForm,
    /// Longest file in bytes that is compared by line, at most [`MAX_COMPARED_TEXT`].
    pub max_text: u64,
    /// Limit on the lines of a file that is compared by line, at most [`MAX_COMPARED_LINES`].
    pub max_lines: usize,
    /// Limits of one call. Items are differences.
    pub limits: Limits,
    /// Start: [`DiffPage::next`] of the page before, or `None` for the first page.
    pub cursor: Option<String>,
}

/// Page of differences.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DiffPage {
    /// Differences, in the order of a walk. If the one before the first had `more`, the first one continues
    /// it.
    pub items: Vec<Difference>,
    /// Cursor of the next page; `None` if this is the last one. The next page may be empty.
    pub next: Option<String>,
}

/// Position of a page.
#[derive(Serialize, Deserialize)]
struct Position {
    /// Key of the last path below the two that are compared.
    below: String,
    /// Position in this path; `None` if it was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    inside: Option<Inside>,
}

/// Position in one path.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Inside {
    /// Versions of the content of both sides.
    etags: [Option<VersionId>; 2],
    at: Place,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Place {
    /// Bytes that were compared and are equal.
    Compared(u64),
    /// Bytes of the hunks that were returned.
    Hunks(usize),
}

impl Diff {
    /// Returns the comparison of a path now with its state at a time, by line.
    pub fn since(path: impl Into<String>, from: impl Into<Moment>) -> Self {
        Self { from: Some(from.into()), ..Self::of(path.into(), None) }
    }

    /// Returns the comparison of two paths now, by line.
    pub fn between(path: impl Into<String>, other: impl Into<String>) -> Self {
        Self::of(path.into(), Some(other.into()))
    }

    fn of(path: String, other: Option<String>) -> Self {
        Self {
            path,
            other,
            from: None,
            to: None,
            form: DiffForm::Hunks(3),
            max_text: MAX_COMPARED_TEXT,
            max_lines: MAX_COMPARED_LINES,
            limits: Limits::default(),
            cursor: None,
        }
    }

    fn cursors(&self) -> Cursors {
        let times = [moment_json(self.from.as_ref()), moment_json(self.to.as_ref())];
        let longest = json!([self.max_text, self.max_lines]);
        Cursors::of(&json!(["diff", self.path, self.other, times, self.form, longest]))
    }
}

impl Files<'_> {
    /// Compares two states of a path, or two paths, with everything below them.
    ///
    /// Files are compared by line, in time that does not grow with the square of their length: where more
    /// than a thousand lines differ in one place, the hunks may not be the shortest. Long hunks are
    /// continued on the next page. If one of two compared files changes before that, or in a tree without
    /// versions while it is compared, the page fails with `Conflict`.
    ///
    /// # Errors
    /// `NotFound` if neither time has the path, or one of two paths does not exist; `Conflict`;
    /// `InvalidArgument` for a limit of 0 or a cursor of another request; as
    /// [`as_of`](garth_engine::FileSystem::as_of); errors of the filesystem.
    #[boxed]
    pub async fn diff(&self, asked: &Diff) -> Result<DiffPage> {
        let cursors = asked.cursors();
        let position = match &asked.cursor {
            Some(cursor) => Some(cursors.open::<Position>(cursor)?),
            None => None,
        };
        let budget = Budget::new(asked.limits, self.stop)?.comparing(asked.max_text, asked.max_lines);
        let pasts = [self.past(asked.from.as_ref()).await?, self.past(asked.to.as_ref()).await?];
        let from_fs: &dyn FileSystem = pasts[0].as_deref().unwrap_or(self.fs);
        let to_fs: &dyn FileSystem = pasts[1].as_deref().unwrap_or(self.fs);
        let from = Side::at(from_fs, &asked.path, Follow::Yes).await?;
        let to = Side::at(to_fs, asked.other.as_ref().unwrap_or(&asked.path), Follow::Yes).await?;
        check_existence(&from, &to, asked.other.is_some())?;
        let mut comparison = Comparison { form: asked.form, budget, page: DiffPage::default() };
        let next = comparison.run(from, to, position, asked.limits.names).await?;
        let next = next.map(|position| cursors.seal(&position)).transpose()?;
        Ok(DiffPage { next, ..comparison.page })
    }
}

fn check_existence(from: &Side<'_>, to: &Side<'_>, two_paths: bool) -> Result<()> {
    let missing = [from, to].map(|side| side.entry.is_none());
    let lacking = match (missing, two_paths) {
        ([true, _], true) => &from.path,
        ([_, true], true) | ([true, true], false) => &to.path,
        _ => return Ok(()),
    };
    Err(Error::at(ErrorKind::NotFound, lacking, "no such file or directory"))
}

/// Comparison of one page.
struct Comparison<'b> {
    form: DiffForm,
    budget: Budget<'b>,
    page: DiffPage,
}

impl Comparison<'_> {
    /// Compares until the budget is spent. Returns the position of the next page.
    async fn run(
        &mut self,
        from: Side<'_>,
        to: Side<'_>,
        position: Option<Position>,
        names: usize,
    ) -> Result<Option<Position>> {
        let mut after = None;
        if let Some(Position { below, inside }) = position {
            let path = |side: &Side<'_>| -> Result<TreePath> {
                let path = path_of(&format!("{}{below}", side.path.key()))?;
                if path.is_within(&side.path) { Ok(path) } else { Err(unknown_cursor()) }
            };
            let paths = [path(&from)?, path(&to)?];
            // A page may have ended inside of a path.
            if let Some(inside) = inside {
                let pair = pair_of(&from, &to, &paths, &below).await?;
                if let Some(next) = self.continued(pair, inside).await? {
                    return Ok(Some(next));
                }
            }
            after = Some(paths);
        }
        let mut differences = Differences::resume(from, to, self.form, after, names);
        while let Some(pair) = differences.step().await? {
            self.budget.name();
            let start = pair.inside(Place::Compared(0));
            if let Some(next) = self.pair(pair, start).await? {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    /// Continues with a path that an earlier page began.
    async fn continued(&mut self, pair: Pair<'_>, inside: Inside) -> Result<Option<Position>> {
        if pair.inside(inside.at).etags != inside.etags {
            let message = "changed while it was compared; compare it again, without the cursor";
            return Err(Error::at(ErrorKind::Conflict, &pair.to.path, message));
        }
        self.pair(pair, inside).await
    }

    /// Compares the sides of a path, and adds their difference to the page. Returns the position of the next
    /// page if the page ends here.
    async fn pair(&mut self, pair: Pair<'_>, inside: Inside) -> Result<Option<Position>> {
        let Pair { from, to, below } = &pair;
        let returned = match inside.at {
            Place::Compared(_) => 0,
            Place::Hunks(returned) => returned,
        };
        let same_content = match inside.at {
            // They differ, or there were no hunks.
            Place::Hunks(_) => false,
            Place::Compared(offset) => match from.compare(to, offset, &mut self.budget).await? {
                Compared::Equal => true,
                Compared::Different => false,
                Compared::Until(offset) => {
                    let inside = Some(pair.inside(Place::Compared(offset)));
                    return Ok(Some(Position { below: below.clone(), inside }));
                }
            },
        };
        let mut end = None;
        if let Some(mut difference) = from.described(to, same_content, self.form, &mut self.budget).await? {
            let mut bytes = difference.path.key().len() + ITEM_OVERHEAD;
            if let Some(ContentDifference::Lines { hunks, more, .. }) = &mut difference.content {
                let part = part_of(hunks, returned, self.budget.bytes_left()).ok_or_else(unknown_cursor)?;
                let until = returned + part.len();
                *more = until < hunks.len();
                end = more.then(|| pair.inside(Place::Hunks(until)));
                bytes += part.len();
                *hunks = part.to_owned();
            }
            self.budget.item(bytes);
            self.page.items.push(difference);
        }
        let is_over = end.is_some() || self.budget.is_spent();
        Ok(is_over.then(|| Position { below: below.clone(), inside: end }))
    }
}

impl Pair<'_> {
    /// Returns a position in this path.
    fn inside(&self, at: Place) -> Inside {
        let etag = |side: &Side<'_>| side.entry.as_ref().map(|entry| entry.etag);
        Inside { etags: [etag(&self.from), etag(&self.to)], at }
    }
}

/// Returns the two sides of a path below the two that are compared.
async fn pair_of<'a>(from: &Side<'a>, to: &Side<'a>, paths: &[TreePath; 2], below: &str) -> Result<Pair<'a>> {
    let old = Side::entry_at(from.fs, &paths[0]).await?;
    let new = Side::entry_at(to.fs, &paths[1]).await?;
    // As in `Differences`, a side without the entry has the path of the other one.
    let old_path = if old.is_none() && new.is_some() { &paths[1] } else { &paths[0] };
    let new_path = if new.is_none() && old.is_some() { &paths[0] } else { &paths[1] };
    let (from, to) = (from.with(old_path, old), to.with(new_path, new));
    Ok(Pair { from, to, below: below.to_owned() })
}

/// Returns the part of some hunks after `returned` bytes: at most `most` bytes, but at least one character.
/// It ends with a line if one fits. `None` if no part ends after `returned` bytes.
fn part_of(hunks: &str, returned: usize, most: usize) -> Option<&str> {
    let rest = hunks.get(returned..)?;
    if rest.len() <= most {
        return Some(rest);
    }
    let fits = &rest[..rest.floor_char_boundary(most)];
    let line = fits.rfind('\n').map_or(fits.len(), |end| end + 1);
    let least = rest.chars().next().map_or(0, char::len_utf8);
    Some(&rest[..line.max(least)])
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use garth_engine::Env;
    use garth_engine::engine::memory::MemoryFs;
    use garth_engine::model::{Batch, Op};

    use super::*;

    #[test]
    fn parts_of_hunks_join_to_all_of_them() {
        let hunks = "@@ -1 +1 @@\n-é€😀\n+a\n";
        for most in 1..30 {
            let (mut joined, mut parts) = (String::new(), 0);
            while joined.len() < hunks.len() {
                let part = part_of(hunks, joined.len(), most).unwrap();
                assert!(!part.is_empty() && (part.len() <= most || part.chars().count() == 1));
                joined.push_str(part);
                parts += 1;
            }
            assert_eq!((joined.as_str(), parts == 1), (hunks, most >= hunks.len()), "{most}");
        }
        assert_eq!(part_of(hunks, 0, 14), Some("@@ -1 +1 @@\n"));
        assert_eq!(part_of("", 0, 1), Some(""));
        assert_eq!(part_of(hunks, hunks.len() + 1, 14), None);
        assert_eq!(part_of(hunks, 14, 14), None, "inside of a character");
    }

    #[test]
    fn invented_positions_are_refused() {
        block_on(async {
            let fs = MemoryFs::new(Env::system(), crate::registry());
            let ops = [("/a/x", "1\n"), ("/b/x", "2\n"), ("/a-b/x", "1\n"), ("/b-b/x", "2\n")]
                .map(|(path, text)| Op::write(TreePath::parse(path).unwrap(), text).with_parents());
            fs.commit(Batch::new(ops)).await.unwrap();
            let files = Files::new(&fs);
            let mut asked = Diff::between("/a", "/b");
            asked.limits.bytes = 5;
            let cursor = files.diff(&asked).await.unwrap().next.unwrap();
            let mut position: Position = asked.cursors().open(&cursor).unwrap();
            assert_eq!(position.below, "/x");
            for (below, returned) in [("/x", usize::MAX), ("-b/x", 0), ("/../a-b", 0), ("x", 0)] {
                position.below = below.to_owned();
                position.inside.as_mut().unwrap().at = Place::Hunks(returned);
                asked.cursor = Some(asked.cursors().seal(&position).unwrap());
                let error = files.diff(&asked).await.unwrap_err();
                assert!(error.is(ErrorKind::InvalidArgument), "{below}: {error}");
            }
        });
    }
}
