//! Daily memory: notes that sessions leave for later days, in one file a day, and further ones where that is
//! full. The class of each part follows from the commits, never from the text, so that no text can pass for
//! that of another class.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::handle::{Keeper, Workspace};
use super::text_file::{MAX_FILE, text_of};
use crate::boxed;
use crate::identity::Class;
use crate::once::{Outcome, PENDING};
use crate::retry::retry;
use crate::settings::{MAX_SETTINGS, SETTINGS, Settings};
use crate::small_file::{File, as_read, read_all, sha256};
use crate::time_zone::{Day, Zone};
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{
    At, Author, ByteRange, Commit, FindQuery, Kind, Op, Page, Precondition, Seq, SetAttrs, Timestamp,
    VersionId,
};
use garth_engine::path::{Name, TreePath};

/// Limit on the days of one list.
pub const MAX_DAYS: usize = 100;

/// Limit on the files of a day. The next one is begun where one has no room.
const MAX_DAY_FILES: usize = 4;

/// Custom metadata of a file that was written for main sessions only: the hash of its path and content. It is
/// not valid for a copy or for other content; then the commits are read.
const OF_MAIN: &str = "garth.of_main";

/// Custom metadata of an audience's day: the agent, the day and the commit that wrote it.
pub(super) const DAY_OF: &str = "garth.day_of";

/// Heading of memories that a model extracted from messages, at compaction or reset.
const EXTRACTED: &str = "Extracted from context compaction";
/// Heading of memories that a person or an agent wrote.
const BY_HAND: &str = "Remembered";

/// Number of runs in one read of the commits.
const RUNS: usize = 1000;

/// Part of a day's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DailySection {
    /// Class of the sessions that wrote it, `main` for text written outside of sessions; `None` if the commit
    /// is no longer known.
    pub class: Option<Class>,
    /// True if the reader's own audience or a main session wrote it. Otherwise it is evidence.
    pub own: bool,
    /// Text.
    pub text: String,
}

/// Day with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DailyFile {
    /// Day.
    pub day: Day,
    /// Bytes that the author may see.
    pub bytes: u64,
}

/// Result of adding to daily memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DailyWrite {
    /// File.
    pub path: TreePath,
    /// Commit.
    pub seq: Seq,
}

impl Outcome for DailyWrite {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: commit.seq, ..self }
    }
}

/// Treatment of a file of a day that garth must not write, because a directory or link is in its place, or
/// because it has other names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenBlocked {
    /// Fail with advice, for a request to remember something.
    Refuse,
    /// Continue with the next file of the day, so that the memories of a session are not lost.
    GoOn,
}

