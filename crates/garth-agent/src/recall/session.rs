//! Reads the messages of a session that were found, with those beside them. The unit is a message, however
//! the passages of the search divide the file.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::candidates::NEIGHBOURS;
use super::messages::{Said, from_passage, said};
use super::read::{Answers, Region, Wanted, fetched, line_feeds, masked_piece, regions};
use super::retracted::retracted;
use super::unit::{Around, Form, Parts, SourceFile, Unit, What, share_of};
use garth_engine::error::Result;
use garth_engine::fs::FileSystem;
use garth_engine::model::{Entry, Hit, ScoreParts, Timestamp};
use garth_engine::path::TreePath;
use garth_engine::text::question::Question;
use garth_engine::text::secret::CONTEXT;

/// Bytes that are read on each side of a hit, 8 KiB: a message beside it is rarely longer.
const AROUND: u64 = 8 << 10;
/// Bytes that are read on each side of a hit in a longer message, 256 KiB. Of a message that is longer still,
/// a few words of the passage that was found are shown.
const WIDE: u64 = 256 << 10;
/// Limit on the hits of one session for which so much is read.
const MAX_WIDE: usize = 4;

/// Lines of a log that were read completely, by number: their bytes in the file, and the text.
pub(crate) type ReadLines = BTreeMap<u64, (Range<u64>, Bytes)>;

/// Messages in the lines that were parsed, by number: hits can share a line, and have others beside them.
type Parsed = BTreeMap<u64, Option<Said>>;

/// Limits on the times of messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) since: Option<Timestamp>,
    pub(super) until: Option<Timestamp>,
}

impl Times {
    pub(super) fn contain(&self, time: Timestamp) -> bool {
        // The last time that fits stands for all later ones, and as an end for none.
        let is_before = |until: Timestamp| time < until || until == Timestamp(i64::MAX);
        self.since.is_none_or(|since| since <= time) && self.until.is_none_or(is_before)
    }
}

/// Returns true for the messages of a session.
pub(super) fn is_log(path: &TreePath) -> bool {
    let names: Vec<&str> = path.segments().collect();
    matches!(names[..], [.., "session", _, crate::session::MESSAGES])
}

/// Returns the ranges that [`read_lines`] needs.
pub(crate) fn wanted(path: &TreePath, hits: &[&Hit]) -> Wanted {
    regions(hits, AROUND).iter().map(|region| region.wanted(path)).collect()
}

/// Reads the complete lines that hits are in, and those beside them. `answers` begins with those to
/// [`wanted`]. Returns `None` without hits, and if another session has the path now. The lines of a message
/// that is very long are missing.
pub(crate) async fn read_lines(
    fs: &dyn FileSystem,
    path: &TreePath,
    hits: &[&Hit],
    answers: &mut Answers,
) -> Result<Option<(Entry, ReadLines)>> {
    let (mut lines, mut last) = (ReadLines::new(), None);
    for region in regions(hits, AROUND) {
        let (entry, bytes) = answers.due()?;
        add_lines(&mut lines, &region, &entry, &bytes);
        last = Some(entry);
    }
    // The numbers of its lines would be wrong, and so would be what is retracted.
    let is_same = |entry: &Entry| hits.iter().all(|hit| hit.ino == entry.ino);
    let Some(entry) = last.filter(is_same) else { return Ok(None) };
    let long: Vec<&Hit> = hits.iter().copied().filter(|hit| !is_read(&lines, hit)).take(MAX_WIDE).collect();
    if !long.is_empty() {
        let wide = regions(&long, WIDE);
        let wanted: Wanted = wide.iter().map(|region| region.wanted(path)).collect();
        for mut answers in fetched(fs, &[wanted]).await? {
            for region in &wide {
                let (entry, bytes) = answers.due()?;
                if is_same(&entry) {
                    add_lines(&mut lines, region, &entry, &bytes);
                }
            }
        }
    }
    Ok(Some((entry, lines)))
}

/// Returns true if one of the lines of a hit was read.
fn is_read(lines: &ReadLines, hit: &Hit) -> bool {
    hit.lines.clone().any(|line| lines.contains_key(&line))
}

