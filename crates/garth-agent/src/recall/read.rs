//! Reads the parts of a memory or a file that may be shown, at one point in time and in bounded pieces.
//! Secrets are masked here, before anything else sees the text.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::excerpt::{Excerpts, FoundTerms};
use super::unit::{Around, Form, Parts, SourceFile, TextAround, Unit, What};
use crate::memory::{
    ABSTRACT, Layer, Layers, Level, META, Meta, OVERVIEW, Origin, Status, Uri, sha256, text_of,
};
use garth_engine::error::{Error, ErrorKind, Result};
use garth_engine::fs::FileSystem;
use garth_engine::model::{At, ByteRange, Entry, Hit, ScoreParts, Timestamp, VersionId};
use garth_engine::path::TreePath;
use garth_engine::text::question::Question;
use garth_engine::text::secret::{CONTEXT, SearchedText, suffice};

/// Limit on a text that may be shown completely, 8 KiB: about 2,000 tokens.
const WHOLE: u64 = 8 << 10;
/// Number of bytes that are read of the beginning of a file.
const START: u64 = WHOLE + CONTEXT as u64;
/// Limit on a text that is not divided, 1 KiB.
const UNDIVIDED: u64 = 1 << 10;
/// Limit on the bytes that are read of an abstract, overview or meta.
const LAYER: u64 = 64 << 10;
/// Bytes on each side of a hit whose lines can be its neighbours, 2 KiB.
const BESIDE: u64 = 2 << 10;
/// Bytes on each side of a hit that are kept for that, 4 KiB: mostly enough to find the secrets of
/// neighbours.
const KEPT: u64 = 4 << 10;
/// Limits on the bytes of the best parts of a passage, the longest first: a paragraph, and two or three
/// sentences. There are several where a passage is half as long again.
const EXCERPTS: [usize; 2] = [960, 480];

/// Hit in a layer of a memory, or in a file.
pub(super) type LayerHit = (Option<Level>, Hit);

/// Byte ranges to read of the files of one source.
pub(crate) type Wanted = Vec<(At, ByteRange)>;

/// Answers to the ranges of one source, in their order, all of one point in time.
pub(crate) struct Answers(std::vec::IntoIter<Result<(Entry, Bytes)>>);

impl Answers {
    pub(crate) fn due(&mut self) -> Result<(Entry, Bytes)> {
        self.0.next().unwrap_or_else(|| Err(Error::new(ErrorKind::Io, "an answer is missing")))
    }
}

/// Part of a file that is read, with a line that is known.
#[derive(Clone, Debug)]
pub(super) struct Region {
    pub(super) bytes: Range<u64>,
    /// A byte in it, and the number of its line.
    pub(super) known: (u64, u64),
}

impl Region {
    /// Returns the range to read.
    pub(super) fn wanted(&self, path: &TreePath) -> (At, ByteRange) {
        (At::from(path), ByteRange::from(self.bytes.clone()))
    }

    /// Returns true if a hit is in it.
    pub(super) fn contains(&self, hit: &Hit) -> bool {
        self.bytes.start <= hit.bytes.start && hit.bytes.end <= self.bytes.end
    }

    /// Returns the place of a range of the file in the `length` bytes that were read.
    pub(super) fn place(&self, bytes: &Range<u64>, length: usize) -> Range<usize> {
        let place = |at: u64| usize::try_from(at - self.bytes.start).unwrap_or(usize::MAX).min(length);
        place(bytes.start)..place(bytes.end)
    }

    /// Keeps its bytes near the hits, of a file of this size. Its surroundings were read for these hits.
    fn kept(&self, bytes: &[u8], size: u64) -> TextAround {
        let near = |around: u64| {
            let end = (self.bytes.end - CONTEXT as u64 + around).min(self.bytes.start + bytes.len() as u64);
            self.known.0.saturating_sub(around).min(end)..end
        };
        let (shown, kept) = (near(BESIDE), near(KEPT));
        let is_end = kept.end >= size;
        let (from, text) = (kept.start, bytes[self.place(&kept, bytes.len())].to_vec());
        TextAround { shown, from, text, known: self.known, is_end }
    }

    /// Returns true if it is in the beginning of a file, which is read anyway.
    fn is_in_start(&self) -> bool {
        self.bytes.end <= START
    }

    /// Returns its bytes, and the version that has them: from the beginning of the file, or else from the
    /// next answer.
    fn text(&self, start: &(Entry, Bytes), answers: &mut Answers) -> Result<(VersionId, Bytes)> {
        if !self.is_in_start() {
            let (entry, bytes) = answers.due()?;
            return Ok((entry.version, bytes));
        }
        let (entry, bytes) = start;
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        Ok((entry.version, bytes.slice(place(self.bytes.start)..place(self.bytes.end))))
    }
}