impl Workspace<'_> {
    /// Returns the possible files of a day, in their order: `memory/{day}.md`, `memory/{day}-2.md`, ...
    pub(super) fn day_files(&self, keeper: &Keeper, day: Day) -> Result<Vec<TreePath>> {
        let name = |number| match number {
            1 => format!("memory/{day}.md"),
            number => format!("memory/{day}-{number}.md"),
        };
        (1..=MAX_DAY_FILES).map(|number| self.kept_file(keeper, &name(number))).collect()
    }

    /// Adds a section to the memory of a day, by default of today, in one commit. If a file of the day has no
    /// room, the next one is used.
    ///
    /// # Errors
    /// - `InvalidArgument`: the text is empty, or the settings cannot be read.
    /// - `TooLarge`: no file of the day has room.
    /// - `AlreadyExists`: a file has other names, or another object is in its place.
    /// - Errors of the filesystem.
    #[boxed]
    pub async fn add_daily(&self, day: Option<Day>, text: &str) -> Result<DailyWrite> {
        let done = self.once.run(retry(|| self.add_daily_once(day, text))).await?;
        Ok(DailyWrite { path: self.paths.shown(&done.path), ..done })
    }

    async fn add_daily_once(&self, day: Option<Day>, text: &str) -> Result<DailyWrite> {
        let (zone, now) = (self.settings().await?.zone()?, self.env.now());
        let day = day.unwrap_or_else(|| zone.day(now));
        let keeper = self.keeper(None)?;
        let (ops, (path, condition)) =
            self.added_ops((day, &zone), (BY_HAND, text), &keeper, WhenBlocked::Refuse).await?;
        let batch = self.batch(ops, "remember").require(path.clone(), condition);
        self.once.commit(self.fs, batch, DailyWrite { path, seq: PENDING }).await
    }

    /// Returns the operations that add a section of extracted memories to a day.
    pub(super) async fn remember_ops(
        &self,
        (day, zone): (Day, &Zone),
        text: &str,
        keeper: &Keeper,
        blocked: WhenBlocked,
    ) -> Result<(Vec<Op>, (TreePath, Precondition))> {
        self.added_ops((day, zone), (EXTRACTED, text), keeper, blocked).await
    }

    /// Returns the operations that add a section with a heading to a day: to the first of its files that has
    /// room.
    async fn added_ops(
        &self,
        (day, zone): (Day, &Zone),
        (heading, text): (&str, &str),
        keeper: &Keeper,
        blocked: WhenBlocked,
    ) -> Result<(Vec<Op>, (TreePath, Precondition))> {
        let section = section(heading, &zone.hour_and_minute(self.env.now()), text)?;
        let mut refused = None;
        for path in self.day_files(keeper, day)? {
            let file = read_all(self.fs, std::slice::from_ref(&path), MAX_FILE).await?.pop().flatten();
            match start_of(&path, file.as_ref(), section.len()) {
                Ok(start) => return self.section_ops((day, keeper), (path, file), start, &section).await,
                Err(error) if blocked == WhenBlocked::Refuse && !error.is(ErrorKind::TooLarge) => {
                    return Err(error);
                }
                // A full day is more important to report than an obstacle at one of its files.
                Err(error) if refused.is_none() || error.is(ErrorKind::TooLarge) => refused = Some(error),
                Err(_) => {}
            }
        }
        Err(refused.unwrap_or_else(|| Error::invalid("a day has no files")))
    }

    /// Returns the operations that add a section to a file.
    async fn section_ops(
        &self,
        (day, keeper): (Day, &Keeper),
        (path, file): (TreePath, Option<File>),
        start: &str,
        section: &str,
    ) -> Result<(Vec<Op>, (TreePath, Precondition))> {
        let before: &[u8] = file.as_ref().and_then(|file| file.bytes.as_deref()).unwrap_or_default();
        let added = format!("{start}{section}");
        let mut ops = vec![Op::append(path.clone(), added.clone()).with_parents()];
        let has = self.fs.capabilities(&path);
        if keeper.class != Class::Main && has.attributes {
            // The mark holds the earliest commit that this write can be: main sessions sort the days of other
            // audiences by it.
            let next = Seq(self.fs.head().await?.seq.0 + 1);
            ops.push(Op::set_attrs(path.clone(), day_attrs(&self.agent, day, next)));
        }
        if keeper.class == Class::Main && has.history && has.attributes {
            let of_main = match &file {
                None => true,
                // A file that is not text is left to its readers.
                Some(_) if std::str::from_utf8(before).is_err() => false,
                // One foreign part is enough: the file must then be read by its commits.
                Some(file) => parts(self.fs, &path, file, keeper).await?.iter().all(|part| part.own),
            };
            if of_main {
                let known = known_as(&path, &[before, added.as_bytes()].concat());
                ops.push(Op::set_attrs(path.clone(), SetAttrs::new().metadata(OF_MAIN, known)));
            }
        }
        Ok((ops, (path, as_read(file.as_ref()))))
    }

    /// Returns the memory of a day, in the order of its files, or `None` if there is none. It is the agent's
    /// for an author of the class `main`, else that of the author's audience.
    ///
    /// # Errors
    /// `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn daily(&self, day: Day) -> Result<Option<Vec<DailySection>>> {
        self.memory_at(&*self.moment(None).await?, day).await
    }

    async fn memory_at(&self, moment: &dyn FileSystem, day: Day) -> Result<Option<Vec<DailySection>>> {
        let keeper = self.keeper(None)?;
        let paths = self.day_files(&keeper, day)?;
        let files = read_all(moment, &paths, MAX_FILE).await?;
        let mut found: Option<Vec<DailySection>> = None;
        for (path, file) in paths.iter().zip(files) {
            let Some(file) = file.filter(|file| file.is_file) else { continue };
            found.get_or_insert_default().extend(parts(moment, path, &file, &keeper).await?);
        }
        Ok(found)
    }

    /// Returns the days with memory, from the first one after `after` on, and the cursor of the next page. At
    /// most `limit` days are read, 1 to [`MAX_DAYS`].
    ///
    /// # Errors
    /// `InvalidArgument` for another limit; from the filesystem.
    #[boxed]
    pub async fn list_daily(
        &self,
        after: Option<Day>,
        limit: usize,
    ) -> Result<(Vec<DailyFile>, Option<Day>)> {
        if !(1..=MAX_DAYS).contains(&limit) {
            return Err(Error::invalid(format!("1 to {MAX_DAYS} days at once")));
        }
        let (moment, dir) = (self.moment(None).await?, self.kept_file(&self.keeper(None)?, "memory")?);
        let after = after.map(|day| Name::parse(&format!("{day}.md"))).transpose()?;
        let mut page = Page::default().after(after).limit(MAX_DAYS).with_entries();
        let (mut days, mut looked, mut seen) = (Vec::new(), 0, None);
        loop {
            let Some(listing) = moment.list(&At::from(&dir), &page).await.optional()? else {
                return Ok((days, None));
            };
            // Other names may be between the days, even more than a page of them.
            let last = listing.items.last().map(|item| item.name.clone()).filter(|_| listing.more);
            for item in listing.items {
                let (Some(day), Kind::File) = (day_of_file(item.name.as_str()), item.kind) else { continue };
                // Further files of a day sort before its first one.
                if seen != Some(day) {
                    if looked == limit {
                        return Ok((days, seen));
                    }
                    (looked, seen) = (looked + 1, Some(day));
                }
                let bytes = item.entry.map_or(0, |entry| entry.size);
                match days.last_mut().filter(|last: &&mut DailyFile| last.day == day) {
                    Some(last) => last.bytes += bytes,
                    None => days.extend((bytes > 0).then_some(DailyFile { day, bytes })),
                }
            }
            match last {
                Some(last) => page = page.after(last),
                None => return Ok((days, None)),
            }
        }
    }

    /// Returns the settings of the agent.
    ///
    /// # Errors
    /// `Corrupt` for a file that is too long or that [`Settings::parse`] rejects; from the filesystem.
    #[boxed]
    pub async fn settings(&self) -> Result<Settings> {
        let path = self.file(SETTINGS)?;
        let file = read_all(self.fs, std::slice::from_ref(&path), MAX_SETTINGS).await?.pop().flatten();
        Settings::read(&path, file.as_ref())
    }

    /// Returns the day of a time, in the agent's time zone.
    ///
    /// # Errors
    /// As [`Workspace::settings`].
    #[boxed]
    pub async fn day_of(&self, at: Timestamp) -> Result<Day> {
        Ok(self.settings().await?.zone()?.day(at))
    }
}

