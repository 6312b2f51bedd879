//! Daily memory: what sessions left for the days after, a file a day. Whose class wrote which part is known
//! from the commits and never from the text, so that no text can pass for another's.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::handle::Workspace;
use super::settings::{MAX_SETTINGS, SETTINGS, Settings};
use super::text_file::{MAX_FILE, text_of};
use super::time_zone::{Day, Zone};
use crate::boxed;
use crate::once::{Outcome, PENDING};
use crate::retry::retry;
use crate::session_class::MAIN;
use crate::small_file::{File, as_read, read_all, sha256};
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{
    At, Author, ByteRange, Commit, Kind, Op, Page, Precondition, Seq, SetAttrs, Timestamp,
};
use garth_engine::path::{Name, TreePath};

/// Most days of one look at which there are.
pub const MAX_DAYS: usize = 100;

/// Custom metadata of a file of which all was written for [`MAIN`]: the hash of its path and that content, so
/// that it vouches for no copy. Where it is not that of what is there, the commits are asked.
const OF_MAIN: &str = "garth.of_main";

/// Runs of one look at the commits.
const RUNS: usize = 1000;

/// A part of a day's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Memory {
    /// The class of the sessions that wrote it, `main` for what people wrote outside of sessions; `None` if
    /// the commit is no longer known.
    pub class: Option<String>,
    /// What it says.
    pub text: String,
}

/// A day of which there is memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryDay {
    /// The day.
    pub day: Day,
    /// How many bytes it has for the author.
    pub bytes: u64,
}

/// What was remembered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Remembered {
    /// The file.
    pub path: TreePath,
    /// The commit.
    pub seq: Seq,
}

impl Outcome for Remembered {
    fn committed(self, commit: &Commit) -> Self {
        Self { seq: commit.seq, ..self }
    }
}