/// Returns the parts of a file with these hits and the bytes around each, in their order. Parts that touch
/// are one.
pub(super) fn regions(hits: &[&Hit], around: u64) -> Vec<Region> {
    let mut hits: Vec<&Hit> = hits.to_vec();
    hits.sort_by_key(|hit| hit.bytes.start);
    let mut regions: Vec<Region> = Vec::new();
    for hit in hits {
        let bytes = hit.bytes.start.saturating_sub(around)..hit.bytes.end + around;
        match regions.last_mut().filter(|last| bytes.start <= last.bytes.end) {
            Some(last) => last.bytes.end = last.bytes.end.max(bytes.end),
            None => regions.push(Region { bytes, known: (hit.bytes.start, hit.lines.start) }),
        }
    }
    regions
}

/// Reads the ranges of several sources, those of one source at one point in time. Together they are far
/// smaller than the limit of an answer. Returns the answers to each source.
pub(crate) async fn fetched(fs: &dyn FileSystem, wanted: &[Wanted]) -> Result<Vec<Answers>> {
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

/// Returns the ranges that [`memory`] needs: meta, abstract, overview and the content.
pub(super) fn wanted_of_memory(uri: &Uri, dir: &TreePath, hits: &[LayerHit]) -> Wanted {
    let file = |name: &str| TreePath::from_row(dir.key(), name);
    let layer = ByteRange { offset: 0, length: LAYER };
    let layers = [META, ABSTRACT, OVERVIEW].map(|name| (At::Path(file(name)), layer));
    layers
        .into_iter()
        .chain(wanted_of_file(&file(text_of(uri)), &of_level(hits, Some(Level::Content))))
        .collect()
}

/// Returns the hits in a layer.
pub(super) fn of_level(hits: &[LayerHit], level: Option<Level>) -> Vec<&Hit> {
    hits.iter().filter(|(own, _)| *own == level).map(|(_, hit)| hit).collect()
}

/// Returns the parts of a memory in this directory; `None` if it does not exist, or is not valid at `time`.
pub(super) fn memory(
    (uri, dir): (&Uri, &TreePath),
    time: Timestamp,
    (hits, question): (&[LayerHit], &Question),
    mut answers: Answers,
) -> Result<Option<Parts>> {
    let file = |name: &str| TreePath::from_row(dir.key(), name);
    let meta = answers.due()?;
    // Layers may be missing, and are then left out.
    let [brief, overview] = [answers.due(), answers.due()].map(Result::ok);
    // The answers come in the order of `wanted_of_memory`.
    let Ok(meta) = Meta::parse(&meta.1) else { return Ok(None) };
    if meta.status != Status::Active || !meta.is_valid_at(time) {
        return Ok(None);
    }
    let of_content = of_level(hits, Some(Level::Content));
    let (mut parts, checksum) =
        content(&file(text_of(uri)), Some(Level::Content), (&of_content, question), answers)?;
    // A layer is shown only if it describes the current content. It may be older after the content was edited
    // by hand.
    let holds = |of: fn(&Layers) -> &Layer| {
        let Some(layers) = &meta.layers else { return true };
        let describes = |sha256: &String| of(layers).content_sha256 == *sha256;
        of(layers).origin != Origin::Stale && checksum.as_ref().is_none_or(describes)
    };
    let (has_brief, has_overview) = (holds(|layers| &layers.brief), holds(|layers| &layers.overview));
    let best_hit = |level| {
        let hits = of_level(hits, Some(level)).into_iter();
        hits.max_by(|one, other| one.score.total_cmp(&other.score))
    };
    // By score: a short layer ranks higher than a content that says the same.
    let best = |level| best_hit(level).map_or(0.0, |hit| hit.score);
    let rank = |level| best_hit(level).map_or(0.0, |hit| hit.rank);
    let layers = [
        (brief.filter(|_| has_brief), ABSTRACT, Level::Abstract, What::Abstract),
        (overview.filter(|_| has_overview), OVERVIEW, Level::Overview, What::Overview),
    ];
    let content_score = best(Level::Content);
    // Several layers of one text do not add up: only the best one was found.
    let found = [Level::Overview, Level::Abstract]
        .into_iter()
        .filter(|level| best(*level) > content_score)
        .max_by(|one, other| best(*one).total_cmp(&best(*other)));
    for (read, name, level, what) in layers {
        // A layer over the read limit is omitted, not cut.
        let read = read.filter(|(entry, bytes)| entry.size == bytes.len() as u64 && !bytes.is_empty());
        let Some((entry, bytes)) = read else { continue };
        let form = whole(parts.files.len(), &entry, &SearchedText::new(&[], &bytes, &[]), what);
        let layer = SourceFile {
            path: file(name),
            level: Some(level),
            version: entry.version,
            time: entry.mtime,
            is_log: false,
            head: OnceLock::new(),
        };
        if found == Some(level) {
            let score_parts = best_hit(level).map(|hit| hit.parts).unwrap_or_default();
            parts.units.insert(0, unit((rank(level), score_parts), true, vec![form], entry.mtime));
        } else if level == Level::Abstract && !parts.units.is_empty() {
            // In place of a passage that does not fit the budget.
            parts.units[0].forms.push(form);
        } else if level == Level::Overview && parts.whole.is_none() {
            let rank = rank(Level::Content).max(rank(level));
            parts.units.push(unit((rank, ScoreParts::default()), false, vec![form], entry.mtime));
        } else {
            continue;
        }
        parts.files.push(layer);
    }
    Ok(Some(parts))
}

/// Returns the ranges that [`file()`] needs: the beginning, and the surroundings of the hits behind it.
pub(super) fn wanted_of_file(path: &TreePath, hits: &[&Hit]) -> Wanted {
    let start = (At::from(path), ByteRange { offset: 0, length: START });
    let around = regions(hits, CONTEXT as u64);
    let behind = around.iter().filter(|region| !region.is_in_start());
    std::iter::once(start).chain(behind.map(|region| region.wanted(path))).collect()
}

/// Returns the parts of a file that belongs to no memory.
pub(super) fn file(
    path: &TreePath,
    (hits, question): (&[&Hit], &Question),
    answers: Answers,
) -> Result<Option<Parts>> {
    Ok(Some(content(path, None, (hits, question), answers)?.0))
}

/// Returns the parts of a text, and the checksum of a short one before its secrets are masked.
fn content(
    path: &TreePath,
    level: Option<Level>,
    (hits, question): (&[&Hit], &Question),
    mut answers: Answers,
) -> Result<(Parts, Option<String>)> {
    let first = answers.due()?;
    let (entry, start) = &first;
    let (version, time) = (entry.version, entry.mtime);
    let (path, head) = (path.clone(), OnceLock::new());
    let mut parts = Parts {
        files: vec![SourceFile { path, level, version, time, is_log: false, head }],
        ..Parts::default()
    };
    let is_short = entry.size <= WHOLE;
    let checksum = is_short.then(|| sha256(start));
    // Searched for secrets once, however many pieces of it are shown.
    let searched = is_short.then(|| SearchedText::new(&[], start, &[]));
    if !start.is_empty() {
        parts.whole = searched.as_ref().map(|searched| whole(0, entry, searched, What::Whole));
    }
    let undivided = parts.whole.as_ref().filter(|_| entry.size <= UNDIVIDED).cloned();
    let mut around = Vec::new();
    for region in regions(hits, CONTEXT as u64) {
        let (read, bytes) = region.text(&first, &mut answers)?;
        // The positions of a hit are only valid in its own version.
        let is_valid = |hit: &Hit| read == hit.version && version == hit.version;
        let is_start = region.is_in_start() && region.bytes.start == 0;
        let searched = searched.as_ref().filter(|_| is_start);
        let text = RegionText { bytes: &bytes, from: region.bytes.start, known: region.known, searched };
        for hit in hits.iter().filter(|hit| region.contains(hit) && is_valid(hit)) {
            let passage = region.place(&hit.bytes, bytes.len());
            let forms = text.forms(passage, question, undivided.as_ref());
            if !forms.is_empty() {
                parts.units.push(unit((hit.rank, hit.parts), true, forms, time));
            }
        }
        // The line of its first hit is known.
        if undivided.is_none() && hits.iter().all(|hit| is_valid(hit)) {
            around.push(region.kept(&bytes, entry.size));
        }
    }
    parts.around = Around::Text(around);
    // Best first, as the search returned them.
    parts.units.sort_by(|one, other| other.rank.total_cmp(&one.rank));
    if parts.units.is_empty() && !hits.is_empty() {
        let text = RegionText { bytes: start, from: 0, known: (0, 1), searched: searched.as_ref() };
        // Found in another version: the beginning.
        let mut forms = text.forms(0..start.len().min(WHOLE as usize), question, undivided.as_ref());
        if let Some(last) = forms.pop() {
            parts.units.push(unit((hits[0].rank, hits[0].parts), true, vec![last], time));
        }
    }
    if let (Some(whole), Some(first)) = (undivided, parts.units.first_mut()) {
        let shortest = first.forms.pop().filter(|form| form.what == What::Excerpt);
        first.forms = std::iter::once(whole).chain(shortest).collect();
        parts.units.truncate(1);
    }
    Ok((parts, checksum))
}

/// Bytes of a file, with a known line.
struct RegionText<'a> {
    bytes: &'a [u8],
    from: u64,
    known: (u64, u64),
    /// All of the file, if it is short and the bytes are its beginning.
    searched: Option<&'a SearchedText<'a>>,
}