/// Returns the found messages of a session that are not retracted, and those beside them. Without
/// `may_withhold`, none is retracted.
pub(super) async fn session(
    fs: &dyn FileSystem,
    path: &TreePath,
    hits: &[&Hit],
    (question, times): (&Question, Times),
    (mut answers, may_withhold): (Answers, bool),
) -> Result<Option<Parts>> {
    let Some((entry, mut lines)) = read_lines(fs, path, hits, &mut answers).await? else { return Ok(None) };
    // A found message can have one beside it, and both together further neighbours.
    let reach = 1 + NEIGHBOURS as u64;
    let shown = hits.iter().flat_map(|hit| hit.lines.start.saturating_sub(reach)..hit.lines.end + reach);
    let shown: BTreeSet<u64> = shown.collect();
    let withheld = match may_withhold {
        true => retracted(fs, path, &shown).await?,
        false => HashSet::new(),
    };
    // No message is shown that was not looked up.
    lines.retain(|line, _| shown.contains(line) && !withheld.contains(line));
    let mut unread = said_in(fs, path, &unread(hits, &lines, &withheld), question).await?;
    let file = SourceFile {
        path: path.clone(),
        level: None,
        version: entry.version,
        time: entry.mtime,
        is_log: true,
        head: OnceLock::new(),
    };
    let (mut found, mut order): (BTreeMap<u64, Unit>, _) = (BTreeMap::new(), Vec::new());
    let mut parsed = Parsed::new();
    for hit in hits {
        if let Some(said) = unread.remove(&hit.bytes.start) {
            let line = hit.lines.start..hit.lines.start + 1;
            let unit = unit(&file, (line, hit.bytes.clone()), said, (hit.rank, hit.parts), true);
            found.insert(hit.lines.start, unit);
            order.push(hit.lines.start);
        }
        let said = in_hit(hit, &lines, (question, &mut parsed))?;
        // The passage of a hit can have messages without a word of the question.
        let most = said.iter().map(|(_, _, said)| said.words).fold(0.0, f64::max);
        let share = |words: f64| if most == 0.0 { 1.0 } else { words / most };
        for (line, bytes, said) in said {
            let share = share(said.words);
            let rank = hit.rank * share;
            if rank == 0.0 || found.get(&line).is_some_and(|unit| unit.rank >= rank) {
                continue;
            }
            let rank = (rank, share_of(hit.parts, share));
            found.insert(line, unit(&file, (line..line + 1, bytes), said, rank, true));
            order.push(line);
        }
    }
    found.retain(|_, unit| times.contain(unit.time));
    let beside = beside(&file, &found, &lines, (question, times, &mut parsed))?;
    // In the order of the search, which decides among units of equal rank.
    let mut units: Vec<Unit> = order.into_iter().filter_map(|line| found.remove(&line)).collect();
    units.extend(beside);
    Ok(Some(Parts { files: vec![file], units, whole: None, around: around(&lines) }))
}

/// Keeps the messages that may be neighbours of shown ones. Drops what else was read with them.
fn around(lines: &ReadLines) -> Around {
    let short = lines.iter().filter(|(_, (_, text))| text.len() as u64 <= AROUND);
    let kept = |text: &Bytes| Bytes::copy_from_slice(text);
    Around::Messages(short.map(|(line, (bytes, text))| (*line, (bytes.clone(), kept(text)))).collect())
}

/// Returns the messages before and after the found ones.
fn beside(
    file: &SourceFile,
    found: &BTreeMap<u64, Unit>,
    lines: &ReadLines,
    (question, times, parsed): (&Question, Times, &mut Parsed),
) -> Result<Vec<Unit>> {
    let mut ranks: BTreeMap<u64, f64> = BTreeMap::new();
    for (line, unit) in found {
        for next in [line.saturating_sub(1), line + 1] {
            if !found.contains_key(&next) {
                let rank = ranks.entry(next).or_insert(0.0);
                *rank = rank.max(unit.rank);
            }
        }
    }
    let mut beside = Vec::new();
    for (line, rank) in ranks {
        let Some((bytes, text)) = lines.get(&line) else { continue };
        let Some(said) = message(line, text, (question, &mut *parsed))? else { continue };
        let rank = (rank, ScoreParts::default());
        let unit = unit(file, (line..line + 1, bytes.clone()), said, rank, false);
        beside.extend(times.contain(unit.time).then_some(unit));
    }
    Ok(beside)
}

