//! Reads the parts of a memory or a file that may be shown, at one point in time and in bounded pieces.
//! Secrets are masked here, before anything else sees the text.

use std::ops::Range;

use super::excerpt::excerpt;
use crate::memory::{ABSTRACT, Level, META, Meta, OVERVIEW, Origin, Status, Uri, sha256, text_of};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange, Entry, Hit, Timestamp, VersionId};
use garth_engine::path::TreePath;
use garth_engine::text::question::Question;
use garth_engine::text::secret::{CONTEXT, masked, masked_in_context};

/// Limit on a text that may be shown completely, 8 KiB: about 2,000 tokens.
const WHOLE: u64 = 8 << 10;
/// Limit on the bytes that are read of an abstract, overview or meta.
const LAYER: u64 = 64 << 10;
/// Limit on the bytes of the best part of a passage: two or three sentences.
const EXCERPT: usize = 480;

/// Hits in a memory or file, with the question.
pub(super) struct Found<'a> {
    pub(super) hits: &'a [(Option<Level>, Hit)],
    pub(super) question: &'a Question,
}

/// File or part of a file, ready to be shown.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    pub(super) path: TreePath,
    pub(super) level: Option<Level>,
    pub(super) version: VersionId,
    pub(super) bytes: Range<u64>,
    pub(super) lines: Range<u64>,
    pub(super) whole: bool,
    /// Text with masked secrets.
    pub(super) text: String,
}

/// Parts of a memory or file that may be shown.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) brief: Option<Shown>,
    pub(super) overview: Option<Shown>,
    pub(super) whole: Option<Shown>,
    pub(super) passage: Option<Shown>,
    pub(super) excerpt: Option<Shown>,
}

/// Byte ranges to read of the files of one source.
pub(super) type Wanted = Vec<(At, ByteRange)>;

/// Answers to the ranges of one source, in their order, all of one point in time.
pub(super) struct Answers(std::vec::IntoIter<Result<(Entry, bytes::Bytes)>>);

impl From<Vec<Result<(Entry, bytes::Bytes)>>> for Answers {
    fn from(answers: Vec<Result<(Entry, bytes::Bytes)>>) -> Self {
        Self(answers.into_iter())
    }
}

