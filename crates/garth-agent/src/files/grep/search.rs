//! Search of lines below a path, in pages.

use serde::{Deserialize, Serialize};

use super::content::Content;
use super::file_search::{AfterLine, FilePosition, FileSearch, GrepFile};
use super::lines::{Lines, MAX_LINE};
use super::matcher::LineMatcher;
use super::request::{BinaryFiles, Grep, Show};
use crate::boxed;
use crate::files::cursor::{path_of, unknown_cursor};
use crate::files::glob_pattern::GlobPattern;
use crate::files::handle::Files;
use crate::files::left_out::LeftOut;
use crate::files::limits::Budget;
use crate::files::walker::Walker;
use crate::retry::yield_now;
use crate::small_file::is_no_file;
use garth_engine::compute::{go_on, working};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::fs::resolve::{self, Follow};
use garth_engine::model::Entry;
use garth_engine::path::TreePath;

/// Bytes that a file of the answer takes in addition to its path and lines.
const FILE_OVERHEAD: usize = 64;
/// Bytes of lines after which a search yields to other tasks. An expression can take a thousand times longer
/// for a byte than reading it does.
const STEP: usize = 64 << 10;

/// Page of files with selected lines.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct GrepPage {
    /// Files, in the order of a walk.
    pub files: Vec<GrepFile>,
    /// Number of selected lines, with those of files that are not in the answer.
    pub matches: u64,
    /// Cursor of the next page; `None` if this is the last one. The next page may be empty.
    pub next: Option<String>,
}

/// Limit on the patterns of files of one search: each is compared with each name.
const MAX_PATTERNS: usize = 100;

/// Position of a page.
#[derive(Serialize, Deserialize)]
struct Position {
    /// Key of the last path that was looked at.
    path: String,
    /// Position in this file; `None` if it was searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<FilePosition>,
}

impl Files<'_> {
    /// Returns the lines of files that match a regular expression.
    ///
    /// A file is read in parts of 1 MiB and never held as a whole. If it changes between two pages, the
    /// second one continues in the version that the first one read. Each page lists directories at its own
    /// time, unless [`Grep::at`] names one. A failure to read a file is in the answer ([`GrepFile::error`]),
    /// and the search goes on.
    ///
    /// # Errors
    /// `InvalidArgument` for an expression or pattern that is malformed, a limit of 0, or a cursor of another
    /// request; `NotFound` if the path does not exist; as
    /// [`as_of`](garth_engine::FileSystem::as_of); errors of the filesystem.
    #[boxed]
    pub async fn grep(&self, asked: &Grep) -> Result<GrepPage> {
        let (matcher, names, cursors) = (asked.matcher()?, NameFilter::of(asked)?, asked.cursors());
        let from = match &asked.cursor {
            Some(cursor) => Some(cursors.open::<Position>(cursor)?),
            None => None,
        };
        let budget = Budget::new(asked.limits, self.stop)?;
        let past = self.past(asked.at.as_ref()).await?;
        let fs: &dyn FileSystem = past.as_deref().unwrap_or(self.fs);
        let (top, entry) = resolve::stat(fs, &asked.path, Follow::Yes).await?;
        let (page, judged, steps) = (GrepPage::default(), 0, 0);
        let mut search = Search { fs, asked, matcher: &matcher, budget, page, judged, steps };
        let next = search.run(&names, &top, entry, from).await?;
        let next = next.map(|position| cursors.seal(&position)).transpose()?;
        Ok(GrepPage { next, ..search.page })
    }
}

/// Search of one page.
struct Search<'a> {
    fs: &'a dyn FileSystem,
    asked: &'a Grep,
    matcher: &'a LineMatcher,
    budget: Budget<'a>,
    page: GrepPage,
    /// Bytes of lines, and steps for them, after the last yield.
    judged: usize,
    steps: u64,
}

/// End of the search of a file on a page.
enum Ended {
    /// The file is searched as far as needed.
    Searched,
    /// The next page continues here.
    At(FilePosition),
    /// The file could not be read.
    Failed(Error),
}