/// Returns the messages in the lines of a hit.
fn in_hit(
    hit: &Hit,
    lines: &ReadLines,
    (question, parsed): (&Question, &mut Parsed),
) -> Result<Vec<(u64, Range<u64>, Said)>> {
    let mut all = Vec::new();
    for (line, (bytes, text)) in lines.range(hit.lines.clone()) {
        // The last line of a hit may only be touched by its line feed.
        if bytes.start < hit.bytes.end {
            let said = message(*line, text, (question, &mut *parsed))?;
            all.extend(said.map(|said| (*line, bytes.clone(), said)));
        }
    }
    Ok(all)
}

/// Returns the message in a line; `None` if there is none. A line is parsed once.
fn message(line: u64, text: &[u8], (question, parsed): (&Question, &mut Parsed)) -> Result<Option<Said>> {
    if let Some(known) = parsed.get(&line) {
        return Ok(known.clone());
    }
    let said = said(text, question)?;
    parsed.insert(line, said.clone());
    Ok(said)
}

/// Returns the best hit in each message that is too long to be read, and is not withheld.
fn unread<'a>(hits: &[&'a Hit], lines: &ReadLines, withheld: &HashSet<u64>) -> Vec<&'a Hit> {
    let mut starts = BTreeSet::new();
    let mut unread: Vec<&'a Hit> = hits.to_vec();
    unread.retain(|hit| !is_read(lines, hit) && !hit.lines.clone().any(|line| withheld.contains(&line)));
    // The search returns the best hits first.
    unread.retain(|hit| starts.insert(hit.lines.start));
    unread
}

/// Returns a few words of each of these hits, as of a message, by the start of the hit.
async fn said_in(
    fs: &dyn FileSystem,
    path: &TreePath,
    hits: &[&Hit],
    question: &Question,
) -> Result<BTreeMap<u64, Said>> {
    let around = regions(hits, CONTEXT as u64);
    let mut all = BTreeMap::new();
    if around.is_empty() {
        return Ok(all);
    }
    let wanted: Wanted = around.iter().map(|region| region.wanted(path)).collect();
    for mut answers in fetched(fs, &[wanted]).await? {
        for region in &around {
            let (entry, bytes) = answers.due()?;
            let is_in = |hit: &Hit| region.contains(hit) && hit.ino == entry.ino;
            for hit in hits.iter().filter(|hit| is_in(hit)) {
                let passage = masked_piece(&bytes, region.place(&hit.bytes, bytes.len()));
                // Empty if the file is shorter than it was.
                if !passage.trim().is_empty() {
                    all.insert(hit.bytes.start, from_passage(&passage, question));
                }
            }
        }
    }
    Ok(all)
}

/// Returns the unit of a message.
pub(super) fn unit(
    file: &SourceFile,
    (lines, bytes): (Range<u64>, Range<u64>),
    said: Said,
    (rank, score_parts): (f64, ScoreParts),
    is_found: bool,
) -> Unit {
    let Said { who, texts, is_part, time, .. } = said;
    let forms = texts.into_iter().enumerate().map(|(place, text)| {
        let what = match (is_found, is_part || place > 0) {
            (false, _) => What::Beside,
            (true, false) => What::Message,
            (true, true) => What::PartOfMessage,
        };
        let (bytes, lines) = (bytes.clone(), lines.clone());
        Form { file: 0, bytes, lines, is_whole: false, text, what, tokens: Arc::default() }
    });
    let (forms, time) = (forms.collect(), time.unwrap_or(file.time));
    Unit { rank, score_parts, is_found, forms, speaker: Some(who), time }
}

/// Adds the lines of a region that are complete.
fn add_lines(lines: &mut ReadLines, region: &Region, entry: &Entry, bytes: &Bytes) {
    let before = usize::try_from(region.known.0 - region.bytes.start).unwrap_or(usize::MAX).min(bytes.len());
    let mut number = region.known.1.saturating_sub(line_feeds(&bytes[..before]));
    let (mut at, mut is_start) = (0, region.bytes.start == 0);
    while at < bytes.len() {
        let feed = bytes[at..].iter().position(|byte| *byte == b'\n').map(|length| at + length);
        let is_end = region.bytes.start + bytes.len() as u64 >= entry.size;
        let Some(end) = feed.or(is_end.then_some(bytes.len())) else { break };
        // The first line may have begun before the region.
        if is_start {
            let place = region.bytes.start + at as u64..region.bytes.start + end as u64;
            lines.insert(number, (place, bytes.slice(at..end)));
        }
        (at, number, is_start) = (end + 1, number + 1, true);
    }
}