/// Returns a section with its heading.
fn section(heading: &str, time: &str, text: &str) -> Result<String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::invalid("the text is empty"));
    }
    Ok(format!("### {heading} ({time})\n\n{text}\n"))
}

/// Returns the line feeds to write before a section in a file.
///
/// # Errors
/// `AlreadyExists` for a file that must not be written; `TooLarge` if it has no room.
fn start_of(path: &TreePath, file: Option<&File>, section: usize) -> Result<&'static str> {
    let too_large = || {
        let message = format!(
            "a day's memory has at most {MAX_DAY_FILES} files of {MAX_FILE} bytes, and the text needs room in one \
             of them; shorten it"
        );
        Error::at(ErrorKind::TooLarge, path, message)
    };
    let before: &[u8] = match file {
        Some(file) if !file.is_file => {
            let message = "not a regular file, so no memory can be written here; move it away";
            return Err(Error::at(ErrorKind::AlreadyExists, path, message));
        }
        // The other name may be where other people read, or be that of a file that only garth changes.
        Some(file) if file.nlink > 1 => {
            let message =
                "has other names (hard links), so no memory is written here; replace it with a copy";
            return Err(Error::at(ErrorKind::AlreadyExists, path, message));
        }
        Some(File { bytes: Some(bytes), .. }) => bytes,
        Some(_) => return Err(too_large()),
        None => b"",
    };
    let start = match before {
        b"" => "",
        [.., b'\n', b'\n'] => "",
        [.., b'\n'] => "\n",
        _ => "\n\n",
    };
    if before.len() + start.len() + section > MAX_FILE { Err(too_large()) } else { Ok(start) }
}