impl Workspace<'_> {
    /// The file of a day.
    pub(super) fn day_file(&self, day: Day) -> Result<TreePath> {
        self.file(&format!("memory/{day}.md"))
    }

    /// Adds a section to the memory of a day, which is today if none is given, in one commit.
    ///
    /// # Errors
    /// `InvalidArgument` for no text, and settings that cannot be read; `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn remember(&self, day: Option<Day>, text: &str) -> Result<Remembered> {
        self.once.run(retry(|| self.remember_once(day, text))).await
    }

    async fn remember_once(&self, day: Option<Day>, text: &str) -> Result<Remembered> {
        let (zone, now) = (self.settings().await?.zone()?, self.env.now());
        let day = day.unwrap_or_else(|| zone.day(now));
        let class = self.author.class.as_deref().unwrap_or(MAIN);
        let (ops, (path, condition)) = self.remember_ops(day, &zone, text, class).await?;
        let batch = self.batch(ops, "remember").require(path.clone(), condition);
        self.once.commit(self.fs, batch, Remembered { path, seq: PENDING }).await
    }

    /// What adds a section to a day's memory, in the name of a class.
    pub(super) async fn remember_ops(
        &self,
        day: Day,
        zone: &Zone,
        text: &str,
        class: &str,
    ) -> Result<(Vec<Op>, (TreePath, Precondition))> {
        let path = self.day_file(day)?;
        let file = read_all(self.fs, std::slice::from_ref(&path), MAX_FILE).await?.pop().flatten();
        let section = section(&zone.hour_and_minute(self.env.now()), text)?;
        let before: &[u8] = match &file {
            Some(File { bytes: Some(bytes), .. }) => bytes,
            Some(_) => return Err(too_large(&path)),
            None => b"",
        };
        let start = match before {
            b"" => "",
            [.., b'\n', b'\n'] => "",
            [.., b'\n'] => "\n",
            _ => "\n\n",
        };
        if before.len() + start.len() + section.len() > MAX_FILE {
            return Err(too_large(&path));
        }
        let added = format!("{start}{section}");
        let mut ops = vec![Op::append(path.clone(), added.clone()).with_parents()];
        let has = self.fs.capabilities(&path);
        if class == MAIN && has.history && has.attributes {
            let of_main = match &file {
                None => true,
                // what is no text is left to who reads it
                Some(_) if std::str::from_utf8(before).is_err() => false,
                Some(file) => all_of_main(&parts(self.fs, &path, file).await?),
            };
            if of_main {
                let known = known_as(&path, &[before, added.as_bytes()].concat());
                ops.push(Op::set_attrs(path.clone(), SetAttrs::new().metadata(OF_MAIN, known)));
            }
        }
        Ok((ops, (path, as_read(file.as_ref()))))
    }

    /// The memory of a day, in the order in which it is written there, or `None` if there is none. In the
    /// name of an author of another class than `main` it is what that class wrote.
    ///
    /// # Errors
    /// `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn memory(&self, day: Day) -> Result<Option<Vec<Memory>>> {
        self.memory_at(&*self.moment(None).await?, day).await
    }

    async fn memory_at(&self, moment: &dyn FileSystem, day: Day) -> Result<Option<Vec<Memory>>> {
        let path = self.day_file(day)?;
        let file = read_all(moment, std::slice::from_ref(&path), MAX_FILE).await?.pop().flatten();
        let Some(file) = file else { return Ok(None) };
        let parts = parts(moment, &path, &file).await?;
        let class = self.author.class.as_deref().unwrap_or(MAIN);
        let own: Vec<_> =
            parts.into_iter().filter(|part| class == MAIN || part.class.as_deref() == Some(class)).collect();
        // that there is a file is not for others to know
        Ok((class == MAIN || !own.is_empty()).then_some(own))
    }

    /// The days of which there is memory, from the first behind `after` on, and where to go on. At most
    /// `limit` of them are looked at, 1 to [`MAX_DAYS`]; in the name of an author of another class than
    /// `main` those of which that class wrote something are given.
    ///
    /// # Errors
    /// `InvalidArgument` for another limit; `TooLarge` for a day that is; from the filesystem.
    #[boxed]
    pub async fn days(&self, after: Option<Day>, limit: usize) -> Result<(Vec<MemoryDay>, Option<Day>)> {
        if !(1..=MAX_DAYS).contains(&limit) {
            return Err(Error::invalid(format!("1 to {MAX_DAYS} days at once")));
        }
        let (moment, dir) = (self.moment(None).await?, self.file("memory")?);
        let class = self.author.class.as_deref().unwrap_or(MAIN);
        let after = after.map(|day| Name::parse(&format!("{day}.md"))).transpose()?;
        let mut page = Page::default().after(after).limit(MAX_DAYS).with_entries();
        let (mut days, mut looked, mut seen) = (Vec::new(), 0, None);
        loop {
            let Some(listing) = moment.list(&At::from(&dir), &page).await.optional()? else {
                return Ok((days, None));
            };
            // Other names lie between the days, more than a page of them perhaps.
            let last = listing.items.last().map(|item| item.name.clone()).filter(|_| listing.more);
            for item in listing.items {
                let day = item.name.as_str().strip_suffix(".md").and_then(|day| day.parse::<Day>().ok());
                let (Some(day), Kind::File) = (day, item.kind) else { continue };
                if looked == limit {
                    return Ok((days, seen));
                }
                (looked, seen) = (looked + 1, Some(day));
                let bytes = match class {
                    MAIN => item.entry.map(|entry| entry.size),
                    _ => self.memory_at(&*moment, day).await?.map(|own| bytes_of(&own)),
                };
                days.extend(bytes.filter(|bytes| *bytes > 0).map(|bytes| MemoryDay { day, bytes }));
            }
            match last {
                Some(last) => page = page.after(last),
                None => return Ok((days, None)),
            }
        }
    }

    /// What is set for the agent.
    ///
    /// # Errors
    /// `Corrupt` for a file that [`Settings::parse`] refuses, or that is too long; from the filesystem.
    #[boxed]
    pub async fn settings(&self) -> Result<Settings> {
        let path = self.file(SETTINGS)?;
        let file = read_all(self.fs, std::slice::from_ref(&path), MAX_SETTINGS).await?.pop().flatten();
        Settings::read(&path, file.as_ref())
    }

    /// The day of a moment, by the agent's time zone.
    ///
    /// # Errors
    /// As [`Workspace::settings`].
    #[boxed]
    pub async fn day_of(&self, at: Timestamp) -> Result<Day> {
        Ok(self.settings().await?.zone()?.day(at))
    }
}

