//! Transcripts of sessions: open ones, ended ones, and those of which only the archive exists.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use schemars::JsonSchema;
use serde::Serialize;

use super::archive::{AUDIENCE, CLASS, ENDING, Unpacked, part_of};
use super::handle::Workspace;
use crate::boxed;
use crate::identity::{Class, StoredClass};
use crate::session::{
    Export, Exported, Message, TranscriptFormat, archived_in, archived_lines, archived_messages,
};
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::fs::FileSystemExt as _;
use garth_engine::model::{At, ByteRange, Item, Kind, Page};
use garth_engine::path::{Name, TreePath, check_id};

/// Number of bytes after which a page ends, 4 MiB.
const MAX_PAGE: usize = 4 << 20;
/// Limit on the lines of a page.
const MAX_LINES: usize = 10_000;

/// Limit on the archives in a page of their list.
pub const MAX_ARCHIVES: usize = 1000;

/// Archive of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "SessionArchive", deny_unknown_fields)]
#[non_exhaustive]
pub struct Archive {
    /// Id of the session, a UUID.
    pub session_id: String,
    /// Path of the archive.
    #[schemars(with = "String")]
    pub path: TreePath,
    /// Compressed size in bytes.
    pub size: u64,
    /// Metadata, such as `sessionKey` and `messageCount`.
    pub metadata: BTreeMap<String, String>,
}

impl Workspace<'_> {
    /// Returns the path of the archive of a session.
    pub(super) fn archive_file(&self, session_id: &str) -> Result<TreePath> {
        check_id("session", session_id)?;
        self.file(&format!("sessions/{session_id}{ENDING}"))
    }

    /// Returns a page of a transcript: of a session of the agent with `user`, by its name, or of an archive,
    /// by the id of the session. Lines of an archive are the messages in it, without retracted ones.
    ///
    /// # Errors
    /// - `NotFound`: neither a session nor an archive exists.
    /// - `AccessDenied`: the session is of another class than the author's.
    /// - `Corrupt`: the archive cannot be read.
    /// - Errors of the filesystem.
    #[boxed]
    pub async fn transcript(&self, user: &str, session: &str, export: &Export) -> Result<Exported> {
        let sessions = self.sessions(self.fs, user)?;
        match sessions.get(session).await {
            Ok(found) => {
                self.keeper(Some(&found.meta))?;
                sessions.export(session, export).await
            }
            // The name may be the id of a session that only has an archive.
            Err(error) if error.is(ErrorKind::NotFound) => self.archived(session, export).await,
            Err(error) => Err(error),
        }
    }

    async fn archived(&self, session_id: &str, export: &Export) -> Result<Exported> {
        let missing = || {
            let message = format!("{session_id}: no such session or archive");
            Error::new(ErrorKind::NotFound, message)
        };
        // An archive that the author must not see is reported as missing.
        let path = self.archive_file(session_id)?;
        match self.fs.lookup(&path).await? {
            Some(entry) if self.sees_archive(&entry.attributes.metadata) => {}
            _ => return Err(missing()),
        }
        let page = self.archive_page(&self.archive_file(session_id)?, export).await;
        page.map_err(|error| if error.is_absent() { missing() } else { error })
    }

    /// Returns a page of an archive. Its cost grows with the lines before it, which have to be decompressed.
    pub(super) async fn archive_page(&self, path: &TreePath, export: &Export) -> Result<Exported> {
        let file = self.moment(None).await?.open(&At::from(path)).await?;
        let mut page = Lines::new(export);
        let (mut unpacked, mut stream) = (Unpacked::default(), file.stream(ByteRange::ALL));
        let mut more = true;
        while more && let Some(piece) = stream.next().await {
            more = unpacked.feed(&piece?, |line| page.take(line)).map_err(|error| of(path, &error))?;
        }
        if more {
            unpacked.end(|line| page.take(line)).map_err(|error| of(path, &error))?;
        }
        page.written(export.format).map_err(|error| of(path, &error))
    }

    /// Returns a page of the archives of the agent's sessions, by id, and the id after which the next page
    /// starts. A page with a next one has `limit` archives. Parts of compactions are omitted.
    ///
    /// # Errors
    /// `InvalidArgument` for an invalid id, or a limit outside 1 to [`MAX_ARCHIVES`]; from the filesystem.
    #[boxed]
    pub async fn archives(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<(Vec<Archive>, Option<String>)> {
        if !(1..=MAX_ARCHIVES).contains(&limit) {
            return Err(Error::invalid(format!("the limit of a list of archives is 1 to {MAX_ARCHIVES}")));
        }
        let after = after.map(|after| Name::parse(&format!("{after}{ENDING}"))).transpose()?;
        let mut page = Page::default().after(after).limit(MAX_ARCHIVES).with_entries();
        let (dir, mut archives) = (self.file("sessions")?, Vec::<Archive>::new());
        loop {
            let Some(listing) = self.fs.list(&At::from(&dir), &page).await.optional()? else {
                return Ok((archives, None));
            };
            // Media directories and parts are listed among the archives, so a page is filled from several
            // reads.
            let last = listing.items.last().map(|item| item.name.clone()).filter(|_| listing.more);
            for item in listing.items {
                let found = archive_of(&dir, item);
                let Some(archive) = found.filter(|archive| self.sees_archive(&archive.metadata)) else {
                    continue;
                };
                if archives.len() == limit {
                    let next = archives.last().map(|archive| archive.session_id.clone());
                    return Ok((archives, next));
                }
                archives.push(archive);
            }
            match last {
                Some(last) => page = page.after(last),
                None => return Ok((archives, None)),
            }
        }
    }

    /// Returns true if the author sees the archive with this metadata. `main` sees all, unless the API key
    /// hides those of other audiences. Others see those of sessions of their audience with at least as many
    /// listeners.
    fn sees_archive(&self, metadata: &BTreeMap<String, String>) -> bool {
        let own = self.own_class();
        let says = |name: &str| metadata.get(name).map(String::as_str);
        (own == Class::Main && self.shows_other_archives())
            || (says(AUDIENCE).is_some_and(|audience| Some(audience) == self.author.keeper())
                && says(CLASS).is_some_and(|class| StoredClass::named(class).is_seen_by(own)))
    }
}

