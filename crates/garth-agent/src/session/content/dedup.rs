//! Deduplication: content that occurs more than once, by its hash, with all sources of it. Content of
//! messages and events stays where it is; content that can change, such as that of a file, is stored as a
//! blob.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::boxed;
use crate::count::count;
use crate::once::Outcome;
use crate::retry::retry;
use crate::session::expiry::schedule::due_at;
use crate::session::handle::Sessions;
use crate::session::log::message::{Block, Message};
use crate::session::log::source::{Resolved, Source, What};
use crate::session::render::flat;
use crate::session::store::files::{BLOBS, DEDUPED, Log};
use crate::small_file::{File, as_read, line, read_all, sha256};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::model::{Op, Precondition};

/// Size limit of one content, 16 MiB.
const MAX_CONTENT: u64 = 16 << 20;
/// Size limit of the index, 1 MiB.
pub(crate) const MAX_INDEX: usize = 1 << 20;
/// Limit on the sources of one call.
const MAX_SOURCES: usize = 100;

/// Content of a session with all of its sources.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DedupEntry", deny_unknown_fields)]
pub struct Deduped {
    /// Hash: `sha256-` and the SHA-256 of the content.
    pub hash: String,
    /// Sources of the content.
    pub refs: Vec<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// Tokens of the content.
    pub tokens: u64,
}

impl Outcome for Vec<Deduped> {}

/// Parses an index. Invalid lines are left out.
pub(crate) fn parse_index(text: &str) -> Vec<Deduped> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the text of an index.
pub(crate) fn index_text(index: &[Deduped]) -> Result<String> {
    index.iter().map(line).collect()
}

impl Sessions<'_> {
    /// Records the sources of content by its hash: output of tools, messages, files. Returns the entry of
    /// each source.
    ///
    /// # Errors
    /// `InvalidArgument`; `NotFound` for a source that does not exist; `TooLarge`; from the filesystem.
    #[boxed]
    pub async fn dedup(&self, session: &str, sources: &[Source]) -> Result<Vec<Deduped>> {
        if sources.is_empty() || sources.len() > MAX_SOURCES {
            return Err(Error::invalid(format!("give 1 to {MAX_SOURCES} sources")));
        }
        self.once.run(retry(|| self.dedup_once(session, sources))).await
    }

    async fn dedup_once(&self, session: &str, sources: &[Source]) -> Result<Vec<Deduped>> {
        let (file, mut index) = self.dedup_index(session).await?;
        let (mut ops, mut found) = (Vec::new(), Vec::new());
        for source in sources {
            let (content, is_raw) = self.content_by(session, source).await?;
            let hash = format!("sha256-{}", sha256(&content));
            // A chunk may be collected; the lines that it leads to stay, and are named instead.
            let is_of_lines = is_raw && matches!(source.what, What::Swap(_));
            let name = match source.moves() || is_of_lines {
                true => self.resolve(session, source).await?.fixed(),
                false => source.to_string(),
            };
            let at = index.iter().position(|entry| entry.hash == hash).unwrap_or_else(|| {
                let tokens = count(&String::from_utf8_lossy(&content)) as u64;
                let bytes = content.len() as u64;
                index.push(Deduped { hash: hash.clone(), refs: Vec::new(), bytes, tokens });
                index.len() - 1
            });
            let Some(entry) = index.get_mut(at) else { continue };
            if !entry.refs.contains(&name) {
                entry.refs.push(name);
            }
            found.push(at);
            // Messages never change and need no copy. A file can change, so that its bytes are stored.
            if !is_raw {
                let blob = self.file(session, &format!("{BLOBS}/{hash}"))?;
                ops.push(Op::write(blob, content).with_parents());
            }
        }
        // Read at the end, so that each entry has the references of all sources of the call.
        let found: Vec<Deduped> = found.iter().filter_map(|at| index.get(*at).cloned()).collect();
        let text = index_text(&index)?;
        if text.len() > MAX_INDEX {
            let message = format!("{DEDUPED}: has at most {MAX_INDEX} bytes; collect first");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let path = self.file(session, DEDUPED)?;
        if file.as_ref().and_then(File::text) == Some(&text) && ops.is_empty() {
            let batch = self.batch(session, ops, "dedup nothing in session")?;
            return self.once.unchanged(self.fs, batch, found).await;
        }
        let policy = self.policy_or_default(session).await?;
        let attrs = self.marked(&path, Some(due_at(self.env.now(), policy.swap_ttl)));
        ops.push(Op::write(path.clone(), text).with_parents().with_attrs(attrs));
        let batch = self.batch(session, ops, "dedup in session")?.require(path, as_read(file.as_ref()));
        let batch = batch.require(self.is_there(session)?, Precondition::Exists);
        self.once.commit(self.fs, batch, found).await
    }

    pub(crate) async fn dedup_index(&self, session: &str) -> Result<(Option<File>, Vec<Deduped>)> {
        let file = read_all(self.fs, &[self.file(session, DEDUPED)?], MAX_INDEX).await?.pop().flatten();
        let index = parse_index(file.as_ref().and_then(File::text).unwrap_or_default());
        Ok((file, index))
    }

    /// Returns the content of a source (of a tool result its output), and true if a log has it.
    pub(crate) async fn content_by(&self, session: &str, source: &Source) -> Result<(Vec<u8>, bool)> {
        let resolved = self.resolve(session, source).await?;
        let (file, bytes, is_raw) = match &resolved {
            Resolved::File { path, size, .. } => (path.clone(), 0..*size, false),
            Resolved::Lines { session, log, bytes, .. } => {
                (self.file(session, Log::file(*log))?, bytes.clone(), true)
            }
        };
        if bytes.end - bytes.start > MAX_CONTENT {
            let message = format!("{source}: at most {MAX_CONTENT} bytes are taken as one content");
            return Err(Error::new(ErrorKind::TooLarge, message));
        }
        let content = self.bytes_of(&file, bytes).await?;
        if !matches!(source.what, What::Tool(_)) {
            return Ok((content, is_raw));
        }
        let message = Message::parse(&String::from_utf8_lossy(&content))?;
        let output = message.content.iter().find_map(|block| match block {
            Block::ToolResult { content, .. } => Some(flat(content)),
            _ => None,
        });
        Ok((output.unwrap_or_default().into_bytes(), is_raw))
    }
}
