//! Swap: content that packs leave out of the context window, and that stays where it is. The index lists it;
//! a chunk leads back to it: a reference to lines of the session, or the bytes of a file, which may change.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::boxed;
use crate::count::count;
use crate::retry::retry;
use crate::session::expiry::policy::Policy;
use crate::session::expiry::schedule::due_at;
use crate::session::handle::{Sessions, missing};
use crate::session::log::message::Message;
use crate::session::log::source::{Resolved, Source, What};
use crate::session::render::whole;
use crate::session::store::files::{CHUNKS, Log, META, SWAPPED};
use crate::session::store::swap_index::{Swapped, parse_index};
use crate::small_file::{File, as_read, pretty, read_all, sha256};
use garth_engine::error::{Advice, Error, ErrorKind, Result};
use garth_engine::model::{Op, Precondition};
use garth_engine::path::TreePath;

/// Limit on the bytes of one swap, 16 MiB.
pub const MAX_SWAPPED: u64 = 16 << 20;
/// Size limit of the index, 1 MiB.
const MAX_INDEX: usize = 1 << 20;
/// Limit on the bytes of a summary.
const MAX_SUMMARY: usize = 4096;

/// An entry of the index, and its chunk.
pub(crate) type Chunked = (Swapped, Vec<u8>);

/// A chunk that refers to lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Chunk {
    source: String,
    start_event: String,
    end_event: String,
    range: String,
    hash: String,
}

/// Returns the id of swapped content.
fn id_of(hash: &str) -> String {
    format!("sha256-{hash}")
}