impl Search<'_> {
    /// Searches until the budget is spent. Returns the position of the next page.
    async fn run(
        &mut self,
        names: &NameFilter,
        top: &TreePath,
        entry: Entry,
        from: Option<Position>,
    ) -> Result<Option<Position>> {
        let after = from.as_ref().map(|from| path_of(&from.path)).transpose()?;
        if after.as_ref().is_some_and(|after| !after.is_within(top)) {
            return Err(unknown_cursor());
        }
        // A page may have ended inside of a file.
        if let (Some(path), Some(file)) = (&after, from.and_then(|from| from.file)) {
            let file = self.file(path, Some(&file)).await?;
            if file.is_some() || self.budget.is_spent() {
                return Ok(Some(Position { path: path.key().to_owned(), file }));
            }
        }
        let mut only = None;
        let mut below = None;
        if entry.is_dir() {
            // The top itself is not below it.
            let after = after.filter(|after| after != top);
            below = Some(Walker::new(self.fs, top, after, self.asked.limits.names));
        } else if after.is_none() {
            only = Some((top.clone(), entry));
        }
        loop {
            let next = match &mut below {
                Some(walker) => walker.next().await?,
                None => only.take(),
            };
            let Some((path, entry)) = next else { return Ok(None) };
            self.budget.name();
            let wanted = entry.is_file() && names.wants(&path, top);
            let file = if wanted { self.file(&path, None).await? } else { None };
            if file.is_some() || self.budget.is_spent() {
                return Ok(Some(Position { path: path.key().to_owned(), file }));
            }
        }
    }

    /// Searches a file, and adds it to the page if it belongs there. Returns the position at which the next
    /// page continues in it.
    async fn file(&mut self, path: &TreePath, from: Option<&FilePosition>) -> Result<Option<FilePosition>> {
        let content = match from {
            Some(from) => Content::resume(self.fs, path, from.version, from.offset).await,
            None => Content::begin(self.fs, path).await,
        };
        if let (Ok(content), Some(from)) = (&content, from)
            && !from.is_possible(self.asked, content.size)
        {
            return Err(unknown_cursor());
        }
        let mut state = FileSearch::new(self.asked, self.matcher, path, from);
        let ended = match content {
            Ok(content) => self.lines(&mut state, content, path, from).await?,
            // It was removed or replaced since its name was read.
            Err(error) if from.is_none() && is_no_file(&error) => return Ok(None),
            Err(error) => Ended::Failed(error),
        };
        let has_match = state.matches > 0;
        let mut found = state.found;
        self.page.matches += found.matches;
        let position = match ended {
            Ended::Searched => None,
            Ended::At(position) => Some(position),
            Ended::Failed(error) => {
                found.error = Some(error);
                None
            }
        };
        found.more = position.is_some();
        let is_shown = found.error.is_some()
            || match self.asked.show {
                // The last part of a file may say no more than that.
                Show::Lines => found.binary || !found.lines.is_empty() || (found.capped && has_match),
                Show::Counts => true,
                Show::Files => has_match,
                Show::FilesWithout => !has_match && !found.more,
            };
        if is_shown {
            self.budget.item(path.key().len() + FILE_OVERHEAD);
            self.page.files.push(found);
        }
        Ok(position)
    }

    /// Yields to other tasks if lines have taken long enough. Returns true if it has yielded.
    async fn yields(&mut self) -> Result<bool> {
        if self.judged < STEP && self.asked.max_steps.is_none_or(|most| self.steps < most) {
            return Ok(false);
        }
        (self.judged, self.steps) = (0, 0);
        go_on()?;
        yield_now().await;
        Ok(true)
    }

    /// Reads the lines of a file, as far as needed.
    async fn lines(
        &mut self,
        state: &mut FileSearch<'_>,
        mut content: Content,
        path: &TreePath,
        from: Option<&FilePosition>,
    ) -> Result<Ended> {
        let is_text = self.asked.binary == BinaryFiles::Text;
        let (offset, before, binary) =
            from.map_or((0, 0, false), |from| (from.offset, from.lines, from.binary));
        let mut lines = Lines::new(offset, before, binary, is_text);
        let longest = self.asked.longest_line.min(MAX_LINE);
        loop {
            go_on()?;
            let part = match content.next().await {
                Ok(part) => part.unwrap_or_default(),
                Err(error) => return Ok(Ended::Failed(error)),
            };
            let end = part.is_empty();
            working(part.len());
            self.budget.read(part.len());
            lines.add(&part);
            if self.asked.show != Show::Lines {
                state.found.binary = lines.binary;
            }
            loop {
                // Before the line, so that no way to end a file leaves it out.
                if self.yields().await? && state.is_further() && self.budget.is_stopped() {
                    return Ok(Ended::At(state.position(content.version, &lines)));
                }
                let Some(line) = lines.next(end) else { break };
                let text = lines.text(&line);
                if text.len() > longest {
                    return Ok(too_long(path, "a line has", longest));
                }
                self.judged += text.len() + 1;
                let after = state.line(&line, text, lines.binary, &mut self.budget);
                self.steps = self.steps.saturating_add(state.take_steps());
                match after {
                    AfterLine::Next => {}
                    AfterLine::Done => return Ok(Ended::Searched),
                    AfterLine::TooManySteps => return Ok(too_many_steps(path, text.len())),
                }
                if self.budget.bytes_left() == 0 && state.is_further() {
                    return Ok(Ended::At(state.position(content.version, &lines)));
                }
            }
            if end {
                return Ok(Ended::Searched);
            }
            if lines.waiting() > longest {
                return Ok(too_long(path, "a line has", longest));
            }
            if state.waiting() > MAX_LINE {
                return Ok(too_long(path, "lines of context have", MAX_LINE));
            }
            if state.is_further() && self.budget.is_spent() {
                return Ok(Ended::At(state.position(content.version, &lines)));
            }
        }
    }
}

