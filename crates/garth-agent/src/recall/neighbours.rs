//! Neighbours: spends what is left of the budget on the texts before and after shown pieces, which were read
//! with them.

use std::collections::BTreeMap;
use std::ops::Range;

use bytes::Bytes;

use super::age::{AgedRank, Ageing};
use super::budget::Choice;
use super::candidates::{NEIGHBOURS, RankedCandidates};
use super::messages::said;
use super::request::Recall;
use super::session::Times;
use super::unit::{Around, Form, TextAround};
use super::{read, session};
use crate::count::count_to;
use garth_engine::error::Result;
use garth_engine::model::ScoreParts;
use garth_engine::text::question::Question;

/// Limit on the bytes of a group of lines. A longer line is a group by itself.
const GROUP: usize = 480;
/// Number of neighbours in a row that find no room in the budget, after which no more are tried.
const IN_VAIN: usize = 8;

/// Side of a shown piece, which grows.
#[derive(Clone, Copy, Debug)]
struct Side {
    candidate: usize,
    /// False for the side before the piece.
    is_after: bool,
    /// Start or end of the piece: a line of a session, a byte of another file.
    at: u64,
}

/// Result of the growth of a side by one neighbour.
#[derive(Clone, Copy, Debug)]
enum Growth {
    /// The piece begins or ends here now.
    To(u64),
    /// There is no further neighbour, or it must not be shown.
    Ended,
    /// The neighbour does not fit the budget.
    NoRoom,
}

/// Spends the tokens left on neighbours of what is shown, and then again on what was found and does not need
/// a fence of its own any more.
///
/// # Errors
/// `TimedOut` if the time to compute is over.
pub(super) fn grow(
    choice: &mut Choice<'_>,
    (asked, question): (&Recall, &Question),
    gathered: &RankedCandidates,
) -> Result<()> {
    let sides = sides(choice, Ageing { now: gathered.now, half_life: asked.half_life });
    let times = Times { since: asked.since, until: asked.until };
    if grow_sides(choice, sides, NEIGHBOURS, (question, times))? {
        choice.offer_rest(asked, gathered);
    }
    Ok(())
}

/// Adds at most `most` neighbours to each side, one in each round. Returns true if any was added. A side ends
/// at a neighbour that does not fit, so that no piece has a gap.
fn grow_sides(
    choice: &mut Choice<'_>,
    mut sides: Vec<Side>,
    most: usize,
    (question, times): (&Question, Times),
) -> Result<bool> {
    let (mut has_grown, mut in_vain) = (false, 0);
    for _ in 0..most {
        let mut growing = Vec::with_capacity(sides.len());
        for side in sides {
            if in_vain == IN_VAIN || choice.room() == 0 {
                return Ok(has_grown);
            }
            match grow_side(choice, side, (question, times))? {
                Growth::To(at) => {
                    growing.push(Side { at, ..side });
                    (has_grown, in_vain) = (true, 0);
                }
                Growth::Ended => {}
                Growth::NoRoom => in_vain += 1,
            }
        }
        sides = growing;
    }
    Ok(has_grown)
}

/// Returns the sides of the shown pieces, those of the best piece first. A complete file has none.
fn sides(choice: &Choice<'_>, ageing: Ageing) -> Vec<Side> {
    let mut pieces = Vec::new();
    for (candidate, value) in choice.candidates.iter().enumerate() {
        let is_log = matches!(value.parts.around, Around::Messages(_));
        for run in choice.runs(candidate) {
            let found = run.forms.iter().filter(|(unit, _)| unit.is_found);
            let best = found.map(|(unit, _)| ageing.of(unit.rank, unit.time)).max_by(AgedRank::order);
            let ends = (run.forms.first(), run.forms.last());
            let (Some(best), (Some((_, first)), Some((_, last)))) = (best, ends) else { continue };
            if run.file > 0 || run.forms.iter().any(|(_, form)| form.is_whole) {
                continue;
            }
            let (start, end) = match is_log {
                true => (first.lines.start, last.lines.end),
                false => (first.bytes.start, last.bytes.end),
            };
            let side = |is_after: bool, at: u64| Side { candidate, is_after, at };
            pieces.push((best, [side(false, start), side(true, end)]));
        }
    }
    // Stable: equals stay in the order of the candidates, and of their files.
    pieces.sort_by(|(one, _), (other, _)| other.order(one));
    pieces.into_iter().flat_map(|(_, sides)| sides).collect()
}

