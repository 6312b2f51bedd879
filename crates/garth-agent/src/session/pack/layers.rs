//! The layers of a pack that are files: pinned and derived ones, results of children, and expanded
//! references.

use super::manifest::{Item, Omitted};
use crate::session::derived::entry::{EntryKind, MAX_DERIVED};
use crate::session::handle::Sessions;
use crate::session::log::source::{Resolved, Source};
use crate::session::render::{fits, is_beyond, part};
use crate::session::store::files::{CHUNKS, Log, MAX_PINNED, PINNED, SUMMARY, SYSTEM_PROMPT, TODO};
use crate::small_file::{File, read_all, sha256};
use garth_engine::error::{Error, ErrorKind, OptionalExt as _, Result};
use garth_engine::model::{At, Ino, Kind, Page, Seq, VersionId};
use garth_engine::path::TreePath;
use garth_engine::text::secret::masked;

/// Limit on the results of children in a pack.
const MAX_CHILDREN: usize = 64;
/// Size limit of a file in a pack, 1 MiB.
const MAX_SHOWN: usize = 1 << 20;

/// Derived files by kind, in the order of a pack.
const DERIVED: [(&str, &str); 5] = [
    ("summary", SUMMARY),
    ("facts", EntryKind::Fact.file()),
    ("decisions", EntryKind::Decision.file()),
    ("todo", TODO),
    ("refs", EntryKind::Ref.file()),
];

/// A part of a pack.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) item: Item,
    /// Text in the pack.
    pub(super) text: String,
}

/// A file that may be in a pack.
pub(super) struct Candidate {
    kind: String,
    /// Source, as the pack names it.
    source: String,
    version: VersionId,
    /// Text, or the reason why it is left out.
    text: std::result::Result<String, &'static str>,
    /// True if its last lines can be shown without those before.
    has_lines: bool,
    entry: Option<String>,
}

impl Candidate {
    fn new(kind: &str, source: &str, file: &File) -> Self {
        let text = file.bytes.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        let text = text.ok_or("too_large");
        let has_lines = source.ends_with(".jsonl");
        let (kind, source) = (kind.to_owned(), source.to_owned());
        Self { kind, source, version: file.etag, text, has_lines, entry: None }
    }

    fn omitted(&self, range: Option<String>, reason: &str) -> Omitted {
        Omitted { kind: self.kind.clone(), source: self.source.clone(), range, reason: reason.to_owned() }
    }

    /// Returns the part that fits into `most` tokens, and the omitted rest. An empty file gives no part.
    pub(super) fn fit(&self, most: u64) -> (Option<Part>, Option<Omitted>) {
        let text = match &self.text {
            Ok(text) => text,
            Err(reason) => return (None, Some(self.omitted(None, reason))),
        };
        if text.trim().is_empty() {
            return (None, None);
        }
        if let Some(part) = self.part(text, 0..text.len(), None, most) {
            return (Some(part), None);
        }
        if !self.has_lines {
            return (None, Some(self.omitted(None, "budget")));
        }
        // The last entries are the newest. Their number is found by halving: each try masks and counts the
        // text.
        let starts: Vec<usize> = std::iter::once(0)
            .chain(text.match_indices('\n').map(|(at, _)| at + 1))
            .filter(|start| *start < text.len())
            .collect();
        let (mut least, mut most_lines) = (0, starts.len() - 1);
        let mut best = None;
        while least < most_lines {
            let lines = (least + most_lines).div_ceil(2);
            let first = starts.len() - lines;
            let range = format!("{}-{}", first + 1, starts.len());
            match self.part(text, starts[first]..text.len(), Some(range), most) {
                Some(part) => (least, best) = (lines, Some(part)),
                None => most_lines = lines - 1,
            }
        }
        let left_out = starts.len() - least;
        (best, Some(self.omitted(Some(format!("1-{left_out}")), "budget")))
    }