impl Sessions<'_> {
    /// Swaps lines, the output of a tool, or a file out of the context window. The logs and the file stay as
    /// they are.
    ///
    /// # Errors
    /// `InvalidArgument`; `NotFound` for a source that does not exist; `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn swap_out(&self, session: &str, source: &Source, summary: &str) -> Result<Swapped> {
        if summary.len() > MAX_SUMMARY || summary.chars().any(char::is_control) {
            let message = format!("a summary of what is swapped is one line of at most {MAX_SUMMARY} bytes");
            return Err(Error::invalid(message));
        }
        if source.session.as_deref().is_some_and(|of| of != session) {
            return Err(Error::invalid(format!(
                "{source}: only sources of the session itself can be swapped"
            )));
        }
        self.once.run(retry(|| self.swap_out_once(session, source, summary))).await
    }

    async fn swap_out_once(&self, session: &str, source: &Source, summary: &str) -> Result<Swapped> {
        let (index_file, index) = self.swap_index(session).await?;
        let resolved = self.resolve(session, source).await?;
        let (entry, chunk) = match &resolved {
            Resolved::Lines { log, lines, bytes, .. } => {
                if bytes.end - bytes.start > MAX_SWAPPED {
                    return Err(too_large());
                }
                let of_tool = matches!(source.what, What::Tool(_));
                self.swap_of_lines(session, *log, lines.clone(), (of_tool, summary)).await?
            }
            Resolved::File { path, shown, size, .. } => {
                if *size > MAX_SWAPPED {
                    return Err(too_large());
                }
                let bytes = self.bytes_of(path, 0..*size).await?;
                let entry = Swapped {
                    id: id_of(&sha256(&bytes)),
                    kind: "file".to_owned(),
                    // As a source of the session: a path of the account could lead to another file there.
                    source: shown.to_string(),
                    range: None,
                    event: None,
                    summary: summary.to_owned(),
                    tokens: count(&String::from_utf8_lossy(&bytes)) as u64,
                    cut: false,
                };
                (entry, bytes)
            }
        };
        // The entry of a cut does not take its lines out of packs, so that this call is not a repeat of it.
        if let Some(there) = index.iter().find(|there| there.id == entry.id && !there.cut) {
            let batch = self.batch(session, Vec::new(), "swap nothing out of session")?;
            return self.once.unchanged(self.fs, batch, there.clone()).await;
        }
        let policy = self.policy_or_default(session).await?;
        let ops = self.swap_ops(session, [(entry.clone(), chunk)], &index, &policy)?;
        let batch = self.batch(session, ops, "swap out of session")?;
        let batch = batch.require(self.file(session, SWAPPED)?, as_read(index_file.as_ref()));
        let batch = batch.require(self.is_there(session)?, Precondition::Exists);
        self.once.commit(self.fs, batch, entry).await
    }

    /// Returns the entry of lines, and its chunk.
    async fn swap_of_lines(
        &self,
        session: &str,
        log: Log,
        lines: RangeInclusive<u64>,
        (of_tool, summary): (bool, &str),
    ) -> Result<(Swapped, Vec<u8>)> {
        let mut all = Vec::new();
        let mut from = *lines.start();
        while from <= *lines.end() {
            let page = self.raw_lines(session, log, from..=*lines.end(), usize::MAX).await?;
            from = page.next.unwrap_or(u64::MAX);
            all.extend(page.items);
        }
        let text = all.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
        let (Some(first), Some(last)) = (all.first(), all.last()) else { return Err(missing(session)) };
        let tokens = match log {
            Log::Messages => {
                let parsed = all.iter().filter_map(|line| Some((line, Message::parse(&line.text).ok()?)));
                parsed.map(|(line, message)| whole(line.number, message, &self.tokens).tokens).sum()
            }
            Log::Events => count(&text) as u64,
        };
        let kind = match log {
            Log::Messages if of_tool => "tool_output",
            Log::Messages => "message_range",
            Log::Events => "events",
        };
        let range = format!("{}-{}", lines.start(), lines.end());
        let hash = sha256(text.as_bytes());
        let chunk = Chunk {
            source: log.file().to_owned(),
            start_event: id_in(&first.text),
            end_event: id_in(&last.text),
            range: range.clone(),
            hash: format!("sha256:{hash}"),
        };
        let entry = Swapped {
            id: id_of(&hash),
            kind: kind.to_owned(),
            source: log.file().to_owned(),
            range: Some(range),
            event: (log == Log::Events && lines.start() == lines.end()).then(|| id_in(&first.text)),
            summary: summary.to_owned(),
            tokens,
            cut: false,
        };
        Ok((entry, pretty(&chunk)?.into_bytes()))
    }

    /// Returns the entry of a result that a pack cuts, and its chunk, a reference to the complete result.
    pub(crate) fn swap_of_cut(
        &self,
        line: &crate::session::log::lines::Line,
        summary: String,
    ) -> Result<Chunked> {
        let hash = sha256(line.text.as_bytes());
        let range = format!("{0}-{0}", line.number);
        let id = id_in(&line.text);
        let chunk = Chunk {
            source: Log::Messages.file().to_owned(),
            start_event: id.clone(),
            end_event: id,
            range: range.clone(),
            hash: format!("sha256:{hash}"),
        };
        let entry = Swapped {
            id: id_of(&hash),
            kind: "tool_output".to_owned(),
            source: Log::Messages.file().to_owned(),
            range: Some(range),
            event: None,
            summary,
            // An estimate: to count a result that does not fit would cost more than the rest of the pack.
            tokens: line.text.len() as u64 / 4,
            cut: true,
        };
        Ok((entry, pretty(&chunk)?.into_bytes()))
    }

    /// Returns the writes of new chunks, and of the index with their entries.
    pub(crate) fn swap_ops(
        &self,
        session: &str,
        new: impl IntoIterator<Item = (Swapped, Vec<u8>)>,
        index: &[Swapped],
        policy: &Policy,
    ) -> Result<Vec<Op>> {
        let (mut ops, mut index) = (Vec::new(), index.to_vec());
        for (entry, chunk) in new {
            match index.iter_mut().find(|there| there.id == entry.id) {
                Some(there) => {
                    // The chunk exists already: its name is its hash. Content that a caller swapped out stays
                    // out, even if a pack cuts it as well.
                    *there = Swapped { cut: there.cut && entry.cut, ..entry };
                }
                None => {
                    let path = self.file(session, &format!("{CHUNKS}/{}", entry.id))?;
                    ops.push(Op::write(path, chunk).with_parents());
                    index.push(entry);
                }
            }
        }
        let text = index.iter().map(Swapped::line).collect::<Result<String>>()?;
        if text.len() > MAX_INDEX {
            let message = format!("{SWAPPED}: has at most {MAX_INDEX} bytes; swap something in, or collect");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let path = self.file(session, SWAPPED)?;
        let attrs = self.marked(&path, Some(due_at(self.env.now(), policy.swap_ttl)));
        ops.push(Op::write(path, text).with_parents().with_attrs(attrs));
        Ok(ops)
    }

    /// Returns the entries of swapped content, without the summaries of ranges with retracted messages.
    ///
    /// # Errors
    /// `NotFound` for a missing session; from the filesystem.
    #[boxed]
    pub async fn swapped(&self, session: &str) -> Result<Vec<Swapped>> {
        self.meta(session).await?;
        let (_, mut index) = self.swap_index(session).await?;
        if !self.has_retracted(session).await? {
            return Ok(index);
        }
        // A retraction empties these summaries, unless another program recorded it, or they were written
        // later.
        for entry in index.iter_mut().filter(|entry| !entry.summary.is_empty()) {
            if let Some(lines) = entry.lines()
                && !self.retracted(session, lines).await?.is_empty()
            {
                entry.summary.clear();
            }
        }
        Ok(index)
    }

    pub(crate) async fn swap_index(&self, session: &str) -> Result<(Option<File>, Vec<Swapped>)> {
        let file = read_all(self.fs, &[self.file(session, SWAPPED)?], MAX_INDEX).await?.pop().flatten();
        let index = parse_index(file.as_ref().and_then(File::text).unwrap_or_default());
        Ok((file, index))
    }

    /// Returns swapped content: lines as they are in their log, without retracted messages, or the bytes of a
    /// file. The hash of all is checked.
    ///
    /// # Errors
    /// `NotFound`, also if all messages were retracted; `Corrupt` if the hash differs;
    /// `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn swap_content(&self, session: &str, id: &str) -> Result<Vec<u8>> {
        let id = bare_id(id);
        self.shown_of_swap(session, id).await?.ok_or_else(|| {
            let advice = format!(
                "`garth session messages {session} --retracted`, or /v1/sessions/lines with `retracted`, shows them"
            );
            let error = Error::new(ErrorKind::NotFound, format!("{id}: the messages were retracted"));
            error.advising(Advice::Command, &advice)
        })
    }

    /// Returns swapped content without retracted messages, or `None` if nothing is left.
    async fn shown_of_swap(&self, session: &str, id: &str) -> Result<Option<Vec<u8>>> {
        let chunk = self.file(session, &format!("{CHUNKS}/{id}"))?;
        let limit = usize::try_from(MAX_SWAPPED).unwrap_or(usize::MAX);
        let file = read_all(self.fs, &[chunk], limit).await?.pop().flatten();
        let file = file.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("{id}: {session} has no swap entry with this id"))
        })?;
        let (bytes, lines) = self.read_chunk(session, id, file.bytes.ok_or_else(too_large)?).await?;
        let (of, lines) = match lines {
            Some((Log::Messages, lines)) => (session.to_owned(), lines),
            Some((Log::Events, _)) => return Ok(Some(bytes)),
            None => match self.log_in_chunk(session, id, &bytes).await? {
                Some(of) => (of, 1..=bytes.split(|byte| *byte == b'\n').count() as u64),
                None => return Ok(Some(bytes)),
            },
        };
        let gone = self.retracted(&of, lines.clone()).await?;
        if gone.is_empty() {
            return Ok(Some(bytes));
        }
        let lines = lines.zip(bytes.split_inclusive(|byte| *byte == b'\n'));
        let left = lines.filter(|(number, _)| !gone.iter().any(|gone| gone.contains(number)));
        let left = left.map(|(_, line)| line).collect::<Vec<_>>().concat();
        Ok((!left.is_empty()).then_some(left))
    }

    /// Returns the session whose messages a chunk has as the bytes of a file.
    async fn log_in_chunk(&self, session: &str, id: &str, bytes: &[u8]) -> Result<Option<String>> {
        let (_, index) = self.swap_index(session).await?;
        let source = index.into_iter().find(|entry| entry.id == id).map(|entry| entry.source);
        if let Some(path) = source.and_then(|source| TreePath::parse(&source).ok()) {
            // Older entries have paths of the account.
            for path in self.paths_of(&path) {
                if let Some(of) = self.session_of_log(&path)? {
                    return Ok(Some(of));
                }
            }
            return Ok(None);
        }
        // Nothing names the file once the content was swapped in. Logs only grow.
        let own = self.file(session, Log::Messages.file())?;
        let size = self.fs.stat(&(&own).into()).await?.size;
        let is_own = bytes.len() as u64 <= size && self.bytes_of(&own, 0..bytes.len() as u64).await? == bytes;
        Ok(is_own.then(|| session.to_owned()))
    }

    /// Returns the session whose messages a file has.
    pub(crate) fn session_of_log(&self, path: &TreePath) -> Result<Option<String>> {
        let dir = path.parent().filter(|_| path.name() == Some(Log::Messages.file()));
        let Some(of) = dir.as_ref().and_then(|dir| dir.name()) else { return Ok(None) };
        // Not every directory has the name of a session.
        let is_log = self.file(of, Log::Messages.file()).is_ok_and(|log| log == *path);
        Ok(is_log.then(|| of.to_owned()))
    }

    /// Returns the lines that a chunk refers to, as a source; `None` if it has the bytes of a file.
    pub(crate) async fn lines_of_chunk(&self, session: &str, chunk: &TreePath) -> Result<Option<String>> {
        let limit = usize::try_from(MAX_SWAPPED).unwrap_or(usize::MAX) - 1;
        let file = read_all(self.fs, std::slice::from_ref(chunk), limit).await?.pop().flatten();
        let Some(bytes) = file.and_then(|file| file.bytes) else { return Ok(None) };
        // The id of a reference is the hash of the lines, that of a file the hash of its bytes: a file that
        // looks like a reference is recognised by that.
        let is_of_file = chunk.name() == Some(&*id_of(&sha256(&bytes)));
        let reference = serde_json::from_slice::<Chunk>(&bytes).ok().filter(|_| !is_of_file);
        Ok(reference.map(|chunk| {
            let log = if chunk.source == Log::Events.file() { Log::Events } else { Log::Messages };
            format!("{session}#{}:{}", log.name(), chunk.range)
        }))
    }

    /// Returns the content that a chunk leads to, after a check of its hash.
    pub(crate) async fn of_chunk(&self, session: &str, id: &str, bytes: Vec<u8>) -> Result<Vec<u8>> {
        Ok(self.read_chunk(session, id, bytes).await?.0)
    }

    /// Returns the content that a chunk leads to, after a check of its hash, and the lines that it has.
    async fn read_chunk(
        &self,
        session: &str,
        id: &str,
        bytes: Vec<u8>,
    ) -> Result<(Vec<u8>, Option<(Log, RangeInclusive<u64>)>)> {
        let (bytes, lines) = match serde_json::from_slice::<Chunk>(&bytes) {
            // A file that was swapped out may look like a reference. Its id is the hash of its own bytes.
            Ok(chunk) if id_of(&sha256(&bytes)) != id => {
                let (bytes, lines) = self.of_reference(session, &chunk).await?;
                (bytes, Some(lines))
            }
            _ => (bytes, None),
        };
        if id_of(&sha256(&bytes)) != id {
            let message = format!("{id}: the content of this chunk of {session} has changed");
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        Ok((bytes, lines))
    }

    async fn of_reference(
        &self,
        session: &str,
        chunk: &Chunk,
    ) -> Result<(Vec<u8>, (Log, RangeInclusive<u64>))> {
        let log = if chunk.source == Log::Events.file() { Log::Events } else { Log::Messages };
        // By ids: numbers of events begin again after a collection.
        let source: Source = format!("{}..{}", chunk.start_event, chunk.end_event).parse()?;
        let Resolved::Lines { bytes, lines, .. } = self.resolve(session, &source).await? else {
            return Err(missing(session));
        };
        if bytes.end - bytes.start > MAX_SWAPPED {
            return Err(too_large());
        }
        Ok((self.bytes_of(&self.file(session, log.file())?, bytes).await?, (log, lines)))
    }

    /// Swaps content back into the context window, and returns the number of its bytes without retracted
    /// messages, which stay retracted. Its hash is checked first. The index loses its entry; the chunk stays
    /// until it is collected.
    ///
    /// # Errors
    /// As [`Sessions::swap_content`].
    #[boxed]
    pub async fn swap_in(&self, session: &str, id: &str) -> Result<usize> {
        self.once.run(retry(|| self.swap_in_once(session, id))).await
    }

    async fn swap_in_once(&self, session: &str, id: &str) -> Result<usize> {
        let id = bare_id(id);
        // Checked before the entry is removed: damaged content stays swapped out.
        let bytes = self.shown_of_swap(session, id).await?.map_or(0, |bytes| bytes.len());
        let (file, mut index) = self.swap_index(session).await?;
        if !index.iter().any(|entry| entry.id == id) {
            let batch = self.batch(session, Vec::new(), "swap nothing into session")?;
            return self.once.unchanged(self.fs, batch, bytes).await;
        }
        index.retain(|entry| entry.id != id);
        let policy = self.policy_or_default(session).await?;
        let ops = self.swap_ops(session, [], &index, &policy)?;
        let batch = self.batch(session, ops, "swap into session")?;
        let batch = batch.require(self.file(session, SWAPPED)?, as_read(file.as_ref()));
        let batch = batch.require(self.file(session, META)?, Precondition::Exists);
        self.once.commit(self.fs, batch, bytes).await
    }
}

/// Returns the id of an entry that a pack may have named as a source, `swap:{id}`.
fn bare_id(id: &str) -> &str {
    id.strip_prefix("swap:").unwrap_or(id)
}

fn too_large() -> Error {
    Error::new(ErrorKind::TooLarge, format!("at most {MAX_SWAPPED} bytes are swapped at once; swap parts"))
}

/// Returns the id of a line.
fn id_in(line: &str) -> String {
    #[derive(Deserialize)]
    struct Id {
        id: String,
    }
    serde_json::from_str::<Id>(line).map(|line| line.id).unwrap_or_default()
}