/// Adds the next neighbour to a side.
fn grow_side(choice: &mut Choice<'_>, side: Side, (question, times): (&Question, Times)) -> Result<Growth> {
    let candidates = choice.candidates;
    match &candidates[side.candidate].parts.around {
        Around::Nothing => Ok(Growth::Ended),
        Around::Messages(lines) => add_message(choice, side, lines, (question, times)),
        Around::Text(texts) => Ok(add_lines(choice, side, texts)),
    }
}

/// Adds the next message to a side.
fn add_message(
    choice: &mut Choice<'_>,
    side: Side,
    lines: &BTreeMap<u64, (Range<u64>, Bytes)>,
    (question, times): (&Question, Times),
) -> Result<Growth> {
    let (candidates, candidate) = (choice.candidates, side.candidate);
    let parts = &candidates[candidate].parts;
    let line = if side.is_after { side.at } else { side.at.saturating_sub(1) };
    let is_it = |form: &Form| form.lines.start == line;
    if choice.added(candidate).any(is_it) {
        return Ok(Growth::Ended);
    }
    let is_added = match parts.units.iter().position(|unit| unit.forms.first().is_some_and(is_it)) {
        // Another piece.
        Some(unit) if choice.form_of(candidate, unit).is_some() => return Ok(Growth::Ended),
        Some(unit) => choice.fit(candidate, unit),
        None => {
            let (Some((bytes, text)), Some(file)) = (lines.get(&line), parts.files.first()) else {
                return Ok(Growth::Ended);
            };
            let Some(said) = said(text, question)? else { return Ok(Growth::Ended) };
            let rank = (0.0, ScoreParts::default());
            let unit = session::unit(file, (line..line + 1, bytes.clone()), said, rank, false);
            if !times.contain(unit.time) {
                return Ok(Growth::Ended);
            }
            choice.add(candidate, unit)
        }
    };
    let edge = if side.is_after { line + 1 } else { line };
    Ok(if is_added { Growth::To(edge) } else { Growth::NoRoom })
}

/// Adds the next group of lines to a side.
fn add_lines(choice: &mut Choice<'_>, side: Side, texts: &[TextAround]) -> Growth {
    let (candidates, candidate) = (choice.candidates, side.candidate);
    let parts = &candidates[candidate].parts;
    let is_in = |text: &&TextAround| text.shown.start <= side.at && side.at <= text.shown.end;
    let (Some(text), Some(file)) = (texts.iter().find(is_in), parts.files.first()) else {
        return Growth::Ended;
    };
    // Passages in any form, because a longer one may be shown later.
    let passages = parts.units.iter().filter_map(|unit| unit.forms.first());
    let others = passages.chain(choice.added(candidate)).filter(|form| form.file == 0);
    let limit = match side.is_after {
        true => others.map(|form| form.bytes.start).filter(|start| *start >= side.at).min(),
        false => others.map(|form| form.bytes.end).filter(|end| *end <= side.at).max(),
    };
    if limit == Some(side.at) {
        return add_passage(choice, side);
    }
    let limit = limit.unwrap_or(if side.is_after { u64::MAX } else { 0 });
    let Some(bytes) = group(text, side, limit) else { return Growth::Ended };
    // Before it is searched for secrets, which takes longer.
    let plain = String::from_utf8_lossy(&text.text[text.place(&bytes)]);
    if count_to(&plain, choice.room()).is_none() {
        return Growth::NoRoom;
    }
    let Some(form) = read::lines_beside(text, &bytes) else { return Growth::Ended };
    let unit = read::unit((0.0, ScoreParts::default()), false, vec![form], file.time);
    match choice.add(candidate, unit) {
        true => Growth::To(if side.is_after { bytes.end } else { bytes.start }),
        false => Growth::NoRoom,
    }
}