impl Iterator for Answers {
    type Item = Result<(Entry, bytes::Bytes)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl Answers {
    fn due(&mut self) -> Result<(Entry, bytes::Bytes)> {
        self.0.next().unwrap_or_else(|| Err(Error::new(ErrorKind::Io, "an answer is missing")))
    }
}

/// Returns the ranges that [`memory`] needs: meta, abstract, overview and the content.
pub(super) fn wanted_of_memory(uri: &Uri, dir: &TreePath, found: &Found<'_>) -> Wanted {
    let file = |name: &str| TreePath::from_row(dir.key(), name);
    let layer = ByteRange { offset: 0, length: LAYER };
    let layers = [META, ABSTRACT, OVERVIEW].map(|name| (At::Path(file(name)), layer));
    layers.into_iter().chain(content(&file(text_of(uri)), found.hit(Level::Content))).collect()
}

/// Returns the parts of a memory in this directory; `None` if it does not exist, or is not valid at `time`.
pub(super) fn memory(
    uri: &Uri,
    dir: &TreePath,
    time: Timestamp,
    found: &Found<'_>,
    mut answers: Answers,
) -> Result<Option<Parts>> {
    let file = |name: &str| TreePath::from_row(dir.key(), name);
    let text = file(text_of(uri));
    let hit = found.hit(Level::Content);
    let meta = answers.due()?;
    // Layers may be missing, and are then left out.
    let [brief, overview] = [answers.due(), answers.due()].map(Result::ok);
    // The answers come in the order of `wanted_of_memory`.
    let Ok(meta) = Meta::parse(&meta.1) else { return Ok(None) };
    if meta.status != Status::Active || !meta.is_valid_at(time) {
        return Ok(None);
    }
    let start = answers.due()?;
    let around = hit.map(|hit| answers.due().map(|read| (read, hit))).transpose()?;
    let mut parts = of_content(&text, Some(Level::Content), start, around, found.question);
    // A layer is shown only if it describes the current content. It may be older after the content was edited
    // by hand.
    let holds = |of: fn(&crate::memory::Layers) -> &crate::memory::Layer| {
        let Some(layers) = &meta.layers else { return true };
        let describes = |whole: &UnmaskedChecksum| of(layers).content_sha256 == whole.sha256;
        of(layers).origin != Origin::Stale && parts.unmarked.as_ref().is_none_or(describes)
    };
    let (has_brief, has_overview) = (holds(|layers| &layers.brief), holds(|layers| &layers.overview));
    // A layer over the read limit is omitted, not cut.
    let shown = |read: Option<(Entry, bytes::Bytes)>, name: &str, level: Level| {
        let (entry, bytes) =
            read.filter(|(entry, bytes)| entry.size == bytes.len() as u64 && !bytes.is_empty())?;
        Some(whole(file(name), Some(level), &entry, &bytes))
    };
    parts.parts.brief = shown(brief.filter(|_| has_brief), ABSTRACT, Level::Abstract);
    parts.parts.overview = shown(overview.filter(|_| has_overview), OVERVIEW, Level::Overview);
    Ok(Some(parts.parts))
}

/// Returns the ranges that [`file()`] needs.
pub(super) fn wanted_of_file(path: &TreePath, found: &Found<'_>) -> Wanted {
    content(path, found.hits.first().map(|(_, hit)| hit))
}

/// Returns the parts of a file that belongs to no memory.
pub(super) fn file(path: &TreePath, found: &Found<'_>, mut answers: Answers) -> Result<Option<Parts>> {
    let hit = found.hits.first().map(|(_, hit)| hit);
    let start = answers.due()?;
    let around = hit.map(|hit| answers.due().map(|read| (read, hit))).transpose()?;
    let mut parts = of_content(path, None, start, around, found.question).parts;
    // Of other files blank lines are their own.
    let is_log = path.name() == Some("messages.jsonl");
    for part in [&mut parts.whole, &mut parts.passage, &mut parts.excerpt].into_iter().filter(|_| is_log) {
        if let Some(shown) = part {
            shown.text = without_withheld(&shown.text);
        }
        part.take_if(|shown| shown.text.is_empty());
    }
    Ok(Some(parts))
}

/// Returns a text without the lines that [`blanked`](garth_engine::text::withheld::blanked) left, which would
/// take the place of others in a prompt. They keep the places of all others until these are cut out.
fn without_withheld(text: &str) -> String {
    let is_withheld = |line: &&str| line.starts_with(' ') && line.trim().is_empty();
    text.split_inclusive('\n').filter(|line| !is_withheld(line)).collect()
}

impl<'a> Found<'a> {
    /// Returns the best hit in a file that belongs to no memory.
    pub(super) fn first_hit(&self) -> Option<&'a Hit> {
        self.hits.first().map(|(_, hit)| hit)
    }

    /// Returns the first byte that is read around a hit.
    pub(super) fn start_around(hit: &Hit) -> u64 {
        hit.bytes.start.saturating_sub(CONTEXT as u64)
    }

    /// Returns the best hit in a layer.
    fn hit(&self, level: Level) -> Option<&'a Hit> {
        self.hits.iter().find(|(own, _)| *own == Some(level)).map(|(_, hit)| hit)
    }
}

/// Returns the ranges to read of a text: its beginning, and the surroundings of a hit.
fn content(path: &TreePath, hit: Option<&Hit>) -> Vec<(At, ByteRange)> {
    let start = (At::from(path), ByteRange { offset: 0, length: WHOLE + CONTEXT as u64 });
    let around = hit.map(|hit| {
        let from = Found::start_around(hit);
        (At::from(path), ByteRange::from(from..hit.bytes.end + CONTEXT as u64))
    });
    [Some(start), around].into_iter().flatten().collect()
}