/// Returns the day from the name of one of its files.
fn day_of_file(name: &str) -> Option<Day> {
    let name = name.strip_suffix(".md")?;
    let further = || {
        let (day, number) = name.rsplit_once('-')?;
        let is_number = number.len() == 1 && (2..=MAX_DAY_FILES).contains(&number.parse().ok()?);
        day.parse().ok().filter(|_| is_number)
    };
    name.parse().ok().or_else(further)
}

/// Class of the commit that wrote a text, and true if the keeper owns it.
type Writer = (Option<Class>, bool);

/// Returns the parts of a file of daily memory, by class and owner of the commits that wrote them. `fs` is of
/// the same point in time as the file.
pub(super) async fn parts(
    fs: &dyn FileSystem,
    path: &TreePath,
    file: &File,
    keeper: &Keeper,
) -> Result<Vec<DailySection>> {
    let text = text_of(path, file)?;
    let is_known = file.metadata.get(OF_MAIN).is_some_and(|known| *known == known_as(path, text.as_bytes()));
    if text.is_empty() || is_known || !fs.capabilities(path).history {
        return Ok(vec![DailySection { class: Some(Class::Main), own: true, text: text.to_owned() }]);
    }
    let mut parts: Vec<(Writer, Range<usize>)> = Vec::new();
    let mut offset = 0;
    while offset < text.len() as u64 {
        let range = ByteRange { offset, length: text.len() as u64 - offset };
        let blame = fs.blame(&At::from(path), range, RUNS).await?;
        for run in &blame.runs {
            let by = blame.commits.iter().find(|commit| Some(commit.seq) == run.commit);
            let of = (by.map(|by| class_of(&by.author)), by.is_some_and(|by| keeper.owns(&by.author)));
            let start = usize::try_from(run.range.offset).unwrap_or(usize::MAX);
            let end = start.saturating_add(usize::try_from(run.range.length).unwrap_or(usize::MAX));
            match parts.last_mut() {
                // Consecutive runs by one writer form one part.
                Some((last, bytes)) if *last == of && bytes.end == start => bytes.end = end,
                _ => parts.push((of, start..end)),
            }
        }
        // Blame returns a limited number of runs at a time.
        offset = blame.next.unwrap_or(u64::MAX);
    }
    let bytes = text.as_bytes();
    let text =
        |range: Range<usize>| String::from_utf8_lossy(bytes.get(range).unwrap_or_default()).into_owned();
    let part = |((class, own), range)| DailySection { class, own, text: text(range) };
    Ok(parts.into_iter().map(part).collect())
}

/// Limit on the files of other audiences in a prompt.
const MAX_OTHERS: usize = 64;

/// Returns the newest files of other audiences' memory of some days, newest first, for a main session.
pub(super) async fn others(fs: &dyn FileSystem, agent: &str, days: &[Day]) -> Result<Vec<TreePath>> {
    let mut found = Vec::new();
    for day in days {
        let prefix = day_mark(agent, *day, "");
        let to = format!("{DAY_OF}\0{prefix}~");
        let query = FindQuery::metadata_from(DAY_OF, &prefix).to(to).limit(MAX_OTHERS);
        let answer = match fs.find(&query.within(TreePath::from_row("", "users"))).await {
            Err(error) if error.is(ErrorKind::Unsupported) => return Ok(Vec::new()),
            answer => answer?,
        };
        found.extend(answer.items.into_iter().map(|item| (item.key, item.path)));
    }
    // By the last part of the key, so the newest come first across all days.
    found.sort_by(|(one, _), (other, _)| one.rsplit('/').next().cmp(&other.rsplit('/').next()));
    Ok(found.into_iter().map(|(_, path)| path).take(MAX_OTHERS).collect())
}