/// Takes the passage that touches a side, if it is not shown: it needs no fence of its own there.
fn add_passage(choice: &mut Choice<'_>, side: Side) -> Growth {
    let (candidates, candidate) = (choice.candidates, side.candidate);
    let touches = |form: &Form| {
        let edge = if side.is_after { form.bytes.start } else { form.bytes.end };
        form.file == 0 && edge == side.at
    };
    let mut units = candidates[candidate].parts.units.iter();
    let Some(unit) = units.position(|unit| unit.forms.first().is_some_and(touches)) else {
        return Growth::Ended;
    };
    if choice.form_of(candidate, unit).is_some() {
        return Growth::Ended;
    }
    if !choice.fit(candidate, unit) {
        return Growth::NoRoom;
    }
    match choice.form_of(candidate, unit).filter(|form| touches(form)) {
        Some(form) => Growth::To(if side.is_after { form.bytes.end } else { form.bytes.start }),
        // A part of it that does not touch the piece.
        None => Growth::Ended,
    }
}

/// Returns the lines at a side that are its next neighbour: complete ones of at most [`GROUP`] bytes, or one
/// that is longer, with the blank lines before it. `limit` is where another piece or the file ends or begins.
fn group(text: &TextAround, side: Side, limit: u64) -> Option<Range<u64>> {
    let range = match side.is_after {
        true => side.at..text.shown.end.min(limit),
        false => text.shown.start.max(limit)..side.at,
    };
    let bytes = &text.text[text.place(&range)];
    // A line that goes on beyond what was read is not complete.
    let is_complete = match side.is_after {
        true => range.end == limit || (text.is_end && range.end == text.from + text.text.len() as u64),
        false => range.start == limit,
    };
    let feeds = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let mut lengths: Vec<usize> = match side.is_after {
        true => feeds.collect(),
        // A line begins after the line feed of the line before it.
        false => feeds.map(|start| bytes.len() - start).filter(|length| *length > 0).rev().collect(),
    };
    if is_complete && lengths.last() != Some(&bytes.len()) {
        lengths.push(bytes.len());
    }
    let has_text = |length: &usize| {
        let lines = match side.is_after {
            true => &bytes[..*length],
            false => &bytes[bytes.len() - length..],
        };
        !lines.trim_ascii().is_empty()
    };
    let short = lengths.iter().copied().rfind(|length| *length <= GROUP).filter(has_text);
    let length = short.or_else(|| lengths.iter().copied().find(has_text))? as u64;
    Some(if side.is_after { side.at..side.at + length } else { side.at - length..side.at })
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::super::budget::spend;
    use super::super::fence::{Key, Piece, fenced, harmless, named};
    use super::super::run::{Run, piece_of};
    use super::super::unit::{Candidate, Parts, SourceFile, Unit};
    use super::*;
    use crate::count::count;
    use garth_engine::model::{Ino, Seq, Timestamp, VersionId};
    use garth_engine::path::TreePath;

    fn question() -> Question {
        Question::parse("quokka").unwrap()
    }

    /// Returns the candidates of one file with these units, which fit the question.
    fn gathered(is_log: bool, around: Around, units: impl Fn(&SourceFile) -> Vec<Unit>) -> RankedCandidates {
        let file = SourceFile {
            path: TreePath::parse("/zoo/messages.jsonl").unwrap(),
            level: None,
            version: VersionId { seq: Seq(1), ino: Ino(2) },
            time: Timestamp(0),
            is_log,
            head: OnceLock::new(),
        };
        let parts = Parts { units: units(&file), files: vec![file], whole: None, around };
        let (source, found_in) = ("/zoo/messages.jsonl".to_owned(), Vec::new());
        let candidate = Candidate { source, rank: 1.0, score_parts: ScoreParts::default(), found_in, parts };
        RankedCandidates { candidates: vec![candidate], fits: true, ..RankedCandidates::default() }
    }

    /// Returns a session with these messages. Those at the lines `found` were found, and those at the lines
    /// that are `kept` can be neighbours.
    fn talk(texts: &[&str], found: &[u64], kept: impl Fn(u64) -> bool) -> RankedCandidates {
        let (mut lines, mut at) = (BTreeMap::new(), 0);
        for (number, text) in (1_u64..).zip(texts) {
            let start = format!(r#"{{"id":"msg-{number}","role":"user","created_at":"2026-01-12T07:48:00Z""#);
            let line = format!(r#"{start},"content":"{text}"}}"#);
            let bytes = at..at + line.len() as u64;
            at = bytes.end + 1;
            lines.insert(number, (bytes, Bytes::from(line)));
        }
        let mut around = lines.clone();
        around.retain(|line, _| kept(*line));
        gathered(true, Around::Messages(around), |file| {
            let unit = |line: &u64| {
                let (bytes, text) = &lines[line];
                let said = said(text, &question()).unwrap().unwrap();
                let rank = (1.0, ScoreParts::default());
                session::unit(file, (*line..line + 1, bytes.clone()), said, rank, true)
            };
            found.iter().map(unit).collect()
        })
    }

    /// Bytes of a line of [`notes`], which has 100 of them.
    const LINE: u64 = 23;

    /// Returns a part of a file that begins at this byte, with the numbers of its lines from 1. These lines
    /// were found, and those at the bytes `shown` of the part can be neighbours.
    fn notes(from: u64, found: &[u64], shown: Range<u64>) -> RankedCandidates {
        let text: String = (1..=100).map(|number| format!("Line {number:03} of the notes.\n")).collect();
        let text = text.into_bytes();
        assert_eq!(text.len() as u64, 100 * LINE);
        let shown = from + shown.start..from + shown.end;
        // All that is around them decided about the secrets of the found lines.
        let all =
            TextAround { shown: 0..100 * LINE, from: 0, text: text.clone(), known: (0, 1), is_end: true };
        let around = TextAround { shown, from, text, known: (from, 1), is_end: true };
        gathered(false, Around::Text(vec![around]), |file| {
            let unit = |line: &u64| {
                let mut form = read::lines_beside(&all, &((line - 1) * LINE..line * LINE)).unwrap();
                form.bytes = from + form.bytes.start..from + form.bytes.end;
                read::unit((1.0, ScoreParts::default()), true, vec![form], file.time)
            };
            found.iter().map(unit).collect()
        })
    }

    /// Returns the lines and the text of each piece that is shown.
    fn shown(choice: &Choice<'_>) -> Vec<(Range<u64>, String)> {
        let text = |unit: &Unit, form: &Form| match &unit.speaker {
            Some(speaker) => format!("{speaker}{}", form.text),
            None => harmless(&form.text),
        };
        let runs = choice.runs(0);
        let texts = |run: &Run<'_>| run.forms.iter().map(|(unit, form)| text(unit, form)).collect::<String>();
        runs.iter().map(|run| (run.range(), texts(run))).collect()
    }

    /// Returns the pieces that are shown in `room` tokens. Checks that they fit, do not overlap, and contain
    /// what is shown without neighbours.
    fn pieces(gathered: &RankedCandidates, room: usize) -> Vec<(Range<u64>, String)> {
        let asked = Recall::new("quokka");
        let mut choice = spend(&asked, gathered, room);
        let before = shown(&choice);
        grow(&mut choice, (&asked, &question()), gathered).unwrap();
        let pieces = shown(&choice);
        for (lines, _) in &before {
            let stays = pieces.iter().any(|(own, _)| own.start <= lines.start && lines.end <= own.end);
            assert!(stays, "{before:?} {pieces:?}");
        }
        let names = piece_of(&gathered.candidates[0], 0);
        let mut tokens = count(&named(10, &names.piece()));
        for (run, (_, text)) in choice.runs(0).iter().zip(&pieces) {
            let lines = run.lines();
            let piece = Piece { lines: &lines, text, ..names.piece() };
            tokens += count(&fenced(&Key::new([9; 32]), 10, &piece));
            let is_apart = |pair: &[(&Unit, &Form)]| pair[0].1.bytes.end <= pair[1].1.bytes.start;
            assert!(run.forms.windows(2).all(is_apart), "{pieces:?}");
        }
        assert!(pieces.is_empty() || tokens <= room, "{tokens} of {room}: {pieces:?}");
        pieces
    }

    /// Returns the lines of the pieces that are shown in a large budget.
    fn lines(gathered: &RankedCandidates) -> String {
        let pieces = pieces(gathered, 4_000);
        let lines: Vec<String> = pieces.iter().map(|(lines, _)| format!("{lines:?}")).collect();
        lines.join(" ")
    }

    const TALK: [&str; 12] = ["Fine."; 12];
    const ALL: Range<u64> = 0..100 * LINE;

    #[test]
    fn neighbours_are_added_before_and_after() {
        assert_eq!(lines(&talk(&TALK, &[6], |_| true)), "4..9");
        // Groups of 20 lines.
        assert_eq!(lines(&notes(0, &[50], ALL)), "10..91");
        // Near the beginning and the end.
        assert_eq!(lines(&talk(&TALK, &[1, 11], |_| true)), "1..4 9..13");
        assert_eq!(lines(&notes(0, &[1, 95], ALL)), "1..42 55..101");
    }

    #[test]
    fn neighbours_fill_but_never_exceed_the_budget() {
        for (gathered, step) in [(talk(&TALK, &[6], |_| true), 3), (notes(0, &[50], ALL), 40)] {
            let mut all = Vec::new();
            for room in (0..1_000).step_by(step) {
                let pieces = pieces(&gathered, room);
                // Without randomness.
                assert_eq!(pieces, self::pieces(&gathered, room));
                all.extend(pieces.into_iter().map(|(lines, _)| lines));
            }
            all.dedup();
            // One before and one after, before two on one side.
            assert_eq!(all.len(), 5, "{all:?}");
            assert!(all.windows(2).all(|pair| pair[1].start <= pair[0].start && pair[0].end <= pair[1].end));
            assert!(all[1].start < all[0].start && all[2].end > all[1].end, "{all:?}");
        }
    }

    #[test]
    fn pieces_that_meet_are_one() {
        assert_eq!(lines(&talk(&TALK, &[4, 8], |_| true)), "2..11");
        assert_eq!(lines(&talk(&TALK, &[2, 11], |_| true)), "1..5 9..13");
        let pieces = pieces(&notes(0, &[20, 50], ALL), 4_000);
        assert_eq!((pieces.len(), pieces[0].0.clone()), (1, 1..91));
        assert_eq!(pieces[0].1.matches("Line 0").count(), 90);
    }

    #[test]
    fn nothing_outside_the_kept_text_is_shown() {
        assert_eq!(lines(&talk(&TALK, &[6], |line| (5..8).contains(&line))), "5..8");
        // A message that is missing, such as a retracted one, ends its side.
        assert_eq!(lines(&talk(&TALK, &[6], |line| line != 5 && line != 8)), "6..8");
        // Lines 46 and 55 are incomplete.
        assert_eq!(lines(&notes(0, &[50], 1_040..1_250)), "47..55");
        // Too little is known of what is before them.
        assert_eq!(lines(&notes(23_000, &[50], ALL)), "50..51");
    }

    #[test]
    fn secrets_of_neighbours_are_masked() {
        let said = format!("of the staging {}: x7Kq9mZ2pL", "password");
        let pieces = pieces(&talk(&["Fine.", &said, "The quokka hops.", "Fine."], &[3], |_| true), 1_000);
        assert_eq!((pieces.len(), pieces[0].0.clone()), (1, 1..5));
        assert!(pieces[0].1.contains("[secret: password]"), "{pieces:?}");
    }

    #[test]
    fn found_message_beside_a_neighbour_needs_no_fence() {
        let long = "The quokka sleeps in the shade of a tree, and wakes up late. ".repeat(3);
        let mut texts = TALK;
        texts[7] = long.trim_end();
        let gathered = talk(&texts, &[5, 8], |_| true);
        let is_shown =
            |pieces: Vec<(Range<u64>, String)>| pieces.iter().any(|(_, text)| text.contains("tree"));
        let gained = (60..250).filter(|room| {
            let alone = shown(&spend(&Recall::new("quokka"), &gathered, *room));
            !is_shown(alone) && is_shown(pieces(&gathered, *room))
        });
        assert!(gained.count() > 0);
    }
}