impl RegionText<'_> {
    /// Returns a passage, and the best lines of it if it is long. A text that is `undivided` stands for each
    /// of its passages.
    fn forms(&self, passage: Range<usize>, question: &Question, undivided: Option<&Form>) -> Vec<Form> {
        if passage.is_empty() {
            return Vec::new();
        }
        let near;
        let (searched, origin) = match self.searched {
            Some(searched) => (searched, 0),
            None => {
                near = searched_near(self.bytes, passage.clone());
                (&near, passage.start)
            }
        };
        let cut = |piece: Range<usize>, what: What| {
            let text = searched.masked(piece.start - origin..piece.end - origin);
            self.form(piece, &text, what)
        };
        let first = undivided.cloned();
        let mut forms = vec![first.unwrap_or_else(|| cut(passage.clone(), What::Passage))];
        let shorter: Vec<usize> =
            EXCERPTS.into_iter().filter(|most| passage.len() > most + most / 2).collect();
        if !shorter.is_empty()
            && let Ok(text) = std::str::from_utf8(&self.bytes[passage.clone()])
        {
            let excerpts = Excerpts::of(text, question, &FoundTerms::of(text, question));
            for most in shorter {
                let best = excerpts.best(question, most);
                let best = passage.start + best.start..passage.start + best.end;
                forms.extend((!best.is_empty()).then(|| cut(best, What::Excerpt)));
            }
        }
        forms
    }

    /// Returns a piece as a form. `masked` is its text with masked secrets.
    fn form(&self, piece: Range<usize>, masked: &[u8], what: What) -> Form {
        let (start, end) = (piece.start, piece.end);
        let text = &self.bytes[piece];
        let known = usize::try_from(self.known.0 - self.from).unwrap_or(usize::MAX).min(self.bytes.len());
        let line = match known <= start {
            true => self.known.1 + line_feeds(&self.bytes[known..start]),
            false => self.known.1.saturating_sub(line_feeds(&self.bytes[start..known])),
        };
        let lines = line..line + line_feeds(text) + u64::from(!text.ends_with(b"\n"));
        Form {
            file: 0,
            bytes: self.from + start as u64..self.from + end as u64,
            lines,
            is_whole: false,
            text: String::from_utf8_lossy(masked).into_owned(),
            what,
            tokens: Arc::default(),
        }
    }
}