/// A section as it is added.
fn section(time: &str, text: &str) -> Result<String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(Error::invalid("there is nothing to remember; give a text"));
    }
    Ok(format!("### Extracted from context compaction ({time})\n\n{text}\n"))
}

fn too_large(path: &TreePath) -> Error {
    Error::at(ErrorKind::TooLarge, path, format!("a day's memory has at most {MAX_FILE} bytes; shorten it"))
}

/// The parts of a file of daily memory, by the classes that wrote them. `fs` is of the moment of the file.
pub(super) async fn parts(fs: &dyn FileSystem, path: &TreePath, file: &File) -> Result<Vec<Memory>> {
    let text = text_of(path, file)?;
    let is_known = file.metadata.get(OF_MAIN).is_some_and(|known| *known == known_as(path, text.as_bytes()));
    if text.is_empty() || is_known || !fs.capabilities(path).history {
        return Ok(vec![Memory { class: Some(MAIN.to_owned()), text: text.to_owned() }]);
    }
    let mut parts: Vec<(Option<String>, Range<usize>)> = Vec::new();
    let mut offset = 0;
    while offset < text.len() as u64 {
        let range = ByteRange { offset, length: text.len() as u64 - offset };
        let blame = fs.blame(&At::from(path), range, RUNS).await?;
        for run in &blame.runs {
            let by = |seq| blame.commits.iter().find(|commit| Some(commit.seq) == seq);
            let class = by(run.commit).map(|commit| class_of(&commit.author));
            let start = usize::try_from(run.range.offset).unwrap_or(usize::MAX);
            let end = start.saturating_add(usize::try_from(run.range.length).unwrap_or(usize::MAX));
            match parts.last_mut() {
                Some((last, bytes)) if *last == class && bytes.end == start => bytes.end = end,
                _ => parts.push((class, start..end)),
            }
        }
        offset = blame.next.unwrap_or(u64::MAX);
    }
    let bytes = text.as_bytes();
    let text =
        |range: Range<usize>| String::from_utf8_lossy(bytes.get(range).unwrap_or_default()).into_owned();
    Ok(parts.into_iter().map(|(class, range)| Memory { class, text: text(range) }).collect())
}

/// What [`OF_MAIN`] says of this content there.
fn known_as(path: &TreePath, content: &[u8]) -> String {
    sha256(&[path.as_str().as_bytes(), b"\0", content].concat())
}

/// The class that wrote: `main` for people who wrote outside of any session.
fn class_of(author: &Author) -> String {
    author.class.clone().unwrap_or_else(|| MAIN.to_owned())
}

fn all_of_main(parts: &[Memory]) -> bool {
    parts.iter().all(|part| part.class.as_deref() == Some(MAIN))
}

fn bytes_of(parts: &[Memory]) -> u64 {
    parts.iter().map(|part| part.text.len() as u64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_has_its_header_and_ends_with_a_line_feed() {
        let text = section("09:30", "\n- Ann likes tea\n\n").unwrap();
        assert_eq!(text, "### Extracted from context compaction (09:30)\n\n- Ann likes tea\n");
        assert!(section("09:30", " \n").is_err());
    }

    #[test]
    fn who_wrote_outside_of_sessions_is_of_main() {
        assert_eq!(class_of(&Author::agent("scout").with_class("dm")), "dm");
        assert_eq!(class_of(&Author::agent("scout")), MAIN);
        assert_eq!(class_of(&Author::default()), MAIN);
    }
}