    fn part(
        &self,
        text: &str,
        bytes: std::ops::Range<usize>,
        range: Option<String>,
        most: u64,
    ) -> Option<Part> {
        let own = &text[bytes.clone()];
        if is_beyond(own.len(), most) {
            return None;
        }
        let shown = shown(&self.kind, &self.source, own);
        let item = Item {
            kind: self.kind.clone(),
            source: self.source.clone(),
            range,
            tokens: fits(&shown, most)?,
            version: Some(self.version),
            sha256: sha256(own.as_bytes()),
            bytes: [bytes.start as u64, bytes.end as u64],
            entry: self.entry.clone(),
        };
        Some(Part { item, text: shown })
    }
}

/// Returns the text of a file as a pack shows it.
pub(super) fn shown(kind: &str, source: &str, text: &str) -> String {
    let source = crate::one_word::word(source);
    part(&format!("{kind} {source}"), &masked(text))
}

impl Sessions<'_> {
    /// Returns the files that every pack starts with: the system prompt of imported transcripts, pinned
    /// files, `system.md` first, then by name. Those beyond [`MAX_PINNED`], which other interfaces can write,
    /// are left out together.
    pub(super) async fn pinned_files(&self, session: &str) -> Result<Vec<Candidate>> {
        let dir = self.file(session, PINNED)?;
        let page = Page::default().limit(MAX_PINNED);
        let listing = self.fs.list(&At::from(&dir), &page).await.optional()?.unwrap_or_default();
        let more = listing.more;
        let files = listing.items.into_iter().filter(|item| item.kind == Kind::File);
        let mut names: Vec<String> = files.map(|item| format!("{PINNED}/{}", item.name)).collect();
        let system = format!("{PINNED}/system.md");
        // The page is in the order of names and can end before `system.md`, which every pack starts with.
        if more && !names.contains(&system) {
            names.push(system);
        }
        names.sort_by_key(|name| (!name.ends_with("/system.md"), name.clone()));
        names.insert(0, SYSTEM_PROMPT.to_owned());
        let kind = |name: &str| if name.ends_with("/system.md") { "system" } else { "pinned" };
        let named = names.iter().map(|name| (kind(name), name.as_str())).collect::<Vec<_>>();
        let mut files = self.candidates(session, &named, MAX_SHOWN).await?;
        if more {
            let (kind, source) = ("pinned".to_owned(), PINNED.to_owned());
            let (version, text) = (VersionId { seq: Seq(0), ino: Ino::NONE }, Err("too_many"));
            files.push(Candidate { kind, source, version, text, has_lines: false, entry: None });
        }
        Ok(files)
    }

    /// Returns the derived files as they are now.
    pub(super) async fn derived_files(&self, session: &str) -> Result<Vec<Candidate>> {
        self.candidates(session, &DERIVED, MAX_DERIVED).await
    }

    async fn candidates(
        &self,
        session: &str,
        files: &[(&str, &str)],
        limit: usize,
    ) -> Result<Vec<Candidate>> {
        let paths: Vec<TreePath> =
            files.iter().map(|(_, name)| self.file(session, name)).collect::<Result<_>>()?;
        let read = if paths.is_empty() { Vec::new() } else { read_all(self.fs, &paths, limit).await? };
        let there = files.iter().zip(read).filter_map(|(named, file)| Some((named, file?)));
        Ok(there.map(|((kind, name), file)| Candidate::new(kind, name, &file)).collect())
    }

    /// Returns the results of children that the session refers to.
    pub(super) async fn child_results(&self, session: &str) -> Result<Vec<Candidate>> {
        let refs = self.entries(session, EntryKind::Ref).await?;
        let is_result = |to: &(String, String)| to.1 == "child_result" && !to.0.starts_with('/');
        let mut paths: Vec<String> =
            refs.into_iter().filter_map(|entry| entry.to.filter(is_result)).map(|(path, _)| path).collect();
        // The newest references are the last ones.
        paths.drain(..paths.len().saturating_sub(MAX_CHILDREN));
        // Any program can write `refs.jsonl`: an invalid path must not end all later packs.
        paths.retain(|path| TreePath::parse(&format!("/{path}")).is_ok());
        let named: Vec<_> = paths.iter().map(|path| ("child_result", path.as_str())).collect();
        self.candidates(session, &named, MAX_SHOWN).await
    }

    /// Returns the content of entries of `refs.jsonl`.
    pub(super) async fn expanded(&self, session: &str, ids: &[String]) -> Result<Vec<Candidate>> {
        let mut found = Vec::new();
        let refs = if ids.is_empty() { Vec::new() } else { self.entries(session, EntryKind::Ref).await? };
        for id in ids {
            let to = refs.iter().find(|entry| entry.id == *id).and_then(|entry| entry.to.as_ref());
            let (path, _) = to.ok_or_else(|| {
                Error::new(ErrorKind::NotFound, format!("{id}: no reference of {session} has this id"))
            })?;
            let source: Source = path.parse()?;
            // `derive` takes references whose lines were retracted; the pack must not show these lines for
            // it.
            let is_retracted = self.has_retracted_lines(session, &source).await?;
            let (source, file, read) = match swap_of(path) {
                // Through the chunk, not as a file: lines are read from their log, and the hash is checked.
                Some(swap) => {
                    let chunk = self.file(session, &format!("{CHUNKS}/{swap}"))?;
                    let content = match is_retracted {
                        true => None,
                        false => Some(self.swap_content(session, swap).await?),
                    };
                    (format!("swap:{swap}"), chunk, content)
                }
                None => self.content_of(session, &source).await?,
            };
            let entry = self.fs.stat(&At::from(&file)).await?;
            let text = read.filter(|bytes| bytes.len() <= MAX_SHOWN);
            found.push(Candidate {
                kind: "expanded".to_owned(),
                source,
                version: entry.etag,
                text: match text {
                    _ if is_retracted => Err("retracted"),
                    Some(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
                    None => Err("too_large"),
                },
                has_lines: false,
                entry: Some(id.clone()),
            });
        }
        Ok(found)
    }

    /// Returns true if a source leads to messages of which some are retracted, or to a whole log with such.
    async fn has_retracted_lines(&self, session: &str, source: &Source) -> Result<bool> {
        let (of, lines) = match self.resolve(session, source).await.optional()? {
            Some(Resolved::Lines { session, log: Log::Messages, lines, .. }) => (session, lines),
            Some(Resolved::File { path, .. }) => match self.session_of_log(&path)? {
                Some(of) => (of, 1..=u64::MAX),
                None => return Ok(false),
            },
            _ => return Ok(false),
        };
        match *lines.end() {
            u64::MAX => self.has_retracted(&of).await,
            _ => Ok(!self.retracted(&of, lines).await?.is_empty()),
        }
    }

    /// Returns the target of a source: its lasting name, its file, and its bytes if they are not too many.
    async fn content_of(
        &self,
        session: &str,
        source: &Source,
    ) -> Result<(String, TreePath, Option<Vec<u8>>)> {
        let resolved = self.resolve(session, source).await?;
        let (file, bytes) = match &resolved {
            Resolved::File { path, size, .. } => (path.clone(), 0..*size),
            Resolved::Lines { session, log, bytes, .. } => (self.file(session, log.file())?, bytes.clone()),
        };
        let read = match bytes.end - bytes.start > MAX_SHOWN as u64 {
            true => None,
            false => Some(self.bytes_of(&file, bytes).await?),
        };
        Ok((resolved.fixed(), file, read))
    }
}

/// Returns the swap entry that a path of a reference names.
fn swap_of(path: &str) -> Option<&str> {
    path.strip_prefix("swap:").or_else(|| path.strip_prefix(CHUNKS)?.strip_prefix('/'))
}