/// Returns the archive of a listed file; `None` for other files.
fn archive_of(dir: &TreePath, item: Item) -> Option<Archive> {
    let session_id = item.name.as_str().strip_suffix(ENDING)?.to_owned();
    let is_one = item.kind == Kind::File && part_of(&session_id).is_none();
    let entry = item.entry.filter(|_| is_one)?;
    let path = TreePath::from_row(dir.key(), item.name.as_str());
    Some(Archive { session_id, path, size: entry.size, metadata: entry.attributes.metadata })
}

fn of(path: &TreePath, error: &Error) -> Error {
    Error::at(error.kind(), path, error.message())
}

/// Page of lines of an archive.
struct Lines<'e> {
    export: &'e Export,
    number: u64,
    bytes: usize,
    items: Vec<(u64, String)>,
    next: Option<u64>,
}

impl<'e> Lines<'e> {
    fn new(export: &'e Export) -> Self {
        Self { export, number: 0, bytes: 0, items: Vec::new(), next: None }
    }

    /// Takes the next line. Returns false at the end of the page.
    fn take(&mut self, line: String) -> Result<bool> {
        self.number += 1;
        if self.number > *self.export.lines.end() {
            return Ok(false);
        }
        if self.number < *self.export.lines.start() {
            return Ok(true);
        }
        // At least one line: a page that a long line keeps empty would lead to itself.
        if !self.items.is_empty() && (self.bytes + line.len() > MAX_PAGE || self.items.len() == MAX_LINES) {
            self.next = Some(self.number);
            return Ok(false);
        }
        self.bytes += line.len();
        self.items.push((self.number, line));
        Ok(true)
    }

    fn written(self, format: TranscriptFormat) -> Result<Exported> {
        let mut exported = Exported { items: Vec::new(), next: self.next };
        match format {
            TranscriptFormat::Pi => exported.items = self.items.into_iter().map(|(_, line)| line).collect(),
            TranscriptFormat::Garth => {
                for (number, line) in &self.items {
                    exported.items.extend(archived_lines(*number, line)?);
                }
            }
            TranscriptFormat::OpenAi | TranscriptFormat::Anthropic | TranscriptFormat::Markdown => {
                let mut messages: Vec<(u64, Message)> = Vec::new();
                for (number, line) in &self.items {
                    messages.extend(archived_messages(*number, line)?);
                }
                exported.items = archived_in(format, &messages);
            }
        }
        Ok(exported)
    }
}