/// Reads the ranges of several sources, those of one source at one point in time. Together they are far
/// smaller than the limit of an answer. Returns the answers to each source.
pub(super) async fn fetched(fs: &dyn FileSystem, wanted: &[Wanted]) -> Result<Vec<Answers>> {
    let mut read = Vec::with_capacity(wanted.len());
    while read.len() < wanted.len() {
        let left = &wanted[read.len()..];
        let mut answers = fs.fetch_many(&left.concat()).await?.items.into_iter();
        // Always takes the first source. If some of its answers are missing it fails later; asked again, it
        // would loop forever.
        for (place, of_source) in left.iter().enumerate() {
            if place > 0 && answers.len() < of_source.len() {
                break;
            }
            read.push(Answers(answers.by_ref().take(of_source.len()).collect::<Vec<_>>().into_iter()));
        }
    }
    Ok(read)
}

/// Checksum of a complete text before its secrets are masked.
struct UnmaskedChecksum {
    sha256: String,
}

struct ContentParts {
    parts: Parts,
    unmarked: Option<UnmaskedChecksum>,
}

/// Returns the parts of a text, from its beginning and the surroundings of a hit.
fn of_content(
    path: &TreePath,
    level: Option<Level>,
    (entry, start): (Entry, bytes::Bytes),
    around: Option<((Entry, bytes::Bytes), &Hit)>,
    question: &Question,
) -> ContentParts {
    let mut parts = Parts::default();
    let is_whole = entry.size <= WHOLE;
    let unmarked = is_whole.then(|| UnmaskedChecksum { sha256: sha256(&start) });
    if is_whole {
        parts.whole = Some(whole(path.clone(), level, &entry, &start));
    }
    // The positions of a hit are only valid in its own version.
    let around = around.filter(|((read, _), hit)| read.version == hit.version);
    let (bytes, piece, first) = match &around {
        Some(((_, bytes), hit)) => {
            let from = hit.bytes.start.saturating_sub(CONTEXT as u64);
            let begin = ((hit.bytes.start - from) as usize).min(bytes.len());
            let end = ((hit.bytes.end - from) as usize).min(bytes.len());
            (bytes, begin..end, (from, hit.lines.start))
        }
        None => (&start, 0..start.len().min(WHOLE as usize), (0, 1)),
    };
    let cut = |inside: Range<usize>| {
        let (from, line) = first;
        let (front, text, behind) = (&bytes[..inside.start], &bytes[inside.clone()], &bytes[inside.end..]);
        let feeds = |part: &[u8]| part.iter().filter(|byte| **byte == b'\n').count() as u64;
        let line = line + feeds(&bytes[piece.start..inside.start]);
        let lines = line..line + feeds(text) + u64::from(!text.ends_with(b"\n"));
        Shown {
            path: path.clone(),
            level,
            version: entry.version,
            bytes: from + inside.start as u64..from + inside.end as u64,
            lines,
            whole: false,
            // Masked with its surroundings, because a secret may be cut at the edge of the piece.
            text: String::from_utf8_lossy(&masked_in_context(front, text, behind)).into_owned(),
        }
    };
    if let Ok(text) = std::str::from_utf8(&bytes[piece.clone()]) {
        let best = excerpt(text, question, EXCERPT);
        parts.excerpt = (!best.is_empty()).then(|| cut(piece.start + best.start..piece.start + best.end));
    }
    parts.passage = (around.is_some() && !piece.is_empty()).then(|| cut(piece.clone()));
    ContentParts { parts, unmarked }
}

fn whole(path: TreePath, level: Option<Level>, entry: &Entry, bytes: &[u8]) -> Shown {
    let text = String::from_utf8_lossy(bytes);
    let lines = 1..1 + text.lines().count().max(1) as u64;
    Shown {
        path,
        level,
        version: entry.version,
        bytes: 0..entry.size,
        lines,
        whole: true,
        text: masked(&text).into_owned(),
    }
}