/// Returns the audience and the day of a file of an audience's daily memory with an agent.
pub(super) fn of_audience(path: &TreePath, agent: &str) -> Option<(String, Day)> {
    match *path.segments().collect::<Vec<_>>() {
        ["users", audience, "agents", of, "memory", file] if of == agent => {
            Some((audience.to_owned(), day_of_file(file)?))
        }
        _ => None,
    }
}

/// Returns the mark by which main sessions find a day of another audience. The newest sorts first.
fn day_attrs(agent: &str, day: Day, written: Seq) -> SetAttrs {
    let before = format!("{:020}", u64::MAX - written.0);
    SetAttrs::new().metadata(DAY_OF, day_mark(agent, day, &before))
}

/// Returns true if a mark is not older than a file's content.
pub(super) fn is_mark_of(mark: &str, written: Seq) -> bool {
    let before = mark.rsplit('/').next().and_then(|before| before.parse::<u64>().ok());
    before.is_some_and(|before| u64::MAX - before >= written.0)
}

impl Workspace<'_> {
    /// Marks days of an audience that were written as plain files, so that main sessions find them.
    pub(super) async fn mark_days(&self, days: &[(TreePath, VersionId, Day)]) -> Result<()> {
        if days.is_empty() {
            return Ok(());
        }
        let mark = |(path, etag, day): &(TreePath, VersionId, Day)| {
            Op::set_attrs(path.clone(), day_attrs(&self.agent, *day, etag.seq))
        };
        let ops = days.iter().map(mark);
        let batch = self.batch(ops.collect(), "mark daily memory");
        let batch = days
            .iter()
            .fold(batch, |batch, (path, etag, _)| batch.require(path.clone(), Precondition::Etag(*etag)));
        match self.fs.commit(batch).await {
            // It was written or removed in between: the next prompt marks it.
            Err(error) if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) => Ok(()),
            marked => marked.map(drop),
        }
    }
}

fn day_mark(agent: &str, day: Day, before: &str) -> String {
    format!("{agent}/{day}/{before}")
}

/// Returns the value of [`OF_MAIN`] for a path and its content.
fn known_as(path: &TreePath, content: &[u8]) -> String {
    sha256(&[path.as_str().as_bytes(), b"\0", content].concat())
}

/// Returns the class of an author: `main` for text written outside of any session.
fn class_of(author: &Author) -> Class {
    author.class.as_deref().map_or(Class::Main, Class::named)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daily_section_has_header_and_line_feed() {
        let text = section(EXTRACTED, "09:30", "\n- Ann likes tea\n\n").unwrap();
        assert_eq!(text, "### Extracted from context compaction (09:30)\n\n- Ann likes tea\n");
        assert!(section(BY_HAND, "09:30", " \n").is_err());
    }

    #[test]
    fn daily_files_are_named_by_day() {
        let day: Day = "2026-01-27".parse().unwrap();
        for name in ["2026-01-27.md", "2026-01-27-2.md", "2026-01-27-4.md"] {
            assert_eq!(day_of_file(name), Some(day), "{name}");
        }
        for name in
            ["2026-01-27-1.md", "2026-01-27-5.md", "2026-01-27-02.md", "2026-01-27-2.txt", "2026-01.md"]
        {
            assert_eq!(day_of_file(name), None, "{name}");
        }
    }

    #[test]
    fn text_written_outside_sessions_is_main() {
        assert_eq!(class_of(&Author::agent("scout").with_class("dm")), Class::Dm);
        assert_eq!(class_of(&Author::agent("scout")), Class::Main);
        assert_eq!(class_of(&Author::default()), Class::Main);
    }
}