/// Returns the end of a search at a line that takes too many steps.
fn too_many_steps(path: &TreePath, bytes: usize) -> Ended {
    let message = format!(
        "a line of {bytes} bytes is too long for these expressions, and the rest is not searched; use simpler \
         ones, without large repetitions"
    );
    Ended::Failed(Error::at(ErrorKind::TooLarge, path, message))
}

/// Returns the end of a search at lines that are too long.
fn too_long(path: &TreePath, what: &str, most: usize) -> Ended {
    let message = format!("{what} more than {most} bytes; the rest is not searched");
    Ended::Failed(Error::at(ErrorKind::TooLarge, path, message))
}

/// Patterns of the files to search.
struct NameFilter {
    include: Vec<FilePattern>,
    exclude: Vec<FilePattern>,
    left_out: LeftOut,
}

struct FilePattern {
    /// True if the pattern is one of paths below the top, false for one of names.
    is_of_path: bool,
    pattern: GlobPattern,
}

impl NameFilter {
    fn of(asked: &Grep) -> Result<Self> {
        if asked.include.len() + asked.exclude.len() > MAX_PATTERNS {
            let message = format!("a search has at most {MAX_PATTERNS} patterns of files");
            return Err(Error::invalid(message));
        }
        let compiled = |patterns: &[String]| -> Result<Vec<FilePattern>> {
            let compile = |text: &String| -> Result<FilePattern> {
                let pattern = GlobPattern::parse(text.trim_start_matches('/'))?;
                Ok(FilePattern { is_of_path: text.contains('/'), pattern })
            };
            patterns.iter().map(compile).collect()
        };
        let left_out = LeftOut::unless_named(asked.left_out, &asked.include);
        Ok(Self { include: compiled(&asked.include)?, exclude: compiled(&asked.exclude)?, left_out })
    }

    fn wants(&self, path: &TreePath, top: &TreePath) -> bool {
        let name = path.name().unwrap_or_default();
        let below = path.key()[top.key().len()..].trim_start_matches('/');
        if self.left_out.has(below) {
            return false;
        }
        // A file that is searched by itself has only its name.
        let below = if below.is_empty() { name } else { below };
        let fits = |file: &FilePattern| file.pattern.is_match(if file.is_of_path { below } else { name });
        (self.include.is_empty() || self.include.iter().any(fits)) && !self.exclude.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use futures::executor::block_on;
    use garth_engine::engine::memory::MemoryFs;
    use garth_engine::{Env, FileSystemExt as _};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn impossible_positions_are_refused() {
        block_on(async {
            let fs = MemoryFs::new(Env::system(), crate::registry());
            fs.write("/a", "x\ny\nx\ny\n").await.unwrap();
            let files = Files::new(&fs);
            let mut asked = Grep::new("x");
            (asked.before, asked.limits.bytes) = (1, 1);
            let cursor = files.grep(&asked).await.unwrap().next.unwrap();
            let position: Value = asked.cursors().open(&cursor).unwrap();
            asked.cursor = Some(cursor);
            assert_eq!(files.grep(&asked).await.unwrap().files[0].lines.len(), 2);
            // The last line before the next match is read again.
            asked.cursor = Some(with(&asked, &position, &[("offset", 2), ("lines", 1), ("seen", 2)]));
            assert_eq!(files.grep(&asked).await.unwrap().files[0].lines.len(), 2);
            for fields in [
                &[("offset", u64::MAX)][..],
                &[("lines", u64::MAX)],
                &[("offset", 8), ("lines", u64::MAX), ("seen", u64::MAX)],
                &[("seen", u64::MAX)],
                &[("seen", 4)],
                &[("seen", 0)],
                &[("matches", u64::MAX)],
                &[("after", 1)],
            ] {
                asked.cursor = Some(with(&asked, &position, fields));
                let error = files.grep(&asked).await.unwrap_err();
                assert!(error.is(ErrorKind::InvalidArgument), "{fields:?}: {error}");
            }
        });
    }

    /// Returns the cursor of a position with other fields.
    fn with(asked: &Grep, position: &Value, fields: &[(&str, u64)]) -> String {
        let mut position = position.clone();
        for (name, value) in fields {
            position["file"][*name] = json!(value);
        }
        asked.cursors().seal(&position).unwrap()
    }
}