/// Returns lines near a hit as a form; `None` if too little is kept around them to find their secrets.
pub(super) fn lines_beside(around: &TextAround, lines: &Range<u64>) -> Option<Form> {
    let (bytes, piece) = (&around.text[..], around.place(lines));
    let before = if around.from == 0 { usize::MAX } else { piece.start };
    let behind = if around.is_end { usize::MAX } else { bytes.len() - piece.end };
    if !suffice(before, &bytes[piece.clone()], behind) {
        return None;
    }
    let masked = searched_near(bytes, piece.clone()).masked(0..piece.len());
    let text = RegionText { bytes, from: around.from, known: around.known, searched: None };
    Some(text.form(piece, &masked, What::Beside))
}

/// Returns a piece of a text with its secrets masked.
pub(super) fn masked_piece(bytes: &[u8], inside: Range<usize>) -> String {
    let length = inside.len();
    String::from_utf8_lossy(&searched_near(bytes, inside).masked(0..length)).into_owned()
}

/// Searches a piece of a text for secrets. It is judged with its surroundings, because a secret may be cut at
/// the edge of the piece.
fn searched_near(bytes: &[u8], inside: Range<usize>) -> SearchedText<'_> {
    let (start, end) = (inside.start, inside.end);
    let front = &bytes[start.saturating_sub(CONTEXT)..start];
    let behind = &bytes[end..(end + CONTEXT).min(bytes.len())];
    SearchedText::new(front, &bytes[inside], behind)
}

/// Returns a unit without a speaker.
pub(super) fn unit(
    (rank, score_parts): (f64, ScoreParts),
    is_found: bool,
    forms: Vec<Form>,
    time: Timestamp,
) -> Unit {
    Unit { rank, score_parts, is_found, forms, speaker: None, time }
}

fn whole(file: usize, entry: &Entry, text: &SearchedText<'_>, what: What) -> Form {
    let lines = 1..1 + String::from_utf8_lossy(text.bytes()).lines().count().max(1) as u64;
    let masked = text.masked(0..text.bytes().len());
    Form {
        file,
        bytes: 0..entry.size,
        lines,
        is_whole: true,
        text: String::from_utf8_lossy(&masked).into_owned(),
        what,
        tokens: Arc::default(),
    }
}

/// Returns the number of line feeds in a text.
pub(super) fn line_feeds(text: &[u8]) -> u64 {
    text.iter().filter(|byte| **byte == b'\n').count() as u64
}
